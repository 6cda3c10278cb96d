"""The exchange in place of the reduce-scatter of PyTorch's FSDP2 (``fully_shard``).

allocate, copy in, divide       FSDP2, for every group of parameters, during the backward pass
_Group.__call__                 gathers all ranks' gradients; fills the output with marks
divide, view as gradients       FSDP2: each parameter's shard is its mark now
_Sharded.finish                 after the backward pass: exchanges all groups together, because
                                a scheme may scale all tensors together; writes the shards
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from .._traces.roles import plain_name
from ..torch._devices import stream_of, take_over, to_supported
from ._exchanger import fsdp_factors
from ._gathering import gathered
from ._hook import ExchangeState


def exchange_fsdp(model: torch.nn.Module, state: ExchangeState) -> None:
    """Puts an exchange in place of the reduce-scatter of a model under ``fully_shard``.

    Every rank gathers all gradients, computes the emulated result and keeps its shards of it. The
    bits are those of `Workers` with as many workers. A scheme's memory is kept by the parameter's
    name, and is the same on every rank. The gradients are those of the exchange when ``backward()``
    returns.

    Parameters
    ----------
    model : torch.nn.Module
        The root, after ``fully_shard`` of it and of its parts. Every parameter that needs a
        gradient must take part in each backward pass.
    state : ExchangeState
        Its ``process_group`` and ``module`` are not used: FSDP2 has its own. With a
        ``reduce_dtype`` of fp16 it has ``divide="fsdp"``; otherwise results are divided as in
        `Workers`.

    Raises
    ------
    TypeError
        A model that is not under ``fully_shard``, a state of another kind.
    ValueError
        Groups whose layout is not known or not supported: parameters sharded along another axis
        than the first or in several dimensions (HSDP, tensor parallelism), one process. In a
        backward pass: a division or hook of the model's own, parameters without a gradient.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is {type(model).__name__}; it must be a torch.nn.Module")
    if not isinstance(state, ExchangeState):
        raise TypeError(f"state is {type(state).__name__}; it must be an ExchangeState")
    modules = [m for m in model.modules() if hasattr(m, "set_custom_reduce_scatter")]
    if model not in modules:
        raise TypeError(
            f"model is {type(model).__name__}; it must be a model after fully_shard(model), by a "
            "PyTorch that has set_custom_reduce_scatter"
        )
    names = {p: plain_name(name) for name, p in model.named_parameters() if p.requires_grad}
    sharded = _Sharded(state, list(names.values()))
    for module in modules:
        groups = getattr(module._get_fsdp_state(), "_fsdp_param_groups", None)
        knows = hasattr(module, "set_reduce_scatter_unused_params")
        if groups is None or len(groups) > 1 or not knows:
            raise ValueError(
                f"{type(module).__name__}: the layout of its parameters is not known; use one "
                "group of parameters per module, and PyTorch 2.13"
            )
        parameters = [
            p for g in groups for f in g.fsdp_params if (p := f.sharded_param).requires_grad
        ]
        for p in parameters:
            _check(names[p], p)
        module.set_reduce_scatter_unused_params(True, recurse=False)
        module.set_custom_reduce_scatter(_Group(sharded, {names[p]: p for p in parameters}))


def _check(name: str, p: Any) -> None:
    placements = tuple(p.placements)
    if len(placements) != 1 or not placements[0].is_shard(0) or p.device_mesh.size() == 1:
        raise ValueError(
            f"{name!r} is placed as {placements} on {p.device_mesh.size()} processes; only "
            "parameters sharded along their first axis, among two processes or more, are exchanged"
        )
    if getattr(p, "_post_accumulate_grad_hooks", None):
        raise ValueError(
            f"{name!r} has a hook that runs before the exchange ends; remove it, and step the "
            "optimizer after the backward pass"
        )


class _Waiting(NamedTuple):
    """A parameter's gradients of one backward pass."""

    parameter: Any
    gathered: torch.Tensor  # (workers, elements)
    shard: slice  # this rank's part of the elements
    mark: float | None  # what FSDP2 has as its gradient; None: it was added to an earlier one
    dtype: torch.dtype  # of the reduction
    stream: Any  # of the reduction; None on the CPU


