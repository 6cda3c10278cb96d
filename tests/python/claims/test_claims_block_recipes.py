"""Provable claims of block formats as schemes: MX, NVFP4. References are NumPy in float32, or
rationals."""

import math
from fractions import Fraction

import numpy as np
import pytest

import apscope

FLT_MAX = np.float32(np.finfo(np.float32).max)
F32 = np.float32


def saturated(x, name):
    return apscope.quantize(np.asarray(x, np.float64), name, overflow="saturate")


# block formats
# ---------------------------------------------------------------------------------------


def significands(count=257):
    return (1 + np.arange(count) / count).astype(np.float32)


@pytest.mark.parametrize("exponent", [-100, 0, 90])
def test_MX1_the_floor_rule_saturates_iff_the_significand_of_amax_exceeds_1_75(exponent):
    for s in [
        *significands(),
        F32(1.75),
        np.nextafter(F32(1.75), F32(2)),
        F32(1.8125),
        np.nextafter(F32(1.8125), F32(2)),
    ]:
        x = F32([[np.ldexp(s, exponent), 0, 0]])
        scaled = Fraction(float(s)) * 256
        assert (scaled > 448) == (s > F32(1.75))
        sent = {
            rule: apscope.exchange(f"mx:rule={rule}", x).sent[0, 0] for rule in ("floor", "rceil")
        }
        assert sent["floor"] == math.ldexp(float(saturated(float(scaled), "e4m3fn")), exponent - 8)
        # The clamp changes what rounding gives only beyond the tie between 448 and 480.
        unclamped = float(apscope.quantize(np.float64(scaled), "e8m3"))
        assert (sent["floor"] != math.ldexp(unclamped, exponent - 8)) == (s > F32(1.8125))
        # Transformer Engine: 2^k, the round-up exponent of fl32(amax fl32(1 / 448)).
        fraction, k = np.frexp(x[0, 0] * (F32(1) / F32(448)))
        k = int(k) - (1 if fraction == 0.5 else 0)
        assert abs(np.ldexp(float(x[0, 0]), -k)) <= 448
        assert sent["rceil"] == math.ldexp(
            float(saturated(np.ldexp(float(x[0, 0]), -k), "e4m3fn")), k
        )
    assert apscope.exchange("mx", F32([[449.0]])).sent[0, 0] == 448


@pytest.mark.parametrize("exponent", [-119, -7, 0, 100])
def test_MX2_both_rules_bring_a_power_of_two_to_256(exponent):
    x = np.ldexp(np.linspace(-1, 1, 33)[1:], exponent).astype(np.float32)[None]
    for rule in ("floor", "rceil"):
        e = apscope.exchange(f"mx:rule={rule}", x)
        assert e.payload[0][31] == 0x78  # 256 in e4m3: 2^(15 - 7)
        assert np.array_equal(
            e.sent,
            np.ldexp(
                saturated(np.ldexp(x.astype(np.float64), 8 - exponent), "e4m3fn"), exponent - 8
            ),
        )
        assert e.payload_bits == [8 * 32] and e.side_bits == [8]


@pytest.mark.parametrize(
    ("block_format", "name"), [("mxfp8_e4m3", "e4m3fn"), ("mxfp8_e5m2", "e5m2")]
)
def test_MX3_one_block_with_the_ceil_rule_is_aps_of_one_worker(block_format, name):
    """And with the floor rule one binade further up, unless amax is a power of two."""
    rng = np.random.default_rng(5)
    f = apscope.FloatFormat(name)
    for trial in range(40):
        x = np.ldexp(
            rng.standard_normal((1, 100)), trial * 5 - 100 + rng.integers(-12, 1, 100)
        ).astype(np.float32)
        if trial % 4 == 0:
            x[0, 5] = 2.0 * 2.0 ** math.ceil(math.log2(np.abs(x).max()))
        aps = apscope.exchange(f"aps:{name}", x)
        ceil, floor = (
            apscope.exchange(f"mx:block_format={block_format},block=100,rule={rule}", x)
            for rule in ("ceil", "floor")
        )
        assert np.array_equal(aps.sent, ceil.sent) and np.array_equal(aps.reduced, ceil.reduced)
        power = math.log2(np.abs(x).max()).is_integer()
        s = aps.scale_exponent + (0 if power else 1)
        assert s == f.emax - math.floor(math.log2(np.abs(x).max()))
        assert np.array_equal(
            floor.sent, np.ldexp(saturated(np.ldexp(x.astype(np.float64), s), name), -s)
        )


# NVFP4
# -----------------------------------------------------------------------------------------------

SIGNS = np.array([1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1])


def hadamard16():
    h = np.array([[1]])
    for _ in range(4):
        h = np.block([[h, h], [h, -h]])
    return np.diag(SIGNS) @ h / 4


GRID = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def e2m1(x):
    """To nearest, ties to the even code."""
    size, best = np.abs(x).astype(np.float64), np.zeros(x.shape, int)
    for code in range(1, 8):
        middle = (GRID[code - 1] + GRID[code]) / 2
        best = np.where((size > middle) | ((size == middle) & (code % 2 == 0)), code, best)
    return np.copysign(GRID[best], x)


