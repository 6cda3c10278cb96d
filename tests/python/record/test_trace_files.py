"""How the files of a trace come to their places: no name that can be foreseen, one process at a
time, the manifest last."""

import json
import multiprocessing
import os
import re
import subprocess
import sys
import types

import numpy as np
import pytest

from apscope import open_trace
from apscope._folders import durable, one_file
from apscope._folders.lock import Lock
from apscope._folders.names import waiting
from apscope._folders.one_file import make_folder, new_file, new_path, put_text, remove_left
from apscope._proof.certificate import write_certificate
from apscope._traces import manifest as _manifest
from apscope._traces.trace_info import check
from apscope.record import Recorder, TraceWriter

ONES = np.ones(3, np.float32)


def one_step(writer, step=0, value=1.0):
    writer.add(step, 0, "w", np.full(3, value, np.float32))
    writer.end_step(step)


def test_a_file_is_at_its_place_whole_or_not_at_all(tmp_path):
    place = tmp_path / "file"
    put_text(place, "first")
    with pytest.raises(ZeroDivisionError), new_file(place) as stream:
        stream.write(b"second")
        stream.flush()
        (hidden,) = tmp_path.glob(".*")
        assert (
            waiting("file").fullmatch(hidden.name)
            and hidden.read_text() == "second"
            and place.read_text() == "first"
        )
        1 / 0
    with new_path(place) as fetched:
        fetched.write_text("third")
        assert place.read_text() == "first"
    assert place.read_text() == "third" and os.listdir(tmp_path) == ["file"]
    with (
        pytest.raises(OSError, match=f"No such file or directory: '{tmp_path}/nowhere/file'"),
        new_file(tmp_path / "nowhere/file"),
    ):
        pass


def test_links_are_replaced_or_refused_and_never_followed(tmp_path, monkeypatch):
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/data").write_text("kept")
    (tmp_path / "link").symlink_to("victim/data")
    (tmp_path / "link.part").symlink_to("victim/data")
    put_text(tmp_path / "link", "new")
    assert not (tmp_path / "link").is_symlink() and (tmp_path / "link").read_text() == "new"
    # Though the name were known.
    monkeypatch.setattr(one_file, "fresh", lambda name: f".{name}.apscope-00000000")
    (tmp_path / ".link.apscope-00000000").symlink_to("victim/data")
    with pytest.raises(FileExistsError, match=f"'{tmp_path}/link'"):
        put_text(tmp_path / "link", "newer")
    (tmp_path / "folder").symlink_to("victim")
    with pytest.raises(OSError, match="it is a link, and links are not followed"):
        make_folder(tmp_path / "folder")
    remove_left(tmp_path, waiting("link"))
    assert (tmp_path / "victim/data").read_text() == "kept" and sorted(os.listdir(tmp_path)) == [
        "folder",
        "link",
        "victim",
    ]


def test_nothing_is_written_through_links_in_a_traces_folder(tmp_path, caplog):
    """Names of earlier versions, the notes of the processes and the folder of a step."""
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / "other").mkdir()
    run = tmp_path / "run"
    (run / "step_00000000").mkdir(parents=True)
    for name in (
        "manifest.json.part",
        "step_00000000/worker_0000.safetensors.part",
        "step_00000000/worker_0000.safetensors",
    ):
        (run / name).symlink_to(victim)
    with TraceWriter(run, workers=1) as writer:
        one_step(writer)
    check(open_trace(run))
    write_certificate(tmp_path / "c.json", [])
    for name, where in (("notes", ".recording"), ("step", "step_00000000")):
        (tmp_path / name).mkdir()
        (tmp_path / name / where).symlink_to(tmp_path / "other")
        with Recorder(tmp_path / name, every=1, quiet=True) as rec:
            rec.record_pytree({"w": ONES})
        assert "links are not followed" in rec.stopped
    assert victim.read_text() == "kept" and not os.listdir(tmp_path / "other")


def test_what_kills_left_is_removed_by_who_goes_on_and_nothing_else(tmp_path):
    step = "step_00000000"
    left = [
        ".manifest.json.apscope-0123abcd",
        "manifest.json.part",
        f"{step}/.worker_0000.safetensors.apscope-0123abcd",
        f"{step}/weights.safetensors.part",
    ]
    mine = [
        ".mine.apscope-0123abcd",
        "mine.part",
        ".manifest.json.apscope-old",
        f"{step}/mine.safetensors.part",
        f"{step}/.worker_0000.safetensors.apscope-x",
    ]
    for goes_on in (
        lambda path: TraceWriter(path, workers=1, resume=True),
        lambda path: Recorder(path, every=1, first_step=1, resume=True, quiet=True),
    ):
        run = tmp_path / str(len(list(tmp_path.iterdir())))
        with TraceWriter(run, workers=1) as writer:
            one_step(writer)
        (run / "step_00000007").mkdir()  # begun by a process that was killed
        for name in (*left, *mine, "step_00000007/.worker_0000.safetensors.apscope-0123abcd"):
            (run / name).write_text("")
        with goes_on(run) as again:
            if isinstance(again, TraceWriter):
                one_step(again, 1)
            else:
                again.record_pytree({"w": ONES})
        assert not any((run / name).exists() for name in left) and all(
            (run / name).exists() for name in mine
        )
        assert open_trace(run).steps == (0, 1) and not (run / "step_00000007").exists()


