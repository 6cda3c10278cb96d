"""OpenSeq2Seq's two automatic loss scales, LogMax and Backoff, each against a loop of its own."""

import math
from statistics import NormalDist

import numpy as np
import pytest

import apscope
from apscope import schemes
from tests.python.loss_scaling_claims import random_bits, scales
from tests.python.recorded import record
from tests.reference.loss_scales import Backoff, LogMax


def scales_in_force(spec, rows):
    """The scale of each step, and whether the step was dropped."""
    state, out = None, []
    for i, row in enumerate(rows):
        x = np.asarray(row, np.float32)
        before = 1.0 if state is None else float(state["loss_scale"][0])
        e = apscope.exchange(spec, x, step=i, state=state)
        state = e.state
        out.append((before, e.skipped))
    return out


def logmax(amaxes):
    """The scale in force at each step; None is a step of zeros, which the code has no guard for."""
    rule, scale = LogMax(), 1.0
    for amax in amaxes:
        yield scale
        scale = scale if amax is None else rule.update(amax)


def test_logmax_follows_mean_and_deviation_of_the_logarithms():
    rng = np.random.default_rng(1)
    logs = np.concatenate([rng.normal(6, 1.5, 80), rng.normal(9, 0.5, 60), rng.normal(-4, 3, 60)])
    rows = [[[2.0**x * 0.5, 0], [-(2.0**x), 1e-9]] for x in logs]
    rows[3] = rows[50] = [[0.0, 0.0], [0.0, 0.0]]
    x = [float(np.abs(np.float32(row)).max()) or None for row in rows]
    found = scales_in_force("logmax_loss_scaling:bf16", rows)
    assert not any(skipped for _, skipped in found)
    assert np.allclose([s for s, _ in found], list(logmax(x)), rtol=1e-6)
    # Neither a bound nor a power of two, in most of these steps.
    assert sum(1 < s < 2**14 and math.frexp(s)[0] != 0.5 for s, _ in found) > 100


@pytest.mark.parametrize("over", [np.inf, np.nan])
def test_an_overflow_counts_as_65536_and_is_dropped(over):
    """The published value 2^16 is that of the logarithm: the mean needs hundreds of steps."""
    rows = [[[2.0**-6]]] * 30 + [[[over]]] + [[[2.0**-6]]] * 600
    x = [2.0**-6] * 30 + [over] + [2.0**-6] * 600
    found = scales_in_force("logmax_loss_scaling:fp16", rows)
    assert [skipped for _, skipped in found] == [i == 30 for i in range(len(rows))]
    assert np.allclose([s for s, _ in found], list(logmax(x)), rtol=1e-6)
    assert found[30][0] == 2**14 and all(s == 1 for s, _ in found[31:])
    mild = scales_in_force("logmax_loss_scaling:fp16,overflow_log2=16", rows)
    assert mild[-1][0] > 1


def test_the_deviations_are_the_quantile_of_one_in_a_thousand():
    assert schemes.Scheme("logmax_loss_scaling:fp16").keys["deviations"] == "3.09"
    assert round(NormalDist().inv_cdf(0.999), 2) == 3.09


def test_the_largest_gradient_of_all_tensors_and_workers_counts(tmp_path):
    steps = [
        {"a": [[2.0**4, 1], [1, 1]], "b": [[3, 3], [2.0**5, 0]]},
        {"a": [[1, 1], [1, 1]], "b": [[0, 0], [2.0**9, 0]]},
        {"a": [[1, 1], [1, 1]], "b": [[0, 0], [1, 0]]},
    ]
    frame = apscope.replay(record(tmp_path, steps, "sum"), "logmax_loss_scaling:fp32").frame
    found = frame[(frame.stage == "wire") & (frame.tensor == "a")].drop_duplicates("step")
    want = list(logmax([2.0**5, 2.0**9, 1.0]))
    assert want[1] == 2.0**11 and found.scale_exponent.tolist()[:2] == [0, 11]


# Backoff ------------------------------------------------------------------------------------------

BACKOFF = "dynamic_loss_scaling:fp16,init={},growth_interval={},min_scale=1,max_scale=16384"


def backoff(overflows, init, window):
    """The scale in force at each step."""
    rule = Backoff(scale=init, window=window)
    for overflow in overflows:
        yield rule.scale
        rule.update(math.inf if overflow else 1e-9)


@pytest.mark.parametrize("init", [1, 4, 16384])
@pytest.mark.parametrize("share", [0.05, 0.4])
def test_backoff_is_dynamic_loss_scaling_within_bounds(tmp_path, init, share):
    bits = random_bits(160, p=share, seed=init)
    got, skipped = scales(
        tmp_path / "t", BACKOFF.format(init, 3), [np.inf if b else 1e-9 for b in bits]
    )
    want = list(backoff(bits, float(init), 3))
    assert got == want and skipped == bits
    assert {1.0, 2.0**14} & set(want)


def test_backoff_as_published():
    scheme = schemes.Scheme(BACKOFF.format(16384, 2000))
    assert scheme.keys["growth"] == "2" and scheme.keys["backoff"] == "0.5"
    assert scheme.keys["growth_interval"] == "2000"  # the default, too
    assert schemes.Scheme("dynamic_loss_scaling:fp16,min_scale=none").spec == (
        "dynamic_loss_scaling:fp16"
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("dynamic_loss_scaling:fp16,min_scale=131072", "min_scale=131072 is above init"),
        ("dynamic_loss_scaling:fp16,max_scale=2", "max_scale=2 is below init, which is 65536"),
        ("dynamic_loss_scaling:fp16,max_scale=inf", "max_scale=inf"),
        ("dynamic_loss_scaling:fp16,min_scale=0", "min_scale=0"),
        ("logmax_loss_scaling:fp16,init=32768", "init=32768 is not between"),
        ("logmax_loss_scaling:fp16,beta1=1", "beta1=1"),
        ("logmax_loss_scaling:fp16,deviations=-1", "deviations=-1"),
        ("logmax_loss_scaling:fp16,min_scale=0", "min_scale=0"),
    ],
)
def test_wrong_keys_are_refused(spec, words):
    with pytest.raises(ValueError, match=words):
        schemes.Scheme(spec)
