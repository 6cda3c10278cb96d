"""The colours of charts: one a family of schemes, one a format, five for the bands of an error."""

from .._results.families import FAMILIES

__all__ = ["BANDS", "COLOURS", "FAMILIES", "FORMATS"]

#: Of lines that are no families (formats, topologies, roles): Okabe and Ito's without the yellow, which white paper swallows; then three as dark.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#882255", "#777777", "#999933")
#: Of formats, whose lines have their names beside them: none is a family's colour.
FORMATS = ("#7a4fa3", "#00827f", "#a8326e", "#6b5b4b", "#333a45")
#: Of a map, by what they say of an error: far below a threshold, below, near, above it, above all.
BANDS = ("#eef1f4", "#d3dae2", "#a7b3c0", "#e8a33d", "#c0392b")
