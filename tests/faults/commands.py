"""The commands under test, their inputs, and the initial content of the folder."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.python.argv import argv

from .library import Server

Job = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """A command line or script that writes `target`, run in a directory of its own; INPUTS/ in its
    words is the folder of inputs."""

    name: str
    words: tuple[str, ...] = ()
    script: tuple[Any, ...] = ()  # a function of `scripts` and its arguments
    target: str = "out"
    before: str = ""  # which of the inputs is at `target`
    reader: tuple[
        str, ...
    ] = ()  # refuses what is damaged; without one nothing else than whole files is allowed
    #: A recording: the trace of the first steps, each whole, is a right answer at any time.
    is_recording: bool = False
    kept_steps: int = field(default=0)  # of the earlier steps, those that a recording keeps

    def job(self, inputs: Path, under: Path) -> Job:
        if self.script:
            return {"script": self.script[0], "arguments": self.script[1:], "under": str(under)}
        return {
            "words": [word.replace("INPUTS", str(inputs)) for word in self.words],
            "under": str(under),
        }

    def reader_job(self, under: Path) -> Job:
        if self.is_recording:
            return {"script": "check", "arguments": [self.target], "under": str(under)}
        return {"words": list(self.reader), "under": str(under)}


def replay(
    *more: str, seed: int = 2, trace: str = "INPUTS/trace", out: str = "out"
) -> tuple[str, ...]:
    line = "replay {} --scheme stochastic:e4m3 --topology ring --threads 1 --seed {} -o {}"
    return (*argv(line, trace, seed, out), *more)


def convert(*more: str) -> tuple[str, ...]:
    return (*argv("convert INPUTS/dump out --reduction mean --worker-axis 0"), *more)


SUMMARY, INFO = ("summary", "out"), ("info", "out")
CHECK_PACK = ("conformance", "check", "out", "--against", "numpy:float16", "--format", "fp16")
MERGE = ("merge", "INPUTS/shard0", "INPUTS/shard1", "-o", "out")
REPORT = ("report", "INPUTS/results", "-o", "out.html")
RECORDING = {"is_recording": True}

COMMANDS = {
    command.name: command
    for command in (
        Command("replay", replay(), reader=SUMMARY),
        Command("replay, an empty folder there", replay(), before="empty", reader=SUMMARY),
        Command("replay --force over others", replay("--force"), before="results", reader=SUMMARY),
        Command("merge", MERGE, reader=SUMMARY),
        Command("merge --force over others", (*MERGE, "--force"), before="results", reader=SUMMARY),
        Command("convert", convert(), reader=INFO),
        Command(
            "conformance write",
            ("conformance", "write", "out", "--format", "e2m1", "--format", "fp16"),
            reader=CHECK_PACK,
        ),
        Command("report", REPORT, target="out.html"),
        Command("report over another", REPORT, target="out.html", before="report.html"),
        Command("TraceWriter", script=("write", "out"), **RECORDING),
        Command("Recorder", script=("record", "out"), **RECORDING),
        Command(
            "Recorder resumed",
            script=("record", "out", 1, 1),
            before="recorded",
            kept_steps=1,
            **RECORDING,
        ),
    )
}


def make_inputs(server: Server, folder: Path) -> Path:
    """Small inputs of every command."""

    def run(*words: str) -> None:
        server.warm_up(
            {"words": [word.replace("INPUTS", str(folder)) for word in words], "under": str(folder)}
        )

    folder.mkdir()
    (folder / "dump").mkdir()
    (folder / "empty").mkdir()
    draw = np.random.default_rng(1)
    for step in range(2):
        arrays = {
            "first.weight": draw.standard_normal((2, 8, 32), np.float32),
            "first.bias": draw.standard_normal((2, 8), np.float32),
        }
        np.savez(folder / "dump" / f"step_{step}.npz", **arrays)
    run("convert", "INPUTS/dump", "trace", "--reduction", "mean", "--worker-axis", "0")
    run(*replay(seed=1, out="results"))
    (folder / "results" / "notes.txt").write_text("a user's\n")
    for shard in range(2):
        run(*replay("--shard", f"{shard}/2", out=f"shard{shard}"))
    run(*replay(seed=5, out="others"))
    run("report", "INPUTS/others", "-o", "report.html")
    server.warm_up({"script": "record", "arguments": ["recorded"], "under": str(folder)})
    return folder


def warm_up(server: Server, inputs: Path, folder: Path) -> None:
    """Every command once, so that children import nothing."""
    for command in COMMANDS.values():
        with prepared(command, inputs, folder) as under:
            server.warm_up(command.job(inputs, under))
            if command.reader or command.is_recording:
                server.warm_up(command.reader_job(under))


def restore(command: Command, inputs: Path, under: Path) -> None:
    """The directory before a run: the target, and other files next to it."""
    shutil.rmtree(under, ignore_errors=True)
    (under / "others").mkdir(parents=True)
    (under / "others" / "file").write_text("others'\n")
    (under / "file.txt").write_text("others'\n")
    (under / ".hidden").write_text("others'\n")
    if command.before:
        source = inputs / command.before
        (shutil.copytree if source.is_dir() else shutil.copy)(source, under / command.target)


@contextmanager
def prepared(command: Command, inputs: Path, folder: Path) -> Iterator[Path]:
    restore(command, inputs, folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
