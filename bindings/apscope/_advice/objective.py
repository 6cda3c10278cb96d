"""The request for a plan: the figure to minimize and the limits, as totals over the units."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from .._results.pooling import step_losses
from .._results.volume import SIDE
from .table import Sums, Table

#: Values of `minimize`: errors, the default first, and costs. Trained, mixtures with the least
#: step_nmse were never worse than one scheme; with the least error_over_noise some were
#: (docs/insight.md, "Plans, trained").
ERRORS = ("step_nmse", "error_over_noise")
MINIMIZE = (*ERRORS, "volume", "time")

#: Argument -> the figure that it limits.
LIMITS = {
    "max_volume": "volume",
    "max_time": "time",
    "max_nmse": "step_nmse",
    "max_error_over_noise": "error_over_noise",
    "min_cosine": "layer_cosine",
    "max_underflow": "underflow_wire",
}

#: Default limits: a quarter of fp32's bytes and up to an eighth more, for the scales of blocks; the
#: error below which nearly no training lost 0.01 nats (docs/insight.md).
USUAL_VOLUME, USUAL_NMSE = 0.28, 0.01


def usual_figure(limits: Mapping[str, float | None]) -> str:
    """The figure that is minimized by default: an error, or volume if only errors are limited."""
    given = {name for name, value in limits.items() if value is not None}
    return "volume" if given and not given & {"max_volume", "max_time"} else ERRORS[0]


@dataclass(frozen=True)
class Wish:
    """A figure to minimize, and limits or None. `max_layer_error` limits each unit, not a total."""

    minimize: str = ERRORS[0]
    max_volume: float | None = None
    max_time: float | None = None
    max_nmse: float | None = None
    max_error_over_noise: float | None = None
    min_cosine: float | None = None
    max_underflow: float | None = None
    max_layer_error: float | None = None

    def __post_init__(self) -> None:
        if self.minimize not in MINIMIZE:
            raise ValueError(
                f"minimize='{self.minimize}' is unknown; use one of {', '.join(MINIMIZE)}"
            )
        for name, value in (
            self.limits
            | ({} if self.max_layer_error is None else {"max_layer_error": self.max_layer_error})
        ).items():
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
                raise TypeError(
                    f"{name}={value!r} is of type {type(value).__name__}; give a number"
                )
            if not (0 <= value <= sys.float_info.max):
                raise ValueError(f"{name}={value} must be a finite number, at least 0")
            if name == "min_cosine" and value > 1:
                raise ValueError(f"min_cosine={value} is above 1, the largest cosine")
            object.__setattr__(self, name, float(value))

    @property
    def limits(self) -> dict[str, float]:
        """Argument -> value, for the given ones."""
        return {name: value for name in LIMITS if (value := getattr(self, name)) is not None}

    @property
    def error(self) -> str:
        """The relevant error: the minimized one, else the first limited one."""
        if self.minimize in ERRORS:
            return self.minimize
        return next(
            (LIMITS[name] for name in ("max_error_over_noise", "max_nmse") if name in self.limits),
            ERRORS[0],
        )

    def completed(self, noisy: bool) -> Wish:
        """With a limit if none is given.

        Raises
        ------
        ValueError
            An error over the noise is minimized or limited, and the noise is unknown.
        """
        given = self.limits
        if not noisy:
            if "max_error_over_noise" in given:
                raise ValueError(
                    "max_error_over_noise needs the noise of the batch, which only several workers "
                    "give; use max_nmse for these results"
                )
            if self.minimize == "error_over_noise":
                raise ValueError(
                    "minimize='error_over_noise' needs the noise of the batch, which only several "
                    "workers give; use step_nmse for these results"
                )
        if not given and (self.minimize in ERRORS or self.max_layer_error is None):
            given = (
                {"max_volume": USUAL_VOLUME}
                if self.minimize in ERRORS
                else {"max_nmse": USUAL_NMSE}
            )
        return Wish(self.minimize, **given, max_layer_error=self.max_layer_error)

    def to_dict(self) -> dict[str, Any]:
        """Without unlimited figures."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        words = [
            f"{LIMITS[name]} {'at least' if name.startswith('min') else 'at most'} {value:g}"
            for name, value in self.limits.items()
        ]
        words += (
            []
            if self.max_layer_error is None
            else [f"that of every layer at most {self.max_layer_error:g}"]
        )
        return f"least {self.minimize}" + (f" with {' and '.join(words)}" if words else "")


