"""The builds of the program that .ci/portable.sh makes, their places and the commands that run
them."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEVELS = ("portable", "sse4", "avx2", "avx512")


@dataclass(frozen=True)
class Program:
    """A build of apscope_columns."""

    folder: str  #: in build/
    library: str  #: of C++
    target: str
    before: tuple[str, ...] = ()  #: what runs it
    environment: Mapping[str, str] = field(default_factory=dict)
    levels: bool = False  #: whether it is run with every instruction set

    @property
    def path(self) -> Path:
        found = ROOT / "build" / self.folder / "tests" / "portable" / "apscope_columns"
        return found.with_suffix(".wasm") if self.folder == "wasm32" else found

    def compiler(self) -> str:
        """The first line of the compiler's version message."""
        known = next(
            (ROOT / "build" / self.folder / "CMakeFiles").glob("*/CMakeCXXCompiler.cmake")
        ).read_text()
        found = re.search(r'^set\(CMAKE_CXX_COMPILER "(.+)"\)$', known, re.MULTILINE)
        assert found is not None, self.folder
        line = subprocess.run(
            [found.group(1), "--version"], check=True, capture_output=True, text=True
        ).stdout.splitlines()[0]
        name = (
            re.sub(r"\s*\(.*?\)", "", line)
            .removeprefix("Debian ")
            .replace("version ", "")
            .replace("c++ ", "g++ ")
        )
        if self.folder != "wasm32":
            return name
        zig = subprocess.run(
            [ROOT / "build/portable/python/ziglang/zig", "version"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        return f"zig {zig}, {name}"


PROGRAMS = (
    Program("release", "libstdc++", "x86-64", levels=True),
    Program("clang", "libstdc++", "x86-64", levels=True),
    Program("libc++", "libc++", "x86-64", levels=True),
    Program("aarch64", "libstdc++", "aarch64, by qemu-user", ("qemu-aarch64",)),
    Program(
        "wasm32",
        "libc++",
        "wasm32, by wasmtime",
        (sys.executable, str(ROOT / "tests" / "portable" / "wasi.py")),
        {"PYTHONPATH": str(ROOT / "build" / "portable" / "python")},
    ),
)


def command(program: Program, level: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """The words and the environment of a run on an instruction set."""
    return [*program.before, str(program.path), *arguments], {
        **os.environ,
        **program.environment,
        "APSCOPE_SIMD": level,
    }
