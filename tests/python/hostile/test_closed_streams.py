"""Standard streams that are closed, full or not read: the work is done all the same, and what cannot be
printed is one sentence with its exit status."""

import subprocess
import sys

import numpy as np
import pytest

from apscope import Results, open_trace, replay

COMMAND = f"{sys.executable} -m apscope"


@pytest.fixture(scope="module")
def results(digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams") / "results"
    replay(digits, "aps:e4m3", steps="0:2", topology="ring").save(folder)
    return folder


def shell(words):
    return subprocess.run(
        ["sh", "-c", f"{COMMAND} {words}"], capture_output=True, text=True, timeout=120
    )


READERS = ["summary {results}", "formats", "info {digits}", "ladder {digits} --formats e4m3",
           "summary {results} --csv", "--help", "schemes"]  # fmt: skip


@pytest.mark.parametrize("words", READERS)
@pytest.mark.parametrize("where, why", [(">&-", "is closed"), (">/dev/full", "No space left")])
def test_nothing_can_be_printed(words, where, why, digits, results):
    done = shell(f"{words.format(digits=digits, results=results)} {where}")
    if words == "--help" and where == ">&-":  # argparse prints nothing then
        assert done.returncode in (0, 2)
        return
    assert done.returncode == 2, done
    # The ladder first says which of its schemes have no rank.
    (said,) = [
        s
        for s in done.stderr.splitlines()
        if not s.startswith("apscope: These schemes have no rank")
    ]
    assert said.startswith("apscope: standard output ") and why in said


@pytest.mark.parametrize("where", [">&-", ">/dev/full", "<&- >&-", "<&- >&- 2>&-"])
def test_files_are_written_though_nothing_can_be_printed(where, digits, tmp_path):
    done = shell(f"replay {digits} --steps 0:2 --scheme sign -o {tmp_path}/r {where}")
    assert done.returncode == 0, done
    assert len(Results.open(tmp_path / "r").frame)
    assert not [line for line in done.stderr.splitlines() if "apscope: warning: " not in line]
    if where == ">/dev/full":
        assert "standard output cannot be written: No space left on device" in done.stderr


def test_a_full_disk_behind_the_output_is_not_taken_for_the_folder(digits, tmp_path):
    """The message names standard output, not the folder that was being written."""
    done = shell(f"recommend {digits} --steps 0:2 --workers 2 --candidates aps:e4m3 --max-volume 1 "
                 f"--holdout none -o {tmp_path}/plan.json --as regex >/dev/full")  # fmt: skip
    assert done.returncode == 2 and "standard output" in done.stderr
    assert str(tmp_path) not in done.stderr and (tmp_path / "plan.json").exists()


def test_without_standard_error_the_work_is_done(digits, tmp_path):
    for words in (
        f"replay {digits} --scheme aps:e4m3 --steps 0:2 -o {tmp_path}/r",
        f"report {tmp_path}/r -o {tmp_path}/r.html",
        f"ladder {digits} --formats e3m4 --steps 0:2",
        f"summary {tmp_path}/r",
    ):
        done = shell(f"{words} 2>&-")
        assert done.returncode == 0, (words, done.stdout)
    assert len(Results.open(tmp_path / "r").frame)
    assert (tmp_path / "r.html").stat().st_size > 100_000
    failed = shell(f"summary {tmp_path}/nothing 2>&-")
    assert failed.returncode == 2 and failed.stdout == ""


def test_a_conversion_that_nobody_reads_about_is_done(tmp_path):
    (tmp_path / "dump").mkdir()
    np.savez(tmp_path / "dump" / "step_0.npz", w=np.arange(16, dtype=np.float32).reshape(2, 8))
    done = shell(f"convert {tmp_path}/dump {tmp_path}/t --reduction mean --worker-axis 0 | true")
    assert open_trace(tmp_path / "t").workers == 2, done.stderr


def test_a_file_of_messages_gets_no_progress_bar(digits, tmp_path):
    assert shell(f"info {digits} --check 2> {tmp_path}/messages").returncode == 0
    assert (tmp_path / "messages").read_text() == ""
