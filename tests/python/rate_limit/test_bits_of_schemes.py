"""The bits of a scheme in `apscope.limit`: blocks of zeros, which the limit leaves out, do not make
its messages look shorter, and a scheme sees the shape of a tensor. Codes that use the places of
elements may be below the limit, which takes elements of a block as independent: of a gradient that
is smooth, and not of one whose elements are independent."""

import numpy as np
import pytest

import apscope
from tests.python.recorded import record

#: Schemes of places, and of elements alone.
PLACES = ["fft_sparse", "top_k", "mx", "mx:block_format=mxfp4"]


def above(folder, x: np.ndarray, *specs: str) -> list[float]:
    """Bits above the limit, of a trace of one tensor."""
    trace = record(folder, [{"fc.weight": x[None]}])
    return apscope.limit(trace, specs, bits=[]).schemes["bits_above_limit"].tolist()


@pytest.mark.parametrize("spec", ["qsgd:code=elias,levels=15", "qsgd:code=gamma,levels=3"])
def test_blocks_of_zeros_bring_no_scheme_below_the_limit(tmp_path, spec):
    """A code in which a zero takes one bit, with 15 of 16 blocks zero."""
    x = np.random.default_rng(0).standard_normal((2048, 32))
    (dense,) = above(tmp_path / "dense", x[::16], spec)
    x[np.arange(len(x)) % 16 != 0] = 0
    (sparse,) = above(tmp_path / "sparse", x, spec)
    assert dense > 1 and sparse > 1


@pytest.mark.parametrize("spec", ["none:e4m3fn", "mx", "qsgd", "aps:e4m3fn,unit=32"])
def test_blocks_of_zeros_change_no_bits_of_codes_of_one_length(tmp_path, spec):
    x = np.random.default_rng(0).standard_normal((2048, 32))
    x[np.arange(len(x)) % 4 != 0] = 0
    found = apscope.limit(record(tmp_path / "trace", [{"fc.weight": x[None]}]), [spec], bits=[])
    made = apscope.exchange(spec, x[None].astype(np.float32), topology="exact")
    assert found.zero_blocks == 1536
    bits = (made.payload_bits[0] + made.side_bits[0]) / x.size
    assert found.schemes["bits"].iloc[0] == bits


@pytest.mark.parametrize(
    "rows, tensor",
    [
        ("aps:e4m3fn,rule=tight,unit=row", "aps:e4m3fn,rule=tight"),
        ("fp8_two_shot:e4m3fn,group=row", "fp8_two_shot:e4m3fn"),
    ],
)
def test_a_scale_for_each_row_is_one(tmp_path, rows, tensor):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 192)) * 2.0 ** rng.integers(-12, 12, (64, 1))
    by_row, by_tensor = above(tmp_path / "trace", x, rows, tensor)
    assert by_row < by_tensor - 3


def test_a_tensor_without_axes_is_one_value(tmp_path):
    trace = record(tmp_path / "trace", [{"gain": [1.5, 2.5]}])
    found = apscope.limit(trace, ["mx", "none:e4m3fn"], bits=[0])
    assert (found.values, found.blocks) == (2, 2)
    assert found.schemes["error"].tolist() == [0, 0]


def test_a_fourier_transform_of_a_smooth_gradient_is_below_the_limit(tmp_path):
    at = 2 * np.pi * np.arange(8192) / 8192
    waves = sum(np.sin(k * at + k) for k in (3, 700, 1501))
    transformed, *others = above(tmp_path / "trace", waves, *PLACES)
    assert transformed < -3 and min(others) > 0.25


@pytest.mark.parametrize("seed", range(3))
def test_none_is_below_the_limit_of_independent_elements(tmp_path, seed):
    draw = np.random.default_rng(seed)
    x = [draw.standard_normal, lambda n: draw.laplace(size=n), lambda n: draw.random(n) - 0.5][seed]
    assert min(above(tmp_path / "trace", x(8192), *PLACES)) > 0.25
