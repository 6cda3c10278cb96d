"""The notebooks run from top to bottom, and are kept without outputs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def test_they_are_numbered():
    assert [n.name[:3] for n in NOTEBOOKS] == [f"{i:02d}_" for i in range(1, len(NOTEBOOKS) + 1)]
    assert len(NOTEBOOKS) >= 2


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda n: n.name)
def test_outputs_are_stripped(notebook):
    for cell in json.loads(notebook.read_text())["cells"]:
        assert not cell.get("outputs") and not cell.get("execution_count")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda n: n.name)
def test_it_runs(notebook, tmp_path):
    # In a process of its own: the kernel's warnings are not ours, and the reports it writes go to tmp_path.
    command = [sys.executable, "-m", "pytest", "--nbmake", "--nbmake-timeout=300", "-q", "-p", "no:cacheprovider",
               "-c", os.devnull, "--rootdir", str(notebook.parent), str(notebook)]
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"TMPDIR": str(tmp_path)}, cwd=notebook.parent)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-1000:]
