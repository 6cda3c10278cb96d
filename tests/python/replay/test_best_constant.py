"""`scale=best` against a plain loop that replays every constant and reads its figure."""

import json

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope.cli import main
from apscope.record import TraceWriter

BELOW = 2  # docs/definitions.md, section 8


def exponent(results, topology):
    """The shift of `scale=best` for a topology, in every row of it."""
    frame = results.frame
    (found,) = set(frame.loc[frame["topology"] == topology, "scale_exponent"].dropna())
    return int(found)


def figures_of(results, topology, figure):
    """The figure of every scheme, by its canonical spec; infinite with overflow."""
    table = results.summary().set_index("scheme")
    table = table[table["topology"] == topology]
    return table[figure].mask(table["overflowed"] > 0, float("inf")).to_dict()


def start_of(trace, keys):
    """The largest exponent that fits into a format."""
    largest = apscope.replay(
        trace, f"loss_scaling:{keys},scale=largest,rule=tight", topology="ring"
    )
    return int(largest.frame["scale_exponent"].dropna().iloc[0])


def by_loop(trace, keys, topology, figure, binades=24, accumulate=None):
    """The exponent with the least figure among all that are defined, by replaying each.

    `accumulate`: a format into which the sums must fit, too.
    """
    spec = f"loss_scaling:{keys},scale={{}}"
    start = start_of(trace, keys)
    if accumulate is not None and topology != "exact":
        start = min(start, start_of(trace, accumulate))
    tried = range(start - BELOW, start + binades)
    specs = {k: spec.format(2.0**k) for k in tried}
    results = apscope.replay(trace, list(specs.values()), topology=topology)
    figures = figures_of(results, topology, figure)
    found = {k: figures[apscope.schemes.as_scheme(specs[k]).spec] for k in tried}
    least = min(found.values())
    # Equal but for the last bits: equal sums, added in another order. Then the nearest to the
    # start.
    level = [k for k in tried if found[k] <= least * (1 + 1e-14)]
    return min(level, key=lambda k: (abs(k - start), k))


def written(path, workers, seed):
    """A trace of random gradients whose magnitudes span many binades."""
    random = np.random.default_rng(seed)
    with TraceWriter(path, workers=workers, reduction="mean") as writer:
        for step in range(3):
            for worker in range(workers):
                for name, shape in (("conv", (5, 7)), ("norm", (3,)), ("head", (9000,))):
                    spread = np.exp2(3 * random.standard_normal(shape) - 9)
                    g = (random.standard_normal(shape) * spread).astype(np.float32)
                    writer.add(step, worker, name, g)
            writer.end_step(step)
    return path


FORMATS = ("e3m4", "e2m5", "e4m3fn", "e5m2", "e2m1fn", "e3m0")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("by", ["error_over_noise", "step_nmse"])
def test_the_best_constant_is_that_of_the_loop_over_all(digits, name, by):
    trace = apscope.open_trace(digits)
    keys = f"{name},overflow=saturate"
    best = apscope.replay(trace, f"loss_scaling:{keys},scale=best,by={by}", topology=["ring"])
    for topology in ("ring", "exact"):
        assert exponent(best, topology) == by_loop(trace, keys, topology, by), topology


@pytest.mark.parametrize("by", ["", ",by=error_over_noise"])
@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize(
    "keys",
    [
        "e3m4,overflow=saturate",
        "e3m4",
        "e2m2,overflow=saturate,accumulate=fp32",
        "e3m2fn,overflow=saturate,accumulate=exact",
        "e4m3,overflow=saturate,rounding=stochastic",
        "e2m3fn,overflow=saturate,hop_rounding=toward_zero,accumulate=bf16",
    ],
)
def test_every_reduction_and_rounding_has_its_own_best(tmp_path, workers, keys, by):
    trace = written(tmp_path / "t", workers, seed=workers)
    topologies = ["ring", "tree", "sequential+kahan", "pat", "fp32_accumulate", "nccl:nvls"]
    best = apscope.replay(trace, f"loss_scaling:{keys},scale=best{by}", topology=topologies)
    # One worker has no noise.
    figure = "error_over_noise" if by and workers > 1 else "step_nmse"
    for topology in (*topologies, "exact"):
        assert exponent(best, topology) == by_loop(trace, keys, topology, figure), topology


