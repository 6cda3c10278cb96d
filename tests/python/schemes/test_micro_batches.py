"""Micro-batches that are added in bf16 in each rank, by a topology."""

import ml_dtypes
import numpy as np
import pytest

import apscope
from tests.python.recorded import record


@pytest.mark.parametrize("ranks, micro", [(1, 4), (3, 4), (2, 8)])
def test_micro_batches_as_workers_are_accumulated_in_bf16(tmp_path, ranks, micro):
    """A rank's micro-batches are consecutive workers; `hierarchical:N` adds them in the rank, then
    the ranks."""
    rng = np.random.default_rng(ranks)
    g = rng.normal(size=(ranks * micro, 500)).astype(np.float32)
    bf16 = ml_dtypes.bfloat16

    def add(a, b):
        return (a.astype(np.float32) + b.astype(np.float32)).astype(bf16)

    total = None
    for rank in range(ranks):
        grad = g[rank * micro].astype(bf16)  # as `param.grad` after the first micro-batch
        for batch in g[rank * micro + 1 : (rank + 1) * micro]:
            grad = add(grad, batch.astype(bf16))
        total = grad if total is None else add(total, grad)
    e = apscope.exchange("none:bf16", g, topology=f"hierarchical:{micro}")
    assert np.array_equal(e.reduced, total.astype(np.float64))
    trace = record(tmp_path / "t", [{"x": g}], "sum")
    row = apscope.replay(trace, "none:bf16", topology=f"hierarchical:{micro}").frame.iloc[2]
    exact = g[0].astype(np.float64)
    for batch in g[1:]:
        exact = exact + batch
    error = total.astype(np.float64) - exact
    assert row.sum_squared_error == pytest.approx((error**2).sum(), rel=1e-12)
