"""found_inf of a dynamic loss scale is a fact of the reduced gradient: recorded gradients against a
loop of NumPy and ml_dtypes, and against rules of torch and DeepSpeed step by step."""

import ml_dtypes
import numpy as np
import pytest

import apscope
from tests.python.loss_scaling_claims import deepspeed
from tests.python.one_bit_claims import DATA
from tests.python.recorded import record
from tests.reference.topologies import ring

WORKERS = 8
DTYPES = {
    "fp16": np.float16,
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3fn": ml_dtypes.float8_e4m3fn,
    "e4m3": ml_dtypes.float8_e4m3,
}


@pytest.fixture(scope="module")
def digits():
    trace = apscope.open_trace(DATA / "digits")
    return {
        step: [
            np.stack([trace.read(step, name, w).ravel() for w in range(WORKERS)])
            for name in trace.tensors
        ]
        for step in trace.steps
    }


@np.errstate(all="ignore")
def torch_scaler(steps, dtype, init):
    """(scale, skipped, NMSE) of every step: torch's rule on the sums of a ring."""

    def cast(x):  # two terms of a small format: fp32 adds them exactly where that matters
        return x.astype(dtype).astype(np.float32)

    def added(a, b, *_):
        return cast(a + b)

    scale, found = init, []
    for tensors in steps.values():
        sums = [ring(cast(np.float32(scale) * g), added, np.arange(g.shape[1])) for g in tensors]
        skipped = not all(np.isfinite(s).all() for s in sums)
        truth = [g.astype(np.float64).sum(0) for g in tensors]
        error = sum(((s / np.float64(scale) - t) ** 2).sum() for s, t in zip(sums, truth))
        found.append((scale, skipped, error / sum((t**2).sum() for t in truth)))
        if skipped:
            scale /= 2
    return found


@pytest.mark.parametrize(
    ("name", "init", "skips", "kept"),
    [
        ("fp16", 2.0**16, 3, 2.1e-7),
        ("e5m2", 2.0**16, 3, 0.0128),
        ("e4m3fn", 2.0**16, 10, 0.0033),
        ("e4m3", 2.0**16, 11, 0.0033),
        ("e4m3fn", 512.0, 3, 0.0033),
        ("e4m3", 256.0, 3, 0.0033),
    ],
)
def test_digits_skips_the_steps_whose_sums_overflow(digits, name, init, skips, kept):
    wanted = torch_scaler(digits, DTYPES[name], init)
    frame = apscope.replay(
        apscope.open_trace(DATA / "digits"), f"dynamic_loss_scaling:{name},init={init:.0f}"
    ).frame
    rows = frame[(frame.stage == "reduced") & (frame.topology == "ring")]
    steps = rows.groupby("step")
    assert steps.skipped.first().tolist() == [skipped for _, skipped, _ in wanted]
    assert (2.0 ** steps.scale_exponent.first().astype(float)).tolist() == [s for s, *_ in wanted]
    assert steps.skipped.first().sum() == skips
    ran = rows[~rows.skipped.astype(bool)].groupby("step")
    assert ran.overflow.sum().sum() == 0
    nmse = ran.sum_squared_error.sum() / ran.sum_squared_reference.sum()
    assert nmse.mean() == pytest.approx(
        np.mean([e for _, skipped, e in wanted if not skipped]), rel=1e-6
    )
    assert nmse.mean() == pytest.approx(kept, rel=0.02)


# One weight, gradients that overflow in the sum alone ---------------------------------------------


def recorded(folder, rows):
    """A trace of steps (workers,) of one weight."""
    return record(folder, [{"w": np.float32(row)[:, None]} for row in rows])


def path(trace, spec, topology):
    """The scale and the skip of every step."""
    frame = apscope.replay(trace, spec, topology=topology).frame
    rows = frame[(frame.stage == "reduced") & (frame.topology == topology)]
    return [2.0 ** int(e) for e in rows.scale_exponent], rows.skipped.astype(bool).tolist()


def test_a_path_for_every_topology(tmp_path):
    """Ranks add 3, 3 and -3 times 10: the ring's chunk has another order than `sequential`."""
    trace = recorded(tmp_path / "t", [[30.0, 30.0, -30.0]] * 3)
    spec = "dynamic_loss_scaling:fp16,init=2048"  # 61440 is finite, twice that is not
    assert path(trace, spec, "sequential") == ([2048, 1024, 1024], [True, False, False])
    assert path(trace, spec, "exact") == ([2048] * 3, [False] * 3)
    frame = apscope.replay(trace, spec, topology=["sequential", "tree"]).frame
    wire = frame[frame.stage == "wire"]
    assert wire.topology.unique().tolist() == ["exact", "sequential", "tree"]
    assert len(wire) == 9
    of_first = wire[wire.step == 0].set_index("topology").skipped
    assert of_first.to_dict() == {"exact": False, "sequential": True, "tree": True}


