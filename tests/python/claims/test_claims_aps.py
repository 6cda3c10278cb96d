"""Provable claims of APS (Auto-Precision Scaling), on recorded gradients and in every format.

Notation: W workers, A the amax of a tensor, m stored significand bits, E = emax, 2^s the APS scale;
a format's smallest subnormal is q0 = 2^(1 - E - m).
"""

import math

import numpy as np
import pytest

import apscope
from tests.python import recorded
from tests.python.one_bit_claims import DATA

FORMATS = ["e5m2", "e4m3", "e3m0", "e3m4", "fp16", "bf16"]  # IEEE 754's rules at every width
TOPOLOGIES = ["sequential", "ring", "tree", "hierarchical:3"]
ERRORS = """
    sum_error sum_squared_error sum_squared_reference bias mse nmse underflow overflow counted
""".split()


def gradients(trace, step, name):
    return np.stack([trace.read(step, name, w).ravel() for w in range(trace.workers)]).astype(
        np.float64
    )


def rows(trace, spec, stage="wire", **options):
    frame = apscope.replay(trace, spec, topology=TOPOLOGIES, **options).frame
    return frame[frame.stage == stage].reset_index(drop=True)


def record(folder, **tensors):
    return recorded.record(folder, [tensors], "sum")


@pytest.mark.parametrize("name", [*FORMATS, "e4m3fn", "e5m2fnuz", "binary8p3se"])
def test_A2_the_input_error_is_at_most_half_an_ulp_at_the_scale(trace, name):
    """Half an ulp of g where 2^s g is normal, half a subnormal quantum over 2^s elsewhere."""
    f = apscope.FloatFormat(name)
    wire = rows(trace, f"aps:{name}")
    assert (wire.overflow == 0).all() and (wire.max_ulp <= 0.5).all()
    last = wire[wire.step == trace.steps[-1]]
    for row in last.itertuples():
        g = gradients(trace, row.step, row.tensor)
        s = int(row.scale_exponent)
        got = np.ldexp(apscope.quantize(np.ldexp(g, s), f), -s)
        exponent = np.frexp(g)[1] - 1
        normal = np.abs(np.ldexp(g, s)) >= f.smallest_normal
        bound = np.where(
            normal,
            np.ldexp(0.5, exponent - f.mantissa_bits),
            np.ldexp(0.5, f.emin - f.mantissa_bits - s),
        )
        assert (np.abs(got - g) <= bound).all()
        assert row.underflow == ((got == 0) & (g != 0)).sum()


@pytest.mark.parametrize("name", ["e5m2", "e4m3", "fp16", "bf16"])
def test_A3_in_range_elements_come_out_the_same_bit_for_bit_with_and_without(trace, name, tmp_path):
    """Every worker's element zero or normal without a scale, s >= 0, no partial sum overflows."""
    f = apscope.FloatFormat(name)
    step = trace.steps[0]
    tensor = max(trace.manifest.tensors, key=lambda t: t.size).name
    g = gradients(trace, step, tensor)[:8]  # few columns are in range for all of 64 workers
    # Times a power of two, much of a recorded tensor lies where the format has its normal numbers.
    g = np.ldexp(g, f.emax - 6 - math.frexp(np.abs(g).max())[1])
    g = g[:, ((g == 0) | (np.abs(g) >= f.smallest_normal)).all(axis=0)].astype(np.float32)
    assert g.shape[1] > 20, "a test of nothing"
    saved = record(tmp_path / "t", g=g)
    plain, scaled = (
        apscope.replay(saved, f"{scheme}:{name}", topology=TOPOLOGIES).frame
        for scheme in ("none", "aps")
    )
    s = int(scaled.scale_exponent[0])
    assert s >= 0 and plain.overflow.sum() == 0
    for column in ERRORS:
        assert plain[column].equals(scaled[column]), column
    for workers in range(1, len(g) + 1):  # every partial sum
        for topology in TOPOLOGIES:
            without = apscope.allreduce(g[:workers], f, topology=topology)
            with_scale = apscope.allreduce(np.ldexp(g[:workers], s), f, topology=topology)
            assert np.array_equal(without, np.ldexp(with_scale, -s)), (workers, topology)


