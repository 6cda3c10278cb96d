"""Four gloo processes with wrapped models, plans and schedules: run by test_wrapped.py.

Usage: wrapped_job.py FOLDER PLAN. Every rank writes the weights of each case to FOLDER/found{rank}.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from apscope.train import ExchangeState, exchange_hook
from tests.python.train.jobs import run_ranks

RANKS, STEPS = 4, 4
#: Random words, a memory and the roles depend on the names.
SPEC = "error_feedback(stochastic:e3m2)"
SCHEDULE = "hybrid(steps:0:2=none:bf16;else=error_feedback(aps:e3m0))"


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


class Idle(nn.Module):
    """A layer that the loss does not depend on."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.used, self.idle, self.head = nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.relu(self.used(x)))


class Mixed(nn.Module):
    """A layer in bf16, and one in fp32."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.low, self.head = nn.Linear(16, 8).bfloat16(), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.relu(self.low(x.bfloat16())).float())


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second, self.head = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.head(torch.relu(self.second(torch.relu(self.first(x)))))


def compiled(m):
    return torch.compile(m, backend="aot_eager")


def checkpointed(m):
    return nn.Sequential(*map(checkpoint_wrapper, m))


def batch(step):
    g = torch.Generator().manual_seed(step)
    return torch.randn(16, 16, generator=g), torch.randint(0, 4, (16,), generator=g)


def same(m):
    return m


#: Of each case: the model, what wraps it inside and outside DDP, and DDP's options.
CASES = {
    "bucket view": (model, same, same, {"gradient_as_bucket_view": True}),
    "static graph": (model, same, same, {"static_graph": True}),
    "unused": (Idle, same, same, {"find_unused_parameters": True}),
    "mixed": (Mixed, same, same, {}),
    "tied": (Tied, same, same, {}),
    "compiled inside": (model, compiled, same, {}),
    "compiled outside": (model, same, compiled, {}),
    "checkpointed": (model, checkpointed, same, {}),
}


def train(
    number, ranks, make=model, inside=same, outside=same, options=None, spec=SPEC, group=None, cut=STEPS
):  # fmt: skip
    """The weights at the end; after `cut` steps another hook goes on from the saved state."""
    m = make()
    saved = None
    for steps in (range(cut), range(cut, STEPS)):
        ddp = DistributedDataParallel(inside(m), process_group=group, **(options or {}))
        state = ExchangeState(group, spec, topology="ring", seed=5)
        if saved is not None:
            state.load_state_dict(saved)
        ddp.register_comm_hook(state, exchange_hook)
        run, optimizer = outside(ddp), torch.optim.SGD(m.parameters(), lr=0.1)
        for step in steps:
            x, y = (t.chunk(ranks)[number] for t in batch(step))
            F.cross_entropy(run(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        saved = state.state_dict()
        if cut == STEPS:
            break
    return [p.detach().clone() for p in m.parameters()]


def rank(number, folder, plan):
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    found = {name: train(number, RANKS, *case) for name, case in CASES.items()}
    found["subgroup"] = train(number % 2, 2, group=halves[number // 2])
    found["plan"] = train(number, RANKS, spec=plan)
    found["schedule"] = train(number, RANKS, spec=SCHEDULE, cut=1)
    torch.save(found, f"{folder}/found{number}")


if __name__ == "__main__":
    run_ranks(rank, RANKS, *sys.argv[1:])
