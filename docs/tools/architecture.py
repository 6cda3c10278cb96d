"""The floors and the modules of the Python package: the list of docs/ARCHITECTURE.md.

The floors are the map that `make lint` holds (pyproject.toml), a module's line is the first sentence
of its docstring.
"""

import ast
import tomllib
from pathlib import Path

from .page import ROOT

PACKAGE = ROOT / "bindings/apscope"


def floors() -> list[list[str]]:
    """The folders and modules of each floor, the lowest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return [row.split(" | ") for row in reversed(layers)]


def said(path: Path) -> str:
    """The first paragraph of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


def modules(folder: Path, indent: str) -> list[str]:
    """A line for each module in a folder, then those of the folders in it."""
    lines = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py" and path.stem != "__init__":
            lines.append(f"{indent}- `{path.stem}`: {said(path)}")
        elif (path / "__init__.py").exists():
            lines += [f"{indent}- `{path.name}/`: {said(path / '__init__.py')}"]
            lines += modules(path, indent + "  ")
    return lines


def lines() -> list[str]:
    """The drawing of the floors, and a list of what stands on each."""
    numbered = list(enumerate(floors()))
    written = ["```text", *(f"{at:>2}  {'  '.join(row)}" for at, row in reversed(numbered)), "```"]
    for at, row in numbered:
        written += ["", f"### Floor {at}", ""]
        for name in row:
            folder = PACKAGE / name
            at_home = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
            written.append(f"- `{name}{'/' * folder.is_dir()}`: {said(at_home)}")
            written += modules(folder, "  ") if folder.is_dir() else []
    return written


SECTIONS = {"floors": lines}
