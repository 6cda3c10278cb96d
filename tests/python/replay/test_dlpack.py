"""DLPack's capsules of arrays in a GPU's memory, as far as a machine without a GPU can test them."""

import gc
import importlib.util
import weakref

import numpy as np
import pytest

import apscope
from apscope._arrays import device_arrays
from tests.python.replay.test_cuda import Fake, stand_in

__all__ = ["stand_in"]  # a fixture


@pytest.mark.parametrize("versioned", [False, True])
def test_other_packages_read_a_capsule(versioned):
    """Of the CPU's memory, which NumPy and torch read; the owner lives as long as their array."""
    module = pytest.importorskip("apscope._cuda")

    class Producer:
        def __init__(self):
            self.values = np.arange(6, dtype=np.float32).reshape(2, 3)

        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **_):
            return module.make_dlpack(
                self.values.ctypes.data, self.values.shape, 2, 32, 1, 0, self, versioned
            )

    producer = Producer()
    alive = weakref.ref(producer)
    address, shape, *_ = module.read_dlpack(producer.__dlpack__())
    assert (address, shape) == (producer.values.ctypes.data, [2, 3])
    found = [np.from_dlpack(producer)]
    if importlib.util.find_spec("torch"):
        import torch

        found.append(torch.from_dlpack(producer))
    del producer
    gc.collect()
    assert alive() is not None
    for x in found:
        assert np.array_equal(x, [[0, 1, 2], [3, 4, 5]])
    del found, x
    gc.collect()
    assert alive() is None


def test_a_result_goes_to_other_packages(stand_in, monkeypatch):
    calls = []
    for name in ("make_dlpack", "wait_for"):
        monkeypatch.setattr(
            device_arrays.module(), name, lambda *given, n=name: calls.append((n, *given)), False
        )
    y = apscope.quantize(Fake(stream=5), "e4m3")
    assert y.__dlpack_device__() == (2, 0)
    y.__dlpack__(stream=7, max_version=(1, 1), dl_device=(2, 0), copy=False)
    assert calls == [("wait_for", 7, 5, 0), ("make_dlpack", 0x2000, (2, 3), 2, 32, 2, 0, y, True)]
    calls.clear()
    y.__dlpack__()
    assert calls[0] == ("wait_for", 1, 5, 0) and calls[1][-1] is False
    calls.clear()
    y.__dlpack__(stream=-1)
    y.__dlpack__(stream=5)
    assert [name for name, *_ in calls] == ["make_dlpack"] * 2
    with pytest.raises(BufferError, match=r"is on DLPack device \(2, 0\), not \(1, 0\)"):
        y.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError, match="copy=True"):
        y.__dlpack__(copy=True)


def test_a_capsule_is_read():
    module = pytest.importorskip("apscope._cuda")
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    address, shape, strides, code, bits, lanes, device, number = module.read_dlpack(a.__dlpack__())
    assert (address, shape, code, bits, lanes, device, number) == (
        a.ctypes.data,
        [2, 3],
        2,
        32,
        1,
        1,
        0,
    )
    assert strides in (None, [3, 1])
