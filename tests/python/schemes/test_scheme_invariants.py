"""Invariants of every scheme, built in or made by a user."""

import math
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope.record import TraceWriter
from tests.python.scheme_cases import Case, cases


def _rotate(step, state, x):
    return np.flip(x, axis=-1)


#: schemes made of NumPy functions, every part of them once
MADE = [
    Case(
        apscope.schemes.define(
            "made_sign",
            "none:e4m3",
            encode=lambda step, theta, x, worker: np.copysign(
                np.abs(x).mean() if x.size else 0.0, x
            ),
            bits=1,
            grid="sign",
        ).spec,
        zero=True,
        homogeneous=True,
    ),
    Case(
        apscope.schemes.define(
            "made_scale",
            "none:e4m3",
            select=lambda step, state, x: {
                "scale": [2.0 ** -math.ceil(math.log2(np.abs(x).max())) if x.any() else 1.0]
            },
        ).spec
    ),
    Case(
        apscope.schemes.define(
            "made_memory",
            "aps:e5m2",
            compensate=lambda step, state, x: (
                x + 0.5 * state.get("left", np.zeros(x.size)).reshape(x.shape)
            ),
            update=lambda step, state, asked, sent, reduced: state.update(left=asked - sent),
        ).spec
    ),
    Case(
        apscope.schemes.define(
            "made_doubtful",
            "none:bf16",
            select=lambda step, state, x: {"scale": [1.0], "skipped": [float(step.number == 1)]},
        ).spec
    ),
    Case(
        apscope.schemes.define(
            "made_turned",
            "qsgd:levels=3,bucket=16",
            forward=_rotate,
            inverse=_rotate,
            reduce=lambda step, state, theta, values: values.sum(axis=0),
        ).spec,
        order=False,
    ),
]
CASES = cases() + MADE
WORKERS = 5
ERRORS = ["underflow", "underflow_rate", "overflow", "bias", "relative_bias", "variance",
          "expected_bias", "expected_variance", "mse", "nmse", "sqnr_db",
          "cosine", "rescaled_nmse", "own_nmse", "own_cosine", "max_ulp", "sum_error",
          "sum_squared_error", "sum_signed_error",
          "split_underflow", "split_rounding", "split_saturation", "split_accumulation",
              "split_interaction", "block_range"]  # fmt: skip


def each(condition=lambda case: True):
    """Every case of which the condition holds."""
    return pytest.mark.parametrize("case", [c for c in CASES if condition(c)], ids=lambda c: c.spec)


every_case = each()


def gradients(workers=WORKERS, n=50, seed=0):
    """Multiples of 2^-20 below 1: sums of a few are exact in fp32 and fp64, in every order."""
    rng = np.random.default_rng(seed)
    return (rng.integers(-(2**20), 2**20, (workers, n)) >> rng.integers(0, 16, n)).astype(
        np.float32
    ) * np.float32(2.0**-20)


def also(case, x):
    """The inputs of the case in addition to gradients."""
    more = {
        "weights": lambda: np.linspace(-1, 1, x[0].size, dtype=np.float32).reshape(x.shape[1:]),
        "full_batch": lambda: x[0],
        "loss": lambda: 1.5,
        "learning_rate": lambda: 0.1,
    }
    return {name: more[name]() for name in case.needs}


def run(case, x, **options):
    return apscope.exchange(case.spec, x, **also(case, x), **options)


def record(folder, steps):
    with TraceWriter(folder, workers=len(steps[0]), reduction="mean") as writer:
        for number, g in enumerate(steps):
            for worker, row in enumerate(g):
                writer.add(number, worker, "layer.weight", row)
                writer.add(number, worker, "layer.bias", row[:7])
            for kind in ("weights", "full_batch"):
                weights = (
                    np.linspace(-1, 1, g.shape[1], dtype=np.float32) if kind == "weights" else g[0]
                )
                writer.add(number, 0, "layer.weight", weights, kind=kind)
                writer.add(number, 0, "layer.bias", weights[:7], kind=kind)
            writer.end_step(number, loss=2.0 - number / 10, learning_rate=0.1)
    return apscope.open_trace(folder)


