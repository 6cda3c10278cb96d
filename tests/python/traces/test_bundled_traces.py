"""The recorded traces in notebooks/data agree with their README."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from apscope import ladder, replay
from apscope._traces.opening import open_trace
from apscope._traces.trace import KINDS
from apscope._traces.trace_info import check

DATA = Path(__file__).parents[3] / "notebooks" / "data"
SMALL = ("digits", "digits_w64", "characters")
CUT = ("gpt", "resnet18")  # by apscope cut
LATE = (60, 85, 120, 170, 240, 340, 480, 680, 900, 1150, 1500, 2000)


def opened(request):
    return open_trace(DATA / request.param)


trace = pytest.fixture(params=[*SMALL, *CUT])(opened)
small = pytest.fixture(params=SMALL)(opened)
cut = pytest.fixture(params=CUT)(opened)


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_every_file_is_what_the_manifest_says(trace):
    assert check(trace) > 0
    listed = {path for path, _, _ in trace.files()} | {trace.path / "manifest.json"}
    assert listed == {path for path in trace.path.rglob("*") if path.is_file()}


def test_at_most_six_traces_are_together_at_most_24_megabytes():
    folders = [path for path in DATA.iterdir() if path.is_dir()]
    assert {path.name for path in folders} == {*SMALL, *CUT} and len(folders) <= 6
    assert size_of(DATA) <= 24_000_000
    assert all(size_of(folder) <= 6_000_000 for folder in folders)


def test_cut_traces_have_runs_of_six_consecutive_steps(cut):
    begins = {"gpt": (20, 300, 994), "resnet18": (10, 394)}[cut.name]
    assert cut.steps == tuple(begin + i for begin in begins for i in range(6))
    assert cut.workers == 8


def test_every_trace_has_intervals_over_steps(trace):
    """Of the gain, of what persists, and of what a finer scale gains: six steps or more."""
    specs = [f"{name}:e3m4{how},rule=tight" for name, how in
             (("loss_scaling", ",scale=largest"), ("aps", ",unit=model"), ("aps", ""))]  # fmt: skip
    results = replay(trace, specs, topology="ring", persistence=True)
    rows = results.summary().reset_index()
    rows = rows[rows["topology"] == "ring"]
    runs = np.split(trace.steps, 1 + np.flatnonzero(np.diff(trace.steps) != 1))
    for name, count in (
        ("gain", len(trace.steps)),
        ("persistence_1", len(trace.steps)),
        ("persistence_3", sum(len(run) // 3 for run in runs)),
    ):
        low, high = rows[f"{name}_low"], rows[f"{name}_high"]
        if count < 4:
            assert low.isna().all() and high.isna().all(), name
            continue
        assert len(rows) == 3 and (low < rows[name]).all() and (rows[name] < high).all(), name
    factors = ladder(results, ["e3m4"]).set_index("rung").loc[["step", "layer"]]
    assert (factors["factor_low"] <= factors["factor_high"]).all()


@pytest.mark.parametrize(
    "name, workers, steps, parameters, roles",
    [
        ("digits", 8, (*range(40), *LATE), 1906, {"conv", "norm", "head", "bias"}),
        ("digits_w64", 64, (10, 11, 12, 498, 499, 500), 1906, {"conv", "norm", "head", "bias"}),
        (
            "characters",
            8,
            (0, 30, 150, 600, 1500, 3000),
            17180,
            {"embedding", "norm", "attention", "linear", "head", "bias"},
        ),
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


def test_what_was_cut_stands_in_the_metadata(cut):
    about = cut.manifest.metadata
    shapes, pieces = (json.loads(about[key]) for key in ("cut_shapes", "cut_pieces"))
    assert shapes.keys() == pieces.keys()
    whole = elements = 0
    for tensor in cut.manifest.tensors:
        size = math.prod(shapes.get(tensor.name, tensor.shape))
        whole, elements = whole + size, elements + tensor.size
        assert (tensor.sampled_from or size) == size
        if tensor.name in shapes:
            kept, singles = pieces[tensor.name], pieces[tensor.name]["singles"]
            assert tensor.size == len(kept["numbers"]) * kept["elements"] + len(singles) < size
            assert kept["numbers"] == sorted(set(kept["numbers"])) and max(singles) < size
            assert kept["elements"] == (64 if len(shapes[tensor.name]) > 1 else 32)
    assert about["cut"] == (
        f"runs of at most 64 elements at random and the largest magnitudes, {elements} of {whole} "
        "elements"
    )
    assert f"{whole} parameters" in cut.manifest.model


def test_metadata_name_no_folder_of_the_machine_that_recorded(trace):
    for key, value in trace.manifest.metadata.items():
        assert not value.startswith("/") and " /" not in value, key


def test_what_the_readme_says_of_scales():
    rungs = (
        ladder(open_trace(DATA / "resnet18"), ["e3m4"])
        .query("topology == 'ring'")
        .set_index("rung")["factor"]
    )
    own, blocks = specs = ["aps:e3m4,rule=tight", "aps:e3m4,rule=tight,unit=32"]
    layers = replay(DATA / "gpt", specs, topology="ring").pool(by=["trace", "scheme", "tensor"])
    layers = layers.set_index(["scheme", "tensor"])["error_over_noise"].unstack("scheme")
    most, others = layers.loc["token_embedding.weight"], layers.drop("token_embedding.weight")
    text = " ".join((DATA / "README.md").read_text().split())
    assert f"a scale per step makes the step NMSE {rungs['step']:.1f} times smaller" in text
    assert f"a scale per layer {rungs['layer']:.1f} times smaller again" in text
    assert f"typical block is {most[own]:.0f} times its noise with a scale of its own" in text
    assert f"{most[blocks]:.2g} times with a scale for 32 elements" in text
    assert f"other tensor's at most {others[own].max():.2f} times" in text


def test_a_vocabulary_has_rows_of_nearly_no_gradient():
    """The head is the embedding: a rare token's row has the softmax's gradient alone."""
    trace = open_trace(DATA / "gpt")
    for step in trace.steps:
        rows = np.stack([trace.read(step, "token_embedding.weight", w) for w in range(8)])
        size = np.sort(np.abs(rows).max(axis=(0, 2)))
        assert size[-1] > 100 * size[len(size) // 2] > 0


def test_loss_and_learning_rate_stand_at_every_step_and_the_loss_falls(trace):
    losses = [step.loss for step in trace.manifest.steps]
    assert all(np.isfinite(losses)) and losses[-1] < 0.6 * losses[0]
    assert all(step.learning_rate > 0 for step in trace.manifest.steps)


def test_two_steps_carry_everything(small):
    recorded = small.recorded()
    for kind in KINDS[1:]:
        assert recorded[kind] == (small.steps[0], small.steps[-1])


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


def test_a_linear_layers_gradient_follows_from_what_was_recorded_around_it(small):
    layer = "head" if small.name != "characters" else "fc1"
    for step in (small.steps[0], small.steps[-1]):
        for worker in (0, small.workers - 1):
            x = small.read(step, layer, worker, "layer_input").astype(np.float64)
            d = small.read(step, layer, worker, "activation_gradient").astype(np.float64)
            x, d = x.reshape(-1, x.shape[-1]), d.reshape(-1, d.shape[-1])
            gradient = small.read(step, f"{layer}.weight", worker)
            assert (
                np.abs(d.T @ x - gradient) <= len(x) * 2.0**-23 * (np.abs(d).T @ np.abs(x))
            ).all()


def test_8_and_64_workers_share_the_global_mini_batch():
    """The same images at step 10: the mean gradients agree up to fp32 rounding of the training."""
    few, many = open_trace(DATA / "digits"), open_trace(DATA / "digits_w64")
    for tensor in few.tensors:
        means = [
            sum(t.read(10, tensor, w).astype(np.float64) for w in range(t.workers)) / t.workers
            for t in (few, many)
        ]
        assert np.abs(means[0] - means[1]).max() < 1e-5 * np.abs(means[0]).max()
