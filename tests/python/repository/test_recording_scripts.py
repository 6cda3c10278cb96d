"""The scripts of notebooks/record name missing packages in one sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "notebooks/record"
SCRIPTS = sorted(path.name for path in FOLDER.glob("record_*.py"))
WITHOUT = (
    "import runpy, sys; sys.modules[sys.argv.pop(1)] = None; sys.path.insert(0, "
    "{folder!r}); runpy.run_path({script!r}, run_name='__main__')"
)


def said(script, package, *arguments):
    code = WITHOUT.format(folder=str(FOLDER), script=str(FOLDER / script))
    return subprocess.run(
        [sys.executable, "-c", code, package, *arguments], capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "script, package", [*((script, "torch") for script in SCRIPTS), ("record_resnet.py", "sklearn")]
)
def test_a_package_that_is_not_installed(script, package):
    run = said(script, package)
    assert run.returncode == 1 and len(run.stderr.splitlines()) == 1 and package in run.stderr
    assert run.stderr.endswith("; the recording scripts need: pip install 'apscope[record]'\n")


def test_a_text_that_is_not_installed(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    run = said("record_characters.py", "none", str(tmp_path), "--bible", "no-such-bible")
    assert (
        run.stderr
        == "the program no-such-bible is not installed; this script needs: apt-get install "
        "bible-kjv\n"
    )