class Total(NamedTuple):
    """A figure as a sum over the units: the term of every unit and option, and the limit."""

    adds: np.ndarray  # (U, K)
    limit: float


def total_of(sums: Sums, figure: str, value: float = 0.0) -> Total:
    """A figure's terms, and its limit `value` as a sum of such terms."""
    if figure == "volume":
        # docs/definitions.md, section 12: classes of volume.
        return Total(sums.volume / sums.elements.sum(), value + SIDE)
    if figure == "time":
        return Total(sums.seconds / len(sums.steps), value)
    if figure == "step_nmse":
        return Total(sums.nmse.sum(axis=2) / max(sums.losses.sum(), 1.0), value)
    if figure == "error_over_noise":
        return Total(
            sums.log2.sum(axis=2) / max(sums.noise_blocks.sum(), 1.0),
            math.log2(value) if value > 0 else -math.inf,
        )
    if figure == "layer_cosine":
        return Total(-sums.cosine / max(sums.layers.sum(), 1.0), -value)
    assert figure == "underflow_wire"  # a quotient of two sums: underflow - limit * nonzero <= 0
    return Total(
        (sums.underflow - value * sums.nonzero) / max(sums.nonzero.max(axis=1).sum(), 1.0), 0.0
    )


def unit_errors(sums: Sums, figure: str) -> np.ndarray:
    """The error of every unit, (U, K): over its own noise (0 if none), or its part of the NMSE."""
    if figure != "error_over_noise":
        return total_of(sums, figure).adds
    blocks = sums.noise_blocks.sum(axis=1)[:, None]
    logs = sums.log2.sum(axis=2)
    return np.where(blocks > 0, 2.0 ** (logs / np.maximum(blocks, 1.0)), 0.0 * logs)


def figures(table: Table, sums: Sums, choice: np.ndarray) -> dict[str, float]:
    """A mixture's figures: volume, time, errors with interval, cosine, underflow, overflows."""
    own = sums.picked(choice)
    overflowed = own.overflow.sum()
    log2 = math.inf if overflowed else total_of(own, "error_over_noise").adds.sum()
    over_noise = 2.0**log2 if sums.noisy else math.nan
    nonzero = own.nonzero.sum()
    return {
        "volume": float(own.volume.sum() / own.elements.sum()),
        "time": float(total_of(own, "time").adds.sum() + table.latency(choice)),
        "error_over_noise": float(over_noise),
        "error_over_noise_corrected": float(over_noise * math.sqrt(math.prod(sums.interval))),
        "error_over_noise_low": float(over_noise * sums.interval[0]),
        "error_over_noise_high": float(over_noise * sums.interval[1]),
        "step_nmse": float(_step_nmse(own)),
        "layer_cosine": float(own.cosine.sum() / own.layers.sum())
        if own.layers.sum()
        else math.nan,
        "underflow_wire": float(own.underflow.sum() / nonzero) if nonzero else math.nan,
        "overflowed": int(overflowed),
    }


def _step_nmse(own: Sums) -> float:
    """Of one mixture: the mean of its steps' losses; docs/definitions.md, section 14."""
    if not own.lossy:
        return math.nan
    if not own.overflow.sum():
        return total_of(own, "step_nmse").adds.sum()
    error, reference, overflow = own.lost[:, 0].sum(axis=0)
    losses, present = step_losses({"error": error, "reference": reference, "overflow": overflow})
    steps = own.losses.sum() - (~present).sum()
    return (own.rest.sum() + losses[present].sum()) / steps


def ranked(table: Table, sums: Sums, choice: np.ndarray) -> dict[str, float]:
    """`figures` with infinite errors if the mixture overflows: it is never better."""
    values = figures(table, sums, choice)
    return values | dict.fromkeys(ERRORS, math.inf) if values["overflowed"] else values
