"""Arrays in a GPU's memory for kernels: checked descriptions, and memory for results."""

from __future__ import annotations

import functools
import math
import sys
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from .inputs import _is_torch

LEGACY_STREAM = 1  # CUDA's handle of the default stream that all others wait for

_DLPACK_TYPES = {0: "int", 1: "uint", 2: "float"}
_DLPACK_CODES = {name[0]: code for code, name in _DLPACK_TYPES.items()}  # by NumPy's kind
_DLPACK_GPU = (2, 13)  # CUDA's memory, CUDA's managed memory


def module(
    why: str = "the array is in a GPU's memory", instead: str = "give an array in the CPU's memory"
) -> ModuleType:
    """``apscope._cuda``; RuntimeError if this installation has none."""
    if loaded := sys.modules.get("apscope._cuda"):  # an import costs more than all other steps
        return loaded
    try:
        from .. import _cuda  # type: ignore[attr-defined]  # it has no stub
    except ImportError as error:
        raise RuntimeError(
            f"{why}, and this apscope was built without its CUDA module; build it with "
            f"-DAPSCOPE_CUDA=ON, or {instead}"
        ) from error
    return _cuda


@functools.cache
def numpy_dtype_of(dtype: Any) -> np.dtype:
    """NumPy's dtype of a torch dtype."""
    return np.dtype(str(dtype).removeprefix("torch."))


@functools.cache
def torch_dtype_of(dtype: np.dtype) -> Any:
    """torch's dtype of a NumPy dtype."""
    import torch

    return getattr(torch, dtype.name)


class DeviceView(NamedTuple):
    """A contiguous array in a GPU's memory, as kernels take it."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype
    device: int | None  #: the GPU's number; None if only CUDA can tell
    stream: int  #: CUDA's handle of the stream that work goes to
    read_only: bool
    owner: Any  #: keeps the memory alive

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class DeviceArray:
    """GPU memory with ``__cuda_array_interface__`` and DLPack, for results that are not tensors.

    The interface has version 3, DLPack 1.0 and those before. Frameworks accept an array without a
    copy; `get` copies it into a NumPy array.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, device: int, stream: int) -> None:
        self.shape, self.dtype, self.device, self._stream = (
            tuple(shape),
            np.dtype(dtype),
            device,
            stream,
        )
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        self._address = 0
        self._module = module()
        self._address = self._module.allocate(self.nbytes, device)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._address, False),
            "version": 3,
            "strides": None,
            "stream": self._stream,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DLPACK_GPU[0], self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule for another framework, without a copy: https://data-apis.org/array-api.

        Parameters
        ----------
        stream : int, optional
            CUDA's handle of the consumer's stream, which is made to wait for this array; by default
            the legacy one, -1 for none.
        max_version : pair of int, optional
            The newest version of DLPack that the consumer knows; by default one before 1.0.
        dl_device, copy
            Only this array's own device, and no copy.

        Raises
        ------
        BufferError
            Another device, or a copy.
        """
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(
                f"the array is on DLPack device {self.__dlpack_device__()}, not {tuple(dl_device)}"
            )
        if copy:
            raise BufferError("DLPack with copy=True is not supported; copy the consumer's array")
        if stream != -1 and self.nbytes and (stream or LEGACY_STREAM) != self._stream:
            self._module.wait_for(stream or LEGACY_STREAM, self._stream, self.device)
        return self._module.make_dlpack(
            self._address, self.shape, _DLPACK_CODES[self.dtype.kind], 8 * self.dtype.itemsize,
            *self.__dlpack_device__(), self, max_version is not None and max_version[0] >= 1,
        )  # fmt: skip

    def get(self) -> np.ndarray:
        """A copy in the CPU's memory; waits for the GPU."""
        flat = np.empty(self.nbytes, np.uint8)
        self._module.to_host(self._address, flat, self.device)
        return flat.view(self.dtype).reshape(self.shape)

    def __del__(self) -> None:
        if getattr(self, "_address", 0):
            self._module.release(self._address)


