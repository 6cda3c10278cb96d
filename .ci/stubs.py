"""Write the type stubs: python .ci/stubs.py FOLDER.

Those of the extension modules, and that of apscope.schemes, whose classes are made when it is imported.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import subprocess
import sys
import tempfile
from pathlib import Path

MODULES = ("_core", "_oracle")  # _oracle exists where MPFR does


#: What a key takes by its default: numbers give way to words such as ``best``, words to numbers and formats.
VALUES = {bool: "bool", int: "float | str", float: "float | str", str: "str | float | FloatFormat", type(None): "Projection | None"}
WORDS = ("rounding", "hop_rounding", "overflow")
FIRST = {"format": "FloatFormat | str | DTypeLike", "scheme": "Scheme | str", "branches": "Mapping[str, Scheme | str]"}


def scheme_stub() -> str:
    """apscope.schemes for type checkers and editors: every class with what its constructor takes."""
    from apscope import schemes

    lines = [
        '"""Written by .ci/stubs.py: make stubs."""',
        "",
        "from collections.abc import Mapping",
        "",
        "from numpy.typing import DTypeLike",
        "",
        "from ._arrays.projection import Projection",
        "from ._core import FloatFormat",
        "from ._schemes.definitions import SchemeDefinition, SchemeKey, definitions",
        "from ._schemes.lists import all_schemes, main_schemes",
        "from ._schemes.scheme import Scheme, as_scheme, define",
        "",
        "__all__ = [",
        *(f'    "{name}",' for name in schemes.__all__),
        "]",
    ]
    for name in schemes.__all__:
        made = getattr(schemes, name)
        if not (inspect.isclass(made) and issubclass(made, schemes.Scheme)) or made is schemes.Scheme:
            continue
        taken = ["self"]
        for p in inspect.signature(made).parameters.values():
            if p.kind is not p.KEYWORD_ONLY:
                taken.append(f"{p.name}: {FIRST[p.name]}")
                continue
            if "*" not in taken:
                taken.append("*")
            taken.append(
                f"{p.name}: {'str' if p.name in WORDS else VALUES[type(p.default)]} = {json.dumps(p.default) if isinstance(p.default, str) else repr(p.default)}"
            )
        one = f"    def __init__({', '.join(taken)}) -> None: ..."
        several = ["    def __init__(", *(f"        {t}," for t in taken), "    ) -> None: ..."]
        lines += ["", f"class {name}(Scheme):", *([one] if len(one) <= 140 else several)]
    return "\n".join(lines) + "\n"


def write_stubs(folder: Path) -> list[Path]:
    """The stubs written, one a module that this installation has."""
    written = []
    with tempfile.TemporaryDirectory() as scratch:
        for module in MODULES:
            if importlib.util.find_spec(f"apscope.{module}") is None:
                continue
            command = [sys.executable, "-m", "pybind11_stubgen", f"apscope.{module}"]
            subprocess.run([*command, "--numpy-array-use-type-var", "--exit-code", "-o", scratch], check=True)
            text = (Path(scratch) / "apscope" / f"{module}.pyi").read_text()
            written.append(folder / f"{module}.pyi")
            written[-1].write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")
    written.append(folder / "schemes.pyi")
    written[-1].write_text(scheme_stub())
    return written


if __name__ == "__main__":
    for path in write_stubs(Path(sys.argv[1])):
        print(path)
