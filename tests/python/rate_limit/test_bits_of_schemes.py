"""The bits of a scheme in `apscope.limit`: blocks of zeros, which the limit leaves out, do not make
its messages look shorter, and a scheme sees the shape of a tensor."""

import numpy as np
import pytest

import apscope
from apscope.record import TraceWriter


def above(folder, x: np.ndarray, spec: str) -> float:
    """Bits above the limit, of a trace of one tensor."""
    with TraceWriter(folder, workers=1) as writer:
        writer.add(0, 0, "fc.weight", x.astype(np.float32))
        writer.end_step(0)
    return apscope.limit(folder, [spec], bits=[]).schemes["bits_above_limit"].iloc[0]


@pytest.mark.parametrize("spec", ["qsgd:code=elias,levels=15", "qsgd:code=gamma,levels=3"])
def test_blocks_of_zeros_bring_no_scheme_below_the_limit(tmp_path, spec):
    """A code in which a zero takes one bit, with 15 of 16 blocks zero."""
    x = np.random.default_rng(0).standard_normal((2048, 32))
    dense = above(tmp_path / "dense", x[::16].copy(), spec)
    x[np.arange(len(x)) % 16 != 0] = 0
    sparse = above(tmp_path / "sparse", x, spec)
    assert dense > 1 and sparse > 1


@pytest.mark.parametrize("spec", ["none:e4m3fn", "mx", "qsgd", "aps:e4m3fn,unit=32"])
def test_blocks_of_zeros_change_no_bits_of_codes_of_one_length(tmp_path, spec):
    x = np.random.default_rng(0).standard_normal((2048, 32))
    x[np.arange(len(x)) % 4 != 0] = 0
    with TraceWriter(tmp_path / "trace", workers=1) as writer:
        writer.add(0, 0, "fc.weight", x.astype(np.float32))
        writer.end_step(0)
    found = apscope.limit(tmp_path / "trace", [spec], bits=[])
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
    assert above(tmp_path / "a", x, rows) < above(tmp_path / "b", x, tensor) - 3


def test_a_tensor_without_axes_is_one_value(tmp_path):
    with TraceWriter(tmp_path / "trace", workers=2) as writer:
        for worker in range(2):
            writer.add(0, worker, "gain", np.array(1.5 + worker, np.float32))
        writer.end_step(0)
    found = apscope.limit(tmp_path / "trace", ["mx", "none:e4m3fn"], bits=[0])
    assert (found.values, found.blocks) == (2, 2)
    assert found.schemes["error"].tolist() == [0, 0]
