"""Reductions in two phases (docs/definitions.md, section 1): bit for bit against an independent
implementation, by every way to them, and what they are worth on the bundled traces."""

import itertools
from pathlib import Path

import ml_dtypes
import numpy as np
import pandas as pd
import pytest

import apscope
from tests.python.recorded import record
from tests.reference import two_phase as reference
from tests.reference.compare import same

ROOT = Path(__file__).parents[3]

#: Specs, and what encodes a row of theirs alone.
LEAVES = {
    "none:e4m3fn": reference.cast("e4m3fn"),
    "none:e5m2": reference.cast("e5m2"),
    "none:bf16": reference.cast("bf16"),
    "none:fp16": reference.cast("fp16"),
    "aps:e4m3fn,rule=tight": reference.scaled("e4m3fn"),
    "aps:e4m3,rule=tight": reference.scaled("e4m3"),
    "aps:e3m4,rule=tight,unit=32": reference.scaled("e3m4", 32),
    "aps:e2m1fn,rule=tight,unit=16": reference.scaled("e2m1fn", 16),
}


def inputs(kind, workers, n):
    rng = np.random.default_rng([workers, n])
    x = rng.standard_normal((workers, n)) * 2.0 ** rng.integers(-12, 3, (workers, n))
    if kind == "subnormal":
        x *= 2.0**-128
    elif kind == "overflow":
        x *= 2.0 ** rng.integers(110, 126, (workers, n))
    elif kind == "special" and n:
        x[0, 0], x[-1, n // 2], x[0, -1] = np.nan, np.inf, -np.inf
        x[:, n // 3] = -0.0
    elif kind == "zeros":
        x[:] = 0.0
    with np.errstate(over="ignore"):
        return x.astype(np.float32)


@pytest.mark.parametrize("kind", ["random", "subnormal", "overflow", "special", "zeros"])
@pytest.mark.parametrize("spec", LEAVES)
def test_sums_are_those_of_the_definition(spec, kind):
    encode = LEAVES[spec]
    for workers, n in [(1, 7), (2, 64), (3, 100), (8, 129), (64, 200), (64, 40), (5, 0)]:
        x = inputs(kind, workers, n)
        found = apscope.exchange(spec, x, topology="two_phase")
        assert found.reduction == "two_phase"
        assert same(found.sent, [encode(row) for row in x] if n else np.empty((workers, 0)))
        assert same(found.reduced, reference.reduce(x, encode, encode)), (workers, n)


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        (",sum=bf16", {"sum_dtype": ml_dtypes.bfloat16}),
        (",sum=fp16", {"sum_dtype": np.float16}),
        (",sum=exact", {"sum_dtype": np.float64}),
        (",own=exact", {"own": True}),
        (",phase2=(none:bf16)", {"finish": reference.cast("bf16")}),
        (",phase2=(aps:e5m2,rule=tight)", {"finish": reference.scaled("e5m2")}),
        (",sum=bf16,own=exact,phase2=(none:e5m2)",
         {"sum_dtype": ml_dtypes.bfloat16, "own": True, "finish": reference.cast("e5m2")}),
    ],
)  # fmt: skip
def test_keys_of_the_topology(keys, options):
    for spec, (workers, n) in itertools.product(
        ["none:e4m3fn", "aps:e3m4,rule=tight,unit=32"], [(2, 64), (7, 100), (16, 33)]
    ):
        x, encode = inputs("random", workers, n), LEAVES[spec]
        given = {"finish": encode, **options}
        finish = given.pop("finish")
        found = apscope.exchange(spec, x, topology=f"two_phase{keys}")
        assert found.reduction == f"two_phase{keys}"
        assert same(found.reduced, reference.reduce(x, encode, finish, **given))


def test_a_reduce_scatter_is_the_first_half():
    for spec, encode in LEAVES.items():
        x = inputs("random", 6, 101)
        found = apscope.exchange(spec, x, topology="reduce_scatter")
        assert same(found.reduced, reference.reduce(x, encode, None))


