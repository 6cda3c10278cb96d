"""Errors summed over windows of consecutive steps, against NumPy on the results of exchanges."""

import json
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._results.persistence import LENGTHS
from apscope._results.summary import COLUMNS
from apscope.cli import main
from tests.python.altered import altered
from tests.python.recorded import record
from tests.reference.noise import BLOCK, noise_of

#: Runs of 12, 1 and 4 steps: the windows of 3 begin at 0, 3, 6, 9 and 31, that of 10 at 0.
STEPS = (*range(12), 20, *range(31, 35))
SIZES = {"long": (8, 515), "short": (37,), "zero": (64,), "none": (0,)}
SCHEMES = (
    "none:e3m4",
    "aps:e3m4,rounding=stochastic",
    "dynamic_loss_scaling:e4m3,init=64,growth_interval=3",
    "qsgd:levels=3",
    "error_feedback(sign)",
    "mx",
)
TOPOLOGIES = ("ring", "two_phase")


def gradients(workers, step, name):
    random = np.random.default_rng([workers, step, len(name)])
    shape = SIZES[name]
    x = random.normal(0.3, 1.0, (workers, *shape)) * 2.0 ** random.uniform(-9, 0, shape)
    x = x.astype(np.float32)
    if name == "zero":
        x[:] = 0
    if name == "short" and step in (4, 32):
        x[0, 3] = np.nan
    if name == "short" and step == 9:
        x[-1, 5] = 60.0  # e3m4 overflows, and a scale that grew
    return x


def written(path, workers, steps=STEPS, **options):
    own = {step: {name: gradients(workers, step, name) for name in SIZES} for step in steps}
    record(path, own, **options)
    return path


def blocks_of(x):
    return [x[i : i + BLOCK] for i in range(0, len(x), BLOCK)]


def errors_of(scheme, topology, workers, steps, name, mean):
    """Per step: the error of every element, and whether one overflowed."""
    return {
        step: (y - reference, overflows)
        for step, (reference, y, overflows) in results_of(
            scheme, topology, workers, steps, name, mean
        ).items()
    }


def results_of(scheme, topology, workers, steps, name, mean):
    """Per step: reference and result of every element, 0 where one is not finite, and whether a
    result overflowed."""
    state, found = None, {}
    for index, step in enumerate(steps):
        x = gradients(workers, step, name)
        made = apscope.exchange(
            scheme, x, topology=topology if topology in TOPOLOGIES else "exact", state=state,
            step=step, index=index, tensor=name,
        )  # fmt: skip
        state = made.state
        reference = y = np.zeros(x.shape[1:])
        for worker in range(workers):
            reference = reference + x[worker].astype(float)
            with np.errstate(invalid="ignore"):
                y = y + made.sent[worker]
        if topology != "exact":
            y = made.reduced
        if made.skipped:
            y = np.zeros_like(y)
        if mean:
            reference, y = reference / workers, y / workers
        finite = np.isfinite(reference) & np.isfinite(y)
        over = bool((np.isfinite(reference) & ~finite).any())
        found[step] = *(np.where(finite, v, 0.0).ravel() for v in (reference, y)), over
    return found


def windows_of(errors, noise):
    """(first step, steps) -> squared error, noise, blocks, sum of log2."""
    runs, found = [], {}
    for step in errors:
        if runs and step == runs[-1][-1] + 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    for run in runs:
        for k in LENGTHS:
            for at in range(0, len(run) - k + 1, k):
                window = run[at : at + k]
                e = sum(errors[step][0] for step in window)
                n = sum(noise[step] for step in window)
                over = any(errors[step][1] for step in window)
                q = [
                    math.log2(max(float((block**2).sum()) / at, 2.0**-30))
                    for block, at in zip(blocks_of(e), n)
                    if at > 0
                ]
                found[window[0], k] = (
                    math.inf if over else float((e**2).sum()), float(n.sum()), len(q),
                    math.inf if over else math.fsum(q),
                )  # fmt: skip
    return found


