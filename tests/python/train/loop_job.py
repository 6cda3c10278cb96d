"""Two gloo processes under DDP with accumulation, clipping and loss scales: run by test_loops.py.

Usage: loop_job.py FOLDER. Rank 0 writes to FOLDER/found, by name, the gradients or weights that
each loop ends with.
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

from apscope.train import ExchangeState, cpd, exchange_hook
from tests.python.train.jobs import run_ranks

RANKS = 2


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


def batch(step):
    g = torch.Generator().manual_seed(step)
    return torch.randn(8 * RANKS, 6, generator=g), torch.randn(8 * RANKS, 3, generator=g)


class Loop:
    """One rank's model, exchange and optimizer."""

    def __init__(self, number, spec, **options):
        self.number = number
        self.ddp = DistributedDataParallel(model())
        self.state = ExchangeState(None, spec, topology="ring", seed=5, **options)
        self.ddp.register_comm_hook(self.state, exchange_hook)
        self.optimizer = torch.optim.SGD(self.ddp.parameters(), lr=0.1, momentum=0.9)

    def loss(self, step):
        x, y = (t.chunk(RANKS)[self.number] for t in batch(step))
        return F.mse_loss(self.ddp(x), y)

    def gradients(self):
        return {name: p.grad.clone() for name, p in self.ddp.module.named_parameters()}

    def weights(self):
        return {name: p.detach().clone() for name, p in self.ddp.module.named_parameters()}


def accumulated(number, synchronized):
    a = Loop(number, "aps:e3m2")
    if synchronized:
        a.loss(0).backward()
    else:
        with a.ddp.no_sync():
            a.loss(0).backward()
    a.loss(1).backward()
    return a.gradients()


def clipped_after(number):
    a = Loop(number, "aps:e3m2")
    a.loss(0).backward()
    clip_grad_norm_(a.ddp.parameters(), 0.1)
    return a.gradients()


def clipped_before(number):
    a = Loop(number, "aps:e3m2")
    for p in a.ddp.module.parameters():
        p.register_hook(lambda g: g.clamp(-0.01, 0.01))
    a.loss(0).backward()
    return a.gradients()


def divided(number, divide):
    a = Loop(number, "aps:e3m2", divide=divide)
    a.loss(0).backward()
    return a.gradients()


def scaled(number, spec, scale):
    """Three steps, with a loss scale of GradScaler or without one."""
    a = Loop(number, spec)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale or 1.0, enabled=scale is not None)
    for step in range(3):
        scaler.scale(a.loss(step)).backward()
        scaler.step(a.optimizer)
        scaler.update()
        a.optimizer.zero_grad()
    return a.weights()


def overflowing(number):
    """Rank 1's second gradient has infinities."""
    a = Loop(number, "error_feedback(aps:e3m2)")
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    seen = []
    for step in range(3):
        loss = a.loss(step)
        if step == 1 and number == 1:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(a.optimizer)
        scaler.update()
        a.optimizer.zero_grad()
        memory = a.state.state_dict()["memory"]
        seen.append(
            {
                "weights": a.weights(),
                "scale": scaler.get_scale(),
                "memory": {f"{n} {k}": v for n, r in memory.items() for k, v in r.items()},
            }
        )
    return seen


def dropped(number):
    """The scheme drops a step; GradScaler sees gradients of 0."""
    a = Loop(number, "dynamic_loss_scaling:fp16,init=1099511627776")
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(a.loss(0)).backward()
    gradients = a.gradients()
    scaler.step(a.optimizer)
    scaler.update()
    stepped = len(a.optimizer.state) > 0  # momentum of every parameter
    return gradients, a.state.skipped, scaler.get_scale(), stepped


CPD = [(aps, kahan) for aps in (False, True) for kahan in (False, True)]


def by_cpd(number, aps, kahan, batches):
    """Gradients by CPD's functions: of micro-batches on this rank, then over the ranks."""
    m = model()
    rows = {name: [] for name, _ in m.named_parameters()}
    for x, y in zip(*(t.chunk(RANKS)[number].chunk(batches) for t in batch(0)), strict=True):
        m.zero_grad()
        (F.mse_loss(m(x), y) / (RANKS * batches)).backward()
        for name, p in m.named_parameters():
            rows[name].append(p.grad)
    for name, p in m.named_parameters():
        p.grad = cpd.emulate_node(torch.stack(rows[name]), aps, 4, 3)
    cpd.sum_gradients(m, aps, 4, 3, kahan)
    return {name: p.grad for name, p in m.named_parameters()}


def rank(number, folder):
    found = {
        "no_sync": accumulated(number, False),
        "synchronized": accumulated(number, True),
        "clipped after": clipped_after(number),
        "clipped before": clipped_before(number),
        **{f"divide={d}": divided(number, d) for d in (True, False, "fsdp")},
        "overflowing": overflowing(number),
        "dropped": dropped(number),
        **{f"cpd {aps} {kahan}": by_cpd(number, aps, kahan, 4) for aps, kahan in CPD},
        **{
            f"{spec} {scale}": scaled(number, spec, scale)
            for spec in ("aps:e3m2", "none:e4m3")
            for scale in (None, 2.0**12)
        },
    }
    torch.save(found, f"{folder}/found{number}")


if __name__ == "__main__":
    run_ranks(rank, RANKS, sys.argv[1])
