"""Every sample on README.md and the pages of docs/ runs, and prints what its comments say.

A page's samples are one session in an empty folder with the bundled traces below notebooks/. A
fence says what it holds:

- ``python``: a program that goes on where the page's last one ended; the comment behind a ``print``
  is what it prints. One that begins with ``# NAME.py`` is that file instead;
- ``sh``: a script, stopped by the first command that fails; ``json``: a document;
- ``cpp``: a program, its statements those of ``main``; `test_cpp_library.py` compiles and runs it;
- ``cmake``: lines of the C++ examples' project;
- ``diff``: a patch; `test_extending.py` applies it;
- ``text``: nothing to run, such as a folder's tree; ``{...}``: a directive of the site.

What cannot run here says why behind its language: ``sh not run: minutes``. ``needs MODULE`` there
skips the rest of the page where the module is not installed, ``where MODULE ...`` this sample
alone.
"""

import ast
import contextlib
import doctest
import importlib.util
import io
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
WITH_EXAMPLES = sorted(
    p for p in (ROOT / "bindings/apscope").rglob("*.py") if ">>> " in p.read_text()
)
#: torch's gloo threads can abort a process while Python ends (pytorch issue 190489): 1 in 12 where
#: they get little time.
WITHOUT_PYTHONS_END = "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)\n"
#: A script's `apscope` and `python` are those of this test.
PRELUDE = (
    f'set -euo pipefail; apscope() {{ "{sys.executable}" -m apscope "$@"; }}; python() {{ '
    f'"{sys.executable}" "$@"; }}\n'
)


def samples(page: Path) -> list[tuple[str, str, str, int]]:
    """A page's fences: language, what else stands behind it, text, number of its first line."""
    text = page.read_text()
    return [
        (language, remark.strip(), code, text[: m.start()].count("\n") + 2)
        for m in FENCE.finditer(text)
        for (language, _, remark), code in [(m[2].partition(" "), m[3])]
    ]


def run_program(code: str, names: dict, where: str) -> None:
    """Statement by statement, so that each print is compared with its own comment."""
    lines = code.splitlines()
    for statement in ast.parse(code).body:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module([statement], []), where, "exec"), names)
        said = re.search(r"\)\s+# (.*)", lines[statement.end_lineno - 1])
        if said and lines[statement.lineno - 1].startswith("print("):
            assert printed.getvalue().split() == said[1].split(), (
                f"{where}: {lines[statement.lineno - 1]}"
            )


def dump_into(folder: Path) -> None:
    """Gradients of two workers at four steps, which README.md's commands convert."""
    rng = np.random.default_rng(0)
    for step in range(4):
        (folder / f"step_{step}").mkdir(parents=True)
        for worker in range(2):
            layers = {"a.weight": rng.standard_normal((8, 64)), "a.bias": rng.standard_normal(8)}
            arrays = {name: x.astype(np.float32) for name, x in layers.items()}
            np.savez(folder / f"step_{step}/worker_{worker}.npz", **arrays)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_samples_of(page, tmp_path, monkeypatch):
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    dump_into(tmp_path / "dumps")
    monkeypatch.chdir(tmp_path)
    # torchrun's: a machine's own name need not be one that it can reach.
    monkeypatch.setenv("PET_LOCAL_ADDR", "127.0.0.1")
    names: dict = {"__name__": "__main__"}
    for language, remark, text, line in samples(page):
        where = f"{page.name}, line {line}"
        if language.startswith("{"):
            continue
        if remark.startswith("needs "):
            pytest.importorskip(remark.split()[1])
        elif remark.startswith("where "):
            if not all(map(importlib.util.find_spec, remark.split()[1:])):
                continue
        elif remark:
            assert re.match(r"not run: \w", remark), f"{where} says '{remark}' behind its language"
            continue
        if language == "python":
            if file := re.match(r"# (\w+\.py)\n", text):
                Path(file[1]).write_text(
                    text + (WITHOUT_PYTHONS_END if "init_process_group" in text else "")
                )
            else:
                with warnings.catch_warnings():
                    # A library of others warns of what it calls itself.
                    if remark.startswith("where "):
                        warnings.simplefilter("ignore")
                    run_program(text, names, where)
        elif language == "sh":
            run = subprocess.run(["bash", "-c", PRELUDE + text], capture_output=True, text=True)
            assert run.returncode == 0, f"{where}:\n{run.stdout[-8000:]}{run.stderr[-8000:]}"
        elif language == "json":
            json.loads(text)
        elif language == "cmake":
            projects = [
                ROOT / "bindings/cpp/examples/CMakeLists.txt",
                *(ROOT / "tests/bindings/cpp/consumers").glob("*/CMakeLists.txt"),
            ]
            lines = set(text.splitlines())
            assert any(
                lines <= set(map(str.strip, project.read_text().splitlines()))
                for project in projects
            ), f"{where}: no project of an example or a consumer says it"
        else:
            assert language in ("cpp", "text", "diff"), (
                f"{where} does not say what it holds: python, sh, json, cpp, cmake, diff or text"
            )


def test_few_samples_are_not_run():
    remarks = [
        remark
        for page in PAGES
        for _, remark, _, _ in samples(page)
        if remark.startswith("not run: ")
    ]
    run = [
        language
        for page in PAGES
        for language, remark, _, _ in samples(page)
        if language in ("python", "sh") and not remark
    ]
    assert len(remarks) <= 7 < len(run)


def test_a_wrong_comment_and_a_failing_command_are_found():
    with pytest.raises(AssertionError, match="print"):
        run_program("print(1 + 1)  # 3\n", {}, "here")
    run_program("print(1 + 1)  # 2\n", {}, "here")
    assert subprocess.run(
        ["bash", "-c", PRELUDE + "apscope formats nothing | head -1\n"], capture_output=True
    ).returncode


def test_every_verb_is_in_the_command_lines_of_the_tour():
    from apscope.cli import VERBS

    tour = (ROOT / "docs/tour.md").read_text()
    named = re.findall(r"^apscope (\w+)", tour, re.MULTILINE)
    assert set(named) == set(VERBS)


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda p: p.stem)
def test_the_examples_of_docstrings(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = (
        path.relative_to(ROOT / "bindings")
        .with_suffix("")
        .as_posix()
        .replace("/", ".")
        .removesuffix(".__init__")
    )
    assert doctest.testmod(importlib.import_module(name)).failed == 0
