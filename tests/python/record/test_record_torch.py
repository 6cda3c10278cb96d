"""The PyTorch adapters record what training really computes."""

import numpy as np
import pytest

from apscope import open_trace
from apscope.record import Recorder, TraceWriter
from tests.python.processes import run_ranks

torch = pytest.importorskip("torch")
from apscope.record.torch_layers import roles, to_numpy  # noqa: E402
from apscope.record.torch_optimizer import record_optimizer  # noqa: E402
from apscope.record.torch_workers import backward_workers  # noqa: E402


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 4)
        self.norm = torch.nn.LayerNorm(4)
        self.fc1 = torch.nn.Linear(4, 6)
        self.head = torch.nn.Linear(6, 3)

    def forward(self, tokens):
        return self.head(torch.relu(self.fc1(self.norm(self.embedding(tokens)))))


def loss_function(model, batch):
    tokens, labels = batch
    return torch.nn.functional.cross_entropy(model(tokens), labels)


@pytest.fixture
def model():
    torch.manual_seed(3)
    return Net()


@pytest.fixture
def batches():
    torch.manual_seed(4)
    return [(torch.randint(7, (5,)), torch.randint(3, (5,))) for _ in range(3)]


def local_gradients(model, batch):
    gradients = torch.autograd.grad(loss_function(model, batch), list(model.parameters()))
    return {
        name: to_numpy(g) for (name, _), g in zip(model.named_parameters(), gradients, strict=True)
    }


def test_workers_record_local_gradients_and_leave_the_mean(tmp_path, model, batches):
    with TraceWriter(tmp_path / "run", workers=3, roles=roles(model)) as writer:
        loss = backward_workers(model, batches, loss_function, writer, step=8)
        writer.end_step(8, loss=loss)
    trace = open_trace(tmp_path / "run")
    expected = [local_gradients(model, batch) for batch in batches]
    for name, parameter in model.named_parameters():
        for worker in range(3):
            assert np.array_equal(trace.read(8, name, worker), expected[worker][name])
        mean = sum(torch.from_numpy(e[name]) for e in expected) / 3
        assert torch.equal(parameter.grad, mean)
    losses = [loss_function(model, batch).item() for batch in batches]
    assert trace.manifest.steps[0].loss == loss == sum(losses) / 3
    assert trace.roles["embedding.weight"] == "embedding" and trace.roles["norm.bias"] == "norm"
    assert trace.roles["fc1.weight"] == "linear" and trace.roles["head.weight"] == "head"
    assert trace.roles["head.bias"] == "bias"


def test_a_modules_type_tells_the_role_whatever_its_name_is():
    model = torch.nn.ModuleDict({
        "tok": torch.nn.Embedding(8, 4), "head": torch.nn.Linear(4, 8), "fc": torch.nn.Linear(4, 4),
        "q_proj": torch.nn.Linear(4, 4),
        "attend": torch.nn.MultiheadAttention(4, 2), "scale": torch.nn.LayerNorm(4),
        "memory": torch.nn.LSTM(4, 4),
    })  # fmt: skip
    model["head"].weight = model["tok"].weight  # tied: one parameter, named by its first place
    found = roles(model)
    assert {
        name: found[name]
        for name in """
            tok.weight head.bias fc.weight q_proj.weight scale.bias attend.in_proj_weight
        """.split()
    } == {
        "tok.weight": "embedding",
        "head.bias": "bias",
        "fc.weight": "linear",
        "q_proj.weight": "attention",
        "scale.bias": "norm",
        "attend.in_proj_weight": "attention",
    }
    # Left to the guess, which the trace marks.
    assert not any(name.startswith("memory") for name in found)


def test_what_is_said_comes_before_a_modules_type_and_that_before_a_guess(tmp_path):
    model = torch.nn.ModuleDict(
        {
            "tok": torch.nn.Embedding(8, 4),
            "fc": torch.nn.Linear(4, 4),
            "memory": torch.nn.LSTM(4, 4),
        }
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(tmp_path / "run", every=1, quiet=True, roles={"fc.*": "head"}) as rec:
        rec.attach(model)
        model["memory"](model["fc"](model["tok"](torch.tensor([1, 2]))))[
            0
        ].square().sum().backward()
        optimizer.step()
    trace = open_trace(tmp_path / "run")
    assert (
        trace.roles["tok.weight"] == "embedding"
        and trace.roles["fc.weight"] == trace.roles["fc.bias"] == "head"
    )
    assert trace.manifest.metadata["roles_guessed_by_name_and_shape"].startswith(
        "4 of 7: memory.weight_ih_l0, "
    )


def test_recording_does_not_change_the_training(tmp_path, model, batches):
    backward_workers(model, batches, loss_function)
    plain = [p.grad.clone() for p in model.parameters()]
    with TraceWriter(tmp_path / "run", workers=3) as writer:
        backward_workers(model, batches, loss_function, writer, step=0, activations=True)
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), plain, strict=True))


def test_activations_are_those_of_the_layer(tmp_path, model, batches):
    with TraceWriter(tmp_path / "run", workers=3) as writer:
        backward_workers(model, batches, loss_function, writer, step=0, activations=True)
        writer.end_step(0)
    trace = open_trace(tmp_path / "run")
    assert trace.names(0, "layer_input") == ["embedding", "fc1", "head", "norm"]
    for worker, (tokens, _) in enumerate(batches):
        assert trace.read(0, "embedding", worker, "layer_input").tolist() == tokens.tolist()
        # A linear layer's weight gradient is (activation gradient)^T (layer input).
        for layer in ("fc1", "head"):
            x = trace.read(0, layer, worker, "layer_input").astype(np.float64)
            d = trace.read(0, layer, worker, "activation_gradient").astype(np.float64)
            g = trace.read(0, f"{layer}.weight", worker)
            # Five products, each sum and product rounded.
            bound = 5 * 2.0**-23 * (np.abs(d).T @ np.abs(x))
            assert (np.abs(d.T @ x - g) <= bound).all()
    # The hooks are gone.
    assert not any(module._forward_hooks for module in model.modules())


