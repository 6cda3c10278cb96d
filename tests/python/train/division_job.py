"""Gloo processes that reduce gradients as torch divides them, run by test_division.py.

Usage: division_job.py FOLDER RANKS. Rank 0 writes FOLDER/RANKS: every rank's gradients, and what
DDP's compress hooks and FSDP's hook make of them.
"""

import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms._comm_hooks.default_hooks import DefaultState, allreduce_hook
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    bf16_compress_hook,
    fp16_compress_hook,
)
from torch.nn.parallel import DistributedDataParallel

from tests.python.train.jobs import run_ranks

#: DDP refuses the hook for bf16 without NCCL by its name alone; gloo adds bf16, too.
HOOKS = {
    "fp16": fp16_compress_hook,
    "bf16": lambda state, bucket: bf16_compress_hook(state, bucket),
}


def gradient(rank):
    """Of every size that fp16 has, beyond it, values whose sum alone is beyond it, and bf16's
    smallest."""
    g = torch.Generator().manual_seed(rank)
    sizes = torch.arange(4096) % 46 - 28
    x = torch.randn(4096, generator=g) * 2.0**sizes
    x[:7] = torch.tensor([0.0, -0.0, 6e4, -4e4, 2.0**-24, 7e4, 2.0**-133])
    return x


def few_digits(rank):
    """Multiples of fp16's smallest number whose sums fp16 holds: in any order the same."""
    g = torch.Generator().manual_seed(100 + rank)
    return torch.randint(-200, 200, (4096,), generator=g) * 2.0**-24


class Weighted(torch.nn.Module):
    """Its gradient is what it is given."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4096))

    def forward(self, x):
        return (self.weight * x).sum()


def rank(number, folder, ranks):
    made = {}
    if ranks == 2:  # one addition, which has no order
        for name, hook in HOOKS.items():
            ddp = DistributedDataParallel(Weighted())
            ddp.register_comm_hook(None, hook)
            ddp(gradient(number)).backward()
            made[name] = ddp.module.weight.grad.clone()
    half = few_digits(number).half()
    allreduce_hook(DefaultState(dist.group.WORLD), half)
    made["fsdp"] = half.float()
    if number == 0:
        torch.save(made, f"{folder}/{ranks}")


if __name__ == "__main__":
    run_ranks(rank, int(sys.argv[2]), sys.argv[1], int(sys.argv[2]))
