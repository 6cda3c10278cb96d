"""Errors by layer, role or step: the columns of a summary per part; or one column, by scheme."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from .._arrays.checks import text
from .._arrays.float_environment import guarded
from .._text import hint
from .codes import coded_of
from .comparison import scheme_in
from .figures import columns_of
from .noise import check_batch_factor, noise_of
from .persistence import windows_of
from .row_table import Rows, frame_of, rows_of
from .summary import COLUMNS, USED, frame_of_summary

#: Parts of results, and their column in a RESULTS table.
BY = {"layer": "tensor", "role": "role", "step": "step"}
#: Columns of a summary that refer to a whole step: modelled times; and the family.
_WHOLE = ("family", *columns_of(modelled=True))


@guarded
def by(
    results: Any,
    part: str,
    schemes: Iterable[Any] | None = None,
    *,
    topology: str | None = None,
    batch_factor: float = 1.0,
    optimizer: str | None = None,
) -> pd.DataFrame:
    """`Results.by` without a column, also of tables of rows."""
    check_batch_factor(batch_factor)
    text("part", part)
    if topology is not None:
        text("topology", topology)
    if optimizer is not None:
        text("optimizer", optimizer)
    used = [*USED, "role"]
    if schemes is None:
        rows = rows_of(results, used)
    else:
        frame = frame_of(results)
        rows = Rows(coded_of(frame[frame["scheme"].isin(specs_of(frame, schemes))], used))
    summary = rows.core.by(
        part, topology, batch_factor, noise_of(results), windows_of(results), optimizer
    )
    table = frame_of_summary(rows, summary, [BY[part]]).rename(columns={BY[part]: part})
    columns = ["trace", part, *(c for c in COLUMNS if c not in ("trace", *_WHOLE, f"worst_{part}"))]
    return (
        table.iloc[summary["order"]]
        .reset_index(drop=True)[columns]
        .astype({"step": np.int64} if part == "step" else {})
    )


def across(table: pd.DataFrame, part: str, column: str) -> pd.DataFrame:
    """One column of `by`: rows by trace and part, one column per scheme; NaN for missing parts.

    Raises
    ------
    ValueError
        No such column.
    """
    figures_of = [c for c in table.columns if c not in ("trace", "scheme", part)]
    if column not in figures_of:
        of_whole_schemes = [
            c for c in (*_WHOLE, "worst_layer", "worst_step") if c not in figures_of
        ]
        raise ValueError(
            f"there is no column '{column}' by {part}; "
            + (
                "only the summary of whole schemes has it"
                if column in of_whole_schemes
                else near
                if (near := hint(column, of_whole_schemes)).startswith("did you mean")
                and not hint(column, figures_of).startswith("did you mean")
                else hint(column, figures_of, len(figures_of))
            )
        )
    places, specs = table[["trace", part]].drop_duplicates(), table["scheme"].unique()
    wide = table.set_index(["trace", part, "scheme"])[column].unstack("scheme")
    return wide.reindex(
        index=pd.MultiIndex.from_frame(places), columns=pd.Index(specs, name="scheme")
    )


def specs_of(frame: pd.DataFrame, schemes: Iterable[Any]) -> list[str]:
    """The specs of these schemes in a table; raises the errors of `scheme_in`."""
    return [scheme_in(frame, s) for s in ([schemes] if isinstance(schemes, str) else schemes)]
