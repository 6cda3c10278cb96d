"""Provable or measurable claims about headroom, shifts and orders of low-precision sums: the rest
of APS's claims.

Q below is a rounding of its own, in fp64 arithmetic: results of the library are compared with sums
it makes. Notation as in test_claims_aps.py: E = emax, m significand bits, M the largest number, W
workers.
"""

import functools
import math

import numpy as np
import pytest

import apscope
from tests.python.recorded import record

#: the schemes that take their power of two from H amax by the same rule: here one tensor is all
#: that a loss scale serves
SCALES = ["aps:{}", "loss_scaling:{},scale=largest"]
IEEE = [
    (2, 1),
    (2, 3),
    (3, 0),
    (3, 1),
    (3, 2),
    (3, 4),
    (4, 0),
    (4, 1),
    (4, 3),
    (5, 0),
    (5, 2),
    (5, 4),
    (5, 10),
]


class Format:
    """Round to nearest, ties to even (m = 0: up), or up; infinite beyond M."""

    def __init__(self, e, m):
        self.e, self.m, self.E = e, m, 2 ** (e - 1) - 1
        self.M = 2.0**self.E * (2 - 2.0**-m)
        self.name = f"e{e}m{m}"

    def units(self, x):
        quantum = 2.0 ** (max(math.frexp(x)[1] - 1, 1 - self.E) - self.m)
        return x / quantum, quantum

    def nearest(self, x):
        if x == 0 or math.isinf(x):
            return x
        n, quantum = self.units(x)
        low = math.floor(n)
        up = n - low > 0.5 or (n - low == 0.5 and low % 2 == 1)
        y = (low + up) * quantum
        return y if y <= self.M else math.inf

    def up(self, x):
        if x == 0 or math.isinf(x):
            return x
        n, quantum = self.units(x)
        y = math.ceil(n) * quantum
        return y if y <= self.M else math.inf


def sequential(c, W, q):
    """S_1, ..., S_W of equal addends."""
    sums = [c]
    for _ in range(W - 1):
        sums.append(q(sums[-1] + c))
    return sums


