"""Errors of every use: statistics per step, part and role; operands as a trace.

Rows are those of a replay's wire with one worker (docs/definitions.md, section 3): x is the operand
before the cast (after a Hadamard transform), y the result of the cast. Calls of a step are added
up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..._arrays.blocks import encode_blocks
from ..._arrays.casts import decode
from ..._arrays.checks import integer
from ..._core import BlockFormat, FloatFormat
from ..._schemes.exchange import exchange
from ..._traces.roles import guess_role
from ...record import TraceWriter
from ...torch._devices import quotient, to_cpu
from .specs import Cast
from .tables import results_of
from .transforms import in_tiles, with_block

if TYPE_CHECKING:
    import pandas as pd

    from ..._results.results import Results
    from .model import QuantizedModel
    from .uses import Clock

#: Counts and sums over calls; the other columns follow from them.
_ADDED = (
    "count", "counted", "nonzero", "underflow", "saturated", "overflow", "nan", "infinite",
    "sum_error", "sum_squared_error", "sum_squared_reference", "sum_signed_error",
    "sum_absolute_reference",
    "sum_product", "sum_squared_result", "wire_bits", "side_bits",
)  # fmt: skip
Key = tuple[int, str, str]


class Observer:
    """Collects statistics at the steps that the clock selects."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._every = 0
        self._rows: dict[Key, dict[str, Any]] = {}
        self._writer: TraceWriter | None = None
        self._due: Callable[[int], bool] = _never
        self._operands: dict[
            str, list[torch.Tensor]
        ] = {}  # the step's calls, by tensor of the trace
        self._roles: dict[str, str] = {}

    def set_every(self, every: int) -> None:
        """Observes steps that are multiples of a number; 0: none."""
        self._every = integer("every", every, 0, 2**31 - 1)
        self.begin_step()

    def begin_step(self) -> None:
        """Whether the step that begins is observed."""
        watched = self._observes() or self._records()
        self._clock.observer = self if watched else None

    def _observes(self) -> bool:
        return self._every > 0 and self._clock.step % self._every == 0

    def _records(self) -> bool:
        return self._writer is not None and self._due(self._clock.step)

    def end_step(self) -> None:
        """Writes the step's operands."""
        if self._writer is None or not self._operands:
            return
        for name, calls in self._operands.items():
            stacked = calls[0] if len(calls) == 1 else torch.stack(calls)
            self._writer.add(self._clock.step, 0, name, stacked)
        self._operands = {}
        self._writer.end_step(self._clock.step)

    def add(
        self, name: str, role: str, cast: Cast, x: torch.Tensor, y: torch.Tensor, axis: int,
        matrix: tuple[int, int]
    ) -> None:  # fmt: skip
        """A call of a use: its operand, and the rounded operand."""
        if self._records():
            tensor = self._tensor(f"{name}.{role}", x.shape)
            self._roles.setdefault(tensor, str(guess_role(f"{name}.weight", x.shape)))
            self._operands.setdefault(tensor, []).append(x.detach().to("cpu", copy=True))
        if self._observes() or self._clock.dry:
            measured = _measured(cast, x.detach(), y.detach(), axis, matrix)
            key = (self._clock.step, name, role)
            row = self._rows.setdefault(key, {"format": str(cast), "shape": tuple(x.shape)})
            for column in _ADDED:
                row[column] = _plus(row.get(column, 0), measured[column])
            for column, better in (("scale_least", min), ("scale_largest", max)):
                row[column] = better(row.get(column, measured[column]), measured[column])

    def frame(self) -> pd.DataFrame:
        """One row per step, part and role."""
        import pandas as pd

        rows = [
            {"step": step, "part": name, "role": role, **_derived(row)}
            for (step, name, role), row in self._rows.items()
        ]
        columns = [
            "step", "part", "role", "format", "count", "nonzero", "underflow_rate", "saturated",
            "overflow",
            "sqnr_db", "nmse", "cosine", "relative_bias", "scale_least", "scale_largest",
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=columns)

    def results(self, label: str) -> Results:
        """The same rows, as the table of a replay."""
        rows = [
            (step, f"{name}.{role}", row["shape"], _derived(row))
            for (step, name, role), row in self._rows.items()
        ]
        return results_of(rows, label, self._clock.seed)

    def _tensor(self, use: str, shape: torch.Size) -> str:
        """The name of a call's tensor in the trace, in which a tensor has one shape."""
        first = self._operands.get(use)  # of the step
        if first is None or first[0].shape == shape:
            return use
        return f"{use}[{', '.join(map(str, shape))}]"

    def _role(self, name: str, _: tuple[int, ...]) -> str | None:
        return self._roles.get(name)

    @contextlib.contextmanager
    def recording(self, folder: Any, every: int, steps: Any) -> Iterator[TraceWriter]:
        """While open, records the operands of the chosen steps into a trace."""
        if self._writer is not None:
            raise ValueError("operands are being recorded already; close that recording first")
        every = integer("every", every, 1, 2**31 - 1)
        chosen = None if steps is None else {integer("step", s, 0, 2**31 - 1) for s in steps}
        self._due = lambda step: step % every == 0 if chosen is None else step in chosen
        writer = TraceWriter(
            folder, workers=1, roles=self._role,
            model="operands of a quantized model",
            metadata={"values": "operands before their cast"},
            durable=False,
        )  # fmt: skip
        with writer:
            self._writer = writer
            self.begin_step()
            try:
                yield writer
            finally:
                self._writer, self._operands = None, {}
                self.begin_step()

    def debug(
        self, model: QuantizedModel, loss: Callable[[], torch.Tensor], worst: int
    ) -> pd.DataFrame:
        """One pass that changes no state, and its worst uses."""
        before, self._rows = self._rows, {}
        buffers = [(b, b.clone()) for b in model.model.buffers()]
        writer, self._writer = self._writer, None
        self._clock.dry, self._clock.observer = True, self
        try:
            with torch.enable_grad():
                value = loss() * model.loss_scale
                trained = [p for p in model.model.parameters() if p.requires_grad]
                torch.autograd.grad(value, trained, allow_unused=True)
            table = self.frame()
        finally:
            self._rows, self._writer, self._clock.dry = before, writer, False
            self.begin_step()
            with torch.no_grad():
                for b, copy in buffers:
                    b.copy_(copy)
        table = table.sort_values("sqnr_db", kind="stable", ignore_index=True)
        print(_worst(table.head(worst), float(value.detach()), len(table)))
        return table


