"""Results: the table of a replay, its exponent histograms and where they came from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._folders.durable import digest_of
from .columns import Columns, arrow_table, frame_of, length
from .csv_table import read_csv, write_csv
from .folders import CSV, CSV_ROWS, FILES, MARK, TABLES, check_readable, writing_results

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from .._folders.writing import Writing
    from .._schemes.scheme import Scheme
    from ..cost import Network

__all__ = ["Results"]

#: The table of noise where nothing is known of it.
NO_NOISE: Columns = {
    **{name: np.zeros(0, object) for name in ("trace", "tensor", "role")},
    **{name: np.zeros(0, np.int64) for name in ("step", "workers", "elements", "blocks", "noise_blocks", "lone_blocks")},
    "without": (np.zeros(0, np.int64), np.zeros(0, bool)),
    **{name: np.zeros(0) for name in ("sum_squared_reference", "sum_noise", "sum_log2_ratio")},
}


class Results:
    """What a replay found.

    Attributes
    ----------
    provenance : dict
        Command, seed, version, schemes, topologies, traces with their hashes, shard.
    """

    def __init__(
        self,
        frame: pd.DataFrame | Columns,
        histograms: pd.DataFrame | Columns,
        provenance: dict[str, Any],
        noise: pd.DataFrame | Columns | None = None,
    ) -> None:
        self._tables: dict[str, pd.DataFrame | Columns] = {"frame": frame, "histograms": histograms, "noise": NO_NOISE if noise is None else noise}
        self.provenance = provenance
        self._states: dict[str, dict[str, dict[str, Any]]] | None = None

    @property
    def states(self) -> dict[str, dict[str, dict[str, Any]]]:
        """What stateful schemes remember after the last step: by trace, then by scheme (and tensor), arrays by name.

        `replay(..., states=)` goes on from there. Not saved.

        Raises
        ------
        ValueError
            The replay was not asked to keep them (``keep_states=True``), or the results were read from files.
        """
        if self._states is None:
            raise ValueError("these results have no states to go on from; replay with keep_states=True")
        return self._states

    @states.setter
    def states(self, states: dict[str, dict[str, dict[str, Any]]]) -> None:
        self._states = states

    def _as_frame(self, name: str) -> pd.DataFrame:
        """A table as pandas has it; made at the first use, for pandas takes longer to import than a small replay."""
        table = self._tables[name]
        if isinstance(table, Mapping):
            table = self._tables[name] = frame_of(table)
        return table

    def as_columns(self, name: str) -> Columns:
        """A table, ``frame``, ``histograms`` or ``noise``, as arrays; of results that were replayed here and of which pandas was not asked yet, without it."""
        if name not in self._tables:
            raise ValueError(f"there is no table {name!r}; it must be one of {', '.join(self._tables)}")
        table = self._tables[name]
        return table if isinstance(table, Mapping) else {column: table[column].to_numpy() for column in table.columns}

    @property
    def frame(self) -> pd.DataFrame:
        """The table: one row per trace, step, tensor, scheme, stage and topology; the columns of docs/definitions.md, section 3, in that order.

        Empty integers are ``<NA>``, empty floats NaN. Made at its first use.
        """
        return self._as_frame("frame")

    @frame.setter
    def frame(self, frame: pd.DataFrame) -> None:
        self._tables["frame"] = frame

    @property
    def histograms(self) -> pd.DataFrame:
        """Exponent histograms: trace, step, tensor, role, kind, exponent, count."""
        return self._as_frame("histograms")

    @histograms.setter
    def histograms(self, histograms: pd.DataFrame) -> None:
        self._tables["histograms"] = histograms

    @property
    def noise(self) -> pd.DataFrame:
        """The noise of the batch: per trace, step and tensor a row of all workers, then one without each; docs/definitions.md, section 16.

        Without rows where gradients are not local or of one worker.
        """
        return self._as_frame("noise")

    @noise.setter
    def noise(self, noise: pd.DataFrame) -> None:
        self._tables["noise"] = noise

    def __len__(self) -> int:
        """How many rows `frame` has."""
        table = self._tables["frame"]
        return length(table) if isinstance(table, Mapping) else len(table)

    def __bool__(self) -> bool:
        """True, without rows too."""
        return True

    def __repr__(self) -> str:
        from .show import results_text

        return results_text(self)

    def _repr_html_(self) -> str:
        from .show import results_html

        return results_html(self)

    @property
    def incomplete(self) -> str:
        """A sentence about the shards that are missing; empty for a whole replay."""
        shard, count = self.provenance.get("shard", [0, 1])
        return "" if count == 1 else f"these results are shard {shard}/{count} alone; join all {count} with apscope merge before you quote a number"

    @property
    def not_finite(self) -> str:
        """A sentence about gradients that are NaN or infinite; empty where there are none."""
        from .pooling import nonfinite

        wire = self.frame[self.frame["stage"] == "wire"]
        odd = wire[nonfinite(wire)] if {"nan", "infinite", "counted"} <= set(wire) else wire.iloc[:0]
        if not len(odd):
            return ""
        places, every = (len(rows[["trace", "step", "tensor"]].drop_duplicates()) for rows in (odd, wire))
        return (
            f"{places} of {every} layer-steps hold gradients that are NaN or infinite. They are left out of every error, and a scheme that skips such "
            "a step is charged with it."
        )

    @property
    def all_zero(self) -> str:
        """A sentence about traces all of whose gradients are zero; empty where there are none."""
        wire = self.frame.loc[self.frame["stage"] == "wire", ["trace", "counted", "nonzero"]]
        sums = wire.groupby("trace", sort=False, observed=True).sum()
        names = [str(name) for name in sums.index[(sums["counted"] > 0) & (sums["nonzero"] == 0)]]
        return f"all gradients of {', '.join(names)} are zero, so that no error is relative to them: every NMSE and cosine is empty" if names else ""

    def summary(self, *, network: Network | None = None, elements: float | None = 25.6e6, batch_factor: float = 1.0) -> pd.DataFrame:
        """Which scheme lost least: one row a trace, scheme and topology, ranked."""
        from .summary import summary

        return summary(self, network=network, elements=elements, batch_factor=batch_factor)

    def by(
        self,
        part: str,
        column: str | None = None,
        schemes: Iterable[Scheme | str] | None = None,
        *,
        topology: str | None = None,
        batch_factor: float = 1.0,
    ) -> pd.DataFrame:
        """What each scheme lost by layer, role or step: a row a scheme and part, or with `column` that figure, schemes across.

        Parameters
        ----------
        part : str
            ``layer``, ``role`` or ``step``.
        column : str, optional
            One of the columns of the table without it, such as ``error_over_noise`` or ``underflow_wire``.
        schemes : sequence of Scheme or str, optional
            Which, in any spelling; by default all.
        topology : str, optional
            By default the first topology replayed that adds; schemes with a reduction of their own keep it, but for ``exact``.
        batch_factor : float
            The noise is that of a batch so many times as large as the recorded one.

        Returns
        -------
        DataFrame
            Without `column`: ``trace``, `part`, and the columns of `summary` over the rows of that part, but for the family, the modelled times
            and ``worst_layer`` of a layer, ``worst_step`` of a step. Schemes as `summary` ranks them, layers in the trace's order, steps
            ascending. With it: rows by trace and `part`, a column a scheme, NaN where a trace lacks it.

        Raises
        ------
        ValueError
            No such part, column, scheme or topology; `batch_factor` is not a positive number.
        """
        from .breakdown import across, by

        table = by(self, part, schemes, topology=topology, batch_factor=batch_factor)
        return table if column is None else across(table, part, column)

    def compare(
        self,
        a: Scheme | str,
        b: Scheme | str | Sequence[Scheme | str],
        topology: str | None = None,
        layers: bool = True,
        *,
        against: Results | None = None,
    ) -> pd.DataFrame:
        """Scheme `a` against `b`, or against each of several, as a whole and layer by layer; `against`: other results, which have `b`."""
        from .comparison import compare

        return compare(self, a, b, topology, layers, against)

    def against(self, other: Results, topology: str | None = None) -> pd.DataFrame:
        """These results against others, of another seed, recording or version: a row a scheme, and what only one of them has.

        Parameters
        ----------
        other : Results
        topology : str, optional
            As of `compare`.

        Returns
        -------
        DataFrame
            A row a trace and scheme: ``trace``, ``scheme``, ``held_by`` (``both``, ``first``: these results, or ``second``), then the columns of `compare`,
            ``_a`` of these and ``_b`` of the others, all layers together; NaN for what only one has. Layers and steps that only one has do not count.

        Raises
        ------
        ValueError
            No trace of the one meets one of the other, by name or as the only one of each, or they have no layer and step in common.
        """
        from .against import against

        return against(self, other, topology)

    def decompose(self, a: Scheme | str, b: Scheme | str, topology: str | None = None) -> pd.DataFrame:
        """What every single difference between schemes `a` and `b` is worth, as far as these results hold the schemes between them."""
        from .differences import decompose

        return decompose(self, a, b, topology)

    def noise_facts(self, by: str | Sequence[str] = ("trace",), batch_factor: float = 1.0) -> pd.DataFrame:
        """What the noise of the batch is, of a trace, its steps or layers: ratio to the gradient, gradient noise scale, how well it is known."""
        from .noise import facts

        return facts(self, by, batch_factor)

    def pool(self, by: Sequence[str]) -> pd.DataFrame:
        """Errors pooled over all that `by` does not name: sums are added, then divided.

        Parameters
        ----------
        by : sequence of str
            Columns that name a group, such as ``["scheme", "tensor"]``. Without ``stage`` and ``topology`` the rows
            are those that schemes are ranked by: reduced ones, of a reduction of the scheme's own, else of the
            first topology replayed; the wire's of traces without. With ``stage``, those and the wire's. With
            ``topology``, all of them, every one with all tensors.

        Returns
        -------
        DataFrame
            One row a group; the columns of docs/definitions.md, section 8.

        Raises
        ------
        ValueError
            No such column; `by` lacks ``scheme`` though there are several, whose errors do not add.
        """
        import pandas as pd

        from .pooling import compared_rows, headline_rows, pool

        by = [by] if isinstance(by, str) else list(by)
        schemes = self.frame["scheme"].nunique()
        if "scheme" not in by and schemes > 1 and set(by) <= set(self.frame):
            raise ValueError(f"by={by} pools {schemes} schemes into one number, which means nothing; add 'scheme'")
        table = self.frame.reset_index(drop=True)
        compared = compared_rows(table) if "topology" in by else headline_rows(table)
        if "stage" in by or "topology" in by:
            compared = pd.concat([table[table["stage"] == "wire"], compared[compared["stage"] != "wire"]])
        return pool(compared, by)

    @staticmethod
    def read_csv(path: str | os.PathLike[str]) -> pd.DataFrame:
        """The table of a ``results.csv``, with the names as they were before CSV: see docs/definitions.md, section 3."""
        return read_csv(path)

    def save(self, folder: str | os.PathLike[str], *, force: bool = False, csv: bool | None = None) -> Path:
        """Write the RESULTS folder: results.parquet, results.csv, histograms.parquet, noise.parquet, provenance.json.

        All is written into a hidden folder beside it first and moved at the end, provenance.json last, with the size, SHA-256
        and number of rows of the others: an error leaves nothing half-written, and a reader tells a half that a kill left.
        Other files in the folder stay. One process writes a folder at a time.

        Parameters
        ----------
        folder : path-like
        force : bool
            Whether files of these names, earlier results among them, may be replaced.
        csv : bool, optional
            Whether there is a results.csv; without it where the table has at most 200,000 rows.

        Raises
        ------
        OSError
            The folder cannot be written.
        ValueError
            Another process writes the folder; `folder` is a file or a trace, a folder stands where one of its files belongs, or, without `force`, it holds
            results already, or a file of these names that is none of apscope's.
        """
        with writing_results(folder, force) as writing:
            self._write(writing, csv)
        return Path(folder)

    def _write(self, writing: Writing, csv: bool | None) -> None:
        """Writes the files as :meth:`save` does, by what `_results.folders.writing_results` gave before the replay began."""
        with writing.named():
            tables = {kind: _arrow(self._tables[kind]) for kind in dict.fromkeys(TABLES.values())}
            with_csv = len(self) <= CSV_ROWS if csv is None else csv
            files = {name: _store(writing.new / name, tables[kind]) for name, kind in TABLES.items() if name != CSV or with_csv}
            about = json.dumps(self.provenance | {"files": files}, indent=1, allow_nan=False)
            (writing.new / MARK).write_text(about + "\n", encoding="utf-8")
        writing.put_files(FILES, mark=MARK) if writing.into else writing.put_folder()
        writing.clear()

    @staticmethod
    def open(folder: str | os.PathLike[str]) -> Results:
        """Read a RESULTS folder.

        Raises
        ------
        ValueError
            A file of the folder is missing or is not what it should be.
        """
        from .opening import opened

        tables, provenance = opened(check_readable(folder))
        return Results(tables["frame"], tables["histograms"], provenance, tables["noise"])


def _store(path: Path, table: pa.Table) -> dict[str, int | str]:
    """Writes a table; what provenance.json says of the file."""
    import pyarrow.parquet as pq

    # A dictionary of numbers, few of which are alike, takes longer to make and more room than the numbers.
    few = [field.name for field in table.schema if str(field.type) in ("string", "large_string")]
    with path.open("xb") as file:
        write_csv(table, file) if path.suffix == ".csv" else pq.write_table(table, file, use_dictionary=few)
    return {**digest_of(path), "rows": table.num_rows}


def _arrow(table: pd.DataFrame | Columns) -> pa.Table:
    import pyarrow as pa

    if isinstance(table, Mapping):
        return arrow_table(table)
    if len(table):
        made = pa.Table.from_pandas(table, preserve_index=False)
        told = json.loads(made.schema.metadata[b"pandas"])
        del told["pandas_version"]  # as in `arrow_table`: the same file, whether the frame was looked at or not
        return made.replace_schema_metadata({"pandas": json.dumps(told)})
    # Of no text pyarrow cannot tell that it is text.
    return arrow_table(
        {name: (np.zeros(0, np.int64), np.zeros(0, bool)) if str(kind) == "Int64" else np.zeros(0, kind) for name, kind in table.dtypes.items()}
    )
