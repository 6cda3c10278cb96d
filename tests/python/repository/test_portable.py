"""The program that make portable builds everywhere: on this machine it prints the results of
Python's replay."""

import subprocess
from pathlib import Path

import pytest

import apscope
from tests.portable.columns import columns_of
from tests.portable.programs import PROGRAMS, ROOT

PROGRAM = PROGRAMS[0].path
TRACE = ROOT / "notebooks/data/characters"
SCHEMES = (
    "none:bf16",
    "aps:e3m4,rule=tight,unit=32",
    "stochastic:e5m2",
    "qsgd",
    "error_feedback(top_k)",
)

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="apscope_columns is not built in build/release"
)


def test_the_program_prints_the_columns_of_pythons_replay(tmp_path: Path) -> None:
    specs = tmp_path / "specs.txt"
    specs.write_text("".join(f"{spec}\n" for spec in SCHEMES))
    done = subprocess.run(
        [PROGRAM, TRACE, specs, "0", "31"], check=True, capture_output=True, text=True
    )
    lines = done.stdout.splitlines(keepends=True)
    assert lines == list(columns_of(apscope.replay(TRACE, SCHEMES, steps="0:31")))
    assert len(lines) == 1117


def test_errors_are_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [PROGRAM, TRACE, tmp_path / "none.txt"], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == f"apscope_columns: {tmp_path}/none.txt has no spec; it must have one line per scheme\n"
    )
