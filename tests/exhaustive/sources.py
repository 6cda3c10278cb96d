"""Which C++ a kind of proof runs through, found from its include lines, and the digest of it.

From the source files that a proof begins in, every ``#include "..."`` is followed, and a header brings the sources that implement
it: the .cpp of its own name, and those named after it with a number type (quantize_fp32.cpp). Files are known by name, wherever
in the tree they lie. The oracle belongs to it: a wrong oracle could let a wrong cast pass, so that a change there asks for the proof again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from . import tokens

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("core", "emulation")
NUMBER_TYPES = ("_fp32", "_fp64")


@dataclass(frozen=True)
class Reach:
    """Where a kind of proof begins, and where it ends."""

    roots: tuple[str, ...]
    #: Files that are left out, with all that they alone include, and why: names, or names without their suffix.
    cut: dict[str, str]


# Names of formats are left out: a row's digest holds the fields of the format that its name stands for.
_NAMES = {"named_formats": "which format a name means; the digest of a row holds the format's fields"}
#: Proofs run over pieces in cache.
_LARGE = {"streamed_piece": "how large results leave the cache, once rounded; test_quantize_paths.cpp compares it with pieces in cache"}
#: Deterministic casts and codes.
CASTS = Reach(("verify",), _NAMES | _LARGE)
#: Nothing includes the loops of stochastic modes: quantize_job.h declares them, and deterministic modes never call them.
ALL_CASTS = Reach(("verify", "stochastic_fp32", "stochastic_fp64"), _NAMES | _LARGE)
ARITHMETIC = Reach(("operations",), _NAMES | {"verify.cpp": "how casts are proved; arithmetic takes from it how a number is shown"})
PARTS = {
    "all inputs": CASTS,
    "P3109, all inputs": CASTS,
    "P3109 beyond fp32": ALL_CASTS,
    "rule": ALL_CASTS,
    "fp64 formats": ALL_CASTS,
    "arithmetic": ARITHMETIC,
    "sampled fma": ARITHMETIC,
}
#: What hands arguments from Python to the oracle: it, but not what it includes for other calls.
GLUE = "bindings/**/oracle_module.cpp"
#: Compilers' options by which a number may change.
_OPTION = re.compile(r"(?<![\w-])-(?:f[\w-]*(?:math|contract|signed-zeros|rounding|associative|excess)[\w=-]*|O\w+|m[\w=.-]+)")


@dataclass
class Tree:
    """The C++ of a working tree."""

    root: Path = ROOT
    _parsed: dict[Path, tokens.Source] = field(default_factory=dict)

    @cached_property
    def files(self) -> list[Path]:
        """Sources and headers of the folders that proofs run through; what runs on a GPU is proved on one."""
        found = (p for folder in FOLDERS for p in (self.root / folder).rglob("*") if p.suffix in (".h", ".cpp"))
        return sorted(p for p in found if "cuda" not in p.relative_to(self.root).parts)

    @cached_property
    def _named(self) -> dict[str, list[Path]]:
        named = defaultdict(list)
        for path in self.files:
            named[path.name].append(path)
        return named

    def source(self, path: Path) -> tokens.Source:
        if path not in self._parsed:
            self._parsed[path] = tokens.parse(path.read_text())
        return self._parsed[path]

    def find(self, stem: str) -> Path:
        """The one .cpp of this name."""
        return self._only(self._named[f"{stem}.cpp"], f"{stem}.cpp")

    def glue(self) -> Path:
        return self._only(list(self.root.glob(GLUE)), GLUE)

    def header(self, path: str) -> Path:
        """The file that an include line means, from whatever folder its path counts."""
        return self._only([p for p in self._named[Path(path).name] if p.as_posix().endswith(f"/{path}")], f'#include "{path}"')

    def _only(self, found: list[Path], what: str) -> Path:
        if len(found) != 1:
            names = ", ".join(str(p.relative_to(self.root)) for p in found) or "no file"
            raise ValueError(f"{what} is {names}; it must be one file of the tree")
        return found[0]

    def implementations(self, header: Path) -> list[Path]:
        """The sources of a header: of its name where they include it, and of its name and a number type beside it."""
        own = [p for p in self._named[f"{header.stem}.cpp"] if header in map(self.header, self.source(p).includes)]
        typed = (header.with_name(f"{header.stem}{real}.cpp") for real in NUMBER_TYPES)
        return own + [p for p in typed if p in self._named[p.name]]

    def reached(self, reach: Reach) -> set[Path]:
        """Every file that a proof runs through, but the glue."""
        left = [self.find(root) for root in reach.roots]
        found: set[Path] = set()
        while left:
            path = left.pop()
            if path in found or path.stem in reach.cut or path.name in reach.cut:
                continue
            found.add(path)
            left += map(self.header, self.source(path).includes)
            if path.suffix == ".h":
                left += self.implementations(path)
        return found

    def options(self) -> list[str]:
        """The compilers' options that the build sets and that may change a number."""
        lists = [
            self.root / "CMakeLists.txt",
            *(p for folder in FOLDERS for p in (self.root / folder).rglob("CMakeLists.txt") if "cuda" not in p.parts),
        ]
        return sorted({option for path in lists if path.exists() for option in _OPTION.findall(path.read_text())})

    def digest(self, reach: Reach) -> str:
        """Of all that a proof runs through: the tokens of its files and of the glue, and the compiler's options."""
        files = self.reached(reach) | {self.glue()}
        return tokens.digest([*map(self.source, files), tokens.Source(tuple(self.options()), ())])
