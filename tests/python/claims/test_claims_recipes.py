"""Proofs about scaling recipes: delayed and current scaling, sums in FP8; the limits of all.

M is a format's largest value, a a tensor's amax, S a scale. References are NumPy in float32, or
rationals.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

import apscope
from tests.python import recorded
from tests.python.claims.test_claims_block_recipes import F32, FLT_MAX, saturated


def record(folder, steps):
    """One tensor: a row of (workers, n) per step."""
    return recorded.record(folder, [{"x": g} for g in steps], "sum")


def exponents(trace, spec):
    frame = apscope.replay(trace, spec, topology="ring").frame
    return frame[frame.stage == "wire"].scale_exponent.tolist()


def run_steps(spec, rows):
    """(exchange, scale afterwards) of each step; summed rank by rank."""
    state, out = {}, []
    for number, g in enumerate(rows):
        x = np.asarray(g, np.float32)
        e = apscope.exchange(spec, x, topology="sequential", step=number, state=state)
        state = e.state
        out.append((e, float(state["scale/x"][0])))
    return out


# delayed scaling
# -------------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [1.0, 3.3, 57344.0, 1e-30, 1e-45, 3e38])
def test_TE1_constant_amax_gives_largest_over_amax_from_the_second_step(a):
    g = np.float32([[a, -a / 3, 0], [a / 7, 0, a / 2]])
    with np.errstate(over="ignore"):
        wanted = float(min(F32(57344) / np.abs(g).max(), FLT_MAX))
    for number, (e, after) in enumerate(run_steps("delayed_scaling:e5m2", [g] * 4)):
        scale = 1.0 if number == 0 else wanted
        assert after == wanted
        assert np.array_equal(e.sent, saturated(g.astype(np.float64) * scale, "e5m2") / scale)
        assert np.isfinite(e.reduced).all()


def transformer_engine(amaxes, length, algo, bulk=False, margin=0):
    """The history as an array with a slot for the step under way, as the formula has it; all in
    float32."""
    history, scale, scales = np.zeros(length, F32), F32(1), []
    top = F32(57344) * F32(2.0**-margin)
    for a in amaxes:
        scales.append(float(scale))
        history[0] = a
        last = history[0]
        if bulk and last == 0:
            continue
        considered = np.append(history[1:], last)
        history = np.append(history[1:], last)
        history[0] = 0
        kept = considered[~np.isnan(considered)]
        amax = last if algo == "most_recent" else kept.max() if kept.size else F32(0)
        if np.isfinite(amax) and amax > 0:
            with np.errstate(over="ignore"):
                scale = min(top / amax, FLT_MAX)
    return scales


@pytest.mark.parametrize("algo", ["max", "most_recent"])
@pytest.mark.parametrize(
    ("length", "margin", "bulk"), [(1, 0, False), (2, 3, False), (5, 0, True), (1024, 1, False)]
)
def test_delayed_scales_are_those_of_the_formula(algo, length, margin, bulk):
    rng = np.random.default_rng(4)
    amaxes = np.ldexp(rng.random(40), rng.integers(-30, 30, 40)).astype(np.float32)
    amaxes[[0, 7, 8, 9, 10, 11, 12, 30]] = 0
    wanted = transformer_engine(amaxes, length, algo, bulk, margin)
    spec = f"delayed_scaling:e5m2,history={length},algo={algo},margin={margin},zero={'skip' if bulk else 'enter'}"
    got = run_steps(spec, [[[a, -a]] for a in amaxes])
    assert [1.0] + [after for _, after in got[:-1]] == wanted


@pytest.mark.parametrize("length", [1, 3, 6])
def test_TE2_a_spike_saturates_at_its_step_and_keeps_the_scale_low_for_exactly_H_steps(length):
    spike = 4
    rows = [
        np.linspace(-1, 1, 21)[None] * (1000 if t == spike else 1)
        for t in range(spike + length + 3)
    ]
    low, usual = float(F32(57344) / F32(1000)), 57344.0
    for algo, held in (("max", length), ("most_recent", 1)):
        got = run_steps(f"delayed_scaling:e5m2,history={length},algo={algo}", rows)
        after = [scale for _, scale in got]
        assert after == [usual] * spike + [low] * held + [usual] * (len(rows) - spike - held)
        sent, x = got[spike][0].sent, np.float32(rows[spike]).astype(np.float64)
        beyond = np.abs(x) > 57344 / usual
        assert beyond.sum() == 20 and np.array_equal(sent[beyond], np.sign(x[beyond]))


def test_TE3_zero_nan_and_infinity(tmp_path):
    """amax = 1.75 2^k makes the scale 2^(15 - k), which a row shows."""
    start, later = [[1.75, 0.5]], [[1.75 * 2**4, 0.5]]
    for name, odd in (
        ("zero", [[0, 0]]),
        ("nan", [[np.nan, 1.75 * 2**9]]),
        ("infinity", [[-np.inf, 1.75 * 2**9]]),
    ):
        trace = record(tmp_path / name, [start, odd, later, later, later, later])
        recent = exponents(
            trace,
            f"delayed_scaling:e5m2,algo=most_recent,nonfinite={'nan' if name == 'nan' else 'infinity'}",
        )
        assert recent == [0, 15, 15, 11, 11, 11], name  # kept over the odd step
        largest = exponents(
            trace,
            f"delayed_scaling:e5m2,history=3,nonfinite={'nan' if name == 'nan' else 'infinity'}",
        )
        # An infinity keeps the scale until it leaves the history; a NaN or a zero lets the rest
        # decide.
        assert largest == (
            [0, 15, 15, 15, 15, 11] if name == "infinity" else [0, 15, 15, 11, 11, 11]
        ), name
    assert exponents(
        record(tmp_path / "f", [start, [[np.inf, 1.75 * 2**9]], later]),
        "delayed_scaling:e5m2,nonfinite=finite",
    ) == [0, 15, 6]
    # Zeros push the history out, unless they are skipped.
    trace = record(tmp_path / "z", [later, [[0, 0]], start, start])
    assert exponents(trace, "delayed_scaling:e5m2,history=2") == [0, 11, 11, 15]
    assert exponents(trace, "delayed_scaling:e5m2,history=2,zero=skip") == [0, 11, 11, 11]


def test_a_product_rounded_to_fp32_before_the_cast_differs_next_to_ties_only():
    """All 2^23 significands under one real scale. At a tie between two values of e5m2 only the few
    significands whose product rounds onto the tie can differ: at most one a tie and side, as
    neighbouring products are about an fp32 ulp or more apart."""
    g = (np.uint32(0x3F800000) + np.arange(2**23, dtype=np.uint32)).view(np.float32)
    found = {}
    for amax in (F32(3.3), F32(1.1), F32(5.7)):
        scale = F32(57344) / amax
        exact = g.astype(np.float64) * float(scale)
        once, twice = saturated(exact, "e5m2"), saturated((g * scale).astype(np.float64), "e5m2")
        differs = once != twice
        found[float(amax)] = int(differs.sum())
        middle = (once[differs] + twice[differs]) / 2
        # On the tie after the first rounding, not before.
        assert np.array_equal((g * scale)[differs], middle)
        assert (exact[differs] != middle).all()
        assert differs.sum() <= 2 * np.unique(once).size
    assert found == {float(F32(3.3)): 2, float(F32(1.1)): 0, float(F32(5.7)): 1}


# current scaling
# -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["e4m3fn", "e5m2", "e2m1"])
@pytest.mark.parametrize("options", ["agree=max", "agree=local", "block=1"])
def test_4_3_power_of_two_scales_bring_amax_into_the_upper_half_and_never_saturate(name, options):
    largest = apscope.FloatFormat(name).largest
    rng = np.random.default_rng(1)
    amaxes = np.ldexp(1 + rng.random(200), rng.integers(-100, 127, 200)).astype(np.float32)
    edges = [largest * F32(2.0**k) for k in (-60, 0, 60)]
    for e in edges:
        amaxes = np.append(amaxes, [e, np.nextafter(F32(e), F32(0)), np.nextafter(F32(e), FLT_MAX)])
    for a in amaxes.astype(np.float32):
        sent = apscope.exchange(f"current_scaling:{name},pow2=true,{options}", F32([[a]])).sent[
            0, 0
        ]
        k = math.floor(math.log2(Fraction(float(largest)) / Fraction(float(a))))
        k = next(
            j
            for j in (k + 1, k, k - 1)
            if Fraction(2) ** j * Fraction(float(a)) <= Fraction(float(largest))
        )
        scaled = Fraction(2) ** k * Fraction(float(a))
        assert Fraction(float(largest)) / 2 < scaled <= Fraction(float(largest))
        assert sent == saturated(float(scaled), name) / 2.0**k


def test_4_3_a_real_scale_can_lift_amax_above_the_largest_value():
    """Over all 2^23 significands of amax; the saturating cast gives the largest value then."""
    a = (np.uint32(0x3F800000) + np.arange(2**23, dtype=np.uint32)).view(np.float32)
    scale = F32(448) / a
    share = float((a * scale > F32(448)).mean())
    assert abs(share - 0.095) < 0.0005, share
    at = int(np.flatnonzero(a * scale > F32(448))[0])
    sent = apscope.exchange("current_scaling:e4m3fn", a[None, at : at + 1]).sent[0, 0]
    assert sent == 448 / float(scale[at])


@pytest.mark.parametrize("pow2", [False, True])
@pytest.mark.parametrize("block", [0, 7, 128])
def test_current_scales_are_local_or_agreed(pow2, block):
    rng = np.random.default_rng(2)
    x = np.ldexp(rng.standard_normal((3, 300)), rng.integers(-20, 20, (3, 300))).astype(np.float32)
    x[:, 14:21] = 0

    def sent(values, amax):
        if amax == 0:
            return values.astype(np.float64)
        scale = F32(448) / F32(amax)
        scale = (
            float((np.array([scale]).view(np.uint32) & np.uint32(0xFF800000)).view(np.float32)[0])
            if pow2
            else float(scale)
        )
        return saturated(values.astype(np.float64) * scale, "e4m3fn") / scale

    flag = f"pow2={str(pow2).lower()}"
    size = block or 300
    local = np.stack(
        [
            np.concatenate(
                [
                    sent(row[i : i + size], np.abs(row[i : i + size]).max())
                    for i in range(0, 300, size)
                ]
            )
            for row in x
        ]
    )
    e = apscope.exchange(f"current_scaling:e4m3fn,agree=local,block={block},{flag}", x)
    assert np.array_equal(e.sent, local) and e.reduction == "gather"
    assert (
        e.side_bits == [-(-300 // size) * (8 if pow2 else 32)] * 3 and e.payload_bits == [2400] * 3
    )
    agreed = apscope.exchange(f"current_scaling:e4m3fn,{flag}", x)
    assert np.array_equal(agreed.sent, sent(x, np.abs(x).max()))


# sums in FP8
# -----------------------------------------------------------------------------------------


def fp8_scale(a, workers, largest):
    k = 200
    while Fraction(2) ** k * Fraction(float(a)) > Fraction(float(largest)):
        k -= 1
    return float(F32(2.0 ** min(k, 127) / math.sqrt(workers)))


def test_the_fp8_all_reduce_scale_is_that_of_the_formula_and_is_kept_over_zeros_and_infinities(
    tmp_path,
):
    rng = np.random.default_rng(3)
    for workers in (1, 3, 4, 64):
        for a in [
            *np.ldexp(1 + rng.random(20), rng.integers(-120, 120, 20)),
            448.0,
            2.0**-149,
            3e38,
        ]:
            x = np.zeros((workers, 3), np.float32)
            x[-1, 1] = -a
            ((e, after),) = run_steps("fp8_allreduce:e4m3fn", [x])
            assert after == fp8_scale(np.abs(x).max(), workers, 448)
            assert np.array_equal(e.sent, saturated(x.astype(np.float64) * after, "e4m3fn") / after)
    start, larger = [[1.75, 0.5]] * 4, [[7.0, 0.5]] * 4
    for odd in (0.0, np.inf, np.nan):
        trace = record(tmp_path / str(odd), [start, [[odd, 0]] * 4, larger])
        assert exponents(trace, "fp8_allreduce:e4m3fn") == [7, 7, 5]


def fp8_sum(codes, name):
    """Sequential, rank by rank; and how many additions saturated."""
    largest, sum_, saturating = apscope.FloatFormat(name).largest, codes[0], 0
    for row in codes[1:]:
        saturating += int((np.abs(sum_ + row) > largest).sum())
        sum_ = saturated(sum_ + row, name)
    return sum_, saturating


def measured(x, name, headroom):
    ((e, scale),) = run_steps(f"fp8_allreduce:{name},headroom={headroom}", [x])
    codes = saturated(x.astype(np.float64) * scale, name)
    total, saturating = fp8_sum(codes, name)
    assert np.array_equal(e.sent, codes / scale) and np.array_equal(e.reduced, total / scale)
    truth = x.astype(np.float64).sum(axis=0)
    nmse = [
        float(((y - truth) ** 2).sum() / (truth**2).sum()) for y in (e.sent.sum(axis=0), e.reduced)
    ]
    return saturating, nmse


def test_MA1_sums_of_independent_gradients_do_not_saturate_with_room_of_sqrt_W():
    """A sum of W independent N(0, 1) has deviation sqrt(W), at the scale at most M / amax: with
    amax = 5.2 one of 20000 sums passes M with a chance of 20000 * 2e-7."""
    x = np.random.default_rng(7).standard_normal((64, 20000)).astype(np.float32)
    assert measured(x, "e4m3fn", "sqrt_workers")[0] == 0  # of 1.26 million additions
    assert measured(x, "e4m3fn", "workers")[0] == 0
    assert measured(x, "e4m3fn", "one")[0] > 50_000


def test_MA2_sums_of_equal_gradients_saturate_with_room_of_sqrt_W():
    row = np.random.default_rng(8).standard_normal(20000).astype(np.float32)
    x = np.repeat(row[None], 64, axis=0)
    for name in ("e4m3fn", "e3m4"):
        saturating, _ = measured(x, name, "sqrt_workers")
        assert saturating > 1000
        ((e, scale),) = run_steps(f"fp8_allreduce:{name}", [x])
        assert (
            np.abs(e.reduced).max()
            == apscope.FloatFormat(name).largest / scale
            < 0.6 * 64 * np.abs(row).max()
        )
        assert measured(x, name, "workers")[0] == 0


def test_MA3_room_of_sqrt_W_costs_less_than_room_of_W_for_independent_gradients():
    """e3m4: the room of W pushes most values into the subnormals."""
    x = np.random.default_rng(9).standard_normal((64, 20000)).astype(np.float32)
    (_, root), (_, whole) = (
        measured(x, "e3m4", headroom) for headroom in ("sqrt_workers", "workers")
    )
    assert root[0] < whole[0] / 20 and root[1] < whole[1] / 2, (root, whole)


# limits
# ----------------------------------------------------------------------------------------------

SPECS = ["delayed_scaling:e5m2", "current_scaling:e4m3fn",
         "current_scaling:e4m3fn,pow2=true,block=4", "fp8_allreduce:e4m3fn",
         "mx", "mx:block_format=mxfp4,rule=rceil", "mx:block_format=mxint8", "nvfp4",
             "nvfp4:four_over_six=mse,rht=false"]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("workers", [1, 3])
def test_limits_of_fp32_make_no_nan_and_no_infinity(spec, workers):
    for value in (1e-45, 1e-38, 1e38, 0.0):
        for n in (0, 1, 16, 19):
            x = np.full((workers, n), value, np.float32)
            x[:, ::3] *= -1
            for e, number in ((apscope.exchange(spec, x, step=s), s) for s in range(2)):
                assert np.isfinite(e.sent).all() and np.isfinite(e.reduced).all(), (
                    value,
                    n,
                    number,
                )
                assert e.sent.shape == x.shape and (value or not e.sent.any())


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ("mx:block_format=nvfp4", "nvfp4"),
        ("mx:block_format=what", "what"),
        ("nvfp4:four_over_six=true", "true"),
        ("current_scaling:e5m2,eps=-1", "-1"),
        ("delayed_scaling:e5m2,history=0", "0"),
        ("delayed_scaling:e5m2,margin=17", "17"),
    ],
)
def test_wrong_keys_are_named(spec, wrong):
    with pytest.raises(ValueError, match=wrong):
        apscope.schemes.Scheme(spec)
