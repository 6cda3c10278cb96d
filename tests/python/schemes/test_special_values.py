"""A step with a value that is not finite, through exchange() step by step and through a replay: the
same steps are dropped, by the same scales."""

import numpy as np
import pandas as pd
import pytest

import apscope
from tests.python.recorded import record

SPECS = [
    "dynamic_loss_scaling:e4m3",
    "dynamic_loss_scaling:e4m3,growth_interval=1",
    "deepspeed_loss_scaling:fp16,window=2",
    "enhanced_loss_scaling:e5m2",
    "adaptive_loss_scaling:e4m3",
    "delayed_scaling:e4m3,history=2",
    "delayed_scaling:e4m3,history=2,nonfinite=nan",
    "logmax_loss_scaling:fp16",
    "fp8_allreduce:e4m3",
    "fp8_allreduce:e4m3,no_amax=msamp",
    "fp8_allreduce:e4m3,agree=scale,headroom=one",
    "fp8_allreduce:e4m3,auto_scaling=0.001",
    "aps:e4m3",
    "error_feedback(aps:e4m3)",
]


@pytest.mark.parametrize("elements", [20, 5000])  # one piece, several
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_exchange_drops_the_steps_that_a_replay_drops(tmp_path, spec, elements, bad):
    rng = np.random.default_rng(4)
    steps = [0.01 * rng.standard_normal((3, elements)).astype(np.float32) for _ in range(6)]
    steps[2][1, elements - 3] = bad
    trace = record(tmp_path / "t", [{"x": g} for g in steps], "sum")
    frame = apscope.replay(trace, spec, topology="ring").frame
    wire = frame[(frame.stage == "wire") & frame.topology.isin(["", "ring"])].set_index("step")
    state = {}
    for number, g in enumerate(steps):
        e = apscope.exchange(spec, g, topology="ring", state=state, step=number, tensor="x")
        state = e.state
        row = wire.loc[number]
        assert e.skipped == row.skipped
        known = None if pd.isna(row.scale_exponent) else int(row.scale_exponent)
        assert e.scale_exponent == known
        if not e.skipped:
            kept = np.isfinite(g)
            error = ((e.sent[kept] - g[kept].astype(np.float64)) ** 2).sum()
            assert error == pytest.approx(row.sum_squared_error, rel=1e-9)
    assert "dynamic" not in spec or wire.skipped[2]
