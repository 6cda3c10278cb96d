"""Files of a trace that another program cuts, changes or takes away while they are read: a
sentence, no results, no signal."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from apscope import open_trace, replay
from apscope.record import TraceWriter
from tests.python.argv import argv

SENTENCE = "while it was read; open the trace and repeat this when nothing writes to it"


@pytest.fixture
def trace(tmp_path):
    """Two steps of two workers whose files are large enough to be mapped."""
    rng = np.random.default_rng(3)
    with TraceWriter(tmp_path / "run", workers=2) as writer:
        for step in range(2):
            for worker in range(2):
                for name in ("a.weight", "b.weight"):
                    writer.add(
                        step, worker, name, rng.standard_normal((512, 512)).astype(np.float32)
                    )
            writer.end_step(step)
    return tmp_path / "run"


#: A replay in a process of its own that stops behind its first item until it is told to go on.
_SCRIPT = """
import sys
from apscope._progress import Bar
from apscope.cli import main

def enter(bar):
    told = []
    def update(done, total):
        if done and not told and "SHA" not in bar.name:
            told.append(done)
            print("reading", flush=True)
            sys.stdin.readline()
    return update

Bar.__enter__ = enter
sys.exit(main(sys.argv[1:]))
"""


# One that was opened; one that was compared with its digest.
@pytest.mark.parametrize("step, options", [(0, ["--no-check"]), (1, [])])
@pytest.mark.parametrize("what", ["cut", "written", "replaced", "gone"])
def test_a_file_that_changes_during_a_replay_is_told(trace, tmp_path, what, step, options):
    file = trace / f"step_0000000{step}/worker_0001.safetensors"
    words = argv("replay {} -o {} --scheme aps:e4m3 --threads 1", trace, tmp_path / "out")
    command = [sys.executable, "-c", _SCRIPT, *words, *options]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "reading\n"
    if what == "cut":
        os.truncate(file, 4096)
    elif what == "written":
        with file.open("r+b") as stream:
            stream.seek(200_000)
            stream.write(b"\0" * 400)
    elif what == "replaced":
        (tmp_path / "other").write_bytes(file.read_bytes())
        os.replace(tmp_path / "other", file)
    else:
        file.unlink()
    _, said = process.communicate("\n", timeout=120)
    assert process.returncode == 2, said
    # One that was not opened before is found cut or missing when it is.
    assert SENTENCE in said or (
        step == 1 and {"cut": "truncated", "gone": "No such file"}.get(what, SENTENCE) in said
    )
    assert said.count("\n") == 1 and str(file) in said
    assert not (tmp_path / "out").exists()


def test_a_mapped_file_that_is_cut_reads_as_zeros_and_is_told(trace):
    opened = open_trace(trace)
    values = opened.read(0, "a.weight", 0)
    os.truncate(trace / "step_00000000/worker_0000.safetensors", 4096)
    assert not values[-1].any()  # SIGBUS, unless handled
    with pytest.raises(ValueError, match=SENTENCE):
        opened.check_unchanged()
    with pytest.raises(ValueError, match=SENTENCE):
        opened.read(0, "a.weight", 0)


def test_the_note_stands_though_the_file_looks_as_before(trace):
    file = trace / "step_00000000/worker_0000.safetensors"
    opened = open_trace(trace)
    values, about, data = opened.read(0, "b.weight", 0), file.stat(), file.read_bytes()
    os.truncate(file, 4096)
    assert not values.all()
    with file.open("r+b") as stream:
        stream.write(data)
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    with pytest.raises(ValueError, match=SENTENCE):
        opened.check_unchanged()


def test_a_file_that_was_compared_with_its_digest_and_then_changed_is_told(trace):
    opened = open_trace(trace)
    opened.check()
    opened.check_unchanged()
    file = trace / "step_00000001/worker_0000.safetensors"
    with file.open("r+b") as stream:
        stream.seek(200_000)
        stream.write(b"\1" * 400)
    with pytest.raises(ValueError, match=SENTENCE):
        opened.check_unchanged()
    # Looked at again, for it is not the file that was right.
    with pytest.raises(ValueError, match="SHA-256"):
        replay(opened, "aps:e4m3")


def test_many_mappings_and_threads(trace):
    """More mappings than one table of the handler holds; files cut while threads read them."""
    traces = [open_trace(trace) for _ in range(300)]
    views = [
        one.read(step, "b.weight", worker) for one in traces for step in (0, 1) for worker in (0, 1)
    ]
    for path in trace.glob("*/*.safetensors"):
        os.truncate(path, 8192)
    sums = []
    threads = [
        threading.Thread(
            target=lambda part=views[i::4]: sums.append(sum(float(np.abs(v).sum()) for v in part))
        )
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [0.0] * 4


_HANDLERS = """
import ctypes, mmap, os, signal, sys
import apscope
trace = apscope.open_trace(sys.argv[1])
if sys.argv[2] == "before":
    import faulthandler; faulthandler.enable()
trace.read(0, "a.weight", 0)
with open(sys.argv[3], "wb") as f: f.write(b"x" * 8192)
f = open(sys.argv[3], "r+b")
m = mmap.mmap(f.fileno(), 8192)
os.truncate(sys.argv[3], 0)
if sys.argv[2] == "sent": os.kill(os.getpid(), signal.SIGBUS)
m[4096]
"""


@pytest.mark.parametrize("how", ["alone", "before", "sent"])
def test_other_bus_errors_end_the_process_as_before(trace, tmp_path, how):
    done = subprocess.run(
        [sys.executable, "-c", _HANDLERS, trace, how, tmp_path / "file"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == -7
    assert ("Bus error" in done.stderr) == (how == "before")


def test_the_manifests_shape_against_the_files_is_told_with_both(trace, tmp_path):
    manifest = trace / "manifest.json"
    manifest.write_text(manifest.read_text().replace("[512, 512]", "[1152921504606846976]", 1))
    with pytest.raises(
        ValueError,
        match=r"'a.weight' has shape \(512, 512\), but the manifest says \(1152921504606846976,\)",
    ):
        replay(trace, "aps:e4m3", check=False)