@pytest.mark.parametrize("workers, mean", [(2, True), (8, True), (3, False)])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_windows_are_those_of_numpy(tmp_path, workers, mean, scheme):
    reduction = "mean" if mean else "sum"
    trace = written(tmp_path / "t", workers, reduction=reduction)
    for name in ("long", "short", "zero"):  # each alone: a dynamic scale is that of all tensors
        results = apscope.replay(
            trace, scheme, topology=TOPOLOGIES, tensors=f"^{name}$", persistence=True
        )
        own = {step: gradients(workers, step, name).reshape(workers, -1) for step in STEPS}
        noise = {step: noise_of(g, reduction) for step, g in own.items()}
        rows = results.persistence
        reduced = results.frame[results.frame["stage"] == "reduced"]
        assert set(rows["topology"]) == set(reduced["topology"]) >= {"exact"}
        assert set(rows["steps"]) == {1, 3, 10} and set(rows["tensor"]) == {name}
        for topology, of in rows.groupby("topology"):
            errors = errors_of(scheme, topology, workers, STEPS, name, mean)
            wanted = windows_of(errors, noise)
            assert len(of) == len(wanted) == 17 + 5 + 1
            for one in of.to_dict("records"):
                square, total, blocks, logs = wanted[one["step"], one["steps"]]
                place = (topology, name, one["step"], one["steps"])
                assert one["sum_squared_error"] == pytest.approx(square, rel=1e-11), place
                assert one["sum_noise"] == pytest.approx(total, rel=1e-11), place
                assert one["noise_blocks"] == blocks, place
                assert one["sum_log2_error_over_noise"] == pytest.approx(logs, abs=1e-7), place


def test_the_trace_has_what_the_windows_are_about(tmp_path):
    """Otherwise the comparison with NumPy would show little."""
    trace = written(tmp_path / "t", 8)
    frame = apscope.replay(trace, SCHEMES, topology="ring", tensors="^short$").frame
    over = frame[(frame["overflow"] > 0) & (frame["topology"] == "ring")]
    skipped = frame[frame["skipped"] & (frame["topology"] == "ring")]
    assert {"none:e3m4"} <= set(over["scheme"]) and (frame["nan"] > 0).any()
    assert {"dynamic_loss_scaling"} == {s.split(":")[0] for s in skipped["scheme"]}


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("persistence")
    long = written(folder / "t", 4)
    return long, written(folder / "one", 1)


@pytest.fixture(scope="module")
def results(traces):
    return apscope.replay(traces[0], SCHEMES, topology=TOPOLOGIES, persistence=True)


def test_rows_do_not_depend_on_it(traces, results):
    plain = apscope.replay(traces[0], SCHEMES, topology=TOPOLOGIES)
    pd.testing.assert_frame_equal(plain.frame, results.frame)
    pd.testing.assert_frame_equal(plain.noise, results.noise)
    pd.testing.assert_frame_equal(plain.histograms, results.histograms)
    assert not len(plain.persistence)
    assert plain.summary().filter(like="persistence").isna().all(axis=None)


def test_one_step_is_the_rows_own_error(results):
    one = results.persistence.query("steps == 1")
    key = ["step", "tensor", "scheme", "topology"]
    reduced = results.frame[results.frame["stage"] == "reduced"]
    both = one.merge(reduced, on=key, suffixes=("", "_of_row"))
    both = both[~both["skipped"] & ~(both["overflow"] > 0)]
    assert len(both) > 500
    for column in ("sum_squared_error", "sum_noise", "noise_blocks", "sum_log2_error_over_noise"):
        np.testing.assert_allclose(both[column], both[f"{column}_of_row"].astype(float), rtol=1e-13)


def summed(rows):
    noise = rows["sum_noise"].sum()
    return rows["sum_squared_error"].sum() / noise if noise else math.nan


def interval(rows):
    sums = rows.groupby("step")[["sum_squared_error", "sum_noise"]].sum().to_numpy()
    ratio = summed(rows)
    if len(sums) < 4 or not math.isfinite(ratio):
        return math.nan, math.nan
    left, count = sums[:, 0] - ratio * sums[:, 1], len(sums)
    half = apscope._core.student_t(count - 1) * math.sqrt((left**2).sum() * count / (count - 1))
    return max(ratio - half / sums[:, 1].sum(), 0.0), ratio + half / sums[:, 1].sum()