def nvfp4(x, amax, bound=448, stretch=1.0, divides_first=False):
    """Rows of 16 float32 values in float32 operations; also the scale before its cast."""
    scale = min(F32(6 * bound) / F32(amax), FLT_MAX) if amax else F32(1)
    a = np.abs(x).max(axis=1)
    before = (a / F32(6) * scale if divides_first else a * (scale * (F32(1) / F32(6)))) * F32(
        stretch
    )
    d = saturated(before, "e4m3fn").astype(np.float32)
    with np.errstate(divide="ignore"):
        inverse = np.minimum(F32(1) / (d * (F32(1) / scale)), FLT_MAX)
    q = e2m1(np.clip(x * inverse[:, None], F32(-6), F32(6)))
    return (q.astype(np.float32) * d[:, None]) / scale, before


def heavy(workers=3, n=160, seed=6):
    rng = np.random.default_rng(seed)
    return (
        np.round(
            np.ldexp(rng.standard_normal((workers, n)), 10 + rng.integers(-6, 1, (workers, n)))
        )
        / 1024
    ).astype(np.float32)


def test_nvfp4_is_the_formula_bit_for_bit_with_an_amax_of_all_workers():
    highest = 0
    for seed in range(20):
        x = heavy(seed=seed) * F32(1 + seed / 7)
        x[0, :16] = 0
        for agree, amaxes in (("max", [np.abs(x).max()] * 3), ("local", np.abs(x).max(axis=1))):
            e = apscope.exchange(f"nvfp4:rounding=ties_to_even,rht=false,agree={agree}", x)
            for row, sent, amax in zip(x, e.sent, amaxes, strict=True):
                wanted, before = nvfp4(row.reshape(-1, 16), amax)
                assert np.array_equal(sent, wanted.ravel())
                highest = max(highest, float(before.max()))
            assert e.payload_bits == [4 * 160] * 3 and e.side_bits == [8 * 10 + 32] * 3
    assert 448 < highest < 448.0002  # above the largest block scale by fp32's roundings alone


def test_NV1_the_transform_is_orthogonal_and_the_scheme_is_it():
    h = hadamard16()
    assert np.array_equal(h @ h.T, np.eye(16))
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((40, 16)), rng.standard_normal((16, 9))
    assert np.allclose(np.linalg.norm(a @ h, axis=1), np.linalg.norm(a, axis=1), rtol=1e-14)
    assert np.allclose((a @ h) @ (h.T @ b), a @ b, rtol=0, atol=1e-13)
    for n in (160, 150):  # the last group is padded with zeros
        x = heavy(n=n)
        # Exact: multiples of 2^-12.
        turned = np.pad(x, ((0, 0), (0, 160 - n))).reshape(3, 10, 16) @ h
        back = np.stack(
            [nvfp4(rows.astype(np.float32), np.abs(turned).max())[0] @ h.T for rows in turned]
        )
        e = apscope.exchange("nvfp4:rounding=ties_to_even", x)
        assert np.allclose(e.sent, back.reshape(3, -1)[:, :n], rtol=0, atol=1e-13 * np.abs(x).max())
        assert e.payload_bits == [640] * 3


def test_NV2_the_mean_of_50_stochastic_draws_is_nearer_than_rounding_to_nearest():
    x = np.random.default_rng(2).standard_normal((1, 4096)).astype(np.float32)

    def rmse(y):
        return float(np.sqrt(((y - x) ** 2).mean()))

    for rht in ("true", "false"):
        draws = [apscope.exchange(f"nvfp4:rht={rht}", x, seed=s).sent for s in range(50)]
        nearest = rmse(apscope.exchange(f"nvfp4:rounding=ties_to_even,rht={rht}", x).sent)
        one = float(np.mean([rmse(y) for y in draws]))
        assert rmse(np.mean(draws, axis=0)) < 0.5 * nearest < nearest < one


def test_NV3_a_spike_is_spread_over_16_elements_a_quarter_as_large():
    for at in range(16):
        x = np.zeros((1, 16), np.float32)
        x[0, at] = -3.3
        turned = x.astype(np.float64) @ hadamard16()
        assert (np.abs(turned) == float(F32(3.3)) / 4).all()
        codes = np.frombuffer(
            apscope.exchange("nvfp4:rounding=ties_to_even", x).payload[0], np.uint8
        )
        nibbles = np.stack([codes & 15, codes >> 4], axis=1).ravel()
        assert ((nibbles & 7) == 7).all()  # 6, with 16 signs
        assert np.array_equal(nibbles >> 3, (turned[0] < 0).astype(int))


@pytest.mark.parametrize("metric", ["mse", "mae"])
def test_NV4_four_over_six_errs_no_more_than_its_own_map_to_six(metric):
    worse = blocks = fours = 0
    for seed in range(10):
        x = heavy(seed=seed)
        e = apscope.exchange(f"nvfp4:rounding=ties_to_even,rht=false,four_over_six={metric}", x)
        amax = np.abs(x).max()
        for row, sent in zip(x.reshape(3, 10, 16), e.sent.reshape(3, 10, 16), strict=True):
            six, four = (nvfp4(row, amax, 256, stretch, True)[0] for stretch in (1.0, 1.5))
            plain = nvfp4(row, amax)[0]
            power = 2 if metric == "mse" else 1
            errors = [
                (np.abs(y.astype(np.float64) - row) ** power).sum(axis=1)
                for y in (six, four, plain)
            ]
            got = (np.abs(sent - row) ** power).sum(axis=1)
            assert (got <= errors[0]).all()
            kept = errors[1] < errors[0]
            assert np.array_equal(sent, np.where(kept[:, None], four, six))
            worse, fours, blocks = (
                worse + int((got > errors[2]).sum()),
                fours + int(kept.sum()),
                blocks + len(row),
            )
    assert 0 < fours < blocks
    assert worse > 0  # than plain NVFP4, whose tensor scale aims at 448
