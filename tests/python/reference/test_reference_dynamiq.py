"""The reference of DynamiQ: its own checks."""

import math

import numpy as np
import pytest

from tests.reference import dynamiq as dq

F = np.float32
EVEN = (np.arange(512) + 0.5) / 512


def test_means_and_energies_by_hand():
    rows = np.zeros((2, 300), F)
    rows[0, :256], rows[1, :256] = 4, np.tile([2, -2], 128)
    rows[1, 299] = 16
    found = dq.statistics(rows)
    assert found.mean.tolist() == [2, 8 / 256]
    assert found.energy.tolist() == [4 * 256 + 256, 64]
    assert not found.centred[0, 0].any()
    assert found.centred[1, 0].tolist() == [1, -1] * 128
    assert found.centred[1, 1, 43] == 8 - 8 / 256
    shared = dq.statistics(rows, global_mean=True)
    assert (shared.centred[0, 0] == 1).all()
    assert shared.centred[1, 0].tolist() == [0, -2] * 128


def test_centred_rows_add_up_to_the_mean():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4, 1000)).astype(F)
    for either in (False, True):
        found = dq.statistics(rows, either)
        mean = dq.mean_of_all(found.centred.sum(axis=0), found, 1000)
        assert mean == pytest.approx(rows.mean(axis=0), abs=2e-3)  # bf16 sums of the means


def test_fixed_shares():
    energy = np.array([5, 1, 9, 9, 3, 2, 8, 4, 7, 6.0])
    assert dq.fixed_widths(energy, 5).tolist() == [4, 2, 8, 8, 4, 2, 8, 4, 4, 4]
    assert dq.fixed_widths(np.ones(20), 4).tolist() == [8] + [4] * 12 + [2] * 7
    for budget, shares in dq.SHARES.items():
        assert sum(shares) == pytest.approx(1)
        widths = dq.fixed_widths(np.arange(4000.0), budget)
        mean = 8 * shares[0] + 4 * shares[1] + 2 * shares[2]
        assert widths.mean() == pytest.approx(mean, abs=0.01)
    assert (dq.fixed_widths(np.arange(40.0), 9) == dq.fixed_widths(np.arange(40.0), 5)).all()


def test_widths_change_at_powers_of_two():
    energy = np.exp2(np.array([-200, 0, 8, 16, 40.0]))
    assert dq.dynamic_widths(energy, 2.0, 0.25).tolist() == [2, 2, 4, 4, 8]
    assert dq.dynamic_widths(energy, 1.999, 0.25).tolist() == [2, 2, 2, 4, 8]


def test_the_papers_factor_gives_its_ratio_of_thresholds():
    """From 4 to 8 the argument of the logarithm doubles, 4 more, while F grows by 512 / 17."""
    c, ratio = dq.FACTORS["paper"], dq.THRESHOLD_RATIOS[2, 4, 8]
    assert c * math.log2(1 / ratio) == pytest.approx(4)
    u = 1.0
    at_4_8 = 2 ** ((8 - u) / c)
    around = np.array([at_4_8 * 0.999, at_4_8 * 1.001])
    assert dq.dynamic_widths(around, u, c).tolist() == [4, 8]
    assert dq.dynamic_widths(around * ratio, u, c).tolist() == [2, 4]


def test_the_level_reaches_the_target():
    rng = np.random.default_rng(0)
    energy = np.exp2(rng.normal(-10, 6, 5000))
    for name in ("code", "paper"):
        level = dq.Level(5.0, dq.FACTORS[name])
        assert (dq.dynamic_widths(energy, level.u) == 8).all()
        level.update(energy)
        assert abs(level.missing(energy, level.u)) <= 0.1
        moved = energy * 2.0**3
        for _ in range(20):
            level.update(moved)
        assert abs(level.missing(moved, level.u)) <= 0.2


@pytest.mark.parametrize("e", [0.27, 0.2, 0.08])
def test_the_lattice_is_odd_and_inverted(e):
    l = np.arange(-127, 128)
    m = dq.lattice(l, e)
    assert (m == -m[::-1]).all()
    assert (np.diff(m) > 0).all()
    assert dq.lattice(1, e) == pytest.approx(1 + e * e)
    assert dq.position(m, e) == pytest.approx(l, abs=1e-9)
    # the spacing grows by 1 + 2 e^2
    assert np.diff(m)[130:] / np.diff(m)[129:-1] == pytest.approx(1 + 2 * e * e)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_aee_is_unbiased_over_its_draws(bits):
    x = np.linspace(-1, 1, 16).astype(F)
    scale = dq.group_scales(x, bits, None)
    found = np.stack(
        [dq.values(dq.levels(x, scale, bits, None, np.full(16, r)), scale, None) for r in EVEN]
    )
    assert found.mean(axis=0) == pytest.approx(x, abs=float(scale) / 400)