@pytest.mark.parametrize("part", [None, "layer", "role"])
@pytest.mark.parametrize("factor", [1, 4])
def test_a_summary_adds_windows_up(results, part, factor):
    table = (
        results.summary(batch_factor=factor)
        if part is None
        else results.by(part, batch_factor=factor)
    )
    windows = results.persistence.merge(
        results.frame[["tensor", "role"]].drop_duplicates(), on="tensor"
    ).rename(columns={"layer": "tensor"})
    seen = 0
    for row in table.to_dict("records"):
        own = windows[
            (windows["scheme"] == row["scheme"]) & (windows["topology"] == row["topology"])
        ]
        if part is not None:
            own = own[own["tensor" if part == "layer" else part] == row[part]]
        for k in LENGTHS:
            of = own[own["steps"] == k]
            name, blocks = f"persistence_{k}", of["noise_blocks"].sum()
            typical = 2 ** (of["sum_log2_error_over_noise"].sum() / blocks) if blocks else math.nan
            wanted = (summed(of), *interval(of), typical)
            found = (row[name], row[f"{name}_low"], row[f"{name}_high"], row[f"typical_{name}"])
            assert found == pytest.approx([factor * w for w in wanted], rel=1e-9, nan_ok=True), (
                row["scheme"],
                row["topology"],
                k,
            )
            seen += math.isfinite(row[name])
    assert seen > 20


def test_by_step_and_without_windows_there_is_none(results, traces):
    columns = [c for c in COLUMNS if "persistence" in c]
    assert len(columns) == 16
    assert results.by("step")[columns].isna().all(axis=None)
    assert results.summary()[[c for c in columns if c.endswith("_30")]].isna().all(axis=None)
    assert results.summary()["persistence_10_low"].isna().all()  # of one window
    alone = apscope.replay(traces[1], "aps:e3m4", topology="ring", persistence=True)
    assert len(alone.persistence) and alone.persistence["sum_noise"].isna().all()
    assert alone.summary()[columns].isna().all(axis=None)  # the noise of one worker is unknown
    gaps = apscope.replay(traces[0], "aps:e3m4", steps="0,2,4", persistence=True)
    assert set(gaps.persistence["steps"]) == {1}


def test_thirty_steps_and_the_rest(tmp_path):
    trace = written(tmp_path / "t", 2, range(5, 38))
    rows = apscope.replay(trace, "aps:e3m4", topology="ring", persistence=True).persistence
    ring = rows.query("topology == 'ring' and tensor == 'short'")
    first = {k: ring.loc[ring["steps"] == k, "step"].tolist() for k in LENGTHS}
    assert first == {1: [*range(5, 38)], 3: [*range(5, 38, 3)], 10: [5, 15, 25], 30: [5]}


def test_a_policy_that_changes_the_reduction_begins_anew(tmp_path):
    """The windows of `ring` and of `gather` are those of the steps that have these rows."""
    trace = written(tmp_path / "t", 4, range(12))
    spec = "hybrid(steps:5:9=qsgd;else=aps:e3m4)"
    rows = apscope.replay(trace, spec, topology="ring", persistence=True).persistence
    short = rows.query("tensor == 'short' and steps == 3")
    first = {name: of["step"].tolist() for name, of in short.groupby("topology")}
    assert first == {"exact": [0, 3, 6, 9], "gather": [5], "ring": [0, 9]}


