"""The recorded traces in notebooks/data are what their README says."""

from pathlib import Path

import numpy as np
import pytest

from apscope._traces.opening import open_trace
from apscope._traces.trace import KINDS
from apscope._traces.trace_info import check

DATA = Path(__file__).parents[3] / "notebooks" / "data"
NAMES = ("digits", "digits_w64", "characters")
LATE = (60, 85, 120, 170, 240, 340, 480, 680, 900, 1150, 1500, 2000)


@pytest.fixture(params=NAMES)
def trace(request):
    return open_trace(DATA / request.param)


def test_every_file_is_what_the_manifest_says(trace):
    assert check(trace) > 0
    listed = {path for path, _, _ in trace.files()} | {trace.path / "manifest.json"}
    assert listed == {path for path in trace.path.rglob("*") if path.is_file()}


def test_all_traces_together_are_at_most_12_megabytes():
    assert sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) <= 12_000_000


@pytest.mark.parametrize(
    "name, workers, steps, parameters, roles",
    [
        ("digits", 8, (*range(40), *LATE), 1906, {"conv", "norm", "head", "bias"}),
        ("digits_w64", 64, (10, 500), 1906, {"conv", "norm", "head", "bias"}),
        ("characters", 8, (0, 30, 150, 600, 1500, 3000), 17180, {"embedding", "norm", "attention", "linear", "head", "bias"}),
    ],
)
def test_steps_workers_and_roles(name, workers, steps, parameters, roles):
    trace = open_trace(DATA / name)
    assert trace.workers == workers and trace.steps == steps
    assert sum(tensor.size for tensor in trace.manifest.tensors) == parameters
    assert set(trace.roles.values()) == roles
    assert trace.manifest.stage == "local" and trace.manifest.reduction == "mean"
    assert not trace.manifest.loss_divided_by_workers
    assert {"script", "seed", "torch"} <= trace.manifest.metadata.keys()


def test_loss_and_learning_rate_stand_at_every_step_and_the_loss_falls(trace):
    losses = [step.loss for step in trace.manifest.steps]
    assert all(np.isfinite(losses)) and losses[-1] < losses[0] / 2
    assert all(step.learning_rate > 0 for step in trace.manifest.steps)


def test_two_steps_carry_everything(trace):
    recorded = trace.recorded()
    for kind in KINDS[1:]:
        assert recorded[kind] == (trace.steps[0], trace.steps[-1])


def test_workers_have_different_mini_batches(trace):
    largest = max(trace.manifest.tensors, key=lambda tensor: tensor.size).name
    for step in trace.steps:
        seen = {trace.read(step, largest, worker).tobytes() for worker in range(trace.workers)}
        assert len(seen) == trace.workers


def test_gradients_are_finite_and_no_tensor_is_all_zero(trace):
    for step in trace.steps:
        for tensor in trace.tensors:
            for worker in range(trace.workers):
                values = trace.read(step, tensor, worker)
                assert np.isfinite(values).all() and values.any()


def test_a_linear_layers_gradient_follows_from_what_was_recorded_around_it(trace):
    layer = "head" if trace.name != "characters" else "fc1"
    for step in (trace.steps[0], trace.steps[-1]):
        for worker in (0, trace.workers - 1):
            x = trace.read(step, layer, worker, "layer_input").astype(np.float64)
            d = trace.read(step, layer, worker, "activation_gradient").astype(np.float64)
            x, d = x.reshape(-1, x.shape[-1]), d.reshape(-1, d.shape[-1])
            gradient = trace.read(step, f"{layer}.weight", worker)
            assert (np.abs(d.T @ x - gradient) <= len(x) * 2.0**-23 * (np.abs(d).T @ np.abs(x))).all()


def test_8_and_64_workers_share_the_global_mini_batch():
    """The same images at step 10: the mean gradients agree up to fp32 rounding of the training."""
    few, many = open_trace(DATA / "digits"), open_trace(DATA / "digits_w64")
    for tensor in few.tensors:
        means = [sum(t.read(10, tensor, w).astype(np.float64) for w in range(t.workers)) / t.workers for t in (few, many)]
        assert np.abs(means[0] - means[1]).max() < 1e-5 * np.abs(means[0]).max()
