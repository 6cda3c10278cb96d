"""A replay on a Dask cluster: the same bytes, and one sentence for every error."""

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import apscope
from apscope._progress import Bar
from apscope.cli import main
from apscope.record import TraceWriter

distributed = pytest.importorskip(
    "distributed", reason="dask.distributed is not installed (apscope[dask])"
)
dask = pytest.importorskip("dask")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own

SCHEMES = [
    "aps:e4m3",
    "dynamic_loss_scaling:e4m3",
    "qsgd",
    "error_feedback(sign)",
    "hybrid(last=none:fp16;else=aps:e4m3)",
    "mx:bucket=25MB",
]
FILES = ("results.csv", "results.parquet", "histograms.parquet")


@contextmanager
def cluster_of(workers, settings=(), **options):
    """A client of a cluster of so many workers, each of one thread; `settings` are Dask's."""
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None} | options
    with (
        dask.config.set({f"distributed.scheduler.{name}": value for name, value in settings}),
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


#: Each worker keeps its own part.
NOBODY_STEALS = [("work-stealing", False)]


@pytest.fixture(scope="module", params=[False, True], ids=["threads", "processes"])
def client(request):
    with cluster_of(2 if request.param else 1, processes=request.param) as client:
        yield client


def replay(digits, **options):
    return apscope.replay(digits, SCHEMES, topology=["ring", "tree"], keep_states=True, **options)


@pytest.fixture(scope="module")
def whole(digits):
    return replay(digits)


def same(one, other):
    assert set(one) == set(other)
    for key, rows in one.items():
        assert set(rows) == set(other[key])
        assert all(np.array_equal(rows[name], other[key][name]) for name in rows)


def alike(here, there):
    """The files of results of this process and of a cluster have the same bytes."""
    for name in FILES:
        assert (there / name).read_bytes() == (here / name).read_bytes(), name


@pytest.mark.parametrize("by_url", [False, True], ids=["folder", "url"])
def test_a_cluster_changes_no_byte(client, digits, whole, tmp_path, by_url):
    if by_url:  # of files that processes of their own can reach
        pytest.importorskip("fsspec", reason="fsspec is not installed (apscope[remote])")
    source = Path(digits).as_uri() if by_url else digits
    found = replay(source, client=client)
    alike(whole.save(tmp_path / "here"), found.save(tmp_path / "there"))
    told = [(tmp_path / folder / "provenance.json").read_text() for folder in ("there", "here")]
    assert source in told[0] and told[0].replace(source, digits) == told[1]
    assert list(found.states["digits"]) == list(whole.states["digits"])
    same(found.states["digits"], whole.states["digits"])


def test_a_shard_of_a_cluster_is_that_shard(client, digits):
    for shard in ((0, 3), (2, 3)):
        assert replay(digits, shard=shard, client=client).frame.equals(
            replay(digits, shard=shard).frame
        )


def test_errors_over_several_steps_are_the_same_on_a_cluster(client, digits):
    options = {"schemes": SCHEMES, "topology": "ring", "steps": "0:7", "persistence": True}
    here = apscope.replay(digits, **options).persistence
    there = apscope.replay(digits, client=client, **options).persistence
    assert set(here["steps"]) == {1, 3} and there.equals(here)


def test_states_go_on_where_they_ended(client, digits, whole):
    steps = apscope.open_trace(digits).steps
    first = replay(digits, steps=f":{steps[3]}", client=client)
    rest = replay(digits, steps=f"{steps[3]}:", states=first.states, client=client)
    assert len(first.frame) + len(rest.frame) == len(whole.frame)
    same(rest.states["digits"], whole.states["digits"])


def test_progress_reaches_the_end(client, digits, monkeypatch):
    told = []

    class Told(Bar):
        def __enter__(self):
            return lambda done, total: told.append((done, total))

        def __exit__(self, *error):
            pass

    monkeypatch.setattr("apscope._replay.run.Bar", Told)
    replay(digits, progress=True, client=client)
    assert told and told[-1][0] == told[-1][1] > 0
    assert [d for d, _ in told] == sorted(d for d, _ in told)


def test_a_trace_that_the_workers_do_not_find_is_one_sentence(client, digits, tmp_path):
    with TraceWriter(tmp_path / "t", workers=1) as writer:
        writer.add(0, 0, "a", np.ones(2, np.float32))
        writer.end_step(0, loss=1.0)
    trace = apscope.open_trace(tmp_path / "t")
    (tmp_path / "t").rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"^on a Dask worker \(.*\): .*/t is not a trace"):
        apscope.replay(trace, "none:e4m3", client=client)


