"""OpenSeq2Seq's two rules of automatic loss scaling, in fp64.

Source: NVIDIA/OpenSeq2Seq at 8681d381 (open_seq2seq/optimizers/automatic_loss_scaler.py); the
second rule is also in its documentation of mixed precision training.
"""

import math
from dataclasses import dataclass, field


def overflows(amax: float, has_nan: bool = False) -> bool:
    """The step is skipped. amax: the largest magnitude of all gradients, after division by the
    scale."""
    return has_nan or math.isnan(amax) or math.isinf(amax)


def clip(scale: float, least: float, most: float) -> float:
    """As minimum and maximum of tensors: NaN stays NaN."""
    return scale if math.isnan(scale) else min(max(scale, least), most)


@dataclass
class Backoff:
    """Halves the scale at an overflow, doubles it after `window` steps without one:

        overflow:                          S = clip(S / 2), last = iteration
        (iteration - last) mod window = 0: S = clip(2 S)

    The counter begins at 0, `last` at -1. Whether the counter grows before or after it is read in
    a step is not fixed by the published graph: `counts_first`."""

    scale: float = 2.0**14  #: an older version begins at 2^24, its `most`
    least: float = 1.0
    most: float = 2.0**14
    factor: float = 2.0
    window: int = 2000
    counts_first: bool = False
    iteration: int = 0
    last: int = -1

    def update(self, amax: float, has_nan: bool = False) -> float:
        """The scale after the step."""
        iteration = self.iteration + self.counts_first
        self.iteration += 1
        if overflows(amax, has_nan):
            self.scale = clip(self.scale / self.factor, self.least, self.most)
            self.last = iteration
        elif (iteration - self.last) % self.window == 0:
            self.scale = clip(self.scale * self.factor, self.least, self.most)
        return self.scale


@dataclass
class Average:
    """Exponential, divided by 1 - beta^t."""

    beta: float
    value: float = 0.0
    weight: float = 1.0

    def update(self, x: float) -> float:
        self.value = self.beta * self.value + (1 - self.beta) * x
        self.weight *= self.beta
        return self.value / (1 - self.weight)


def log2(x: float) -> float:
    return -math.inf if x == 0 else math.log2(x)


@dataclass
class LogMax:
    """Keeps the scaled amax below 2^16 with probability 0.999, if log2(amax) is normal:

        x = log2(amax), 65536 at an overflow (the published constant is 2^16, not 16)
        mu = mean of x (beta 0.99), m and E = means of x and x^2 (beta 0.999)
        sigma = sqrt(max(E - m^2, 0))
        S = clip(2^(16 - (mu + 3.09 sigma)))

    S is not a power of two. An amax of 0 makes the averages infinite, then NaN; nothing guards
    against it."""

    scale: float = 1.0
    least: float = 1.0
    most: float = 2.0**14
    at_overflow: float = 2.0**16
    deviations: float = 3.09
    mu: Average = field(default_factory=lambda: Average(0.99))
    slow: Average = field(default_factory=lambda: Average(0.999))
    squares: Average = field(default_factory=lambda: Average(0.999))

    def update(self, amax: float, has_nan: bool = False) -> float:
        """The scale after the step."""
        x = self.at_overflow if overflows(amax, has_nan) else log2(amax)
        mu, m, E = self.mu.update(x), self.slow.update(x), self.squares.update(x * x)
        variance = E - m * m
        sigma = variance if math.isnan(variance) else math.sqrt(max(variance, 0.0))
        self.scale = clip(2.0 ** (16 - (mu + self.deviations * sigma)), self.least, self.most)
        return self.scale
