"""What holds for the code as a whole: layers, files, stubs, documents."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from apscope import _core

ROOT = Path(__file__).parents[2]
FOLDERS = ["core", "emulation", "analysis", "bindings", "tests", ".ci", "notebooks/record"]
SUFFIXES = {".h", ".cpp", ".cu", ".py", ".sh"}
SOURCES = sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*") if p.suffix in SUFFIXES)
TEXTS = SOURCES + sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("**/CMakeLists.txt"), ROOT / "Makefile"])

# What each layer may include of the project, and of other libraries.
LAYERS = ["core", "emulation", "analysis", "bindings"]
LIBRARIES = {
    "core": ("xmmintrin.h",),  # the processor's flags
    "emulation": ("cuda_runtime", "kissfft/", "emmintrin.h"),  # streaming stores
    "analysis": ("nlohmann/", "xtensor/", "immintrin.h"),  # the peak that the bench is held to
    "bindings": ("pybind11/", "apscope/", "boost/multiprecision/"),  # of the C++ library's headers and examples
}
SYSTEM = ("fcntl.h", "unistd.h", "sys/")  # POSIX
ORACLE_ONLY = ("mpfr", "gmp", "boost/")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def includes(path: Path) -> list[tuple[str, str]]:
    """The brackets and names of a file's includes."""
    return re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', path.read_text(), re.MULTILINE)


def test_there_is_something_to_look_at():
    assert len(SOURCES) > 100
    assert {folder for folder in LAYERS if any(name(p).startswith(folder) for p in SOURCES)} == set(LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_dependencies_point_one_way(layer):
    allowed = tuple(f"{below}/" for below in LAYERS[: LAYERS.index(layer) + 1])
    for path in SOURCES:
        if not name(path).startswith(f"{layer}/"):
            continue
        for bracket, included in includes(path):
            where = f"{name(path)} includes {included}"
            if bracket == '"':
                oracle = name(path) == "bindings/module/oracle_module.cpp" and included.startswith("core/oracle/")
                beside = (path.parent / included).is_file()  # where headers are installed, folders keep their places to each other
                assert included.startswith(allowed) or oracle or beside, where
            elif "/" in included or "." in included:  # else a header of the standard library
                assert included.startswith(LIBRARIES[layer] + (SYSTEM if layer != "core" else ())), where


def test_mpfr_and_boost_stay_in_the_oracle():
    """But for the public header that takes Boost's numbers, which nothing of ours includes."""
    found = {name(p) for p in SOURCES for _, included in includes(p) if included.startswith(ORACLE_ONLY) and not name(p).startswith("tests/bindings/cpp/")}
    oracle = {f for f in found if f.startswith("core/oracle/")}
    assert oracle and found == oracle | {"bindings/cpp/apscope/multiprecision.h"}, found
    users = {name(p) for p in SOURCES for _, included in includes(p) if included.endswith("multiprecision.h")}
    assert users and all(f.startswith("tests/bindings/cpp/") for f in users), users


def test_one_header_knows_where_xtensor_is():
    found = {name(p) for p in SOURCES for _, included in includes(p) if included.startswith("xtensor/") and not name(p).startswith("tests/")}
    assert found == {"analysis/tables/array.h"}


def test_source_files_have_at_most_400_lines():
    long = {name(p): n for p in SOURCES if (n := len(p.read_text().splitlines())) > 400}
    assert not long


def test_nothing_is_left_for_later():
    words = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]) + r")\b")
    found = [f"{name(p)}: {m.group()}" for p in TEXTS for m in words.finditer(p.read_text())]
    assert not found


def test_headers_begin_by_saying_what_they_are_for():
    assert all(p.read_text().startswith("//") for p in SOURCES if p.suffix == ".h")


@pytest.mark.parametrize("scheme", [d["name"] for d in _core.scheme_definitions()])
@pytest.mark.parametrize("document", ["docs/schemes.md", "docs/definitions.md"])
def test_every_scheme_is_in_the_tables(document, scheme):
    rows = [line for line in (ROOT / document).read_text().splitlines() if line.startswith("|")]
    first_cells = [row.split("|")[1] for row in rows]
    assert any(re.search(rf"`{scheme}\b", cell) for cell in first_cells), f"{document} has no row for {scheme}"


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the stubs' text is that of Python 3.11")
def test_the_type_stubs_are_current(tmp_path):
    pinned = re.findall(r'"(pybind11[\w-]*)==([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert len(pinned) == 2
    for package, wanted in pinned:
        if version(package) != wanted:
            pytest.skip(f"the stubs' text is that of {package} {wanted}, here is {version(package)}")
    subprocess.run([sys.executable, ROOT / ".ci/stubs.py", tmp_path], check=True, capture_output=True)
    made = sorted(tmp_path.glob("*.pyi"))
    assert tmp_path / "_core.pyi" in made
    for stub in made:
        assert (ROOT / "bindings/apscope" / stub.name).read_text() == stub.read_text(), "run make stubs"


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "bindings/apscope/py.typed").is_file()
