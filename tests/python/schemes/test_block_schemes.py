"""mx, nvfp4 and current_scaling: infinities and NaNs, blocks along rows, block scales in other
formats. The casts of arrays are the reference (tests/python/arrays)."""

import math

import numpy as np
import pytest

import apscope
from tests.python.recorded import record

NONFINITE = ["apart", "torchao", "torchao_0.18", "transformer_engine"]
INF = np.float32(math.inf)


def gradients(workers=3, shape=(5, 37), seed=0):
    """Gaussian over some binades, with infinities of both signs and NaNs on two workers."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((workers, *shape)) * 2.0 ** rng.integers(-9, 3, shape)).astype(
        np.float32
    )
    flat = x.reshape(workers, -1)
    flat[0, 3], flat[0, 40], flat[1, 3], flat[1, 90] = INF, -INF, -INF, math.nan
    return x


def same(got, expected):
    np.testing.assert_array_equal(np.asarray(got, np.float64), np.asarray(expected, np.float64))


def fp32_sum(rows):
    total = np.zeros_like(rows[0])
    with np.errstate(invalid="ignore", over="ignore"):
        for row in rows:
            total = (total + row).astype(np.float32)
    return total


# ---- Non-finite elements -----------------------------------------------------------------------


@pytest.mark.parametrize("nonfinite", NONFINITE)
@pytest.mark.parametrize("block_format", ["mxfp8_e4m3", "mxfp4", "mxint8"])
def test_mx_sends_what_quantize_blocks_gives(block_format, nonfinite):
    x = gradients()
    e = apscope.exchange(f"mx:block_format={block_format},nonfinite={nonfinite}", x)
    wanted = apscope.quantize_blocks(x.reshape(3, -1), f"{block_format},nonfinite={nonfinite}")
    same(e.sent.reshape(3, -1), wanted)
    same(e.reduced.ravel(), fp32_sum(wanted))
    if nonfinite == "apart":  # what it hides, is hidden from the sum
        assert np.isfinite(e.reduced.ravel()[[3, 40]]).all()


def test_the_rule_can_stand_in_the_block_format():
    x = gradients()
    a, b = (
        apscope.exchange(spec, x).sent
        for spec in (
            "mx:block_format=mxfp4/nonfinite=torchao",
            "mx:block_format=mxfp4,nonfinite=torchao",
        )
    )
    same(a, b)
    assert np.isnan(a[0].ravel()[:64]).all() and not np.isnan(a[2]).any()


def test_a_stochastic_mx_has_moments_beside_what_is_not_finite(tmp_path):
    x = gradients(shape=(400,))
    trace = record(tmp_path / "t", [{"x": x}])
    rows = apscope.replay(
        trace, "mx:block_format=mxfp4,rounding=stochastic", draws=40, topology=["ring"]
    ).frame
    wire = rows[rows.stage == "wire"].iloc[0]
    assert wire["count"] == 1200 and wire["nan"] == 1 and wire["infinite"] == 3
    # A NaN takes its block of 32 of that worker with it.
    assert wire.counted == 1200 - 4 - 31 and wire.overflow == 31


def test_nvfp4_without_the_transform_sends_what_quantize_blocks_gives():
    x = gradients()
    spec = "nvfp4:rounding=ties_to_even,rht=false,agree=local"
    for nonfinite in ("apart", "transformer_engine"):
        e = apscope.exchange(f"{spec},nonfinite={nonfinite}", x)
        wanted = [apscope.quantize_blocks(row.ravel(), f"nvfp4,nonfinite={nonfinite}") for row in x]
        same(e.sent.reshape(3, -1), np.stack(wanted))
    # Agreed over the workers, an infinity of one makes S = 1 for all.
    e = apscope.exchange(spec.replace("local", "max") + ",nonfinite=transformer_engine", x)
    alone = "blocks:e2m1fn,scale=e4m3fn,block=16,rule=ratio"  # no tensor scale
    same(e.sent[2].ravel(), apscope.quantize_blocks(x[2].ravel(), alone))


def test_an_infinity_passes_nvfp4_apart_and_spreads_over_16_as_in_hardware():
    x = np.ones((1, 48), np.float32)
    x[0, 20] = INF
    apart = apscope.exchange("nvfp4:rounding=ties_to_even", x).sent[0]
    assert apart[20] == INF and np.isfinite(np.delete(apart, 20)).all()
    seen = apscope.exchange("nvfp4:rounding=ties_to_even,nonfinite=transformer_engine", x).sent[0]
    # 16 turned infinities become 6 under 448; turned back, one element has them all.
    assert abs(seen[20]) == 16 * 6 * 448 / 4
    assert (np.delete(seen[16:32], 4) == 0).all()
    np.testing.assert_allclose(np.delete(seen, np.arange(16, 32)), 1, atol=0.2)


def scaled_cast(x, scale):
    with np.errstate(invalid="ignore"):
        scaled = x.astype(np.float64) * np.float64(scale)
    return apscope.quantize(scaled, "e4m3fn", overflow="saturate") / np.float64(scale)


def test_current_scaling_has_scale_1_where_an_element_is_not_finite():
    x = gradients(shape=(200,))
    finite = np.isfinite(x)
    clean = np.where(finite, x, np.float32(0))
    scale = np.float32(448) / np.abs(clean).max()
    for nonfinite, given, expected in [("finite", x, scale), ("one", x, 1), ("one", clean, scale)]:
        e = apscope.exchange(f"current_scaling:e4m3fn,nonfinite={nonfinite}", given)
        same(e.sent[finite], scaled_cast(given, expected)[finite])
    assert not np.array_equal(scaled_cast(clean, scale), scaled_cast(clean, 1))
    # Each block for itself: those of 32 with one of the four are rounded as they are.
    e = apscope.exchange("current_scaling:e4m3fn,block=32,nonfinite=one", x)
    for worker in range(3):
        for begin in range(0, 200, 32):
            part = x[worker, begin : begin + 32]
            own = np.float32(448) / np.abs(part).max() if np.isfinite(part).all() else 1
            same(e.sent[worker, begin : begin + 32], scaled_cast(part, own))
    assert abs(e.sent[0, 3]) == 448 and np.isnan(e.sent[1, 90])


# ---- Blocks along rows -------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 37), (7, 3, 11), (4, 64), (90,), (1, 33), (33, 1)])
@pytest.mark.parametrize("block_format", ["mxfp8_e4m3", "mxfp4"])
def test_blocks_along_rows_are_quantize_blocks_along_the_rows(shape, block_format):
    x = np.random.default_rng(1).standard_normal((2, *shape)).astype(np.float32)
    lines = x.reshape(2, shape[0], -1) if len(shape) > 1 else x.reshape(2, 1, -1)
    e = apscope.exchange(f"mx:block_format={block_format},along=row", x)
    same(e.sent.reshape(lines.shape), apscope.quantize_blocks(lines, block_format))
    scales = apscope.encode_blocks(lines, block_format).scales
    assert e.side_bits == [8 * scales[0].size] * 2


def test_rows_differ_from_the_flattened_tensor_only_where_blocks_cross_them():
    x = np.random.default_rng(2).standard_normal((2, 4, 64)).astype(np.float32)
    same(apscope.exchange("mx:along=row", x).sent, apscope.exchange("mx", x).sent)
    x = x[:, :, :40] * np.float32([1, 100, 1, 100])[:, None]
    rows, flat = (
        apscope.exchange(f"mx:block_format=mxfp4,along={along}", x).sent
        for along in ("row", "tensor")
    )
    assert not np.array_equal(rows, flat)
    assert ((rows - x) ** 2).sum() < ((flat - x) ** 2).sum()


def test_a_replay_has_the_blocks_of_its_rows(tmp_path):
    x = np.random.default_rng(3).standard_normal((3, 6, 50)).astype(np.float32)
    trace = record(tmp_path / "t", [{"w": x}])
    for rounding in ("ties_to_even", "stochastic"):
        spec = f"mx:block_format=mxfp4,along=row,rounding={rounding}"
        rows = apscope.replay(trace, spec, topology=["ring"]).frame
        wire = rows[rows.stage == "wire"].iloc[0]
        assert wire.block_count == 3 * 6 * 2 and wire.side_bits == 8 * 12
        if rounding == "ties_to_even":
            error = apscope.quantize_blocks(x, "mxfp4").astype(np.float64) - x
            assert wire.sum_squared_error == pytest.approx((error**2).sum(), rel=1e-12)
        else:
            assert math.isfinite(wire.expected_variance) and wire.expected_variance > 0


# ---- Scale rules and formats -------------------------------------------------------------------


def test_the_rule_nearest_in_a_scheme():
    x = np.random.default_rng(4).standard_normal((2, 320)).astype(np.float32)
    same(
        apscope.exchange("mx:block_format=mxfp4,rule=nearest", x).sent,
        apscope.quantize_blocks(x, "mxfp4,rule=nearest"),
    )


def test_unsigned_e5m3_block_scales():
    """Largest 1.75 2^16 (all ones is NaN); without a tensor scale, as its range needs none."""
    f = apscope.FloatFormat("e5m3fnu")
    assert (f.largest, f.smallest_positive, f.storage_bits) == (114688, 2.0**-17, 8)
    x = np.random.default_rng(5).standard_normal((2, 160)).astype(np.float32)
    x *= np.float32(2.0) ** np.float32(np.arange(10) - 12).repeat(16)
    spec = "nvfp4:rounding=ties_to_even,rht=false,scale=e5m3fnu"
    e = apscope.exchange(f"{spec},tensor_scale=false", x)
    same(e.sent, apscope.quantize_blocks(x, "blocks:e2m1fn,scale=e5m3fnu,block=16,rule=ratio"))
    # By hand: X = e5m3(amax fl32(1 / 6)), 4 significant bits, then 1 / X in fp32.
    block = x[0, 32:48]
    ratio = np.float32(np.abs(block).max()) * (np.float32(1) / np.float32(6))
    power = 2.0 ** (math.floor(math.log2(ratio)) - 3)
    scale = np.float32(round(float(ratio) / power) * power)
    grid = np.float32([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    scaled = np.abs(block) * (np.float32(1) / scale)
    nearest = grid[np.abs(grid[None] - scaled[:, None]).argmin(axis=1)]
    same(e.sent[0, 32:48], np.copysign(nearest * scale, block))
    assert e.side_bits == [8 * 10] * 2
    assert apscope.exchange(spec, x).side_bits == [8 * 10 + 32] * 2


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("mx:nonfinite=zero", "unknown rule for non-finite elements 'zero'"),
        ("mx:along=column", "along=column is not one of tensor, row"),
        ("mx:rule=up", "unknown scale rule 'up'"),
        ("nvfp4:nonfinite=torchao", "belongs to the rules that give powers of two"),
        ("nvfp4:scale=e8m0fnu", "a scale format with a zero"),
        ("nvfp4:scale=e5m3fnu,four_over_six=mse", "four_over_six=mse aims at 256"),
        ("current_scaling:e4m3,nonfinite=nan", "nonfinite=nan is not one of finite, one"),
    ],
)
def test_wrong_keys_are_refused_in_a_sentence(spec, says):
    with pytest.raises(ValueError, match=says) as error:
        apscope.exchange(spec, np.ones((1, 4), np.float32))
    assert "\n" not in str(error.value)


# ---- What a skipped step and a scale say -------------------------------------------------------


def test_rows_of_a_skipped_step_name_the_tensor_with_the_infinity(tmp_path):
    bad, good = np.ones((2, 40), np.float32), np.ones((2, 30), np.float32)
    bad[1, 7], bad[0, 9] = INF, math.nan
    trace = record(tmp_path / "t", [{"bad": bad, "good": good}])
    rows = apscope.replay(trace, "dynamic_loss_scaling:fp16", topology=["ring"]).frame
    assert rows.skipped.all()
    wire = rows[(rows.stage == "wire") & (rows.topology == "ring")].set_index("tensor")
    assert (wire.loc["bad", "nan"], wire.loc["bad", "infinite"]) == (1, 1)
    assert (wire.loc["good", "nan"], wire.loc["good", "infinite"]) == (0, 0)
    reduced = rows[(rows.stage != "wire") & (rows.tensor == "bad")]
    assert (reduced["nan"] == 1).all() and (reduced["infinite"] == 1).all()


def test_a_scale_that_is_no_fp32_number_is_refused_with_the_nearest_one():
    x = np.ones((1, 4), np.float32)
    spec = "deepspeed_loss_scaling:fp16,min_scale="
    nearest = repr(float(np.float32(0.001)))
    with pytest.raises(
        ValueError,
        match=f"^min_scale=0.001 is neither an fp32 number nor a power of two.*use {nearest}, ",
    ):
        apscope.exchange(spec + "0.001", x)
    apscope.exchange(spec + nearest, x)
    apscope.exchange(spec + "0.0009765625", x)
    with pytest.raises(ValueError, match="min_scale=-1 must be a positive fp32 number"):
        apscope.exchange(spec + "-1", x)


@pytest.mark.parametrize("shape", [(3, 5), (5, 37), (2, 64), (1, 3)])
@pytest.mark.parametrize("block_format", ["mxfp8_e4m3", "mxint8"])
def test_lines_of_a_shard_in_two_phases_begin_at_the_shard(block_format, shape):
    """A shard that did not end with a complete row was refused; its last row is shorter."""
    x = np.nan_to_num(gradients(4, shape=(8, 64))[:, : shape[0], : shape[1]], posinf=2, neginf=-2)
    spec = f"mx:block_format={block_format},along=row"
    total = fp32_sum(apscope.quantize_blocks(x, block_format)).ravel()
    length = -(-total.size // 4)
    for first in range(0, total.size, length):
        shard = total[first : first + length]
        for at in range(0, shard.size, shape[1]):
            line = shard[at : at + shape[1]]
            line[:] = apscope.quantize_blocks(line, block_format)
    same(apscope.exchange(spec, x, topology="two_phase").reduced.ravel(), total)
