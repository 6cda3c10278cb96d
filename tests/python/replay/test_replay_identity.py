"""One replay, however it is run: threads, instruction sets and shards give the same bytes."""

import json
import math
import shlex

import numpy as np
import pytest

import apscope
from apscope import _core
from apscope.cli import main
from apscope.record import TraceWriter

TRACES = ["notebooks/data/digits", "notebooks/data/digits_w64", "notebooks/data/characters"]
SCHEMES = [
    "aps:e4m3",
    "aps:e5m2,rounding=stochastic",
    "loss_scaling:fp16,scale=1000",
    "stochastic:bf16,random_bits=8",
    "qsgd",
    "none:hfp8_forward",
    "aps:e3m0,rounding=to_odd,accumulate=fp32",
]
TOPOLOGIES = ["sequential", "ring", "tree", "hierarchical:3", "sequential+kahan"]
LEVELS = ["portable", "sse4", "avx2", "avx512"]


@pytest.fixture(scope="module")
def traces(request):
    return [str(request.config.rootpath / t) for t in TRACES]


def run(traces, **options):
    options.setdefault("topology", TOPOLOGIES)
    return apscope.replay(traces, SCHEMES, **options)


def csv_bytes(results, folder):
    results.save(folder)
    return (folder / "results.csv").read_bytes()


@pytest.fixture(scope="module")
def whole(traces, tmp_path_factory):
    return csv_bytes(run(traces, threads=1), tmp_path_factory.mktemp("whole"))


def test_threads_change_nothing(traces, whole, tmp_path):
    assert csv_bytes(run(traces, threads=2), tmp_path / "two") == whole
    assert csv_bytes(run(traces, threads=5), tmp_path / "five") == whole


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_three_shards_merged_change_nothing(traces, whole, tmp_path, order):
    folders = []
    for shard in order:
        results = run(traces, shard=(shard, 3))
        folders.append(results.save(tmp_path / str(shard)))
    merged = apscope.merge(folders)
    assert csv_bytes(merged, tmp_path / "merged") == whole
    assert merged.provenance["shard"] == [0, 1]
    assert "--shard" not in merged.provenance["command"]


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_a_shard_of_late_steps_alone_is_part_of_the_whole(steps):
    """Of so many workers a step is a group by itself, which the next group waits for."""
    draw = np.random.default_rng(0)
    trace = [{"w": draw.standard_normal((128, 4), np.float32)} for _ in range(steps)]
    shards = [
        apscope.replay(trace, "aps:e4m3", topology="ring", shard=(i, steps)) for i in range(steps)
    ]
    assert [set(shard.frame["step"]) for shard in shards] == [{i} for i in range(steps)]
    whole = apscope.replay(trace, "aps:e4m3", topology="ring")
    assert apscope.merge(shards).frame.equals(whole.frame)


def test_traces_one_by_one_and_merged_change_nothing(traces, whole, tmp_path):
    parts = [run([t]) for t in traces]
    assert csv_bytes(apscope.merge(parts), tmp_path) == whole


def test_histograms_merge_too(traces):
    whole = run(traces[:1])
    parts = apscope.merge([run(traces[:1], shard=(i, 2)) for i in range(2)])
    assert parts.histograms.equals(whole.histograms)
    assert whole.histograms["count"].sum() == 52 * 8 * 1906


@pytest.mark.parametrize("split", [(1, 3), (3, 1)])
def test_schemes_one_after_the_other_and_merged_change_nothing(traces, tmp_path, split):
    """Results of the same traces, some of them in shards."""
    specs = [
        "aps:e4m3",
        "stochastic:e5m2",
        "hybrid(last=qsgd;else=aps:e4m3)",
        "dynamic_loss_scaling:e4m3",
    ]
    options = {"topology": ["ring", "tree"], "steps": "0:11", "draws": 3}
    whole = apscope.replay(traces[:2], specs, **options)
    one, other = specs[: split[0]], specs[split[0] :]
    shards = [apscope.replay(traces[:2], other, **options, shard=(i, 2)) for i in (1, 0)]
    merged = apscope.merge([apscope.replay(traces[:2], one, **options), *shards])
    assert merged.provenance["schemes"] == specs and merged.histograms.equals(whole.histograms)
    assert csv_bytes(merged, tmp_path / "merged") == csv_bytes(whole, tmp_path / "whole")
    assert merged.provenance["command"].count(" && ") == 1


