"""Blocks of a trace's gradients, each divided by its own power of two; a sample of large traces.

Block b of k finite elements has the exponent S = floor(log2 rms), rms the root mean square of
these elements; z = x 2^-S is exact. docs/limit.md says why the exponents are free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import _core
from .._traces.trace import Trace

#: Values of a sample; of more, every ceil(n / MOST)-th block with a nonzero element is taken.
MOST = 2**20


@dataclass(frozen=True, eq=False)
class Blocks:
    """One row in blocks."""

    values: np.ndarray  #: float64, the row; 0 for elements that are not finite
    finite: np.ndarray  #: bool, of the row
    block: int  #: elements of a block; the last may have fewer
    counts: np.ndarray  #: finite elements of each block
    squares: np.ndarray  #: the sum of their squares
    exponents: np.ndarray  #: S; 0 for a block of zeros

    @property
    def kept(self) -> np.ndarray:
        """(blocks,) bool: with a nonzero element."""
        return self.squares > 0

    def nonzero(self) -> np.ndarray:
        """(blocks,) the numbers of nonzero elements."""
        return _per_block(self.values != 0, self.block)

    def divided(self, chosen: np.ndarray) -> np.ndarray:
        """The nonzero elements of the chosen blocks times 2^-S."""
        z = np.ldexp(_in_rows(self.values, self.block)[chosen], -self.exponents[chosen][:, None])
        return z[z != 0]


def blocks_of(row: np.ndarray, block: int, finite: np.ndarray | None = None) -> Blocks:
    """A float64 row; `finite`: the elements that count, by default those that are finite."""
    finite = np.isfinite(row) if finite is None else finite
    values = np.where(finite, row, 0.0)
    squares = _core.block_squares(values, block)
    counts = _per_block(finite, block)
    nonzero = squares > 0
    mean = np.divide(squares, counts, out=np.ones_like(squares), where=nonzero)
    # mean = m 2^e with m in [1/2, 1), so floor(log2 mean) = e - 1
    exponents = np.where(nonzero, (np.frexp(mean)[1] - 1) // 2, 0)
    return Blocks(values, finite, block, counts, squares, exponents)


def _in_rows(row: np.ndarray, block: int) -> np.ndarray:
    if missing := -len(row) % block:  # np.pad is slow on short rows
        row = np.concatenate([row, np.zeros(missing, row.dtype)])
    return row.reshape(-1, block)


def _per_block(marks: np.ndarray, block: int) -> np.ndarray:
    return np.count_nonzero(_in_rows(marks, block), axis=1)


@dataclass
class Census:
    """Counts of all blocks of a group; which of them are in its sample."""

    blocks: int = 0  #: with a nonzero element
    zero_blocks: int = 0
    elements: int = 0  #: finite, of the blocks with a nonzero element
    values: int = 0  #: nonzero
    nonfinite: int = 0
    _passed: int = 0

    def count(self, b: Blocks) -> None:
        """Add the blocks of a row."""
        nonzero = b.kept
        self.blocks += int(nonzero.sum())
        self.zero_blocks += int((~nonzero).sum())
        self.elements += int(b.counts[nonzero].sum())
        self.values += int(b.nonzero()[nonzero].sum())
        self.nonfinite += int((~b.finite).sum())

    @property
    def every(self) -> int:
        """Every how many blocks one is in the sample."""
        return max(-(-self.values // MOST), 1)

    def choose(self, b: Blocks) -> np.ndarray:
        """(blocks,) bool: which are in the sample. Rows must come as they were counted."""
        nonzero = b.kept
        number = self._passed + np.cumsum(nonzero) - 1
        self._passed += int(nonzero.sum())
        return nonzero & (number % self.every == 0)


def gradients(trace: Trace, step: int, tensor: str, workers: int) -> np.ndarray:
    """(workers, ...) float32, with the tensor's shape; of a number (1,)."""
    return np.array([np.atleast_1d(trace.read(step, tensor, w)) for w in range(workers)])


@dataclass(frozen=True, eq=False)
class Scatter:
    """The workers' gradients of a tensor at one step: their mean and their distances from it."""

    mean: Blocks
    residuals: list[Blocks]  #: of each worker: distances times sqrt(W / (W - 1))
    noise: np.ndarray  #: of the mean, the variance summed over each block


def scatter(rows: Sequence[Blocks]) -> Scatter:
    """Of the gradients of all workers, at least two."""
    workers = len(rows)
    finite = np.logical_and.reduce([b.finite for b in rows])
    x = np.where(finite, [b.values for b in rows], 0.0)
    mean = np.add.accumulate(x, axis=0)[-1] / workers  # in rank order
    block, wider = rows[0].block, (workers / (workers - 1)) ** 0.5
    squares = [_core.block_squares(row - mean, block) for row in x]
    noise = np.add.accumulate(squares, axis=0)[-1] / (workers * (workers - 1))
    residuals = [blocks_of((row - mean) * wider, block, finite) for row in x]
    return Scatter(blocks_of(mean, block, finite), residuals, noise)
