"""Plots of RESULTS: one function a plot, each returns a matplotlib Axes.

Every function takes a Results or its table, draws into `ax` where one is given and into a figure of
its own otherwise, and leaves pyplot's state alone (``ax.figure`` is what a notebook shows). Colours
are Okabe and Ito's, safe for colour-blind readers; lines differ by marker as well.
"""

from .bias import bias_over_steps, variance_over_steps
from .cost import sqnr_against_bits
from .histogram import exponent_histogram
from .scales import scale_series
from .topologies import accumulation_error
from .underflow import underflow_heat_map

__all__ = [
    "accumulation_error",
    "bias_over_steps",
    "exponent_histogram",
    "scale_series",
    "sqnr_against_bits",
    "underflow_heat_map",
    "variance_over_steps",
]
