"""Recorder's writing next to any loop: bounded, in the background, without harm to the training."""

import collections
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest

from apscope import open_trace, replay
from apscope._traces.trace_info import check
from apscope.record import Recorder, _session
from tests.python.record.test_recorder_faults import steps_of


def gradients(step, worker=0):
    return {
        "layers": [
            {"weight": np.full((30, 5), step + worker / 8, np.float32)},
            {"weight": np.full(4, -step, np.float16)},
        ],
        "bias": np.float32([step]),
    }


NAMES = ("layers.0.weight", "layers.1.weight", "bias")


def holds(trace, step, worker=0):
    values = gradients(step, worker)
    want = (values["layers"][0]["weight"], values["layers"][1]["weight"], values["bias"])
    return all(
        np.array_equal(trace.read(step, name, worker), w)
        for name, w in zip(NAMES, want, strict=True)
    )


def test_nested_gradients_of_any_loop(tmp_path, capsys):
    with Recorder(tmp_path / "run", every=5, model="any") as rec:
        for step in range(12):
            rec.record_pytree(gradients(step), loss=np.float32(step), learning_rate=0.5)
    trace = open_trace(tmp_path / "run")
    check(trace)
    assert trace.steps == (0, 5, 10) and trace.tensors == NAMES and trace.manifest.model == "any"
    assert all(holds(trace, step) for step in trace.steps)
    assert [s.loss for s in trace.manifest.steps] == [0, 5, 10] and {
        s.learning_rate for s in trace.manifest.steps
    } == {0.5}
    assert (
        "apscope: 3 steps recorded in " in (said := capsys.readouterr().err)
        and "waiting for the disk" in said
    )


def test_workers_along_the_first_axis_and_containers_of_all_kinds(tmp_path):
    Pair = collections.namedtuple("Pair", "a b")
    values = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    with Recorder(tmp_path / "run", every=1, workers=4, tensors="a", quiet=True) as rec:
        rec.record_pytree(Pair({"x": values}, values))
        rec.record_pytree(Pair({"x": None}, values))  # a tensor without a gradient
    trace = open_trace(tmp_path / "run")
    assert trace.workers == 4 and trace.tensors == ("a.x",)
    for worker in range(4):
        assert (
            np.array_equal(trace.read(0, "a.x", worker), values[worker])
            and not trace.read(1, "a.x", worker).any()
        )
    assert trace.manifest.metadata == {
        "no_gradient_so_zeros: a.x": "1",
        "roles_guessed_by_name_and_shape": "all",
    }


def test_jax_says_how_its_containers_open(tmp_path):
    """Its registered ones, by its key types; a dict in the order that it was made in, or that JAX
    gave it."""
    jax = pytest.importorskip("jax", reason="JAX's own containers")
    tree = {
        "b": jax.numpy.ones((2, 3)),
        "a": [jax.tree_util.Partial(print, jax.numpy.zeros(4, jax.numpy.bfloat16))],
    }
    for folder, given in (("own", tree), ("sorted", jax.tree_util.tree_map(lambda x: x, tree))):
        with Recorder(tmp_path / folder, every=1, quiet=True) as rec:
            rec.record_pytree(given)
    assert [name[:1] for name in open_trace(tmp_path / "own").tensors] == ["b", "a"]
    assert [name[:1] for name in open_trace(tmp_path / "sorted").tensors] == ["a", "b"]


