"""Checks the installed apscope: its files, its commands, a tiny trace from recording to report.

Run by the Python of an environment with a wheel in it, isolated from the folder it is started in:
python -I .ci/check_installed.py [--oracle], where --oracle asks for the module built with MPFR.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path

import numpy as np

import apscope
from apscope.record import TraceWriter

FILES = [
    "py.typed",
    "_core.pyi",
    "_oracle.pyi",
    "schemes.pyi",
    "_report/template.html",
    "_report/licences.txt",
    "_report/page/main.js",
    "_report/page/style.css",
]
LICENCES = {"LICENSE", "LICENSE-THIRD-PARTY.txt"}


def run(*arguments: object) -> str:
    """What the `apscope` of this environment prints; fails where it does."""
    command = Path(sysconfig.get_path("scripts")) / "apscope"
    return subprocess.run(
        [command, *map(str, arguments)], check=True, capture_output=True, text=True
    ).stdout


def check_files(*, oracle: bool) -> None:
    """What the wheel must hold."""
    package = files("apscope")
    assert Path(str(package)).is_relative_to(sys.prefix), (
        f"apscope comes from {package}, not from {sys.prefix}"
    )
    missing = [name for name in FILES if not (package / name).is_file()]
    assert not missing, f"the wheel lacks {missing}"
    licences = {
        Path(str(path)).name
        for path in distribution("apscope").files or []
        if ".dist-info/licenses" in str(path)
    }
    assert licences == LICENCES, f"the wheel's licences are {licences}"
    assert apscope.__version__ == distribution("apscope").version
    if oracle:
        from apscope import _oracle

        assert _oracle.verify


def check_commands(folder: Path) -> None:
    """A trace of two workers and three steps, from recording to report."""
    assert "e4m3fn" in run("formats")
    assert "aps" in run("schemes")
    random = np.random.default_rng(1)
    with TraceWriter(folder / "trace", workers=2, reduction="mean") as writer:
        for step in range(3):
            for worker in range(2):
                writer.add(
                    step,
                    worker,
                    "fc.weight",
                    random.normal(scale=1e-3, size=(16, 8)).astype(np.float32),
                )
            writer.end_step(step, loss=1.0, learning_rate=0.1)
    run(
        "replay",
        folder / "trace",
        "--scheme",
        "aps:e4m3",
        "--scheme",
        "none:fp16",
        "--topology",
        "ring",
        "-o",
        folder / "results",
    )
    assert "aps:e4m3" in run("summary", folder / "results")
    run("report", folder / "results", "-o", folder / "report.html")
    assert "<svg" in (folder / "report.html").read_text()


if __name__ == "__main__":
    check_files(oracle="--oracle" in sys.argv[1:])
    with tempfile.TemporaryDirectory() as scratch:
        check_commands(Path(scratch))
    print(f"apscope {apscope.__version__} is whole in {sys.prefix}")
