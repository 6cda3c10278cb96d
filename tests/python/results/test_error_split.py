"""The parts of a squared error, and statistics of the blocks of block formats: against plain
NumPy, and against each other."""

from pathlib import Path

import numpy as np
import pytest

import apscope
from apscope._results.pooling import PARTS
from apscope._schemes.scheme import as_scheme
from tests.python.recorded import record

DATA = Path(__file__).parents[3] / "notebooks" / "data"
FLOATS = [
    "none:e4m3", "aps:e4m3", "aps:e3m0,headroom=one,rule=tight", "loss_scaling:e5m2,scale=1000",
    "loss_scaling:e4m3,scale=1048576,overflow=saturate",
    "stochastic:e4m3", "aps:e4m3,rounding=stochastic", "aps:e4m3,unit=7", "current_scaling:e4m3",
    "current_scaling:e4m3,block=32", "delayed_scaling:e4m3",
    "mx", "mx:block_format=mxfp4", "mx:block_format=mxint8", "nvfp4:rht=false",
    "nvfp4:rht=false,four_over_six=mse", "fp8_allreduce:e4m3",
]  # fmt: skip
OTHERS = "qsgd sign terngrad top_k powersgd error_feedback(aps:e4m3) nvfp4 sign_vote".split()


def bound(rows):
    """docs/definitions.md, section 15."""
    return 2.0**-53 * (rows["count"] / 2048 + 600) * 4 * rows[list(PARTS[:4])].sum(axis=1)


@pytest.fixture(scope="module", params=["digits", "characters"])
def frame(request):
    return apscope.replay(
        DATA / request.param,
        FLOATS + OTHERS,
        topology=["ring", "tree", "sequential+kahan"],
        steps="0:20",
    ).frame


def test_the_parts_add_up_to_the_squared_error(frame):
    rows = frame[frame["scheme"].isin([as_scheme(s).spec for s in FLOATS]) & ~frame["skipped"]]
    assert set(rows["stage"]) == {"wire", "reduced"}
    assert rows[list(PARTS)].notna().all(axis=None)
    assert ((rows[list(PARTS)].sum(axis=1) - rows["sum_squared_error"]).abs() <= bound(rows)).all()
    assert (rows[list(PARTS[:4])] >= 0).all(axis=None)
    for part in PARTS:
        assert (rows[part] != 0).any(), part


def test_no_part_where_there_is_no_error_of_its_kind(frame):
    rows = frame[frame["split_rounding"].notna()]
    wire, exact = rows[rows["stage"] == "wire"], rows[rows["topology"] == "exact"]
    assert (wire[["split_accumulation", "split_interaction"]] == 0).all(axis=None)
    assert ((wire["split_underflow"] == 0) | (wire["underflow"] > 0)).all()
    assert ((wire["split_saturation"] == 0) | (wire["saturated"] > 0)).all()
    assert ((wire["underflow"] == 0) | (wire["split_underflow"] > 0)).all()
    assert (exact["split_accumulation"] == 0).all()


def test_grids_that_are_no_floats_and_what_is_not_the_gradient_have_none(frame):
    rows = frame[frame["scheme"].isin([as_scheme(s).spec for s in OTHERS])]
    assert len(rows) and rows[list(PARTS)].isna().all(axis=None)


def written(folder, rows, reduction="sum"):
    return record(folder, [{"w": np.float32(rows)}], reduction)