@pytest.mark.parametrize("divide", ["before", "sqrt", "fsdp", "4", "64"])
@pytest.mark.parametrize("workers", [3, 6])
def test_a_division_in_the_format_has_its_own_best(tmp_path, workers, divide):
    trace = written(tmp_path / "t", workers, seed=workers)
    for keys in ("e3m4,overflow=saturate", "e2m3fn,overflow=saturate,accumulate=bf16"):
        keys = f"{keys},divide={divide}"
        best = apscope.replay(
            trace, f"loss_scaling:{keys},scale=best,by=step_nmse", topology=["ring"]
        )
        for topology in ("ring", "exact"):
            assert exponent(best, topology) == by_loop(trace, keys, topology, "step_nmse"), topology


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("topology", ["ring", "sequential+kahan"])
@pytest.mark.parametrize(
    ("name", "accumulate"),
    [
        ("e5m3", "e2m4"),
        ("e5m3", "e3m2"),
        ("e5m3", "e2m1fn"),
        ("e2m5", "e3m0"),
        ("e2m3fn", "e2m1fn"),
    ],
)
def test_sums_in_a_narrower_format_have_their_own_best(
    tmp_path, workers, topology, name, accumulate
):
    """Of one worker nothing is rounded to it; of several, sums must fit into it."""
    trace = written(tmp_path / "t", workers, seed=7)
    keys = f"{name},overflow=saturate,accumulate={accumulate}"
    best = apscope.replay(
        trace, f"loss_scaling:{keys},scale=best,by=step_nmse", topology=[topology]
    )
    narrow = accumulate if workers > 1 else None
    for place in (topology, "exact"):
        found = by_loop(trace, keys, place, "step_nmse", 40, narrow)
        assert exponent(best, place) == found, place


def test_its_rows_are_those_of_the_constant(digits):
    best = apscope.replay(
        digits, "loss_scaling:e3m4,scale=best,overflow=saturate", topology=["ring", "tree"]
    )
    for topology in ("ring", "tree", "exact"):
        scale = 2.0 ** exponent(best, topology)
        fixed = apscope.replay(
            digits, f"loss_scaling:e3m4,scale={scale},overflow=saturate", topology=["ring", "tree"]
        ).frame
        own = best.frame[best.frame["topology"] == topology].drop(columns="scheme")
        for stage, named in (("wire", ""), ("reduced", topology)):
            wanted = fixed[(fixed["stage"] == stage) & (fixed["topology"] == named)]
            found = own[own["stage"] == stage].assign(topology=named)
            found = found.astype({"topology": wanted["topology"].dtype})
            pd.testing.assert_frame_equal(
                found.reset_index(drop=True), wanted.drop(columns="scheme").reset_index(drop=True)
            )


def test_threads_and_shards_change_nothing(tmp_path):
    trace = written(tmp_path / "t", 4, seed=9)
    spec = "loss_scaling:e3m4,scale=best,overflow=saturate"
    one = apscope.replay(trace, spec, topology=["ring"], threads=1).frame
    assert apscope.replay(trace, spec, topology=["ring"], threads=4).frame.equals(one)
    parts = [apscope.replay(trace, spec, topology=["ring"], shard=(i, 3)) for i in range(3)]
    assert apscope.merge(parts).frame.equals(one)


def test_a_policy_searches_over_its_own_items(tmp_path):
    trace = written(tmp_path / "t", 3, seed=2)
    best = "loss_scaling:e3m4,scale=best,overflow=saturate"
    mixed = apscope.replay(
        trace, f"hybrid(name:head={best};else=none:fp32)", topology=["ring"]
    ).frame
    alone = apscope.replay(trace, best, topology=["ring"], tensors="head").frame
    own = mixed[mixed["tensor"] == "head"].reset_index(drop=True).drop(columns="scheme")
    assert own.equals(alone.drop(columns="scheme"))


def test_without_anything_to_lose_the_scale_is_1(tmp_path):
    with TraceWriter(tmp_path / "t", workers=2) as writer:
        for worker in range(2):
            writer.add(0, worker, "w", np.zeros(5, np.float32))
        writer.end_step(0)
    best = apscope.replay(tmp_path / "t", "loss_scaling:e3m4,scale=best,overflow=saturate")
    assert set(best.frame["scale_exponent"].dropna()) == {0}


