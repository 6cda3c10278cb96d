"""One use of a tensor in a model: its cast in every phase, its random words, its memory.

Uses of one operand that are rounded alike, whatever the product, are one use: the tensor is cast
once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..._arrays.blocks import quantize_blocks
from ..._arrays.casts import quantize
from ..._core import stream_seed
from ..._text import count_of
from ...torch._devices import to_cpu
from ...torch._states import check_state
from ...torch._weights import STOCHASTIC_NORMAL, stochastic_normal
from .._exchanger import STATE, Exchanger
from .scaled import Operand, scaled_blocks, scaled_message, values_of
from .specs import Cast
from .transforms import hadamard, in_tiles, with_block

if TYPE_CHECKING:
    from .observe import Observer


class Clock:
    """State that all uses of a model share: the seed, the step and its phase, the observer.

    `starts`: the first step of every phase, ascending from 0.
    """

    def __init__(self, seed: int, starts: Sequence[int]) -> None:
        self.seed, self.starts = seed, list(starts)
        self.observer: Observer | None = None
        self.dry = False  #: Whether memories and random words are not changed.
        self.set(0)

    def set(self, step: int) -> None:
        """Moves to a step."""
        self.step = step
        self.phase = max(i for i, first in enumerate(self.starts) if first <= step)

    def seed_of(self, name: str) -> int:
        """The seed of a name: call number (first 63 bits of its SHA-256) of ``Draws(seed)``."""
        digest = hashlib.sha256(name.encode()).digest()
        return stream_seed(self.seed, int.from_bytes(digest[:8], "little") >> 1)


class Words:
    """Seeds of the calls of one name: by the step, and by the call's number within it.

    Evaluations draw from a separate stream, so they do not affect training.
    """

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock = clock
        self._bases = clock.seed_of(name), clock.seed_of(f"{name}|evaluation")
        self._step, self._calls = -1, [0, 0]

    def next(self, training: bool) -> int:
        """The seed of the next call."""
        if self._step != self._clock.step:
            self._step, self._calls = self._clock.step, [0, 0]
        which = 0 if training and not self._clock.dry else 1
        self._calls[which] += 1
        return stream_seed(self._bases[which], (self._step << 24) + self._calls[which] - 1)


class Use:
    """Casts a tensor by the cast of the phase.

    `name` is that of the model's part, `role` the tensor's in it; there is one of `casts` a phase.
    """

    def __init__(self, name: str, role: str, casts: Sequence[Cast | None], clock: Clock) -> None:
        self.name, self.role, self.casts, self.clock = name, role, list(casts), clock
        self.apart = False  #: Whether elements and scales are returned apart.
        self._words = Words(clock, f"{name}|{role}")
        self._projections = [c and c.kind != "scheme" and c.projection for c in casts]
        self._memory: dict[int, tuple[int, Exchanger]] = {}  # phase -> size, memory
        self._left: dict[int, Mapping[str, Any]] = {}  # of a checkpoint, until the first call
        for c in casts:
            if c is not None and c.kind == "scheme":
                _check_scheme(name, role, c)

    @property
    def cast(self) -> Cast | None:
        """The cast of this phase."""
        return self.casts[self.clock.phase]

    def __call__(
        self,
        x: torch.Tensor,
        axis: int = -1,
        matrix: tuple[int, int] = (0, -1),
        *,
        training: bool = True,
    ) -> Any:
        """The rounded fp32 tensor; x itself if the phase has no cast; `Scaled` if `apart`.

        The product sums over `axis`; `matrix` has the axes of a tile's rows and columns. Unless
        `training`, the memory and the random words of training are not changed.
        """
        cast = self.cast
        if cast is None:
            return x
        x = x.detach()
        if cast.hadamard:
            x = hadamard(x, axis)
        y: Operand
        if cast.kind == "scheme":
            y = self._exchanged(cast, x, axis, training)
        else:
            y = self._rounded(cast, x, axis, matrix, training)
        if self.clock.observer is not None and (training or self.clock.dry):
            self.clock.observer.add(self.name, self.role, cast, x, values_of(y), axis, matrix)
        return y

    def _rounded(
        self, cast: Cast, x: torch.Tensor, axis: int, matrix: tuple[int, int], training: bool
    ) -> Operand:
        how: dict[str, Any] = {"projection": self._projections[self.clock.phase]}
        if cast.draws:
            how["seed"] = self._words.next(training)
        y: Operand
        if cast.kind == "float":
            return _float_cast(cast, x, how)
        cast_blocks = scaled_blocks if self.apart else quantize_blocks
        if cast.tile is None:
            y = cast_blocks(x, cast.format, axis=axis, **how)
        else:
            block = with_block(cast.format, cast.tile[0] * cast.tile[1])
            y = in_tiles(x, cast.tile, matrix, lambda t: cast_blocks(t, block, **how))
        return y

    def _exchanged(self, cast: Cast, x: torch.Tensor, axis: int, training: bool) -> Operand:
        """The scheme's decoded result, with one worker, of the tensor with the sum's axis last."""
        moved = x.movedim(axis, -1)
        row = moved.reshape(1, -1).contiguous()
        if self.apart:
            row = to_cpu(row, f"elements and scales, apart, of the scheme {cast.format}")
        memory = self._memory_of(cast, row.shape[1])
        moves = training and not self.clock.dry
        before = {} if moves and not self.apart else memory.state_dict()
        out = torch.empty(row.shape[1], device=row.device)
        memory.run([row], [out])
        if not moves:
            memory.load_state_dict(before)

        def placed(y: torch.Tensor) -> torch.Tensor:
            return y.reshape(moved.shape).movedim(-1, axis)

        if not self.apart:
            return placed(out)
        try:
            made = scaled_message(row[0], out, cast.format, cast.elements, before)
            return made.to(x.device).map(placed)
        except ValueError as error:
            raise ValueError(f"{self.name}, {self.role}: {error}") from None

    def _memory_of(self, cast: Cast, size: int) -> Exchanger:
        """The scheme's memory in this phase, for a tensor of this size."""
        phase = self.clock.phase
        current = self._memory.get(phase)
        if current is not None and current[0] == size:
            return current[1]
        state = current[1].state_dict() if current is not None else self._left.pop(phase, None)
        made = memory_of(cast, size, self.clock.seed_of(f"{self.name}|{self.role}|{phase}"))
        if state is not None:
            try:
                made.load_state_dict(state)
            except ValueError as error:
                raise ValueError(
                    f"{self.name}, {self.role}: {cast.format} keeps a memory per element, but the "
                    f"tensor now has {count_of(size, 'element')}: {error}"
                ) from None
        self._memory[phase] = size, made
        return made

    def __getstate__(self) -> dict[str, Any]:
        """For copies: the memory of schemes as tensors and numbers."""
        return {**self.__dict__, "_memory": {}, "_left": self._states()}

    def _states(self) -> dict[int, Mapping[str, Any]]:
        current = {phase: memory.state_dict() for phase, (_, memory) in self._memory.items()}
        return {**self._left, **current}

    def state_dict(self) -> dict[str, Any]:
        """The memory of schemes; empty for all other casts."""
        return {str(phase): state for phase, state in self._states().items()}

    def check_state(self, state: Any) -> None:
        """Raises TypeError or ValueError for a state that `load_state_dict` cannot take."""
        if not isinstance(state, Mapping) or not all(str(phase).isdecimal() for phase in state):
            raise ValueError(f"the state's memory of {self.name}, {self.role} is not by phase")
        for one in state.values():
            check_state(one, STATE)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from another use's memory."""
        self._memory.clear()
        self._left = {int(phase): memory for phase, memory in state.items()}


def _float_cast(cast: Cast, x: torch.Tensor, how: dict[str, Any]) -> torch.Tensor:
    """The cast to a float format; `how` has the projection and the seed."""
    if cast.through is not None:
        x = quantize(x, cast.through, overflow=cast.overflow)
    rounding = stochastic_normal if cast.rounding == STOCHASTIC_NORMAL else quantize
    y: torch.Tensor = rounding(x, cast.format, **how)
    if cast.flush_below is not None:
        y = torch.where(y.abs() < cast.flush_below, torch.zeros_like(y).copysign(y), y)
    return y


def _check_scheme(name: str, role: str, cast: Cast) -> None:
    try:
        needs = memory_of(cast, 4, 0).needs
    except ValueError as error:
        raise ValueError(f"{name}, {role}: {error}") from None
    if needs:
        raise ValueError(
            f"{name}, {role}: {cast.format} needs the {' and the '.join(needs)} of a step, which "
            "an operand does not have; give another scheme"
        )


def memory_of(cast: Cast, size: int, seed: int) -> Exchanger:
    """A scheme with one worker, for a tensor of this number of elements."""
    return Exchanger(
        cast.format, {"x": (size,)}, workers=1, topology="exact", seed=seed, divide=False, threads=1
    )