def has_moments(case):
    """Whether it draws, and states bias and variance of its draws."""
    e = run(case, gradients(2, 200, seed=5))
    return e.variance is not None and bool(np.isfinite(e.variance).all())


def test_every_scheme_of_the_registry_has_a_case():
    assert {d.name for d in apscope.schemes.definitions()} - {"hybrid"} == {
        apscope.schemes.Scheme(c.spec).name for c in cases()
    }


@every_case
def test_specs_are_canonical_and_survive_json(case):
    scheme = apscope.schemes.Scheme(case.spec)
    assert apscope.schemes.Scheme(scheme.spec) == scheme
    if case not in MADE:
        assert apscope.schemes.Scheme.from_json(scheme.to_json()) == scheme


@every_case
def test_zeros_stay_zeros(case):
    e = run(case, np.zeros((WORKERS, 30), np.float32))
    assert np.isfinite(e.sent).all() and np.isfinite(e.reduced).all()
    if case.zero:
        assert not e.sent.any() and not e.reduced.any()


@each(lambda c: c.own)
def test_one_workers_sum_is_what_it_sent(case):
    e = run(case, gradients(1), topology="ring")
    assert np.array_equal(e.reduced.astype(np.float32), e.sent[0].astype(np.float32))


@each(lambda c: c.sent is not None)
def test_messages_are_the_stated_formula(case):
    g = gradients(3, 5000, seed=8)
    e = run(case, g)
    for sent, row in zip(e.sent, g, strict=True):
        assert np.array_equal(sent, case.sent(row))


