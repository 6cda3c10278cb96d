"""subnormal, saturated, max_ulp and scale_exponent of schemes on whole tensors, if they round to a
float grid."""

import numpy as np
import pytest

import apscope
from tests.python.recorded import record

GRID = ["subnormal", "saturated", "max_ulp"]
TOPOLOGIES = ["sequential", "tree"]


def values(seed, workers=3, n=100):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((workers, n)) * 2.0 ** rng.integers(-30, 1, n)).astype(np.float32)


def rows(trace, spec, **options):
    return apscope.replay(trace, spec, topology=TOPOLOGIES, **options).frame


@pytest.mark.parametrize(
    "keys", ["", ",overflow=saturate,headroom=one", ",rounding=stochastic", ",rule=tight"]
)
def test_units_count_as_tensors_of_their_own(tmp_path, keys):
    g = values(1)
    g[1, 5], g[0, 50] = np.inf, np.nan  # count nowhere
    whole = rows(record(tmp_path / "whole", [{"x": g}]), f"aps:e3m2,unit=16{keys}")
    parts = rows(
        record(tmp_path / "parts", [{f"{i:02}": g[:, i : i + 16] for i in range(0, 100, 16)}]),
        f"aps:e3m2{keys}",
    )
    wire = parts[parts.stage == "wire"]
    assert whole[GRID].iloc[0].notna().all() and whole.subnormal[0] > 0
    assert whole.subnormal[0] == wire.subnormal.sum()
    if "stochastic" not in keys:  # words depend on the place in the tensor
        assert whole.saturated[0] == wire.saturated.sum() and whole.max_ulp[0] == wire.max_ulp.max()
        for topology in ("exact", *TOPOLOGIES):
            assert (
                whole.max_ulp[whole.topology == topology].iloc[0]
                == parts.max_ulp[parts.topology == topology].max()
            )
    assert whole[["subnormal", "saturated"]].iloc[1:].isna().all(axis=None)


@pytest.mark.parametrize("spec, twin", [
    ("error_feedback({})", "aps:e4m3"), ("error_feedback({})", "none:e4m3,overflow=saturate"),
    ("error_feedback({})", "loss_scaling:e5m2,scale=3"),
    ("error_feedback({})", "stochastic:e3m2"),
    ("error_feedback({})", "aps:e4m3,rounding=stochastic"),
    ("{},unit=100", "aps:e4m3"), ("{},unit=100", "aps:e3m4,headroom=one,overflow=saturate"),
])  # fmt: skip
def test_the_first_step_has_every_column_of_the_same_scheme_run_block_by_block(
    tmp_path, spec, twin
):
    """The error that is fed back is 0; a unit is the tensor."""
    trace = record(tmp_path / "t", [{"x": values(2) * 100, "zero": np.zeros((3, 7), np.float32)}])
    a, b = (
        rows(trace, spec.format(twin)).drop(columns="scheme"),
        rows(trace, twin).drop(columns="scheme"),
    )
    # Moments of draws on the way are sampled there.
    hops = a.topology.isin(TOPOLOGIES) & ("rounding=stochastic" in twin)
    # Errors are split where a gradient itself is rounded; blocks are counted where they have scales
    # of their own.
    of_one_kind = a.columns[a.columns.str.startswith(("split_", "block_"))]
    for column in a.columns.difference(of_one_kind):
        shown = ~hops if column.startswith("expected_") else slice(None)
        x, y = a[column][shown], b[column][shown]
        assert x.equals(y) or np.allclose(
            *(v.to_numpy(float, na_value=np.nan) for v in (x, y)),
            rtol=1e-12,
            atol=0,
            equal_nan=True,
        ), column
    assert a[GRID].iloc[0].notna().all() and a.scale_exponent.equals(b.scale_exponent)


@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mxfp4", "mxint8", "bfp:6:8"])
def test_blocks_saturate_as_their_codes_say(tmp_path, name):
    g = values(3, n=70)
    block = apscope.BlockFormat(name)
    x, element = g.astype(np.float64), block.element
    encoded = apscope.encode_blocks(g, name)
    scale = np.repeat(
        apscope.decode(encoded.scales, block.scale).astype(np.float64), block.block_size, axis=1
    )[:, :70]
    y = apscope.decode_blocks(encoded.codes, encoded.scales, name).astype(np.float64)
    v, q = np.abs(x / scale), np.abs(y / scale)
    wire = rows(
        record(tmp_path / "t", [{"x": g}]), "mx:block_format=" + name.replace(",", "/")
    ).iloc[0]
    assert wire.saturated == ((v > element.largest) & (q == element.largest)).sum()
    assert wire.subnormal == ((v > 0) & (v < element.smallest_normal)).sum()
    quantum = np.exp2(
        np.maximum(np.floor(np.log2(np.where(v > 0, v, 1e-300))), element.emin)
        - element.mantissa_bits
    )
    assert wire.max_ulp == (np.abs(y - x) / scale / quantum).max()


def test_the_floor_rule_of_microscaling_saturates_and_rceil_does_not(tmp_path):
    g = np.zeros((2, 64), np.float32)
    g[0, ::32], g[1, 0] = 449.0, 1.99
    trace = record(tmp_path / "t", [{"x": g}])
    found = {rule: rows(trace, f"mx:rule={rule}").iloc[0] for rule in ("floor", "rceil")}
    assert found["floor"].saturated == 3 and found["rceil"].saturated == 0
    assert found["floor"].max_ulp > 0.5 >= found["rceil"].max_ulp
    assert rows(trace, "mx").max_ulp.iloc[1:].isna().all()  # the workers' scales are their own


