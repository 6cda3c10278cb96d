"""Tables of the command line: words left-aligned, numbers right-aligned; names escaped."""

from __future__ import annotations

import io
import json
import math
import shutil
import sys
import textwrap
import warnings
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from .._text import aligned, escaped, numbered, printable, wrapped
from ._output import exactly, give_up

if TYPE_CHECKING:
    import pandas as pd

    from .._results.results import Results
    from .._results.winners import Winner


#: Letters of a line where the output is not a terminal, and of a shortened spec at least.
_WIDTH, _SHORTEST = 100, 24
#: What follows a figure that cannot win: steps with overflow, skipped steps, lost layers, a gap.
_MARKS = {"overflowed": "o{}", "skipped": "s{}", "lost_layers": "l{}", "gaps": "*"}
MARKED = {
    "overflowed": "o: steps with overflow, which count at least 1",
    "skipped": "s: skipped steps, which count 1",
    "lost_layers": "l: lost layers, of which less than half arrives",
    "gaps": "*: memory of an earlier step, because steps are missing: no rank and no factor",
}


def marks_of(row: Any) -> str:
    """The marks of a row of a summary: ``o3s1*``; `marks_explained` says what they mean."""
    return "".join(mark.format(row[c]) for c, mark in _MARKS.items() if row[c])


def marks_explained(table: pd.DataFrame) -> list[str]:
    """A line for each mark that rows of the table have."""
    return [told for c, told in MARKED.items() if table[c].any()]


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


def line_width() -> int:
    """Letters of a line of a table: of the terminal, else `_WIDTH`."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH


def print_ranking(
    title: str, table: pd.DataFrame, needed: int, more: str
) -> tuple[list[str], list[str]]:
    """Prints a title and a frame whose first column has specs, in lines of `line_width`.

    The first `needed` columns are there in any case: a spec that is too long beside them is
    shortened, and stands whole below the table under a number. Others are there while they fit; a
    line names the rest and `more`, what shows them. Returns the lines for below the table, and the
    heads that are there.
    """
    heads = list(table.columns)
    rows = [[cell(c, v) for c, v in zip(heads, row)] for row in table.itertuples(index=False)]
    widths = [2 + max(len(row[i]) for row in [heads, *rows]) for i in range(1, len(heads))]
    room = max(line_width() - sum(widths[: needed - 1]), _SHORTEST)
    specs, full_specs = numbered([row[0] for row in rows], room)
    first = max(map(len, [heads[0], *specs]))
    shown = needed
    while shown < len(heads) and first + sum(widths[:shown]) <= line_width():
        shown += 1
    cells = [[spec, *row[1:shown]] for spec, row in zip(specs, rows)]
    lines = aligned(heads[:shown], cells, _words_of(table))[0]
    print("\n".join([printable(title, 240), *lines, ""]))
    if hidden := heads[shown:]:
        full_specs += textwrap.wrap(
            f"not shown: {', '.join(hidden)}; {more}", line_width(), break_on_hyphens=False
        )
    return full_specs, heads[:shown]


#: Letters of a spec at the head of a column, in lines as `wrapped` makes them.
_HEAD = 80


def heads_of(specs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Heads of several lines, and lines for below the table with the specs that they shorten."""
    shortened, full_specs = numbered(specs, _HEAD)
    return ["\n".join(wrapped(spec)) for spec in shortened], full_specs


def _words_of(table: pd.DataFrame) -> list[str]:
    import pandas as pd

    return [c for c in table.columns if not pd.api.types.is_numeric_dtype(table[c].dtype)]


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
    print(printable(title, 240))
    print_table(
        list(table.columns),
        [[cell(c, v) for c, v in zip(table.columns, row)] for row in table.itertuples(index=False)],
        _words_of(table),
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
        hidden = column.startswith("error_over_noise") and value < 2.0**-29.99
        return f"{value:.6f}" if "cosine" in column else f"{'≤' if hidden else ''}{value:.3g}"
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
