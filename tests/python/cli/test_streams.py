"""Standard streams that are closed, or that are not read: the work is done all the same, and a
failure has its exit status."""

import shlex
import subprocess
import sys

import pytest

import apscope


def shell(command: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


@pytest.fixture
def command():
    return f"{shlex.quote(sys.executable)} -m apscope"


def test_without_standard_error_the_work_is_done(request, tmp_path, command):
    trace = request.config.rootpath / "notebooks/data/digits"
    for words in (
        f"replay {trace} --scheme aps:e4m3 --steps 0:2 -o {tmp_path}/r",
        f"report {tmp_path}/r -o {tmp_path}/r.html",
        f"ladder {trace} --formats e3m4 --steps 0:2",
        f"summary {tmp_path}/r",
    ):
        done = shell(f"{command} {words} 2>&-")
        assert done.returncode == 0, (words, done.stdout)
    assert (
        len(apscope.Results.open(tmp_path / "r")) and (tmp_path / "r.html").stat().st_size > 100_000
    )
    failed = shell(f"{command} summary {tmp_path}/nothing 2>&-")
    assert failed.returncode == 2 and failed.stdout == ""


def test_a_conversion_that_nobody_reads_about_is_done(tmp_path, command):
    numpy = pytest.importorskip("numpy")
    (tmp_path / "dump").mkdir()
    numpy.savez(
        tmp_path / "dump" / "step_0.npz", w=numpy.arange(16, dtype=numpy.float32).reshape(2, 8)
    )
    done = shell(
        f"{command} convert {tmp_path}/dump {tmp_path}/trace "
        "--reduction mean --worker-axis 0 | true"
    )
    assert apscope.open_trace(tmp_path / "trace").workers == 2, done.stderr


def test_a_file_of_messages_gets_no_progress_bar(request, tmp_path, command):
    trace = request.config.rootpath / "notebooks/data/digits"
    assert shell(f"{command} info {trace} --check 2> messages", cwd=tmp_path).returncode == 0
    assert (tmp_path / "messages").read_text() == ""
