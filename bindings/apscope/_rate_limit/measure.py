"""Passes over a trace: the normalized values of each group, and what schemes lose of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .. import _core
from .._schemes.exchange import Exchange, exchange
from .._schemes.scheme import Scheme
from .._traces.trace import Trace
from .blocks import Blocks, Census, Scatter, blocks_of, gradients, scatter
from .bound import Bound, OfSum

#: Elements of a worker that are divided into blocks at once.
PIECE = 2**18


@dataclass(frozen=True)
class Part:
    """The part of a trace that is read."""

    trace: Trace
    steps: Sequence[int]  #: recorded numbers
    tensors: Sequence[str]
    workers: int
    block: int

    def rows(self, complete: bool) -> Iterator[tuple[int, str, np.ndarray, list[Blocks]]]:
        """Step, tensor, all workers' gradients (float32, with their shape) and their blocks.

        Unless `complete`, the blocks of a large tensor come in pieces, which bounds their memory.
        """
        piece = max(PIECE - PIECE % self.block, self.block)
        for step in self.steps:
            for tensor in self.tensors:
                x = gradients(self.trace, step, tensor, self.workers)
                flat = x.reshape(self.workers, -1)
                size = max(flat.shape[1], 1) if complete else piece
                for at in range(0, max(flat.shape[1], 1), size):
                    part = flat[:, at : at + size].astype(np.float64)
                    yield step, tensor, x, [blocks_of(row, self.block) for row in part]

    @property
    def elements(self) -> int:
        """Of one worker, all steps."""
        sizes = {t.name: math.prod(t.shape) for t in self.trace.manifest.tensors}
        return len(self.steps) * sum(sizes[name] for name in self.tensors)


def _bits(made: Exchange) -> int:
    """Of one worker's message, with its scales."""
    return made.payload_bits[0] + made.side_bits[0]


@dataclass
class Message:
    """What a scheme sends of the gradients, and its errors in the sample."""

    scheme: Scheme
    seed: int
    bits: int = 0  #: codes and side information of all rows
    elements: int = 0  #: that these bits serve
    overflow: int = 0  #: finite elements of the sample that are not finite when decoded
    _errors: list[float] = field(default_factory=list)
    _states: dict[tuple[str, int], dict[str, np.ndarray]] = field(default_factory=dict)

    @cached_property
    def _spares_zeros(self) -> bool:
        """Whether zeros take fewer bits than other values.

        Then blocks of zeros, which the limit leaves out, must not count as elements that the bits
        serve: the bits of the others would seem to be fewer than they are.
        """
        values = np.linspace(-1, 1, 1024, dtype=np.float32)  # an even number: none is 0
        zeros, others = (
            exchange(self.scheme, x[None], topology="exact") for x in (0 * values, values)
        )
        return _bits(zeros) < _bits(others)

    def send(
        self,
        x: np.ndarray,
        b: Blocks,
        chosen: np.ndarray,
        step: int,
        index: int,
        tensor: str,
        role: str,
        worker: int,
    ) -> None:
        """Encode one worker's row alone, and add its squared errors in units of 4^S."""
        made = exchange(
            self.scheme,
            x[None],
            topology="exact",
            state=self._states.get((tensor, worker)),
            step=step,
            index=index,
            tensor=tensor,
            role=role,
            seed=self.seed + worker,
        )
        self._states[tensor, worker] = made.state
        self.bits += _bits(made)
        self.elements += int(b.counts[b.kept].sum()) if self._spares_zeros else x.size
        sent = made.sent[0].reshape(-1)
        lost = b.finite & ~np.isfinite(sent)
        self.overflow += int(lost.sum())
        apart = np.where(b.finite & ~lost, sent - b.values, 0.0)
        squares = _core.block_squares(apart, b.block)[chosen]
        self._errors.append(math.fsum(np.ldexp(squares, -2 * b.exponents[chosen])))

    @property
    def error(self) -> float:
        """The sum of the squared errors of the sample; infinite with overflow."""
        return math.inf if self.overflow else math.fsum(self._errors)


