"""The best row of a front within the bytes of a width, with its reduction, format, scale and bytes.

`summary`, `ladder` and `search` tell it, and the report's first screen: the same rule, so the same
answer for the same rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from .._arrays.inputs import as_format
from .._core import BlockFormat
from .._schemes.scheme import known_scheme
from .differences import described
from .ranking import RANKS, sound
from .volume import in_class

#: Classes of schemes that are compared: bits of a value, without side information.
CLASSES = (1, 2, 4, 8, 16, 32)
#: Widths whose best is told.
WIDTHS = (8, 4)


#: Figures that a best row is compared in beside the one that ranks, by what each sees: what an
#: optimizer does in consecutive steps, where they were replayed; small blocks and layers.
SECONDS = ("update_loss_10", "update_loss_3", "error_over_noise")
#: Errors nearer than this factor are level.
LEVEL = 1.05


class Second(NamedTuple):
    """Another row that is better by another figure."""

    figure: str
    scheme: str
    topology: str
    error: float
    best: float  # that of the best row

    def __str__(self) -> str:
        reduced = f" in {self.topology}" if self.topology else ""
        return (
            f"by {self.figure} {self.scheme}{reduced} is better, {self.error:.3g} instead of "
            f"{self.best:.3g}"
        )


class Winner(NamedTuple):
    """The row with the least error of `bits` a value and their bytes; `measure` is its error's."""

    bits: int
    scheme: str
    topology: str
    volume: float
    measure: str
    error: float
    seconds: tuple[Second, ...] = ()

    def __str__(self) -> str:
        reduced = f" in {self.topology}" if self.topology else ", at the wire"
        where = " between nodes" if self.topology.startswith("hierarchical") else ""
        sent = "" if math.isnan(self.volume) else f", {self.volume:.3g} of fp32's bytes{where}"
        return (
            f"best of at most {self.bits} bits by {self.measure}, {self.error:.3g}: "
            f"{self.scheme}{reduced}; {_format(self.scheme, self.topology)}scale "
            f"{scale_of(self.scheme)}{sent}"
        )


def scale_of(spec: str) -> str:
    """What shares a scale: as `described` says, "its own" if that is unknown."""
    scheme = known_scheme(spec)
    text = described(scheme)["scale"] if scheme else ""
    return text if text and not text.startswith("of ") else "its own"


def _format(spec: str, topology: str) -> str:
    """Of the scheme; nothing where the levels of a hierarchy have formats of their own."""
    if "@" in topology:
        return ""
    scheme = known_scheme(spec)
    return f"format {described(scheme)['format'] if scheme else 'its own'}, "


def bits_of(frame: pd.DataFrame) -> dict[str, int]:
    """Scheme -> the smallest of `CLASSES` that holds its bits per value, without side information.

    From rows at the wire: ``wire_bits`` of one worker over its number of elements; of a scheme with
    several reductions, of which one may send wider numbers within a node, the fewest.
    """
    wire = frame[frame["stage"] == "wire"]
    bits = wire["wire_bits"].to_numpy(float, na_value=np.nan)
    sums = pd.DataFrame(
        {
            "scheme": wire["scheme"],
            "topology": wire["topology"].astype(object).fillna(""),
            "bits": bits,
            "elements": wire["count"].to_numpy(float) / wire["workers"].to_numpy(float),
        }
    )
    by = sums.dropna(subset=["bits"]).groupby(["scheme", "topology"], sort=False, observed=True)
    sums = by[["bits", "elements"]].sum()
    each = (sums["bits"] / sums["elements"]).groupby("scheme", sort=False, observed=True).min()
    # 1 % above a width is padding of a bucket, not another width.
    widths = {
        scheme: next((c for c in CLASSES if bits <= 1.01 * c), CLASSES[-1])
        for scheme, bits in each.items()
    }
    return {scheme: widths.get(scheme, CLASSES[-1]) for scheme in frame["scheme"].unique()}


