"""The figure that ranks schemes, and which rows may win: one rule for tables, charts and answers.

The core ranks a summary by the same rule (`ranked` in analysis/summary/summary.cpp). Why this
figure: docs/definitions.md, section 14.
"""

from __future__ import annotations

import pandas as pd

#: Block formats of the hardware, to nearest, and the bits of their elements. Their scale belongs to
#: the format, so that a ladder of scales and a search of splits rank them beside their own schemes.
BLOCK_FORMATS = {
    "mx": 8, "mx:block_format=mxint8": 8, "mx:block_format=mxfp4": 4,
    "nvfp4:rounding=ties_to_even,rht=false": 4,
}  # fmt: skip

#: The column of a summary by which schemes are ranked.
RANKS = "step_nmse"
#: Counts of a summary; a row in which one of them is above 0 is never the best.
UNSOUND = ("overflowed", "skipped", "gaps", "lost_layers")


def finest_block(bits: int) -> int:
    """Elements that share the finest scale that is compared, by the bits of a value.

    That of the hardware's block formats, whose scales cost about as much of the bytes: MX has 32
    for 8 bits, NVFP4 16 for 4.
    """
    return 16 if bits <= 4 else 32


def sound(rows: pd.DataFrame) -> pd.Series:
    """Which rows of a summary may win: those with none of `UNSOUND`, at every step."""
    return (rows[list(UNSOUND)].fillna(0) == 0).all(axis=1)
