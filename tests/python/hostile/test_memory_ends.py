"""Out of memory: one sentence and exit code 2, at any limit; never an abort, a hang or a
traceback."""

import json
import resource
import subprocess
import sys

import numpy as np
import pytest

from apscope import _limits
from apscope._dumps.conversion import convert
from apscope.cli import ADDRESSES, main
from tests.python.argv import argv, command


def run(words, kilobytes=None):
    def limit():
        if kilobytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (1024 * kilobytes, 1024 * kilobytes))

    return subprocess.run(
        [sys.executable, "-m", "apscope", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limit,
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory, digits):
    folder = tmp_path_factory.mktemp("results") / "r"
    assert run(argv("replay {} -o {}", digits, folder)).returncode == 0
    return folder


@pytest.mark.parametrize(
    "kilobytes", [400_000, 500_000, 600_000, 700_000, 800_000, 1_000_000, 1_500_000]
)
@pytest.mark.parametrize("verb", ["replay", "report", "summary"])
def test_a_limit_of_addresses(results, tmp_path, digits, verb, kilobytes):
    words = {
        "replay": argv("replay {} -o {}", digits, tmp_path / "out"),
        "report": argv("report {} -o {}", results, tmp_path / "out.html"),
        "summary": argv("summary {}", results),
    }[verb]
    done = run(words, kilobytes)
    assert done.returncode in (0, 2), (done.returncode, done.stderr[-2000:])
    assert kilobytes > 768 * 1024 or done.returncode == 2
    if done.returncode == 2:
        lines = [line for line in done.stderr.splitlines() if not line.startswith("OpenBLAS")]
        assert len(lines) == 1 and "memory" in lines[0], done.stderr
        assert not (tmp_path / "out").exists() and not (tmp_path / "out.html").exists()


def test_the_least_that_libraries_need_is_on_the_page(request):
    page = (request.config.rootpath / "docs/limits.md").read_text(encoding="utf-8")
    assert f"Below {ADDRESSES // 2**20} MiB of address space" in " ".join(page.split())


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("std::bad_alloc"),
        RuntimeError("can't start new thread"),
        ImportError("x.so: failed to map segment"),
    ],
)
def test_whatever_says_that_memory_ended(monkeypatch, capsys, error):
    def fails(args):
        raise error

    monkeypatch.setattr("apscope.cli._formats.run", fails)
    assert main(["formats"]) == 2
    said = capsys.readouterr().err
    assert (
        said.startswith("apscope: there is not enough memory: this process may use ")
        and said.count("\n") == 1
        and "bad_alloc" not in said
    )


@pytest.mark.parametrize(
    "error", [RuntimeError("something else"), ImportError("No module named 'x'")]
)
def test_other_errors_are_not_taken_for_it(monkeypatch, error):
    def fails(args):
        raise error

    monkeypatch.setattr("apscope.cli._formats.run", fails)
    with pytest.raises(type(error)):
        main(["formats"])


def hdf5(path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("w", (2**50,), "f4", chunks=(1024,))


def zarr(path):
    pytest.importorskip("zarr")
    path.mkdir()
    about = {
        "zarr_format": 2,
        "shape": [2**50],
        "chunks": [2**20],
        "dtype": "<f4",
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": None,
    }
    (path / ".zarray").write_text(json.dumps(about))


def sparse(path):
    text = (
        repr({"descr": "<f4", "fortran_order": False, "shape": (2**40,)}).encode().ljust(117)
        + b"\n"
    )
    with path.open("wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
        file.truncate(128 + 4 * 2**40)


@pytest.mark.parametrize(
    "make, name, needs",
    [(hdf5, "a.h5", "4,096.0 TiB"), (zarr, "a.zarr", "4,096.0 TiB"), (sparse, "a.npy", "4.0 TiB")],
)
def test_an_array_of_petabytes_in_a_small_file(tmp_path, capsys, make, name, needs):
    try:
        make(tmp_path / name)
    except OSError as error:
        pytest.skip(f"this file system holds no such file: {error}")
    assert (
        command(
            "convert {} {} --reduction mean --step-axis none --workers 1",
            tmp_path / name,
            tmp_path / "out",
        )
        == 2
    )
    said = capsys.readouterr().err
    assert (
        name in said
        and "cannot be read: an array of shape" in said
        and f"needs {needs} of memory, and this machine has " in said
    )
    assert said.count("\n") == 1 and not (tmp_path / "out").exists()


def test_the_array_is_compared_with_what_the_machine_has(tmp_path, monkeypatch):
    np.save(tmp_path / "w.npy", np.zeros(2**25, np.float32))
    monkeypatch.setattr(_limits, "available_memory", lambda: 2**26)
    with pytest.raises(
        ValueError, match=r"w\.npy.*needs 128\.0 MiB of memory, and this machine has 64\.0 MiB"
    ):
        convert(tmp_path / "w.npy", tmp_path / "out", reduction="mean", step_axis="none", workers=1)
    monkeypatch.setattr(_limits, "available_memory", lambda: 2**28)
    assert (
        convert(
            tmp_path / "w.npy", tmp_path / "out", reduction="mean", step_axis="none", workers=1
        ).trace
        is not None
    )


def test_the_limit_of_addresses_is_part_of_the_machine():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "from apscope import _core, _limits\nprint(_core.machine_memory(), "
        "_limits.available_memory())"
    )
    machine, available = map(
        int,
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split(),
    )
    assert available <= machine <= 3 << 30
