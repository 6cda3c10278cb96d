"""docs/reductions.md, formats for each level: what two levels are worth on nodes."""

from pathlib import Path

import pytest

import apscope

DIGITS = Path(__file__).parents[3] / "notebooks/data/digits_w64"


def test_two_levels_send_less_between_nodes_and_a_wide_one_inside_errs_less():
    flat, levels, wide = (
        "two_phase",
        "hierarchical:8(two_phase,two_phase@e3m4)",
        "hierarchical:8(reduce_scatter@bf16,two_phase@e3m4)",
    )
    results = apscope.replay(DIGITS, "aps:e4m3fn,rule=tight", topology=["ring", flat, levels, wide])
    error = results.summary().set_index("topology")["step_nmse"]
    network = apscope.cost.Network.of("nvlink4", "infiniband_ndr", nodes=8)
    times = apscope.cost.step_time(results, network, elements=25.6e6).set_index("topology")
    seconds, between = times["seconds"], times["node_bytes"]
    assert between[flat] / between[levels] == pytest.approx(4.6, abs=0.1)
    assert between[levels] == pytest.approx(between[wide])
    assert seconds[wide] < 0.5 * seconds[flat] and seconds[wide] < 0.6 * seconds["ring"]
    assert error[levels] < error[flat]  # although it rounds four times, not twice
    assert error[wide] < error[flat] / 4 and error[wide] < error["ring"] / 50
