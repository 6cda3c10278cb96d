"""Expected bias and variance of two phases (docs/definitions.md, section 5), and how their rows take
an error apart: against every draw of a small case, and against repeated exchanges."""

import itertools
import math

import numpy as np
import pytest

import apscope
from tests.python.recorded import record

GRID = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]  # e2m1fn


def reduced_row(trace, spec, topology, **given):
    frame = apscope.replay(trace, spec, topology=topology, **given).frame
    row = frame[(frame.stage == "reduced") & (frame.topology == topology)]
    assert len(row) == 1
    return row.iloc[0]


def outcomes(value, scale, bits):
    """Both results of a stochastic rounding to the grid, with their probabilities."""
    size = abs(value) * scale
    low = max(g for g in GRID if g <= size)
    high = next((g for g in GRID if g > size), low)
    up = math.floor((size - low) / (high - low) * 2**bits) / 2**bits if high > low else 0.0
    sign = math.copysign(1.0, value)
    return [(p, sign * g / scale) for p, g in ((1.0 - up, low), (up, high)) if p > 0.0]


def scale_of(row):
    amax = max(abs(v) for v in row)
    return 2.0 ** (2 - math.ceil(math.log2(amax))) if amax else 1.0


def moments_of_all_draws(x, bits):
    """Means over the elements of E[r] - R and Var[r], of the messages of all draws of phase 1 and
    the roundings of each of their sums. Shards have as many elements as there are workers."""
    workers, n = x.shape
    scales = [scale_of(row) for row in x]
    bias, variance = np.zeros(n), np.zeros(n)
    for first in range(0, n, n // workers):
        shard = range(first, first + n // workers)
        choices = [outcomes(x[w, i], scales[w], bits) for w in range(workers) for i in shard]
        mean, square = np.zeros(len(shard)), np.zeros(len(shard))
        for drawn in itertools.product(*choices):
            p = math.prod(q for q, _ in drawn)
            sums = np.array([value for _, value in drawn]).reshape(workers, -1).sum(0)
            scale = scale_of(sums)
            for e, s in enumerate(sums):
                for q, value in outcomes(s, scale, bits):
                    mean[e] += p * q * value
                    square[e] += p * q * value**2
        bias[shard] = mean - x[:, shard].sum(0)
        variance[shard] = square - mean**2
    return bias.mean(), variance.mean()


def test_moments_are_those_of_all_draws(tmp_path):
    bits = 4  # every probability is a multiple of 1/16, so that no rounding has a bias
    x = np.array([[3.0, 1.25, -0.125, 2.5], [-1.75, 0.625, 0.375, 1.125]], np.float32)
    bias, variance = moments_of_all_draws(x.astype(float), bits)
    assert abs(bias) < 1e-12
    trace = record(tmp_path / "t", [{"g": x}], "sum")
    spec, topology = f"stochastic:e2m1fn,random_bits={bits}", "two_phase,sum=exact"
    found = np.array(
        [reduced_row(trace, spec, topology, seed=s)[["expected_bias", "expected_variance"]]
         for s in range(300)], float)  # fmt: skip
    error = found.std(axis=0, ddof=1) / math.sqrt(len(found))
    assert np.allclose(found[:, 0], 0.0, atol=1e-12)
    assert abs(found[:, 1].mean() - variance) < 4 * error[1]
    first = reduced_row(trace, spec, "reduce_scatter,sum=exact")["expected_variance"]
    assert first < variance - 10 * error[1]  # phase 2 has a part above the noise


#: Specs, keys of two_phase.
DRAWN = [
    ("stochastic:e4m3fn", ",sum=exact"),
    ("qsgd:bucket=64", ",sum=exact"),
    ("natural", ",sum=exact"),
    ("aps:e3m4,rounding=stochastic,rule=tight,unit=32", ",sum=exact"),
    ("stochastic:e4m3fn", ",sum=exact,phase2=(qsgd:bucket=32)"),
    ("none:bf16", ",phase2=(stochastic:e3m4)"),
    ("mx", ",sum=bf16,phase2=(stochastic:e3m4)"),
]


@pytest.mark.parametrize(("spec", "keys"), DRAWN)
def test_moments_are_those_of_repeated_exchanges(tmp_path, spec, keys):
    workers, n, groups, draws = 3, 210, 10, 30
    x = (np.random.default_rng(5).standard_normal((workers, n)) * 0.1).astype(np.float32)
    trace, topology = record(tmp_path / "t", [{"g": x}], "mean"), f"two_phase{keys}"
    rows = [reduced_row(trace, spec, topology, seed=s) for s in range(groups)]
    found = np.mean([[r["expected_bias"], r["expected_variance"]] for r in rows], axis=0)
    truth = x.astype(float).mean(0)
    results = np.array(
        [apscope.exchange(spec, x, tensor="g", topology=topology, seed=1000 + d).reduced / workers
         for d in range(groups * draws)], float)  # fmt: skip
    errors = (results - truth).mean(1)
    standard = errors.std(ddof=1) / math.sqrt(len(errors))
    assert abs(found[0] - errors.mean()) < 5 * standard
    each = results.reshape(groups, draws, n).var(axis=1, ddof=1).mean(1)
    spread = math.hypot(
        each.std(ddof=1) / math.sqrt(groups),
        np.std([r["expected_variance"] for r in rows], ddof=1) / math.sqrt(groups),
    )
    assert abs(found[1] - each.mean()) < 5 * spread
    assert spread < 0.05 * found[1]


@pytest.mark.parametrize(
    ("spec", "topology"),
    [
        ("stochastic:e4m3fn", "two_phase"),  # fp32 rounds what was drawn
        ("qsgd", "reduce_scatter"),
        ("stochastic:e4m3fn", "two_phase,sum=exact,phase2=(none:bf16)"),  # so does phase 2
        ("mx:block_format=mxfp4,rounding=stochastic", "two_phase,sum=exact"),  # it saturates
        ("nvfp4:rht=false", "two_phase,sum=exact"),
    ],
)
def test_other_moments_are_sampled(tmp_path, spec, topology):
    x = np.random.default_rng(6).standard_normal((3, 96)).astype(np.float32)
    trace = record(tmp_path / "t", [{"g": x}])
    columns = ["expected_bias", "expected_variance"]
    assert reduced_row(trace, spec, topology)[columns].isna().all()
    sampled = reduced_row(trace, spec, topology, draws=8)
    assert sampled[columns].notna().all()
    assert sampled["expected_variance"] > 0


def test_rows_take_the_error_apart(tmp_path):
    """From the same messages: what is lost in phase 1, in the additions and in phase 2."""
    workers, n = 4, 2000
    x = np.random.default_rng(7).standard_normal((workers, n)).astype(np.float32)
    trace, truth = record(tmp_path / "t", [{"g": x}], "sum"), x.astype(float).sum(0)
    names = ["reduce_scatter,sum=exact", "reduce_scatter", "two_phase"]
    for spec in ("aps:e4m3fn,rule=tight", "mx", "stochastic:e4m3fn"):
        frame = apscope.replay(trace, spec, topology=names).frame
        rows = frame[frame.stage == "reduced"].set_index("topology")
        wire = frame[(frame.stage == "wire") & (frame.topology == "two_phase")].iloc[0]
        sums = [apscope.exchange(spec, x, tensor="g", topology=t).reduced for t in names]
        parts = [sums[0] - truth, sums[1] - sums[0], sums[2] - sums[1]]
        # Errors add up to those of the rows: linearly, so means do exactly.
        for k, name in enumerate(names):
            error = sum(parts[: k + 1])
            assert rows.loc[name, "sum_squared_error"] == pytest.approx((error**2).sum(), rel=1e-9)
            assert rows.loc[name, "bias"] == pytest.approx(error.mean(), rel=1e-9)
        # Roundings of different numbers hardly agree, so squares do almost.
        squares = [(p**2).sum() for p in parts]
        increase = rows["sum_squared_error"].loc[names].diff().iloc[1:].to_numpy()
        assert increase[1] == pytest.approx(squares[2], rel=0.1)
        assert abs(increase[0]) < 1e-3 * squares[0]
        # The messages' errors are independent, so phase 1's is the sum of theirs.
        assert squares[0] == pytest.approx(wire["sum_squared_error"], rel=0.1)


def test_expected_variances_of_both_phases_add_up(tmp_path):
    x = np.random.default_rng(8).standard_normal((4, 400)).astype(np.float32)
    trace = record(tmp_path / "t", [{"g": x}], "sum")
    spec = "stochastic:e4m3fn"
    first = reduced_row(trace, spec, "reduce_scatter,sum=exact")
    both = reduced_row(trace, spec, "two_phase,sum=exact")
    sums = apscope.exchange(spec, x, tensor="g", topology="reduce_scatter,sum=exact").reduced
    # Phase 2 rounds sums of numbers of e4m3fn, which fp32 holds: a row of its own, by one worker.
    shards = [record(tmp_path / str(s), [{"g": np.float32(part)[None]}], "sum")
              for s, part in enumerate(np.split(sums, 4))]  # fmt: skip
    second = []
    for shard in shards:
        frame = apscope.replay(shard, spec, topology="ring").frame
        second.append(frame.loc[frame.stage == "wire", "expected_variance"].iloc[0])
    assert both["expected_variance"] == pytest.approx(
        first["expected_variance"] + np.mean(second), rel=1e-12
    )
