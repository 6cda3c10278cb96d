"""A job of four gloo processes under DDP, and the same training by `Workers`: run by test_hook.py.

Usage: ddp_job.py FOLDER STEPS SPEC... Rank 0 writes, for every spec with SGD and with Adam, the
weights of every step to FOLDER/weights; each training is resumed in its middle.
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from apscope.train import ExchangeState, exchange_hook
from tests.python.train.jobs import optimizer_of, run_ranks, topology_of

RANKS = 4


def model():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
        nn.Linear(4 * 64, 20), nn.ReLU(), nn.Linear(20, 10),
    )  # fmt: skip


def batch(step):
    g = torch.Generator().manual_seed(step)
    return torch.randn(8 * RANKS, 1, 8, 8, generator=g), torch.randint(
        0, 10, (8 * RANKS,), generator=g
    )


def make(spec, optimizer):
    # Small buckets, which are rebuilt after the first step.
    ddp = DistributedDataParallel(model(), bucket_cap_mb=0.005)
    state = ExchangeState(None, spec, topology=topology_of(spec), seed=5)
    ddp.register_comm_hook(state, exchange_hook)
    return ddp, state, optimizer_of(optimizer, ddp.parameters())


def train(number, spec, optimizer, steps):
    ddp, state, o = make(spec, optimizer)
    seen = []
    for step in range(steps):
        if step == steps // 2:  # a new job goes on from the saved state
            saved = ddp.module.state_dict(), o.state_dict(), state.state_dict()
            ddp, state, o = make(spec, optimizer)
            ddp.module.load_state_dict(saved[0])
            o.load_state_dict(saved[1])
            state.load_state_dict(saved[2])
        x, y = (t.chunk(RANKS)[number] for t in batch(step))
        F.cross_entropy(ddp(x), y).backward()
        if not state.skipped:
            o.step()
        o.zero_grad()
        seen.append([p.detach().clone() for p in ddp.module.state_dict().values()])
    return seen


def rank(number, folder, steps, specs):
    seen = {
        f"{optimizer} {spec}": train(number, spec, optimizer, steps)
        for optimizer in ("sgd", "adam")
        for spec in specs
    }
    if number == 0:
        torch.save(seen, f"{folder}/weights")


if __name__ == "__main__":
    folder, steps, *specs = sys.argv[1:]
    run_ranks(rank, RANKS, folder, int(steps), specs)
