"""Tables of the command line: words left-aligned, numbers right-aligned; names escaped."""

from __future__ import annotations

import io
import json
import math
import shutil
import sys
import warnings
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from .._text import aligned, escaped, printable
from ._output import exactly, give_up

if TYPE_CHECKING:
    import pandas as pd

    from .._results.results import Results
    from .._results.winners import Winner


def on_terminal() -> bool:
    """Whether standard error is a terminal; it may be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


def say(line: str) -> None:
    """Prints a line on standard output, if it is still read: writing files continues anyway."""
    try:
        print(line, flush=True)
    except OSError as error:
        give_up()
        if not isinstance(error, BrokenPipeError):
            warnings.warn(f"{error.strerror}; the files are written", stacklevel=2)


def print_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    words: Collection[str] = (),
    fit: bool = False,
) -> int:
    """Print a table by `_text.aligned`; returns its columns. `fit`: no wider than the terminal."""
    lines, shown = aligned(
        heads,
        rows,
        words,
        shutil.get_terminal_size().columns if fit and sys.stdout.isatty() else None,
    )
    for line in lines:
        print(line)
    return shown


def print_winners(trace: str, found: Sequence[Winner], among: str) -> None:
    """The best of every width, a line each, and an empty line; `among`: of which rows."""
    for best in found:
        print(f"{printable(trace)}: {best}, of {among}")
        for second in best.seconds:
            print(f"    {second}")
    if found:
        print()


def print_frame(title: str, table: pd.DataFrame, fit: bool) -> None:
    """A title and a frame; numbers in three digits, shares in percent, missing values as a dash."""
    import pandas as pd

    words = [c for c in table.columns if not pd.api.types.is_numeric_dtype(table[c].dtype)]
    print(printable(title, 240))
    print_table(
        list(table.columns),
        [[cell(c, v) for c, v in zip(table.columns, row)] for row in table.itertuples(index=False)],
        words,
        fit,
    )
    print()


_SHARES = ("underflow", "accumulation", "relative_bias", "share_")


def cell(column: str, value: object) -> str:
    """A value of this column for tables."""
    import pandas as pd

    if pd.isna(value):
        return "-"
    if isinstance(value, float):
        if column.startswith(_SHARES):
            return f"{100 * value:.3g}%"
        return f"{value:.6f}" if "cosine" in column else f"{value:.3g}"
    return str(value)


def json_rows(table: pd.DataFrame) -> list[dict[str, object]]:
    """The rows for JSON: null for missing or infinite numbers."""
    import pandas as pd

    def plain(value: object) -> object:
        return None if pd.isna(value) or (isinstance(value, float) and math.isinf(value)) else value

    columns = [[plain(value) for value in table[name].tolist()] for name in table.columns]
    return [dict(zip(table.columns, row)) for row in zip(*columns)]


def print_json(table: pd.DataFrame) -> None:
    """The table on standard output as a list of rows, every digit."""
    print(json.dumps(json_rows(table), indent=1, allow_nan=False))


def print_csv(table: pd.DataFrame) -> None:
    """Prints the table on standard output with `csv_table.write_csv`."""
    import pyarrow as pa

    from .._results.csv_table import write_csv

    text = io.BytesIO()
    write_csv(pa.Table.from_pandas(table, preserve_index=False), text)
    with exactly():
        print(text.getvalue().decode(), end="")


#: Properties of a Results: remarks that a reader of its numbers needs; and of a ranking.
REMARKS = ("incomplete", "not_finite", "all_zero", "numerically_zero")
_RANKED = (*REMARKS[:-1], "without_rank", REMARKS[-1])


def warn(results: Results, of: Sequence[str] = _RANKED) -> None:
    """Print remarks on these results on standard error."""
    for sentence in (getattr(results, name) for name in of):
        if sentence and sys.stderr is not None:
            print(f"apscope: {escaped(sentence)}", file=sys.stderr)
