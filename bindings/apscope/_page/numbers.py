"""Numbers and names for reading; page/text.js writes them the same way."""

from __future__ import annotations

import math

from .._text import raised


def figure(value: float | None, digits: int = 3) -> str:
    """A number for reading: `digits` significant digits, powers of ten, a dash for NaN."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power = int(exponent)
    if -4 < power < 6:
        text = f"{value:.{max(digits - 1 - power, 0)}f}"
    else:
        text = f"{mantissa}\u00a0×\u00a010{raised(power)}"
    return text.replace("-", "−")


def over_noise(value: float | None, digits: int = 3) -> str:
    """An error in units of the noise; values below 2^-30 are hidden (definitions, section 16)."""
    return ("≤ " if value is not None and value < 2.0**-29.99 else "") + figure(value, digits)


def nmse(value: float | None, digits: int = 3) -> str:
    """An NMSE, which is infinite if values overflowed."""
    return "overflow" if value is not None and math.isinf(value) else figure(value, digits)


def percent(rate: float | None) -> str:
    """A share in percent; only 0 reads as 0, and only 1 reads as 100."""
    if rate is None or math.isnan(rate):
        return "–"
    p, sign = 100 * abs(rate), "−" if rate < 0 else ""
    if p == 0:
        return "0\u00a0%"
    if p < 0.005:
        return "< 0.01\u00a0%"  # of either sign
    if 99.5 <= p < 100:
        return f"{sign}{'> 99.99' if p >= 99.995 else f'{p:.2f}'}\u00a0%"
    return f"{sign}{f'{p:.2f}' if p < 1 else f'{p:.1f}' if p < 10 else f'{p:.0f}'}\u00a0%"


def seconds(value: float | None) -> str:
    """Seconds in s, ms or µs."""
    if value is None or math.isnan(value):
        return "–"
    if value >= 1:
        return f"{figure(value)}\u00a0s"
    return f"{figure(value * 1e3)}\u00a0ms" if value >= 1e-3 else f"{figure(value * 1e6)}\u00a0µs"


def gap(ratio: float) -> float:
    """Distance of a ratio from 1: the size of its logarithm. Infinite for 0 and inf, 0 for NaN."""
    return 0.0 if math.isnan(ratio) else abs(math.log(ratio)) if 0 < ratio < math.inf else math.inf