@pytest.mark.parametrize("keys", ["", ",four_over_six=mse", ",agree=local"])
def test_nvfp4_counts_in_the_basis_that_it_rounds_in(tmp_path, keys):
    g = values(4, n=64)
    wire = rows(
        record(tmp_path / "t", [{"x": g}]), f"nvfp4:rounding=ties_to_even,rht=false{keys}"
    ).iloc[0]
    assert wire[GRID].notna().all() and 0 < wire.max_ulp <= 1 and wire.subnormal > 0
    if keys == ",agree=local":
        encoded = [apscope.encode_blocks(row, "nvfp4") for row in g]
        saturated = subnormal = 0
        for row, e in zip(g, encoded):
            d = apscope.decode(e.scales, "e4m3fn")
            divisor = d * (np.float32(1) / np.float32(e.tensor_scale))
            v = np.abs(row.astype(np.float64) * np.repeat(np.float32(1) / divisor, 16))
            saturated += (v > 6).sum()
            subnormal += ((v > 0) & (v < 1)).sum()
        assert (wire.saturated, wire.subnormal) == (saturated, subnormal)
    turned = rows(record(tmp_path / "u", [{"x": g}]), f"nvfp4:rounding=ties_to_even{keys}").iloc[0]
    assert turned[GRID].notna().all()


def test_local_scales_have_their_counters_and_no_common_unit(tmp_path):
    one = record(tmp_path / "one", [{"x": values(5, workers=1)}])
    local, agreed = (
        rows(one, "current_scaling:e4m3,agree=local").iloc[0],
        rows(one, "current_scaling:e4m3").iloc[0],
    )
    assert local[GRID].equals(agreed[GRID])
    three = rows(
        record(tmp_path / "three", [{"x": values(5)}]), "current_scaling:e4m3,agree=local,block=16"
    )
    assert (
        three[GRID].iloc[0].notna().all()
        and three.max_ulp.iloc[1:].isna().all()
        and three.scale_exponent.isna().all()
    )


@pytest.mark.parametrize(
    "spec",
    [
        "onebit_adam:warmup=1,warmup_format=fp16",
        "bit_centering",
        "residual(aps:e4m3)",
        "qsgd:code=elias",
        "sign",
        "powersgd:rank=1",
    ],
)
def test_other_grids_have_none(tmp_path, spec):
    frame = rows(record(tmp_path / "t", [{"x": values(6)}, {"x": values(7)}]), spec)
    assert frame[GRID].isna().all(axis=None)


@pytest.mark.parametrize("spec, exponents", [
    ("aps:e4m3,unit=50", [3, None, 0]), ("aps:e4m3,unit=100", [3, 4, 0]),
    ("aps:e4m3,unit=1000", [3, 4, 0]),
    ("integer_allreduce:bits=8,chunk=100", [3, 4, 0]),
    ("integer_allreduce:bits=8,chunk=50", [3, None, 0]),
    ("integer_allreduce:bits=8,chunk=100,scale=real", [None, None, 0]),
])  # fmt: skip
def test_the_exponent_of_a_scale_that_serves_the_whole_tensor(tmp_path, spec, exponents):
    """Several scales have an exponent, too, if they are equal; a real scale has one if it is a
    power of two."""
    halves = np.full((3, 100), 3.9, np.float32)
    halves[:, 50:] /= 8
    equal = np.full((3, 100), 3.9, np.float32)
    uneven = halves / 2
    trace = record(tmp_path / "t", [{"a": equal, "b": uneven, "c": np.zeros((3, 100), np.float32)}])
    frame = rows(trace, spec)
    for name, expected in zip("abc", exponents):
        found = frame[frame.tensor == name].scale_exponent
        assert found.isna().all() if expected is None else (found == expected).all(), name


def test_one_place_needs_no_bits():
    one = np.ones((2, 1), np.float32)
    assert apscope.exchange("top_k:keep=1,index=packed", one).payload_bits == [32, 32]
    assert apscope.exchange(
        "top_k:keep=1,index=packed", np.ones((1, 2), np.float32)
    ).payload_bits == [2 * 33]
    assert apscope.exchange("top_k:keep=1", one).payload_bits == [64, 64]


def test_multipoint_has_the_papers_grid_too():
    """Without 0: 2 bits have -1, -1/3, 1/3 and 1, and one point is exact on them; with 0 they have
    three levels."""
    g = np.float32([[3, 1, -1, -3, 3]])
    paper = apscope.exchange("multipoint:bits=2,points=1,zero=false,search=3", g)
    assert np.allclose(paper.sent, g, rtol=1e-7) and paper.payload_bits == [10]
    assert not np.allclose(apscope.exchange("multipoint:bits=2,points=1", g).sent, g, rtol=0.1)
    for bits in range(1, 9):
        x = np.random.default_rng(bits).uniform(-1, 1, (1, 3000)).astype(np.float32)
        sent = apscope.exchange(f"multipoint:bits={bits},points=1,zero=false", x).sent
        steps = (sent / abs(sent).max() * (2**bits - 1) + 2**bits - 1) / 2
        assert np.allclose(steps, np.rint(steps)) and len(np.unique(np.rint(steps))) > 0.9 * 2**bits
        assert (
            apscope.schemes.as_scheme(f"multipoint:bits={bits},zero=false").grid
            == f"levels:{2**bits}"
        )
