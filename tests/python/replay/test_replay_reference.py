"""`apscope.replay` against the reference of tests/reference, which shares no line with it."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import apscope
from apscope import _core
from tests.python import recorded
from tests.reference.compare import differences
from tests.reference.random_words import replay_key
from tests.reference.replay import replay
from tests.reference.schemes import Scheme, encode_floats, qsgd_decoded, scales
from tests.reference.statistics import decibel
from tests.reference.topologies import rank_order_sum

DATA = Path(__file__).parents[3] / "notebooks" / "data"
TOPOLOGIES = [name.replace(":G", ":3") for name in _core.orders() if name != "exact"]
SCHEMES = [
    "none:fp32",
    "none:bf16",
    "none:fp16",
    "none:e4m3",
    "none:e3m0,overflow=saturate",
    "none:e2m1fn",
    "none:e8m0fnu",
    "none:binary8p3se",
    "none:e4m3,overflow=nan",
    "none:e4m3,rounding=stochastic,overflow=saturate",
    "loss_scaling:fp16,scale=1000",
    "loss_scaling:e4m3,scale=largest",
    "loss_scaling:e5m2,scale=largest,headroom=sqrt_workers",
    "loss_scaling:e5m2,scale=largest,headroom=one",
    "loss_scaling:e4m3,scale=largest,rule=tight",
    "loss_scaling:e3m0,scale=largest,headroom=sqrt_workers,rule=tight",
    "loss_scaling:e4m3,scale=1000,rounding=stochastic,random_bits=5",
    "dynamic_loss_scaling:fp16,growth_interval=1",
    "dynamic_loss_scaling:e4m3",
    "dynamic_loss_scaling:e3m4,growth_interval=2",
    "aps:e4m3",
    "aps:fp32",
    "aps:e5m2,headroom=sqrt_workers",
    "aps:e3m0,headroom=one",
    "aps:e4m3,rule=tight",
    "aps:e4m3,rounding=toward_negative",
    "aps:e4m3fn,rounding=toward_positive",
    "aps:e4m3fnuz,rounding=toward_zero",
    "aps:hfp8_forward,rounding=to_odd",
    "aps:e4m3,rounding=ties_to_away,accumulate=fp32",
    "aps:e4m3,accumulate=exact",
    "aps:e4m3,hop_rounding=stochastic",
    "aps:e4m3,rounding=stochastic,hop_rounding=ties_to_even",
    "aps:e4m3,rounding=stochastic",
    "aps:fp32,rounding=stochastic,random_bits=64",
    "aps:e4m3,rounding=stochastic,random_bits=7,accumulate=fp32",
    "aps:e4m3,rounding=stochastic,random_bits=2,accumulate=exact",
    "aps:e4m3,unit=model",
    "aps:e5m2,rule=tight,unit=model,rounding=stochastic",
    "aps:e4m3,unit=bucket:300",
    "none:fp16,divide=before",
    "none:fp16,divide=fsdp",
    "none:bf16,divide=sqrt",
    "none:e4m3fn,overflow=saturate,divide=before",
    "none:e5m2,accumulate=fp32,divide=1.5",
    "none:fp32,rounding=toward_negative,divide=1",
    "aps:e4m3,headroom=one,divide=before",
    "aps:e4m3,rounding=stochastic,random_bits=9,divide=fsdp",
    "aps:e3m0,rounding=to_odd,hop_rounding=stochastic,divide=2",
    "aps:e5m2,accumulate=exact,divide=fsdp",
    "loss_scaling:fp16,scale=1000,divide=fsdp",
    "dynamic_loss_scaling:e4m3,divide=before",
    "stochastic:e4m3",
    "stochastic:e3m0,random_bits=9",
    "qsgd",
    "qsgd:levels=1,bucket=16",
    "qsgd:levels=100,bucket=5,random_bits=53",
]


def read(trace, steps, tensors):
    return {
        step: {
            name: np.stack([trace.read(step, name, w).ravel() for w in range(trace.workers)])
            for name in tensors
        }
        for step in steps
    }


def record(folder, tensors, reduction="mean", steps=1, growth=1.0):
    """A trace of the arrays (W, n), multiplied by `growth` from step to step where they are
    finite."""
    factors = [np.float32(growth) ** step for step in range(steps)]
    grown = [
        {name: g if factor == 1 else g * factor for name, g in tensors.items()}
        for factor in factors
    ]
    trace = recorded.record(folder, grown, reduction)
    return trace, read(trace, range(steps), tensors)


def values(rng, workers, n):
    """Random signs and significands, and exponents beyond the range of a narrow format."""
    return (rng.standard_normal((workers, n)) * 2.0 ** rng.integers(-22, -4, n)).astype(np.float32)


def edge_cases(workers, seed=5):
    rng = np.random.default_rng(seed)
    ordinary = {
        name: values(rng, workers, n)
        for name, n in [("n33", 33), ("n1", 1), ("n16", 16), ("inf", 40), ("nan", 40)]
    }
    ordinary["inf"][workers - 1, 7] = np.inf
    ordinary["nan"][0, [3, 9]] = -np.inf, np.nan
    opposite = values(rng, workers, 18)
    opposite[0], opposite[workers - 1, 2] = np.inf, -np.inf
    sign = (-1.0) ** np.arange(workers)[:, None]
    return ordinary | {
        "inf_minus_inf": opposite,
        "all_nan": np.full((workers, 6), np.nan, np.float32),
        "zero": np.zeros((workers, 21), np.float32),
        "minus_zero": np.full((workers, 5), -0.0, np.float32),
        "subnormal": (rng.integers(-(2**23) + 1, 2**23, (workers, 50)) * 2.0**-149).astype(
            np.float32
        ),
        "tiniest": np.full((workers, 3), 2.0**-149, np.float32),
        "huge": (rng.uniform(-1, 1, (workers, 30)) * 3.4e38).astype(np.float32),
        "largest": np.full((workers, 3), np.finfo(np.float32).max, np.float32),
        "powers": (sign * 2.0 ** np.arange(-40, 20)).astype(np.float32),
        "cancelling": (sign * [1.5, 0.1]).astype(np.float32),
    }


def check(trace, gradients, spec, topologies=TOPOLOGIES, reduction="mean", seed=0):
    names = list(next(iter(gradients.values())))
    pattern = f"^({'|'.join(n.replace('.', '[.]') for n in names)})$"
    frame = apscope.replay(
        trace, [spec], topology=topologies, steps=list(gradients), tensors=pattern, seed=seed
    ).frame
    found = differences(frame, replay(gradients, spec, topologies, reduction, seed))
    assert not found, f"{len(found)} cells differ:\n" + "\n".join(found[:12])


@pytest.mark.parametrize("spec", SCHEMES)
@pytest.mark.parametrize("workers", [3, 1])
def test_edge_case_tensors(tmp_path, workers, spec):
    trace, gradients = record(tmp_path / "t", edge_cases(workers))
    check(trace, gradients, spec)


@pytest.mark.parametrize("number, spec", [*enumerate(SCHEMES)])
def test_sums_of_edge_case_tensors(tmp_path, number, spec):
    """Of each scheme in a fourth of the topologies: a mean divides what a topology has added."""
    trace, gradients = record(tmp_path / "t", edge_cases(3), "sum")
    check(trace, gradients, spec, TOPOLOGIES[number % 4 :: 4], "sum")


@pytest.mark.parametrize(
    "spec",
    [
        "aps:e4m3",
        "loss_scaling:e5m2,scale=1000",
        "qsgd:bucket=5000",
        "stochastic:e4m3,random_bits=8",
    ],
)
def test_tensors_of_several_blocks(tmp_path, spec):
    rng = np.random.default_rng(6)
    trace, gradients = record(tmp_path / "t", {f"n{n}": values(rng, 3, n) for n in (4096, 8209)})
    check(trace, gradients, spec, ["ring", "sequential"])


@pytest.mark.parametrize(
    "keys",
    [
        "fp16",
        "e5m2,init=100,growth_interval=1",
        "e4m3,init=1e+07,backoff=0.25,growth_interval=2",
        "e4m3,init=1e+07,growth_interval=1,overflow=saturate",
        "e4m3,init=1e+07,growth_interval=1,rounding=toward_zero",
        "e4m3,init=1e+07,growth_interval=1,rounding=stochastic",
        "e2m1fn,init=1e+07,growth_interval=1",
    ],
)
def test_a_scale_that_depends_on_earlier_steps(tmp_path, keys):
    rng = np.random.default_rng(7)
    trace, gradients = record(
        tmp_path / "t", {"a": values(rng, 3, 20), "b": values(rng, 3, 7)}, steps=7, growth=3.0
    )
    check(trace, gradients, apscope.schemes.Scheme(f"dynamic_loss_scaling:{keys}").spec, ["tree"])


@pytest.mark.parametrize("keys", ["delay=1", "frozen=2", "frozen=3,delay=1"])
@pytest.mark.parametrize("unit", ["tensor", "model", "bucket:60"])
def test_a_shift_that_depends_on_earlier_steps(tmp_path, unit, keys):
    """Growth in only some steps, so shifts stay for a while; a step of zeros has no information."""
    rng = np.random.default_rng(8)
    steps = [
        {
            name: np.float32(factor) * (1 + rng.random((3, n))).astype(np.float32)
            for name, n in [("a", 20), ("b", 7), ("c", 9)]
        }
        for factor in [1, 1, 4, 4, 0, 4, 16, 1]
    ]
    trace = recorded.record(tmp_path / "t", steps)
    spec = f"aps:e4m3,{keys}" if unit == "tensor" else f"aps:e4m3,unit={unit},{keys}"
    check(trace, read(trace, range(8), "abc"), spec, ["tree"])


@pytest.mark.parametrize(
    "keys", ["e4m3", "e4m3,overflow=saturate", "e2m1fn", "e4m3,rounding=toward_zero"]
)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_step_with_a_value_that_is_not_finite_is_skipped(tmp_path, keys, bad):
    spec, g = f"dynamic_loss_scaling:{keys}", values(np.random.default_rng(9), 2, 20)
    g[1, 3] = bad
    trace, gradients = record(
        tmp_path / "t", {"whole": values(np.random.default_rng(10), 2, 4), "broken": g}
    )
    spec = spec if "," not in spec else spec.replace(",", ",init=1,", 1)
    check(trace, gradients, spec, ["ring"])
    assert apscope.replay(trace, spec).frame.skipped.all()


def test_a_selection_is_all_that_the_replay_knows(tmp_path):
    tensors = {
        "a": values(np.random.default_rng(12), 4, 20),
        "b": 1000 * values(np.random.default_rng(13), 4, 9),
    }
    trace, gradients = record(tmp_path / "t", tensors, steps=5, growth=2.5)
    for spec in [
        "aps:e4m3",
        "aps:e4m3,unit=model",
        "loss_scaling:e4m3,scale=largest",
        "dynamic_loss_scaling:e4m3,init=1e+07,growth_interval=1",
    ]:
        chosen = {step: {"a": gradients[step]["a"][:3]} for step in (2, 3)}
        frame = apscope.replay(
            trace, spec, steps="2:4", tensors="^a$", workers=3, topology="ring"
        ).frame
        assert not differences(frame, replay(chosen, spec, ["ring"]))


@pytest.mark.parametrize(
    "spec",
    [
        "none:e4m3",
        "loss_scaling:e4m3,scale=largest",
        "dynamic_loss_scaling:e4m3",
        "aps:e4m3",
        "aps:e5m2",
        "aps:e5m2,unit=bucket:1KB",
        "stochastic:e4m3",
        "qsgd",
    ],
)
@pytest.mark.parametrize(
    "name, steps, tensors",
    [
        ("digits", [0, 1, 2000], ["conv1.weight", "norm.bias", "head.weight"]),
        ("digits_w64", [10], ["norm.weight", "head.bias"]),
        ("characters", [0, 3000], ["head.bias"]),
    ],
)
def test_bundled_traces(name, steps, tensors, spec):
    trace = apscope.open_trace(DATA / name)
    check(
        trace,
        read(trace, steps, tensors),
        spec,
        ["sequential", "ring", "tree", "hierarchical:4"],
        seed=11,
    )


def test_stochastic_hops_on_a_bundled_trace():
    trace = apscope.open_trace(DATA / "digits")
    check(trace, read(trace, [0], ["conv1.weight"]), "aps:e4m3,rounding=stochastic", seed=2**64 - 1)


def test_a_whole_layer_of_two_thousand_weights():
    trace = apscope.open_trace(DATA / "characters")
    name = max(trace.manifest.tensors, key=lambda t: t.size).name
    check(trace, read(trace, [600], [name]), "aps:e4m3", ["ring"])


@pytest.mark.parametrize(
    "spec", ["aps:e4m3", "aps:e5m2,rounding=stochastic", "loss_scaling:fp16,scale=1000", "qsgd"]
)
def test_sums_are_within_rounding_of_the_exact_rational(spec):
    trace = apscope.open_trace(DATA / "digits")
    gradients = read(trace, [0], ["conv2.weight"])
    (g,), scheme, key = gradients[0].values(), Scheme.parse(spec), replay_key(0, "conv2.weight", 0)
    scale, _ = scales(scheme, gradients)[0, "conv2.weight"]
    y = (
        qsgd_decoded(g, scheme, key)[0]
        if spec == "qsgd"
        else encode_floats(g, scale, scheme, key)[0] / scale
    )
    pairs = [(Fraction(a), Fraction(b)) for a, b in zip(g.ravel().tolist(), y.ravel().tolist())]
    row = apscope.replay(trace, spec, steps=[0], tensors="^conv2[.]weight$").frame.iloc[0]
    assert row.stage == "wire" and row["count"] == len(pairs) == row.counted
    for column, terms in [
        ("sum_error", [b - a for a, b in pairs]),
        ("sum_squared_error", [(b - a) ** 2 for a, b in pairs]),
        ("sum_squared_reference", [a * a for a, b in pairs]),
    ]:
        assert abs(Fraction(row[column]) - sum(terms)) <= len(terms) * Fraction(2) ** -53 * sum(
            map(abs, terms)
        ), column
    assert row.nonzero == sum(a != 0 for a, _ in pairs)
    assert row.underflow == sum(a != 0 and b == 0 for a, b in pairs)


def test_sampled_expectations_of_a_gathering_scheme(tmp_path):
    draws, seed, spec = 5, 3, "stochastic:e4m3"
    trace, gradients = record(tmp_path / "t", {"w": values(np.random.default_rng(8), 3, 50)})
    g, scheme = gradients[0]["w"], Scheme.parse(spec)
    scale, _ = scales(scheme, gradients)[0, "w"]
    x = rank_order_sum(g) / 3
    y = np.array(
        [
            rank_order_sum(
                encode_floats(g, scale, scheme, replay_key(seed, "w", 0, d))[0] / scale, np.float32
            )
            / 3
            for d in range(draws)
        ]
    )
    bias = (y - x).mean(axis=1)
    left_out = np.array([np.delete(y, d, 0).var(axis=0, ddof=1).mean() for d in range(draws)])
    row = apscope.replay(trace, spec, seed=seed, draws=draws).frame.iloc[2]
    assert row.topology == "gather"
    assert row.expected_bias == pytest.approx(bias.mean(), rel=1e-9)
    assert row.expected_bias_error == pytest.approx(bias.std(ddof=1) / math.sqrt(draws), rel=1e-9)
    assert row.expected_variance == pytest.approx(y.var(axis=0, ddof=1).mean(), rel=1e-9)
    assert row.expected_variance_error == pytest.approx(
        math.sqrt((draws - 1) / draws * ((left_out - left_out.mean()) ** 2).sum()), rel=1e-9
    )


def test_the_references_decibels_are_those_of_libm():
    for ratio in [1.0, 2.0, 0.5, 1e-300, 1e300, math.pi, 0.70710678, 0.7071068, 123456.789]:
        assert decibel(ratio) == pytest.approx(10 * math.log10(ratio), abs=1e-12)
