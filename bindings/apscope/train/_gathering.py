"""Gathers a tensor of all ranks; a rank that ended is a sentence with the step and the rank."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


def gathered(mine: torch.Tensor, group: Any = None, step: int | None = None) -> list[torch.Tensor]:
    """The tensors of all ranks, by rank: each contiguous, all of the same shape and dtype.

    `group` is a process group, by default that of all processes; `step` is named in the error.

    Raises
    ------
    RuntimeError
        The gradients of another rank did not arrive; the message names the step and this rank.
    """
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    try:
        dist.all_gather(parts, mine, group=group)
    except RuntimeError as error:
        at = "" if step is None else f" at step {step}"
        reason = " ".join(str(error).split("\n")[0].split())
        raise RuntimeError(
            f"apscope: rank {dist.get_rank(group)} of {len(parts)} did not receive the gradients "
            f"of the other ranks{at}: another process ended, or its connection was lost; its own "
            f"error comes first ({dist.get_backend(group)}: {reason})"
        ) from error
    return parts
