"""Layer-wise scales by ranges of products, element by element, and of casts: bit for bit those of
an independent reference where its fp32 products are exact."""

import math

import numpy as np
import pytest

from apscope.studies.activation_scales import cast_scale, layer_scale
from tests.reference import adaptive_loss_scale as rule

U_MIN, U_MAX = rule.LIMITS["fp16"]
REAL = {"u_min": U_MIN, "power_of_two": False}


def short(rng, shape, sizes, kept=0.7):
    """Numbers of 8 bits, products of which fp32 has exactly, some of them 0."""
    x = rng.integers(-255, 256, shape) * 2.0 ** np.round(rng.uniform(*sizes, shape))
    return (x * (rng.random(shape) < kept)).astype(np.float32)


@pytest.mark.parametrize("rescue", [0.0, 0.01, 0.3, 0.5, 0.9, 1.0])
def test_the_share_of_products_that_are_rescued(rescue):
    rng = np.random.default_rng(1)
    found = []
    for _ in range(60):
        g = short(rng, (6, 5), (-40, rng.integers(-30, 2)))
        w = short(rng, (5, 4), (-20, rng.integers(-15, 1)))
        l = layer_scale(g, w, element_wise=True, rescue=rescue, **REAL)
        assert l == rule.element_wise_range(g, w, U_MIN, U_MAX, rescue)
        found.append(l <= layer_scale(g, w, element_wise=True, **REAL))
        both = layer_scale(g, w, element_wise=True, rescue=rescue, u_min=U_MIN)
        assert both == 2.0 ** math.floor(math.log2(l))
    assert all(found)


def test_without_elements_there_is_nothing_to_rescue():
    for g, w in (([[0.0]], [[1.0]]), ([[1e-9]], [[0.0]]), (np.zeros((0, 3)), np.ones((3, 2)))):
        assert layer_scale(g, w, element_wise=True, rescue=0.5, **REAL) == 1
        assert layer_scale(g, w, abs_range=True, **REAL) == 1
    assert layer_scale([[1e-9, np.nan]], [[1.0], [np.inf]], element_wise=True, rescue=0.5) == 1


@pytest.mark.parametrize("shapes", [((6, 5), (5, 4)), ((2, 3, 4, 4), (3, 2, 3, 3))])
def test_the_range_of_the_smallest_and_largest_elements(shapes):
    rng = np.random.default_rng(2)
    found = []
    for _ in range(100):
        top = rng.integers(-30, 14)
        g = short(rng, shapes[0], (top - 8, top))
        w = short(rng, shapes[1], (-12, -4))
        l = layer_scale(g, w, abs_range=True, cumulative=2.0**12, **REAL)
        assert l == rule.abs_range(g, w, U_MIN, U_MAX)
        found.append(l)
    assert min(found) < 1 and max(found) > 2.0**10 and 1.0 in found


def test_the_product_of_the_smallest_elements_is_at_least_1e_15():
    assert layer_scale([[1e-20]], [[1.0]], abs_range=True, **REAL) == pytest.approx(6e7)
    g = np.array([[np.nan, 1e-6, -np.inf]])
    assert layer_scale(g, np.ones((3, 1)), abs_range=True, **REAL) == 1
    assert layer_scale(g, np.full((3, 1), 1e-3), abs_range=True, **REAL) == pytest.approx(20)


@pytest.mark.parametrize("lognormal", [False, True])
def test_a_cast_has_the_references_scale(lognormal):
    """Moments are fp64 here and fp32 there, so only powers of two are equal bit for bit."""
    rng = np.random.default_rng(3)
    seen = set()
    for case in range(200):
        g = rng.standard_normal(rng.integers(2, 60)) * 2.0 ** rng.uniform(-45, 14)
        g = (g * (rng.random(g.size) < 0.8)).astype(np.float32)
        if case == 0:
            g[:] = 0
        l = rule.cast_range(g, U_MIN, U_MAX, lognormal)
        assert cast_scale(g, lognormal=lognormal, upper=None, total=None, **REAL) == pytest.approx(
            l, rel=1e-5
        )
        arrived = 2.0 ** rng.integers(-3, 13)
        wanted = float(rule.power_of_two(rule.bounded(l, arrived)))
        assert cast_scale(g, lognormal=lognormal, cumulative=arrived, u_min=U_MIN) == wanted
        seen.add(wanted)
    assert min(seen) < 1 and 16 in seen and len(seen) > 6


@pytest.mark.parametrize("lognormal", [False, True])
def test_a_thousandth_of_a_casts_gradient_underflows(lognormal):
    rng = np.random.default_rng(4)
    g = rng.standard_normal(200000)
    g = np.exp(2 * g - 20) if lognormal else 1e-7 * g
    l = cast_scale(g, lognormal=lognormal, upper=None, total=None, **REAL)
    assert l > 16
    assert np.mean(np.abs(l * g) < U_MIN) == pytest.approx(1e-3, rel=0.2)


def test_casts_at_their_edges():
    for lognormal in (False, True):
        for g in ([], [0.0, 0.0], [np.nan, np.inf]):
            assert cast_scale(g, lognormal=lognormal) == 1
            assert cast_scale(g, lognormal=lognormal, cumulative=4096) == 0.25
    assert cast_scale([1e-7] * 3, lognormal=True) == cast_scale([1e-7] * 4) == 1
    assert cast_scale([1e-3, -1e5], **REAL) == pytest.approx(0.65504)
    assert cast_scale([1e-300, 1e-310], lognormal=True, upper=None, total=None) > 1e200
    with pytest.raises(ValueError, match="share=0.9"):
        cast_scale([1.0], share=0.9)


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ("rescue=1.5 is not between", {"element_wise": True, "rescue": 1.5}),
        ("rescue=nan is not between", {"element_wise": True, "rescue": math.nan}),
        ("rescue is for element_wise", {"rescue": 0.5}),
        ("without abs_range", {"element_wise": True, "abs_range": True}),
    ],
)
def test_ranges_that_are_refused(said, options):
    with pytest.raises(ValueError, match=said):
        layer_scale([[1.0]], [[1.0]], **options)