@pytest.mark.parametrize("jax", [False, True])
def test_dicts_in_alphabetical_order_have_no_order_of_layers(tmp_path, monkeypatch, jax):
    """As JAX returns them, in any order of the model; a stand-in for JAX opens only arrays."""
    if jax and "jax" not in sys.modules:
        leaf = lambda tree, is_leaf: ([((), tree)], None)
        monkeypatch.setitem(
            sys.modules,
            "jax",
            types.SimpleNamespace(tree_util=types.SimpleNamespace(tree_flatten_with_path=leaf)),
        )
    layer = {"bias": np.ones(2, np.float32), "kernel": np.ones((3, 2), np.float32)}
    names = ["Dense_1", "Dense_10", "Dense_2"]
    for folder, tree in {
        "sorted": {"params": dict.fromkeys(names, layer)},
        "own": {name: dict(reversed(layer.items())) for name in names},
        "given": collections.OrderedDict.fromkeys(names, layer),
    }.items():
        with Recorder(tmp_path / folder, every=1, quiet=True) as rec:
            rec.record_pytree(tree)
    trace = open_trace(tmp_path / "sorted")
    assert trace.manifest.metadata == {
        "tensor_order": "the names",
        "roles_guessed_by_name_and_shape": "all",
    }
    assert trace.tensors == tuple(
        f"params.Dense_{i}.{what}" for i in (1, 2, 10) for what in ("bias", "kernel")
    )
    with pytest.warns(
        UserWarning,
        match=r"was recorded from dicts that have no order of layers, so 'last' in .* is "
        r"params.Dense_10.kernel",
    ):
        replay(trace, "hybrid(last=none:fp16;else=aps:e4m3)", topology="ring")
    for folder, inner in (("own", ("kernel", "bias")), ("given", ("bias", "kernel"))):
        trace = open_trace(tmp_path / folder)
        assert trace.manifest.metadata == {
            "roles_guessed_by_name_and_shape": "all"
        } and trace.tensors == tuple(f"{name}.{what}" for name in names for what in inner)


@pytest.fixture
def gate(monkeypatch):
    """The condition for which every write waits before it begins."""
    write, gate = _session.write_safetensors, threading.Semaphore(0)

    def late(*arguments):
        gate.acquire(timeout=300)
        return write(*arguments)

    monkeypatch.setattr(_session, "write_safetensors", late)
    return gate


def test_writing_is_beside_the_loop_and_the_steps_in_memory_are_bounded(
    tmp_path, gate, monkeypatch
):
    get = queue.Queue.get

    def waits(places, *arguments, **keys):
        """The loop's wait for a place begins before the time runs, however slow the machine."""
        if threading.current_thread() is threading.main_thread() and places.empty():
            threading.Timer(0.3, gate.release).start()
        return get(places, *arguments, **keys)

    monkeypatch.setattr(queue.Queue, "get", waits)
    took = []
    begin = time.perf_counter()
    with Recorder(tmp_path / "run", every=1, places=2, quiet=True) as rec:
        for step in range(2):  # two places are free: nothing is written yet
            rec.record_pytree(gradients(step))
        for step in range(2, 5):  # each waits for a write
            start = time.perf_counter()
            rec.record_pytree(gradients(step))
            took.append(time.perf_counter() - start)
        gate.release(5)
    assert min(took) > 0.29
    assert 0.8 < rec.overhead.waited <= rec.overhead.seconds < time.perf_counter() - begin
    assert open_trace(tmp_path / "run").steps == (0, 1, 2, 3, 4)
    assert not any(thread.name == "apscope-record" for thread in threading.enumerate())


def test_a_disk_that_hangs_ends_the_recording_not_the_loop(tmp_path, gate, caplog):
    with Recorder(tmp_path / "run", every=1, places=1, patience=0.3, quiet=True) as rec:
        for step in range(50):
            rec.record_pytree(gradients(step))
    assert len(caplog.records) == 1 and "the disk has not finished a step for 0.3 s" in rec.stopped
    gate.release(50)


@pytest.mark.parametrize(
    "number, words",
    [(28, "No space left on device"), (5, "Input/output error"), (13, "Permission denied")],
)
def test_an_error_of_the_disk_leaves_the_steps_before_it(
    tmp_path, monkeypatch, caplog, number, words
):
    write, count = _session.write_safetensors, [0]

    def failing(path, *arguments):
        count[0] += 1
        if count[0] > 2:
            raise OSError(number, os.strerror(number), str(path))
        return write(path, *arguments)

    monkeypatch.setattr(_session, "write_safetensors", failing)
    with Recorder(tmp_path / "run", every=1, quiet=True) as rec:
        for step in range(10):
            rec.record_pytree(gradients(step))
    assert (
        words in rec.stopped
        and "worker_0000.safetensors" in rec.stopped
        and len(caplog.records) == 1
    )
    assert not (tmp_path / "run/.recording").exists()
    trace = open_trace(tmp_path / "run")
    check(trace)
    assert trace.steps == (0, 1) and holds(trace, 1)


