"""Training under torch's GradScaler with an fp16 all-reduce, and under the emulated loss scale by
DDP's hook, in gloo processes: run by test_found_inf.py.

Usage: scaler_job.py FOLDER RANKS. Rank 0 writes FOLDER/found: by loop, a list of steps, each
(scale, skipped, weight).
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from apscope.train import ExchangeState, exchange_hook
from tests.python.train.jobs import run_ranks

STEPS, INIT, GROWTH = 50, 4096, 6
SPEC = f"dynamic_loss_scaling:fp16,init={INIT},growth_interval={GROWTH}"


def model():
    m = nn.Linear(1, 1, bias=False)
    nn.init.constant_(m.weight, 1.0)
    return m


def gradients(ranks):
    """(steps, ranks): integers, so that fp16 adds them exactly in any order; 10 of each at first."""
    g = 10.0 + torch.arange(STEPS * ranks).reshape(STEPS, ranks) * 7 % 5
    g[:10] = 10.0
    return g


def loss_of(output, _):
    """A mean whose gradient by the weight is the mean of the inputs."""
    return output.mean()


def by_grad_scaler(rank, ranks):
    m, found = model(), []
    optimizer = torch.optim.SGD(m.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=INIT, growth_interval=GROWTH)
    for row in gradients(ranks):
        scale, before = scaler.get_scale(), m.weight.item()
        optimizer.zero_grad()
        scaler.scale(loss_of(m(row[rank].reshape(1, 1)), None)).backward()
        halves = m.weight.grad.half()
        dist.all_reduce(halves)
        m.weight.grad = halves.float() / ranks
        scaler.step(optimizer)
        scaler.update()
        found.append((scale, m.weight.item() == before, m.weight.item()))
    return found


def by_hook(rank, ranks):
    m, found = DistributedDataParallel(model()), []
    state = ExchangeState(None, SPEC, topology="ring")
    m.register_comm_hook(state, exchange_hook)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.01)
    for row in gradients(ranks):
        optimizer.zero_grad()
        loss_of(m(row[rank].reshape(1, 1)), None).backward()
        if not state.skipped:
            optimizer.step()
        found.append((None, state.skipped, m.module.weight.item()))
    return found


def run(rank, folder, ranks):
    found = {"torch": by_grad_scaler(rank, ranks), "hook": by_hook(rank, ranks)}
    if rank == 0:
        torch.save(found, f"{folder}/found")


if __name__ == "__main__":
    run_ranks(run, int(sys.argv[2]), sys.argv[1], int(sys.argv[2]))