def test_a_sample_counts_as_the_whole(tmp_path):
    size = math.prod(SIZES["long"])
    plain, sampled = (
        apscope.replay(
            written(tmp_path / name, 4, range(6), **options), ["aps:e3m4", "qsgd"],
            topology="ring", persistence=True,
        )
        for name, options in (("a", {}), ("b", {"sampled_from": {"long": 5 * size}}))
    )  # fmt: skip
    turned = [f"{of}_{name}" for of in ("sum", "adam")
              for name in ("product", "squared_reference", "squared_result")]  # fmt: skip
    errors = ["sum_squared_error", "sum_noise", "noise_blocks", "sum_log2_error_over_noise"]
    for column in (*errors, *turned):
        for name, factor in (("long", 5), ("short", 1)):
            one, other = (
                r.persistence.loc[r.persistence["tensor"] == name, column] for r in (plain, sampled)
            )
            assert len(one)
            np.testing.assert_allclose(other, factor * one.to_numpy(), rtol=1e-13)


# ---- The same bits everywhere, and files --------------------------------------------------------


def saved(trace, folder, **options):
    apscope.replay(trace, SCHEMES[:4], topology=TOPOLOGIES, persistence=True, **options).save(
        folder, force=True
    )
    return (folder / "persistence.parquet").read_bytes()


def test_threads_and_shards_change_no_byte(traces, tmp_path):
    whole = saved(traces[0], tmp_path / "whole", threads=1)
    assert saved(traces[0], tmp_path / "threads", threads=3, memory="64M") == whole
    for i in range(3):
        saved(traces[0], tmp_path / f"shard{i}", shard=(i, 3))
    apscope.merge([tmp_path / f"shard{i}" for i in (2, 0, 1)]).save(tmp_path / "merged")
    assert (tmp_path / "merged/persistence.parquet").read_bytes() == whole
    told = [json.loads((tmp_path / name / "provenance.json").read_text()) for name in
            ("whole", "merged")]  # fmt: skip
    assert told[0] == told[1] and told[0]["command"].endswith(" --persistence")


@pytest.mark.parametrize("level", ["sse4", "avx2"])
def test_instruction_sets_change_no_byte(traces, tmp_path, level):
    whole = saved(traces[0], tmp_path / "whole")
    code = (
        "import sys; from pathlib import Path; import tests.python.results.test_persistence as t; "
        "t.saved(sys.argv[1], Path(sys.argv[2]))"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(traces[0]), str(tmp_path / level)],
        check=True, env={**__import__("os").environ, "APSCOPE_SIMD": level},
    )  # fmt: skip
    assert (tmp_path / level / "persistence.parquet").read_bytes() == whole


def test_results_keep_it_and_a_wrong_one_is_found(results, tmp_path, capsys):
    folder = results.save(tmp_path / "r")
    opened = apscope.Results.open(folder)
    pd.testing.assert_frame_equal(opened.persistence, results.persistence)
    pd.testing.assert_frame_equal(opened.summary(), results.summary())
    assert main(["check", str(folder)]) == 0
    merged = apscope.merge(
        [apscope.replay(results.provenance["command"].split()[2], s, topology="ring",
                        persistence=p) for s, p in (("qsgd", True), ("mx", False))]
    )  # fmt: skip
    assert set(merged.persistence["scheme"]) == {"qsgd"}
    wrong = results.persistence.copy()
    wrong.loc[wrong["steps"] == 10, "step"] = 5  # steps 12 to 14 were not replayed
    bad = altered(results, persistence=wrong).save(tmp_path / "bad")
    capsys.readouterr()
    assert main(["check", str(bad)]) != 0
    assert "window of the 10 steps from 5" in capsys.readouterr().out


@pytest.mark.parametrize("workers", [4, 1])
@pytest.mark.parametrize("lost", [
    [("steps", 1), ("step", 3)], [("steps", 10)], [("tensor", "short")],
    [("steps", 1), ("step", 1), ("tensor", "long"), ("topology", "ring")],
    [("steps", 3), ("step", 0), ("tensor", "long"), ("scheme", "aps:e3m0"), ("topology", "ring")],
])  # fmt: skip
def test_windows_that_are_not_there_are_found(traces, tmp_path, capsys, lost, workers):
    trace = traces[0 if workers == 4 else 1]
    results = apscope.replay(trace, ["aps:e3m0", "none:bf16"], topology="ring", persistence=True)
    held = results.persistence
    gone = np.logical_and.reduce([held[column] == value for column, value in lost])
    assert 0 < gone.sum() < len(held)
    bad = altered(results, persistence=held[~gone]).save(tmp_path / "bad")
    capsys.readouterr()
    assert main(["check", str(bad)]) == 1
    assert f"lacks {gone.sum()} windows" in capsys.readouterr().out


