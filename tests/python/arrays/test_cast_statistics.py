"""One cast and its statistics: the same as quantize and as a replay's wire row."""

import numpy as np
import pytest

import apscope
from apscope.record import TraceWriter


def numbers(n: int, seed: int = 0) -> np.ndarray:
    g = np.random.default_rng(seed)
    return (g.standard_normal(n) * 2.0 ** g.integers(-14, 9, n)).astype(np.float32)


@pytest.mark.parametrize(
    "format", ["e4m3", "e5m2", "bf16", "fp16", "e3m0", "dlfloat16", "e4m3fn", "tf32"]
)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rounding": "toward_zero"},
        {"rounding": "stochastic", "random_bits": 16},
        {"overflow": "saturate"},
    ],
)
def test_results_are_quantize_s_and_columns_a_wire_row_s(tmp_path, format, settings):
    x = numbers(3 * 4096 + 77)
    x[5], x[4096], x[9000] = np.nan, np.inf, 0.0
    out = np.empty_like(x)
    found = apscope.cast_statistics(x, format, out=out, seed=0, threads=2, **settings)
    np.testing.assert_array_equal(
        out.view(np.uint32), apscope.quantize(x, format, **settings).view(np.uint32)
    )
    assert found == apscope.cast_statistics(x, format, **settings)
    if settings.get("rounding") == "stochastic":
        return  # a replay draws from streams of its own
    with TraceWriter(tmp_path / "t", workers=1) as writer:
        writer.add(0, 0, "w", x)
        writer.end_step(0)
    spec = f"none:{format}" + "".join(f",{k}={v}" for k, v in settings.items())
    frame = apscope.replay(tmp_path / "t", spec).frame
    row = frame[frame.stage == "wire"].iloc[0]
    for name, value in found.to_dict().items():
        expected = row[name]
        assert (
            value is None and np.isnan(float(expected if expected == expected else np.nan))
        ) or value == expected, name


def test_draws_have_expected_moments():
    x = numbers(200_000, 3) * np.float32(2.0**-6)
    found = apscope.cast_statistics(x, "e4m3", rounding="stochastic")
    assert abs(found.expected_bias) < 1e-12  # 32 bits leave almost none
    spread = np.sqrt(found.expected_variance / x.size)
    assert abs(found.bias - found.expected_bias) < 5 * spread
    assert found.mse == pytest.approx(found.expected_variance, rel=0.05)


@pytest.mark.parametrize("n", [0, 1, 15, 4096, 4097, 16 * 4096, 33 * 4096 + 5])
def test_any_length_and_any_number_of_threads(n):
    x = numbers(n, n)
    one = apscope.cast_statistics(x, "e4m3")
    assert all(apscope.cast_statistics(x, "e4m3", threads=t) == one for t in (2, 3, 0))
    assert one.count == n
    if n == 0:
        assert one.mse is None and one.underflow_rate is None


def test_zeros_and_large_arrays():
    zeros = apscope.cast_statistics(np.zeros(100, np.float32), "e4m3")
    assert zeros.nonzero == 0 and zeros.nmse is None and zeros.mse == 0.0
    x = numbers(3_000_000, 1)  # large enough that results are streamed past the caches
    out = np.empty(x.size + 1, np.float32)[1:]
    apscope.cast_statistics(x, "e4m3", out=out, threads=2)
    np.testing.assert_array_equal(out, apscope.quantize(x, "e4m3"))


def test_refusals():
    x = numbers(10)
    with pytest.raises(TypeError, match="float64"):
        apscope.cast_statistics(x.astype(np.float64), "e4m3")
    with pytest.raises(ValueError, match="stochastic_exact"):
        apscope.cast_statistics(x, "e4m3", rounding="stochastic_exact")
    with pytest.raises(ValueError, match="fp64|float64|fp32"):
        apscope.cast_statistics(x, "fp64")
    with pytest.raises(ValueError, match="shape"):
        apscope.cast_statistics(x, "e4m3", out=np.empty(3, np.float32))
