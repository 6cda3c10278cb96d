"""The reductions that libraries run, bit for bit: their orders, what they round and where, and how
they treat special values."""

import ml_dtypes
import numpy as np
import pytest

import apscope
from apscope.record import TraceWriter
from tests.reference import production
from tests.reference.allreduce import allreduce
from tests.reference.compare import equal
from tests.reference.formats import FORMATS, ieee
from tests.reference.replay import replay

ORDERS = list(production.ORDERS)
MAX = np.finfo(np.float32).max


def inputs(workers):
    """A column of every kind: random, subnormal, overflowing, special, cancelling."""
    rng = np.random.default_rng(workers)
    x = (rng.standard_normal((workers, 15)) * 2.0 ** rng.integers(-6, 6, 15)).astype(np.float32)
    x[:, 7] *= 2.0**-20
    x[:, 8] = 2.0**-149
    x[:, 9] = 440 + np.arange(workers) % 3
    x[:, 10] = np.where(np.arange(workers) % 2, -MAX, MAX)
    x[workers // 2, 11] = np.nan
    x[0, 12] = np.inf
    x[0, 13], x[-1, 13] = np.inf, -np.inf
    x[:, 14] = -0.0
    return x


def assert_equal(got, expected):
    assert equal(got, expected).all(), (got, expected)


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7, 9, 16, 17, 31, 33, 64])
@pytest.mark.parametrize("topology", ORDERS)
def test_bits_at_any_number_of_workers(topology, workers):
    x = inputs(workers)
    for name in ("e4m3fn", "e5m2", "bf16", "fp32") if workers < 20 else ("e4m3fn", "bf16"):
        got = apscope.allreduce(x, name, topology=topology)
        assert_equal(got, allreduce(x, FORMATS[name], topology))
    assert apscope.allreduce(x[:, :0], "bf16", topology=topology).shape == (0,)
    if workers > 20 and topology != "pat":
        return
    got = apscope.allreduce(
        x, "bf16", topology=topology, input_cast=False, hop_rounding="stochastic", seed=3
    )
    expected = allreduce(
        x, FORMATS["bf16"], topology, hop_mode="stochastic", input_cast=False, seed=3
    )
    assert_equal(got, expected)


@pytest.mark.parametrize("n", [1, 2, 4097])
@pytest.mark.parametrize("topology", ["pat", "nccl:ring", "nccl:tree"])
def test_chunks_over_several_blocks(topology, n):
    x = np.random.default_rng(n).standard_normal((5, n)).astype(np.float32)
    for name in ("e4m3fn", "e2m12"):  # sums in fp32, and on wider numbers
        f = FORMATS[name] if name in FORMATS else ieee(2, 12)
        assert_equal(apscope.allreduce(x, name, topology=topology), allreduce(x, f, topology))


@pytest.mark.parametrize("topology", ORDERS)
@pytest.mark.parametrize("workers", [2, 6])
def test_exchanges_add_as_arrays_do(topology, workers):
    x = inputs(workers)[:, :11]
    for name in ("e4m3fn", "bf16"):
        expected = apscope.allreduce(x, name, topology=topology)
        for spec in (f"none:{name}", f"error_feedback(none:{name})"):
            assert_equal(apscope.exchange(spec, x, topology=topology).reduced, expected)


@pytest.mark.parametrize(
    ("name", "dtype", "pairs"),
    [("e4m3fn", ml_dtypes.float8_e4m3fn, 64516), ("e5m2", ml_dtypes.float8_e5m2, 61504)],
)
def test_nccls_addition_of_halves_is_one_saturating_rounding(name, dtype, pairs):
    """NCCL adds FP8 numbers as halves, and casts with the largest value in place of overflow."""
    values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    values = values[np.isfinite(values)]
    a, b = (m.ravel() for m in np.meshgrid(values, values))
    assert a.size == pairs
    with np.errstate(over="ignore"):
        halves = a.astype(np.float16) + b.astype(np.float16)
    largest = np.float16(values.max())
    expected = np.clip(halves, -largest, largest).astype(dtype).astype(np.float32)
    for topology in ("nccl:ring", "nccl:tree"):
        for overflow in ("ieee", "saturate", "nan"):
            got = apscope.allreduce(np.stack([a, b]), name, topology=topology, overflow=overflow)
            assert (got == expected).all() and (np.signbit(got) == np.signbit(expected)).all()


def test_nccl_rounds_to_even_whatever_the_scheme_does():
    x = inputs(6)
    plain = apscope.allreduce(x, "e4m3fn", topology="nccl:ring")
    hops = apscope.allreduce(x, "e4m3fn", topology="nccl:ring", hop_rounding="stochastic", seed=1)
    assert plain.tobytes() == hops.tobytes()
    fp16 = np.full((4, 1), 30000.0, np.float32)  # halves overflow to infinity
    assert np.isinf(apscope.allreduce(fp16, "fp16", topology="nccl:ring", overflow="saturate"))