def test_four_elements_by_hand(tmp_path):
    """e4m3, no scale: 2^-12 is lost by both workers, 300 + 240 is clipped to 240 by one, 1.0625
    rounds to 1, 16 + 1 rounds to 16 in the sum."""
    trace = written(tmp_path / "t", [[2.0**-12, 300, 1.0625, 16], [2.0**-12, 16, 1.0625, 1]])
    rows = apscope.replay(
        trace, ["none:e4m3,overflow=saturate"], topology=["sequential"]
    ).frame.set_index("topology")
    wire, exact, sums = (
        rows.loc[t, list(PARTS)].to_numpy(float) for t in ("", "exact", "sequential")
    )
    assert wire.tolist() == [2 * 2.0**-24, 2 * 0.0625**2, 60.0**2, 0, 0]
    assert exact.tolist() == [(2 * 2.0**-12) ** 2, 0.125**2, 60.0**2, 0, 0]
    # 240 + 16 saturates at 240: the sum loses 16 more, after 60; 16 + 1 = 17 rounds to 16.
    assert sums.tolist() == [(2 * 2.0**-12) ** 2, 0.125**2, 60.0**2, 16.0**2 + 1.0, 2 * 60.0 * 16.0]


def test_an_infinite_message_leaves_no_error_and_no_split(tmp_path):
    trace = written(tmp_path / "t", [[1000.0], [1.0]])
    rows = apscope.replay(trace, ["none:e4m3"], topology=["ring"]).frame.set_index("topology")
    # Of the other worker's element.
    assert rows.loc["", "overflow"] == 1 and rows.loc["", "split_rounding"] == 0
    assert rows.loc["ring", "counted"] == 0 and rows.loc["ring", list(PARTS)].isna().all()


def exponent(x):
    return np.frexp(x)[1] - 1


@pytest.mark.parametrize(
    "spec, block, scales",
    [
        ("mx:block_format=mxfp8_e4m3", 32, lambda amax, _: exponent(amax) - 8),
        ("mx:block_format=mxfp4,block=5", 5, lambda amax, _: exponent(amax) - 2),
        (
            "current_scaling:e4m3,block=100",
            100,
            lambda amax, _: exponent(1 / (np.float32(240) / amax).astype(float)),
        ),
        (
            "aps:e4m3,unit=64,headroom=one",
            64,
            lambda _, agreed: np.ceil(np.log2(agreed)).astype(int) - 7,
        ),
    ],
    ids=["mxfp8", "mxfp4", "current_scaling", "aps"],
)
def test_blocks(tmp_path, spec, block, scales):
    random = np.random.default_rng(3)
    g = (random.standard_normal((3, 1000)) * np.exp(4 * random.standard_normal((3, 1000)))).astype(
        np.float32
    )
    g[:, 192:320] = 0  # blocks of zeros do not count
    g[1, 5] = 0
    row = apscope.replay(written(tmp_path / "t", g), [spec], topology=["exact"]).frame.iloc[0]
    blocks = [np.abs(w[i : i + block]) for w in g for i in range(0, g.shape[1], block)]
    agreed = [
        max(np.abs(w[i : i + block]).max() for w in g) for i in range(0, g.shape[1], block)
    ] * len(g)
    held = [i for i, b in enumerate(blocks) if b.any()]
    assert 0 < len(held) < len(blocks)
    ranges = np.array(
        [exponent(blocks[i].max()) - exponent(blocks[i][blocks[i] > 0].min()) for i in held]
    )
    assert row["block_count"] == len(held)
    assert row["block_range"] == ranges.sum() / len(held)
    assert row["block_range_max"] == ranges.max()
    found = scales(np.array([blocks[i].max() for i in held]), np.array([agreed[i] for i in held]))
    assert row["block_scale_spread"] == found.max() - found.min()


def test_saturated_blocks(tmp_path):
    """floor of e4m3fn: 449 to 511 under a scale of 1 saturate at 448."""
    rows = np.full((2, 96), 1.0, np.float32)
    rows[0, 3] = rows[0, 9] = 500  # one block, two elements
    rows[1, 40] = 448  # the largest itself
    rows[1, 95] = -510
    row = apscope.replay(
        written(tmp_path / "t", rows), ["mx:block_format=mxfp8_e4m3"], topology=["exact"]
    ).frame.iloc[0]
    assert (row["block_count"], row["saturated"], row["block_saturated"]) == (6, 3, 2)
    assert row["split_saturation"] == 2 * 52**2 + 62**2
