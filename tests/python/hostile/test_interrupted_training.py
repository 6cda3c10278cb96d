"""Training that is interrupted from inside or outside: exceptions in hooks and losses, a process of
``apscope train`` that is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from apscope.train import ExchangeState, Workers, exchange_hook  # noqa: E402

SPEC = "fractrain"  # it needs the loss of every step


@pytest.fixture
def group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(*(torch.nn.Linear(40, 40) for _ in range(4)))


def under_ddp(spec, losses):
    """The gradients of every step that did not fail, and the errors; None as a loss fails."""
    ddp = DistributedDataParallel(model(), bucket_cap_mb=0.005)  # several buckets per step
    state = ExchangeState(None, spec)
    ddp.register_comm_hook(state, exchange_hook)
    found, errors = [], []
    for i, loss in enumerate(losses):
        ddp.zero_grad()
        state.loss = loss
        x = torch.randn(3, 40, generator=torch.Generator().manual_seed(i if loss else 100))
        try:
            ddp(x).square().mean().backward()
        except ValueError as error:
            errors.append(str(error))
            # DDP itself takes no further step after a failed backward pass
            ddp = DistributedDataParallel(ddp.module, bucket_cap_mb=0.005)
            again = ExchangeState(None, spec)
            again.load_state_dict(state.state_dict())
            state = again
            ddp.register_comm_hook(state, exchange_hook)
            continue
        found.append([p.grad.clone() for p in ddp.module.parameters()])
    return found, errors


def test_an_exception_in_the_hook_changes_no_later_step(group):
    losses = [3.0, 2.0, 1.5, 1.0]
    right, none = under_ddp(SPEC, losses)
    found, errors = under_ddp(SPEC, [3.0, 2.0, None, 1.5, 1.0])
    assert not none and len(errors) == 1
    assert "scheme 'fractrain' needs loss; give it with every step" in errors[0]
    # The failed step is the third: the seeds of the batches after it are moved by one.
    assert len(found) == 4
    for a, b in zip(right[:2], found[:2], strict=True):
        assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


def test_buckets_of_a_failed_pass_are_forgotten(group):
    ddp = DistributedDataParallel(model(), bucket_cap_mb=0.005)
    state = ExchangeState(None, SPEC)
    ddp.register_comm_hook(state, exchange_hook)
    with pytest.raises(ValueError, match="needs loss"):
        ddp(torch.ones(3, 40)).sum().backward()
    assert state._waiting == []


def test_an_exception_in_the_loss_changes_no_later_step():
    def trained(fails_at):
        one = model()
        count = 0

        def loss(output, targets):
            nonlocal count
            count += 1
            if count == fails_at:
                raise FloatingPointError("of the loss")
            return torch.nn.functional.mse_loss(output, targets)

        optimizer = torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9)
        workers = Workers(one, loss, optimizer, workers=2, exchange="error_feedback(sign)")
        step = 0
        while step < 4:
            g = torch.Generator().manual_seed(step)
            x, y = torch.randn(4, 40, generator=g), torch.randn(4, 40, generator=g)
            try:
                workers.step(x, y)
                step += 1
            except FloatingPointError:
                assert fails_at
        return [p.detach().clone() for p in one.parameters()]

    right = trained(0)
    for fails_at in (1, 3):
        assert all(torch.equal(a, b) for a, b in zip(right, trained(fails_at), strict=True))


def children(process):
    return [int(p) for p in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize("processes", [1, 2])  # that exist when they are killed
def test_a_killed_process_is_a_sentence_and_the_same_command_goes_on(tmp_path, processes):
    path = tmp_path / "experiment.toml"
    path.write_text(
        'gate = 1\nseeds = 2\nschemes = ["none:fp16"]\nrecord_steps = 2\n'
        '[[task]]\nname = "digits"\nsteps = 400\n'
    )
    words = [sys.executable, "-m", "apscope", "train", path, "-o", tmp_path / "out", "--jobs", "2"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    runs = tmp_path / "out/runs"
    deadline = time.monotonic() + 120
    while not (runs.is_dir() and len(children(process.pid)) > processes):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    # The first is multiprocessing's tracker, the others train.
    for child in children(process.pid)[1:]:
        os.kill(child, signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 2, said
    (line,) = [line for line in said.splitlines() if not line.startswith("apscope: warning")]
    assert line.startswith("apscope: one of the 2 processes that train ended; run apscope train")
    path.write_text(path.read_text().replace("steps = 400", "steps = 4"))
    done = subprocess.run(words[:-2], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/training.json").exists()
