"""Processes that are killed, late, of another job or told to end: the others train to their end,
with the same results."""

import functools
import hashlib
import signal

import numpy as np
import pytest

from tests.python.record import test_recorder_writing as writing
from tests.python.record.test_recorder_faults import steps_of, whole
from tests.python.record.test_recorder_writing import wait_for

LOOP = """
import hashlib, json, logging, os, signal, sys, time, numpy as np
from pathlib import Path
from apscope.record import Recorder
logging.basicConfig(format="%(message)s")
folder, process, processes, keys = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), eval(sys.argv[4])
count, sleeps, die, polite, begin = (keys.pop(key, default) for key, default in (("count", 30), ("sleeps", {}), ("die", -1), ("polite", False), ("begin", 0)))
if polite:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
if not begin:  # imports take as long as they take
    Path(f"{folder}.ready{process}").touch()
    while keys.get("together", 1) and not all(Path(f"{folder}.ready{other}").exists() for other in range(processes)):
        time.sleep(0.002)
keys.pop("together", None)
time.sleep(begin)
weights, trained = np.zeros((30, 5), np.float32), hashlib.sha256()
with Recorder(folder, every=1, process=process, processes=processes, **keys) as rec:
    for step in range(count):
        if step == die:
            manifest = Path(folder, "manifest.json")
            while not (manifest.exists() and len(json.loads(manifest.read_text())["steps"]) > 2):
                time.sleep(0.002)
            os.kill(os.getpid(), signal.SIGKILL)
        while isinstance(sleeps.get(step), str) and not Path(sleeps[step]).exists():
            time.sleep(0.002)
        time.sleep(0 if isinstance(sleeps.get(step), str) else sleeps.get(step, 0.005))
        gradient = np.cos(weights + step + process).astype(np.float32)
        rec.record_pytree({"w": gradient})
        weights -= gradient
        trained.update(weights.tobytes())
print(trained.hexdigest())
"""


start = functools.partial(writing.start, loop=LOOP)


def trained(process, count=30):
    """The result of training without a recorder."""
    weights, result = np.zeros((30, 5), np.float32), hashlib.sha256()
    for step in range(count):
        weights -= np.cos(weights + step + process).astype(np.float32)
        result.update(weights.tobytes())
    return result.hexdigest() + "\n"


def ends(*running):
    return [process.communicate(timeout=300) for process in running]


@pytest.mark.parametrize("dead", [0, 1])
def test_a_killed_process_is_one_warning_of_the_other_which_trains_to_its_end(tmp_path, dead):
    running = [
        start(tmp_path / "run", p, 2, patience=1.0, **({"die": 6} if p == dead else {}))
        for p in range(2)
    ]
    out, err = ends(*running)[1 - dead]
    assert running[dead].returncode == -signal.SIGKILL and running[1 - dead].returncode == 0, err
    assert (
        out == trained(1 - dead) and err.count("apscope: recording ended, training continues") == 1
    )
    waited = "process 1 has not written step" if dead else "process 0 has not accepted step"
    assert waited in err
    assert 3 <= len(whole(tmp_path / "run", range(len(steps_of(tmp_path / "run")))).steps) <= 6


def test_a_late_process_within_the_others_patience_costs_nothing(tmp_path):
    """Process 0 comes late, and is late in the middle; so is process 1."""
    running = [
        start(
            tmp_path / "run",
            p,
            2,
            patience=30.0,
            begin=1.0 - p or 0.001,
            sleeps={5 + p: 1.0},
            count=12,
        )
        for p in range(2)
    ]
    for process, (out, err) in enumerate(ends(*running)):
        assert out == trained(process, 12) and "recording ended" not in err, err
    assert whole(tmp_path / "run", range(12)).workers == 2


@pytest.mark.parametrize("late", [0, 1])
def test_a_process_that_is_later_than_patience_ends_the_recording_alone(tmp_path, late):
    running = [
        start(tmp_path / "run", p, 2, patience=0.6, sleeps={6: 3.0} if p == late else {})
        for p in range(2)
    ]
    for process, (out, err) in enumerate(ends(*running)):
        assert (
            out == trained(process)
            and err.count("apscope: recording ended, training continues") == 1
        ), err
    assert len(whole(tmp_path / "run", range(len(steps_of(tmp_path / "run")))).steps) <= 7
    assert list((tmp_path / "run").glob(".*")) == []


def test_a_second_job_in_the_folder_is_told_and_changes_nothing_for_the_first(tmp_path):
    folder = tmp_path / "run"
    first = [start(folder, p, 2, sleeps={10: f"{tmp_path}/go"}, patience=60.0) for p in range(2)]
    wait_for(lambda: len(steps_of(folder)) > 3)
    second = [
        start(folder, p, 2, together=0, patience=0.5, resume=True, first_step=100) for p in range(2)
    ]
    (leading, leader), (out, other) = ends(*second)
    assert (
        leader.count(
            "apscope: recording ended, training continues: another recording (process "
            f"{first[0].pid} on "
        )
        == 1
    )
    assert (
        f"writes {folder}; wait for it, or give another destination" in leader
        and "Traceback" not in leader
    )
    assert (leading, out) == (trained(0), trained(1)) and other.count(
        "apscope: recording ended, training continues: process 0 is missing"
    ) == 1
    (tmp_path / "go").touch()
    for process, (out, err) in enumerate(ends(*first)):
        assert out == trained(process) and "recording ended" not in err, err
    assert whole(folder, range(30)).workers == 2
    assert list(folder.glob(".*")) == []


@pytest.mark.parametrize("polite", [False, True])
def test_sigterm_ends_a_training_as_without_a_recorder_and_leaves_every_whole_step(
    tmp_path, polite
):
    """By the signal, or by the training's own handler, which leaves the with-block."""
    folder = tmp_path / "run"
    running = start(folder, 0, polite=polite, count=10**6)
    wait_for(lambda: len(steps_of(folder)) > 3)
    running.send_signal(signal.SIGTERM)
    ((_, err),) = ends(running)
    assert running.returncode == (7 if polite else -signal.SIGTERM), err
    whole(folder, range(len(steps_of(folder))))
    assert "recording ended" not in err and (list(folder.glob(".*")) == [] or not polite)


def test_a_resumed_run_that_commits_no_step_replaces_none(tmp_path):
    """Process 1 dies before its first step: the old steps and their files stay."""
    folder = tmp_path / "run"
    ends(*(start(folder, p, 2, count=5) for p in range(2)))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    resumed = {"resume": True, "first_step": 2, "patience": 1.0, "count": 4}
    (_, err), _ = ends(*(start(folder, p, 2, die=0 if p else -1, **resumed) for p in range(2)))
    assert err.count("recording ended, training continues: process 1 has not written step 2") == 1
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert list(folder.glob(".*")) == []


@pytest.mark.parametrize("late", [0, 1])
def test_steps_of_a_resumed_run_replace_the_old_ones_whoever_is_late(tmp_path, late):
    folder = tmp_path / "run"
    ends(*(start(folder, p, 2, count=5) for p in range(2)))
    resumed = {"resume": True, "first_step": 3, "count": 2, "patience": 20.0}
    told = ends(
        *(start(folder, p, 2, sleeps={0: 1.5} if p == late else {}, **resumed) for p in range(2))
    )
    assert not any("recording ended" in err for _, err in told)
    trace = whole(folder, range(5))
    for worker in range(2):  # the second run's first step is the first of a training
        first = np.cos(np.zeros((30, 5), np.float32) + worker)
        assert np.array_equal(trace.read(3, "w", worker), first)
    assert list(folder.glob(".*")) == []