def test_schemes_that_overlap_or_are_missing_are_not_merged(traces):
    replay = lambda trace, *specs: apscope.replay(
        trace, list(specs), topology="ring", steps="0:11", tensors="bias"
    )
    with pytest.raises(
        ValueError,
        match=r"scheme 'aps:e4m3' is in more than one of the results "
        r"of trace 'digits': its rows overlap",
    ):
        apscope.merge([replay(traces[0], "aps:e4m3", "none:bf16"), replay(traces[0], "aps:e4m3")])
    with pytest.raises(
        ValueError, match="differ in their schemes .* every trace needs the same ones"
    ):
        apscope.merge(
            [
                replay(traces[0], "aps:e4m3"),
                replay(traces[0], "none:bf16"),
                replay(traces[1], "aps:e4m3"),
            ]
        )
    four = [replay(trace, spec) for trace in traces[:2] for spec in ("aps:e4m3", "none:bf16")]
    assert apscope.merge(four).frame.equals(replay(traces[:2], "aps:e4m3", "none:bf16").frame)


def test_merge_refuses_what_does_not_fit(traces):
    one, two = (run(traces[:1], shard=(i, 3)) for i in (0, 2))
    with pytest.raises(ValueError, match="shard 1/3 is missing"):
        apscope.merge([one, two])
    with pytest.raises(ValueError, match="shard 0/3 is given 2 times"):
        apscope.merge([one, one, two])
    with pytest.raises(ValueError, match="overlapping rows"):
        apscope.merge([run(traces[:1]), run(traces[:1], steps="0:3")])
    with pytest.raises(ValueError, match="differ in their seed"):
        apscope.merge([one, run(traces[:1], shard=(1, 3), seed=1)])
    with pytest.raises(ValueError, match="different splits"):
        apscope.merge([one, run(traces[:1], shard=(1, 2))])
    with pytest.raises(ValueError, match="nothing to merge"):
        apscope.merge([])


def test_a_shard_of_a_selection_keeps_stateful_scales(traces):
    scheme = "dynamic_loss_scaling:e4m3"
    whole = apscope.replay(traces[0], scheme, topology="tree").frame
    part = apscope.replay(traces[0], scheme, topology="tree", shard=(4, 7)).frame
    merged = whole.merge(part, on=["step", "tensor", "stage", "topology"], suffixes=("", "_part"))
    assert len(merged) == len(part) > 0
    assert (merged["scale_exponent"] == merged["scale_exponent_part"]).all()
    assert (merged["skipped"] == merged["skipped_part"]).all()


def test_the_seed_moves_stochastic_rows_only(traces):
    a, b = (
        apscope.replay(traces[0], ["aps:e4m3", "stochastic:e4m3"], topology="ring", seed=s).frame
        for s in (0, 1)
    )
    same = a["sum_error"].eq(b["sum_error"])
    assert same[a["scheme"] == "aps:e4m3"].all()
    assert not same[a["scheme"] == "stochastic:e4m3"].any()


def test_selection_defines_what_the_replay_knows(traces):
    # scale=largest depends on the selected steps and tensors only.
    all_of = apscope.replay(traces[0], "loss_scaling:e4m3,scale=largest", topology=[]).frame
    some = apscope.replay(
        traces[0],
        "loss_scaling:e4m3,scale=largest",
        topology=[],
        tensors="norm",
        steps="1150:",
        workers=3,
    ).frame
    assert set(some["tensor"]) == {"norm.weight", "norm.bias"}
    assert set(some["step"]) == {1150, 1500, 2000}
    assert (some["workers"] == 3).all()
    assert some["scale_exponent"].iloc[0] > all_of["scale_exponent"].iloc[0]


