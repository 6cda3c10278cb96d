"""A job of two gloo processes under FSDP2, run by test_fsdp.py.

Usage: fsdp_job.py FOLDER STEPS SPEC... Rank 0 writes, for every spec with SGD and with Adam, the
weights of every fifth step to FOLDER/weights; each training is resumed in its middle. Then what
FSDP2 gives by itself with an fp16 reduction, what accumulated gradients give, and refused layouts.
"""

import sys

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from apscope._traces.roles import plain_name
from apscope.train import ExchangeState, exchange_fsdp
from tests.python.train.jobs import optimizer_of, run_ranks, topology_of

RANKS = 2
WRAPPED = "error_feedback(stochastic:e3m2)"  # random words by the parameters' names
EVERY = 5  # steps: gathering the weights takes longer than a step


def model():
    """Shards of unequal lengths, one of them empty on rank 1."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 64, 21), nn.ReLU(),
        nn.Sequential(nn.Linear(21, 10), nn.ReLU(), nn.Linear(10, 1)),
    )  # fmt: skip


def batch(step):
    g = torch.Generator().manual_seed(step)
    return torch.randn(8 * RANKS, 1, 8, 8, generator=g), torch.randn(8 * RANKS, 1, generator=g)


def sharded(m, **policy):
    options = {"mesh": init_device_mesh("cpu", (RANKS,))}
    if policy:
        options["mp_policy"] = MixedPrecisionPolicy(**policy)
    fully_shard(m[0], **options)
    fully_shard(m[5], **options)
    return fully_shard(m, **options)


def full(m):
    return {name: p.full_tensor().detach().clone() for name, p in m.state_dict().items()}


def make(spec, optimizer, weights=None, **options):
    m = model()
    if weights:
        m.load_state_dict(weights)
    policy = {"reduce_dtype": torch.float16} if options.get("divide") == "fsdp" else {}
    sharded(m, **policy)
    state = ExchangeState(None, spec, seed=5, **options)
    exchange_fsdp(m, state)
    return m, state, optimizer_of(optimizer, m.parameters())


def mine(step, number):
    return (t.chunk(RANKS)[number] for t in batch(step))


def backward(m, step, number):
    x, y = mine(step, number)
    F.mse_loss(m(x), y).backward()


def train(number, spec, optimizer, steps, **options):
    m, state, o = make(spec, optimizer, **options)
    seen = []
    for step in range(steps):
        if step == steps // 2:  # a new job goes on from the saved state
            weights, o_state, saved = full(m), o.state_dict(), state.state_dict()
            m, state, o = make(spec, optimizer, weights, **options)
            o.load_state_dict(o_state)
            state.load_state_dict(saved)
        backward(m, step, number)
        if not state.skipped:
            o.step()
        o.zero_grad()
        if step % EVERY == EVERY - 1:
            seen.append(full(m))
    return seen


def by_fsdp_itself(number, steps):
    m = sharded(model(), reduce_dtype=torch.float16)
    o = optimizer_of("sgd", m.parameters())
    seen = []
    for step in range(steps):
        backward(m, step, number)
        o.step()
        o.zero_grad()
        if step % EVERY == EVERY - 1:
            seen.append(full(m))
    return seen


def accumulated(number):
    """The gradients after two backward passes: exchanged once, and exchanged each time."""
    found = {}
    for name in ("once", "each"):
        m, _, _ = make("aps:e4m3", "sgd")
        m.set_requires_gradient_sync(name == "each")
        backward(m, 0, number)
        m.set_requires_gradient_sync(True)
        backward(m, 1, number)
        found[name] = {n: p.grad.full_tensor().clone() for n, p in m.named_parameters()}
    return found


def clipped(number):
    """The gradients that a limit on their norm leaves, and that norm."""
    m, _, _ = make("aps:e4m3", "sgd")
    backward(m, 0, number)
    norm = clip_grad_norm_(m.parameters(), 0.1).full_tensor()
    return {n: p.grad.full_tensor().clone() for n, p in m.named_parameters()} | {"norm": norm}


def scaled(number):
    """Weights and scales of three steps with GradScaler; rank 1's second loss is infinite."""
    m, _, o = make("error_feedback(aps:e3m2)", "sgd")
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    seen = []
    for step in range(3):
        x, y = mine(step, number)
        loss = F.mse_loss(m(x), y)
        scaler.scale(loss * float("inf") if (step, number) == (1, 1) else loss).backward()
        scaler.step(o)
        scaler.update()
        o.zero_grad()
        seen.append((full(m), scaler.get_scale()))
    return seen


