"""The dtypes of NumPy, ml_dtypes and torch, as peers."""

import importlib
from types import ModuleType

import numpy as np

from apscope import FloatFormat

from .peer import Missing, Peer

TORCH = {
    "float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3fn", "float8_e5m2": "e5m2",
    "float8_e4m3fnuz": "e4m3fnuz", "float8_e5m2fnuz": "e5m2fnuz", "float8_e8m0fnu": "e8m0fnu",
}  # fmt: skip
TORCH_SATURATES = {"float8_e4m3fn"}  # the others overflow as `ieee`


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Missing(f"{name} is not installed") from None


def numpy_peers() -> list[Peer]:
    return [
        Peer(
            "numpy.float16", np.__version__, "fp16", lambda x: x.astype(np.float16).view(np.uint16)
        )
    ]


def ml_dtypes_peers() -> list[Peer]:
    """Every floating-point type that the installed ml_dtypes has."""
    package = _import("ml_dtypes")
    names = [n for n in sorted(dir(package)) if n.startswith(("float", "bfloat"))]
    return [_ml_dtypes_peer(n, np.dtype(getattr(package, n)), package.__version__) for n in names]


def _ml_dtypes_peer(name: str, dtype: np.dtype, version: str) -> Peer:
    word = np.uint8 if dtype.itemsize == 1 else np.uint16
    format = FloatFormat(name).name  # their names are aliases in apscope
    return Peer(f"ml_dtypes.{name}", version, format, lambda x: x.astype(dtype).view(word))


def torch_peers() -> list[Peer]:
    """torch's types of at most 16 bits on the CPU; float4_e2m1fn_x2 has no conversion from
    float32."""
    torch = _import("torch")
    # Which of its loops runs decides what a NaN becomes.
    version = f"{torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"

    def peer(name: str, format: str) -> Peer:
        dtype = getattr(torch, name)
        word = torch.uint8 if dtype.itemsize == 1 else torch.uint16

        def codes(x: np.ndarray) -> np.ndarray:
            return torch.from_numpy(x).to(dtype).view(word).numpy()

        overflow = "saturate" if name in TORCH_SATURATES else "ieee"
        return Peer(f"torch.{name}", version, format, codes, overflow=overflow)

    return [peer(name, format) for name, format in TORCH.items() if hasattr(torch, name)]
