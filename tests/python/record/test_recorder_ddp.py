"""Recorder in two gloo processes: local gradients under DDP, joined shards under fully_shard, and
processes that die."""

import re

import numpy as np
import pytest

from apscope import open_trace, replay
from apscope._traces.trace_info import check
from tests.python.processes import run_ranks

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed")
from tests.python.recorder_cases import others  # noqa: E402

HEAD = """
import contextlib, copy, os, sys, torch, torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from apscope.record import Recorder
folder, rank, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 301), torch.nn.ReLU(), torch.nn.Linear(301, 3))
generator = torch.Generator().manual_seed(10 + rank)
def batch():
    return torch.randn(6, 4, generator=generator)
def save(what, **values):
    torch.save(values, f"{folder}/{what}.{rank}")
"""


DDP = """
def train(name, accumulate=1, zero=True, scaled=False, what=(), **keys):
    net = network()
    if keys.get("find_unused_parameters"):
        net.register_parameter("spare", torch.nn.Parameter(torch.ones(5)))
    # Buckets of a few kilobytes: several a step, rebuilt after the first.
    model = DistributedDataParallel(net, bucket_cap_mb=0.002, **keys)
    names, sent = {id(p): n for n, p in net.named_parameters()}, {}
    def hook(state, bucket):  # the user's own: it sees what the all-reduce would
        for p, g in zip(bucket.parameters(), bucket.gradients()):
            sent[names[id(p)]] = g.clone()
        return allreduce_hook(None, bucket)
    model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, enabled=scaled)
    locals_, sents = [], []
    with Recorder(f"{folder}/{name}", every=2, what=what) as rec:
        rec.attach(model)
        for step in range(5):
            twin = copy.deepcopy(net)
            for p in twin.parameters():
                p.grad = None
            for k in range(accumulate):
                x = batch()
                (twin(x).square().mean() / accumulate).backward()
                with model.no_sync() if k < accumulate - 1 else contextlib.nullcontext():
                    loss = model(x).square().mean() / accumulate
                    rec.log(loss=loss)
                    scaler.scale(loss).backward()
            locals_.append({n: p.grad.clone() for n, p in twin.named_parameters() if p.grad is not None})
            sents.append(dict(sent))
            scaler.unscale_(optimizer) if scaled else None
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1e-4)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=zero)
    save(name, local=locals_, sent=sents)

train("plain", what=["weights", "layer_input", "activation_gradient"])
train("views", zero=False, gradient_as_bucket_view=True)
train("accumulated", accumulate=3)
train("kept", accumulate=2, zero=False, gradient_as_bucket_view=True)
train("unused", find_unused_parameters=True)
train("scaled", scaled=True)
dist.destroy_process_group()
os._exit(0)  # what was written counts: gloo's threads can abort a process while Python ends (pytorch issue 190489)
"""


def test_ddp_records_what_the_all_reduce_is_given(tmp_path):
    said = [err for _, err in run_ranks(HEAD + DDP, tmp_path, 2)]
    for name in ("plain", "views", "accumulated", "kept", "unused", "scaled"):
        trace = open_trace(tmp_path / name)
        check(trace)
        assert trace.steps == (0, 2, 4) and trace.workers == 2
        assert trace.manifest.stage == "local" and trace.manifest.reduction == "mean"
        assert "DistributedDataParallel, 2 processes" in trace.manifest.metadata["recorded_from"]
        assert others(tmp_path / name) == ["manifest.json"]
        seen = [torch.load(tmp_path / f"{name}.{rank}") for rank in range(2)]
        for step in trace.steps:
            for tensor in trace.tensors:
                found = [trace.read(step, tensor, rank) for rank in range(2)]
                for rank in range(2):
                    if tensor == "spare":
                        assert not found[rank].any()
                        continue
                    assert np.array_equal(found[rank], seen[rank]["local"][step][tensor].numpy()), (
                        name,
                        step,
                        tensor,
                    )
                    sent = seen[rank]["sent"][step][tensor].reshape(found[rank].shape) / (
                        1024 if name == "scaled" else 1
                    )
                    assert np.array_equal(found[rank], sent.numpy()), (name, step, tensor)
                assert tensor == "spare" or not np.array_equal(*found)
        assert len({step.loss for step in trace.manifest.steps}) == 3
    assert open_trace(tmp_path / "unused").manifest.metadata["no_gradient_so_zeros: spare"] == "0-4"
    assert (
        open_trace(tmp_path / "scaled").manifest.metadata["divided_by_loss_scale"]
        == "1024 from step 0"
    )
    said_of_passes = {
        name: open_trace(tmp_path / name).manifest.metadata.get("accumulation")
        for name in ("plain", "views", "accumulated")
    }
    assert said_of_passes == {"plain": None, "views": None, "accumulated": "3"}
    assert said[0].count("3 steps of 2 processes recorded") == 6 and "recorded" not in said[1]
    rich = open_trace(tmp_path / "plain")
    assert {kind: len(steps) for kind, steps in rich.recorded().items()} == dict(
        gradient=3, weights=3, full_batch=0, activation_gradient=3, layer_input=3
    )
    # A linear layer's gradient is the product of its activation gradient and its input.
    for worker in range(2):
        slope, x = (
            rich.read(2, "2", worker, kind) for kind in ("activation_gradient", "layer_input")
        )
        assert np.allclose(slope.T @ x, rich.read(2, "2.weight", worker), atol=1e-6) and slope.any()
    frame = replay(open_trace(tmp_path / "plain"), ["aps:e4m3"], topology=["ring"]).frame
    assert set(frame.topology) >= {"ring", "exact"}


