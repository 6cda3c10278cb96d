"""notebooks/record/cut_trace.py: which runs of a trace stay, that they are the trace's bits, and
that the size holds."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from apscope import open_trace, replay
from apscope._traces.trace_info import check
from apscope.record import TraceWriter

SCRIPT = Path(__file__).parents[3] / "notebooks/record/cut_trace.py"
cut = runpy.run_path(str(SCRIPT))["cut"]
SHAPES = {"conv.weight": (100, 40), "embedding.weight": (50, 33), "head.bias": (7,), "scale": ()}
# Step -> the element of conv.weight that holds the largest magnitude.
LOUD = {3: 4 * 32 + 5, 8: 77 * 32}


@pytest.fixture
def trace(tmp_path):
    random = np.random.default_rng(1)
    with TraceWriter(
        tmp_path / "whole", workers=3, model="two layers", stage="local", reduction="sum",
        loss_divided_by_workers=True,
        roles={"scale": "norm"}, metadata={"seed": "1"},
    ) as writer:  # fmt: skip
        for step in (3, 8):
            for worker in range(3):
                for name, shape in SHAPES.items():
                    values = random.normal(0, 1, shape).astype(np.float32)
                    if name == "conv.weight" and worker == 1:
                        values.reshape(-1)[LOUD[step]] = -100
                    writer.add(step, worker, name, values)
            if step == 8:
                for name, shape in SHAPES.items():
                    writer.add(
                        step, 0, name, random.normal(0, 1, shape).astype(np.float32), kind="weights"
                    )
            writer.end_step(step, loss=1 / step, learning_rate=0.5, loss_scale=1024)
    return open_trace(tmp_path / "whole")


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_cut_is_a_trace_that_says_what_it_was_cut_from(trace, tmp_path):
    cut(trace, tmp_path / "cut", size=40_000)
    small = open_trace(tmp_path / "cut")
    assert check(small) > 0 and size_of(small.path) <= 40_000
    assert small.steps == trace.steps and small.roles == trace.roles and small.name == "whole"
    for key in ("workers", "model", "stage", "reduction", "loss_divided_by_workers"):
        assert getattr(small.manifest, key) == getattr(trace.manifest, key)
    for a, b in zip(small.manifest.steps, trace.manifest.steps, strict=True):
        assert (a.loss, a.learning_rate, a.loss_scale) == (b.loss, b.learning_rate, b.loss_scale)
    about = small.manifest.metadata
    assert about["seed"] == "1" and about["cut_from"] == trace.hash
    assert json.loads(about["cut_shapes"]) == {
        "conv.weight": [100, 40],
        "embedding.weight": [50, 33],
    }
    elements = sum(tensor.size for tensor in small.manifest.tensors)
    assert about["cut"] == f"runs of 32 consecutive elements, {elements} of 5658 elements"
    with pytest.warns(UserWarning, match="multiplied by a loss scale, 1024 at step 3"):
        assert not replay(small, "aps:e4m3").frame.empty


@pytest.mark.parametrize("run, size", [(32, 40_000), (32, 60_000), (64, 50_000)])
def test_runs_are_the_traces_bits_at_their_places(trace, tmp_path, run, size):
    cut(trace, tmp_path / "cut", run=run, size=size)
    small = open_trace(tmp_path / "cut")
    runs = json.loads(small.manifest.metadata["cut_runs"])
    assert runs.keys() == {"conv.weight", "embedding.weight"}
    for kind, steps in (("gradient", (3, 8)), ("weights", (8,))):
        assert small.recorded()[kind] == steps
        for step in steps:
            for worker in range(3):
                for name, shape in SHAPES.items():
                    before, after = (t.read(step, name, worker, kind) for t in (trace, small))
                    if name in runs:
                        assert after.shape == (len(runs[name]), run)
                        before = np.stack(
                            [before.reshape(-1)[run * i : run * (i + 1)] for i in runs[name]]
                        )
                    else:
                        assert after.shape == shape
                    assert after.tobytes() == before.tobytes()


def test_runs_are_evenly_spaced_and_the_largest_magnitudes_stay(trace, tmp_path):
    cut(trace, tmp_path / "cut", size=40_000)
    small = open_trace(tmp_path / "cut")
    runs = json.loads(small.manifest.metadata["cut_runs"])
    assert {place // 32 for place in LOUD.values()} <= set(runs["conv.weight"])
    for name, count in (("conv.weight", 125), ("embedding.weight", 51)):
        amax = {
            t: [
                max(np.abs(t.read(s, name, w).reshape(-1)[: 32 * count]).max() for w in range(3))
                for s in t.steps
            ]
            for t in (trace, small)
        }
        assert amax[trace] == amax[small]
        loud = {
            int(
                np.argmax(
                    np.max(
                        [
                            np.abs(trace.read(s, name, w).reshape(-1)[: 32 * count])
                            for w in range(3)
                        ],
                        axis=0,
                    )
                )
            )
            // 32
            for s in (3, 8)
        }
        # Without those, or without some of them, the runs are the middles of as many equal parts.
        evenly = [
            {(2 * i + 1) * count // (2 * n) for i in range(n)} for n in range(len(runs[name]) + 1)
        ]
        assert runs[name] == sorted(runs[name]) and set(runs[name]) in [
            even | loud for even in evenly
        ]
    assert len(runs["conv.weight"]) / len(runs["embedding.weight"]) == pytest.approx(
        125 / 51, rel=0.5
    )


def test_the_size_is_used_and_a_trace_that_fits_stays_whole(trace, tmp_path):
    for size in (35_000, 50_000, 70_000):
        cut(trace, tmp_path / str(size), size=size)
        assert 0.6 * size < size_of(tmp_path / str(size)) <= size
    cut(trace, tmp_path / "all", size=10**7)
    runs = json.loads(open_trace(tmp_path / "all").manifest.metadata["cut_runs"])
    assert runs == {"conv.weight": list(range(125)), "embedding.weight": list(range(51))}


def test_a_second_cut_writes_the_same_bytes(trace, tmp_path):
    for name in ("a", "b"):
        cut(trace, tmp_path / name, size=40_000, name="cut")
    assert open_trace(tmp_path / "a").hash == open_trace(tmp_path / "b").hash


def test_what_cannot_be_cut_is_one_sentence(trace, tmp_path):
    with pytest.raises(ValueError, match=r"^run is 0; a run has 1 element or more$"):
        cut(trace, tmp_path / "cut", run=0)
    with pytest.raises(
        ValueError,
        match=r"^1000 bytes are too few for a run of 32 elements of each of the 4 tensors; give "
        r"(\d+) or more$",
    ) as caught:
        cut(trace, tmp_path / "cut", size=1000)
    least = int(caught.value.args[0].split()[-3])
    cut(trace, tmp_path / "cut", size=least)
    assert size_of(tmp_path / "cut") <= least
    for arguments, sentence in (
        (["nowhere", "x"], "nowhere"),
        ([str(trace.path), str(trace.path)], "already has a trace"),
    ):
        run = subprocess.run(
            [sys.executable, SCRIPT, *arguments], cwd=tmp_path, capture_output=True, text=True
        )
        assert run.returncode == 1 and sentence in run.stderr and len(run.stderr.splitlines()) == 1
