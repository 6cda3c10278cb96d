"""Models, batches and gradients computed apart, for the tests of Recorder under PyTorch in one
process."""

import contextlib
import copy

import numpy as np
import pytest

from apscope import open_trace
from apscope._traces.trace_info import check

torch = pytest.importorskip("torch")
from apscope.record import Recorder  # noqa: E402


def network(dtype=torch.float32):
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 20), torch.nn.ReLU(), torch.nn.LayerNorm(20), torch.nn.Linear(20, 3)
    ).to(dtype)


def batches(count, dtype=torch.float32):
    generator = torch.Generator().manual_seed(4)
    return [
        (
            torch.randn(6, 4, generator=generator).to(dtype),
            torch.randint(3, (6,), generator=generator),
        )
        for _ in range(count)
    ]


def loss_of(model, batch):
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1])


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    loss_of(model, batch).backward()
    optimizer.step()


def apart(model, *some, scale=1.0):
    """The sum of the losses' gradients, of a copy without hooks."""
    twin = copy.deepcopy(model)
    for p in twin.parameters():
        p.grad = None
    for batch in some:
        (loss_of(twin, batch) * scale).backward()
    return {name: None if p.grad is None else p.grad.clone() for name, p in twin.named_parameters()}


def bits(values):
    return np.asarray(values, np.float32).view(np.uint32)


def same(trace, step, gradients, worker=0):
    for name in trace.tensors:
        want = gradients[name]
        want = np.zeros(trace.shapes[name], np.float32) if want is None else want.float().numpy()
        assert np.array_equal(bits(trace.read(step, name, worker)), bits(want)), (step, name)


def all_same(trace, gradients):
    """gradients: by name, in a list or by step."""
    for step in trace.steps:
        same(trace, step, gradients[step])


def others(folder):
    """What a trace's folder has beside steps."""
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith("step_"))


@contextlib.contextmanager
def recording(tmp_path, model, caplog, **keys):
    with Recorder(
        tmp_path / "run", quiet=True, **({} if "steps" in keys else {"every": 1}) | keys
    ) as rec:
        yield rec.attach(model)
    assert rec.stopped is None and not caplog.records
    assert others(tmp_path / "run") == ["manifest.json"]
    check(open_trace(tmp_path / "run"))