@pytest.mark.parametrize(
    "spec",
    ["mx", "mx:block_format=mxfp4", "nvfp4", "qsgd:levels=7,bucket=64", "natural", "zipml:bucket=512"],
)  # fmt: skip
def test_any_encoding_has_two_phases(spec):
    """The messages are those of each worker alone, and the result is one of the encoding's own."""
    x = inputs("random", 4, 256)
    found = apscope.exchange(spec, x, topology="two_phase")
    for w in range(4):
        # Alone it draws as worker 0, so only what draws nothing is the same.
        alone = apscope.exchange(spec, x[w : w + 1])
        if alone.variance is None:
            assert same(found.sent[w], alone.sent[0])
    sums = apscope.exchange(spec, x, topology="reduce_scatter").reduced.astype(np.float32)
    if found.variance is None:
        for s in range(4):
            shard = slice(64 * s, 64 * (s + 1))
            assert same(found.reduced[shard], apscope.exchange(spec, sums[None, shard]).sent[0])


def test_a_row_keeps_its_length_in_a_shard():
    """A scale for each row of a matrix: in phase 2 for as many elements of the shard."""
    x = inputs("random", 3, 60).reshape(3, 6, 10)
    encode = reference.scaled("e3m4", 10)
    found = apscope.exchange("aps:e3m4,rule=tight,unit=row", x, topology="two_phase")
    assert same(found.reduced.ravel(), reference.reduce(x.reshape(3, 60), encode, encode))


def test_every_worker_and_shard_has_a_memory_of_its_own():
    """A scale from the amaxes of earlier steps, each worker's and each shard's."""
    rng = np.random.default_rng(0)
    spec, state = "delayed_scaling:e4m3fn,history=3", {}
    alone, halves = [{}, {}], [{}, {}]
    for step in range(6):
        x = (rng.standard_normal((2, 64)) * 4.0**-step).astype(np.float32)
        found = apscope.exchange(spec, x, step=step, state=state, topology="two_phase")
        sums = np.zeros(64, np.float32)
        for w in range(2):
            one = apscope.exchange(spec, x[w : w + 1], step=step, state=alone[w])
            alone[w] = one.state
            assert same(found.sent[w], one.sent[0])
            sums = sums + one.sent[0].astype(np.float32)
        for s in range(2):
            part = sums[None, 32 * s : 32 * s + 32]
            one = apscope.exchange(spec, part, step=step, state=halves[s])
            halves[s] = one.state
            assert same(found.reduced[32 * s : 32 * s + 32], one.sent[0])
        state = found.state
        assert {name.split("/")[0] for name in state} == {"phase1", "phase2"}


def test_a_replay_has_the_errors_of_exchange(tmp_path):
    rng = np.random.default_rng(1)
    x = {name: rng.standard_normal((4, *shape)).astype(np.float32)
         for name, shape in {"a.weight": (20, 30), "a.bias": (20,)}.items()}  # fmt: skip

    trace = record(tmp_path / "t", [x], "sum")
    specs = ["aps:e3m4,rule=tight", "mx", "error_feedback(aps:e3m0)"]
    frame = apscope.replay(trace, specs, topology=["ring", "two_phase"]).frame
    for spec, (name, rows) in itertools.product(specs, x.items()):
        found = apscope.exchange(spec, rows, tensor=name, topology="two_phase")
        row = frame.query(
            "scheme == @spec and tensor == @name and stage == 'reduced' and topology == 'two_phase'"
        )
        error = found.reduced - rows.astype(np.float64).sum(0)
        assert len(row) == 1
        assert row["sum_squared_error"].iloc[0] == pytest.approx((error**2).sum(), rel=1e-12)
    # The ring's rows are what they are without two phases.
    alone = apscope.replay(trace, specs, topology="ring").frame
    kept = frame[frame["topology"] != "two_phase"].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, alone, check_categorical=False)


