"""Closed standard streams, few file descriptors, interrupts, a killed Dask worker: the work is
done, or one sentence gives the reason."""

import os
import random
import shlex
import signal
import subprocess
import sys
import time
from itertools import chain, combinations

import pytest

from tests.faults.commands import COMMANDS, restore
from tests.faults.library import ALL, SECONDS, Run, environment, shell_words
from tests.faults.trials import Bench, look
from tests.python.argv import argv

VERBS = ("replay", "merge", "convert", "conformance write", "report", "TraceWriter", "Recorder")


def bench_of(place, name: str) -> Bench:
    bench = Bench(place.server, COMMANDS[name], place.inputs, place.folder)
    restore(bench.command, place.inputs, place.folder)
    return bench


def words_of(bench: Bench) -> str:
    return shlex.join(shell_words(bench.job))


def shell(bench: Bench, command: str, after: float = SECONDS, number: int = signal.SIGKILL) -> Run:
    """Runs a line of bash in the command's directory, and sends it a signal after so many
    seconds."""
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=bench.folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    sent = False
    try:
        out, err = process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        sent = True
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
    return Run(process.returncode, out, err, sent and number == signal.SIGKILL)


CLOSED = (
    [(0, 1, 2)]
    if not ALL
    else list(chain.from_iterable(combinations((0, 1, 2), n) for n in (1, 2, 3)))
)


@pytest.mark.parametrize("closed", CLOSED, ids=lambda streams: "".join(map(str, streams)))
@pytest.mark.parametrize("name", VERBS)
def test_closed_streams_leave_the_work_as_it_is(place, name, closed):
    """The first file that is opened then has a stream's number, and what is said must not go into
    it."""
    bench = bench_of(place, name)
    run = shell(
        bench,
        f"exec {words_of(bench)} "
        f"{' '.join('<&-' if stream == 0 else f'{stream}>&-' for stream in closed)}",
    )
    assert run.code == 0 and not run.hangs, run
    assert look(place.folder) == bench.clean


@pytest.mark.parametrize("files", [8, 16, 32])
@pytest.mark.parametrize("name", VERBS)
def test_few_file_descriptors_are_enough_or_are_named(place, name, files):
    """In the whole form the interpreter begins with so few."""
    bench = bench_of(place, name)
    run = (
        shell(bench, f"ulimit -n {files}; exec {words_of(bench)}")
        if ALL
        else place.server.run(bench.job | {"files": files})[0]
    )
    assert not run.hangs, run
    state, _ = bench.state()
    assert (
        state == "new"
        if run.code == 0 and not bench.command.is_recording
        else state in ("old", "new", "refused", "steps")
    ), (state, run)
    assert run.code == 0 or (run.code == 2 and run.sentence), run


by_signal = pytest.mark.parametrize(
    "number, mode",
    [(signal.SIGINT, "interrupt"), (signal.SIGTERM, "terminate")],
    ids=["interrupted", "terminated"],
)


@by_signal
@pytest.mark.parametrize("name", VERBS)
def test_a_signal_at_any_time_leaves_nothing_half_written(place, name, number, mode):
    bench = bench_of(place, name)
    begun = time.monotonic()
    place.server.run(bench.job)
    lasts = time.monotonic() - begun
    draw = random.Random(name)
    for _ in range(60 if ALL else 2 if name == "report" else 5):
        after = draw.uniform(0, lasts)
        restore(bench.command, place.inputs, place.folder)
        run, _ = place.server.run(bench.job | {"signal": [int(number), after]})
        state, wrong = bench.judged(run, mode)
        assert not wrong, f"{mode} after {after:.3f} of {lasts:.3f} s, {state}: {wrong}"


@pytest.mark.skipif(
    not ALL,
    reason="long; APSCOPE_FAULTS=all runs it, and the test before it signals processes that have "
    "imported all",
)
@by_signal
@pytest.mark.parametrize("name", VERBS[:-2])
def test_a_signal_at_any_time_of_a_process(place, name, number, mode):
    """From the interpreter's beginning on: what comes before apscope is imported is Python's own to
    say."""
    bench = bench_of(place, name)
    begun = time.monotonic()
    shell(bench, f"exec {words_of(bench)}")
    lasts = time.monotonic() - begun
    draw = random.Random(name)
    for _ in range(20):
        after = draw.uniform(0.3, lasts)
        restore(bench.command, place.inputs, place.folder)
        run = shell(bench, f"exec {words_of(bench)}", after, number)
        state, wrong = bench.judged(run, mode)
        assert not wrong, f"{mode} after {after:.3f} of {lasts:.3f} s, {state}: {wrong}"


def told(err):
    """The text of apscope, which follows the log of the cluster's library."""
    return err.strip()[err.strip().rfind("apscope: ") :]


@pytest.mark.filterwarnings("ignore")  # of Dask's own
@pytest.mark.parametrize("who", ["worker", "scheduler"])
def test_a_part_of_a_dask_cluster_that_is_killed_leaves_nothing_half_written(
    place, request, tmp_path, who
):
    """A worker's part is done by another, to the same bytes; without a scheduler a sentence says
    so."""
    distributed = pytest.importorskip(
        "distributed", reason="dask.distributed is not installed (apscope[dask])"
    )
    pytest.importorskip("dask")
    trace = request.config.rootpath / "notebooks/data/digits"
    words = argv(
        "replay {} --scheme error_feedback(sign) --scheme stochastic:e4m3 --topology ring", trace
    )
    scheduler = subprocess.Popen(
        argv(
            "{} -m distributed.cli.dask_scheduler --no-dashboard --no-show --port 0 "
            "--scheduler-file where",
            sys.executable,
        ),
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.DEVNULL,
    )
    workers = []
    try:
        with distributed.Client(
            scheduler_file=str(wait_for(tmp_path / "where")), timeout=30
        ) as client:
            address = client.scheduler.address
            command = argv(
                "{} -m distributed.cli.dask_worker {} --no-nanny --no-dashboard --nthreads 1",
                sys.executable,
                address,
            )
            workers = [
                subprocess.Popen(
                    command, cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL
                )
                for _ in range(2)
            ]
            client.wait_for_workers(2, timeout=60)
        run = subprocess.Popen(
            [sys.executable, "-m", "apscope", *words, "-o", "out", "--dask", address],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        # It has begun, and takes longer than that alone.
        time.sleep(random.Random(who).uniform(2, 3))
        (workers[0] if who == "worker" else scheduler).kill()
        _, err = run.communicate(timeout=180)
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()
    hidden = [name for name in os.listdir(tmp_path) if name.startswith(".out")]
    assert not hidden
    if run.returncode:
        assert (
            run.returncode == 2 and told(err).startswith("apscope: ") and told(err).count("\n") == 0
        ), err
        assert not (tmp_path / "out").exists()
        return
    subprocess.run(
        [sys.executable, "-m", "apscope", *words, "-o", "alone"],
        cwd=tmp_path,
        check=True,
        env=environment(),
    )
    found, alone = look(tmp_path / "out"), look(tmp_path / "alone")
    assert {name for name in alone if found.get(name) != alone[name]} <= {"provenance.json"}


def wait_for(path, seconds: float = 60.0):
    until = time.monotonic() + seconds
    while not path.exists() or not path.stat().st_size:
        assert time.monotonic() < until, f"{path} was not made"
        time.sleep(0.05)
    return path