def test_workers_fetch_what_they_read_and_the_client_the_manifest(client, digits, tmp_path):
    pytest.importorskip("fsspec", reason="fsspec is not installed (apscope[remote])")
    place = shutil.copytree(digits, tmp_path / "digits")
    steps = apscope.open_trace(digits).steps
    for step in steps[2:]:
        shutil.rmtree(place / f"step_{step:08d}")
    for file in place.rglob("worker_000[2-7].safetensors"):
        file.unlink()
    trace, some = apscope.open_trace(place.as_uri()), {"steps": f":{steps[2]}", "workers": 2}
    assert replay(trace, client=client, **some).frame.equals(replay(digits, **some).frame)
    with pytest.raises(
        ValueError,
        match=r"^on a Dask worker \(.*\): file://.*/digits: a file "
        r"is missing that the manifest lists: ",
    ):
        replay(trace, client=client)
    assert [path.name for path in trace.path.rglob("*")] == ["manifest.json"]


def removed(folder):
    """The files that each process reports as removed."""
    return [set(path.read_text().split()) for path in folder.iterdir()]


def test_a_worker_opens_the_files_of_its_steps_alone(digits, tmp_path):
    """For schemes without memory of elements that do not look ahead at sums: each Dask worker gets
    half of the steps, and no file is read by both."""
    pytest.importorskip("fsspec", reason="fsspec is not installed (apscope[remote])")
    code = f"""
import os, shutil
real = shutil.rmtree
def rmtree(folder, *others, **keys):
    with open({str(tmp_path)!r} + f"/{{os.getpid()}}", "a") as lines:
        for path, _, files in os.walk(folder):
            lines.writelines(os.path.join(os.path.basename(path), file) + "\\n" for file in files if file.startswith("worker"))
    real(folder, *others, **keys)
shutil.rmtree = rmtree
"""
    stateless = [spec for spec in SCHEMES if "feedback" not in spec and "dynamic" not in spec]
    trace = apscope.open_trace(digits)
    all_files = len(trace.steps) * trace.workers
    # What is paused gets no part.
    with cluster_of(2, NOBODY_STEALS, memory_limit=0) as client:
        client.run(lambda: exec(code, {}))
        found = apscope.replay(Path(digits).as_uri(), stateless, client=client)
        deadline = time.monotonic() + 60
        while (
            sum(len(fetched) for fetched in removed(tmp_path)) < all_files
            and time.monotonic() < deadline
        ):  # once the trace is not needed
            time.sleep(0.05)
    assert found.frame.equals(apscope.replay(digits, stateless).frame)
    one, other = removed(tmp_path)
    assert not one & other and len(one) + len(other) == all_files
    assert min(len(one), len(other)) >= all_files // 3


def test_the_command_line_takes_a_scheduler(client, digits, whole, tmp_path, capsys):
    words = [w for s in SCHEMES for w in ("--scheme", s)] + [
        "--topology",
        "ring",
        "--topology",
        "tree",
    ]
    address = client.scheduler.address
    if address.startswith("inproc"):
        pytest.skip("a cluster inside a process has no address for others")
    assert main(["replay", digits, "-o", str(tmp_path / "r"), *words, "--dask", address]) == 0, (
        capsys.readouterr().err
    )
    alike(whole.save(tmp_path / "here"), tmp_path / "r")


def test_a_worker_that_ends_is_one_sentence(digits, monkeypatch):
    def die(*arguments):
        os._exit(1)

    monkeypatch.setattr("apscope._replay.cluster.run_part", die)
    with cluster_of(1, [("allowed-failures", 0)]) as client:
        with pytest.raises(
            ChildProcessError, match=r"^the Dask worker tcp://.* ended while it worked"
        ):
            replay(digits, client=client)


@pytest.mark.parametrize("what, told", [("read_statistics", 3), ("replay", 7)])
def test_a_worker_that_is_killed_leaves_its_part_to_another(digits, tmp_path, what, told):
    """The first worker to begin a pass is killed at its first item; its part is done elsewhere, to
    the same bytes."""
    mark = tmp_path / "killed"
    code = f"""
import os, signal
from apscope import _core
real = _core.{what}
def call(*arguments):
    try:
        os.close(os.open({str(mark)!r}, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return real(*arguments)
    def die(done, total):
        if 0 < done < total:
            os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments[:{told}], die, *arguments[{told} + 1:])
_core.{what} = call
"""
    with cluster_of(2) as client:
        client.run(lambda: exec(code, {}))
        before = set(client.run(os.getpid).values())
        found = replay(digits, client=client)
        after = set(client.run(os.getpid).values())
    assert mark.exists() and before != after
    alike(replay(digits).save(tmp_path / "here"), found.save(tmp_path / "there"))


#: Replays never end: their process says that they have begun.
HELD = """
import os, pathlib, time
from apscope import _core
def held(*arguments):
    pathlib.Path({mark!r}, str(os.getpid())).touch()
    while True:
        time.sleep(0.1)
_core.replay = held
"""