@pytest.mark.parametrize("spec", ["multipoint", "residual(sign)", "residual(mx)"])
def test_parameters_of_each_worker_are_those_of_a_row_alone(spec):
    """Schemes that choose for every worker: in two phases each row, and each shard, is the only one."""
    x = np.random.default_rng(2).standard_normal((3, 50)).astype(np.float32)
    found = apscope.exchange(spec, x, topology="two_phase").reduced

    def alone(row):
        return np.asarray(apscope.exchange(spec, row[None]).reduced, np.float32)

    total = np.zeros(50, np.float32)
    for row in x:
        total += alone(row)
    wanted = np.concatenate([alone(shard) for shard in np.split(total, [17, 34])])
    assert np.array_equal(np.float32(found), wanted)


def test_every_scheme_has_its_rows_beside_a_ring(tmp_path):
    rng = np.random.default_rng(3)
    x = {"a.weight": rng.standard_normal((3, 12, 10)).astype(np.float32)}
    trace = record(tmp_path / "t", [x, x], "sum")
    for scheme in apscope.schemes.all_schemes():
        frame = apscope.replay(trace, [scheme], topology=["ring", "two_phase"]).frame
        assert (frame["stage"] == "reduced").any(), scheme.spec


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ("two_phase,sum=e9", "e9"),
        ("two_phase,phase=2", "its keys are sum="),
        ("two_phase,phase2=aps:e5m2", "as in phase2="),
        ("reduce_scatter,phase2=(aps:e5m2)", "own=encoded"),
        ("two_phase,own=exact,own=encoded", "has the key 'own' twice"),
        ("two_phase:4", "unknown topology"),
        ("two_phase,phase2=()", "as in phase2="),
        ("two_phase,phase2=(error_feedback(aps:e5m2))", "does more to a tensor"),
    ],
)
def test_refusals(topology, words):
    with pytest.raises(ValueError, match=words):
        apscope.exchange("aps:e4m3", np.ones((2, 3), np.float32), topology=topology)


def test_a_division_is_not_encoded_alone():
    x = inputs("random", 4, 100)
    for divide in ("before", "4"):
        spec = f"aps:e4m3,divide={divide}"
        found = apscope.exchange(spec, x, topology="two_phase").reduced
        assert same(found, apscope.exchange(spec, x, topology="fp32_accumulate").reduced)
        with pytest.raises(ValueError, match="divides in the format"):
            apscope.exchange(spec, x, topology="two_phase,own=exact")


@pytest.mark.parametrize("spec", ["bit_centering", "fractrain", "error_feedback(bit_centering)"])
def test_a_memory_that_only_an_exchange_keeps_has_its_own_reduction_alone(spec):
    given = {"loss": 1.0} if spec == "fractrain" else {}
    if "bit_centering" in spec:
        given["full_batch"] = inputs("random", 1, 64)[0]
    x = inputs("random", 2, 64)
    found = apscope.exchange(spec, x, topology="two_phase", **given)
    assert found.reduction == apscope.exchange(spec, x, topology="ring", **given).reduction


def test_a_scheme_of_phase_2_keeps_its_memory_in_a_replay(tmp_path):
    rng = np.random.default_rng(2)
    steps = [{"g": (rng.standard_normal((3, 50)) * 4.0**-t).astype(np.float32)} for t in range(4)]
    topology = "two_phase,phase2=(delayed_scaling:e4m3fn)"
    trace = record(tmp_path / "t", steps, "sum")
    frame = apscope.replay(trace, "none:fp32", topology=topology).frame
    rows = frame[(frame.stage == "reduced") & (frame.topology == topology)].set_index("step")
    state = {}
    for number, step in enumerate(steps):
        found = apscope.exchange(
            "none:fp32", step["g"], tensor="g", step=number, state=state, topology=topology
        )
        state = found.state
        error = found.reduced - step["g"].astype(np.float64).sum(0)
        assert rows.loc[number, "sum_squared_error"] == pytest.approx((error**2).sum(), rel=1e-9)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_workers_special_values_are_its_own(value):
    x = inputs("random", 3, 64)
    x[0, 0] = value
    for spec in ("delayed_scaling:e4m3fn", "current_scaling:e4m3fn,nonfinite=one"):
        state, alone = {}, {}
        for step in range(2):
            found = apscope.exchange(spec, x, step=step, state=state, topology="two_phase")
            one = apscope.exchange(spec, x[1:2], step=step, state=alone)
            state, alone = found.state, one.state
            assert same(found.sent[1], one.sent[0])


