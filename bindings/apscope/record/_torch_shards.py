"""The part of a parameter in a process, if parameters are sharded over processes."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import torch

from ._shards import Part


class Shard(NamedTuple):
    """A process's part of a parameter, and whether this copy is recorded."""

    part: Part
    recorded: bool


def is_dtensor(tensor: torch.Tensor) -> bool:
    """Whether the tensor is distributed over several processes."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def shards_of(parameters: dict[str, torch.Tensor]) -> dict[str, Shard] | None:
    """Name -> this process's shard; None if no parameter is sharded.

    Raises
    ------
    ValueError
        Some are sharded and some not, or one has partial sums.
    """
    sharded = [name for name, p in parameters.items() if is_dtensor(p)]
    if not sharded:
        return None
    if rest := set(parameters) - set(sharded):
        raise ValueError(
            f"{min(rest)!r} is not sharded, but {sharded[0]!r} is; "
            "select tensors of one kind with tensors="
        )
    return {name: _shard(name, p) for name, p in parameters.items()}


def _shard(name: str, p: Any) -> Shard:
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    if any(placement.is_partial() for placement in p.placements):
        raise ValueError(
            f"{name!r} has partial sums over processes; there is no "
            "gradient to record before they are added"
        )
    _, offset = compute_local_shape_and_global_offset(p.shape, p.device_mesh, p.placements)
    pair = (2,) if p.is_complex() else ()
    place = p.device_mesh.get_coordinate()
    first = place is not None and all(
        at == 0
        for at, placement in zip(place, p.placements, strict=True)
        if placement.is_replicate()
    )
    return Shard(Part((*p.shape, *pair), (*offset, *(0 for _ in pair))), first)


def refuse_flat(model: torch.nn.Module) -> None:
    """Raises ValueError for wrappers whose parameters or gradients belong to no layer."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is not None and any(
        isinstance(module, fsdp.FullyShardedDataParallel) for module in model.modules()
    ):
        raise ValueError(
            "FullyShardedDataParallel's flat parameters belong to no layer; shard with "
            "torch.distributed.fsdp.fully_shard to record"
        )
    if type(model).__module__.startswith("deepspeed"):
        raise ValueError(
            "a DeepSpeed engine keeps gradients in its own buffers; record with its ZeRO stage 0 "
            "and attach(engine.module)"
        )
