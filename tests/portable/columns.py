"""The output of tests/portable/columns.cpp, from results in Python."""

from collections.abc import Iterator

import numpy as np

import apscope


def columns_of(results: apscope.Results) -> Iterator[str]:
    """A line with the names, then one line per row: texts as they are, numbers as the bits of fp64,
    with one pattern for a NaN or an empty cell."""
    frame = results.frame
    cells = []
    for name in frame:
        if frame[name].dtype == object:
            cells.append(["" if text is None else str(text) for text in frame[name]])
        else:
            numbers = frame[name].to_numpy(np.float64, na_value=np.nan)
            words = np.where(np.isnan(numbers), np.float64(np.nan), numbers).view(np.uint64)
            cells.append([f"{word:016x}" for word in words.tolist()])
    yield "\t".join([*frame, "\n"])
    for row in zip(*cells, strict=True):
        yield "\t".join([*row, "\n"])
