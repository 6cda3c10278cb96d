"""Which elements of a tensor a cut keeps: runs at random places, and the largest magnitudes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .._traces.safetensors import is_bfloat16

#: Elements of a run of a tensor of one axis: those of a block of statistics.
BLOCK = 32
#: Pieces that are drawn of a tensor of two or more axes, at least.
LEAST = 3
#: Random choices of a tensor's pieces, of which the one stays that has the whole's energies.
TRIALS = 500
_PART = 2**20  # elements that are looked at at once


@dataclass
class Pieces:
    """A tensor as pieces of equal length: its rows, or runs of elements where rows are long."""

    name: str
    shape: tuple[int, ...]
    length: int  # elements of a piece
    count: int
    steps: int
    width: int = 2  # bytes of a stored element: 2 if all are bfloat16 numbers, else 4
    peaks: set[int] = field(default_factory=set)  # elements, the largest magnitude of each step
    energy: np.ndarray = field(init=False)  # (steps, pieces): squares of the workers' sum, added

    def __post_init__(self) -> None:
        self.energy = np.zeros((self.steps, self.count))

    @classmethod
    def of(cls, name: str, shape: tuple[int, ...], longest: int, steps: int) -> Pieces:
        size = math.prod(shape)
        row = size // shape[0] if len(shape) > 1 and size else min(size, BLOCK)
        length = max(1, min(row, longest))
        return cls(name, shape, length, math.ceil(size / length), steps)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def kept(self, pieces: int, alone: int) -> int:
        """Elements of so many pieces and so many single elements."""
        return pieces * self.length + alone

    @property
    def are_rows(self) -> bool:
        return len(self.shape) > 1 and self.count == self.shape[0]

    def starts(self, numbers: np.ndarray) -> np.ndarray:
        """The last piece ends where the tensor ends."""
        return np.minimum(numbers * self.length, self.size - self.length)

    def look(self, step: int, rows: Sequence[np.ndarray]) -> None:
        """Takes what is needed of a step's gradients, one row per worker."""
        flat = [row.reshape(-1) for row in rows]
        piece = self.length * max(1, _PART // self.length)
        best, at = -1.0, 0
        for begin in range(0, self.size, piece):
            total, largest = np.zeros(1), np.zeros(1, np.float32)
            for row in flat:
                part = row[begin : begin + piece]
                self.see(part)
                total = total + np.where(np.isfinite(part), part, 0)
                largest = np.fmax(largest, np.nan_to_num(np.abs(part), nan=np.inf))
            if (peak := float(largest.max())) > best:
                best, at = peak, begin + int(largest.argmax())
            squares, first = total * total, begin // self.length
            rows_of = squares[: squares.size // self.length * self.length]
            sums = rows_of.reshape(-1, self.length).sum(axis=1)
            self.energy[step, first : first + sums.size] = sums
            if rows_of.size < squares.size:  # the last piece overlaps the one before
                self.energy[step, -1] = squares[-self.length :].sum()
        self.peaks.add(at)

    def see(self, values: np.ndarray) -> None:
        """Notes whether all values are bfloat16 numbers."""
        if self.width == 2 and not is_bfloat16(values):
            self.width = 4

    def singles(self) -> np.ndarray:
        """Elements that stay alone: the peaks, and others at random that fill up a piece."""
        peaks = sorted(self.peaks)
        more = -len(peaks) % self.length if len(self.shape) > 1 else 0
        words = _words(f"{self.name}/single", more) % np.uint64(max(1, self.size))
        return np.array([*peaks, *words.tolist()], dtype=np.int64)

    def drawn(self, room: float, workers: int, alone: int) -> int:
        """How many pieces to draw for `room` elements, beside `alone` single ones.

        Rows are a multiple of the workers if there are so many, else of as many as make the shards
        of two phases whole blocks: phase 2 counts rows and blocks from the start of a shard.
        """
        count = math.floor(room / self.length)
        if len(self.shape) < 2:
            return max(1, count)
        single = alone // self.length
        rows = max(LEAST, count) + single
        for unit in (workers, -(-workers * BLOCK // self.length)):
            if rows >= unit + single:
                return rows - rows % unit - single
        return rows - single

    def choose(self, count: int, singles: np.ndarray, of_singles: np.ndarray) -> np.ndarray:
        """`count` pieces at random, ascending.

        Pieces in the order of their energies are in `count` groups of equal size, and one of each
        is drawn. Of `TRIALS` such choices the one stays whose energies, with those of the single
        elements (`of_singles`, one per step), are nearest to the whole's at the steps.
        """
        totals = self.energy.sum(axis=1)
        steps = totals > 0
        shares = self.energy[steps] / totals[steps, None]
        order = np.argsort(shares.sum(axis=0), kind="stable")
        edges = np.arange(count + 1) * self.count // count
        elements = self.kept(count, singles.size)
        alone = of_singles[steps] / totals[steps]
        best, chosen = math.inf, order[:0]
        for trial in range(TRIALS):
            words = _words(f"{self.name}/{trial}", count) % np.diff(edges).astype(np.uint64)
            numbers = order[edges[:-1] + words.astype(np.int64)]
            share = (shares[:, numbers].sum(axis=1) + alone) * (self.size / elements)
            off = float((np.log2(np.maximum(share, 1e-300)) ** 2).sum())
            if off < best:
                best, chosen = off, numbers
            if not steps.any():
                break
        return np.sort(chosen)

    def take(self, values: np.ndarray, numbers: np.ndarray, singles: np.ndarray) -> np.ndarray:
        """Pieces of these numbers, then the single elements; rows keep their axes."""
        flat = values.reshape(-1)
        runs = flat[self.starts(numbers)[:, None] + np.arange(self.length)].reshape(-1)
        elements = np.concatenate([runs, flat[singles]])
        if len(self.shape) < 2:
            return elements
        return elements.reshape(-1, *(self.shape[1:] if self.are_rows else (self.length,)))


def _words(text: str, count: int) -> np.ndarray:
    """`count` random 64-bit words, which depend on the text alone."""
    digest = hashlib.shake_128(text.encode(errors="surrogatepass")).digest(8 * count)
    return np.frombuffer(digest, "<u8")
