"""A recorder of complex parameters, as DDP reduces them, and of float64 rounded by request."""

from pathlib import Path

import numpy as np
import pytest

import apscope
from apscope.record import Recorder, TraceWriter
from tests.python.processes import run_ranks

torch = pytest.importorskip("torch")


class Fourier(torch.nn.Module):
    """One complex weight and one real bias."""

    def __init__(self, dtype=torch.complex64):
        super().__init__()
        torch.manual_seed(4)
        # Transposed: its elements are not in the order of its rows.
        self.weight = torch.nn.Parameter(torch.randn(5, 3, dtype=dtype).T)
        self.bias = torch.nn.Parameter(torch.zeros(3))

    def forward(self, x):
        return (x.to(self.weight.dtype) @ self.weight.T).abs() + self.bias


def train(model, rec, steps=3, **options):
    """The gradients of every step, as they were in .grad."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rec.attach(model, **options)
    grads = []
    for step in range(steps):
        optimizer.zero_grad()
        generator = torch.Generator().manual_seed(step)
        model(torch.randn(7, 5, generator=generator)).square().mean().backward()
        grads.append(
            {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        )
        optimizer.step()
    return grads


@pytest.mark.parametrize("tensors", [None, ".*", ["weight", "bias"]])
def test_complex_parameters_are_recorded_as_pairs(tmp_path, caplog, tensors):
    """The finding: dropped, with the reason that they were unfrozen after attach()."""
    with Recorder(tmp_path / "run", every=1, quiet=True, tensors=tensors) as rec:
        grads = train(Fourier(), rec)
    assert not caplog.records and rec.stopped is None
    trace = apscope.open_trace(tmp_path / "run")
    assert trace.tensors == ("weight", "bias") and trace.shapes["weight"] == (3, 5, 2)
    for step in range(3):
        expected = torch.view_as_real(grads[step]["weight"]).numpy()
        assert np.array_equal(trace.read(step, "weight"), expected)
    assert trace.manifest.metadata["complex_as_pairs_of_real_numbers"] == "weight"


def test_a_scaled_loss_and_weights_of_complex_parameters(tmp_path):
    with Recorder(tmp_path / "run", every=1, quiet=True, what=["weights", "layer_input"]) as rec:
        grads = train(Fourier(), rec, loss_scale=4.0)
    trace = apscope.open_trace(tmp_path / "run")
    expected = torch.view_as_real(grads[0]["weight"]).numpy() / 4
    assert np.array_equal(trace.read(0, "weight"), expected)
    weights = trace.read(0, "weight", kind="weights")
    assert np.array_equal(weights, torch.view_as_real(Fourier().weight.detach()).numpy())


def test_a_complex_parameter_without_a_gradient_is_zeros(tmp_path):
    model = Fourier()
    model.weight.requires_grad_(False)
    with Recorder(tmp_path / "run", every=1, quiet=True, tensors=".*") as rec:
        train(model, rec, steps=1)
    trace = apscope.open_trace(tmp_path / "run")
    assert trace.shapes["weight"] == (3, 5, 2) and not trace.read(0, "weight").any()


def test_complex_gradients_of_a_pytree_and_of_the_writer(tmp_path):
    values = np.array([[1 + 2j, -3j]], np.complex64)
    with Recorder(tmp_path / "tree", every=1, quiet=True) as rec:
        rec.record_pytree({"w": values})
    with TraceWriter(tmp_path / "writer", workers=1) as writer:
        writer.add(0, 0, "w", torch.tensor(values).conj())
        writer.end_step(0)
    read = [apscope.open_trace(tmp_path / name).read(0, "w") for name in ("tree", "writer")]
    assert read[0].tolist() == [[[1, 2], [0, -3]]] and read[1].tolist() == [[[1, -2], [0, 3]]]


def test_an_optimizers_gradients_may_be_complex(tmp_path):
    from apscope.record.torch_optimizer import record_optimizer

    model = Fourier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with TraceWriter(tmp_path / "run", workers=1, stage="reduced") as writer:
        record_optimizer(optimizer, model, writer)
        model(torch.ones(7, 5)).sum().backward()
        optimizer.step()
    read = apscope.open_trace(tmp_path / "run").read(0, "weight")
    assert np.array_equal(read, torch.view_as_real(model.weight.grad).numpy())


def test_workers_of_one_process_may_be_complex(tmp_path):
    from apscope.record.torch_workers import backward_workers

    model = Fourier()
    with TraceWriter(tmp_path / "run", workers=2) as writer:
        batches = [torch.ones(7, 5), 2 * torch.ones(7, 5)]
        backward_workers(model, batches, lambda m, x: m(x).sum(), writer, 0)
        writer.end_step(0)
    trace = apscope.open_trace(tmp_path / "run")
    mean = (trace.read(0, "weight", 0) + trace.read(0, "weight", 1)) / 2
    assert np.allclose(mean, torch.view_as_real(model.weight.grad).numpy(), rtol=1e-6)


DDP = """
import sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from apscope.record import Recorder
sys.path.insert(0, sys.argv[4])
from tests.python.record.test_recorder_types import Fourier
folder, rank, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
if kind != "shards":
    model = DistributedDataParallel(Fourier())
else:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    model = Fourier()
    mesh = init_device_mesh("cpu", (2,))
    for name in ("weight", "bias"):
        part = distribute_tensor(getattr(model, name).detach(), mesh, [Shard(0)])
        setattr(model, name, torch.nn.Parameter(part))
if kind == "hook":
    from apscope.record import TraceWriter
    from apscope.record.torch_ddp import DDPRecorder
    with TraceWriter(f"{folder}/run", workers=2) as writer:
        recorder = DDPRecorder(model, writer)
        recorder.begin_step(0)
        model(torch.full((7, 5), 1.0 + rank)).sum().backward()
        recorder.end_step()
    dist.destroy_process_group()
    sys.exit(0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
with Recorder(f"{folder}/run", every=1, quiet=True) as rec:
    rec.attach(model)
    if kind == "ddp":
        model(torch.full((7, 5), 1.0 + rank)).sum().backward()
    else:
        for p in model.parameters():
            (p * p.detach().conj()).abs().sum().to_local().backward()
    optimizer.step()
assert rec.stopped is None, rec.stopped
dist.destroy_process_group()
"""


@pytest.mark.parametrize("kind", ["ddp", "hook", "shards"])
def test_complex_parameters_of_several_processes(tmp_path, kind):
    run_ranks(DDP, tmp_path, kind, Path(__file__).parents[3])
    trace = apscope.open_trace(tmp_path / "run")
    assert trace.shapes["weight"] == (3, 5, 2)
    if kind != "shards":
        assert trace.workers == 2
        for rank in range(2):
            model = Fourier()
            model(torch.full((7, 5), 1.0 + rank)).sum().backward()
            expected = torch.view_as_real(model.weight.grad).numpy()
            assert np.array_equal(trace.read(0, "weight", rank), expected)
    else:
        assert trace.workers == 1 and trace.read(0, "weight").all()


@pytest.mark.parametrize("how", ["attach", "pytree"])
def test_float64_is_rounded_by_request(tmp_path, how):
    values = np.array([0.1, 1 / 3, 1e300, 2.0])

    def record(rec):
        if how == "pytree":
            rec.record_pytree({"w": values})
            return
        p = torch.nn.ParameterDict({"w": torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))})
        rec.attach(p)
        (p["w"] * torch.tensor(values)).sum().backward()
        torch.optim.SGD(p.parameters(), lr=0.1).step()

    with pytest.raises(
        ValueError, match=r"element 0 \(0\.1\) is not an fp32 value; pass round_to_fp32=True"
    ):
        with Recorder(tmp_path / "no", every=1, quiet=True) as rec:
            record(rec)
    with Recorder(tmp_path / "run", every=1, quiet=True, round_to_fp32=True) as rec:
        record(rec)
    trace = apscope.open_trace(tmp_path / "run")
    with np.errstate(over="ignore"):
        assert np.array_equal(trace.read(0, "w"), values.astype(np.float32))
    assert trace.manifest.metadata["rounding_to_fp32"] == "allowed"
