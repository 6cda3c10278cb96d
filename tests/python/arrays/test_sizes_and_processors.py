"""Counts and shapes whose products wrap around 2^64 are refused by the extension module too; an
affinity mask is the number of processors that `threads=0` uses."""

import os
import subprocess
import sys

import numpy as np
import pytest

import apscope
from apscope import _core

HALF, ROOT = 1 << 63, 1 << 32
NONE = np.zeros(0, np.float32)
BYTES = np.zeros(0, np.uint8)
TOO_MANY = "has more elements than any array; give smaller lengths"


@pytest.mark.parametrize("shape", [(HALF, 2, 1), (ROOT, ROOT, 1), (1, ROOT, ROOT), (0, HALF, 2)])
def test_shapes_of_blocks(shape):
    f, p = (
        apscope.BlockFormat("mxfp4"),
        _core.Projection("ties_to_even", "saturate", "gradual", False, 32),
    )
    with pytest.raises(ValueError, match=TOO_MANY):
        _core.quantize_blocks(NONE, NONE.copy(), shape, f, p, 0, 1)
    with pytest.raises(ValueError, match=TOO_MANY):
        _core.encode_blocks(NONE, BYTES.copy(), BYTES.copy(), shape, f, p, 0, 1)
    with pytest.raises(ValueError, match=TOO_MANY):
        _core.decode_blocks(BYTES, BYTES, 1.0, NONE.copy(), shape, f, 1)


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_numbers_of_terms(real):
    f, p = (
        apscope.FloatFormat("e4m3"),
        _core.Projection("ties_to_even", "saturate", "gradual", False, 32),
    )
    none, two = np.zeros(0, real), np.zeros(2, real)
    rest = (f, "sequential", None)
    with pytest.raises(ValueError, match=TOO_MANY):
        _core.ordered_sum(none, HALF, two, *rest, p, 0, 1)
    with pytest.raises(ValueError, match=TOO_MANY):
        _core.ordered_dot(none, none, 1, HALF, two, *rest, None, p, 0, 1, none)
    with pytest.raises(ValueError, match=TOO_MANY):
        _core.ordered_matmul(none, none, HALF, 2, two, *rest, None, p, 0, 1, none)


@pytest.mark.parametrize("shape, says", [([-1, -10], "negative"), ([1 << 62, 4], TOO_MANY)])
def test_shapes_of_tensors(shape, says):
    with pytest.raises(ValueError, match=says):
        _core.StepExchange("sign", ["fc"], ["linear"], [shape], 2, "ring", 0, True)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity masks here")
def test_the_affinity_mask_is_what_all_processors_are():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
        "from apscope import _core; print(_core.usable_processors())"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert printed.stdout.split() == ["1"]
    assert 1 <= _core.usable_processors() <= len(os.sched_getaffinity(0))