def tree(c, W, q):
    """Neighbours pair, an odd last one passes up: the value, or infinity as soon as one sum is."""
    level = [c] * W
    while len(level) > 1:
        level = [q(a + b) for a, b in zip(level[::2], level[1::2])] + level[len(level) // 2 * 2 :]
    return level[0]


def hierarchical(c, W, G, q):
    groups = [sequential(c, min(G, W - i), q)[-1] for i in range(0, W, G)]
    total = groups[0]
    for g in groups[1:]:
        total = q(total + g)
    return total


def within_the_limit(f, most=512):
    return range(1, min(most, 2 ** (2 * f.E - 1)) + 1)


@pytest.mark.parametrize("e, m", [(e, m) for e, m in IEEE if m >= 1])
def test_A1_no_partial_sum_overflows_in_any_of_the_orders(e, m):
    """By induction |S_j| <= the sum of equal positive addends Q(2^E / W), the largest that the
    scale allows."""
    f = Format(e, m)
    for W in within_the_limit(f, 300):
        c = f.nearest(2.0**f.E / W)
        assert max(sequential(c, W, f.nearest)) <= f.M and tree(c, W, f.nearest) <= f.M
        for G in (2, 3, 4, 8, 16, 32):
            assert hierarchical(c, W, G, f.nearest) <= f.M


@pytest.mark.parametrize("e", [2, 3, 4, 5])
def test_A1_without_significand_bits_sequential_and_tree_hold_and_hierarchies_fail_from_five(e):
    f = Format(e, 0)
    for W in within_the_limit(f):
        c = f.nearest(2.0**f.E / W)
        assert max(sequential(c, W, f.nearest)) <= f.M and tree(c, W, f.nearest) <= f.M
    if e > 2:
        fails = [
            W for W in range(1, 9) if hierarchical(f.nearest(2.0**f.E / W), W, 3, f.nearest) > f.M
        ]
        assert fails[0] == 5
        g = np.full((5, 1), worst(5, 8.0), np.float32)
        assert np.isinf(apscope.exchange(f"aps:{f.name}", g, topology="hierarchical:3").reduced[0])
        assert np.isfinite(apscope.exchange(f"aps:{f.name}", g, topology="tree").reduced[0])


def worst(W, limit):
    """The largest fp32 number whose W-fold is at most the limit."""
    a = np.float32(limit / W)
    return a if float(a) * W <= limit else np.nextafter(a, np.float32(0))


@pytest.mark.parametrize("e, m", [(3, 0), (3, 2), (4, 3), (5, 2), (5, 10)])
@pytest.mark.parametrize("topology", ["sequential", "ring", "tree", "hierarchical:4"])
@pytest.mark.parametrize("scheme", SCALES)
def test_A1_the_scheme_gives_these_sums(scheme, e, m, topology):
    f = Format(e, m)
    for W in [*range(1, 34), 63, 64, 100, 255]:
        if W not in within_the_limit(f) or (m == 0 and topology.startswith("h")):
            continue
        a = worst(W, 1.0)
        got = apscope.exchange(
            scheme.format(f.name), np.full((W, 2), a, np.float32), topology=topology
        )
        c = f.nearest(float(a) * 2.0**f.E)
        expected = {
            "s": lambda: sequential(c, W, f.nearest)[-1],
            "r": lambda: sequential(c, W, f.nearest)[-1],
            "t": lambda: tree(c, W, f.nearest),
            "h": lambda: hierarchical(c, W, 4, f.nearest),
        }[topology[0]]()
        assert (
            got.scale_exponent == f.E
            and (got.reduced == expected / 2.0**f.E).all()
            and np.isfinite(expected)
        )


@pytest.mark.parametrize("e, m", [(3, 2), (4, 3), (5, 2)])
def test_A1_random_signs_and_sizes_do_not_overflow(e, m):
    rng = np.random.default_rng(e * 16 + m)
    for W in (2, 5, 8, 13, 32):
        g = (rng.standard_normal((W, 500)) * 2.0 ** rng.integers(-3, 1, (W, 500))).astype(
            np.float32
        )
        g[:, ::2] = np.float32(np.abs(g).max())
        for topology in ("sequential", "ring", "tree", "hierarchical:3"):
            assert np.isfinite(
                apscope.exchange(f"aps:e{e}m{m}", g, topology=topology).reduced
            ).all()


def test_A1_beyond_the_limit_subnormal_addends_round_up_too_far():
    """The first W that overflows, by the same enumeration. e3m0 in a tree: below 64."""
    f = Format(3, 0)
    first = {}
    for order, total in (("tree", tree), ("sequential", lambda c, W, q: max(sequential(c, W, q)))):
        first[order] = next(
            (W for W in range(1, 300) if total(f.nearest(2.0**f.E / W), W, f.nearest) > f.M), None
        )
    assert first == {"tree": 43, "sequential": None}
    g = np.full((43, 1), worst(43, 1.0), np.float32)
    assert np.isinf(apscope.exchange("aps:e3m0", g, topology="tree").reduced[0])


def overflowing(f, q, limit, most, encode=None):
    return [
        W
        for W in range(1, most + 1)
        if math.isinf(sequential((encode or f.nearest)(limit / W), W, q)[-1])
    ]


@pytest.mark.parametrize(
    "e, m, most, expected",
    [
        (5, 2, 256, [3, 5, 9, 10, 11, 12]),
        (3, 2, 32, [3, 5, 9, 10, 11, 12]),
        (4, 3, 256, 13),
        (5, 10, 256, 122),
    ],
)
@pytest.mark.parametrize("scheme", SCALES)
def test_A1p_the_spare_binade_is_needed(scheme, e, m, most, expected):
    """rule=tight, H amax up to M: sums overflow at these W, in rank order."""
    f = Format(e, m)
    found = overflowing(f, f.nearest, f.M, most)
    assert (found if isinstance(expected, list) else len(found)) == expected
    for W in found[:6]:
        a = worst(W, f.M)
        if f.nearest(float(a)) != f.nearest(f.M / W):
            continue  # no fp32 number comes near enough to M / W
        got = apscope.exchange(
            scheme.format(f.name) + ",rule=tight", np.full((W, 1), a, np.float32)
        )
        assert got.scale_exponent == 0 and np.isinf(got.reduced[0])
        assert np.isfinite(
            apscope.exchange(scheme.format(f.name), np.full((W, 1), a, np.float32)).reduced[0]
        )


@pytest.mark.parametrize(
    "name, topology, W", [("e5m2", "sequential", 3), ("e4m3", "tree", 7), ("fp16", "sequential", 3)]
)
def test_A1p_the_first_workers_whose_tight_loss_scale_overflows(name, topology, W):
    """By search over amax between M / W and the next power of two below, none with fewer workers;
    by the rule of aps none at all."""
    f = apscope.FloatFormat(name)

    def overflows(rule, workers):
        amax = np.float32(f.largest / workers) * np.linspace(0.5, 1, 2000, dtype=np.float32)
        amax = amax[amax.astype(np.float64) * workers <= f.largest]
        for order in ("sequential", "tree"):
            for a in (amax[-1], *amax[::40]):
                got = apscope.exchange(
                    f"loss_scaling:{name},scale=largest,rule={rule}",
                    np.full((workers, 1), a),
                    topology=order,
                )
                if np.isinf(got.reduced[0]):
                    return order
        return None

    assert [overflows("tight", w) for w in range(1, W)] == [None] * (W - 1)
    assert overflows("tight", W) == topology
    assert [overflows("ceil", w) for w in range(1, 2 * W)] == [None] * (2 * W - 1)


def test_one_loss_scale_for_all_is_the_aps_scale_of_the_largest_tensor(tmp_path):
    """At both rules and every headroom, subnormal and zero tensors among them."""
    sizes = [(1e-3, 0.7), (2.5, 0.0), (1e-40, 1e-45)]
    steps = [{name: np.full((3, 4), size) for name, size in zip("ab", pair)} for pair in sizes]
    trace = record(tmp_path / "t", steps)
    for keys in (
        "",
        ",headroom=one",
        ",headroom=sqrt_workers",
        ",rule=tight",
        ",rule=tight,headroom=one",
    ):
        for name in ("e5m2", "e4m3fn", "e3m0"):
            for steps, largest in (("0:", (1, "a")), ("0:1", (0, "b")), ("2:3", (2, "a"))):
                aps = apscope.replay(
                    trace, f"aps:{name}{keys}", steps=steps, topology=[]
                ).frame.set_index(["step", "tensor"])
                loss = apscope.replay(
                    trace, f"loss_scaling:{name},scale=largest{keys}", steps=steps, topology=[]
                ).frame
                assert (loss.scale_exponent == aps.scale_exponent.loc[largest].iloc[0]).all(), (
                    keys,
                    name,
                    steps,
                )


@pytest.mark.parametrize("headroom", ["workers", "sqrt_workers", "one"])
def test_A1p_tight_is_the_largest_shift_that_fits(headroom):
    rng = np.random.default_rng(2)
    for W in (1, 2, 3, 7, 8):
        for name in ("e5m2", "e4m3fn", "e3m0", "fp16"):
            M = apscope.FloatFormat(name).largest
            h = {"workers": W, "sqrt_workers": math.sqrt(W), "one": 1}[headroom]
            for amax in np.ldexp(rng.uniform(1, 2, 20), rng.integers(-40, 40, 20)).astype(
                np.float32
            ):
                s = apscope.exchange(
                    f"aps:{name},rule=tight,headroom={headroom}", np.full((W, 1), amax, np.float32)
                ).scale_exponent
                assert (
                    h * math.ldexp(float(amax), s)
                    <= M * (1 + 1e-15)
                    < h * math.ldexp(float(amax), s + 1)
                )


@pytest.mark.parametrize("e, m, first", [(5, 2, 16), (4, 3, 32), (3, 0, 4)])
def test_A1pp_sums_that_may_round_up_overflow(e, m, first):
    """The worst stochastic draw rounds every sum up: from these powers of two on the sum leaves the
    format."""
    f = Format(e, m)
    most = min(64, 2 ** (2 * f.E - 1))
    found, powers = overflowing(f, f.up, 2.0**f.E, most), [2**k for k in range(7) if 2**k <= most]
    assert [W for W in powers if W in found] == [W for W in powers if W >= first]
    if (e, m) == (5, 2):
        assert found == [13, 14, *range(16, 65)]
    got = [
        np.isinf(
            apscope.exchange(
                f"aps:{f.name},hop_rounding=toward_positive", np.full((W, 1), 1.0 / W, np.float32)
            ).reduced[0]
        )
        for W in (first // 2, first)
    ]
    assert got == [False, True]


@pytest.mark.parametrize("e, m", [(3, 0), (4, 0), (3, 2), (4, 3), (5, 2), (5, 3)])
def test_A6_R1_sums_of_equal_values_stop_at_2_to_the_m_plus_1(e, m):
    f = Format(e, m)
    stop = 2 ** (m + 1) if m else 4
    for W in (1, 2, 4, stop, 2 * stop, 64):
        got = apscope.exchange(
            f"aps:{f.name},headroom=one,accumulate=bf16", np.ones((W, 1), np.float32)
        )  # the wire loses nothing
        assert got.sent[0, 0] == 1.0
        x = np.ones((W, 1), np.float32)
        # An exponent range that no sum leaves.
        total = apscope.allreduce(x, apscope.FloatFormat(f"e7m{m}"))[0]
        assert total == min(W, stop)
        assert apscope.allreduce(x, f"e7m{m}", topology="tree")[0] == W  # W is a power of two


def test_A6_at_16_workers_half_of_the_sum_is_left():
    e = apscope.exchange("aps:e5m2", np.full((16, 3), 0.25, np.float32))
    assert (e.sent == 0.25).all() and (e.reduced / (16 * 0.25) == 0.5).all()


def test_A6_the_tree_is_exact_for_powers_of_two_and_for_no_other():
    exact = [
        W
        for W in range(1, 129)
        if apscope.allreduce(np.ones((W, 1), np.float32), "e5m2", topology="tree")[0] == W
    ]
    assert {1, 2, 4, 8, 16, 32, 64, 128} <= set(exact)
    assert apscope.allreduce(np.ones((11, 1), np.float32), "e5m2", topology="tree")[0] == 12


@pytest.mark.parametrize("m", [0, 1, 2, 3])
def test_A6_compensation_stops_too(m):
    """Kahan's sum of equal values stops at 4^(m+1) of them (m = 0: 16)."""
    stop = 4 ** (m + 1) if m else 16
    for W in (stop // 2, stop, 4 * stop):
        total = apscope.allreduce(
            np.ones((W, 1), np.float32), f"e7m{m}", topology="sequential+kahan"
        )[0]
        assert total == min(W, stop), (W, total)


def gaussian(W, n, seed):
    return np.random.default_rng(seed).standard_normal((W, n)).astype(np.float32)


def nmse(y, g):
    x = g.astype(np.float64).sum(axis=0)
    return ((y - x) ** 2).sum() / (x**2).sum()


@pytest.mark.parametrize(
    "topology", ["sequential", "ring", "tree", "hierarchical:3", "sequential+kahan"]
)
def test_R2_an_order_gives_the_same_bits_on_any_number_of_threads_and_another_order_others(
    topology,
):
    g = gaussian(16, 9000, 1)
    one = apscope.allreduce(g, "e4m3", topology=topology)
    for threads in (2, 5):
        assert np.array_equal(one, apscope.allreduce(g, "e4m3", topology=topology, threads=threads))
    assert (
        not np.array_equal(one, apscope.allreduce(g[::-1].copy(), "e4m3", topology=topology))
        or topology == "tree"
    )


def test_R2_a_pair_is_the_same_both_ways():
    """The ranks of a recursive doubling agree because a + b = b + a, bit for bit, for signed zeros
    too."""
    g = np.concatenate(
        [gaussian(2, 4000, 2), [[0.0, -0.0, 1.0], [-0.0, 0.0, -1.0]]], axis=1
    ).astype(np.float32)
    a, b = apscope.allreduce(g, "e5m2"), apscope.allreduce(g[::-1].copy(), "e5m2")
    assert np.array_equal(a.view(np.uint32), b.view(np.uint32))


@pytest.mark.parametrize("name", ["e5m2", "e4m3", "e4m3fn", "e3m0", "e2m1"])
def test_R3_exact_sums_of_narrow_codes_do_not_depend_on_the_order(name):
    """One power of two as scale, and W M / q0 <= 2^53: every fp64 sum is exact."""
    f = apscope.FloatFormat(name)
    rng = np.random.default_rng(4)
    g = (rng.standard_normal((64, 500)) * 2.0 ** rng.integers(-40, 1, (64, 500))).astype(np.float32)
    assert 64 * f.largest / f.smallest_positive <= 2**53
    one = apscope.exchange(f"aps:{name},accumulate=exact", g).reduced
    for _ in range(3):
        assert np.array_equal(
            one, apscope.exchange(f"aps:{name},accumulate=exact", rng.permutation(g)).reduced
        )
    sent = apscope.exchange(f"aps:{name}", g).sent
    assert np.array_equal(one, [math.fsum(column) for column in sent.T])


def test_R3_the_limit_of_W():
    limits = {"e5m2": 2396745, "e4m3fn": 2**35}
    for name, limit in limits.items():
        f = apscope.FloatFormat(name)
        at_most = int(2**53 / (f.largest / f.smallest_positive))
        assert at_most == limit if name == "e5m2" else limit <= at_most < 2 * limit


def test_R3_sums_of_wide_codes_do():
    g = np.float32([[2.0**40], [2.0**-40], [-(2.0**40)]])
    assert apscope.exchange("none:bf16,accumulate=exact", g).reduced[0] == 0
    assert apscope.exchange("none:bf16,accumulate=exact", g[[0, 2, 1]]).reduced[0] == 2.0**-40


@functools.cache
def measured(W, topology, wire=False, rounding="same"):
    g = gaussian(W, 20000, 100 + W)
    spec = "aps:e5m2" + (
        ",accumulate=exact" if wire else f",hop_rounding={rounding},overflow=saturate"
    )
    return nmse(apscope.exchange(spec, g, topology=topology, seed=W).reduced, g)


R4 = [
    (8, "sequential", 0.01605), (32, "sequential", 0.05268), (64, "sequential", 0.09837),
    (256, "sequential", 0.3286),
    (8, "tree", 0.01245), (32, "tree", 0.0191), (64, "tree", 0.02216), (256, "tree", 0.02811),
]  # fmt: skip


@pytest.mark.parametrize("W, topology, expected", R4)
def test_R4_squared_errors_by_order(W, topology, expected):
    assert measured(W, topology) == pytest.approx(expected, rel=0.05)


def test_R4_the_wire_alone_costs_the_same_at_every_W():
    for W in (8, 64, 256):
        assert measured(W, "sequential", wire=True) == pytest.approx(2.8e-3, rel=0.05)
    g = gaussian(256, 2000, 9)
    assert nmse(apscope.exchange("aps:e5m2", g).reduced, g) > 50 * nmse(
        apscope.exchange("aps:e5m2,accumulate=exact", g).reduced, g
    )


@pytest.mark.parametrize("W, expected", [(8, 1.6), (32, 1.75), (64, 1.8), (256, 2.0)])
def test_R5_stochastic_sums_of_independent_data_have_up_to_twice_the_error(W, expected):
    assert measured(W, "sequential", rounding="stochastic") / measured(
        W, "sequential"
    ) == pytest.approx(expected, rel=0.05)


def test_R5_stochastic_sums_of_coherent_data_are_far_better_and_unbiased():
    """The same gradient everywhere: rounding to nearest stagnates; draws are right on average (z <
    5)."""
    W, n = 64, 20000
    g = np.full((W, n), 1.0, np.float32)
    nearest = apscope.exchange("aps:e5m2", g).reduced
    drawn = apscope.exchange(
        "aps:e5m2,hop_rounding=stochastic,overflow=saturate", g, seed=3
    ).reduced
    assert (nearest == 8).all()
    assert nmse(drawn, g) < nmse(nearest, g) / 10
    z = (drawn.mean() - W) / (drawn.std(ddof=1) / math.sqrt(n))
    assert abs(z) < 5
