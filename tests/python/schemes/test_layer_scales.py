"""Loss scales per layer, and micro-batches that are added in bf16, by specs and topologies."""

import ml_dtypes
import numpy as np
import pytest

import apscope
from apscope.record import TraceWriter

SHAPES = {"conv.weight": (8, 9), "norm.weight": (8,), "head.weight": (4, 8)}
ROLES = {"conv.weight": "conv", "norm.weight": "norm", "head.weight": "head"}
SCALES = {"conv.weight": 4096.0, "norm.weight": 256.0, "head.weight": 16.0}
SPEC = (
    "hybrid(name:^conv=loss_scaling:e5m2,scale=4096;role:head=loss_scaling:e5m2,scale=16;"
    "else=loss_scaling:e5m2,scale=256)"
)
E5M2 = ml_dtypes.float8_e5m2


def record(folder, tensors, **options):
    with TraceWriter(folder, workers=len(next(iter(tensors.values()))), **options) as writer:
        for name, g in tensors.items():
            for worker, row in enumerate(g):
                writer.add(0, worker, name, row)
        writer.end_step(0)
    return apscope.open_trace(folder)


def test_each_layer_has_its_own_loss_scale(tmp_path):
    rng = np.random.default_rng(2)
    tensors = {n: (1e-4 * rng.normal(size=(2, *s))).astype(np.float32) for n, s in SHAPES.items()}
    trace = record(tmp_path / "t", tensors, reduction="sum", roles=ROLES)
    rows = apscope.replay(trace, SPEC, topology="sequential").frame
    for name, g in tensors.items():
        codes = (g * np.float32(SCALES[name])).astype(E5M2)
        total = (codes[0].astype(np.float32) + codes[1].astype(np.float32)).astype(E5M2)
        y, x = total.astype(np.float64) / SCALES[name], g[0].astype(np.float64) + g[1]
        row = rows[(rows.tensor == name) & (rows.topology == "sequential")].iloc[0]
        assert 2.0**row.scale_exponent == SCALES[name]
        assert row.sum_squared_error == pytest.approx(((y - x) ** 2).sum(), rel=1e-12)


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
    trace = record(tmp_path / "t", {"x": g}, reduction="sum")
    row = apscope.replay(trace, "none:bf16", topology=f"hierarchical:{micro}").frame.iloc[2]
    exact = g[0].astype(np.float64)
    for batch in g[1:]:
        exact = exact + batch
    error = total.astype(np.float64) - exact
    assert row.sum_squared_error == pytest.approx((error**2).sum(), rel=1e-12)
