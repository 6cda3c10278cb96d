"""Casts, codes, blocks and arithmetic give the same bits on every instruction set of this
machine."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from apscope import _core, named_formats
from apscope.machine import OPERATIONS, ROUNDINGS
from tests.exhaustive.instruction_sets import BLOCKS, RANDOM

ROOT = Path(__file__).parents[3]
LEVELS = ["portable", "sse4", "avx2", "avx512"]


def digests_on(level: str) -> dict[str, str]:
    command = [sys.executable, "-m", "tests.exhaustive.instruction_sets"]
    run = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "APSCOPE_SIMD": level},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    first, *lines = run.stdout.splitlines()
    assert first == f"on {level}"
    found = {job: digest for digest, job in (line.split(" ", 1) for line in lines)}
    assert len(found) == len(lines)
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, str]]:
    levels = LEVELS[: LEVELS.index(_core.best_simd_level()) + 1]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(levels, pool.map(digests_on, levels), strict=True))


def test_every_instruction_set_gives_the_same_bits(found):
    first, *others = found.values()
    for other in others:
        assert other == first


def test_the_digests_cover_every_format_rounding_operation_and_kind_of_block(found):
    jobs = set(found["portable"])
    assert {f"cast {name} {rounding}" for name in named_formats() for rounding in ROUNDINGS} <= jobs
    assert {
        f"cast {name} {rounding} of random patterns" for name in RANDOM for rounding in ROUNDINGS
    } <= jobs
    assert {job.split()[0] for job in jobs} == {"cast", "blocks", *OPERATIONS[1:]}
    assert {job.split()[1] for job in jobs if job.startswith("blocks")} == set(BLOCKS)


def test_roundings_that_differ_have_digests_that_differ(found):
    # The two differ where what is cut off is exactly half a random integer's step, once in 2^16
    # times.
    roundings = [rounding for rounding in ROUNDINGS if rounding != "stochastic_c"]
    digests = [
        tuple(found["portable"][f"cast e4m3 {rounding}{of}"] for of in ("", " of random patterns"))
        for rounding in roundings
    ]
    assert len(set(digests)) == len(digests)