def wrapped(number):
    """Weights of a model whose parts are checkpointed and compiled before they are sharded."""
    m = model()
    m[3], m[5] = checkpoint_wrapper(m[3]), torch.compile(m[5], backend="eager")
    sharded(m)
    exchange_fsdp(m, ExchangeState(None, WRAPPED, seed=5))
    o = optimizer_of("sgd", m.parameters())
    for step in range(3):
        backward(m, step, number)
        o.step()
        o.zero_grad()
    return {plain_name(n): p.full_tensor().detach().clone() for n, p in m.named_parameters()}


class Idle(nn.Linear):
    """With a parameter that is not used."""

    def __init__(self):
        torch.manual_seed(2)
        super().__init__(4, 3)
        self.idle = nn.Parameter(torch.ones(5))


def idle(number):
    """The gradients of a group in which one parameter is not used."""
    m = fully_shard(Idle(), mesh=init_device_mesh("cpu", (RANKS,)))
    exchange_fsdp(m, ExchangeState(None, "aps:e4m3"))
    m(torch.full((2, 4), 1.0 + number)).sum().backward()
    return {name: p.grad.full_tensor().clone() for name, p in m.named_parameters()}


def refused(number):
    """The messages about models that cannot be exchanged."""

    def said(f):
        try:
            f()
        except (TypeError, ValueError) as e:
            return str(e)
        return ""

    def steps(m, **options):
        exchange_fsdp(m, ExchangeState(None, "aps:e4m3", **options))
        backward(m, 0, number)

    def divided():
        m = sharded(model())
        m.set_gradient_divide_factor(4.0)
        steps(m)

    def hooked():
        m = sharded(model())
        m.set_all_reduce_hook(lambda t: t.mul_(2))
        steps(m)

    def unused():
        m = sharded(model())
        exchange_fsdp(m, ExchangeState(None, "aps:e4m3"))
        m[5](torch.ones(1, 21)).sum().backward()

    def two_axes():
        m, mesh = nn.Linear(4, 4), init_device_mesh("cpu", (1, RANKS), mesh_dim_names=("a", "b"))
        exchange_fsdp(fully_shard(m, mesh=mesh), ExchangeState(None, "aps:e4m3"))

    def other_axis():
        m = nn.Linear(4, 4, bias=False)
        mesh = init_device_mesh("cpu", (RANKS,))
        m = fully_shard(m, mesh=mesh, shard_placement_fn=lambda p: Shard(1))
        exchange_fsdp(m, ExchangeState(None, "aps:e4m3"))

    return {
        "one axis": said(other_axis),
        "two axes": said(two_axes),
        "plain": said(lambda: exchange_fsdp(model(), ExchangeState(None, "aps:e4m3"))),
        "divided": said(divided),
        "hooked": said(hooked),
        "fp16": said(lambda: steps(sharded(model(), reduce_dtype=torch.float16))),
        "fp32": said(lambda: steps(sharded(model()), divide="fsdp")),
        "unused": said(unused),
    }


def rank(number, folder, steps, specs):
    seen = {
        f"{optimizer} {spec}": train(number, spec, optimizer, steps, topology=topology_of(spec))
        for optimizer in ("sgd", "adam")
        for spec in specs
    }
    halves = {"topology": "sequential", "divide": "fsdp"}
    seen["halves"] = train(number, "none:fp16", "sgd", 10, **halves)
    seen["aps halves"] = train(number, "aps:e4m3", "sgd", 10, **halves)
    seen["itself"] = by_fsdp_itself(number, 10)
    seen["accumulated"] = accumulated(number)
    seen["clipped"] = clipped(number)
    seen["scaled"] = scaled(number)
    seen["wrapped"] = wrapped(number)
    seen["idle"] = idle(number)
    seen["refused"] = refused(number)
    if number == 0:
        torch.save(seen, f"{folder}/weights")


if __name__ == "__main__":
    folder, steps, *specs = sys.argv[1:]
    run_ranks(rank, RANKS, folder, int(steps), specs)
