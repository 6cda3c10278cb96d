"""HALP: bit centering with integers as torchhalp has it, and the fp16 form for networks.

A step with z the deviation from the centre, all in fp32:

    delta = |full gradient| / (mu (2^(bits-1) - 1)), per parameter tensor
    g = gradient at centre + z - (gradient at centre - full gradient), the same batch for both
    z = z - a step of SGD with g; its weight decay is of z
    z = delta clip(floor(z / delta + a), -2^(bits-1), 2^(bits-1) - 1)

a: a uniform number in [0, 1) per element, or 1/2. After T steps the centre becomes centre + z.

Source: De Sa et al., High-Accuracy Low-Precision Training, arXiv 1803.03383; HazyResearch/torchhalp
at 58dbfc5b (torchhalp/optim/halp.py, torchhalp/quantize.py); HazyResearch/halp at 0da6e758
(halp/optim, halp/utils/utils.py).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

F = np.float32

#: (parameters, batch) -> gradient; batch None: the mean over all batches, each counted the same.
Gradient = Callable[[np.ndarray, int | None], np.ndarray]


@np.errstate(all="ignore")
def unit(full: np.ndarray, mu: float = 0.1, bits: int = 8) -> F:
    """delta. The norm's sum is computed in fp64 and rounded once."""
    norm = F(np.sqrt((np.asarray(full, F).astype(np.float64) ** 2).sum()))
    return F(norm / F(mu * (2 ** (bits - 1) - 1)))


@np.errstate(all="ignore")
def quantized(z: np.ndarray, delta: F, bits: int, a: np.ndarray | float) -> np.ndarray:
    """A delta of 0 gives NaN."""
    half = F(2 ** (bits - 1))
    steps = np.floor(np.asarray(z, F) / F(delta) + np.asarray(a, F))
    return F(delta) * np.clip(steps, -half, half - F(1))


@dataclass
class Halp:
    """One parameter tensor. `a` of a step: uniforms of the tensor's shape, or 0.5."""

    centre: np.ndarray
    gradient: Gradient
    rate: float
    period: int
    mu: float = 0.1
    bits: int = 8
    momentum: float = 0.0
    weight_decay: float = 0.0
    steps: int = 0
    z: np.ndarray = field(init=False)
    buffer: np.ndarray | None = None
    full: np.ndarray = field(init=False)
    delta: F = field(init=False)

    def __post_init__(self) -> None:
        self.centre = np.asarray(self.centre, F)
        self.z = np.zeros_like(self.centre)

    def step(self, batch: int, a: np.ndarray | float) -> None:
        if self.steps % self.period == 0:
            self.recentre()
        self.steps += 1
        here, there = self.centre + self.z, self.centre
        g = self.gradient(here, batch) - (self.gradient(there, batch) - self.full)
        g = np.asarray(g, F)
        if self.weight_decay:
            g = g + F(self.weight_decay) * self.z
        if self.momentum:
            self.buffer = g if self.buffer is None else F(self.momentum) * self.buffer + g
            g = self.buffer
        self.z = quantized(self.z - F(self.rate) * g, self.delta, self.bits, a)

    def recentre(self) -> None:
        """At the first step and after every `period` steps; the momentum's buffer is kept."""
        self.centre, self.z = self.centre + self.z, np.zeros_like(self.z)
        self.full = np.asarray(self.gradient(self.centre, None), F)
        self.delta = unit(self.full, self.mu, self.bits)


def fp16_by_13_bits(x: np.ndarray, words: np.ndarray) -> np.ndarray:
    """fp32 to fp16, stochastically: the low 13 bits of `words` are added to the fp32 bits, which
    are truncated by 13 bits, and the result saturates at 65504. NaN and infinities stay. Results
    below 2^-14 keep 10 bits after the first: fp16's subnormals are rounded to nearest after that,
    because the source's treatment of them is not known here."""
    x = np.asarray(x, F)
    bits = x.view(np.uint32) + (np.asarray(words).astype(np.uint32) & 0x1FFF)
    cut = (bits & np.uint32(0xFFFFE000)).view(F)
    kept = np.clip(np.where(np.isfinite(x), cut, 0), F(-65504), F(65504))
    return np.where(np.isfinite(x), kept, x).astype(np.float16).astype(F)


@dataclass
class CentredFp16:
    """The network form of one parameter tensor: an fp32 offset and an fp16 deviation, no integer
    grid. With `mean` the cache is the mean over batches of rate times the offset's gradient (weight
    decay included), else there is one per batch; both are fp16. A step:

        buffer = momentum buffer + rate * gradient of the deviation pass
        buffer = buffer + cached;  deviation = deviation - buffer

    The cached part is added into the buffer itself, so momentum repeats it. With words the
    deviation is rounded stochastically, else to nearest; that rounding is once per step, at the
    end, is an assumption."""

    offset: np.ndarray
    rate: float
    momentum: float = 0.0
    deviation: np.ndarray = field(init=False)
    buffer: np.ndarray = field(init=False)
    cached: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.offset = np.asarray(self.offset, F)
        self.buffer = np.zeros_like(self.offset)
        self.deviation = np.zeros_like(self.offset)
        self.recentre()

    def recentre(self) -> None:
        """Every T epochs."""
        self.offset = self.offset + self.deviation
        self.deviation = np.zeros_like(self.offset)
        self.cached = np.zeros((0, *self.offset.shape), F)

    def cache(self, gradients: np.ndarray, mean: bool) -> None:
        """gradients: of the offset, one per batch."""
        parts = F(self.rate) * np.asarray(gradients, F)
        if mean:
            parts = parts.mean(axis=0, keepdims=True, dtype=F)
        self.cached = parts.astype(np.float16).astype(F)

    def step(self, gradient: np.ndarray, batch: int = 0, words: np.ndarray | None = None) -> None:
        """gradient: of the deviation pass; batch: 0 for the mean."""
        self.buffer = F(self.momentum) * self.buffer + F(self.rate) * np.asarray(gradient, F)
        self.buffer = self.buffer + self.cached[batch]
        moved = self.deviation - self.buffer
        if words is None:
            self.deviation = moved.astype(np.float16).astype(F)
        else:
            self.deviation = fp16_by_13_bits(moved, words)
