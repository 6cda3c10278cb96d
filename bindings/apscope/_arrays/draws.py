"""Draws: a seed that gives every use the next stream of random words."""

from __future__ import annotations

import threading

from .. import _core
from .checks import integer


class Draws:
    """A seed that advances: every call with it draws different words.

    A function that takes ``seed=`` an integer draws the same words at every call: element i of an
    array always gets the word of (seed, i). Two calls with the same seed make the same errors, so
    errors of repeated calls add up instead of averaging out. With a `Draws`, call number k (from 0)
    has its own seed: the first two words of philox(counter = (FNV-1a 64 of the empty name, k), key
    = seed), docs/definitions.md section 7.

    Parameters
    ----------
    seed : int, 0 to 2**64 - 1
        Equal seeds give equal sequences, on every machine.
    calls : int
        Number of the first call, to continue another sequence.

    Attributes
    ----------
    seed : int
    calls : int
        Number of seeds taken, from call 0 on: ``Draws(d.seed, d.calls)`` continues like ``d``.

    Raises
    ------
    ValueError
        A number out of range.
    TypeError
        Something that is not an integer.

    Notes
    -----
    Every call takes one, even with a rounding that draws nothing or with invalid arguments. Threads
    may share one; the order of the calls then decides which thread gets which seed. Replays take
    integers: their words depend on the tensor's name and the step.

    Examples
    --------
    >>> import numpy as np, apscope
    >>> draws = apscope.Draws(7)
    >>> x = np.full(4, 1.0625, np.float32)
    >>> [float(apscope.quantize(x, "e4m3", rounding="stochastic", seed=draws).mean()) for _ in range(3)]
    [1.0625, 1.125, 1.0]
    """

    def __init__(self, seed: int = 0, calls: int = 0) -> None:
        self.seed = integer("seed", seed, 0, 2**64 - 1)
        self.calls = integer("calls", calls, 0, 2**63 - 1)
        self._lock = threading.Lock()

    def next(self) -> int:
        """The seed of the next call."""
        with self._lock:
            number = self.calls
            self.calls = number + 1
        return _core.stream_seed(self.seed, number)

    def __reduce__(self) -> tuple:
        return Draws, (self.seed, self.calls)

    def __repr__(self) -> str:
        return f"Draws(seed={self.seed}, calls={self.calls})"
