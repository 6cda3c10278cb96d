"""CSV that a spreadsheet shows but does not run, and that reads back unchanged.

A name in a trace may begin like a formula (``=cmd|...``), and a spreadsheet would run it. So a text
that begins with =, +, -, @ (also their full-width forms), a tab or a carriage return gets an
apostrophe before it, and so does one that already has apostrophes before such a character. A reader
removes one apostrophe if one or more come before such a character: `read_csv` does. Numbers are not
changed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from .._folders.reading import open_regular
from .columns import TEXT_COLUMNS, text_array, validity

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_BEGINS_LIKE_A_FORMULA = "[=+\\-@\\t\\r＝＋－＠]"
#: The bytes that such text, or text with apostrophes before it, can begin with in UTF-8.
_FIRST_BYTES = np.frombuffer("=+-@\t\r＝'".encode(), np.uint8)[[0, 1, 2, 3, 4, 5, 6, -1]]

#: Columns that are text even if every cell looks like a number.
_TEXT = (*TEXT_COLUMNS, "family", "layer", "worst_layer", "topology_a", "topology_b")


def write_csv(table: pa.Table, file: BinaryIO, *, header: bool = True) -> None:
    """The table as CSV: shortest exact digits, quoted text, empty fields for missing values."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    columns = [
        pa.chunked_array([_for_a_spreadsheet(chunk) for chunk in column.chunks])
        if column.num_chunks
        else column
        for column in table.columns
    ]
    if header:
        file.write((",".join(table.column_names) + "\n").encode())
    pa_csv.write_csv(
        pa.Table.from_arrays(columns, names=table.column_names),
        file,
        pa_csv.WriteOptions(include_header=False),
    )


def _for_a_spreadsheet(chunk: pa.Array) -> pa.Array:
    """A column for a spreadsheet: escaped text, empty text missing, booleans in words."""
    import pyarrow as pa

    n, kind, buffers = len(chunk), chunk.type, chunk.buffers()
    if n == 0 or not (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind)
    ):
        return chunk
    here = slice(chunk.offset, chunk.offset + n)
    there = np.ones(n, bool) if buffers[0] is None else _bits(buffers[0])[here]
    if pa.types.is_boolean(kind):
        words = text_array(np.where(_bits(buffers[1])[here], "True", "False").tolist())
        return pa.Array.from_buffers(words.type, n, [validity(there), *words.buffers()[1:]])
    ends: np.ndarray = np.frombuffer(
        buffers[1], np.dtype(np.int32 if pa.types.is_string(kind) else np.int64)
    )[chunk.offset :][: n + 1]
    some = there & (ends[1:] > ends[:-1])
    if (
        some.any()
        and np.isin(np.frombuffer(buffers[2], np.uint8)[ends[:-1][some]], _FIRST_BYTES).any()
    ):
        import pyarrow.compute as pc

        harmless = pc.replace_substring_regex(chunk, f"^('*{_BEGINS_LIKE_A_FORMULA})", "'\\1")
        return pc.if_else(pc.equal(harmless, ""), pa.scalar(None, kind), harmless)
    return pa.Array.from_buffers(kind, n, [validity(some), pa.py_buffer(ends), buffers[2]])


def _bits(bitmap: pa.Buffer) -> np.ndarray:
    return np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little").astype(bool)


def read_csv(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Reads a CSV file of `write_csv`: removes apostrophes before formulas; empty is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pa_csv

    convert = pa_csv.ConvertOptions(
        null_values=[""], strings_can_be_null=True, column_types=dict.fromkeys(_TEXT, pa.string())
    )
    open_regular(path).close()
    table = pa_csv.read_csv(
        os.fspath(path),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=convert,
    )
    for i, name in enumerate(table.column_names):
        if pa.types.is_string(table.column(i).type):
            table = table.set_column(
                i,
                name,
                pc.replace_substring_regex(
                    table.column(i), f"^'('*{_BEGINS_LIKE_A_FORMULA})", "\\1"
                ),
            )
    return table.to_pandas()