def _never(_: int) -> bool:
    return False


def _plus(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b


def _measured(
    cast: Cast, x: torch.Tensor, y: torch.Tensor, axis: int, matrix: tuple[int, int]
) -> dict[str, Any]:
    """Counts and sums of one call, in fp64, where the operand is."""
    a, b = x.double(), y.double()
    limit, *ends = _limits(cast, x, axis, matrix)
    finite, zero = a.isfinite(), a.new_zeros(())
    pair = finite & b.isfinite()
    e = torch.where(pair, b - a, zero)
    a0, b0 = (torch.where(pair, t, zero) for t in (a, b))
    counts = {
        "counted": pair,
        "nonzero": a != 0,
        "underflow": (a != 0) & (b == 0),
        "overflow": finite & ~b.isfinite(),
        "nan": a.isnan(),
        "infinite": a.isinf(),
        **({} if limit is None else {"saturated": pair & (a.abs() > limit)}),
    }
    sums = {
        "sum_error": e,
        "sum_squared_error": e * e,
        "sum_squared_reference": a0 * a0,
        "sum_signed_error": a0.sign() * e,
        "sum_absolute_reference": a0.abs(),
        "sum_product": a0 * b0,
        "sum_squared_result": b0 * b0,
    }
    least, largest, *added = _numbers([*ends, *map(_total, (counts | sums).values())])
    element, side = _bits(cast, x, axis)
    found = dict(zip(counts | sums, added, strict=True))
    return {
        "count": a.numel(),
        "saturated": None,
        **found,
        **{name: int(found[name]) for name in counts},
        "wire_bits": element,
        "side_bits": side,
        "scale_least": least,
        "scale_largest": largest,
    }


def _total(x: torch.Tensor) -> torch.Tensor | float:
    """The sum in fp64. NumPy's does not depend on the number of threads, as PyTorch's may."""
    return x.sum(dtype=torch.float64) if x.is_cuda else float(x.numpy().sum(dtype=np.float64))


def _numbers(values: list[torch.Tensor | float]) -> list[float]:
    """As Python's numbers; those of a GPU are fetched together."""
    there = [v.double() for v in values if isinstance(v, torch.Tensor)]
    fetched = iter(torch.stack(there).tolist() if there else ())
    return [next(fetched) if isinstance(v, torch.Tensor) else v for v in values]


Limits = tuple[Any, torch.Tensor | float, torch.Tensor | float]


def _limits(cast: Cast, x: torch.Tensor, axis: int, matrix: tuple[int, int]) -> Limits:
    """The largest magnitude in every element's block, and the least and largest block scale."""
    if isinstance(cast.format, FloatFormat):
        return float(cast.format.largest), 1.0, 1.0
    if not isinstance(cast.format, BlockFormat):
        return None, float("nan"), float("nan")
    f = cast.format
    if cast.tile is not None:
        block = with_block(f, cast.tile[0] * cast.tile[1])
        scales: list[torch.Tensor | float] = []

        def of_tile(t: torch.Tensor) -> torch.Tensor:
            limit, *ends = _limits(Cast(block), t, -1, (0, 1))
            scales.extend(ends)
            in_all: torch.Tensor = limit
            return in_all

        return in_tiles(x, cast.tile, matrix, of_tile), scales[0], scales[1]
    coded = encode_blocks(torch.nan_to_num(x), f, axis=axis)
    scale = decode(coded.scales, f.scale).double()
    scale = quotient(scale, coded.tensor_scale or 1.0)
    limit = (scale * float(f.element.largest)).repeat_interleave(f.block_size, axis)
    limit = limit.narrow(axis, 0, x.shape[axis])
    if x.numel() == 0:
        return limit, np.inf, 0.0
    size = x.abs().movedim(axis, -1)
    blocks = torch.nn.functional.pad(size, (0, -size.shape[-1] % f.block_size))
    used = (blocks.unflatten(-1, (-1, f.block_size)).sum(-1) > 0).movedim(-1, axis)
    used = used | ~used.any()
    return (
        limit,
        torch.where(used, scale, scale.new_full((), np.inf)).min(),
        torch.where(used, scale, scale.new_zeros(())).max(),
    )


def _bits(cast: Cast, x: torch.Tensor, axis: int) -> tuple[int, int]:
    """Bits of the elements, and of the scales."""
    f = cast.format
    if isinstance(f, FloatFormat):
        return x.numel() * f.storage_bits, 0
    if not isinstance(f, BlockFormat):
        on_cpu = to_cpu(x, f"the bits of {f}, which are observed")
        sent = exchange(f, on_cpu.reshape(1, -1).numpy())
        return int(sent.payload_bits[0]), int(sent.side_bits[0])
    if cast.tile is not None:
        blocks = -(-x.numel() // (cast.tile[0] * cast.tile[1]))
    else:
        length = x.shape[axis]
        blocks = x.numel() // max(length, 1) * -(-length // f.block_size)
    side = blocks * f.scale.storage_bits + (32 if f.tensor_scale else 0)
    return x.numel() * f.element.storage_bits, side


def _derived(row: dict[str, Any]) -> dict[str, Any]:
    """The columns that follow from counts and sums."""

    def over(a: float, b: float) -> float | None:
        return a / b if b else None

    n, overflow = row["counted"], row["overflow"]
    error, reference = row["sum_squared_error"], row["sum_squared_reference"]
    infinite = float("inf")
    nmse = infinite if overflow else over(error, reference)
    mean, mse = over(row["sum_error"], n), infinite if overflow else over(error, n)
    norm = float(np.sqrt(reference) * np.sqrt(row["sum_squared_result"]))
    cosine = 0.0 if overflow else over(row["sum_product"], norm) if reference else None
    db = None if nmse is None else infinite if nmse == 0 else -10 * float(np.log10(nmse))
    return {
        **row,
        "underflow_rate": over(row["underflow"], row["nonzero"]),
        "bias": mean,
        "relative_bias": over(row["sum_signed_error"], row["sum_absolute_reference"]),
        "mse": mse,
        "variance": None if mse is None or mean is None else mse - mean * mean,
        "nmse": nmse,
        "sqnr_db": db,
        "cosine": cosine,
    }


def _worst(rows: Any, loss: float, count: int) -> str:
    """The table that debug_step prints."""
    lines = [f"scaled loss {loss:.6g}; the worst {len(rows)} of {count} uses by SQNR"]
    lines.append(
        f"{'part and role':44} {'format':28} {'SQNR':>8} {'underflow':>10} {'saturated':>10}"
    )
    for row in rows.itertuples():
        db = "" if row.sqnr_db is None else f"{row.sqnr_db:.1f} dB"
        under = "" if row.underflow_rate is None else f"{100 * row.underflow_rate:.2f} %"
        full = (
            ""
            if row.saturated is None or row.saturated != row.saturated
            else f"{int(row.saturated):,}"
        )
        lines.append(
            f"{row.part + ' ' + row.role:44} {row.format:28} {db:>8} {under:>10} {full:>10}"
        )
    return "\n".join(lines)
