"""The benchmarks' sources still run: once each, nothing timed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = "tests/benchmarks/bench_python.py"


def test_the_python_benchmarks_run():
    pytest.importorskip(
        "pytest_benchmark",
        reason="pytest-benchmark is not installed: pip install apscope[benchmark]",
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        SOURCE,
        "-q",
        "--benchmark-disable",
        "-p",
        "no:cacheprovider",
        "-k",
        "not 4194304",
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed and int(passed[1]) >= 50, run.stdout


def test_no_benchmark_is_collected_with_the_tests():
    names = {path.name for path in (ROOT / "tests/benchmarks").glob("*.py")}
    assert names and not any(
        name.startswith("test_") or name.endswith("_test.py") for name in names
    )
