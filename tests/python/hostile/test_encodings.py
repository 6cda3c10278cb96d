"""Encodings and names that are not text: files are read as UTF-8 whatever the locale, and output
does not end in the middle."""

import ast
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from apscope import Results, open_trace
from apscope.cli import main
from apscope.record import TraceWriter
from tests.python.argv import command


def test_texts_are_read_and_written_in_a_stated_encoding(request):
    """read_text, write_text and open of text name their encoding, in the whole package."""
    package = request.config.rootpath / "bindings/apscope"
    found = []
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", "")
            )
            words = {keyword.arg for keyword in node.keywords}
            modes = [
                a.value
                for a in node.args
                if isinstance(a, ast.Constant) and isinstance(a.value, str)
            ]
            text = name in ("read_text", "write_text") or (
                isinstance(node.func, ast.Name)
                and name == "open"
                and not any("b" in mode for mode in modes[-1:])
            )
            if text and "encoding" not in words and None not in words:
                found.append(f"{path.relative_to(package)}:{node.lineno}")
    assert not found


@pytest.fixture
def trace(tmp_path):
    with TraceWriter(tmp_path / "run", workers=2, model="naïve — 模型 ×") as writer:
        for step in range(2):
            for worker in range(2):
                writer.add(
                    step, worker, "层.weight—ü", np.linspace(-1, 1, 64, dtype=np.float32) + worker
                )
            writer.end_step(step)
    return tmp_path / "run"


def run(words, **environment):
    words = [sys.executable, "-m", "apscope", *map(os.fspath, words)]
    return subprocess.run(words, capture_output=True, timeout=120, env=os.environ | environment)


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8", "cp1252"])
def test_output_in_any_encoding_is_whole(trace, tmp_path, encoding):
    whole = run(["info", trace], PYTHONIOENCODING="utf-8").stdout.decode()
    assert "层" in whole
    done = run(["info", trace], PYTHONIOENCODING=encoding)
    assert done.returncode == 0 and not done.stderr
    assert len(done.stdout.splitlines()) == len(whole.encode().splitlines())
    assert (r"\u5c42" if encoding != "utf-8" else "层").encode() in done.stdout
    done = run(
        ["replay", trace, "-o", tmp_path / "r", "--scheme", "aps:e4m3", "--topology", "ring"],
        PYTHONIOENCODING=encoding,
    )
    assert done.returncode == 0
    done = run(["summary", tmp_path / "r"], PYTHONIOENCODING=encoding)
    assert done.returncode == 0 and done.stdout.count(b"aps:e4m3") >= 1


def test_a_report_in_the_locale_c(trace, tmp_path):
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    assert (
        run(["replay", trace, "-o", tmp_path / "r", "--scheme", "aps:e4m3"], **plain).returncode
        == 0
    )
    done = run(["report", tmp_path / "r", "-o", tmp_path / "r.html"], **plain)
    assert done.returncode == 0, done.stderr
    assert "层.weight—ü" in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("encoding", ["utf-8:strict", "utf-8:surrogateescape", "latin-1"])
def test_folders_whose_names_are_not_utf_8(trace, tmp_path, encoding):
    place = os.fsencode(tmp_path)
    source, output = os.fsdecode(place + b"/t\xff"), os.fsdecode(place + b"/o\xfe")
    shutil.copytree(trace, source)
    done = run(
        ["replay", source, "-o", output, "--scheme", "aps:e4m3", "--topology", "ring"],
        PYTHONIOENCODING=encoding,
    )
    assert done.returncode == 0, done.stderr
    assert b"/o\xfe: " in done.stdout
    assert set(Results.open(output).frame["trace"]) == {r"t\xFF"}
    for words in (
        ["info", source],
        ["summary", output],
        ["report", output, "-o", output + ".html"],
        ["check", source],
        ["check", output],
    ):
        done = run(words, PYTHONIOENCODING=encoding)
        assert done.returncode == 0, (words[0], done.stderr)
        assert b"udcff" not in done.stdout + done.stderr  # a half of Python's surrogate pairs


def test_errors_about_such_folders_are_sentences(trace, tmp_path, capsys):
    source = os.fsdecode(os.fsencode(tmp_path) + b"/t\xff")
    shutil.copytree(trace, source)
    with open(os.path.join(source, "manifest.json"), "a", encoding="utf-8") as stream:
        stream.write("x")
    with pytest.raises(ValueError, match=r"t\\xFF/manifest\.json is not valid JSON"):
        open_trace(source)
    assert main(["info", source]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_link_to_nowhere_as_the_place_of_a_conversion(tmp_path, capsys):
    np.save(tmp_path / "w.npy", np.ones((4, 4), np.float32))
    (tmp_path / "out").symlink_to(tmp_path / "gone" / "away")
    assert (
        command("convert {} {} --reduction mean --workers 1", tmp_path / "w.npy", tmp_path / "out")
        == 2
    )
    assert (
        f"{tmp_path}/out is a link to {tmp_path}/gone/away, which does not exist"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "gone").exists()
