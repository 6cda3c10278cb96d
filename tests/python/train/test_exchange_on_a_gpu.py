"""Exchanges of gradients on a GPU that only seems to be one (tests/python/on_device.py), with the
host's functions as kernels: bit for bit those of the CPU, and no gradient leaves the GPU."""

import warnings
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from apscope.train import ExchangeState, Workers, _hook, exchange_hook  # noqa: E402
from apscope.train._exchanger import Exchanger  # noqa: E402
from tests.python.on_device import CUDA, on_device, same  # noqa: E402

#: Schemes, and whether a GPU computes their exchange.
EXCHANGES = {
    "none:e5m2": True,
    "aps:e4m3": True,
    "aps:e4m3,unit=model,frozen=2": True,
    "aps:e5m2,accumulate=fp32,hop_rounding=toward_zero": True,
    "current_scaling:e4m3fn,nonfinite=one": True,
    "delayed_scaling:e5m2,history=2": True,
    "loss_scaling:fp16,scale=1000": True,
    "hybrid(last=none:fp16;else=aps:e4m3)": True,
    "hybrid(steps:0:2=none:bf16;else=error_feedback(sign))": False,
    "aps:e4m3,rounding=stochastic": False,
    "aps:e4m3,accumulate=exact": False,
    "none:fp16,divide=before": False,
    "dynamic_loss_scaling:fp16": False,
    "mx:mxfp8_e4m3": False,
}
AFTER_THE_SUM = ("accumulate=exact", "divide=before")


def gradients_of(step, workers):
    g = torch.Generator().manual_seed(step)
    large = torch.randn(workers, 300, generator=g) * 10.0 ** torch.randint(
        -44, 30, (workers, 300), generator=g
    )
    special = torch.randn(workers, 7, generator=g) * 1e-3
    if step == 2:
        special[0, :3] = torch.tensor([float("inf"), float("nan"), -float("inf")])
    return [large, special, torch.zeros(workers, 4), torch.empty(workers, 0)]


@pytest.mark.parametrize("spec", EXCHANGES)
@pytest.mark.parametrize(
    ("workers", "topology", "divide"),
    [(1, "exact", True), (4, "ring", True), (6, "sequential+kahan", "fsdp"), (5, "tree", False)],
)
def test_an_exchange_has_the_bits_of_the_cpu(spec, workers, topology, divide, gpu):
    states = []
    for put in (torch.clone, on_device):
        shapes = {f"layer.{k}.weight": g.shape[1:] for k, g in enumerate(gradients_of(0, workers))}
        exchanger = Exchanger(spec, shapes, workers=workers, topology=topology, divide=divide)
        results = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for step in range(4):
                rows = [put(g) for g in gradients_of(step, workers)]
                out = [put(torch.ones(g.shape[1])) for g in rows]
                gpu.clear()
                sent = [exchanger.sent(g) for g in rows]
                results += [exchanger.run(sent, out, loss=1.0, learning_rate=0.1), out]
        states.append([results, exchanger.state_dict()])
    # With one worker there is nothing to add exactly, nor to divide.
    there = EXCHANGES[spec] or (workers == 1 and spec.partition(",")[2] in AFTER_THE_SUM)
    assert gpu["to the CPU"] == (0 if there else 4)
    # The amax of all tensors; more of one that is not finite, in fp16 here.
    assert gpu["numbers"] == (0 if not there else 3 if divide == "fsdp" else 1)
    same(*states)


#: Schemes and topologies in two phases, and whether a GPU computes their exchange.
IN_PHASES = {
    ("none:e5m2", "two_phase"): True,
    ("none:bf16", "reduce_scatter"): True,
    ("aps:e4m3,rule=tight", "two_phase"): True,
    ("aps:e4m3,rounding=stochastic,random_bits=9", "two_phase"): True,
    ("aps:e2m1fn,headroom=one", "two_phase,phase2=(aps:e5m2,rule=tight)"): True,
    ("loss_scaling:e4m3fn,scale=1000,overflow=saturate", "two_phase"): True,
    ("hybrid(last=none:fp16;else=aps:e4m3)", "two_phase"): True,
    ("aps:e4m3", "two_phase,sum=exact"): False,
    ("mx", "two_phase"): False,
    ("error_feedback(aps:e4m3)", "two_phase"): False,
}


