"""NVIDIA's host conversion functions (cuda_fp16.h, cuda_bf16.h, cuda_fp8.h, cuda_fp6.h,
cuda_fp4.h), as peers.

The headers come with a CUDA installation, or from the wheels nvidia-cuda-runtime, nvidia-cuda-crt
and nvidia-cuda-cccl, which put them under site-packages/nvidia/. They are compiled against, not
included.
"""

import ctypes
import functools
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .compiled import array_function, library
from .peer import Missing, Peer

NEEDED = tuple(
    """
    cuda_fp4.h cuda_fp6.h cuda_fp8.h cuda_fp16.h cuda_bf16.h crt/host_defines.h nv/target
""".split()
)
ROUNDINGS = {
    "cudaRoundNearest": "ties_to_even",
    "cudaRoundZero": "toward_zero",
    "cudaRoundPosInf": "toward_positive",
}
FP8 = {"__NV_E4M3": "e4m3fn", "__NV_E5M2": "e5m2"}
# Bits, kind, format and the code of the largest value, which a NaN becomes.
NARROWER = (
    (6, "__NV_E2M3", "e2m3fn", 0x1F),
    (6, "__NV_E3M2", "e3m2fn", 0x1F),
    (4, "__NV_E2M1", "e2m1fn", 0x7),
)
SATURATIONS = {"__NV_SATFINITE": "saturate", "__NV_NOSAT": "ieee"}
SUFFIXES = {
    "rn": "ties_to_even",
    "rz": "toward_zero",
    "ru": "toward_positive",
    "rd": "toward_negative",
}


def include_folder() -> Path:
    """The folder with all needed headers: of the wheels, of $CUDA_HOME or $CUDA_PATH, or of
    /usr/local.

    Raises
    ------
    Missing
        None of them has them all.
    """
    folders: list[Path] = []
    package = importlib.util.find_spec("nvidia")
    for place in package.submodule_search_locations or () if package else ():
        folders += sorted(Path(place).glob("*/include"), reverse=True)
    folders += [
        Path(os.environ[name]) / "include"
        for name in ("CUDA_HOME", "CUDA_PATH")
        if os.environ.get(name)
    ]
    folders += [
        Path("/usr/local/cuda/include"),
        *sorted(Path("/usr/local").glob("cuda-*/include"), reverse=True),
    ]
    for folder in folders:
        if all((folder / name).is_file() for name in NEEDED):
            return folder
    raise Missing(
        "the CUDA headers are not here; install CUDA 13, or the wheels nvidia-cuda-runtime "
        "nvidia-cuda-crt nvidia-cuda-cccl"
    )


@functools.cache
def _library() -> ctypes.CDLL:
    folder = include_folder()
    stamp = "".join(str((folder / name).stat().st_mtime_ns) for name in NEEDED)
    return library("nvidia_host.cpp", [f"-I{folder}"], stamp)


def nvidia_peers() -> list[Peer]:
    """The functions from float, and those from double."""
    lib = _library()
    number = lib.headers_version()
    version = f"CUDA {number // 1000}.{number % 1000 // 10}"

    def small(function: str, *names: str) -> Callable[[np.ndarray], np.ndarray]:
        values = [lib.enumerator(name.encode()) for name in names]
        assert -1 not in values, names
        return array_function(lib[function], np.uint8, *values)

    peers = []
    for source, dtype in (("float", "float32"), ("double", "float64")):
        for kind, format in FP8.items():
            for saturation, overflow in SATURATIONS.items():
                peers.append(Peer(
                    f"__nv_cvt_{source}_to_fp8({saturation}, {kind})", version, format,
                    small(f"{source}_to_fp8", saturation, kind), overflow=overflow, source=dtype,
                ))  # fmt: skip
        # "NaN input values result in positive MAXNORM"; out of range saturates, infinities too.
        for width, kind, format, largest in NARROWER:
            for mode in ("cudaRoundNearest", "cudaRoundZero"):
                peers.append(Peer(
                    f"__nv_cvt_{source}_to_fp{width}({kind}, {mode})", version, format,
                    small(f"{source}_to_fp{width}", kind, mode), rounding=ROUNDINGS[mode],
                    overflow="saturate",
                    nan=largest, source=dtype,
                ))  # fmt: skip
        for mode in ("cudaRoundZero", "cudaRoundPosInf"):
            for saturation, overflow in SATURATIONS.items():
                peers.append(Peer(
                    f"__nv_cvt_{source}_to_e8m0({saturation}, {mode})", version, "e8m0fnu",
                    small(f"{source}_to_e8m0", saturation, mode), rounding=ROUNDINGS[mode],
                    overflow=overflow,
                    source=dtype,
                ))  # fmt: skip
    for suffix, rounding in SUFFIXES.items():
        for what, format in (("half", "fp16"), ("bfloat16", "bf16")):
            name = f"__float2{what}_{suffix}"
            peers.append(
                Peer(
                    name,
                    version,
                    format,
                    array_function(lib[f"apscope_{name}"], np.uint16),
                    rounding=rounding,
                )
            )
    for what, format in (("half", "fp16"), ("bfloat16", "bf16")):
        name = f"__double2{what}"
        peers.append(
            Peer(
                name,
                version,
                format,
                array_function(lib[f"apscope_{name}"], np.uint16),
                source="float64",
            )
        )
    return peers
