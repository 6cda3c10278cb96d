"""Programs that a type checker accepts and refuses: formats, and the keys of the scheme
classes."""

import ast
import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import apscope
from apscope import schemes
from apscope.schemes import Scheme, definitions

pytest.importorskip("mypy")
pytest.importorskip("ml_dtypes")

ROOT = Path(__file__).parents[3]
#: The pages, notebooks, sources and tests, in which specs and constructors stand.
PLACES = (
    "README.md",
    "docs/*.md",
    "docs/*.py",
    "notebooks/*.ipynb",
    "bindings/apscope/**/*.py",
    "tests/python/**/*.py",
)
WRITTEN = [path for pattern in PLACES for path in sorted(ROOT.glob(pattern))]
CLASSES = {d.name: d.class_name for d in definitions()}
START = (
    "import ml_dtypes\nimport numpy as np\nimport apscope\nfrom apscope import FloatFormat, "
    "Projection, schemes\nfrom apscope.schemes import *\n"
)


def checked(tmp_path: Path, *lines: str) -> dict[str, str]:
    """The messages of mypy, by line of the program."""
    program = tmp_path / "program.py"
    program.write_text(START + "\n".join(lines) + "\n")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--follow-imports=silent",
        "--cache-dir",
        str(tmp_path / "cache"),
        str(program),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(Path(apscope.__file__).parents[1])},
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"program\.py:(\d+): (?:error|note): (.*)", done.stdout)
    return {
        lines[int(number) - 1 - START.count("\n")]: text
        for number, text in found
        if "defined in" not in text
    }


RIGHT = [
    "apscope.quantize([1.0], np.float16)",
    "apscope.quantize([1.0], np.dtype('float32'), projection=Projection('to_odd'), threads=2)",
    "apscope.encode([1.0], ml_dtypes.float8_e4m3fn)",
    "apscope.decode([1], FloatFormat('e4m3'))",
    "apscope.allreduce([[1.0]], 'e4m3', accumulate=np.float32)",
    "apscope.conformance.check('pack', np.float16, format=np.float16)",
    "apscope.studies.weight_updates.underflow_curve([1.0], np.float16)",
    "APS(ml_dtypes.float8_e4m3fn, accumulate=np.float32, projection=Projection('to_odd'))",
    "OneBitAdam(warmup_format=np.float16)",
]
WRONG = [
    "apscope.quantize([1.0], 3)",
    "apscope.quantize([1.0], None)",
    "apscope.quantize([1.0], float)",
    "apscope.quantize([1.0], 'e4m3', ruonding='to_odd')",
    "APS('e4m3', roundin='stochastic')",
    "APS('e4m3', rounding=3)",
    "APS('e4m3', rounding='nearest')",
    "APS('e4m3', rounding='stochastic_exact')",
    "APS('e4m3', overflow='wrap')",
    "APS('e4m3', projection='to_odd')",
    "APS('e4m3', rule=3.5)",
    "APS('e4m3', headroom=FloatFormat('e4m3'))",
    "APS('e4m3', frozen='x')",
    "APS('e4m3', frozen=0.5)",
    "APS('e4m3', accumulate=3)",
    "QSGD(levels='abc')",
    "QSGD(levels=3.0)",
    "QSGD(projection=Projection())",
    "LossScaling('e4m3', scale='worst')",
    "CPD('e4m3', kahan='yes')",
    "IntegerAllReduce(rounding='to_odd')",
]


def test_what_is_wrong_is_refused_and_nothing_else(tmp_path):
    made = "reveal_type(APS('e4m3', rounding='stochastic', frozen=3))"
    said = checked(tmp_path, made, *RIGHT, *WRONG)
    assert said.pop(made) == 'Revealed type is "apscope.schemes.APS"'
    assert list(said) == WRONG, said


def value(text: str) -> object:
    """A key's value, as Python writes it."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def constructor(scheme: Scheme) -> str:
    """The call that makes a scheme of its spec."""
    d = next(d for d in definitions() if d.name == scheme.name)
    first = {
        "scheme": repr(scheme.body),
        "policy": repr(dict(scheme.branches)),
        "": repr(scheme.format) if d.takes_format else "",
    }[d.body]
    given = (
        f"{key.name}={value(scheme.keys[key.name])!r}"
        for key in d.keys
        if scheme.keys[key.name] != key.default
    )
    return f"{d.class_name}({', '.join(filter(None, (first, *given)))})"


def parsed(spec: str) -> Scheme | None:
    """The scheme of a registry's class, where the text is one's spec."""
    try:
        scheme = Scheme(spec)
    except ValueError:
        return None
    return scheme if scheme.name in CLASSES else None


def programs(path: Path) -> list[str]:
    """The Python of a file."""
    text = path.read_text()
    if path.suffix == ".ipynb":
        cells = (
            "".join(cell["source"])
            for cell in json.loads(text)["cells"]
            if cell["cell_type"] == "code"
        )
        return [re.sub(r"^[%!].*", "", cell, flags=re.MULTILINE) for cell in cells]
    return (
        re.findall(r"^```python[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        if path.suffix == ".md"
        else [text]
    )


def test_every_scheme_that_is_written_somewhere_is_accepted_of_its_constructor(tmp_path):
    """Written as a spec, or as a call, of which those are left out that do not run by themselves
    and that are refused."""
    specs = {
        spec
        for path in WRITTEN
        for spec in re.findall(rf"\b(?:{'|'.join(CLASSES)})\b[:(][^\s`\"'|]*", path.read_text())
    }
    found = {
        scheme for spec in specs for text in (spec, spec.rstrip(".,;)")) if (scheme := parsed(text))
    }
    calls = {constructor(scheme) for scheme in found.union(schemes.all_schemes())}
    assert len(calls) > 200
    for tree in (ast.parse(program) for path in WRITTEN for program in programs(path)):
        written = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        calls.update(
            ast.unparse(call)
            for call in written
            if ast.unparse(call.func).rpartition(".")[2] in CLASSES.values()
        )
    names: dict[str, object] = {}
    exec(START, names)
    made = {}
    for call in sorted(calls):
        with contextlib.suppress(NameError, TypeError, ValueError):
            made[call] = eval(call, names).name
    assert set(made.values()) == set(CLASSES) and len(made) > 210
    assert checked(tmp_path, *made) == {}