def test_an_exception_of_the_loop_keeps_what_was_recorded(tmp_path):
    with pytest.raises(ZeroDivisionError), Recorder(tmp_path / "run", every=1, quiet=True) as rec:
        for step in range(4):
            rec.record_pytree(gradients(step))
        1 / 0
    assert open_trace(tmp_path / "run").steps == (0, 1, 2, 3)


LOOP = """
import logging, sys, time, numpy as np
from pathlib import Path
from apscope.record import Recorder
logging.basicConfig(format="%(message)s")
folder, process, processes, keys = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), eval(sys.argv[4])
count = keys.pop("count", 10**6)
if keys.pop("together", False):  # imports take as long as they take
    Path(f"{folder}.ready{process}").touch()
    while not all(Path(f"{folder}.ready{other}").exists() for other in range(processes)):
        time.sleep(0.002)
def gradients(step, worker):
    return {"layers": [{"weight": np.full((30, 5), step + worker / 8, np.float32)}, {"weight": np.full(4, -step, np.float16)}], "bias": np.float32([step])}
with Recorder(folder, every=1, process=process, processes=processes, **keys) as rec:
    while rec.number < count and not rec.stopped:
        rec.record_pytree(gradients(rec.number, process))
        time.sleep(0.005)
print("stopped at", rec.number)
"""


def start(folder, process, processes=1, loop=LOOP, **keys):
    return subprocess.Popen(
        [sys.executable, "-c", loop, str(folder), str(process), str(processes), repr(keys)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition):
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def whole(folder, workers):
    trace = open_trace(folder)
    check(trace)
    assert trace.workers == workers and trace.tensors == NAMES
    assert all(holds(trace, step, worker) for step in trace.steps for worker in range(workers))
    return trace


def test_three_processes_record_one_trace(tmp_path):
    running = [start(tmp_path / "run", process, 3, count=6) for process in (2, 1, 0)]
    said = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], said
    assert whole(tmp_path / "run", 3).steps == tuple(range(6))
    assert sum("steps of 3 processes recorded" in err for _, err in said) == 1
    assert not (tmp_path / "run/.recording").exists()


def test_the_last_line_counts_what_the_trace_has(tmp_path):
    """One process stops at step 2 of 6; two have a folder each; none records a step."""
    last = r"^apscope: {} steps? of 2 processes recorded in \S+{}, [\d.]+ MB"
    loop = LOOP.replace(
        "rec.record_pytree(gradients",
        "rec.stopped or process and rec.number == 2 and rec._stop('it is over'); "
        "rec.record_pytree(gradients",
    )
    running = [start(tmp_path / "run", p, 2, loop, count=6, patience=3.0) for p in range(2)]
    running += [start(tmp_path / f"apart{p}", p, 2, count=3, patience=1.0) for p in range(2)]
    said = [process.communicate(timeout=300)[1] for process in running]
    steps = len(steps_of(tmp_path / "run"))
    assert steps <= 2 and re.search(
        last.format(steps, "" if steps else ", which has no trace"), said[0], re.MULTILINE
    ), said[0]
    assert re.search(last.format(0, ", which has no trace"), said[2], re.MULTILINE), said[2]
    assert (
        not list(tmp_path.glob("*/.recording"))
        and len(list((tmp_path / "run").glob("step_*"))) == steps
        and not list(tmp_path.glob("apart*/*"))
    )


