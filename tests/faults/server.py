"""Runs apscope's command line in children of one process that has imported all of it: a run then
takes milliseconds.

Started by `library.Server` with faults.c preloaded. Reads one request per line, JSON, on standard
input; answers one line each.
"""

import contextlib
import ctypes
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

MODES = tuple("count kill kill_after kill_half no_space disk_full io_error interrupt".split())


SENT = {signal.SIGINT, signal.SIGTERM}


def work(job: dict[str, Any]) -> int:
    """A child's work: words for the command line, or a function of `scripts`."""
    if script := job.get("script"):
        run = importlib.import_module("tests.faults.scripts").SCRIPTS[script]
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SENT)
            return run(*job.get("arguments", ()))
        except KeyboardInterrupt:  # as a user's script may say it
            print("apscope: interrupted", file=sys.stderr)
            return 130
    from apscope import cli

    # The first that main() does; before it a process has a handler of its own.
    interrupts = cli.interrupts

    @contextlib.contextmanager
    def unblocked() -> Iterator[None]:
        with interrupts():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SENT)
            yield

    cli.interrupts = unblocked
    return cli.main(job["words"])


def child(job: dict[str, Any], faults: Any, gate: int) -> int:
    os.read(gate, 1)  # until all children are there
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(job["under"])
    if files := job.get("files"):
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    faults.faults_arm(
        os.fsencode(job["under"] if "mode" in job else ""),
        job.get("at", 0),
        MODES.index(job.get("mode", "count")),
    )
    try:
        code = work(job)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001  # as the interpreter ends
        traceback.print_exc()
        code = 1
    if job.get("modules"):
        print(json.dumps(sorted(sys.modules)))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    faults.faults_arm(b"", 0, 0) if "mode" not in job else None
    return code


def start(job: dict[str, Any], faults: Any, gate: tuple[int, int]) -> dict[str, Any]:
    out, err = os.memfd_create("out"), os.memfd_create("err")
    signal.pthread_sigmask(signal.SIG_BLOCK, SENT)
    if (pid := os.fork()) == 0:
        code = 70
        try:
            os.close(gate[1])
            os.dup2(out, 1)
            os.dup2(err, 2)
            os.closerange(3, gate[0])
            os.closerange(gate[0] + 1, 256)
            code = child(job, faults, gate[0])
        finally:
            os._exit(code)
    return {
        "pid": pid,
        "watch": os.pidfd_open(pid),
        "out": out,
        "err": err,
        "signal": job.get("signal"),
    }


def collect(run: dict[str, Any], until: float) -> dict[str, Any]:
    if run["signal"]:  # its number, and after how many seconds
        number, after = run["signal"]
        if not select.select([run["watch"]], [], [], after)[0]:
            os.kill(run["pid"], number)
    ended, _, _ = select.select([run["watch"]], [], [], max(0.0, until - time.monotonic()))
    if not ended:
        os.kill(run["pid"], signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(run["pid"], 0)[1])
    texts = {}
    for name in ("out", "err"):
        os.lseek(run[name], 0, os.SEEK_SET)
        texts[name] = os.read(run[name], 1 << 20).decode(errors="replace")
        os.close(run[name])
    os.close(run["watch"])
    return {"code": code, **texts, "hangs": not ended}


def together(jobs: list[dict[str, Any]], seconds: float, faults: Any) -> list[dict[str, Any]]:
    """All jobs at once, each in a child of its own."""
    gate = os.pipe()
    runs = [start(job, faults, gate) for job in jobs]
    os.close(gate[0])
    os.close(gate[1])
    until = time.monotonic() + seconds
    return [collect(run, until) for run in runs]


def main() -> None:
    requests, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    faults = ctypes.CDLL(None)
    faults.faults_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int]
    faults.faults_log.restype = ctypes.c_char_p
    for line in requests:
        request = json.loads(line)
        for name in request.get("modules", ()):
            try:
                importlib.import_module(name)
            # what a child imported need not be importable by its name
            except BaseException:  # noqa: BLE001
                continue
        runs = together(request["jobs"], request["seconds"], faults) if "jobs" in request else []
        answers.write(
            json.dumps({"runs": runs, "log": (faults.faults_log() or b"").decode(errors="replace")})
            + "\n"
        )
        answers.flush()


if __name__ == "__main__":
    main()