def test_a_topology_covers_all_tensors_of_a_policy_or_none(tmp_path):
    x = {name: inputs("random", 4, n) for name, n in {"a": 640, "b": 400}.items()}
    trace = record(tmp_path / "t", [x])
    spec = "hybrid(name:a=aps:e4m3;else=loss_scaling:e4m3,scale=largest)"
    frame = apscope.replay(trace, spec, topology=["ring", "two_phase", "two_phase,own=exact"]).frame
    assert set(frame.topology) == {"", "exact", "ring", "two_phase"}
    assert set(frame.loc[frame.topology == "two_phase", "tensor"]) == {"a", "b"}


def test_phase_2_alone_may_draw(tmp_path):
    trace = record(tmp_path / "t", [{"g": inputs("random", 4, 200)}])
    topology = "two_phase,phase2=(stochastic:e4m3fn)"
    frame = apscope.replay(trace, "none:bf16", topology=topology, draws=8).frame
    row = frame[(frame.stage == "reduced") & (frame.topology == topology)]
    assert row[["expected_bias", "expected_variance"]].notna().all(axis=None)
    assert (row["expected_variance"] > 0).all()


#: Error over noise of the typical block: aps:FORMAT,rule=tight in a ring and in two phases with a
#: scale a tensor, and for 32 elements (16 with 4 bits) in two phases.
FRONT = {
    "digits_w64": {"e4m3fn": (0.0143, 0.00185), "e3m4": (0.143, 0.00050, 0.00047),
                   "e2m5": (1.27, 0.00098, 0.00024), "4 bits": (1.54, 0.035)},
    "characters": {"e4m3fn": (0.0059, 0.0021), "e3m4": (0.0034, 0.00061, 0.00053),
                   "e2m5": (0.075, 0.0015, 0.00026), "4 bits": (0.91, 0.039)},
    "resnet18": {"e4m3fn": (0.0028, 0.0011), "e3m4": (0.0139, 0.00039, 0.00028),
                 "e2m5": (0.300, 0.0029, 0.00012), "4 bits": (0.82, 0.021)},
    "gpt": {"e4m3fn": (0.0155, 0.0046), "e3m4": (0.0787, 0.0062, 0.00114),
            "e2m5": (0.939, 0.0288, 0.00061), "4 bits": (3.04, 0.085)},
}  # fmt: skip


@pytest.mark.parametrize("name", FRONT)
def test_two_phases_err_less_than_a_ring_with_the_same_bytes(name):
    trace = ROOT / "notebooks/data" / name
    specs = [f"aps:{f},rule=tight{u}" for f in ("e4m3fn", "e3m4", "e2m5") for u in ("", ",unit=32")]
    specs += ["aps:e3m0", "aps:e2m1fn,rule=tight,unit=16"]
    found = apscope.replay(trace, specs, topology=["ring", "two_phase"]).summary()
    error = found.set_index(["scheme", "topology"])["error_over_noise"]
    volume = found.set_index(["scheme", "topology"])["volume"]
    for f, wanted in FRONT[name].items():
        if f == "4 bits":
            got = [error["aps:e3m0", "ring"], error["aps:e2m1fn,rule=tight,unit=16", "two_phase"]]
        else:
            spec = f"aps:{f},rule=tight"
            got = [error[spec, "ring"], error[spec, "two_phase"],
                   error[f"{spec},unit=32", "two_phase"]][: len(wanted)]  # fmt: skip
            # In either phase a scale goes with each of 63 messages on digits_w64.
            assert volume[spec, "two_phase"] == pytest.approx(volume[spec, "ring"], rel=0.25)
        assert got == pytest.approx(wanted, rel=0.06), f
        assert got[0] > 2.1 * got[1]
