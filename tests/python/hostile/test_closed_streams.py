"""Standard output that is closed, or full: one sentence that names it; files are written anyway."""

import subprocess
import sys

import pytest

from apscope import Results, replay

COMMAND = f"{sys.executable} -m apscope"


@pytest.fixture(scope="module")
def digits(request):
    return request.config.rootpath / "notebooks/data/digits"


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