# Arguments of callers
# -----------------------------------------------------------------------------------


def device_view(x: Any, what: str = "x") -> DeviceView:
    """The array for kernels: a torch tensor, ``__cuda_array_interface__``, or DLPack.

    Raises TypeError for a dtype or a layout that is not supported, ValueError for an interface that
    contradicts its specification.
    """
    if _is_torch(x):
        return _of_tensor(x, what)
    if hasattr(x, "__cuda_array_interface__"):
        return _of_interface(x.__cuda_array_interface__, x, what)
    return _of_dlpack(x, what)


def _of_tensor(x: Any, what: str) -> DeviceView:
    import torch

    if not x.is_contiguous():
        raise TypeError(
            f"{what} is a tensor with strides {tuple(x.stride())}; give {what}.contiguous()"
        )
    stream = torch.cuda.current_stream(x.device).cuda_stream or LEGACY_STREAM
    dtype, shape = numpy_dtype_of(x.dtype), tuple(x.shape)
    return DeviceView(x.data_ptr(), shape, dtype, x.device.index, stream, False, x)


def _of_interface(interface: dict[str, Any], owner: Any, what: str) -> DeviceView:
    """By https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html."""
    missing = [key for key in ("shape", "typestr", "data", "version") if key not in interface]
    if missing:
        raise ValueError(
            f"{what}'s __cuda_array_interface__ has no '{missing[0]}', "
            "which its specification requires"
        )
    if interface["version"] < 2:
        raise ValueError(
            f"{what}'s __cuda_array_interface__ is of version {interface['version']}; give one of "
            "version 2 or 3"
        )
    if interface.get("mask") is not None:
        raise TypeError(f"{what} has a mask, which a result cannot keep; give an array without one")
    dtype = np.dtype(interface["typestr"])
    if not dtype.isnative:
        raise TypeError(
            f"{what} has dtype {dtype.str}, whose byte order is not the GPU's; convert it first"
        )
    shape = tuple(int(n) for n in interface["shape"])
    strides = interface.get("strides")
    if strides is not None:
        _check_strides(shape, tuple(int(s) for s in strides), dtype.itemsize, what)
    stream = interface.get("stream")
    if stream is None:
        stream = LEGACY_STREAM  # nothing to wait for
    elif stream == 0:
        raise ValueError(
            f"{what}'s __cuda_array_interface__ has stream 0, which is ambiguous; 1 is the legacy "
            "default stream, 2 the thread's"
        )
    address, read_only = interface["data"]
    return DeviceView(int(address or 0), shape, dtype, None, int(stream), bool(read_only), owner)


def _check_strides(shape: tuple[int, ...], strides: tuple[int, ...], unit: int, what: str) -> None:
    """Strides of C order, `unit` for the last axis; those of axes with one element are ignored."""
    if 0 in shape:
        return
    expected = unit
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != expected:
            raise TypeError(
                f"{what} has shape {shape} and strides {strides}; give a contiguous copy in C order"
            )
        expected *= n


def _of_dlpack(x: Any, what: str) -> DeviceView:
    """By DLPack: https://dmlc.github.io/dlpack/latest/."""
    kind, _ = x.__dlpack_device__()
    if kind not in _DLPACK_GPU:
        raise TypeError(
            f"{what} is not in a CUDA GPU's memory: its DLPack device type is {int(kind)}"
        )
    capsule = x.__dlpack__(stream=LEGACY_STREAM)
    address, shape, strides, code, bits, lanes, _, number = module().read_dlpack(capsule)
    if code not in _DLPACK_TYPES or lanes != 1:
        raise TypeError(
            f"{what} has DLPack's dtype (code {code}, {bits} bits, {lanes} lanes); give float32, "
            "float64 or integers"
        )
    if strides is not None:
        _check_strides(tuple(shape), tuple(strides), 1, what)
    return DeviceView(
        address,
        tuple(shape),
        np.dtype(f"{_DLPACK_TYPES[code]}{bits}"),
        number,
        LEGACY_STREAM,
        False,
        (x, capsule),
    )
