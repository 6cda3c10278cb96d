"""Write the type stubs: python .ci/stubs.py FOLDER.

Those of the extension modules, that of apscope.schemes, whose classes are made when it is
imported, and those of the packages whose names are imported on first use.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import apscope
from apscope import _core, record, schemes

MODULES = ("_core", "_oracle")  # _oracle exists where MPFR does

#: The first argument of a constructor, and an example for trying keys.
FIRST = {
    "format": "FormatLike",
    "scheme": "Scheme | str",
    "branches": "Mapping[str, Scheme | str]",
    "block_format": "BlockFormat | str",
}
GIVEN = {"format": "e4m3", "scheme": "sign", "branches": {"else": "sign"}}
ROUNDINGS = [
    name for name in _core.rounding_modes() if name != "stochastic_exact"
]  # which is for casts alone
#: What a parameter takes in every class that has it.
EVERYWHERE = {
    "projection": "Projection | None",
    "rounding": "_Rounding",
    "hop_rounding": '_Rounding | Literal["same"]',
    "overflow": "_Overflow",
}
#: What neither a default tells nor a number that the parser is tried with: words beside numbers,
#: fewer choices than elsewhere.
APART = {
    **{(name, "bucket"): "int | str" for name in ("APS", "CurrentScaling", "FP8TwoShot")},
    ("CPD", "input_cast"): "bool | str",
    **{
        ("DynamicLossScaling", name): 'float | Literal["none"]'
        for name in ("min_scale", "max_scale")
    },
    ("FP8TwoShot", "group"): 'int | Literal["row"]',
    ("FP8TwoShot", "overflow"): 'Literal["pytorch", "saturate", "ieee"]',
    ("IntegerAllReduce", "rounding"): 'Literal["ties_to_even", "stochastic"]',
    ("LossScaling", "scale"): 'float | Literal["largest", "best"]',
    ("NVFP4", "four_over_six"): 'Literal[False, "mse", "mae"]',
    ("QuickReduce", "overflow"): 'Literal["saturate", "ieee"]',
    ("TopK", "index"): 'int | Literal["packed"]',
}

#: Name, unit, section and pooling of each.
COLUMNS = "COLUMNS: tuple[tuple[str, str, int, str], ...]"

#: pybind11-stubgen, of functions as C++ makes them: those around them in Python only word errors.
STUBGEN = """
import sys, apscope, pybind11_stubgen
from apscope._formats.formats import WORDED
for of, name in [(apscope.FloatFormat, "__init__"), *WORDED]:
    made = vars(of)[name]
    kind = staticmethod if isinstance(made, staticmethod) else lambda called: called
    setattr(of, name, kind(getattr(made, "__func__", made).__wrapped__))
sys.exit(pybind11_stubgen.main(sys.argv[1:]))
"""


def annotation(made: type, p: inspect.Parameter) -> str:
    """The type of a scheme class's parameter: by its default, and by trying the parser."""
    if p.kind is not p.KEYWORD_ONLY:
        return FIRST[p.name]
    if found := APART.get((made.__name__, p.name)) or EVERYWHERE.get(p.name):
        return found
    if isinstance(p.default, bool):
        return "bool"

    def takes(value: object) -> bool:
        try:
            made(
                *(GIVEN[name] for name in inspect.signature(made).parameters if name in GIVEN),
                **{p.name: value},
            )
        except ValueError:
            return False
        return True

    kinds = []
    if isinstance(p.default, float) or takes(0.25) or takes(1.5):
        kinds = ["float"]
    elif isinstance(p.default, int) or takes(8):
        kinds = ["int"]
    if isinstance(p.default, str):
        kinds.append("FormatLike" if takes("fp16") else "str")
    return " | ".join(kinds)


def scheme_stub() -> str:
    """apscope.schemes for type checkers and editors: every class with its constructor."""
    lines = [
        '"""Written by .ci/stubs.py: make stubs."""',
        "",
        "from collections.abc import Mapping",
        "from typing import Literal, TypeAlias",
        "",
        "from ._arrays.inputs import FormatLike",
        "from ._arrays.projection import Projection",
        "from ._core import BlockFormat",
        "from ._schemes.definitions import SchemeDefinition, SchemeKey, definitions",
        "from ._schemes.lists import all_schemes, main_schemes",
        "from ._schemes.scheme import Scheme, as_scheme, define",
        "",
        "__all__ = [",
        *(f'    "{name}",' for name in schemes.__all__),
        "]",
        "",
        *("_Rounding: TypeAlias = Literal[", *(f'    "{name}",' for name in ROUNDINGS), "]"),
        *(
            "_Overflow: TypeAlias = Literal[",
            *(f'    "{name}",' for name in _core.overflow_modes()),
            "]",
        ),
    ]
    for name in schemes.__all__:
        made = getattr(schemes, name)
        if (
            not (inspect.isclass(made) and issubclass(made, schemes.Scheme))
            or made is schemes.Scheme
        ):
            continue
        taken = ["self"]
        for p in inspect.signature(made).parameters.values():
            if p.kind is p.KEYWORD_ONLY and "*" not in taken:
                taken.append("*")
            default = (
                ""
                if p.default is p.empty
                else f" = {json.dumps(p.default) if isinstance(p.default, str) else repr(p.default)}"
            )
            taken.append(f"{p.name}: {annotation(made, p)}{default}")
        one = f"    def __init__({', '.join(taken)}) -> None: ..."
        several = ["    def __init__(", *(f"        {t}," for t in taken), "    ) -> None: ..."]
        lines += ["", f"class {name}(Scheme):", *([one] if len(one) <= 140 else several)]
    return "\n".join(lines) + "\n"


def package_stub(package: ModuleType) -> str:
    """A package of lazy names for type checkers and editors: every name with its import.

    As `NAME as NAME`: by PEP 484 a stub exports no other imported name, and editors keep to that.
    """
    dots = "." * package.__name__.count(".") + "."
    lines = ['"""Written by .ci/stubs.py: make stubs."""', ""]
    for place, names in package._NAMES.items():
        exported = ", ".join(f"{name} as {name}" for name in names.split())
        lines.append(f"from {dots}{place} import {exported}")
    return "\n".join([*lines, "", f"__all__ = {json.dumps(package.__all__)}"]) + "\n"


def write_stubs(folder: Path) -> list[Path]:
    """The stubs written, one a module that this installation has."""
    written = []
    with tempfile.TemporaryDirectory() as scratch:
        for module in MODULES:
            if importlib.util.find_spec(f"apscope.{module}") is None:
                continue
            command = [sys.executable, "-c", STUBGEN, f"apscope.{module}"]
            subprocess.run(
                [*command, "--numpy-array-use-type-var", "--exit-code", "-o", scratch], check=True
            )
            text = (Path(scratch) / "apscope" / f"{module}.pyi").read_text()
            written.append(folder / f"{module}.pyi")
            # The list of columns has its own table, in docs/definitions.md.
            text = re.sub(r"^COLUMNS: tuple = .*$", COLUMNS, text, flags=re.MULTILINE)
            written[-1].write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")
    texts = {
        "schemes.pyi": scheme_stub(),
        "__init__.pyi": package_stub(apscope),
        "record/__init__.pyi": package_stub(record),
    }
    for name, text in texts.items():
        written.append(folder / name)
        written[-1].parent.mkdir(exist_ok=True)
        written[-1].write_text(text)
    return written


if __name__ == "__main__":
    for path in write_stubs(Path(sys.argv[1])):
        print(path)