def test_A3_needs_both_sides_in_range(tmp_path):
    """s < 0 can push an element into the subnormals; and APS saves a sum that overflows."""
    small = record(tmp_path / "small", g=np.float32([[40000, 1.25 * 2**-14]]))
    plain, scaled = (rows(small, f"{scheme}:e5m2", "reduced") for scheme in ("none", "aps"))
    assert (scaled.scale_exponent == -1).all()
    assert plain.sum_error[0] == 960.0  # 40000 -> 40960; 1.25 * 2^-14 is a value
    assert scaled.sum_error[0] == 960.0 - 0.25 * 2**-14
    large = record(tmp_path / "large", g=np.float32([[40000], [40000]]))
    plain, scaled = (rows(large, f"{scheme}:e5m2", "reduced") for scheme in ("none", "aps"))
    assert (plain.overflow[1:] == 1).all() and plain.overflow[0] == 0  # `exact` does not round
    assert (scaled.overflow == 0).all() and (scaled.sum_error == 81920.0 - 80000.0).all()
    assert apscope.allreduce(np.float32([[40000], [40000]]), "e5m2") == np.inf


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("headroom", ["workers", "sqrt_workers", "one"])
def test_A4_flushes_no_more_than_a_loss_scale_that_obeys_the_same_headroom(trace, name, headroom):
    """Tensor by tensor and step by step, for the largest such power of two and for smaller ones."""
    aps = rows(trace, f"aps:{name},headroom={headroom}")
    k = min(int(aps.scale_exponent.min()), 127)  # a loss scale is an fp32 number
    for lower in (0, 1, 5):
        loss = rows(trace, f"loss_scaling:{name},scale={2.0 ** (k - lower)!r}")
        assert (loss.scale_exponent == k - lower).all() and (loss.tensor == aps.tensor).all()
        assert (aps.underflow <= loss.underflow).all()
        assert (aps.overflow == 0).all() and (loss.overflow == 0).all()
    assert (aps.scale_exponent > k).any(), "a trace whose tensors are equally large shows nothing"


@pytest.mark.parametrize("name", FORMATS)
def test_A4_the_best_loss_scale_without_headroom_gains_at_most_log2_W_and_one_binade(trace, name):
    aps = rows(trace, f"aps:{name}")
    best = rows(trace, f"loss_scaling:{name},scale=largest,headroom=one,rule=tight")
    gain = int(best.scale_exponent[0]) - int(aps.scale_exponent.min())
    assert 0 <= gain <= math.ceil(math.log2(trace.workers)) + 1


@pytest.mark.parametrize("name", ["e5m2", "e4m3", "e3m0", "e3m4", "fp16"])
def test_A5_flushes_exactly_what_lies_B_binades_below_amax(trace, name):
    """|g| <= A 2^-B with B in (2E + m - 1 - log2 W, 2E + m - log2 W]."""
    f = apscope.FloatFormat(name)
    top = 2 * f.emax + f.mantissa_bits - math.log2(trace.workers)
    for row in rows(trace, f"aps:{name}", steps=[trace.steps[0], trace.steps[-1]]).itertuples():
        g = np.abs(gradients(trace, row.step, row.tensor))
        threshold = 2.0 ** (-f.emax - f.mantissa_bits - int(row.scale_exponent))
        assert row.underflow == ((g > 0) & (g <= threshold)).sum()
        assert top - 1 < math.log2(g.max() / threshold) <= top + 1e-12


def test_A5_at_amax_a_power_of_two_the_range_is_the_widest(tmp_path):
    """e5m2: 32, 29, 27 and 24 binades for 1, 8, 32 and 256 workers; the tie itself is flushed."""
    for workers, binades in [(1, 32), (8, 29), (32, 27), (256, 24)]:
        g = np.zeros((workers, 3), np.float32)
        g[0] = 1.0, 2.0**-binades, np.nextafter(np.float32(2.0**-binades), np.float32(1))
        wire = rows(record(tmp_path / str(workers), g=g), "aps:e5m2")
        assert wire.nonzero[0] == 3 and wire.underflow[0] == 1


def test_A5_a_four_bit_gradient_is_entirely_flushed_from_64_workers_and_partly_from_33(tmp_path):
    wire = rows(apscope.open_trace(DATA / "digits_w64"), "aps:e3m0")
    assert (wire.underflow_rate == 1.0).all()
    for workers, flushed in ((33, [1.0, 0.0]), (32, [0.0, 0.0])):
        low, high = (np.full((workers, 2), value) for value in (1.0, 1.9))
        wire = rows(record(tmp_path / str(workers), low=low, high=high), "aps:e3m0")
        assert wire.underflow_rate.tolist() == flushed