def test_a_steps_files_are_on_the_disk_before_the_manifest_has_them(tmp_path, monkeypatch):
    happened = []
    fsync, replace = os.fsync, os.replace

    def kept(place):
        happened.append(("disk", os.readlink(f"/proc/self/fd/{place}")))
        fsync(place)

    def moved(source, target):
        replace(source, target)
        happened.append(("moved", os.fspath(target), os.fspath(source)))

    monkeypatch.setattr(durable.os, "fsync", kept)
    monkeypatch.setattr(durable.os, "replace", moved)

    def check_order(run):
        for name in ("worker_0000.safetensors", "worker_0001.safetensors"):
            step = run / "step_00000000"
            (put,) = (
                i for i, what in enumerate(happened) if what[:2] == ("moved", str(step / name))
            )
            listed = next(
                i
                for i, what in enumerate(happened)
                if what[:2] == ("moved", str(run / "manifest.json"))
            )
            assert ("disk", happened[put][2]) in happened[:put]
            assert ("disk", str(step)) in happened[put:listed] and ("disk", str(run)) in happened[
                put:listed
            ]
            assert ("disk", happened[listed][2]) in happened[:listed] and (
                "disk",
                str(run),
            ) in happened[listed:]

    with TraceWriter(tmp_path / "writer", workers=2) as writer:
        for worker in range(2):
            writer.add(0, worker, "w", ONES)
        writer.end_step(0)
    check_order(tmp_path / "writer")
    happened.clear()
    with Recorder(tmp_path / "recorder", every=1, workers=2, quiet=True) as rec:
        rec.record_pytree({"w": np.ones((2, 3), np.float32)})
    check_order(tmp_path / "recorder")
    happened.clear()
    with TraceWriter(tmp_path / "not", workers=1, durable=False) as writer:
        one_step(writer)
    assert not [what for what in happened if what[0] == "disk"]


@pytest.mark.parametrize(("seconds_a_step", "writes"), [(0, 2), (0.3, 4), (2, 10)])
def test_a_manifest_is_not_written_at_every_step_where_the_disk_is_not_waited_for(
    tmp_path, monkeypatch, seconds_a_step, writes
):
    run, listed, now = tmp_path / "run", [], [100.0]

    def put(path, text, **options):
        put_text(path, text, **options)
        listed.append(open_trace(run).steps)

    monkeypatch.setattr(_manifest, "put_text", put)
    monkeypatch.setattr(_manifest, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    with TraceWriter(run, workers=1, durable=False) as writer:
        for step in range(10):
            one_step(writer, step)
            now[0] += seconds_a_step
    assert len(listed) == writes and listed[-1] == tuple(range(10)) == writer.committed
    assert all(steps == tuple(range(len(steps))) for steps in listed)
    check(open_trace(run))
    with TraceWriter(run, workers=1, resume=True, durable=False):
        pass
    assert len(listed) == writes  # nothing was held back


def test_two_writers_in_one_folder_never_mix(tmp_path):
    run = tmp_path / "run"
    first, second, third = (TraceWriter(run, workers=1) for _ in range(3))
    one_step(first)
    sentence = (
        rf"^another apscope.record.TraceWriter \(process {os.getpid()} on .*\) writes "
        rf"{run}; wait for it, or give another destination$"
    )
    with pytest.raises(ValueError, match=sentence):
        one_step(second, value=2.0)
    with Recorder(run, every=1, resume=True, first_step=1, quiet=True) as rec:
        rec.record_pytree({"w": ONES})
        assert re.match(sentence, rec.stopped)
    one_step(first, 1)
    first.close()
    with pytest.raises(
        ValueError,
        match="now has another trace, written by another process; record into a new folder",
    ):
        one_step(third, value=3.0)
    check(open_trace(run))
    assert open_trace(run).steps == (0, 1) and open_trace(run).read(0, "w").tolist() == [1, 1, 1]
    assert sorted(os.listdir(run)) == ["manifest.json", "step_00000000", "step_00000001"]


def test_steps_of_a_resumed_run_are_replaced_once_it_has_one_of_its_own(tmp_path):
    run = tmp_path / "run"
    with Recorder(run, every=1, quiet=True) as rec:
        for step in range(5):
            rec.record_pytree({"w": ONES * step})
    before = (run / "manifest.json").read_bytes()

    def resumed(*gradients):
        with Recorder(run, every=1, resume=True, first_step=2, quiet=True) as rec:
            for tree in gradients:
                rec.record_pytree(tree)
        check(open_trace(run))
        return rec.stopped, open_trace(run).steps

    assert resumed() == (None, (0, 1, 2, 3, 4))  # it ended before its first step
    stopped, steps = resumed({"other": ONES})
    assert "process 0 at step 2 lacks the tensor 'w'" in stopped and steps == (0, 1, 2, 3, 4)
    assert (run / "manifest.json").read_bytes() == before
    assert resumed({"w": ONES * 7}) == (None, (0, 1, 2))
    assert open_trace(run).read(2, "w").tolist() == [7, 7, 7]
    assert sorted(os.listdir(run))[1:] == ["step_00000000", "step_00000001", "step_00000002"]


def test_a_writer_that_is_forgotten_gives_the_folder_free(tmp_path):
    writer = TraceWriter(tmp_path / "run", workers=1)
    one_step(writer)
    del writer
    with TraceWriter(tmp_path / "run", workers=1, resume=True) as again:
        one_step(again, 1)
    program = (
        "import sys, numpy as np; from apscope.record import TraceWriter; w = "
        "TraceWriter(sys.argv[1], workers=1); w.add(0, 0, 'w', np.ones(3)); w.end_step(0)"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "exit"], check=True)
    assert sorted(os.listdir(tmp_path / "exit")) == ["manifest.json", "step_00000000"]


