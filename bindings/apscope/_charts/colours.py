"""The colours of charts: one a family of schemes, one a format, five for the bands of an error."""

from .._results.families import FAMILIES

__all__ = ["BANDS", "COLOURS", "FAMILIES", "SYMBOLS"]

#: Of lines that are no families (formats, topologies, roles): Okabe and Ito's without the yellow, which white paper swallows; then three as dark.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#882255", "#777777", "#999933")
#: The marks on such lines.
SYMBOLS = ("circle", "square", "triangle", "diamond", "wye", "plus", "cross", "star")
#: Of a map, from a small error to a large one; on white and on black.
BANDS = ("#dfe9f2", "#a9cbe3", "#f6d98a", "#ee9b4a", "#c0392b")