def within(
    rows: pd.DataFrame, bits: Mapping[str, int], share: float, measure: str = RANKS
) -> pd.DataFrame:
    """The rows that a best one is chosen from.

    Parameters
    ----------
    rows : DataFrame
        A front of one trace: ``scheme``, ``topology``, ``volume``, the counts of `ranking.UNSOUND`
        and the column `measure`.
    bits : mapping
        From `bits_of`; a scheme that it lacks has any.
    share : float
        Of fp32's bits: 0.25 of 8 bits. Side information may come on top in the volume; a hierarchy
        has a small volume with any bits, because only bytes between nodes count.
    measure : str
        The column that ranks.

    Returns
    -------
    DataFrame
        Those of so few bits, also in all levels of a hierarchy, that send so little, with an error,
        without overflow, skipped steps, gaps in their memory and lost layers; ``exact``, which no
        system runs, only where nothing else is.
    """
    eligible = sound(rows) & rows[measure].notna()
    if (run := rows["topology"] != "exact").any():
        eligible &= run
    if rows["volume"].notna().any():
        eligible &= in_class(rows["volume"], share)
    widest = np.fmax(rows["scheme"].map(bits).astype(float), rows["topology"].map(_level_bits))
    return rows[eligible & ~(widest > 32 * share)]


def _level_bits(topology: str) -> float:
    """The bits of the widest format that a level of a hierarchy has for itself; 0 without one."""
    return max((_bits(name) for name in re.findall(r"@([^,()]+)", topology)), default=0)


def _bits(name: str) -> int:
    """The bits of a value in a float format, or of an element in a block format."""
    try:
        return as_format(name).storage_bits
    except ValueError:
        return BlockFormat(name).element.storage_bits


def least(rows: pd.DataFrame, bits: Mapping[str, int], measure: str = RANKS) -> pd.Series:
    """The row with the least error.

    Of equal ones that with the least error over the noise, as in a ranking, then the first in the
    order of `bits`.
    """
    place = {scheme: i for i, scheme in enumerate(bits)}
    best = rows[rows[measure] == rows[measure].min()]
    if "error_over_noise" in best:
        noise = best["error_over_noise"].fillna(np.inf)
        best = best[noise == noise.min()]
    return best.loc[best["scheme"].map(place).astype(float).fillna(len(place)).idxmin()]


def winner(rows: pd.DataFrame, bits: Mapping[str, int], width: int) -> Winner | None:
    """The `least` row of `within` as a Winner; None without a scheme of the width."""
    eligible = within(rows[rows["topology"] != "exact"], bits, width / 32)
    if not (eligible["scheme"].map(bits).fillna(width) == width).any():
        return None
    row = least(eligible, bits)
    return Winner(
        width, row["scheme"], row["topology"], float(row["volume"]), RANKS, float(row[RANKS]),
        tuple(seconds(eligible, row, bits)),
    )  # fmt: skip


def seconds(eligible: pd.DataFrame, best: pd.Series, bits: Mapping[str, int]) -> list[Second]:
    """What other figures say against the best row: each by which another of `within` is better."""
    found = []
    for figure in SECONDS:
        if figure not in eligible or not eligible[figure].notna().any():
            continue
        row = least(eligible, bits, figure)
        if row[figure] * LEVEL < best[figure] and not _overlap(row, best, figure):
            found.append(Second(figure, row["scheme"], row["topology"], row[figure], best[figure]))
    return found


def _overlap(row: pd.Series, best: pd.Series, figure: str) -> bool:
    """Whether the 95 % intervals of two rows overlap; those over windows of steps, which differ."""
    high, low = (one.get(f"{figure}_{end}") for one, end in ((row, "high"), (best, "low")))
    known = figure.startswith("update_loss") and high is not None and low is not None
    return bool(known and high >= low)


def winners(rows: pd.DataFrame, bits: Mapping[str, int]) -> list[Winner]:
    """The best of every one of `WIDTHS`, without those that a narrower width has too.

    Parameters
    ----------
    rows, bits
        As for `within`.
    """
    best_rows = [best for width in WIDTHS if (best := winner(rows, bits, width))]
    sides = [(best.scheme, best.topology) for best in best_rows]
    return [best for i, best in enumerate(best_rows) if sides[i] not in sides[i + 1 :]]
