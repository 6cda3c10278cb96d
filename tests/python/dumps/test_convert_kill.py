"""A conversion that is killed or interrupted: its place is empty, the same command continues,
another one removes its remains."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import apscope
from apscope._traces.trace_info import check
from apscope.record import TraceWriter, convert
from tests.python.argv import command, peak

STEPS, WORKERS = 40, 2
HIDDEN = re.compile("[0-9a-f]{8}$")  # what is random of a hidden folder's name
REMOVED = "removed .run.apscope-[0-9a-f]{8}, which an interrupted run left beside "
COMMAND = [sys.executable, "-m", "apscope", "convert"]


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large") / "dump"
    folder.mkdir()
    random = np.random.default_rng(0)
    for step in range(STEPS):
        for worker in range(WORKERS):
            values = random.standard_normal(200_000).astype(np.float32)
            np.savez(
                folder / f"step_{step}_rank_{worker}.npz",
                a=values,
                b=values[:1000].reshape(10, 100),
            )
    return folder


def interruptible():
    """Under job control its parent may ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


# The command, which stays behind step 3 while a file of that name stands: however fast the machine,
# it is not done before it is looked at.
HELD = """
import sys, time
from pathlib import Path
from apscope.cli import main
from apscope.record import TraceWriter
held, end_step = Path(sys.argv[1]), TraceWriter.end_step
def hold(writer, step, **numbers):
    end_step(writer, step, **numbers)
    if step == 3:
        held.touch()
        while held.exists():
            time.sleep(0.001)
TraceWriter.end_step = hold
sys.exit(main(sys.argv[2:]))
"""


@contextlib.contextmanager
def held(dump, out):
    """A conversion that has written steps 0 to 3 and waits, until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "held"
        words = [sys.executable, "-c", HELD, mark, "convert", dump, out, "--reduction", "mean"]
        process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=interruptible,
        )
        end = time.monotonic() + 300
        while not mark.exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        assert mark.exists(), process.communicate()
        try:
            yield process
        finally:
            mark.unlink()


def interrupted(dump, out, how):
    """Stops a conversion after some steps are written."""
    with held(dump, out) as process:
        process.send_signal(how)
        _, err = process.communicate(timeout=300)
    assert not out.exists()
    return process.returncode, err


def test_the_same_command_goes_on_after_a_kill(tmp_path, dump):
    out = tmp_path / "run"
    code, _ = interrupted(dump, out, signal.SIGKILL)
    assert code == -signal.SIGKILL and {HIDDEN.sub("", p.name) for p in tmp_path.iterdir()} == {
        ".run.apscope-",
        ".run.apscope-lock",
    }
    again = subprocess.run(
        [*COMMAND, dump, out, "--reduction", "mean"], check=True, capture_output=True, text=True
    )
    assert "continuing after step " in again.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    whole = convert(dump, tmp_path / "whole", reduction="mean", name="run")
    assert check(whole.trace) == STEPS * WORKERS
    files = {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    for path, data in files.items():
        if path.name != "manifest.json":
            assert (tmp_path / "whole" / path).read_bytes() == data
    assert len(files) == STEPS * WORKERS + 1


def test_another_conversion_clears_what_a_kill_left(tmp_path, dump):
    out = tmp_path / "run"
    interrupted(dump, out, signal.SIGKILL)
    lines = []
    with pytest.warns(UserWarning, match=REMOVED):
        result = convert(dump, out, reduction="mean", steps="0:2", tell=lines.append)
    assert result.trace.steps == (0, 1) and not any("going on" in line for line in lines)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_conversion_killed_after_its_end_leaves_nothing_for_long(tmp_path, dump):
    convert(dump, tmp_path / "run", reduction="mean", steps="0:1")
    left = tmp_path / ".run.apscope-0123abcd"
    left.mkdir()
    (left / "apscope.json").write_text('{"writes": "run"}')
    with (
        pytest.raises(ValueError, match="run exists; convert into a new folder"),
        pytest.warns(UserWarning, match=REMOVED),
    ):
        convert(dump, tmp_path / "run", reduction="mean")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_control_c_is_one_line_and_the_command_goes_on(tmp_path, dump):
    out = tmp_path / "run"
    code, err = interrupted(dump, out, signal.SIGINT)
    assert code == 130 and err.splitlines()[-1] == "apscope: interrupted" and "Traceback" not in err
    lines = []
    convert(dump, out, reduction="mean", tell=lines.append)
    assert any("continuing after step" in line for line in lines)


def processes_of(session):
    """The processes of a session and their children's, by what they were started with."""
    found = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                parent, _, at = (
                    (place / "stat").read_text(errors="replace").rpartition(")")[2].split()[1:4]
                )
                if session in (int(parent), int(at)):
                    found[int(place.name)] = (place / "cmdline").read_text(errors="replace")
    return found


def runs(process):
    """Whether it has not ended; one that ended may wait to be collected by whoever adopted it."""
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[
            0
        ] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("after", [0, 0.05, 0.2])
