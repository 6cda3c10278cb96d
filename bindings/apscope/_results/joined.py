"""The tables of several files as one, in the order of one whole run, a group of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .row_groups import ROWS, arrow
from .stored import OnFile, Stored

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

#: The columns that name a row, in the order of the rows; tables without schemes have the first.
_ROW = ("trace", "step", "tensor", "scheme", "topology", "stage")


def in_order(frame: pd.DataFrame, provenance: dict[str, Any]) -> pd.DataFrame:
    """Rows of a table of results, histograms or noise in the order of one whole run."""
    return frame.iloc[_order(_place(frame, provenance))].reset_index(drop=True)


class Joined(OnFile):
    """Tables with the same columns, each in the order of one run, as one table in that order.

    Parameters
    ----------
    parts : sequence of Stored or Joined
    provenance : dict
        Of the whole: its traces, with their tensors, its schemes and its topologies.
    """

    def __init__(self, parts: Sequence[OnFile], provenance: dict[str, Any]) -> None:
        self._parts: list[Stored] = []
        for part in parts:
            # there are two kinds
            self._parts += part._parts if isinstance(part, Joined) else [part]  # type: ignore[list-item]
        self._provenance, self.columns = provenance, self._parts[0].columns

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def frame(self, columns: Sequence[str]) -> pd.DataFrame:
        import pandas as pd
        from pandas.api.types import union_categoricals

        order, parts = self._sorted(), [part.frame(columns) for part in self._parts]
        columns_of = {}
        for name in parts[0]:
            pieces = [part[name] for part in parts]
            columns_of[name] = (
                union_categoricals(pieces) if pieces[0].dtype == "category" else pd.concat(pieces)
            )
        whole = pd.DataFrame(
            {k: v if isinstance(v, pd.Categorical) else v.to_numpy() for k, v in columns_of.items()}
        )
        return whole.iloc[order].reset_index(drop=True)

    def whole(self) -> pd.DataFrame:
        import pandas as pd

        order = self._sorted()
        return (
            pd.concat([part.whole() for part in self._parts], ignore_index=True)
            .iloc[order]
            .reset_index(drop=True)
        )

    def groups(
        self, columns: Sequence[str] | None = None, coded: Sequence[str] = ()
    ) -> Iterator[pa.Table]:
        import pyarrow as pa

        order = self._sorted()
        begins = np.cumsum([0, *map(len, self._parts)])
        part = np.searchsorted(begins, order, side="right") - 1
        if any((np.diff(order[part == i]) < 0).any() for i in range(len(self._parts))):
            yield arrow(self.whole())  # not in the order of a run, as no replay writes it
            return
        unread = [_Unread(one.groups(columns, coded)) for one in self._parts]
        for begin in range(0, max(len(order), 1), ROWS):
            here = part[begin : begin + ROWS]
            counts = np.bincount(here, minlength=len(unread))
            rows = pa.concat_tables(
                [one.take(count) for one, count in zip(unread, counts) if count or not len(order)]
            )
            if np.count_nonzero(counts) > 1:
                places = np.empty(len(here), np.int64)
                places[np.argsort(here, kind="stable")] = np.arange(len(here))
                rows = rows.take(pa.array(places))
            yield rows

    def _sorted(self) -> np.ndarray:
        """The places of the rows, counted over the parts one after another."""
        keys = [_place(part.frame(_ROW), self._provenance) for part in self._parts]
        return _order({name: np.concatenate([key[name] for key in keys]) for name in keys[0]})


class _Unread:
    """Groups of rows of one file, taken in other portions."""

    def __init__(self, groups: Iterator[pa.Table]) -> None:
        self._groups, self._rest = groups, next(groups)

    def take(self, count: int) -> pa.Table:
        """The next rows."""
        import pyarrow as pa

        tables = [self._rest.slice(0, count)]
        missing = count - len(tables[0])
        self._rest = self._rest.slice(len(tables[0]))
        while missing:
            group = next(self._groups)
            tables.append(group.slice(0, missing))
            missing -= len(tables[-1])
            self._rest = group.slice(len(tables[-1]))
        return pa.concat_tables(tables)


def _place(frame: pd.DataFrame, provenance: dict[str, Any]) -> dict[str, np.ndarray]:
    """The place of each row's trace, step, tensor, scheme and topology in a run."""
    tensor = np.empty(len(frame), np.int64)
    for trace in provenance["traces"]:
        rows = (frame["trace"] == trace["name"]).to_numpy()
        places = {t["name"]: i for i, t in enumerate(trace["tensors"])}
        tensor[rows] = _mapped(frame["tensor"][rows], places)
    keys = {
        "trace": _mapped(
            frame["trace"], {t["name"]: i for i, t in enumerate(provenance["traces"])}
        ),
        "step": frame["step"].to_numpy(np.int64),
        "tensor": tensor,
    }
    if "scheme" in frame:
        schemes = {s: i for i, s in enumerate(provenance["schemes"])}
        keys["scheme"] = _mapped(frame["scheme"], schemes)
        # The wire, exact, the scheme's own reduction (which has no place), the requested ones.
        requested = [t for t in provenance["topologies"] if t != "exact"]
        first = {"": 0, "exact": 1}
        later = {t: len(requested) + len(first) + 1 + i for i, t in enumerate(requested)}
        keys["topology"] = _mapped(frame["topology"], first | later)
        if "stage" in frame:  # what is sent for an order of additions is at the wire's place
            phases = [t for t in requested if not _core.is_order(t)]
            sent = (frame["stage"] == "wire") & ~frame["topology"].isin(phases)
            keys["topology"][sent.to_numpy()] = 0
    return keys


def _mapped(texts: pd.Series, places: dict[str, int]) -> np.ndarray:
    """The place of each text; after all others if it has none."""
    texts = texts.astype("category")
    of_level = [places.get(level, len(places)) for level in texts.cat.categories]
    return np.array([*of_level, len(places)])[texts.cat.codes.to_numpy()]  # -1: the last, none


def _order(keys: dict[str, np.ndarray]) -> np.ndarray:
    """The places of rows in ascending order of keys, of equal ones the first first."""
    whole, size = np.zeros(len(keys["step"]), np.int64), 1
    for key in keys.values():
        known, place = np.unique(key, return_inverse=True)
        if (size := size * (len(known) + 1)) >= 2**62:
            return np.lexsort(list(reversed(keys.values())))
        whole = whole * (len(known) + 1) + place
    return np.argsort(whole, kind="stable")  # fast where the rows are in order, part by part