@pytest.mark.parametrize(
    "options",
    [
        {"steps": [3, 0, 1150]},
        {"steps": [3]},
        {"steps": "0,3"},
        {"steps": slice(-5, 2)},
        {"steps": "0:2", "tensors": "-|head", "topology": []},
        {"steps": "1150:", "workers": 3, "seed": 9, "draws": 3},
    ],
)
def test_the_recorded_command_repeats_the_run(traces, options, tmp_path, capsys):
    results = apscope.replay(
        traces[0], ["stochastic:e4m3", "none:e5m2"], **{"topology": ["tree"], **options}
    )
    results.save(tmp_path / "run")
    command = shlex.split(results.provenance["command"])
    assert command[0] == "apscope"
    assert main([*command[1:], "-o", str(tmp_path / "again")]) == 0, capsys.readouterr().err
    for name in ("results.csv", "results.parquet", "histograms.parquet"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes(), (
            name
        )


def test_steps_may_come_from_an_iterator(traces):
    listed, drawn = (
        apscope.replay(traces[0], "none:e4m3", topology=[], steps=s)
        for s in ([0, 1], iter([1, 0, 1]))
    )
    assert drawn.frame.equals(listed.frame) and drawn.provenance == listed.provenance


def test_merging_merged_results_keeps_every_command(traces):
    parts = [apscope.replay(t, "none:e4m3", topology=[], tensors="bias") for t in traces]
    at_once = apscope.merge(parts)
    in_turn = apscope.merge([apscope.merge(parts[:2]), parts[2]])
    assert (
        in_turn.provenance["command"]
        == at_once.provenance["command"]
        == " && ".join(p.provenance["command"] for p in parts)
    )


def test_a_trace_without_a_step_is_refused(tmp_path):
    manifest = {
        "schema_version": 1,
        "stage": "local",
        "reduction": "mean",
        "workers": 2,
        "tensors": [],
        "steps": [],
    }
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/manifest.json").write_text(json.dumps(manifest))
    for steps in (None, "0:3", [1]):
        with pytest.raises(ValueError, match="'empty' has no complete step"):
            apscope.replay(tmp_path / "empty", "none:e4m3", steps=steps)


def test_a_diverged_loss_keeps_the_provenance_json(tmp_path):
    with TraceWriter(tmp_path / "t", workers=1) as writer:
        for step, loss in enumerate((1.0, math.inf, math.nan)):
            writer.add(step, 0, "a", np.ones(2, np.float32))
            writer.end_step(step, loss=loss)
    folder = apscope.replay(tmp_path / "t", "none:e4m3").save(tmp_path / "r")

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    provenance = json.loads((folder / "provenance.json").read_text(), parse_constant=refuse)
    assert provenance["traces"][0]["loss"] == [1.0, "Infinity", "NaN"]


def test_a_folder_in_the_place_of_a_file_is_refused_and_nothing_changes(traces, tmp_path):
    results = apscope.replay(traces[0], "none:e4m3", topology=[], steps="0:1")
    (tmp_path / "histograms.parquet").mkdir()
    with pytest.raises(ValueError, match="histograms.parquet is a folder"):
        results.save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["histograms.parquet"]


def test_every_scheme_is_the_same_on_every_instruction_set(traces, tmp_path):
    best = _core.best_simd_level()
    every = [*apscope.schemes.all_schemes(), *map(apscope.schemes.as_scheme, SCHEMES)]
    specs = list(dict.fromkeys(scheme.spec for scheme in every))
    found = {}
    for level in LEVELS[: LEVELS.index(best) + 1]:
        _core.set_simd_level(level)
        try:
            for threads in (1, 2) if level == best else (2,):
                results = apscope.replay(traces[1], specs, topology=TOPOLOGIES, threads=threads)
                found[level, threads] = csv_bytes(results, tmp_path / f"{level}_{threads}")
        finally:
            _core.set_simd_level(best)
    assert len(set(found.values())) == 1, {run: hash(found[run]) for run in found}
