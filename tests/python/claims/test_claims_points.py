"""Proofs about sums of encodings, and their convergence on recorded gradients."""

import math

import numpy as np
import pytest

import apscope
from tests.python.one_bit_claims import DATA, middle


def after_points(spec, g, points):
    """(residuals, exchange) after 1, 2, ..., `points` points."""
    for k in range(1, points + 1):
        e = apscope.exchange(f"{spec}points={k}", g)
        yield g - e.sent, e


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 8])
def test_MP1_every_point_makes_the_residual_smaller(trace, bits):
    for _, g in middle(trace):
        before = (g.astype(np.float64) ** 2).sum(axis=1)
        start = before
        for k, (r, e) in enumerate(after_points(f"multipoint:bits={bits},", g, 5), 1):
            after = (r**2).sum(axis=1)
            # Below, a residual is what fp64 loses in adding up the points.
            resolved = before > 1e-20 * start
            assert (after < before)[resolved].all()
            assert e.payload_bits == [k * bits * g.shape[1]] * len(g) and e.side_bits == [
                32 * k
            ] * len(g)
            before = after


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_MP1_a_point_is_the_least_squares_best_of_the_line_search(bits):
    """Against a search written from the formula; the largest magnitude as scale is among those
    tried."""
    rng, largest_code = np.random.default_rng(bits), 2 ** (bits - 1) - 1
    for _ in range(20):
        x = (
            (rng.standard_normal(40) * np.exp(rng.standard_normal(40)))
            .astype(np.float32)
            .astype(np.float64)
        )

        def errors(count):
            for i in range(count, 0, -1):
                z = (
                    np.floor(np.clip(x / (np.abs(x).max() * i / count), -1, 1) * largest_code + 0.5)
                    / largest_code
                )
                a = (x * z).sum() / (z * z).sum()
                yield ((x - a * z) ** 2).sum()

        e = apscope.exchange(f"multipoint:bits={bits},points=1", x[None].astype(np.float32))
        got = ((x - e.sent[0]) ** 2).sum()
        assert math.isclose(got, min(errors(16)), rel_tol=1e-9)
        assert (
            got
            <= (
                (
                    x
                    - apscope.exchange(
                        f"multipoint:bits={bits},points=1,search=1", x[None].astype(np.float32)
                    ).sent[0]
                )
                ** 2
            ).sum()
        )


def test_MP1_one_bit_points_are_signs_with_the_l1_scale(trace):
    for _, g in middle(trace):
        signs, points = (
            apscope.exchange("residual(sign),points=4", g),
            apscope.exchange("multipoint:bits=1,points=4", g),
        )
        assert np.array_equal(signs.sent, points.sent) and signs.payload == points.payload
        assert np.array_equal(
            apscope.exchange("residual(sign),points=1", g).sent, apscope.exchange("sign", g).sent
        )


#: measured: squared error after a further point over that before; geometric mean over points 2 to
#: 6, tensors and workers
DECAY = {
    ("digits", 1): 0.578, ("digits_w64", 1): 0.570, ("characters", 1): 0.592,
    ("digits", 2): 0.224, ("digits_w64", 2): 0.193, ("characters", 2): 0.259,
    ("digits", 4): 0.0133, ("digits_w64", 4): 0.0119, ("characters", 4): 0.0189,
}  # fmt: skip


@pytest.mark.parametrize("name, bits", DECAY)
def test_MP2_the_decay_is_geometric(name, bits):
    """On recorded gradients of 10 elements or more a point leaves about the same share of the
    squared error, whichever it is."""
    factors = []
    for _, g in middle(apscope.open_trace(DATA / name), least=10):
        errors = np.stack(
            [(r**2).sum(axis=1) for r, _ in after_points(f"multipoint:bits={bits},", g, 6)]
        )
        factors.append((errors[1:] / errors[:-1]).T)
    logs = np.log(np.concatenate(factors))
    assert math.isclose(math.exp(logs.mean()), DECAY[name, bits], rel_tol=0.01)
    assert (np.exp(logs.mean(axis=0)) < 2 * DECAY[name, bits]).all() and np.exp(logs.max()) < {
        1: 0.91,
        2: 0.65,
        4: 0.42,
    }[bits]


