"""Draws docs/picture.png, the picture of README.md, from a RESULTS folder: `make picture`."""

import sys

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import apscope
from apscope.plots import accumulation_error, exponent_histogram

results = apscope.Results.open(sys.argv[1])
figure = Figure(figsize=(12.5, 5.2), layout="constrained")
FigureCanvasAgg(figure)
left, right = figure.subplots(1, 2, width_ratios=[1, 1.25])
exponent_histogram(results, "e4m3", scheme="aps:e4m3", trace="digits", ax=left)
accumulation_error(results, trace="digits_w64", ax=right)
right.set_title("What encoding costs, and what adding 64 workers costs")
figure.savefig(sys.argv[2], dpi=110)
