"""Numbers in the JSON of traces and results."""

from __future__ import annotations

import math


def json_number(value: float) -> float | str:
    """The number, or the trace format's string for one that JSON cannot represent."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