class _Group:
    """FSDP2's reduce-scatter of one group of parameters, which are in the order of its layout."""

    def __init__(self, sharded: _Sharded, parameters: dict[str, Any]) -> None:
        self._sharded, self._parameters = sharded, parameters

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,  # noqa: ARG002  # FSDP2's signature
    ) -> None:
        """Gathers the ranks' gradients; the result is written after the backward pass."""
        workers, rank, dtype = group.size(), group.rank(), input_tensor.dtype
        lengths = [
            -(-p.shape[0] // workers) * math.prod(p.shape[1:]) for p in self._parameters.values()
        ]
        if workers * sum(lengths) != input_tensor.numel():
            raise ValueError(
                f"FSDP reduces {input_tensor.numel()} elements of a group, whose parameters have "
                f"{workers * sum(lengths)} with their padding; its layout is not known"
            )
        after = self._sharded.factor_after(workers, dtype, op)
        parts = gathered(input_tensor, group, self._sharded.step)
        # By sender, by receiver, element of a shard.
        stacked = to_supported(torch.stack(parts).float(), "the exchange of gradients")
        all_parts = stacked.reshape(workers, workers, -1)
        output_tensor.zero_()
        first = 0
        for i, ((name, p), length) in enumerate(
            zip(self._parameters.items(), lengths, strict=True)
        ):
            place = slice(first, first + length)
            first += length
            mark = None if p.grad is not None else float(i % 100 + 1)
            if mark is not None:
                output_tensor[place] = mark * after
            self._sharded.take(
                name,
                _Waiting(
                    p,
                    all_parts[:, :, place].reshape(workers, -1).contiguous()[:, : p.numel()],
                    slice(rank * length, rank * length + p.to_local().numel()),
                    mark,
                    dtype,
                    stream_of(all_parts),
                ),
            )


class _Sharded:
    """The groups of one model: their gradients wait for the end of the backward pass."""

    def __init__(self, state: ExchangeState, names: list[str]) -> None:
        self._state, self._names = state, names
        self._waiting: dict[str, _Waiting] = {}

    @property
    def step(self) -> int:
        """Number of the step whose gradients come next."""
        return self._state._step

    def factor_after(self, workers: int, dtype: torch.dtype, op: Any) -> float:
        """The divisor that FSDP2 applies to the result of the reduction."""
        halves, divide = dtype == torch.float16, self._state.divide
        if halves != (divide == "fsdp"):
            raise ValueError(
                f"divide={divide!r} with a reduction in {dtype}; give divide='fsdp' with fp16, "
                "which FSDP divides before and after, and True or False otherwise"
            )
        if op != (dist.ReduceOp.SUM if halves else dist.ReduceOp.AVG):
            raise ValueError(
                "FSDP divides the reduction by a factor of the model's own; leave "
                "set_gradient_divide_factor and set_force_sum_reduction_for_comms alone"
            )
        return fsdp_factors(workers)[1] if halves else 1.0

    def take(self, name: str, waiting: _Waiting) -> None:
        """Registers a callback at the end of the backward pass; drops a failed pass's gradients."""
        if name in self._waiting:
            self._waiting.clear()
        self._waiting[name] = waiting
        engine: Any = torch.autograd.Variable._execution_engine
        engine.queue_callback(self.finish)

    def finish(self) -> None:
        """Exchanges everything, and writes this rank's shards."""
        waiting, self._waiting = self._waiting, {}
        if not waiting:  # an earlier call of the same backward pass has finished
            return
        missing = [name for name in self._names if name not in waiting]
        if missing:
            raise ValueError(
                f"{len(missing)} of {len(self._names)} parameters have no gradient, the first is "
                f"{missing[0]!r}; each must take part in every backward pass"
            )
        for w in waiting.values():
            take_over(w.gathered, w.stream)
        marked = {name: w for name, w in waiting.items() if w.mark is not None}
        kept = [(w.parameter.grad.to_local() == w.mark).all() for w in marked.values()]
        for name, is_kept in zip(marked, torch.stack(kept).tolist() if kept else [], strict=True):
            if not is_kept:
                raise ValueError(
                    f"{name!r}: FSDP changed its gradient after the reduction; leave "
                    "set_gradient_divide_factor and set_all_reduce_hook alone"
                )
        state = self._state
        exchanger = state._start(
            {name: tuple(waiting[name].parameter.shape) for name in self._names},
            next(iter(waiting.values())).gathered.shape[0],
        )
        results = {
            name: torch.empty(waiting[name].parameter.numel(), device=waiting[name].gathered.device)
            for name in self._names
        }
        dropped = exchanger.run(
            [waiting[name].gathered for name in self._names],
            [results[name] for name in self._names],
            loss=state.loss,
            learning_rate=state.learning_rate,
            weights=[
                waiting[name].parameter.detach().full_tensor().float().contiguous()
                for name in self._names
            ]
            if "weights" in exchanger.needs
            else (),
        )
        state.skipped = all(dropped)
        for name, w in waiting.items():
            local = w.parameter.grad.to_local()
            shard = results[name][w.shard].to(w.dtype).reshape(local.shape)
            if w.mark is None:
                local.add_(shard.to(device=local.device, dtype=local.dtype))
            else:
                local.copy_(shard)
