"""The floors of the Python package, the map in pyproject.toml: what breaks them is found."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from apscope import record
from docs.tools import architecture

pytest.importorskip("importlinter")

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "bindings/apscope"


@pytest.fixture
def check(tmp_path):
    """Checks a copy of the package's sources with a text at the end of one; returns the findings.

    -S: an editable installation would find the package itself.
    """
    for path in PACKAGE.rglob("*.py"):
        copy = tmp_path / path.relative_to(PACKAGE.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text())
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())

    def run(file="", planted=""):
        if file:
            with (tmp_path / "apscope" / file).open("a") as source:
                source.write(planted)
        run = "from importlinter.cli import lint_imports_command; lint_imports_command()"
        found = subprocess.run(
            [sys.executable, "-S", "-c", run, "--no-cache"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
            capture_output=True,
            text=True,
        )
        assert found.returncode in (0, 1), found.stderr
        return found.stdout if found.returncode else ""

    return run


def test_the_package_stands_on_its_floors(check):
    assert check() == ""


@pytest.mark.parametrize(
    "file, planted, finding",
    [
        ("_arrays/sums.py", "from .._results import results", "_arrays is not allowed to import"),
        (
            "_report/first.py",
            "def planted():\n    from .._training import page\n",
            "apscope._report.first -> apscope._training.page",
        ),
        ("_formats/words.py", "from .._traces import order", "apscope._formats.words -> "),
        ("_arrays/checks.py", "def planted():\n    from . import sums\n", "No circle of modules"),
        ("_new.py", "", "_new"),
    ],
    ids=["up", "up in a function", "beside", "circle in a folder", "not on the map"],
)
def test_what_breaks_them_is_found(check, file, planted, finding):
    assert finding in check(file, planted)


def test_no_module_imports_a_name_of_the_package_itself():
    """The map cannot see where such a name comes from; a module, or `_core`, is a place of its own."""
    extensions = {"_core", "_cuda", "_oracle"}
    modules = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or p.is_dir()} | extensions
    for path in PACKAGE.rglob("*.py"):
        dots = "." * len(path.relative_to(PACKAGE).parts)
        for names in re.findall(
            rf"^ *from {re.escape(dots)} import (\([^)]*\)|[^#\n]*)", path.read_text(), re.MULTILINE
        ):
            assert path == PACKAGE / "__init__.py" or set(re.findall(r"\w+", names)) <= modules


def test_names_that_record_imports_on_first_use_come_from_below():
    floor = {name: at for at, row in enumerate(architecture.floors()) for name in row}
    for place in record._NAMES:
        folder = place.partition(".")[0]
        assert folder == "record" or floor[folder] < floor["record"], place