def test_shards_with_and_without_it_are_not_joined(traces, tmp_path):
    saved(traces[0], tmp_path / "with", shard=(0, 2))
    apscope.replay(traces[0], SCHEMES[:4], topology=TOPOLOGIES, shard=(1, 2)).save(
        tmp_path / "without"
    )
    with pytest.raises(ValueError, match="replay all of them with it, or all without"):
        apscope.merge([tmp_path / "with", tmp_path / "without"])


def test_the_command_has_the_option(traces, tmp_path, capsys):
    out = str(tmp_path / "r")
    assert main(["replay", str(traces[0]), "--scheme", "aps:e3m4", "--persistence", "-o", out]) == 0
    capsys.readouterr()
    assert main(["summary", out, "--by", "layer", "--column", "persistence_3"]) == 0
    assert "persistence_3 by layer" in capsys.readouterr().out
    told = "no update_loss_k, because its metadata name none of sgd, adam, lars"
    for number, (steps, workers, said) in enumerate((
        ("0:2", "4", ["no persistence, because no three of its steps are consecutive"]),
        ("0:4", "1", ["no persistence_k, because the noise of the batch is unknown: one worker was "
                      "replayed", told]),
        ("0:4", "4", [told]),
    )):  # fmt: skip
        words = ["--steps", steps, "--workers", workers, "-o", f"{out}{number}"]
        assert main(["replay", str(traces[0]), "--scheme", "mx", "--persistence", *words]) == 0
        printed = capsys.readouterr().out
        assert all(f"has {one}" in printed for one in said)
        assert printed.count(" has no ") == len(said)


def test_its_memory_counts(traces):
    """Of the largest tensor: 65 bytes an element for `exact` and each of 60 topologies."""
    names = [f"hierarchical:{i}" for i in range(2, 62)]
    options = {"topology": names, "steps": "0:4", "threads": 1}
    most = 61 * 65 * math.prod(SIZES["long"])
    apscope.replay(traces[0], "aps:e3m4", memory=most, **options)
    with pytest.raises(ValueError, match="is too little: tensor 'long' with scheme 'aps:e3m4'"):
        apscope.replay(traces[0], "aps:e3m4", memory=most, persistence=True, **options)


# ---- What it shows ------------------------------------------------------------------------------


def test_what_stays_and_what_averages_out(tmp_path):
    """Gradients that hardly change: rounding to nearest errs alike at every step, stochastic
    rounding anew, and error feedback makes up for it."""
    random = np.random.default_rng(8)
    centre = random.normal(0, 1, 2048) * 2.0 ** random.uniform(-12, 0, 2048)
    x = centre * (1 + 1e-3 * random.normal(0, 1, (30, 4, 2048)))
    trace = record(tmp_path / "t", [{"a": g} for g in x.astype(np.float32)])
    schemes = {
        "nearest": "aps:e3m0", "drawn": "aps:e3m0,rounding=stochastic",
        "fed": "error_feedback(aps:e3m0)",
    }  # fmt: skip
    results = apscope.replay(trace, list(schemes.values()), topology="exact",
                             persistence=True)  # fmt: skip
    table = results.summary().set_index("scheme")
    specs = dict(zip(schemes, results.provenance["schemes"]))
    for figure in ("persistence", "typical_persistence"):
        r = {name: [table.loc[spec, f"{figure}_{k}"] for k in LENGTHS]
             for name, spec in specs.items()}  # fmt: skip
        for k, nearest, drawn, fed in zip(LENGTHS, r["nearest"], r["drawn"], r["fed"]):
            assert nearest == pytest.approx(k * r["nearest"][0], rel=0.2)
            assert drawn == pytest.approx(r["drawn"][0], rel=0.3)
            assert k == 1 or fed < 2.5 * r["fed"][0] / k
