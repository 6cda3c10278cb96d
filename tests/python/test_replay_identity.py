"""One replay, however it is run: threads, instruction sets and shards give the same bytes."""

import itertools

import pytest

import apscope
from apscope import _core

TRACES = ["notebooks/data/digits", "notebooks/data/digits_w64", "notebooks/data/characters"]
SCHEMES = ["aps:e4m3", "aps:e5m2,rounding=stochastic", "loss_scaling:fp16,scale=1000", "stochastic:bf16,random_bits=8", "qsgd",
           "none:hfp8_forward", "aps:e3m0,rounding=to_odd,accumulate=fp32"]
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


@pytest.mark.parametrize("level", LEVELS)
def test_instruction_sets_change_nothing(traces, whole, tmp_path, level):
    best = _core.best_simd_level()
    if LEVELS.index(level) > LEVELS.index(best):
        pytest.skip(f"this machine's best instruction set is {best}")
    _core.set_simd_level(level)
    try:
        assert _core.simd_level() == level
        assert csv_bytes(run(traces), tmp_path) == whole
    finally:
        _core.set_simd_level(best)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3)))[:3])
def test_three_shards_merged_change_nothing(traces, whole, tmp_path, order):
    folders = []
    for shard in order:
        results = run(traces, shard=(shard, 3))
        folders.append(results.save(tmp_path / str(shard)))
    merged = apscope.merge(folders)
    assert csv_bytes(merged, tmp_path / "merged") == whole
    assert merged.provenance["shard"] == [0, 1]
    assert "--shard" not in merged.provenance["command"]


def test_traces_one_by_one_and_merged_change_nothing(traces, whole, tmp_path):
    parts = [run([t]) for t in traces]
    assert csv_bytes(apscope.merge(parts), tmp_path) == whole


def test_histograms_merge_too(traces):
    whole = run(traces[:1])
    parts = apscope.merge([run(traces[:1], shard=(i, 2)) for i in range(2)])
    assert parts.histograms.equals(whole.histograms)
    assert whole.histograms["count"].sum() == 52 * 8 * 1906


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
    a, b = (apscope.replay(traces[0], ["aps:e4m3", "stochastic:e4m3"], topology="ring", seed=s).frame for s in (0, 1))
    same = a["sum_error"].eq(b["sum_error"])
    assert same[a["scheme"] == "aps:e4m3"].all()
    assert not same[a["scheme"] == "stochastic:e4m3"].any()


def test_selection_defines_what_the_replay_knows(traces):
    # scale=best depends on the selected steps and tensors only.
    all_of = apscope.replay(traces[0], "loss_scaling:e4m3,scale=best", topology=[]).frame
    some = apscope.replay(traces[0], "loss_scaling:e4m3,scale=best", topology=[], tensors="norm", steps="1150:", workers=3).frame
    assert set(some["tensor"]) == {"norm.weight", "norm.bias"}
    assert set(some["step"]) == {1150, 1500, 2000}
    assert (some["workers"] == 3).all()
    assert some["scale_exponent"].iloc[0] > all_of["scale_exponent"].iloc[0]
