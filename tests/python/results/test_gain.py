"""The gain and the error orthogonal to the gradient, against projections of vectors in NumPy."""

import math

import numpy as np
import pytest

import apscope
from apscope._training.statistics import of_trace
from tests.python.altered import altered
from tests.python.recorded import record
from tests.reference.noise import noise_of

WORKERS, STEPS = 4, (0, 1, 5, 7)
SIZES = {"large": 5000, "small": 70, "lost": 40}


def gradients(step, name):
    random = np.random.default_rng([step, len(name)])
    scale = {"large": 1.0, "small": 0.1, "lost": 2.0**-12}[name]
    return (scale * random.normal(0.5, 1, (WORKERS, SIZES[name]))).astype(np.float32)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("gain") / "t"
    record(path, {step: {name: gradients(step, name) for name in SIZES} for step in STEPS})
    return path


def vectors(scheme, step, name):
    """The mean of the gradients and the result."""
    x = gradients(step, name)
    y = apscope.exchange(scheme, x, topology="ring", step=step, tensor=name).reduced
    return x.astype(float).sum(axis=0) / WORKERS, y / WORKERS


@pytest.mark.parametrize("scheme", ["none:e3m2", "aps:e2m1fn,rounding=stochastic",
                                    "loss_scaling:e3m4,scale=32,overflow=saturate"])  # fmt: skip
def test_they_are_projections(trace, scheme):
    results = apscope.replay(trace, scheme, topology="ring")
    whole = results.summary().query("topology == 'ring'").iloc[0]
    trained = of_trace(apscope.open_trace(trace), scheme, "ring")["lost_gain"]
    layers = results.by("layer", topology="ring").set_index("layer")
    sums = {}
    for name in SIZES:
        for step in STEPS:
            m, y = vectors(scheme, step, name)
            a = (y @ m) / (m @ m)
            across = y - a * m
            noise = noise_of(gradients(step, name), "mean").sum()
            sums[name, step] = np.array([y @ m, m @ m, across @ across, noise])
            row = results.frame.query(
                f"tensor == '{name}' and step == {step} and topology == 'ring'"
            ).iloc[0]
            assert row.gain == pytest.approx(a, rel=1e-12, abs=1e-15)
    for found, of in [
        (whole, list(sums)),
        *((layers.loc[n], [(n, s) for s in STEPS]) for n in SIZES),
    ]:
        product, square, across, noise = sum(sums[one] for one in of)
        assert found["gain"] == pytest.approx(product / square, rel=1e-12, abs=1e-15)
        assert found["orthogonal_error_over_noise"] == pytest.approx(across / noise, rel=1e-7)
        lost = []
        for name in {n for n, _ in of}:
            product, square, *_ = sum(sums[one] for one in of if one[0] == name)
            lost.append(abs(1 - product / square))
        assert found["lost_gain"] == pytest.approx(np.mean(lost), rel=1e-9)
    assert whole["lost_gain"] == pytest.approx(trained, rel=1e-9) and trained > 1e-3
    # A row's error is what its gain lacks and what is orthogonal.
    parts = sum((1 - s[0] / s[1]) ** 2 * s[1] + s[2] for s in sums.values())
    error = results.frame.query("topology == 'ring'")["sum_squared_error"].sum()
    assert parts == pytest.approx(error, rel=1e-9)
    assert whole["gain_low"] < whole["gain"] < whole["gain_high"]
    by_step = results.by("step", topology="ring")
    assert by_step["gain_low"].isna().all() and by_step["gain"].notna().all()


def test_results_without_the_column_have_no_gain(trace):
    results = apscope.replay(trace, "aps:e3m4", topology="ring")
    older = altered(results, results.frame.drop(columns=["gain", "sum_product"]))
    table = older.summary()
    columns = ["gain", "gain_low", "gain_high", "lost_gain", "orthogonal_error_over_noise"]
    assert table[columns].isna().all(axis=None) and table["error_over_noise"].notna().all()
    assert not math.isnan(results.summary()["gain"].iloc[0])


@pytest.mark.parametrize("lost", [1, 2048, 4096])
def test_overflow_has_no_gain(tmp_path, lost):
    """The sums omit elements that overflow, so a layer that is lost would not count."""
    steps = []
    for step in range(3):
        big = np.tile(np.float32([[1.0 + step], [2.0 + step]]), 4096)
        big[:, :lost] = 1e5
        steps.append({"big": big, "small": np.ones((2, 64), np.float32)})
    results = apscope.replay(record(tmp_path / "t", steps), "none:fp16", topology="ring")
    columns = ["gain", "gain_low", "gain_high"]
    assert results.summary()[columns].isna().all(axis=None)
    layers = results.by("layer").set_index("layer")
    assert math.isnan(layers.loc["big", "gain"]) and layers.loc["small", "gain"] == 1
    assert layers["lost_gain"].to_dict() == {"big": 1, "small": 0}  # all of it is lost
    assert (results.summary()["lost_gain"] == 0.5).all()
    assert results.pool(by=["topology"])["gain"].isna().any()


def test_a_lost_layer_counts_as_much_as_another(tmp_path):
    """A layer that is lost, one whose second step, the smaller one, is lost, two that are sent as they
    are, and one that is 0 and has no gain."""
    x, sizes = np.tile(np.float32([[0.5], [1.0]]), 40), {"large": 1024, "lost": 2.0**-30, "zero": 0}
    layers = {"kept": x} | {name: size * x for name, size in sizes.items()}
    steps = [layers | {"half": 2.0 ** (-20 - 6 * step) * x} for step in range(2)]
    trace = record(tmp_path / "t", steps)
    results = apscope.replay(trace, ["none:fp16", "none:fp32"], topology="ring")
    table = results.summary().query("topology == 'ring'").set_index("scheme")["lost_gain"]
    half = 2.0**-12 / (1 + 2.0**-12)  # of its second step, which is lost
    assert table["none:fp16"] == pytest.approx((0 + 0 + 1 + half) / 4, rel=1e-15)
    assert table["none:fp32"] == 0
    layers = results.by("layer", schemes="none:fp16", topology="ring")
    layers = layers.set_index("layer")["lost_gain"]
    assert layers["lost"] == 1 and layers["large"] == 0 and math.isnan(layers["zero"])


def test_a_skipped_step_lowers_the_gain(tmp_path):
    """Of four equal steps the first is skipped, because its sum exceeds the format."""
    trace = record(tmp_path / "t", 4 * [{"x": np.ones((2, 40), np.float32)}])
    scheme = "dynamic_loss_scaling:fp16,init=65536,growth_interval=100"
    results = apscope.replay(trace, scheme, topology="ring")
    skipped = results.frame.query("topology == 'ring' and stage == 'reduced'")["skipped"].sum()
    assert skipped > 0
    row = results.summary().query("topology == 'ring'").iloc[0]
    assert row["lost_gain"] == skipped / 4 == 1 - row["gain"]
