"""The server of runs, with the inputs of every command: one per test process."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults import commands, races
from tests.faults.library import Server, compiled, scratch


@dataclass(frozen=True)
class Place:
    server: Server
    library: Path
    inputs: Path
    folder: Path  # where commands run


@pytest.fixture(scope="session")
def place():
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("faults are put in by LD_PRELOAD, which needs Linux and a C compiler")
    folder = scratch()
    library = compiled(folder)
    server = Server(library)
    inputs = commands.make_inputs(server, folder / "inputs")
    races.make_inputs(server, inputs)
    commands.warm_up(server, inputs, folder / "here")
    yield Place(server, library, inputs, folder / "here")
    server.close()
    shutil.rmtree(folder)
