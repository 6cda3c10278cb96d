"""Files that a caller or another file names are regular files: a pipe blocks nobody, a device ends
nothing, and no lock is left."""

import ast
import os
import shutil
import subprocess
import sys

import pytest

from apscope import replay
from apscope._folders.reading import open_regular, read_limited, read_utf8
from apscope.cli import main


@pytest.fixture(params=["pipe", "device"])
def odd(request, tmp_path):
    """Makes a path a pipe, or a link to a device without end."""

    def make(path):
        path.unlink(missing_ok=True)
        if request.param == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
        return path

    make.word = f"is a {request.param}; give a regular file"
    return make


def command(*words, **options):
    """A command in a process of its own, which must end."""
    return subprocess.run(
        [sys.executable, "-m", "apscope", *map(str, words)],
        capture_output=True, text=True, timeout=60, **options,
    )  # fmt: skip


def refused(done, word):
    assert done.returncode == 2 and word in done.stderr and done.stderr.count("\n") == 1, done


def test_a_plan(digits, tmp_path, odd):
    plan = odd(tmp_path / "plan.json")
    refused(command("replay", digits, "--scheme", plan, "-o", tmp_path / "r"), odd.word)
    assert not (tmp_path / "r").exists() and not list(tmp_path.glob(".*"))
    refused(command("recommend", plan, "-o", tmp_path / "new.json"), odd.word)


@pytest.mark.parametrize("name", ["provenance.json", "results.parquet", "noise.parquet"])
def test_a_file_of_results(digits, tmp_path, odd, name):
    replay(digits, "aps:e4m3", steps="0:2", topology="ring").save(tmp_path / "r")
    odd(tmp_path / "r" / name)
    for words in (["summary"], ["check"], ["report", "-o", str(tmp_path / "page.html")]):
        done = command(words[0], tmp_path / "r", *words[1:])
        assert done.returncode in (1, 2) and len(done.stderr.splitlines()) <= 1, done
        assert "Traceback" not in done.stderr
    done = command("replay", digits, "--scheme", "sign", "-o", tmp_path / "r")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert not list((tmp_path / "r").glob(".*"))


def test_an_experiment_and_its_text(tmp_path, odd):
    path = odd(tmp_path / "experiment.toml")
    refused(command("train", path, "-o", tmp_path / "out"), odd.word)
    path.unlink()
    odd(tmp_path / "corpus.txt")
    path.write_text(
        'gate = 1\nseeds = 1\nschemes = ["none:fp16"]\n[[task]]\nname = "characters"\n'
        'text = "corpus.txt"\n'
    )
    refused(command("train", path, "-o", tmp_path / "out", "--allow-outside"), odd.word)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["corpus.txt", "experiment.toml"]


def test_a_list_of_names(digits, tmp_path, odd):
    import numpy as np

    np.savez(tmp_path / "a.npz", w=np.ones((2, 3), np.float32))
    order = odd(tmp_path / "order")
    done = command(
        "convert", tmp_path / "a.npz", tmp_path / "out", "--reduction", "mean", "--workers", "1",
        "--step-axis", "none", "--order", order,
    )  # fmt: skip
    refused(done, f"{odd.word}\n")  # one remedy


def test_a_place_of_a_dump_or_a_folder(digits, tmp_path, odd, capsys):
    place = odd(tmp_path / "place")
    for words, end in (
        (["convert", place, tmp_path / "out", "--reduction", "mean"], "a regular file\n"),
        (["info", place], "a folder\n"),
        (["check", place], "a folder\n"),
        (["summary", place], "a folder\n"),
        (["replay", digits, "-o", place], "a folder for the results\n"),
    ):
        assert main([str(word) for word in words]) == 2
        error = capsys.readouterr().err
        assert error.endswith(odd.word.replace("a regular file", end)), error


@pytest.mark.parametrize("name", ["manifest.json", "step_00000000/worker_0000.safetensors"])
def test_a_file_of_a_trace(digits, tmp_path, odd, name):
    shutil.copytree(digits, tmp_path / "t")
    odd(tmp_path / "t" / name)
    for verb in ("info", "check"):
        done = command(verb, tmp_path / "t")
        assert done.returncode in (1, 2) and "Traceback" not in done.stderr, done


def test_a_pack(tmp_path, odd):
    odd(tmp_path / "manifest.json")
    done = command("conformance", "check", tmp_path, "--against", "numpy:float16")
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_a_page_that_would_be_replaced(digits, tmp_path, odd, capsys):
    replay(digits, "aps:e4m3", steps="0:2", topology="ring").save(tmp_path / "r")
    page = odd(tmp_path / "page.html")
    assert main(["report", str(tmp_path / "r"), "-o", str(page)]) == 2
    assert odd.word in capsys.readouterr().err


def test_regular_files_up_to_the_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    assert read_limited(path, 100) == b"x" * 100
    with pytest.raises(ValueError, match=r"file has 100 bytes; at most 99 are read"):
        read_limited(path, 99)
    (tmp_path / "link").symlink_to(path)
    assert read_utf8(tmp_path / "link", 100) == "x" * 100
    path.write_bytes(b"abc\xff")
    with pytest.raises(ValueError, match=r"file is not UTF-8 \(at byte 3\)"):
        read_utf8(path, 100)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "none")


def test_files_without_a_size_are_read_to_the_limit():
    assert b"Linux" in read_limited("/proc/version", 10_000)
    with pytest.raises(ValueError, match="has more than 3 bytes; at most 3 are read"):
        read_limited("/proc/version", 3)


#: Files that no caller names: of the package or of the system, or just made by the process itself.
OWN = {
    "_charts", "_proof/bench.py", "_report/document.py", "_report/library.py",
    "_report/script.py", "_training/page.py", "_excess_loss/expected.py", "_limits.py",
    "train/_tasks/digits.py", "train/_on_dask.py", "_dumps/_torch_process.py",
    "_folders/reading.py", "_dumps/write.py",
}  # fmt: skip


def test_the_package_opens_files_in_one_way(request):
    """No other reading of a whole file, nor `open` for reading, in the package."""
    package = request.config.rootpath / "bindings/apscope"
    found = []
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package).as_posix()
        if place in OWN or place.split("/")[0] in OWN:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            reads = isinstance(called, ast.Attribute) and called.attr in ("read_text", "read_bytes")
            modes = [a.value for a in node.args[1:2] if isinstance(a, ast.Constant)]
            opens = isinstance(called, ast.Name) and called.id == "open"
            if reads or (opens and not any("w" in mode or "x" in mode for mode in modes)):
                found.append(f"{place}:{node.lineno}")
    # The place that `open_regular` checked already.
    assert [name for name in found if not name.startswith("_folders/")] == []
