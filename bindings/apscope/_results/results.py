"""Results: the table of a replay, its exponent histograms and its provenance."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._arrays.checks import made_by, of_type
from .._core import AFTER_GAP
from .._folders.results import check_readable, writing_results
from .._text import clip
from .codes import CodedColumns, coded_of
from .columns import Columns, frame_of, length
from .csv_table import read_csv
from .no_rows import NO_LIMIT, NO_NOISE, NO_PERSISTENCE
from .stored import OnFile

if TYPE_CHECKING:
    import pandas as pd

    from .._folders.writing import Writing
    from .._schemes.scheme import Scheme
    from .cost import Network


def _named(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    shown = 6
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(clip(name) for name in names[:shown]) + more


class Results:
    """The results of a replay.

    Attributes
    ----------
    provenance : dict
        Command, seed, version, schemes, topologies, traces with their hashes, shard.
    """

    @made_by("Results are made by replay, or read by Results.open, not by their constructor")
    def __init__(
        self,
        frame: pd.DataFrame | Columns | OnFile,
        histograms: pd.DataFrame | Columns | OnFile,
        provenance: dict[str, Any],
        noise: pd.DataFrame | Columns | OnFile | None = None,
        limit: pd.DataFrame | Columns | OnFile | None = None,
        persistence: pd.DataFrame | Columns | OnFile | None = None,
    ) -> None:
        tables = {
            "frame": frame, "histograms": histograms, "noise": noise, "limit": limit,
            "persistence": persistence,
        }  # fmt: skip
        for name, table in tables.items():
            if not (
                isinstance(table, dict)
                or hasattr(table, "columns")
                or (table is None and name in ("noise", "limit", "persistence"))
            ):
                of_type(name, table, (), "a DataFrame")
        of_type("provenance", provenance, dict, "the dict of a replay's results")
        self._tables: dict[str, pd.DataFrame | Columns | OnFile] = {
            "frame": frame,
            "histograms": histograms,
            "noise": NO_NOISE if noise is None else noise,
            "limit": NO_LIMIT if limit is None else limit,
            "persistence": NO_PERSISTENCE if persistence is None else persistence,
        }
        self.provenance = provenance
        self._states: dict[str, dict[str, dict[str, Any]]] | None = None

    @property
    def states(self) -> dict[str, dict[str, dict[str, Any]]]:
        """States of schemes after the last step: trace, then scheme (and tensor), then name.

        `replay(..., states=)` continues from there. Not saved.

        Raises
        ------
        ValueError
            The replay did not keep them (``keep_states=True``), or the results were read from
            files.
        """
        if self._states is None:
            raise ValueError(
                "these results have no states to continue from; replay with keep_states=True"
            )
        return self._states

    @states.setter
    def states(self, states: dict[str, dict[str, dict[str, Any]]]) -> None:
        self._states = states

    def _as_frame(self, name: str) -> pd.DataFrame:
        """A table for pandas; made at the first use, because importing pandas is slow."""
        table = self._tables[name]
        if isinstance(table, Mapping):
            table = self._tables[name] = frame_of(table)
        elif isinstance(table, OnFile):
            table = self._tables[name] = table.whole()
        return table

    def _for_core(self, columns: Sequence[str]) -> CodedColumns:
        """Those of these columns that `frame` has, for computing.

        Of an opened folder only they are read, and `frame` need not be made.
        """
        table = self._tables["frame"]
        return table.coded(columns) if isinstance(table, OnFile) else coded_of(self.frame, columns)

    def _coded(self, columns: Sequence[str]) -> pd.DataFrame:
        """As `_for_core`, as a frame whose texts are categories."""
        from .pooling import coded

        table = self._tables["frame"]
        if isinstance(table, OnFile):
            return table.frame(columns)
        return coded(self.frame[[c for c in columns if c in self.frame]].reset_index(drop=True))

    def as_columns(self, name: str) -> Columns:
        """A table by its name (``frame``, ``noise``, ...) as arrays; avoids pandas if possible."""
        if name not in self._tables:
            raise ValueError(
                f"there is no table {name!r}; it must be one of {', '.join(self._tables)}"
            )
        if isinstance(table := self._tables[name], Mapping):
            return table
        frame = self._as_frame(name)
        return {column: frame[column].to_numpy() for column in frame.columns}

    @property
    def frame(self) -> pd.DataFrame:
        """The table: one row per trace, step, tensor, scheme, stage and topology.

        The columns are those of docs/definitions.md, section 3, in that order.

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
        """The noise of the batch: docs/definitions.md, section 16.

        Per trace, step and tensor: a row of all workers, then one row without each worker.

        Without rows where gradients are not local or of one worker.
        """
        return self._as_frame("noise")

    @noise.setter
    def noise(self, noise: pd.DataFrame) -> None:
        self._tables["noise"] = noise

    @property
    def limit(self) -> pd.DataFrame:
        """Shannon's limit of the traces' sums in two phases, and best grids: docs/limit.md.

        Per trace: ``kind``, ``elements``, ``values``, ``unit``, ``width``, ``entropy``, ``bits``,
        ``error``. Without rows unless the replay was asked for it (``limit=True``), and where the
        noise is unknown.
        """
        return self._as_frame("limit")

    @property
    def persistence(self) -> pd.DataFrame:
        """Errors and updates over windows of consecutive steps: docs/definitions.md, section 16.

        Per trace, first step of a window (``step``), tensor, scheme, topology and number of
        ``steps``: ``sum_squared_error``, ``sum_noise``, ``noise_blocks``,
        ``sum_log2_error_over_noise``; of the updates of SGD ``sum_product``,
        ``sum_squared_reference``, ``sum_squared_result``, of Adam ``adam_product``, ... (NaN for
        windows of one step). Without rows unless the replay was asked for it
        (``persistence=True``), and where gradients are not local.
        """
        return self._as_frame("persistence")

    def __len__(self) -> int:
        """The number of rows of `frame`."""
        table = self._tables["frame"]
        return length(table) if isinstance(table, Mapping) else len(table)

    def __bool__(self) -> bool:
        """True, even without rows."""
        return True

    def __repr__(self) -> str:
        from .show import results_text

        return results_text(self)

    def _repr_html_(self) -> str:
        from .show import results_html

        return results_html(self)

    @property
    def incomplete(self) -> str:
        """A sentence about missing shards; empty for a whole replay."""
        shard, count = self.provenance.get("shard", [0, 1])
        return (
            ""
            if count == 1
            else f"these results are only shard {shard}/{count}; join all {count} with apscope "
            "merge before you use the numbers"
        )

    @property
    def not_finite(self) -> str:
        """A sentence about gradients that are NaN or infinite; empty if there are none."""
        from .nonfinite import COLUMNS, nonfinite

        return nonfinite(self._for_core(COLUMNS))

    @property
    def all_zero(self) -> str:
        """A sentence about traces with only zero gradients; empty if there are none."""
        frame = self._coded(["trace", "stage", "counted", "nonzero"])
        wire = frame.loc[frame["stage"] == "wire", ["trace", "counted", "nonzero"]]
        sums = wire.groupby("trace", sort=False, observed=True).sum()
        names = [str(name) for name in sums.index[(sums["counted"] > 0) & (sums["nonzero"] == 0)]]
        return (
            f"all gradients of {', '.join(names)} are zero, so no error can be relative to them: "
            "every NMSE and cosine is empty"
            if names
            else ""
        )

    @property
    def numerically_zero(self) -> str:
        """A sentence about layers whose gradients are numerically zero; empty if there are none."""
        from .noise import zero_layers

        several = len(self._coded(["trace"])["trace"].unique()) > 1
        named = [
            _named(layers) + (f" of {trace}" if several else "")
            for trace, layers in zero_layers(self).items()
        ]
        return (
            f"numerically zero, so probably rounding errors alone: {'; '.join(named)}; "
            "layer_cosine and the worst layer omit them"
            if named
            else ""
        )

    @property
    def without_rank(self) -> str:
        """A sentence about schemes with memory on steps with gaps; empty if there are none."""
        rows = self._coded(["scheme", "note"])
        if "note" not in rows:
            return ""
        notes = [note for note in rows["note"].cat.categories if AFTER_GAP in str(note)]
        specs = [str(spec) for spec in rows.loc[rows["note"].isin(notes), "scheme"].unique()]
        return (
            "These schemes have no rank, as their memory needs consecutive steps and some are "
            f"missing: {_named(specs)}"
            if specs
            else ""
        )

    def summary(
        self,
        *,
        network: Network | None = None,
        elements: float | None = 25.6e6,
        batch_factor: float = 1.0,
        optimizer: str | None = None,
        gained: float | None = None,
    ) -> pd.DataFrame:
        """Schemes ranked by error: one row per trace, scheme and topology."""
        from .summary import summary

        return summary(
            self,
            network=network,
            elements=elements,
            batch_factor=batch_factor,
            optimizer=optimizer,
            gained=gained,
        )

    def by(
        self,
        part: str,
        column: str | None = None,
        schemes: Iterable[Scheme | str] | None = None,
        *,
        topology: str | None = None,
        batch_factor: float = 1.0,
        optimizer: str | None = None,
    ) -> pd.DataFrame:
        """Errors by layer, role or step: a row per scheme and part, or `column` by scheme.

        Parameters
        ----------
        part : str
            ``layer``, ``role`` or ``step``.
        column : str, optional
            One of the columns of the table without it, such as ``error_over_noise`` or
            ``underflow_wire``.
        schemes : sequence of Scheme or str, optional
            Which, in any spelling; by default all.
        topology : str, optional
            By default the first replayed topology that adds in a format; schemes with their own
            reduction keep it, except for ``exact``.
        batch_factor : float
            The noise is that of a batch larger than the recorded one by this factor.
        optimizer : str, optional
            Of ``update_loss_k``, as in `summary`.

        Returns
        -------
        DataFrame
            Without `column`: ``trace``, `part`, and the columns of `summary` over the rows of that
            part, except the family, the modelled times, and ``worst_layer`` by layer,
            ``worst_step`` by step. Schemes in the order of `summary`, layers in the trace's order,
            steps ascending. With it: rows by trace and `part`, one column per scheme, NaN if a
            trace lacks it.

        Raises
        ------
        ValueError
            No such part, column, scheme, topology or optimizer; `batch_factor` is not a positive
            number.
        """
        from .breakdown import across, by

        table = by(
            self,
            part,
            schemes,
            topology=topology,
            batch_factor=batch_factor,
            optimizer=optimizer,
        )
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
        """Scheme `a` against `b`, or several, in total and by layer; `against`: results of `b`."""
        from .comparison import compare

        return compare(self, a, b, topology, layers, against)

    def against(self, other: Results, topology: str | None = None) -> pd.DataFrame:
        """These results against others of another seed, recording or version: a row per scheme.

        Parameters
        ----------
        other : Results
        topology : str, optional
            As for `compare`.

        Returns
        -------
        DataFrame
            A row per trace and scheme: ``trace``, ``scheme``, ``held_by`` (``both``, ``first``:
            these results, or ``second``), then the columns of `compare`, ``_a`` of these and ``_b``
            of the others, all layers together; NaN for schemes of only one. Layers and steps that
            only one has are omitted.

        Raises
        ------
        ValueError
            No trace of the one matches one of the other, by name or as the only one of each, or
            they have no common layer and step.
        """
        from .against import against

        return against(self, other, topology)

    def decompose(
        self, a: Scheme | str, b: Scheme | str, topology: str | None = None
    ) -> pd.DataFrame:
        """The effect of every single difference between schemes `a` and `b`."""
        from .differences import decompose

        return decompose(self, a, b, topology)

    def noise_facts(
        self, by: str | Sequence[str] = ("trace",), batch_factor: float = 1.0
    ) -> pd.DataFrame:
        """The noise of the batch, by trace, step or layer: ratio to the gradient, scale, error."""
        from .noise import facts

        return facts(self, by, batch_factor)

    def pool(self, by: Sequence[str]) -> pd.DataFrame:
        """Errors pooled over everything that is not in `by`: sums are added, then divided.

        Parameters
        ----------
        by : sequence of str
            Columns that name a group, such as ``["scheme", "tensor"]``. Without ``stage`` and
            ``topology`` the rows are those of the ranking: reduced ones, of the scheme's own
            reduction, else of the first replayed topology; the wire's for traces without. With
            ``stage``, those and the wire's. With ``topology``, all topologies, each with all
            tensors.

        Returns
        -------
        DataFrame
            One row per group; the columns of `apscope._results.pooling.pool`.

        Raises
        ------
        ValueError
            No such column; `by` lacks ``scheme`` although there are several, whose errors cannot be
            added.
        """
        from .pooling import pooled

        by = [by] if isinstance(by, str) else list(by)
        schemes = self.frame["scheme"].nunique()
        if "scheme" not in by and schemes > 1 and set(by) <= set(self.frame):
            raise ValueError(
                f"by={by} pools {schemes} schemes into one meaningless number; add 'scheme'"
            )

        return pooled(
            self.frame, by, lambda core: core.pooled_rows("stage" in by, "topology" in by)
        )

    @staticmethod
    def read_csv(path: str | os.PathLike[str]) -> pd.DataFrame:
        """The table of a ``results.csv``, with original names: docs/definitions.md, section 3."""
        return read_csv(path)

    def save(
        self, folder: str | os.PathLike[str], *, force: bool = False, csv: bool | None = None
    ) -> Path:
        """Write the RESULTS folder: Parquet tables, results.csv and provenance.json.

        All files are written into a hidden folder first and moved at the end, provenance.json last,
        with the size, SHA-256 and number of rows of the others: an error leaves nothing
        half-written, and a reader recognises incomplete results after a kill. Other files in the
        folder are kept. Only one process at a time writes a folder.

        Parameters
        ----------
        folder : path-like
        force : bool
            Whether files of these names, including earlier results, may be replaced.
        csv : bool, optional
            Whether to write results.csv; by default if the table has at most 200,000 rows.

        Raises
        ------
        OSError
            The folder cannot be written.
        ValueError
            Another process writes the folder; `folder` is a file or a trace, a folder has the name
            of one of its files, or, without `force`, it already has results, or a file of these
            names that is not from apscope.
        """
        with writing_results(folder, force) as writing:
            self._write(writing, csv)
        return Path(folder)

    def _write(self, writing: Writing, csv: bool | None) -> None:
        """Writes the files like :meth:`save`, through `_folders.results.writing_results`."""
        from .saving import NewResults

        with NewResults(writing, csv) as new:
            new.add(self._tables["frame"])
            new.finish(self._tables, self.provenance)

    @staticmethod
    def open(folder: str | os.PathLike[str]) -> Results:
        """Read a RESULTS folder.

        Raises
        ------
        ValueError
            A file of the folder is missing or wrong.
        """
        from .opening import opened

        tables, provenance = opened(check_readable(folder))
        return Results(
            tables["frame"], tables["histograms"], provenance, tables["noise"],
            tables.get("limit"), tables.get("persistence"),
        )  # fmt: skip