def test_control_c_while_torch_reads_is_one_line(tmp_path, after):
    # So that it still reads when it is interrupted.
    (tmp_path / "torch.py").write_text("import time\ntime.sleep(300)\n")
    out = tmp_path / "run"
    dump = Path(__file__).parents[2] / "dumps" / "four_workers" / "pt"
    process = subprocess.Popen(
        [*COMMAND, dump, out, "--reduction", "mean"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=interruptible,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    end = time.monotonic() + 300
    while (
        not (
            helpers := [
                pid for pid, words in processes_of(process.pid).items() if "_torch_process" in words
            ]
        )
        and time.monotonic() < end
    ):
        time.sleep(0.001)
    time.sleep(after)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (130, "apscope: interrupted\n")
    assert helpers
    end = time.monotonic() + 300
    while runs(helpers[0]) and time.monotonic() < end:
        time.sleep(0.001)
    assert not runs(helpers[0])


def test_the_process_that_reads_torch_files_ends_where_nobody_asks(tmp_path):
    (tmp_path / "torch.py").write_text("import sys\nsys.exit(3)\n")  # that it was imported
    script = Path(apscope.__file__).parent / "_dumps" / "_torch_process.py"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ends = [
        subprocess.run(
            [sys.executable, script], input=text, env=environment, check=False, timeout=300
        ).returncode
        for text in (b"", b"{}\n")
    ]
    assert ends == [0, 3]


@pytest.mark.parametrize("way", ["module", "script", "library"])
def test_control_c_while_modules_are_imported_is_one_line(tmp_path, way):
    # The first that is imported.
    (tmp_path / "numpy.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    # as installers write the script
    lines = "import sys\nfrom apscope.cli import main\nsys.exit(main())\n"
    for name in ("apscope", "program.py"):
        (tmp_path / name).write_text(lines)
    words = {
        "module": ["-m", "apscope"],
        "script": [tmp_path / "apscope"],
        "library": [tmp_path / "program.py"],
    }[way]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *words, "formats"],
        capture_output=True,
        text=True,
        env=environment,
        preexec_fn=interruptible,
    )
    if way == "library":  # whose own matter it is
        assert done.returncode == -signal.SIGINT and done.stderr.endswith("KeyboardInterrupt\n")
    else:
        assert (done.returncode, done.stderr) == (130, "apscope: interrupted\n")


def test_one_conversion_at_a_time_into_a_place(tmp_path, dump):
    out = tmp_path / "run"
    with (
        held(dump, out) as process,
        pytest.raises(
            ValueError,
            match=rf"another apscope convert \(process {process.pid} "
            r"on .*\) writes .*run; wait for it",
        ),
    ):
        convert(dump, out, reduction="mean")
    _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_files_that_changed_are_converted_anew(tmp_path, dump):
    out = tmp_path / "run"
    interrupted(dump, out, signal.SIGKILL)
    path = dump / "step_0_rank_0.npz"
    about = path.stat()
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns + 10**10))
    lines = []
    with pytest.warns(UserWarning, match=REMOVED):
        convert(dump, out, reduction="mean", tell=lines.append)
    assert not any("going on" in line for line in lines)


def test_another_list_of_names_in_the_same_file_is_converted_anew(tmp_path, monkeypatch):
    dump = tmp_path / "dump"
    dump.mkdir()
    for step in range(3):
        np.savez(dump / f"step_{step}.npz", a=np.ones(2, np.float32), b=np.ones(3, np.float32))
    order = tmp_path / "order.txt"
    end_step = TraceWriter.end_step

    def interrupt(writer, step, **numbers):
        end_step(writer, step, **numbers)
        if step == 1:
            raise KeyboardInterrupt

    for names, going_on in (("a\nb\n", True), ("b\na\n", False)):
        order.write_text("a\nb\n")
        out = tmp_path / f"run-{names[0]}"
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(TraceWriter, "end_step", interrupt)
            convert(dump, out, reduction="mean", order=order)
        order.write_text(names)
        lines = []
        with (
            contextlib.nullcontext()
            if going_on
            else pytest.warns(UserWarning, match="removed .run-b.apscope-")
        ):
            trace = convert(dump, out, reduction="mean", order=order, tell=lines.append).trace
        assert (
            list(trace.tensors) == names.split()
            and any("continuing after step 1" in line for line in lines) == going_on
        )


def test_a_full_disk_is_told_with_the_destination(tmp_path, monkeypatch, capsys):
    np.savez(tmp_path / "step_0.npz", a=np.ones(2, np.float32), b=np.ones(3, np.float32))
    monkeypatch.setattr(
        TraceWriter, "end_step", lambda *_, **__: os.write(os.open("/dev/full", os.O_WRONLY), b"x")
    )
    assert command("convert {} {} --reduction mean", tmp_path / "step_0.npz", tmp_path / "run") == 2
    assert (
        capsys.readouterr().err
        == f"apscope: {tmp_path / 'run'} cannot be written: No space left on device\n"
    )
    assert [p.name for p in tmp_path.iterdir()] == ["step_0.npz"]


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="resident sets are read from Linux's /proc"
)
def test_memory_is_of_one_step(tmp_path, dump):
    two, all_steps = (
        peak(f"convert {{}} {{}} --reduction mean --steps 0:{n}", dump, tmp_path / f"run{n}")
        for n in (2, STEPS)
    )
    whole = STEPS * WORKERS * 804_000
    assert all_steps - two < whole / 4


@pytest.mark.parametrize("name", ["w.npy", "w.npz"])
def test_a_stacked_array_is_read_a_step_at_a_time(tmp_path, name):
    values = np.random.default_rng(0).standard_normal((20, 2, 200_000)).astype(np.float32)
    np.save(tmp_path / name, values) if name == "w.npy" else np.savez(tmp_path / name, w=values)
    convert(
        tmp_path / name,
        tmp_path / "first",
        reduction="mean",
        step_axis=0,
        worker_axis=1,
        steps="0:1",
    )
    tracemalloc.start()
    trace = convert(
        tmp_path / name, tmp_path / "run", reduction="mean", step_axis=0, worker_axis=1
    ).trace
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < values.nbytes / 3
    assert all(
        np.array_equal(trace.read(s, "w", w), values[s, w]) for s in range(20) for w in range(2)
    )
