"""Plots of RESULTS: one function per plot, each returns a matplotlib Axes.

Every function takes Results, or their table (except the exponent histograms, which a table lacks),
draws into `ax` if given and otherwise into a new figure, and does not change pyplot's state (a
notebook shows ``ax.figure``). Schemes are given as specs in any spelling, or as Scheme objects, and
labelled by their specs. Colours are those of families of schemes (`Scheme.family`); schemes of one
family differ in shade, marker and dashes. For a missing scheme, layer or trace, a ValueError or
TypeError says so in one sentence.

| all layers together, or one by ``layer=`` | layer by layer |
|---|---|
| | `error_map`, `nmse_by_layer`, `nmse_ratio` (of two schemes) |
| `exponent_histogram` | `exponents_by_layer` |
| | `underflow_heat_map` |
| `scale_series` | the same |
| `bias_over_steps`, `variance_over_steps` | `bias_by_layer` |
| `accumulation_error` | `accumulation_by_layer` |
| `ladder` (the gain of finer scales) | |
| `limit` (of `apscope.limit`: error against bits, and their least) | |
| `nmse_against_cost` (volume or time), `sqnr_against_bits` | |
"""

from ._bias import bias_by_layer, bias_over_steps, variance_over_steps
from ._cost import nmse_against_cost, sqnr_against_bits
from ._error_map import error_map
from ._histogram import exponent_histogram, exponents_by_layer
from ._ladder import ladder
from ._layers import nmse_by_layer, nmse_ratio
from ._limit import limit
from ._scales import scale_series
from ._topologies import accumulation_by_layer, accumulation_error
from ._underflow import underflow_heat_map

__all__ = [
    "accumulation_by_layer", "accumulation_error", "bias_by_layer", "bias_over_steps",
    "error_map", "exponent_histogram", "exponents_by_layer", "ladder", "limit", "nmse_against_cost",
    "nmse_by_layer", "nmse_ratio", "scale_series", "sqnr_against_bits", "underflow_heat_map",
    "variance_over_steps",
]  # fmt: skip