def test_a_recording_without_a_step_says_so(tmp_path, caplog, capsys):
    with Recorder(tmp_path / "run", steps=[100]) as rec:
        rec.record_pytree(gradients(0))
    assert [r.getMessage() for r in caplog.records] == [
        f"apscope: {tmp_path / 'run'} has no trace: none of the selected steps was recorded"
    ]
    assert (
        f"apscope: 0 steps recorded in {tmp_path / 'run'}, which has no trace, 0.0 MB"
        in capsys.readouterr().err
    )


def test_a_process_that_stops_tells_the_others(tmp_path):
    running = [
        start(tmp_path / "run", p, 2, patience=20.0, together=True, **tensors)
        for p, tensors in enumerate(({}, {"tensors": "bias"}))
    ]
    said = [process.communicate(timeout=300) for process in running]
    assert "process 1 at step 0 lacks the tensor 'layers.0.weight'" in said[0][1]
    assert "process 0 stopped: process 1 at step 0 lacks" in said[1][1]


@pytest.mark.parametrize("wait", [0.0, 0.004, 0.011])
def test_a_kill_leaves_every_whole_step_and_the_next_run_clears_the_remains(tmp_path, wait):
    folder = tmp_path / "run"
    running = [start(folder, process, 2) for process in range(2)]
    wait_for(lambda: len(steps_of(folder)) >= 4)
    time.sleep(wait)
    for process in running:
        process.send_signal(signal.SIGKILL)
    for process in running:
        process.communicate()
    steps = whole(folder, 2).steps
    assert steps == tuple(range(len(steps))) and (folder / ".recording").is_dir()

    with (
        Recorder(folder, every=1, quiet=True) as rec,
        pytest.raises(
            ValueError, match="already has a trace; record into a new folder, or continue"
        ),
    ):
        rec.record_pytree(gradients(0))
    again = [
        start(folder, process, 2, first_step=3, resume=True, count=len(steps) + 5)
        for process in range(2)
    ]
    assert [process.wait(timeout=300) for process in again] == [0, 0], [
        p.stderr.read() for p in again
    ]
    for process in again:
        process.communicate()
    assert whole(folder, 2).steps == tuple(range(len(steps) + 5))
    assert sorted(p.name for p in folder.iterdir()) == [
        "manifest.json",
        *(f"step_{n:08d}" for n in range(len(steps) + 5)),
    ]
    assert {p.name for p in folder.rglob("*.*")} == {
        "manifest.json",
        "worker_0000.safetensors",
        "worker_0001.safetensors",
    }


def test_remains_of_a_run_without_a_whole_step_are_cleared_and_other_files_kept(tmp_path):
    folder = tmp_path / "run"
    alone = start(folder, 0, 2)  # the second process never comes
    wait_for((folder / "step_00000000/worker_0000.safetensors").exists)
    with Recorder(folder, every=1, quiet=True) as rec:
        rec.record_pytree(gradients(0))
    assert re.match(
        rf"another recording \(process {alone.pid} on .*\) writes {folder}; wait for it, or give "
        r"another destination$",
        rec.stopped,
    )
    alone.send_signal(signal.SIGKILL)
    alone.communicate()
    (folder / "step_00000077").mkdir()
    (folder / "step_00000077/mine.txt").write_text("kept")
    with Recorder(folder, steps=[2], quiet=True) as rec:
        for step in range(4):
            rec.record_pytree(gradients(step))
    assert whole(folder, 1).steps == (2,)
    assert sorted(p.name for p in folder.iterdir()) == [
        "manifest.json",
        "step_00000002",
        "step_00000077",
    ]


def test_what_is_resumed_must_be_alike(tmp_path):
    with Recorder(tmp_path / "run", every=1, quiet=True) as rec:
        rec.record_pytree(gradients(0))
    with (
        Recorder(tmp_path / "run", every=1, workers=2, resume=True, quiet=True) as rec,
        pytest.raises(ValueError, match="a trace with workers 1, not 2"),
    ):
        rec.record_pytree({"w": np.ones((2, 3), np.float32)})
    assert whole(tmp_path / "run", 1).steps == (0,)
