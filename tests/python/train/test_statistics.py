"""Statistics of errors: equal to a replay's columns, and to sums written out."""

import math
from pathlib import Path

import numpy as np
import pytest

import apscope
from apscope._training.constant import constant, in_hindsight, of_trace
from apscope._training.persistence import PERSISTENT
from apscope._training.statistics import BLOCKS, STATISTICS, StepSums, of_step, pool
from apscope._training.statistics import of_trace as statistics_of
from apscope._training.step_errors import errors_of

DATA = Path(__file__).parents[3] / "notebooks" / "data"
SPECS = ["aps:e3m4", "aps:e2m5,unit=model", "error_feedback(aps:e3m0)", "none:e3m0",
         "mx:block_format=blocks:e3m4"]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_blocks_of_32_pooled_nmse_and_cosine_are_those_of_a_replay(spec):
    place = DATA / "characters"
    trace = apscope.open_trace(place)
    summary = apscope.replay(place, [spec], topology=["ring"], progress=False).summary()
    replayed = summary[summary["topology"] != "exact"].iloc[0]
    found = statistics_of(trace, spec, "ring")
    assert list(found) == [*STATISTICS, *PERSISTENT]
    assert found["typical_32"] == pytest.approx(replayed["error_over_noise"], rel=1e-4)
    assert found["pooled"] == pytest.approx(replayed["pooled_error_over_noise"], rel=1e-4)
    assert found["step_nmse"] == pytest.approx(replayed["step_nmse"], rel=1e-4)
    assert 1 - found["cosine_loss"] == pytest.approx(replayed["layer_cosine"], rel=1e-6)


def test_they_are_sums_over_blocks():
    random = np.random.default_rng(1)
    g = {"a": random.standard_normal((4, 70)).astype("f4"),
         "b": random.standard_normal((4, 5)).astype("f4")}  # fmt: skip
    out = {
        name: (rows.mean(0) + 0.1 * random.standard_normal(rows.shape[1])).astype("f4")
        for name, rows in g.items()
    }
    sums = {}
    found = pool([of_step(errors_of(g, out), sums)], sums)
    logs, lost = {size: [] for size in BLOCKS}, []
    for name, rows in g.items():
        exact = rows.astype(float)
        error = (out[name].astype(float) - exact.mean(0)) ** 2
        noise = exact.var(0, ddof=1) / 4
        for size in BLOCKS:
            for first in range(0, rows.shape[1], size):
                part = slice(first, first + size)
                logs[size].append(math.log(error[part].sum() / noise[part].sum()))
                if size == 32:
                    lost.append(error[part].sum() / (error[part].sum() + noise[part].sum()))
    for size in BLOCKS:
        assert found[f"typical_{size}"] == pytest.approx(math.exp(np.mean(logs[size])))
    assert found["lost_32"] == pytest.approx(np.mean(lost)) and len(lost) == 4
    assert found["elements"] == pytest.approx(found["typical_1"])  # of one step
    assert StepSums(**of_step(errors_of(g, out)).as_json()) == of_step(errors_of(g, out))


def test_signed_is_elements_for_a_constant_error_and_falls_for_one_that_averages_out():
    random = np.random.default_rng(2)
    g = {"a": random.standard_normal((4, 4000)).astype("f4")}
    for kind, expected in (("same", 1.0), ("drawn", None), ("returned", 0.0)):
        sums, steps, last = {}, [], np.zeros(4000)
        for _ in range(8):
            e = np.full(4000, 0.1) if kind == "same" else 0.1 * random.standard_normal(4000)
            e, last = (e - last, e) if kind == "returned" else (e, last)
            errors = errors_of(g, {"a": (g["a"].mean(0) + e).astype("f4")})
            steps.append(of_step(errors, sums))
        found = pool(steps, sums)
        ratio = found["signed"] / found["elements"]
        if kind == "same":
            assert ratio == pytest.approx(expected, rel=1e-4)
        else:  # a chi-squared of one degree of freedom has a geometric mean of 0.28; over 8 of 8
            assert ratio < (0.06 if kind == "drawn" else 0.03)


def test_elements_without_noise_or_not_finite_do_not_count():
    g = {"a": np.array([[1, 2, 5, np.inf], [3, 4, 5, 0]], "f4")}
    found = of_step(errors_of(g, {"a": np.array([2, 4, 6, 1], "f4")}))
    assert found.blocks["1"] == 2 and found.log2["1"] == pytest.approx(-30 + 0)
    assert found.error == 1 + 1 and found.noise == 1 + 1 and found.reference == 4 + 9 + 25
    nothing = pool([of_step(errors_of({"a": np.zeros((2, 3), "f4")}, {"a": np.zeros(3, "f4")}))])
    assert all(map(math.isnan, nothing.values()))
    lost = of_step(errors_of({"a": np.array([[1], [3]], "f4")}, {"a": np.zeros(1, "f4")}))
    assert lost.cosine == 0 and lost.layers == 1


def test_the_constant_is_that_of_the_recorded_steps():
    spec = "loss_scaling:e3m4,scale=largest,overflow=saturate"
    assert in_hindsight(spec) and not in_hindsight("loss_scaling:e3m4,scale=4")
    assert not in_hindsight("aps:e3m4")
    trace = apscope.open_trace(DATA / "digits")
    amax = max(
        float(np.abs(trace.read(s, t, w)).max())
        for s in trace.steps
        for t in trace.tensors
        for w in range(trace.workers)
    )
    exponent = 3 - math.ceil(math.log2(8 * amax))  # e3m4: floor(log2 15.5); room for 8 workers
    own = of_trace(spec, DATA / "digits", "ring")
    assert (
        own
        == apscope.schemes.Scheme(f"loss_scaling:e3m4,scale={2.0**exponent},overflow=saturate").spec
    )
    assert of_trace("aps:e3m4", DATA / "digits", "ring") == "aps:e3m4"
    assert (
        constant("loss_scaling:e4m3,scale=largest,rule=tight", -3)
        == "loss_scaling:e4m3,scale=0.125"
    )
    frames = [
        apscope.replay(DATA / "digits", [s], topology=["ring"], progress=False).frame[
            "sum_squared_error"
        ]
        for s in (spec, own)
    ]
    assert frames[0].equals(frames[1])
