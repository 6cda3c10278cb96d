"""faults.c, compiled, and the process whose children run apscope under it."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.python.argv import argv

HERE = Path(__file__).parent
SECONDS = 60.0  # a run that takes longer hangs
#: APSCOPE_FAULTS=all: every call and a hundred rounds; otherwise a few of each.
ALL = os.environ.get("APSCOPE_FAULTS") == "all"


def scratch() -> Path:
    """A new folder, in memory if possible, so that thousands of writes do not wait for the disk."""
    memory = Path("/dev/shm")
    return Path(
        tempfile.mkdtemp(
            prefix="apscope-faults-", dir=memory if os.access(memory, os.W_OK) else None
        )
    )


def compiled(folder: Path) -> Path:
    """The shared library, made in `folder`."""
    library = folder / "faults.so"
    subprocess.run(
        argv(
            "cc -shared -fPIC -O1 -Wall -Wextra -Werror -o {} {} -ldl", library, HERE / "faults.c"
        ),
        check=True,
    )
    return library


def environment(**more: str) -> dict[str, str]:
    """The environment of every process here: libraries use one thread, and this package is
    found."""
    path = os.pathsep.join(filter(None, [str(HERE.parents[1]), os.environ.get("PYTHONPATH")]))
    return {
        **os.environ,
        "ARROW_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": path,
        **more,
    }


@dataclass(frozen=True)
class Call:
    """A system call that writes below the directory."""

    number: int
    name: str
    takes_space: bool
    is_data: bool
    paths: str

    def __str__(self) -> str:
        return f"call {self.number}, {self.name} {self.paths}"


@dataclass(frozen=True)
class Run:
    """How a process ended."""

    code: int
    out: str
    err: str
    hangs: bool

    @property
    def sentence(self) -> str | None:
        """The one line on standard error, without warnings; None if there is none, or more."""
        lines = [
            line
            for line in self.err.strip().splitlines()
            if not line.startswith("apscope: warning: ")
        ]
        return lines[0] if len(lines) == 1 and lines[0].startswith("apscope: ") else None

    def __str__(self) -> str:
        return (
            f"{'hangs, ' if self.hangs else ''}exit status {self.code}: {self.err.strip()[-300:]!r}"
        )


def shell_words(job: dict[str, Any]) -> list[str]:
    """A job as a user's shell runs it, in its directory and with `environment()`."""
    if "words" in job:
        return [sys.executable, "-m", "apscope", *job["words"]]
    call = (
        "from tests.faults.scripts import SCRIPTS; raise "
        f"SystemExit(SCRIPTS[{job['script']!r}](*{tuple(job['arguments'])!r}))"
    )
    return [sys.executable, "-c", call]


class Server:
    """A process with all of apscope imported, whose children are the runs."""

    def __init__(self, library: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.faults import server; server.main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(LD_PRELOAD=str(library)),
        )
        self._known: set[str] = set()
        # What takes long, before a child does.
        self._ask(modules=["pandas", "pyarrow.parquet", "jinja2", "apscope.cli", "apscope.record"])

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server of runs ended with {self._process.wait()}")
        return json.loads(line)

    def together(self, jobs: list[dict[str, Any]], seconds: float = SECONDS) -> list[Run]:
        """All jobs at once, in children that begin together."""
        return [Run(**run) for run in self._ask(jobs=jobs, seconds=seconds)["runs"]]

    def run(self, job: dict[str, Any]) -> tuple[Run, list[Call]]:
        """One job, and the calls that it wrote with below its directory where it has a mode."""
        answer = self._ask(jobs=[job], seconds=SECONDS)
        return Run(**answer["runs"][0]), calls(answer["log"]) if "mode" in job else []

    def warm_up(self, job: dict[str, Any]) -> None:
        """Runs a job that succeeds, and imports what it imports, once for all children."""
        run, _ = self.run(job | {"modules": True})
        if run.code or run.hangs:
            raise RuntimeError(f"{job}: {run}")
        modules = set(json.loads(run.out.splitlines()[-1]))
        self._ask(modules=sorted(modules - self._known))
        self._known |= modules


def calls(log: str) -> list[Call]:
    """The lines of faults.c's log."""
    rows = [line.split(" ", 3) for line in log.splitlines()]
    return [
        Call(int(number), name, "s" in flags, "d" in flags, paths)
        for number, name, flags, paths in rows
    ]