@dataclass(eq=False)
class Group:
    """A group of blocks: its counts, and its sample's normalized values."""

    census: Census = field(default_factory=Census)
    elements: int = 0  #: finite, of the sample's blocks
    _parts: list[np.ndarray] = field(default_factory=list)

    def take(self, b: Blocks) -> np.ndarray:
        """Add a row's chosen blocks, which are returned as (blocks,) bool."""
        chosen = self.census.choose(b)
        self.elements += int(b.counts[chosen].sum())
        self._parts.append(b.divided(chosen))
        return chosen

    @property
    def values(self) -> np.ndarray:
        """float64: the nonzero values of the sample."""
        return np.concatenate([np.zeros(0), *self._parts])


@dataclass(eq=False)
class Measured:
    """The groups of a trace, and its schemes' messages."""

    gradients: Group  #: every worker's
    means: Group  #: of the workers
    residuals: Group  #: the workers' distances from their mean
    messages: list[Message]
    #: Geometric means over the blocks with noise: the sum of 4^S k / W^2 over the workers'
    #: residuals, divided by the noise, and 4^S k of the mean, divided by it; and the first of the
    #: workers' gradients themselves. NaN without noise.
    up_unit: float = math.nan
    down_unit: float = math.nan
    message_unit: float = math.nan

    def of_sum(self, threads: int) -> OfSum:
        """The limit of the sum of all workers; unknown without noise."""
        up, down = self.residuals, self.means
        return OfSum(
            Bound.of(up.values, up.elements, self.up_unit, threads),
            Bound.of(down.values, down.elements, self.down_unit, threads),
        )


def measure(
    part: Part,
    schemes: Sequence[Scheme],
    noisy: bool,
    seed: int,
    update: Callable[[int, int], None] | None,
) -> Measured:
    """Two passes: counts, which decide about the sample; then values and messages.

    `noisy`: whether the workers' gradients are independent and tell the noise. `update` is called
    with the number of values of a worker that were visited, and will be.
    """
    m = Measured(Group(), Group(), Group(), [Message(s, seed) for s in schemes])
    total, done, complete = 2 * part.elements, 0, bool(schemes)
    for _, _, _, rows in part.rows(complete):
        for b in rows:
            m.gradients.census.count(b)
        if noisy:
            between = scatter(rows)
            m.means.census.count(between.mean)
            for b in between.residuals:
                m.residuals.census.count(b)
        done += len(rows[0].values)
        if update is not None:
            update(done, total)
    units: list[tuple[float, float, float, int]] = []
    index = {step: i for i, step in enumerate(part.steps)}
    roles = part.trace.roles
    for step, tensor, x, rows in part.rows(complete):
        for worker, b in enumerate(rows):
            chosen = m.gradients.take(b)
            for message in m.messages:
                message.send(x[worker], b, chosen, step, index[step], tensor, roles[tensor], worker)
        if noisy:
            between = scatter(rows)
            m.means.take(between.mean)
            for b in between.residuals:
                m.residuals.take(b)
            units.append(_units(between, rows))
        done += len(rows[0].values)
        if update is not None:
            update(done, total)
    if blocks := sum(n for *_, n in units):
        m.up_unit, m.down_unit, m.message_unit = (
            _core.fixed_exp2(math.fsum(logs) / blocks) for logs in list(zip(*units))[:3]
        )
    return m


def _units(between: Scatter, rows: Sequence[Blocks]) -> tuple[float, float, float, int]:
    """Sums of the three logarithms over the blocks with noise, and their number."""
    mean, workers = between.mean, len(rows)
    there = (between.noise > 0) & mean.kept
    counts, noise = mean.counts[there], between.noise[there]

    def summed(blocks: Sequence[Blocks]) -> np.ndarray:
        binades = [np.ldexp(1.0 * b.kept[there], 2 * b.exponents[there]) for b in blocks]
        return np.add.accumulate(binades, axis=0)[-1] / (workers * workers)

    of_mean = np.ldexp(1.0, 2 * mean.exponents[there])
    up, down, message = (
        math.fsum(_core.fixed_log2(unit * counts / noise))
        for unit in (summed(between.residuals), of_mean, summed(rows))
    )
    return up, down, message, int(there.sum())
