"""The excess loss that an error over the noise predicts, as far as it was established.

docs/insight.md fits excess = factor * error_over_noise^slope to small tasks that were trained, one
scheme for all layers, rounded to nearest; `law.json` has the line, written by docs/insight.py.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from .._schemes.scheme import Scheme, as_scheme


class ExpectedExcess(NamedTuple):
    """Excess training loss over fp32 in nats, and its 95 % interval; NaN if none is established."""

    loss: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.high):
            return ""
        if math.isnan(self.loss):
            return f"below {self.high:.1g}"
        return f"{self.loss:.1g} ({self.low:.1g} to {self.high:.1g})"


@cache
def _law() -> dict[str, Any]:
    return json.loads(Path(__file__).with_name("law.json").read_text(encoding="utf-8"))


def is_covered(scheme: str | Scheme) -> bool:
    """Whether the line covers a scheme: by its name, with messages and sums rounded to nearest."""
    held = as_scheme(scheme)
    roundings = {held.keys.get("rounding", ""), held.keys.get("hop_rounding", "same")}
    return held.name in _law()["schemes"] and roundings <= {"ties_to_even", "same"}


def expected_excess(scheme: str | Scheme, error_over_noise: float) -> ExpectedExcess:
    """The excess training loss over fp32 that an error over the noise predicts.

    The line was fitted to three small tasks and held on five others, of 1,906 to 30,652 parameters
    and at most 300 steps (docs/insight.md); for larger models it is a hypothesis.

    Parameters
    ----------
    scheme : str or Scheme
        One scheme for all layers.
    error_over_noise : float
        That of `Results.summary`, at least 0.

    Returns
    -------
    ExpectedExcess
        ``loss``, ``low``, ``high`` in nats, of cross-entropy: the line's value and the 95 %
        interval of one prediction. Below the errors that were trained: NaN, 0, and the interval's
        end there. All NaN for schemes that the line does not cover (mixtures, stochastic rounding,
        error feedback, other schemes than ``aps``, ``loss_scaling`` and ``mx``), for errors above
        those that were trained, where the line bends, and for NaN.

    Raises
    ------
    ValueError
        Not a scheme, or an error below 0.

    Examples
    --------
    >>> import apscope
    >>> str(apscope.expected_excess("aps:e4m3,rounding=stochastic", 0.1))
    ''
    """
    if error_over_noise < 0:
        raise ValueError(f"error_over_noise={error_over_noise} must be at least 0")
    law = _law()
    if not is_covered(scheme) or not error_over_noise <= law["most"]:
        return ExpectedExcess(math.nan, math.nan, math.nan)
    middle = law["factor"] * max(error_over_noise, law["least"]) ** law["slope"]
    if error_over_noise < law["least"]:
        return ExpectedExcess(math.nan, 0.0, middle * law["interval"])
    return ExpectedExcess(middle, middle / law["interval"], middle * law["interval"])
