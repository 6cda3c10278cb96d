"""CSV that a spreadsheet shows and does not run, and that reads back as it was.

A name in a trace may begin like a formula (``=cmd|...``), and a spreadsheet would run it. So a text that begins with
=, +, -, @ (the wide ones of CJK keyboards too), a tab or a carriage return gets an apostrophe before it, and so does one
that already has apostrophes before such a character. Whoever reads takes one apostrophe away where one or more stand
before such a character: `read_csv` does. Numbers are no text and stay.
"""

from __future__ import annotations

import os
from typing import BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

__all__ = ["read_csv", "write_csv"]

_BEGINS_LIKE_A_FORMULA = "[=+\\-@\\t\\r＝＋－＠]"

#: Columns that are text even where every cell of them looks like a number.
_TEXT = ("trace", "tensor", "role", "scheme", "format", "topology", "stage", "note", "family", "layer", "worst_layer", "topology_a", "topology_b")


def write_csv(frame: pd.DataFrame, file: BinaryIO) -> None:
    """The table as CSV: numbers in the fewest digits that give them back, text in quotes, what is missing empty."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for i, name in enumerate(table.column_names):
        column = table.column(i)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = pc.replace_substring_regex(column, f"^('*{_BEGINS_LIKE_A_FORMULA})", "'\\1")
            table = table.set_column(i, name, pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column))
        elif pa.types.is_boolean(column.type):
            table = table.set_column(i, name, pc.if_else(column, "True", "False"))
    file.write((",".join(table.column_names) + "\n").encode())
    pa_csv.write_csv(table, file, pa_csv.WriteOptions(include_header=False))


def read_csv(path: str | os.PathLike[str]) -> pd.DataFrame:
    """A CSV file of `write_csv`: apostrophes before what begins like a formula are taken away; an empty field is missing."""
    convert = pa_csv.ConvertOptions(null_values=[""], strings_can_be_null=True, column_types=dict.fromkeys(_TEXT, pa.string()))
    table = pa_csv.read_csv(path, parse_options=pa_csv.ParseOptions(newlines_in_values=True), convert_options=convert)
    for i, name in enumerate(table.column_names):
        if pa.types.is_string(table.column(i).type):
            table = table.set_column(i, name, pc.replace_substring_regex(table.column(i), f"^'('*{_BEGINS_LIKE_A_FORMULA})", "\\1"))
    return table.to_pandas()