def test_the_optimizer_hook_sees_what_the_update_uses(tmp_path, model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    writer = TraceWriter(tmp_path / "run", workers=1, stage="clipped")
    handle = record_optimizer(optimizer, model, writer, steps={0, 2}, loss=lambda: 1.5)
    clipped = []
    for step in range(4):
        backward_workers(model, batches, loss_function)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        clipped.append(to_numpy(model.fc1.weight.grad).copy())
        if step == 3:
            handle.remove()
        optimizer.step()
    trace = open_trace(tmp_path / "run")
    assert trace.steps == (0, 2) and trace.manifest.stage == "clipped"
    assert trace.manifest.steps[1].learning_rate == 0.25 and trace.manifest.steps[1].loss == 1.5
    for step in trace.steps:
        assert np.array_equal(trace.read(step, "fc1.weight"), clipped[step])


def test_the_optimizer_hook_goes_on_when_layers_are_unfrozen_and_frozen(tmp_path, model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    for frozen in (False, True):
        model.embedding.requires_grad_(False)
        writer = TraceWriter(tmp_path / str(frozen), workers=1, stage="reduced")
        handle = record_optimizer(optimizer, model, writer, frozen=frozen)
        for step in range(3):
            model.embedding.requires_grad_(step == 1)
            optimizer.zero_grad()
            loss_function(model, batches[0]).backward()
            optimizer.step()
        handle.remove()
        trace = open_trace(tmp_path / str(frozen))
        assert trace.steps == (0, 1, 2) and ("embedding.weight" in trace.tensors) == frozen
        if frozen:
            assert [bool(trace.read(step, "embedding.weight").any()) for step in trace.steps] == [
                False,
                True,
                False,
            ]


def test_the_writer_takes_tensors_as_they_are(tmp_path):
    """bfloat16 by its bits, sparse ones dense, those that require a gradient."""
    sparse = torch.sparse_coo_tensor([[1, 1, 3]], [1.0, 2.0, 4.0], (5,), check_invariants=True)
    with TraceWriter(tmp_path / "run", workers=1) as writer:
        writer.add(
            0,
            0,
            "bf16",
            torch.tensor([[1.0, -0.0], [2.0**-130, 3.140625]], dtype=torch.bfloat16).t(),
        )
        writer.add(0, 0, "sparse", sparse)
        writer.add(0, 0, "grad", torch.ones(3, requires_grad=True))
        writer.end_step(0)
    trace = open_trace(tmp_path / "run")
    assert trace.read(0, "bf16").tolist() == [[1.0, 2.0**-130], [-0.0, 3.140625]] and np.signbit(
        trace.read(0, "bf16")[1, 0]
    )
    assert trace.read(0, "sparse").tolist() == [0, 3, 0, 4, 0] and trace.read(
        0, "grad"
    ).tolist() == [1, 1, 1]


def test_bfloat16_gradients_are_recorded_exactly():
    values = torch.tensor([1.0, -0.0, 2.0**-130, 3.140625], dtype=torch.bfloat16)
    assert to_numpy(values).tolist() == values.tolist()


DDP = """
import os, sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from apscope.record import TraceWriter
from apscope.record.torch_ddp import DDPRecorder

folder, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}.rendezvous", rank=rank, world_size=2)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 300), torch.nn.ReLU(), torch.nn.Linear(300, 3))
# Buckets of a few kilobytes: several a step, rebuilt after the first.
model = DistributedDataParallel(net, bucket_cap_mb=0.002)
recorder = DDPRecorder(model, TraceWriter(folder, workers=2))
generator = torch.Generator().manual_seed(10 + rank)
for step in range(4):
    x = torch.randn(6, 4, generator=generator)
    model.zero_grad()
    if step != 1:
        recorder.begin_step(step)
    loss = model(x).square().mean()
    loss.backward()
    if step != 1:
        recorder.end_step(loss=loss.item(), learning_rate=0.0)
    local = torch.autograd.grad(net(x).square().mean(), list(net.parameters()))
    torch.save({n: g for (n, _), g in zip(net.named_parameters(), local)}, f"{folder}.local{rank}.{step}")
    torch.save({n: p.grad for n, p in net.named_parameters()}, f"{folder}.mean{rank}.{step}")
dist.destroy_process_group()
os._exit(0)  # what was written counts: gloo's threads can abort a process while Python ends (pytorch issue 190489)
"""


def test_the_ddp_hook_records_local_gradients_of_every_process(tmp_path):
    folder = str(tmp_path / "run")
    run_ranks(DDP, folder)
    trace = open_trace(folder)
    assert trace.steps == (0, 2, 3) and trace.workers == 2
    for step in trace.steps:
        for name in trace.tensors:
            local = [torch.load(f"{folder}.local{rank}.{step}")[name] for rank in range(2)]
            mean = torch.load(f"{folder}.mean0.{step}")[name]
            for rank in range(2):
                assert np.array_equal(trace.read(step, name, rank), local[rank].numpy())
            assert not torch.equal(local[0], local[1])
            # DDP still averages: halves are exact, the sum rounds once.
            assert torch.equal(mean, local[0] / 2 + local[1] / 2)