NO_SYNC_FORGOTTEN = """
model = DistributedDataParallel(network())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with Recorder(f"{folder}/removed", every=1) as rec:
    rec.attach(model)
    for keep in (True, False):  # a pass whose gradients are removed, or zeroed, adds to nothing
        model(batch()).square().mean().backward()
        y = model(batch()).square().mean()
        optimizer.zero_grad(set_to_none=keep)
        y.backward()
        with model.no_sync():
            model(batch()).square().mean()
        optimizer.step()
        optimizer.zero_grad()
    save("removed", stopped=rec.stopped)
try:
    with Recorder(f"{folder}/run", every=1) as rec:
        rec.attach(model)
        for _ in range(2):
            model(batch()).square().mean().backward()
except ValueError as mistake:
    save("mistake", said=str(mistake))
dist.destroy_process_group()
os._exit(0)
"""


def test_passes_that_ddp_averages_one_by_one_are_a_mistake(tmp_path):
    """The second pass adds to an average, so no process has its own sum."""
    run_ranks(HEAD + NO_SYNC_FORGOTTEN, tmp_path, 2)
    assert open_trace(tmp_path / "removed").steps == (0, 1)
    for rank in range(2):
        assert torch.load(tmp_path / f"removed.{rank}")["stopped"] is None
        said = torch.load(tmp_path / f"mistake.{rank}")["said"]
        assert re.match(
            r"a backward pass of step 0 adds to a gradient of '\S+' that DistributedDataParallel has "
            r"averaged, .* in model\.no_sync\(\)$",
            said,
        )


FSDP = """
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.device_mesh import init_device_mesh

def train(name, mesh, policy=None, accumulate=1):
    net, twin = network(), network()
    model = network()
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh, mp_policy=policy or MixedPrecisionPolicy())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    gathered, locals_ = [], []
    with Recorder(f"{folder}/{name}", every=1) as rec:
        rec.attach(model)
        for step in range(3):
            twin.zero_grad()
            for k in range(accumulate):
                x = batch()
                twin(x).square().mean().backward()
                model.set_requires_gradient_sync(k == accumulate - 1)
                model(x).square().mean().backward()
            locals_.append({n: p.grad.clone() for n, p in twin.named_parameters()})
            gathered.append({n: p.grad.full_tensor().clone() for n, p in model.named_parameters()})
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-4)
            optimizer.step()
            optimizer.zero_grad()
    save(name, gathered=gathered, local=locals_)

train("shards", init_device_mesh("cpu", (world,)))
train("accumulated", init_device_mesh("cpu", (world,)), accumulate=2)
train("mixed", init_device_mesh("cpu", (world,)), policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
train("replicas", init_device_mesh("cpu", (world, 1), mesh_dim_names=("replicate", "shard")))
dist.destroy_process_group()
os._exit(0)  # what was written counts: gloo's threads can abort a process while Python ends (pytorch issue 190489)
"""


def test_fully_shard_records_the_reduced_gradient_joined_from_shards(tmp_path):
    """301 rows and 3 over two processes: shards of unequal size."""
    run_ranks(HEAD + FSDP, tmp_path, 2)
    for name in ("shards", "accumulated", "mixed", "replicas"):
        trace = open_trace(tmp_path / name)
        check(trace)
        assert trace.steps == (0, 1, 2) and trace.workers == 1 and trace.manifest.stage == "reduced"
        # A step's last backward pass alone brings gradients.
        assert trace.manifest.metadata.get("accumulation") is None
        assert "fully_shard, 2 processes" in trace.manifest.metadata["recorded_from"]
        assert trace.shapes == {
            "0.weight": (301, 4),
            "0.bias": (301,),
            "2.weight": (3, 301),
            "2.bias": (3,),
        }
        assert others(tmp_path / name) == ["manifest.json"]
        seen = [torch.load(tmp_path / f"{name}.{rank}") for rank in range(2)]
        for step in trace.steps:
            for tensor in trace.tensors:
                found = trace.read(step, tensor)
                assert np.array_equal(found, seen[0]["gathered"][step][tensor].float().numpy()), (
                    name,
                    step,
                    tensor,
                )
                if name != "mixed":  # halves are exact, the sum rounds once
                    mean = seen[0]["local"][step][tensor] / 2 + seen[1]["local"][step][tensor] / 2
                    assert np.array_equal(found, mean.numpy()), (name, step, tensor)