def test_each_topology_alone_has_the_rows_that_it_has_with_others(tmp_path):
    rng = np.random.default_rng(5)
    trace = recorded(tmp_path / "t", rng.normal(0, 40, (30, 5)).tolist())
    spec = "dynamic_loss_scaling:fp16,init=4096,growth_interval=3"
    names = ["ring", "tree", "sequential+kahan", "hierarchical:2"]
    together = apscope.replay(trace, spec, topology=names).frame
    assert together.skipped.any()
    for name in names:
        alone = apscope.replay(trace, spec, topology=name).frame
        kept = together[together.topology.isin([name, "exact"])].reset_index(drop=True)
        assert kept.equals(alone)


@pytest.mark.parametrize("rounding", ["stochastic", "toward_positive", "ties_to_away"])
@pytest.mark.parametrize("keys", ["", ",hop_rounding=stochastic", ",accumulate=bf16"])
def test_no_kept_step_overflows_and_every_skipped_one_would(tmp_path, rounding, keys):
    """Whatever the draws: the sums that were looked at are the sums that are made."""
    rng = np.random.default_rng(7)
    trace = recorded(tmp_path / "t", rng.normal(0, 30, (40, 4)).tolist())
    spec = f"dynamic_loss_scaling:fp16,init=4096,growth_interval=2,rounding={rounding}{keys}"
    frame = apscope.replay(trace, spec, seed=3).frame
    rows = frame[(frame.stage == "reduced") & (frame.topology == "ring")]
    assert rows.skipped.any() and not rows.skipped.all()
    assert (rows[~rows.skipped.astype(bool)].overflow == 0).all()
    for row in rows[rows.skipped.astype(bool)].itertuples():
        plain = f"loss_scaling:fp16,scale={2.0**row.scale_exponent},rounding={rounding}{keys}"
        again = apscope.replay(trace, plain, steps=[row.step], seed=3).frame
        again = again[(again.stage == "reduced") & (again.topology == "ring")]
        assert (again.overflow > 0).all()


def test_a_scale_of_zero_steps_and_everything_is_nan(tmp_path):
    """0 g is finite, so torch does not skip; 0 / 0 is NaN."""
    trace = recorded(tmp_path / "t", [[1.0, np.inf]] * 20 + [[1.0, 2.0]])
    frame = apscope.replay(trace, "dynamic_loss_scaling:fp16,backoff=0.0009765625").frame
    last = frame[(frame.topology == "ring") & (frame.step == 20)]
    assert not last.skipped.any() and (last.overflow == last["count"]).all()
    state = {}
    for g in ([1.0, np.inf], [1.0, 2.0]):
        e = apscope.exchange(
            f"dynamic_loss_scaling:fp16,init={2.0**-120},backoff={2.0**-40}",
            np.float32(g)[:, None],
            state=state,
        )
        state = e.state
    assert not e.skipped and np.isnan(e.reduced).all()


@pytest.mark.parametrize("version", ["2025", "2020"])
@pytest.mark.parametrize("consecutive", [False, True])
def test_deepspeeds_rule_on_sums(tmp_path, version, consecutive):
    """The state machine, its overflow that of the sum of four workers in fp16."""
    steps = [[10.0 * (1 + i % 3)] * 4 for i in range(60)]
    spec = (
        f"deepspeed_loss_scaling:fp16,init=4096,window=5,hysteresis=2,version={version},"
        f"consecutive_hysteresis={str(consecutive).lower()}"
    )

    def overflows(step, scale):
        return 4 * scale * steps[step][0] >= 65520

    wanted = list(
        deepspeed(overflows, len(steps), 4096.0, 5, 2, 1.0, version == "2025", consecutive)
    )
    assert path(recorded(tmp_path / "t", steps), spec, "ring") == tuple(map(list, zip(*wanted)))
    assert sum(skipped for _, skipped in wanted) > 3


@pytest.mark.parametrize("keys", ["", ",divide=1"])
@pytest.mark.parametrize("topology", ["sequential", "sequential+kahan", "exact"])
def test_a_branch_of_a_hybrid_looks_at_its_own_tensors(keys, topology):
    """As a replay of these tensors alone."""
    spec = f"dynamic_loss_scaling:e4m3{keys}"

    def skips(spec):
        frame = apscope.replay(
            DATA / "digits",
            spec,
            topology=topology,
            tensors=r"norm\.bias" if "(" not in spec else None,
        ).frame
        rows = frame[(frame.stage == "reduced") & (frame.topology == topology)]
        return rows[rows.tensor == "norm.bias"].skipped.astype(bool).tolist()

    assert skips(f"hybrid(name:norm.bias={spec};else=none:fp32)") == skips(spec)