@pytest.mark.parametrize(("spec", "topology"), IN_PHASES)
@pytest.mark.parametrize(("workers", "divide"), [(1, True), (4, "fsdp"), (5, False), (3, True)])
def test_two_phases_have_the_bits_of_the_cpu(spec, topology, workers, divide, gpu):
    states = []
    for put in (torch.clone, on_device):
        shapes = {f"layer.{k}.weight": g.shape[1:] for k, g in enumerate(gradients_of(0, workers))}
        exchanger = Exchanger(spec, shapes, workers=workers, topology=topology, divide=divide)
        results = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for step in range(3):
                rows = [put(g) for g in gradients_of(step, workers)]
                out = [put(torch.ones(g.shape[1])) for g in rows]
                gpu.clear()
                results += [exchanger.run([exchanger.sent(g) for g in rows], out), out]
        states.append([results, exchanger.state_dict()])
    there = IN_PHASES[spec, topology]
    assert gpu["to the CPU"] == (0 if there else 4)
    # The amax of all rows, then of all sums; twice more for a tensor that is not finite in a phase.
    assert not there or 2 <= gpu["numbers"] <= 2 + 2 * 2 * 2
    same(*states)


@pytest.mark.parametrize(
    ("spec", "topology"),
    [("aps:e4m3", "ring"), ("aps:e4m3", "two_phase"), ("error_feedback(sign)", "ring"),
     ("qsgd", "ring")],
)  # fmt: skip
@pytest.mark.parametrize("batched", [True, False])
def test_workers_train_there(spec, topology, batched, gpu):
    states = []
    for put in (torch.clone, on_device):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))
        if put is on_device:
            on_device(model)
        workers = Workers(
            model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
            workers=4, exchange=spec, topology=topology, batched=batched,
        )  # fmt: skip
        g, losses = torch.Generator().manual_seed(1), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(3):
                x = put(torch.randn(8, 12, generator=g))
                y = put(torch.randint(0, 3, (8,), generator=g))
                losses.append(workers.step(x, y))
        states.append([losses, workers.state_dict(), workers.gradients])
    same(*states)
    assert all(rows.is_cuda for rows in workers.gradients.values())


def test_the_hook_of_ddp_leaves_buckets_where_they_are(gpu, monkeypatch):
    results = []
    monkeypatch.setattr(_hook, "gathered", lambda mine, *_: [mine, mine * 2, mine * 4])
    monkeypatch.setattr(_hook.dist, "get_world_size", lambda _: 3)
    future, ordered = torch.futures.Future, []
    monkeypatch.setattr(
        torch.futures, "Future", lambda devices: (ordered.append(devices), future())[1]
    )
    for put in (torch.clone, on_device):
        torch.manual_seed(0)
        model = nn.Linear(6, 2) if put is torch.clone else on_device(nn.Linear(6, 2))
        state = ExchangeState(None, "aps:e4m3", module=SimpleNamespace(module=model))
        g = torch.Generator().manual_seed(1)
        gpu.clear()
        for _ in range(2):
            buffer = put(torch.randn(14, generator=g))
            bucket = SimpleNamespace(
                buffer=lambda b=buffer: b, is_last=lambda: True,
                parameters=lambda m=model: list(m.parameters()),
            )  # fmt: skip
            results.append(exchange_hook(state, bucket).value())
    assert gpu == {"numbers": 2}
    assert ordered == [None, None, [CUDA], [CUDA]]
    same(results[2:], results[:2])


def test_a_default_device_does_not_matter(gpu):
    """Of results that the CPU computes."""
    exchanger = Exchanger("mx:mxfp8_e4m3", {"a": (3,)}, workers=2)
    rows, out = on_device(torch.ones(2, 3)), on_device(torch.zeros(3))
    torch.set_default_device("meta")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exchanger.run([rows], [out])
    finally:
        torch.set_default_device(None)
    same(out, torch.ones(3))
