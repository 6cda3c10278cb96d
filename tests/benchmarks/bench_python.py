"""The calls that Python makes, under pytest-benchmark, beside `np.copyto` and the casts of
ml_dtypes.

    python -m pytest tests/benchmarks/bench_python.py --benchmark-group-by=param:count

pytest finds this file only when it is named: `make test` times nothing.
"""

import numpy as np
import pytest

import apscope

ml_dtypes = pytest.importorskip("ml_dtypes")

#: elements: the cost of a call; the second-level cache; main memory
COUNTS = (16, 2**16, 2**22)


@pytest.fixture(params=COUNTS)
def count(request):
    return request.param


@pytest.fixture
def x(count):
    """Numbers over a few binades, half of them negative."""
    return np.random.default_rng(7).standard_normal(count).astype(np.float32)


def test_copyto(benchmark, x):
    out = np.empty_like(x)
    benchmark(np.copyto, out, x)
    assert (out == x).all()


@pytest.mark.parametrize(
    "format, dtype", [("e4m3fn", "float8_e4m3fn"), ("e5m2", "float8_e5m2"), ("bf16", "bfloat16")]
)
class TestCasts:
    def test_quantize(self, benchmark, x, format, dtype):
        result = benchmark(apscope.quantize, x, format, threads=1)
        assert np.array_equal(
            result, x.astype(getattr(ml_dtypes, dtype)).astype(np.float32), equal_nan=True
        )

    def test_quantize_in_ml_dtypes(self, benchmark, x, format, dtype):
        there = getattr(ml_dtypes, dtype)
        result = benchmark(lambda: x.astype(there).astype(np.float32))
        assert result.shape == x.shape

    def test_encode(self, benchmark, x, format, dtype):
        result = benchmark(apscope.encode, x, format, threads=1)
        assert np.array_equal(result, x.astype(getattr(ml_dtypes, dtype)).view(result.dtype))

    def test_encode_in_ml_dtypes(self, benchmark, x, format, dtype):
        result = benchmark(x.astype, getattr(ml_dtypes, dtype))
        assert result.shape == x.shape


@pytest.mark.parametrize("rounding", ["toward_zero", "to_odd", "stochastic"])
def test_roundings(benchmark, x, rounding):
    result = benchmark(apscope.quantize, x, "e4m3fn", rounding=rounding, random_bits=16, threads=1)
    assert np.array_equal(apscope.quantize(result, "e4m3fn"), result)


@pytest.mark.parametrize("format", ["mxfp8_e4m3", "mxfp4", "mxint8", "nvfp4"])
class TestBlocks:
    def test_quantize_blocks(self, benchmark, x, format):
        result = benchmark(apscope.quantize_blocks, x, format, threads=1)
        encoded = apscope.encode_blocks(x, format)
        assert np.array_equal(
            result,
            apscope.decode_blocks(
                encoded.codes, encoded.scales, format, tensor_scale=encoded.tensor_scale
            ),
        )

    def test_encode_blocks(self, benchmark, x, format):
        assert benchmark(apscope.encode_blocks, x, format, threads=1).codes.shape == x.shape

    def test_decode_blocks(self, benchmark, x, format):
        codes, scales, tensor_scale = vars(apscope.encode_blocks(x, format)).values()
        assert (
            benchmark(
                apscope.decode_blocks, codes, scales, format, tensor_scale=tensor_scale, threads=1
            ).shape
            == x.shape
        )


def test_add(benchmark, x):
    assert benchmark(apscope.add, x, x, "e4m3fn").shape == x.shape


def test_allreduce_of_four(benchmark, x):
    rows = np.stack([x] * 4)
    assert np.shape(benchmark(apscope.allreduce, rows, "e4m3"))[-1:] == x.shape
