"""How much of an error stays over consecutive steps, and how it turns an optimizer's update.

Notation of `statistics`. A trace's steps are cut into runs of consecutive numbers, and every run from
its beginning into windows of k steps; what is left over does not count. Over a window the errors e of
an element are added up with their signs, and its N are added up, too:

```text
persistence_k            sum of (sum of e)^2 over sum of (sum of N), over all elements and windows
typical_persistence_k    both over blocks of 32, ratio not below 2^-30, geometric mean over all
                         blocks with noise and windows
signed_k                 the same over single elements
lost_persistence_k       arithmetic mean of p / (k + p), p those ratios over blocks of 32
cosine_loss_k            mean over layers and windows of 1 - cosine between the sums of y and of m over
                         the window, where the latter is not 0
model_cosine_loss_k      the same of all tensors as one vector: the direction of SGD's update
adam_cosine_loss_k       the same with the sums of y over the root of its mean square over all steps so
                         far, element by element, and those of m over that of m: of Adam's update
gain of a layer          a = <y, m> / <m, m>, each summed over all steps; y the exchanged result
lost_gain                mean over layers with m != 0 of |1 - a|
```

An error that is drawn anew at every step has a persistence_k of E over N whatever k is, one that is
the same at every step k times that, one that is sent at the next step instead about 1 / k of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from .._arrays.float_environment import guarded
from .step_errors import TensorErrors, block_sums, cosine, log2_ratios

#: Steps of a window.
WINDOWS = (3, 10, 30)
_BLOCK = 32

#: The results of `Persistence.found`, and the definition of each.
PERSISTENT: dict[str, str] = {
    name.format(k): said.format(k)
    for k in WINDOWS
    for name, said in (
        ("persistence_{}", "error over noise of what {} consecutive steps add up to"),
        ("typical_persistence_{}", "the same, geometric mean over blocks of 32, over {} steps"),
        ("signed_{}", "the same, geometric mean over single elements, over {} steps"),
        ("lost_persistence_{}", "p / (k + p), mean over blocks of 32, of what {} steps add up to"),
        (
            "cosine_loss_{}",
            "1 - cosine of a layer's sum over {} steps, mean over layers and windows",
        ),
        ("model_cosine_loss_{}", "the same of all tensors as one vector, over {} steps"),
        ("adam_cosine_loss_{}", "the same of Adam's updates, over {} steps"),
    )
} | {"lost_gain": "|1 - gain| of a layer, mean over layers"}


class _Logarithms:
    """The geometric mean of ratios that are not below 2^-30."""

    def __init__(self) -> None:
        self.sum, self.count = 0.0, 0

    def add(self, error: np.ndarray, noise: np.ndarray) -> None:
        """Ratios of elements or blocks; those without noise are left out."""
        sum_, count = log2_ratios(error, noise)
        self.sum, self.count = self.sum + sum_, self.count + count

    @property
    def mean(self) -> float:
        return 2.0 ** (self.sum / self.count) if self.count else math.nan


class _Turned:
    """The mean of 1 - cosine between results and exact vectors, each given in parts."""

    def __init__(self) -> None:
        self.sum, self.count = 0.0, 0

    def add(self, pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> None:
        """Parts of an exact vector and of a result; nothing if the first is 0."""
        if (direction := cosine(pairs)) is not None:
            self.sum, self.count = self.sum + direction, self.count + 1

    @property
    def mean(self) -> float:
        return max(1 - self.sum / self.count, 0.0) if self.count else math.nan


def _inverse_root(squares: np.ndarray) -> np.ndarray:
    """1 / sqrt, and 0 of 0."""
    return np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)


#: By tensor the sums of m^2 and of y^2 over the steps so far.
_Moments = Mapping[str, tuple[np.ndarray, np.ndarray]]


@dataclass
class _Window:
    """The window of k steps that is being added up, and all before it."""

    k: int
    steps: int = 0
    error: dict[str, np.ndarray] = field(default_factory=dict)  # of e
    noise: dict[str, np.ndarray] = field(default_factory=dict)
    mean: dict[str, np.ndarray] = field(default_factory=dict)
    result: dict[str, np.ndarray] = field(default_factory=dict)
    total_error: float = 0.0
    total_noise: float = 0.0
    blocks: _Logarithms = field(default_factory=_Logarithms)
    elements: _Logarithms = field(default_factory=_Logarithms)
    lost: float = 0.0
    layers: _Turned = field(default_factory=_Turned)
    model: _Turned = field(default_factory=_Turned)
    adam: _Turned = field(default_factory=_Turned)

    def add(self, errors: Mapping[str, TensorErrors], moments: _Moments) -> None:
        for name, of_one in errors.items():
            if self.steps == 0:
                self.error[name], self.noise[name] = of_one.error.copy(), of_one.noise.copy()
                self.mean[name], self.result[name] = of_one.mean.copy(), of_one.result.copy()
            else:
                self.error[name] += of_one.error
                self.noise[name] += of_one.noise
                self.mean[name] += of_one.mean
                self.result[name] += of_one.result
        self.steps += 1
        if self.steps == self.k:
            self._close(moments)
            self.steps = 0

    def _close(self, moments: _Moments) -> None:
        exact, turned = self.mean, self.result
        for name, mean in exact.items():
            self.layers.add([(mean, turned[name])])
        self.model.add((mean, turned[name]) for name, mean in exact.items())
        self.adam.add(
            (exact[name] * _inverse_root(of_m), turned[name] * _inverse_root(of_y))
            for name, (of_m, of_y) in moments.items()
        )
        for name, signed in self.error.items():
            error, noise = signed**2, self.noise[name]
            self.total_error += float(error.sum())
            self.total_noise += float(noise.sum())
            self.elements.add(error, noise)
            e, n = block_sums(error, _BLOCK), block_sums(noise, _BLOCK)
            self.blocks.add(e, n)
            self.lost += float((e[n > 0] / (e[n > 0] + self.k * n[n > 0])).sum())

    def found(self) -> dict[str, float]:
        count = self.blocks.count
        return {
            f"persistence_{self.k}": self.total_error / self.total_noise
            if self.total_noise > 0
            else math.nan,
            f"typical_persistence_{self.k}": self.blocks.mean,
            f"signed_{self.k}": self.elements.mean,
            f"lost_persistence_{self.k}": self.lost / count if count else math.nan,
            f"cosine_loss_{self.k}": self.layers.mean,
            f"model_cosine_loss_{self.k}": self.model.mean,
            f"adam_cosine_loss_{self.k}": self.adam.mean,
        }


class Persistence:
    """Adds up steps of a trace, in their order."""

    def __init__(self) -> None:
        self._windows = [_Window(k) for k in WINDOWS]
        self._last: int | None = None
        self._gains: dict[str, list[float]] = {}  # sums of <y, m> and of <m, m>
        self._moments: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    @guarded
    def add(self, step: int, errors: Mapping[str, TensorErrors]) -> None:
        """The step of this number, of all tensors."""
        if self._last is None or step != self._last + 1:
            for window in self._windows:
                window.steps = 0
        self._last = step
        for name, of_one in errors.items():
            zeros = np.zeros_like(of_one.mean)
            of_m, of_y = self._moments.setdefault(name, (zeros, zeros.copy()))
            of_m += of_one.mean**2
            of_y += of_one.result**2
        for window in self._windows:
            window.add(errors, self._moments)
        for name, (mean, result, *_) in errors.items():
            gains = self._gains.setdefault(name, [0.0, 0.0])
            gains[0] += float(mean @ result)
            gains[1] += float(mean @ mean)

    @guarded
    def found(self) -> dict[str, float]:
        """`PERSISTENT`; NaN where no run has a window's steps, or nothing has noise."""
        lost = [abs(1 - y / m) for y, m in self._gains.values() if m > 0]
        found = {name: value for window in self._windows for name, value in window.found().items()}
        found["lost_gain"] = float(np.mean(lost)) if lost else math.nan
        return {name: found[name] for name in PERSISTENT}
