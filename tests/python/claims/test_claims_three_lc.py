"""3LC: the formula and the bytes of a reference, and what a sparsity above 1 does."""

import numpy as np
import pytest

import apscope
from tests.python.one_bit_claims import middle
from tests.reference import three_lc

SPARSITIES = (1, 1.5, 1.9375)  #: fp32 numbers, as the reference's


@pytest.mark.parametrize("sparsity", SPARSITIES)
def test_the_formula(trace, sparsity):
    for _, g in middle(trace):
        e = apscope.exchange(f"three_lc:sparsity={sparsity}", g)
        for row, sent in zip(g, e.sent, strict=True):
            scale = three_lc.scale(row, sparsity)
            assert np.array_equal(sent, scale * three_lc.nearest(row, scale).astype("f4"))
        assert e.reduction == "gather" and e.side_bits == [32] * len(g)


@pytest.mark.parametrize("rounding", ["ties_to_even", "stochastic"])
@pytest.mark.parametrize("n", [1, 4, 5, 6, 69, 70, 71, 1000])
def test_the_payload_is_the_codes(rounding, n):
    random = np.random.default_rng(n)
    g = (random.standard_normal((3, n)) * np.exp(3 * random.standard_normal((3, n)))).astype("f4")
    g[1] = 0
    g[2, : n // 2] = 0
    e = apscope.exchange(f"three_lc:rounding={rounding}", g)
    for row, sent, payload, bits in zip(g, e.sent, e.payload, e.payload_bits, strict=True):
        scale = three_lc.scale(row)
        assert np.array_equal(three_lc.decoded(list(payload), n, scale), sent)
        assert list(payload) == three_lc.message(np.sign(sent))
        assert bits == 8 * len(payload) <= 8 * -(-n // 5)
    assert e.payload_bits[1] == 8 * -(-n // 70)  # a tensor of zeros


def test_runs_by_hand():
    """15 zero bytes: a run of 14 and a zero byte; then 1, -1 and three zeros."""
    row = np.zeros(80, np.float32)
    row[75:77] = 2, -2
    assert list(apscope.exchange("three_lc", row[None]).payload[0]) == [
        255, 121, 2 * 81 + 0 * 27 + 9 + 3 + 1,
    ]  # fmt: skip
    row[5:8] = 2
    assert list(apscope.exchange("three_lc", row[None]).payload[0]) == [
        121, 2 * 81 + 2 * 27 + 2 * 9 + 3 + 1, 241 + 13, 175,
    ]  # fmt: skip


def test_stochastic_rounding_is_qsgd_of_one_level(trace):
    for _, g in middle(trace):
        row = g[:1]
        ours, qsgd = (
            apscope.exchange(spec, row)
            for spec in (
                "three_lc:rounding=stochastic",
                f"qsgd:levels=1,norm=max,bucket={row.size}",
            )
        )
        amax = float(np.abs(row).max())
        assert np.allclose(ours.variance, qsgd.variance, rtol=0, atol=2**-31 * amax**2)
        assert np.isin(ours.sent, [-amax, 0, amax]).all() and (ours.sent * row >= 0).all()


def test_a_larger_sparsity_has_fewer_nonzeros_and_bytes(trace):
    for _, g in middle(trace):
        made = [apscope.exchange(f"three_lc:sparsity={s}", g) for s in SPARSITIES]
        for low, high in zip(made, made[1:], strict=False):
            assert not ((low.sent == 0) & (high.sent != 0)).any()
            assert all(a >= b for a, b in zip(low.payload_bits, high.payload_bits, strict=True))


def test_error_feedback_sends_what_was_left(trace):
    """Over the steps the messages add up to the gradients but for the last error."""
    g = np.random.default_rng(0).standard_normal((2, 50)).astype(np.float32)
    state, sent = None, np.zeros((2, 50))
    for step in range(40):
        e = apscope.exchange("error_feedback(three_lc)", g, state=state, step=step, index=step)
        state, sent = e.state, sent + e.sent
    assert np.abs(sent / 40 - g).max() < 0.2 * np.abs(g).max()
    assert np.abs(apscope.exchange("three_lc", g).sent - g).max() > 0.4 * np.abs(g).max()


def test_a_sparsity_of_2_is_refused():
    with pytest.raises(ValueError, match="sparsity=2"):
        apscope.exchange("three_lc:sparsity=2", np.ones((1, 3), np.float32))