def test_MP2_the_best_point_now_is_not_the_best_start_for_the_next(trace):
    """The least squares of 4 bits clip the tail, which then is all that the next points see: after
    one point the search wins for every worker, after six the largest magnitude as scale (search=1)
    does, by far."""
    logs = {}
    for search in (1, 16):
        errors = [
            np.stack(
                [(r**2).sum(axis=1) for r, _ in after_points(f"multipoint:search={search},", g, 6)]
            )
            for _, g in middle(trace, least=10)
        ]
        logs[search] = np.log(np.concatenate(errors, axis=1))
    assert (logs[16][0] <= logs[1][0]).all()
    assert logs[16][5].mean() - logs[1][5].mean() > math.log(10)


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e3m4", "bf16"])
def test_MP2_of_float_formats_at_the_aps_scale_is_half_an_ulp_a_point(trace, name):
    """The workers' largest residual falls by 2^-(m+1) a point: half an ulp where the grid is
    normal, and W <= 2^(2E-2) keeps half a subnormal quantum below the same."""
    f = apscope.FloatFormat(name)
    for _, g in middle(trace):
        assert len(g) <= 2 ** (2 * f.emax - 2)
        bound = np.abs(g).max().astype(np.float64)
        for r, _ in after_points(f"residual(aps:{name}),", g, 3):
            bound *= 2.0 ** -(f.mantissa_bits + 1)
            assert np.abs(r).max() <= bound


def test_MP2_a_target_is_met_with_as_few_points_as_it_takes(trace):
    for spec in ("multipoint:bits=4,", "residual(aps:e4m3),", "residual(sign),"):
        for _, g in middle(trace):
            squares = (g.astype(np.float64) ** 2).sum(axis=1)
            aim, most = (0.3, 12) if "sign" in spec else (1e-4, 12)
            e = apscope.exchange(f"{spec}points={most},nmse={aim}", g)
            fixed = (
                [np.zeros(len(g))]
                + [((r) ** 2).sum(axis=1) for r, _ in after_points(spec, g, most)]
                if "aps" not in spec
                else None
            )
            each = {"multipoint:bits=4,": 4, "residual(aps:e4m3),": 8, "residual(sign),": 1}[
                spec
            ] * g.shape[1]
            counts = np.array(e.payload_bits) // each
            left = ((g - e.sent) ** 2).sum(axis=1)
            assert ((left <= aim * squares) | (counts == most)).all() and (counts >= 1).all()
            if fixed is None:
                continue  # workers agree on scales, so a stopped worker changes those of the others
            for w, count in enumerate(counts):
                assert left[w] == fixed[count][w] and (
                    count == 1 or fixed[count - 1][w] > aim * squares[w]
                )


def test_MP3_three_bf16_numbers_are_one_fp32_number():
    """For 2^-110 <= |x| < (2 - 2^-8) 2^127, at scale 1. Below, bf16's subnormals end before fp32's;
    above, the first overflows."""
    rng = np.random.default_rng(4)
    low, high = (
        np.float32(2.0**-110).view(np.uint32),
        np.float32((2 - 2.0**-8) * 2.0**127).view(np.uint32),
    )
    words = np.concatenate(
        [rng.integers(low, high, 200_000), low + np.arange(70_000), high - 1 - np.arange(70_000)]
    ).astype(np.uint32)
    # Full and empty significands.
    words = np.concatenate([words, (words & 0xFF800000) | 0x7FFFFF, words & 0xFF800000])
    words = words[(words >= low) & (words < high)]
    x = words.view(np.float32) * rng.choice(np.float32([-1, 1]), words.size)
    three, two = (apscope.exchange(f"residual(none:bf16),points={k}", x[None]) for k in (3, 2))
    assert (
        np.array_equal(three.sent[0], x)
        and np.array_equal(three.reduced, x)
        and three.payload_bits == [48 * x.size]
    )
    assert (two.sent[0] != x)[:200_000].mean() > 0.9
    outside = np.float32([2.0**-126 * (1 + 2.0**-23), (2 - 2.0**-8) * 2.0**127])
    beyond = apscope.exchange("residual(none:bf16),points=3", outside[None]).sent[0]
    assert beyond[0] != outside[0] and np.isinf(beyond[1])


def test_points_take_any_gathered_scheme_and_refuse_the_others():
    g = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
    one, two = (apscope.exchange(f"residual(qsgd:levels=7),points={k}", g) for k in (1, 2))
    plain = apscope.exchange("qsgd:levels=7", g)
    # The first point draws as it would alone.
    assert np.array_equal(one.sent, plain.sent) and one.payload == plain.payload
    u = (two.sent - one.sent) / np.linalg.norm(g - one.sent, axis=1, keepdims=True) * 7
    # And the second is qsgd's of what was left.
    assert np.allclose(u, np.rint(u), atol=1e-5) and u.any()
    for inner in """
        onebit_adam birder sign_vote error_feedback(sign) aps:e4m3,delay=1
    """.split():
        with pytest.raises(ValueError, match="residual needs a scheme that is gathered"):
            apscope.schemes.Residual(inner)
