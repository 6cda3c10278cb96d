"""Writing one safetensors file: an 8-byte header length, a JSON header, the values' bytes."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .._folders.one_file import new_file

_DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
#: bfloat16 by its bits, for PyTorch's: NumPy has no such dtype without ml_dtypes.
BFLOAT16 = np.dtype([("bfloat16", "<u2")])


def code_of(dtype: np.dtype) -> str | None:
    """The dtype's name in a safetensors header; None if a trace does not store it directly."""
    return "BF16" if dtype == BFLOAT16 else _DTYPES.get(dtype.name)


def dtype_of(code: str) -> np.dtype:
    """The dtype named `code` in a safetensors header; the inverse of :func:`code_of`."""
    return BFLOAT16 if code == "BF16" else np.dtype({"F32": "<f4", "F16": "<f2"}[code])


def is_bfloat16(values: np.ndarray) -> bool:
    """Whether all of these fp32 values are bfloat16 numbers."""
    return not (np.ascontiguousarray(values).view("<u4") & 0xFFFF).any()


def as_bfloat16(values: np.ndarray) -> np.ndarray:
    """fp32 values as bfloat16, by their bits, if that has every one of them; else as they are."""
    if not is_bfloat16(values):
        return values
    return (np.ascontiguousarray(values).view("<u4") >> 16).astype("<u2").view(BFLOAT16)


def as_real(tensor: Any) -> Any:
    """A PyTorch tensor as one of real numbers: complex (...) as (..., 2), as DDP reduces it."""
    torch = sys.modules["torch"]
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def torch_array(tensor: Any) -> np.ndarray:
    """A PyTorch tensor's values in the host's memory, copied only if needed.

    Dense; fp8 is widened, and complex numbers are pairs along a last axis.
    """
    torch = sys.modules["torch"]
    tensor = (tensor if tensor.layout is torch.strided else tensor.to_dense()).detach().cpu()
    tensor = as_real(tensor)
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.uint16).numpy().view(BFLOAT16)
    if (name := str(tensor.dtype)).startswith("torch.float8_"):
        return widened(tensor.float().numpy(), name)
    return tensor.numpy()


def widened(values: np.ndarray, name: str) -> np.ndarray:
    """Values of the fp8 dtype `name`, given as fp32, in a trace's dtype: fp16, or fp32 for E8M0."""
    return values if "e8m0" in name else values.astype(np.float16)


class Storable(Protocol):
    """An array, or an object for ``numpy.asarray``, converted when it is written."""

    @property
    def dtype(self) -> np.dtype: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def __array__(self) -> np.ndarray: ...


def host_array(array: object, what: str) -> np.ndarray:
    """`array` in the host's memory, copied only if needed; errors begin with `what`."""
    torch = sys.modules.get("torch")
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{what} is a masked array, whose mask a trace cannot keep; give its .filled(value)"
        )
    try:
        return (
            torch_array(array)
            if torch is not None and isinstance(array, torch.Tensor)
            else np.asarray(array)
        )
    except TypeError:  # packed fp4, quantized integers
        raise ValueError(
            f"{what} has dtype {getattr(array, 'dtype', type(array).__name__)}; "
            "a trace has real numbers"
        ) from None


def storable(
    array: object, what: str, round_to_fp32: bool = False, remedy: str = "round it to float32 first"
) -> np.ndarray:
    """`array` as a C-ordered copy in a dtype of a trace: float32, float16 or bfloat16.

    fp8 becomes float16, E8M0 float32, complex numbers pairs along a last axis. Other dtypes become
    float32 if that is exact for every element (for example float64 gradients that are fp32 values,
    and token numbers below 2^24) or if `round_to_fp32` allows rounding float64, ties to even.
    Otherwise raises ValueError, beginning with `what` and ending with `remedy`.
    """
    values = host_array(array, what)
    if values.dtype.name.startswith("float8_"):  # ml_dtypes', JAX's
        values = widened(values.astype(np.float32), values.dtype.name)
    if values.dtype.kind == "c":
        values = np.stack([values.real, values.imag], axis=-1)
    if code_of(values.dtype):
        return np.array(values, order="C", copy=True)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{what} has dtype {values.dtype}; a trace has real numbers")
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32, order="C")
    if round_to_fp32 and values.dtype.kind == "f":
        return rounded
    exact = rounded == values if values.dtype.kind == "f" else rounded.astype(np.float64) == values
    if values.dtype.kind in "iu":
        exact &= np.abs(rounded) <= 2**24
    if values.dtype.kind == "f":
        exact |= np.isnan(values)
    if not exact.all():
        index = int(np.flatnonzero(~exact.ravel())[0])
        raise ValueError(
            f"{what} has dtype {values.dtype} and its element {index} "
            f"({values.ravel()[index].item()!r}) is not an fp32 value; {remedy}"
        )
    return rounded


def write_safetensors(
    path: Path, tensors: Mapping[str, Storable], metadata: Mapping[str, str], durable: bool = True
) -> dict:
    """Writes `tensors` to `path` and returns the manifest's entry, ``{"bytes", "sha256"}``.

    The file at `path` is complete or does not exist, and if `durable` its bytes are on the disk
    first. Wider dtypes come first and the header is padded to 8 bytes, so every tensor is aligned.
    """
    ordered = sorted(tensors.items(), key=lambda item: -item[1].itemsize)
    header: dict = {"__metadata__": dict(metadata)}
    end = 0
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": code_of(array.dtype),
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)

    digest = hashlib.sha256()
    with new_file(path, durable=durable) as stream:
        for chunk in _chunks(text, [array for _, array in ordered]):
            stream.write(chunk)
            digest.update(chunk)
    return {"bytes": 8 + len(text) + end, "sha256": digest.hexdigest()}


def _chunks(header: bytes, arrays: Sequence[Storable]) -> Iterator[bytes | memoryview]:
    """A file's bytes, one array at a time."""
    yield len(header).to_bytes(8, "little")
    yield header
    for array in map(np.asarray, arrays):
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        yield np.ascontiguousarray(little).view(np.uint8).ravel().data if array.size else b""