@each(lambda c: c not in MADE)
@pytest.mark.parametrize("n", [0, 1, 7, 50])
def test_payloads_are_as_long_as_they_are_said_to_be(case, n):
    e = run(case, gradients(3, n))
    assert len(e.payload) == 3
    for payload, bits in zip(e.payload, e.payload_bits, strict=True):
        assert len(payload) == -(-bits // 8)


@each(lambda c: c.order)
def test_the_order_of_the_workers_does_not_matter(case):
    g, turn = gradients(), [3, 0, 4, 1, 2]
    one, two = run(case, g, topology="exact"), run(case, g[turn], topology="exact")
    assert np.array_equal(one.sent[turn], two.sent)
    assert np.allclose(one.reduced, two.reduced, rtol=1e-6, atol=1e-7 * np.abs(one.reduced).max())


@each(lambda c: c.scaled)
@pytest.mark.parametrize("exponent", [-30, -1, 7, 40])
def test_a_power_of_two_goes_through_unchanged(case, exponent):
    one, two = run(case, gradients()), run(case, np.ldexp(gradients(), exponent))
    assert np.array_equal(np.ldexp(one.sent, exponent), two.sent)
    assert np.array_equal(np.ldexp(one.reduced, exponent), two.reduced)


@each(lambda c: c.homogeneous)
def test_real_scales_are_homogeneous_to_rounding(case):
    one, two = run(case, gradients()), run(case, 3 * gradients())
    close = np.isclose(3 * one.sent, two.sent, rtol=1e-5, atol=1e-12)
    assert close.mean() >= 0.98  # a value next to a threshold may fall on its other side


@each(has_moments)
def test_means_and_variances_of_draws_are_the_stated_ones(case):
    """Per element z = (mean - expected) / sqrt(variance / draws); their mean square over elements
    is 1 + O(1/sqrt(n))."""
    g, draws = gradients(2, 200, seed=5), 200
    first = run(case, g)
    made = [run(case, g, seed=seed) for seed in range(draws)]
    sent = np.stack([e.sent for e in made])
    assert np.array_equal(made[0].sent, first.sent)
    drawn = first.variance > 0
    # Each draw is compared with its own moments: those of a random rotation are of the rounding
    # under it.
    expected, variance = (
        np.stack(rows) for rows in zip(*((e.intended + e.bias, e.variance) for e in made))
    )
    assert np.allclose(sent[:, ~drawn], expected[:, ~drawn], rtol=1e-9, atol=1e-12)
    if not drawn.any():
        return
    # Summed over the elements, which draw independently.
    error = (sent - expected)[:, drawn]
    variances = variance[:, drawn].sum(axis=1)
    z = error.sum() / np.sqrt(variances.sum())
    assert abs(z) < -NormalDist().inv_cdf(1e-6 / (2 * len(CASES))), f"z = {z}"
    squares = (error**2).sum(axis=1)
    off, spread = (squares - variances).mean(), (squares - variances).std(ddof=1) / np.sqrt(draws)
    # A coin's square has no spread.
    assert abs(off) <= 6 * spread + 1e-9 * squares.mean(), f"{off} +- {spread} of the variance"


@each(lambda c: c.special and c.alone and not apscope.schemes.Scheme(c.spec).keeps_state)
def test_feedback_telescopes(case):
    """sum of sent = sum of gradients - last error, to fp64's rounding, over the steps that are not
    skipped."""
    scheme, state, sent, given = apscope.schemes.ErrorFeedback(case.spec), {}, 0.0, 0.0
    for step in range(6):
        g = gradients(3, 40, seed=step)
        e = apscope.exchange(scheme, g, step=step, state=state, **also(case, g))
        assert np.isfinite(e.sent).all()
        state = e.state
        if not e.skipped:
            sent, given = sent + e.sent, given + g.astype(np.float64)
    error = np.stack([state[f"error/{w}"] for w in range(3)])
    assert np.allclose(sent + error, given, rtol=0, atol=1e-12 * np.abs(sent).max())


@each(lambda c: not c.spec.startswith("hybrid"))
def test_a_hybrid_of_one_scheme_is_that_scheme(tmp_path, case):
    trace = record(tmp_path / "t", [gradients(3, seed=s) for s in range(3)])
    one = apscope.replay(trace, case.spec, topology="ring").frame
    two = apscope.replay(trace, f"hybrid(else={case.spec})", topology="ring").frame
    assert one.drop(columns="scheme").equals(two.drop(columns="scheme"))


@each(lambda c: "=best" not in c.spec and not c.spec.startswith("hybrid"))
def test_replayed_rows_are_those_of_the_exchange(tmp_path, case):
    """Two engines, or one and NumPy: wire and reduced errors agree."""
    scheme = apscope.schemes.Scheme(case.spec)
    steps = [gradients(WORKERS, seed=s) for s in range(3)]
    trace = record(tmp_path / "t", steps)
    frame = apscope.replay(trace, case.spec, topology=["ring"], tensors="weight", seed=9).frame
    state = {}
    for number, g in enumerate(steps):
        e = apscope.exchange(
            scheme,
            g,
            topology="ring",
            state=state,
            step=number,
            tensor="layer.weight",
            role=frame.role[0],
            seed=9,
            **also(case, g),
        )
        state = e.state
        rows = frame[frame.step == number]
        wire = rows[(rows.stage == "wire") & rows.topology.isin(["", e.reduction])].iloc[0]
        rows = rows[rows.stage == "reduced"].set_index("topology", drop=False)
        truth = g.astype(np.float64)
        pairs = {
            "": (truth, e.sent),
            "exact": (truth.mean(axis=0), e.sent.mean(axis=0)),
            e.reduction: (truth.mean(axis=0), e.reduced / WORKERS),
        }
        assert set(rows.index) | {""} == set(pairs)
        if wire.topology and wire.scale_exponent != rows.scale_exponent["exact"]:
            del pairs["exact"]  # where each reduction has a scale of its own
        for topology, (x, y) in pairs.items():
            row = rows.loc[topology] if topology else wire
            assert (row["count"], row.counted, row.nonzero) == (
                x.size,
                x.size if e.skipped else np.isfinite(y).sum(),
                (x != 0).sum(),
            )
            if e.skipped:
                assert row.skipped and math.isclose(
                    row.sum_squared_reference, (x**2).sum(), rel_tol=1e-12
                )
                assert math.isclose(row.sum_absolute_reference, np.abs(x).sum(), rel_tol=1e-12)
                assert row[ERRORS].isna().all()
                continue
            finite = np.isfinite(y)
            assert math.isclose(
                row.sum_squared_error, ((y - x)[finite] ** 2).sum(), rel_tol=1e-9, abs_tol=1e-25
            ), topology
            assert row.overflow == (~finite).sum(), topology
            assert row.underflow == ((x != 0) & (y == 0)).sum(), topology
            assert row.wire_bits == -(-sum(e.payload_bits) // WORKERS) and row.side_bits == -(
                -sum(e.side_bits) // WORKERS
            )
        if e.variance is not None and np.isfinite(e.variance).all():
            assert math.isclose(
                wire.expected_variance, e.variance.mean(), rel_tol=1e-9, abs_tol=1e-25
            )


def test_threads_shards_and_stops_change_nothing(tmp_path):
    """All schemes at once: one run; two threads; three shards merged; two halves with the state
    carried on."""
    trace = record(tmp_path / "t", [gradients(4, seed=s) for s in range(6)])
    specs = [c.spec for c in CASES if "best" not in c.spec]
    options = {"topology": ["ring", "tree", "two_phase"], "seed": 3}
    whole = apscope.replay(trace, specs, threads=1, **options)
    assert apscope.replay(trace, specs, threads=2, **options).frame.equals(whole.frame)
    shards = [apscope.replay(trace, specs, shard=(i, 3), **options) for i in range(3)]
    assert apscope.merge(shards[::-1]).frame.equals(whole.frame)
    first = apscope.replay(trace, specs, steps="0:3", keep_states=True, **options)
    second = apscope.replay(trace, specs, steps="3:6", states=first.states, **options)
    joined = pd.concat([first.frame, second.frame], ignore_index=True)
    for spec in specs:
        a, b = (f[f.scheme == spec].reset_index(drop=True) for f in (joined, whole.frame))
        assert a.equals(b), spec


@every_case
@pytest.mark.parametrize("what", ["one element", "none", "denormal", "huge", "tiny and huge"])
def test_extreme_tensors_are_defined(case, what):
    g = {
        "one element": np.float32([[0.5], [-3.0], [1e-20]]),
        "none": np.zeros((3, 0), np.float32),
        "denormal": np.float32(1e-45) * np.arange(-6, 6, dtype=np.float32).reshape(3, 4),
        "huge": np.float32([[3e38, -3e38, 1e38], [3e38, 3.4e38, 0], [-1e38, 3e38, 3e38]]),
        "tiny and huge": np.float32([[1e-45, 3e38], [3e38, -1e-45], [0, 1e-38]]),
    }[what]
    e = run(case, g)
    assert e.sent.shape == g.shape and e.reduced.shape == g.shape[1:]
    if case.scaled and what not in ("huge", "tiny and huge"):
        assert np.isfinite(e.sent).all() and np.isfinite(e.reduced).all()
    assert not np.isnan(e.sent).any() or not case.scaled


@each(lambda c: c.special)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_is_rounded_or_returned_and_changes_nothing_else(case, bad):
    """As it is, unless a float grid has another value for it: saturating ones the largest."""
    g = gradients(3)
    g[1, 7] = 0
    clean = run(case, g)
    g[1, 7] = bad
    broken = run(case, g)
    scheme = apscope.schemes.Scheme(case.spec)
    result = bad
    if scheme.format and "overflow" in scheme.keys:
        result = float(apscope.quantize(bad, scheme.format, overflow=scheme.keys["overflow"]))
    if np.isfinite(result):
        assert np.isfinite(broken.reduced[7]) and np.sign(broken.sent[1, 7]) == np.sign(bad)
        assert abs(broken.sent[1, 7]) >= abs(broken.sent[1]).max()
    else:
        assert np.array_equal(broken.sent[1, 7], result, equal_nan=True)
        assert not np.isfinite(broken.reduced[7])
    keep = np.arange(g.shape[1]) != 7
    assert np.array_equal(clean.sent[:, keep], broken.sent[:, keep]) and np.array_equal(
        clean.reduced[keep], broken.reduced[keep]
    )