def test_an_exchange_searches_for_one_tensor():
    random = np.random.default_rng(4)
    spread = np.exp2(3 * random.standard_normal(500))
    x = (random.standard_normal((3, 500)) * spread).astype(np.float32)
    spec = "loss_scaling:e2m1fn,overflow=saturate,scale={}"
    found = apscope.exchange(spec.format("best,by=step_nmse"), x, topology="ring")
    errors = {}
    for k in range(-12, 13):
        y = apscope.exchange(spec.format(2.0**k), x, topology="ring")
        errors[k] = np.square(y.reduced - x.sum(axis=0, dtype=np.float64)).sum()
    assert found.scale_exponent == min(errors, key=errors.get)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("loss_scaling:e3m4,scale=best,rule=tight", "rule=tight belongs to scale=largest"),
        ("loss_scaling:e3m4,scale=best,headroom=one", "headroom=one belongs to scale=largest"),
        ("loss_scaling:e3m4,by=error_over_noise", "by=error_over_noise belongs to scale=best"),
        ("loss_scaling:e3m4,scale=best,by=cosine", "by=cosine"),
        ("loss_scaling:e3m4,scale=middle", "scale=middle.*largest, best or a positive"),
    ],
)
def test_keys_of_another_scale_are_refused_in_a_sentence(spec, says):
    with pytest.raises(ValueError, match=says) as error:
        apscope.schemes.as_scheme(spec)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "inner",
    [
        "loss_scaling:e3m4,scale=best",
        "loss_scaling:e3m4,scale=largest",
        "dynamic_loss_scaling:e3m4",
        "aps:e3m4,unit=model",
    ],
)
@pytest.mark.parametrize(
    "outer", ["error_feedback({})", "residual({})", "hybrid(last=error_feedback({});else=sign)"]
)
def test_a_scheme_around_a_scale_of_several_tensors_is_refused(inner, outer):
    words = "one scale for several tensors.*loss_scaling with a number as scale"
    with pytest.raises(ValueError, match=words):
        apscope.schemes.as_scheme(outer.format(inner))


@pytest.mark.parametrize(
    "inner",
    [
        "aps:e3m4,delay=1",
        "aps:e3m4,frozen=3",
        "adaptive_loss_scaling:e3m4,interval=2",
        "delayed_scaling:e4m3fn",
        "fp8_allreduce:e4m3fn",
    ],
)
def test_error_feedback_keeps_the_memory_of_a_scale(tmp_path, inner):
    """Without anything carried over the rows are the scheme's own, at every step."""
    trace = written(tmp_path / "t", 3, seed=5)
    own = apscope.replay(trace, inner, topology=["ring", "tree"]).frame
    around = apscope.replay(
        trace, f"error_feedback({inner}),decay=0", topology=["ring", "tree"]
    ).frame
    columns = ["stage", "topology", "step", "tensor", "nmse", "scale_exponent"]
    pd.testing.assert_frame_equal(around[columns], own[columns])


#: No rung of the ladder, but a scheme that it could have.
BY_NOISE = "best constant by error over noise"
#: Error over noise and step NMSE of constants and of APS, as another programme measured them: the
#: largest that never saturates; the best by NMSE and by error over noise, with its scale; one per
#: layer.
MEASURED = {
    ("digits", "e3m4"): {
        "largest constant": (None, 0.019, 0.109),
        "best constant": (8, 0.0035, 0.018),
        BY_NOISE: (8, 0.0035, 0.018),
        "layer": (None, 0.0036, 0.0013),
    },
    ("characters", "e3m4"): {
        "largest constant": (None, 0.033, 0.0058),
        BY_NOISE: (64, 0.0021, 0.081),
        "best constant": (8, 0.0103, 0.0021),
        "layer": (None, 0.0034, 0.0019),
    },
    ("resnet18", "e3m4"): {
        "largest constant": (None, 0.197, 0.104),
        BY_NOISE: (64, 0.0021, 0.115),
        "best constant": (8, 0.0128, 0.0090),
        "layer": (None, 0.0140, 0.0047),
    },
    ("gpt", "e3m4"): {
        "largest constant": (None, 2.51, 0.0774),
        BY_NOISE: (1024, 0.0099, 0.583),
        "best constant": (32, 0.445, 0.0093),
        "layer": (None, 0.0788, 0.0159),
    },
    ("digits", "e2m5"): {
        "largest constant": (None, 0.35, 0.218),
        BY_NOISE: (4, 0.013, 0.12),
        "layer": (None, 0.077, 0.028),
    },
}


@pytest.mark.parametrize(("trace", "name"), MEASURED)
def test_the_ladder_has_constants_that_clip_as_measured_elsewhere(request, capsys, trace, name):
    path = str(request.config.rootpath / "notebooks/data" / trace)
    assert main(["ladder", path, "--formats", name, "--topology", "ring", "--json"]) == 0
    rows = {row["rung"]: row for row in json.loads(capsys.readouterr().out)}
    spec = f"loss_scaling:{name},scale=best,overflow=saturate,by=error_over_noise"
    results = apscope.replay(path, spec, topology="ring")
    (row,) = results.summary().query("topology == 'ring'").to_dict("records")
    rows[BY_NOISE] = row | {"scale_exponent": exponent(results, "ring")}
    for rung, (scale, noise, nmse) in MEASURED[trace, name].items():
        row = rows[rung]
        if scale is not None:
            assert row["scale_exponent"] == np.log2(scale), rung
        # Two digits are known of most.
        assert row["error_over_noise"] == pytest.approx(noise, rel=0.05), rung
        assert row["step_nmse"] == pytest.approx(nmse, rel=0.05), rung