@pytest.mark.parametrize("workers, begins", [(1, ""), (2, ""), (2, "3")])
def test_workers_that_all_end_at_once_do_the_replay_once_they_are_back(
    digits, tmp_path, workers, begins
):
    """Dask alone would keep the parts for workers at addresses that no longer exist, and states
    of the steps before are lost with them."""
    what = {"steps": f"{begins}:", "states": replay(digits, steps=":3").states if begins else None}
    with cluster_of(workers, NOBODY_STEALS) as client:
        client.run(lambda: exec(HELD.format(mark=str(tmp_path)), {}))
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(replay, digits, client=client, **what)
            deadline = time.monotonic() + 300
            while (
                len(begun := list(tmp_path.iterdir())) < workers
                and not future.done()
                and time.monotonic() < deadline
            ):
                time.sleep(0.01)
            for path in begun:
                os.kill(int(path.name), signal.SIGKILL)
            found = future.result(timeout=600)
    assert len(begun) == workers
    assert found.frame.equals(replay(digits, **what).frame)


def test_states_of_a_replay_that_failed_are_not_those_of_the_next(digits):
    """Everything that is sent to workers has its own name."""
    code = """
from apscope import _core
real = _core.replay
def once(*arguments):
    _core.replay = real
    raise ValueError("not this time")
_core.replay = once
"""
    some = {"topology": "ring", "keep_states": True}
    first, second = (
        apscope.replay(digits, "error_feedback(sign)", steps=steps, **some)
        for steps in (":3", "1:3")
    )
    with cluster_of(1) as client:
        rest = {"topology": "ring", "steps": "3:6", "client": client}
        client.run(lambda: exec(code, {}))
        with pytest.raises(ValueError, match="not this time") as kept:  # holds on to what was sent
            apscope.replay(digits, "error_feedback(sign)", states=first.states, **rest)
        found = apscope.replay(digits, "error_feedback(sign)", states=second.states, **rest)
    wanted = apscope.replay(
        digits, "error_feedback(sign)", states=second.states, topology="ring", steps="3:6"
    )
    assert kept.value and found.frame.equals(wanted.frame)
    assert not found.frame.equals(
        apscope.replay(
            digits, "error_feedback(sign)", states=first.states, topology="ring", steps="3:6"
        ).frame
    )


def test_an_error_names_the_worker_that_had_it(digits):
    """Any worker's part: the first of two is busy, so the second may take over its part."""
    code = """
from apscope._replay import tasks
def no(path):
    raise OSError(f"{path} is\\nnot there")
tasks.open_trace = no
"""
    with cluster_of(2) as client:
        first, second = sorted(client.nthreads())
        client.run(lambda: exec(code, {}), workers=[second])
        busy = client.submit(time.sleep, 20, workers=[first], pure=False)
        with pytest.raises(
            OSError, match=f"^on a Dask worker \\({second}\\): .*digits is not there$"
        ):
            replay(digits, client=client)
        del busy


def test_files_of_a_trace_that_is_damaged_stay_on_no_worker(digits, tmp_path):
    """They are removed before the error is raised, not when its traceback, which refers to the
    trace, is collected."""
    pytest.importorskip("fsspec", reason="fsspec is not installed (apscope[remote])")
    damaged = Path(shutil.copytree(digits, tmp_path / "digits"))
    file = min(damaged.glob("step_*/worker_*"))
    file.write_bytes(file.read_bytes()[:-1] + b"\x7f")
    (tmp_path / "there").mkdir()

    def collect_nothing(folder):
        gc.disable()
        tempfile.tempdir = folder

    with cluster_of(1) as client:
        client.run(collect_nothing, str(tmp_path / "there"))
        with pytest.raises(
            ValueError, match=rf"^on a Dask worker \(.*\): {re.escape(file.as_uri())}: its SHA-256"
        ):
            replay(damaged.as_uri(), client=client)
        assert not list((tmp_path / "there").iterdir())


def test_too_little_memory_is_told_before_a_file_is_fetched(digits, tmp_path):
    """There are none here to fetch. By what the caller gives, and by half of a worker's own
    limit."""
    place = tmp_path / "digits"
    place.mkdir()
    shutil.copy(f"{digits}/manifest.json", place)
    with distributed.Client(n_workers=1, processes=False, dashboard_address=None) as client:
        for memory in ("2K", None):
            with pytest.raises(
                ValueError,
                match=r"^on a Dask worker \(.*\): memory 2K is too little: tensor .* give at least",
            ):
                apscope.replay(place.as_uri(), "error_feedback(sign)", client=client, memory=memory)
            manager = client.cluster.workers[0].memory_manager
            manager.memory_limit, manager.memory_pause_fraction, manager.memory_spill_fraction = (
                4096,
                False,
                False,
            )


def test_what_is_no_client_is_refused(digits):
    with pytest.raises(TypeError, match="client is str; give a dask.distributed.Client"):
        replay(digits, client="tcp://127.0.0.1:8786")


def test_nobody_at_the_address_is_one_sentence(digits, tmp_path, capsys):
    assert main(["replay", digits, "-o", str(tmp_path), "--dask", "nonsense://x"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_dask_is_never_imported_unasked(digits):
    code = (
        "import sys, apscope; apscope.replay(sys.argv[1], 'none:e4m3'); assert not {'dask', "
        "'distributed'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, digits], check=True)
