"""Remedies of a layer where nothing is sent."""

import numpy as np
import pytest

import apscope
from apscope._charts.describe import number
from apscope._charts.layers import by_layer, layer_map
from apscope._results.pooling import headline_rows


def test_a_remedy_for_one_worker_has_as_many_bits():
    alone = np.random.default_rng(5).standard_normal((1, 4096)).astype(np.float32)
    specs = ["none:bf16", "mx:block_format=mxfp4", "nvfp4", "mx"]
    rows = headline_rows(apscope.replay({"w": alone}, specs).frame)
    volume = by_layer(rows).set_index("scheme")["volume"]
    assert rows["volume"].isna().all() and volume["none:bf16"] == 16 / 32
    assert volume["mx"] == pytest.approx(8.25 / 32) and volume["nvfp4"] > 4.5 / 32
    for spec, better in (("mx", "none:bf16"), ("mx:block_format=mxfp4", "mx")):
        (row,) = layer_map(rows, spec).rows
        times = number(volume[better] / volume[spec])
        assert row.remedy.startswith(f"{better}: ")
        assert row.remedy.endswith(f" at {times} times the bytes")
