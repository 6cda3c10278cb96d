"""Recorder under PyTorch in one process: several optimizers, and those that run the backward pass
or run within it."""

import pytest

from apscope import open_trace

torch = pytest.importorskip("torch")
from tests.python.recorder_cases import all_same, apart, batches, loss_of, network, recording  # noqa: E402


def test_two_optimizers_of_one_model_are_one_step_and_another_model_is_none(tmp_path, caplog):
    model, other, data, want = network(), network(), batches(3), []
    matrices = [p for p in model.parameters() if p.ndim == 2]
    optimizers = [
        torch.optim.SGD(matrices, lr=0.1),
        torch.optim.AdamW([p for p in model.parameters() if p.ndim != 2]),
    ]
    stranger = torch.optim.SGD(other.parameters(), lr=0.1)
    with recording(tmp_path, model, caplog):
        for batch in data:
            loss_of(other, batch).backward()
            stranger.step()
            want.append(apart(model, batch))
            loss_of(model, batch).backward()
            stranger.step()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    trace = open_trace(tmp_path / "run")
    assert trace.steps == (0, 1, 2)
    all_same(trace, want)


def test_an_optimizer_that_runs_the_backward_pass_itself(tmp_path, caplog):
    model, data, want = network(), batches(3), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording(tmp_path, model, caplog):
        for batch in data:
            want.append(apart(model, batch))

            def closure(batch=batch):
                optimizer.zero_grad()
                loss = loss_of(model, batch)
                loss.backward()
                return loss

            optimizer.step(closure)
    trace = open_trace(tmp_path / "run")
    assert trace.steps == (0, 1, 2)
    all_same(trace, want)


def test_optimizers_that_step_within_the_backward_pass(tmp_path, caplog):
    """Each parameter's own optimizer takes its gradient as soon as it is there."""
    model, data, want = network(), batches(3), []
    own = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def step_now(p):
        own[p].step()
        own[p].zero_grad()

    with recording(tmp_path, model, caplog):
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(step_now)
        for batch in data:
            want.append(apart(model, batch))
            loss_of(model, batch).backward()
    trace = open_trace(tmp_path / "run")
    assert trace.steps == (0, 1, 2)
    all_same(trace, want)
