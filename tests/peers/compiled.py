"""Compiles a C++ file of this folder into a library of array functions, when it is first needed."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from .peer import Missing

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "peers"


def library(source: str, flags: Sequence[str] = (), key: str = "") -> ctypes.CDLL:
    """The shared library of a source file; made again when the file, the flags or `key` change.

    Raises
    ------
    Missing
        No C++ compiler, or the file does not compile here.
    """
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise Missing("there is no C++ compiler g++; set CXX to one")
    path = HERE / source
    command = [compiler, "-std=c++17", "-O2", "-shared", "-fPIC", *flags]
    digest = hashlib.sha256(path.read_bytes() + repr((command, key)).encode()).hexdigest()[:16]
    made = BUILD / f"{path.stem}-{digest}.so"
    if not made.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        # Several test processes may compile at the same time: each into a folder of its own.
        with tempfile.TemporaryDirectory(dir=BUILD) as folder:
            new = Path(folder) / made.name
            done = subprocess.run(
                [*command, str(path), "-o", str(new)], capture_output=True, text=True
            )
            if done.returncode:
                first = next(
                    (line for line in done.stderr.splitlines() if "error" in line), "no message"
                )
                raise Missing(f"{source} does not compile: {first}")
            os.replace(new, made)
    return ctypes.CDLL(str(made))


def array_function(
    function: ctypes._CFuncPtr, codes: type, *arguments: int
) -> Callable[[np.ndarray], np.ndarray]:
    """A C function (input, output, length, arguments...) as one from arrays to arrays of codes."""
    function.restype = None

    def call(x: np.ndarray) -> np.ndarray:
        x = np.ascontiguousarray(x)
        out = np.empty(x.shape, codes)
        function(
            ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(out.ctypes.data),
            ctypes.c_size_t(x.size),
            *map(ctypes.c_int, arguments),
        )  # fmt: skip
        return out

    return call