def test_what_the_wide_sums_are():
    x = np.array([[1.0], [2.0**-9], [2.0**-9]], np.float32)
    by = {t: apscope.allreduce(x, "bf16", topology=t).item() for t in ORDERS}
    assert by["nccl:ring"] == by["nccl:tree"] == 1.0  # both terms lie at or below half a quantum
    assert by["fp32_accumulate"] == by["nccl:symmetric"] == 1.0  # the tie 1 + 2^-8 to even
    x[0] = 1.0 + 2.0**-7
    by = {t: apscope.allreduce(x, "bf16", topology=t).item() for t in ORDERS}
    assert by["fp32_accumulate"] == 1.0 + 2.0**-6  # the same tie, above an odd number
    assert by["nccl:nvls"] == 1.0 + 2.0**-7  # cut off
    assert by["pat"] == 1.0 + 2.0**-7 + 2.0**-8  # the owner's sum is not rounded
    # NVLS in fp32 rounds the exact sum once.
    x = np.array([[2.0**30], [1.0], [1.0], [-(2.0**30)], [2.0**-30]], np.float32)
    assert apscope.allreduce(x, "fp32", topology="nccl:nvls").item() == 2.0
    assert apscope.allreduce(x, "fp32", topology="nccl:symmetric").item() == 2.0**-30


def test_a_bf16_rings_error_grows_with_the_workers_and_a_wide_sums_does_not():
    rng, errors = np.random.default_rng(0), {}
    for workers in (4, 16, 64):
        x = rng.standard_normal((workers, 20000)).astype(np.float32)
        x = apscope.quantize(x, "bf16")  # the sum's error alone
        truth = x.astype(np.float64).sum(axis=0)
        for topology in ("ring", "nccl:ring", "fp32_accumulate", "nccl:symmetric"):
            error = apscope.allreduce(x, "bf16", topology=topology) - truth
            errors[topology, workers] = np.sqrt((error**2).sum() / (truth**2).sum())
    for topology in ("ring", "nccl:ring"):  # like sqrt(W) of additions of sums that grow
        assert errors[topology, 16] > 1.5 * errors[topology, 4]
        assert errors[topology, 64] > 1.5 * errors[topology, 16]
    for topology in ("fp32_accumulate", "nccl:symmetric"):
        assert errors[topology, 64] < 1.1 * errors[topology, 4]


def test_the_mean_error_of_stochastic_hops_falls_with_the_root_of_the_trials():
    """As torchcomms tests its quantized reduce-scatter: fp32 in, bf16 with draws on the wire."""
    x = np.random.default_rng(1).standard_normal((8, 512)).astype(np.float32)
    truth = x.astype(np.float64).sum(axis=0)
    errors = [
        apscope.allreduce(
            x, "bf16", topology="pat", input_cast=False, hop_rounding="stochastic", seed=s
        )
        - truth
        for s in range(1600)
    ]
    one, hundred, all_of_them = (
        np.sqrt(np.square(np.mean(errors[:n], axis=0)).mean()) for n in (1, 100, 1600)
    )
    assert one / hundred == pytest.approx(10, rel=0.15)
    assert one / all_of_them == pytest.approx(40, rel=0.15)
    biased = apscope.allreduce(x, "bf16", topology="pat", input_cast=False) - truth
    assert np.sqrt(np.square(biased).mean()) > 20 * all_of_them


@pytest.mark.parametrize("size", [3e37, 1.4e38, 3e38])
@pytest.mark.parametrize("overflow", ["ieee", "saturate"])
def test_a_dynamic_loss_scale_sees_the_overflow_of_each_order(tmp_path, size, overflow):
    """Sums that saturate never skip a step; pat's last sum is fp32's, which saturates nowhere."""
    g = {s: {"w": np.full((3, 8), size / 2**s, np.float32)} for s in range(3)}
    with TraceWriter(tmp_path / "t", workers=3, reduction="sum") as writer:
        for step, tensors in g.items():
            for w in range(3):
                writer.add(step, w, "w", tensors["w"][w])
            writer.end_step(step, loss=1.0)
    spec = f"dynamic_loss_scaling:bf16,overflow={overflow},init=1"
    topologies = ["sequential", *ORDERS]
    frame = apscope.replay(apscope.open_trace(tmp_path / "t"), spec, topology=topologies).frame
    expected = replay(g, spec, topologies, "sum")
    got = frame[["step", "stage", "topology", "skipped", "overflow"]]
    for row, want in zip(got.itertuples(), expected, strict=True):
        assert (row.step, row.stage, row.topology) == (
            want["step"],
            want["stage"],
            want["topology"],
        )
        assert bool(row.skipped) == want["skipped"], row