def _write_worker(run, worker, value, pipe):
    with TraceWriter(run, workers=2) as writer:
        for step in range(3):
            writer.add(step, worker, "w", np.full(3, value + step, np.float32))
            pipe.send(writer.write_files(step))
            pipe.recv()


def test_processes_that_write_one_worker_each_and_one_commits_do_not_mix_with_those_of_another_job(
    tmp_path,
):
    """The other job writes the same steps of the same worker in between; its commit is refused."""
    run, context = tmp_path / "run", multiprocessing.get_context("spawn")
    ends = [context.Pipe() for _ in range(2)]
    others = [
        context.Process(target=_write_worker, args=(run, 1, value, pipe[1]))
        for value, pipe in zip((10.0, 70.0), ends, strict=True)
    ]
    for process in others:
        process.start()
    with TraceWriter(run, workers=2) as leader, TraceWriter(run, workers=2) as stranger:
        for step in range(3):
            theirs, strangers = (pipe[0].recv() for pipe in ends)
            for writer, value in ((leader, 0.0), (stranger, 60.0)):
                writer.add(step, 0, "w", np.full(3, value + step, np.float32))
            own = leader.write_files(step)
            strangers |= stranger.write_files(step)
            leader.commit(step, own | theirs, loss=1.0)
            with pytest.raises(ValueError, match="another apscope.record.TraceWriter"):
                stranger.commit(step, strangers)
            for pipe in ends:
                pipe[0].send(None)
    for process in others:
        process.join()
        assert process.exitcode == 0
    trace = open_trace(run)
    check(trace)
    assert trace.steps == (0, 1, 2)
    for step in range(3):
        assert [trace.read(step, "w", worker)[0] for worker in range(2)] == [step, 10 + step]
        assert sorted(os.listdir(run / f"step_0000000{step}")) == [
            "worker_0000.safetensors",
            "worker_0001.safetensors",
        ]


def test_a_commit_of_a_file_that_is_not_there_is_refused(tmp_path):
    with TraceWriter(tmp_path / "run", workers=1) as writer:
        writer.add(0, 0, "w", ONES)
        files = writer.write_files(0)
        with pytest.raises(
            ValueError,
            match=r"worker_0000.safetensors of \d+ bytes is missing; write_files writes it, into "
            r"the same folder",
        ):
            writer.commit(
                0,
                {
                    "worker_0000.safetensors": files["worker_0000.safetensors"]
                    | {"sha256": "0" * 64}
                },
            )
        writer.commit(0, files)
        with pytest.raises(ValueError, match="step 0 is not above step 0, the last committed one"):
            writer.commit(0, files)
    check(open_trace(tmp_path / "run"))


def test_a_lock_is_its_processs_own_and_not_another_files(tmp_path):
    lock = Lock(tmp_path / "lock", "writing")
    lock.take("here")
    child = os.fork()
    if child == 0:
        lock.let_go()
        os._exit(int(lock.held))
    assert (
        os.waitpid(child, 0)[1] == 0
        and lock.held
        and json.loads((tmp_path / "lock").read_text())["process"] == os.getpid()
    )
    with pytest.raises(ValueError, match="another writing"):
        Lock(tmp_path / "lock", "reading").take("here")
    (tmp_path / "lock").unlink()
    (tmp_path / "lock").write_text("of another by now")
    assert not lock.held
    lock.let_go()
    assert (tmp_path / "lock").read_text() == "of another by now"