def test_mee_is_unbiased_in_the_paper_and_not_in_the_code():
    e, bits = dq.EPSILON[4], 4
    x = np.linspace(0.03, 1, 16).astype(F)
    scale = dq.group_scales(x, bits, e)
    for unbiased in (True, False):
        found = np.stack(
            [
                dq.values(dq.levels(x, scale, bits, e, np.full(16, r), unbiased), scale, e)
                for r in EVEN
            ]
        ).mean(axis=0)
        bias = np.abs(found - x).max()
        assert (bias < float(scale) / 100) == unbiased
    # in l the mean is exact
    l = np.stack([dq.levels(x, scale, bits, e, np.full(16, r)) for r in EVEN]).mean(axis=0)
    assert l == pytest.approx(dq.position(x / scale, e), abs=1 / 256)


def test_the_largest_element_is_the_last_level():
    x = F([1, -1, *[0] * 14])
    for bits in (2, 4, 8):
        for e in (None, dq.EPSILON[bits]):
            scale = dq.group_scales(x, bits, e)
            l = dq.levels(x, scale, bits, e, np.full(16, 0.5))
            R = dq.largest_level(bits)
            assert l.tolist() == [R, -R, *[0] * 14]
            assert dq.values(l, scale, e)[:2] == pytest.approx([1, -1], rel=5e-5)


def test_scales_of_groups_are_rounded_up():
    scales = F([255, 1, 1.5, 0.01, *[100] * 12])
    q, unit = dq.hierarchical(scales)
    assert (unit, q[:5].tolist()) == (1, [255, 1, 2, 1, 100])
    q, _ = dq.hierarchical(scales, np.full(16, 0.6))
    assert q[:4].tolist() == [255, 1, 1, 1]
    drawn = np.stack([dq.hierarchical(scales, np.full(16, r))[0] for r in EVEN])
    assert drawn[:, 2].mean() == pytest.approx(1.5)


def test_correlated_draws_fill_the_interval():
    rng = np.random.default_rng(0)
    order = rng.permuted(np.tile(np.arange(8)[:, None], (1, 50)), axis=0)
    r = dq.correlated(order, rng.random((8, 50)), stored=False)
    assert (np.sort(np.floor(r * 8), axis=0) == np.arange(8)[:, None]).all()
    # each of eight equal values 0.3 is rounded up by 2 or 3 of the workers
    up = (r <= 0.3).sum(axis=0)
    assert set(up) <= {2, 3}
    stored = dq.correlated(order, rng.random((8, 50)))
    assert (stored == dq.bf16(stored)).all()


@pytest.mark.parametrize("mee", [True, False])
@pytest.mark.parametrize("hierarchical", [True, False])
def test_both_exchanges_come_close_to_the_mean(mee, hierarchical):
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((4, 600)) + 0.5).astype(F)
    how, found = dq.Quantizer(mee, hierarchical), dq.statistics(rows)
    order = rng.permuted(np.tile(np.arange(4)[:, None, None], (1, 3, 256)), axis=0)
    r = dq.correlated(order, rng.random(order.shape))
    wide = np.full(3, 8)
    for decoded in (
        dq.along_ring(found.centred, wide, r, [2, 3, 0, 1], how),
        dq.by_butterfly(found.centred, wide, r, 1, [1, 2], how),
    ):
        mean = dq.mean_of_all(decoded, found, 600)
        assert np.abs(mean - rows.mean(axis=0)).max() < 0.05


def test_a_ring_is_its_hops():
    rng = np.random.default_rng(1)
    x, r = rng.standard_normal((2, 1, 256)).astype(F), rng.random((2, 1, 256))
    how, widths = dq.Quantizer(), np.array([4])
    first = how.sent(dq.bf16(x[1]), widths, r[1])
    total = dq.bf16(first + dq.bf16(x[0]))
    assert (dq.along_ring(x, widths, r, [1, 0], how) == how.sent(total, widths, r[0])).all()
    assert (dq.by_butterfly(x, widths, r, 0, [1], how) == how.sent(total, widths, r[0])).all()


def test_sizes_by_hand():
    assert dq.payload_bytes(np.array([4])) == 16 * 9 + 2
    assert dq.payload_bytes(np.array([2, 8])) == 16 * 5 + 2 + 16 * 17 + 2
    assert dq.statistics_bytes(3) == 12
