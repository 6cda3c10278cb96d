"""The benchmarks' sources still run: once each, nothing timed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.tools.two_trees import clock, ratios
from tests.python.argv import argv

ROOT = Path(__file__).parents[3]
SOURCE = "tests/benchmarks/bench_python.py"


def test_the_python_benchmarks_run():
    pytest.importorskip(
        "pytest_benchmark",
        reason="pytest-benchmark is not installed: pip install apscope[benchmark]",
    )
    line = "{} -m pytest {} -q --benchmark-disable -p no:cacheprovider -k {}"
    command = argv(line, sys.executable, SOURCE, "not 4194304")
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed and int(passed[1]) >= 50, run.stdout


def test_no_benchmark_is_collected_with_the_tests():
    names = {path.name for path in (ROOT / "tests/benchmarks").glob("*.py")}
    assert names and not any(
        name.startswith("test_") or name.endswith("_test.py") for name in names
    )


def test_two_trees_are_compared_by_the_median_of_their_pairs():
    before, after = {("cast", "L2"): 2.0, ("gone", "L2"): 1.0}, {("cast", "L2"): 2.2}
    pairs = [(before, after), (before, {("cast", "L2"): 1.9}), (before, {("cast", "L2"): 3.0})]
    assert ratios(pairs) == [(1.1, 0.95, 1.5, "cast", "L2")]


@pytest.mark.skipif(sys.platform != "linux", reason="the loader takes a library before others")
def test_the_clock_of_two_trees_is_the_processors(tmp_path):
    wait = "import time; start = time.monotonic(); time.sleep(2); print(time.monotonic() - start)"
    env = os.environ | {"LD_PRELOAD": str(clock(tmp_path))}
    run = subprocess.run(
        [sys.executable, "-c", wait], env=env, check=True, capture_output=True, text=True
    )
    assert float(run.stdout) < 1
