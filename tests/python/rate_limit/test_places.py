"""Codes that use the places of elements may be below the limit, which takes elements of a block as
independent: of a gradient that is smooth, and not of one whose elements are independent."""

import numpy as np
import pytest

import apscope
from apscope.record import TraceWriter

SPECS = ["fft_sparse", "top_k", "mx", "mx:block_format=mxfp4"]


def above(folder, x: np.ndarray) -> dict[str, float]:
    """Bits above the limit, by the scheme's name or format."""
    with TraceWriter(folder, workers=1) as writer:
        writer.add(0, 0, "weight", x.astype(np.float32))
        writer.end_step(0)
    table = apscope.limit(folder, SPECS, bits=[]).schemes
    return dict(zip(SPECS, table["bits_above_limit"]))


def test_a_fourier_transform_of_a_smooth_gradient_is_below_the_limit(tmp_path):
    at = 2 * np.pi * np.arange(8192) / 8192
    found = above(tmp_path / "trace", sum(np.sin(k * at + k) for k in (3, 700, 1501)))
    assert found["fft_sparse"] < -3
    assert min(found[spec] for spec in SPECS[1:]) > 0.25


@pytest.mark.parametrize("seed", range(3))
def test_none_is_below_the_limit_of_independent_elements(tmp_path, seed):
    draw = np.random.default_rng(seed)
    x = [draw.standard_normal, lambda n: draw.laplace(size=n), lambda n: draw.random(n) - 0.5][seed]
    assert min(above(tmp_path / "trace", x(8192)).values()) > 0.25
