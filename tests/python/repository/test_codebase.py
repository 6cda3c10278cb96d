"""Checks of the code as a whole: stubs, documents. The lint checks layers and files."""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from apscope import _core

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("scheme", [d["name"] for d in _core.scheme_definitions()])
def test_every_scheme_is_described_and_has_a_formula(scheme):
    """A section of docs/schemes.md; there, or in section 8 of docs/definitions.md, its formula."""
    sections = dict(
        re.findall(
            r"^### `(\w+)`\n(.*?)(?=^##|\Z)",
            (ROOT / "docs/schemes.md").read_text(),
            re.MULTILINE | re.DOTALL,
        )
    )
    assert scheme in sections, f"docs/schemes.md has no section for {scheme}"
    rows = re.findall(r"^\|([^|]*)\|", (ROOT / "docs/definitions.md").read_text(), re.MULTILINE)
    assert any(re.search(rf"`{scheme}\b", cell) for cell in rows) or re.search(
        r"^- formula: ", sections[scheme], re.MULTILINE
    ), f"there is no formula of {scheme}"


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="the stubs' text is that of Python 3.11"
)
def test_the_type_stubs_are_current(tmp_path):
    pinned = re.findall(r'"(pybind11[\w-]*)==([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert len(pinned) == 2
    for package, wanted in pinned:
        if version(package) != wanted:
            pytest.skip(
                f"the stubs' text is that of {package} {wanted}, here is {version(package)}"
            )
    subprocess.run(
        [sys.executable, ROOT / ".ci/stubs.py", tmp_path], check=True, capture_output=True
    )
    made = sorted(tmp_path.rglob("*.pyi"))
    assert tmp_path / "_core.pyi" in made
    for stub in made:
        kept = ROOT / "bindings/apscope" / stub.relative_to(tmp_path)
        assert kept.read_text() == stub.read_text(), "run make stubs"


def test_the_reductions_of_schemes_are_listed_once():
    sources = [
        path
        for layer in ("core", "emulation", "analysis", "bindings")
        for path in (ROOT / layer).rglob("*.*")
        if path.suffix in {".cpp", ".h"}
    ]
    named = {
        path.relative_to(ROOT).as_posix(): sum(
            f'"{name}"' in path.read_text() for name in _core.OWN_REDUCTIONS
        )
        for path in sources
    }
    assert [name for name, count in named.items() if count > 1] == ["emulation/schemes/transport.h"]
