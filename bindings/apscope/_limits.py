"""Limits on inputs and memory (docs/limits.md); limits shared with C++ are in core/limits.h."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path

from . import _core

SPEC_DEPTH: int = _core.LIMITS["spec_depth"]
SPEC_LENGTH: int = _core.LIMITS["spec_length"]
PATTERN_LENGTH: int = _core.LIMITS["pattern_length"]
NAME_LENGTH: int = _core.LIMITS["name_length"]  #: bytes of a tensor's name
MANIFEST_LENGTH: int = _core.LIMITS["manifest_length"]
JSON_DEPTH: int = _core.LIMITS["json_depth"]
SAFETENSORS_HEADER: int = _core.LIMITS["safetensors_header"]
PATTERN_MEMORY: int = _core.LIMITS["pattern_memory"]
WORKERS: int = _core.LIMITS["workers"]
QUOTED: int = _core.LIMITS["quoted"]
#: bytes of other JSON files: indices of shards, manifests of conformance packs, plans
JSON_LENGTH = 100_000_000
EXPERIMENT_LENGTH = 10_000_000  #: bytes of an experiment's TOML file
TEXT_LENGTH = 100_000_000  #: bytes of a text that is trained on, or of a list of names
JSON_DIGITS = 4_300  #: of an integer: Python's own limit
NPY_HEADER = 100_000  #: bytes: a header is a line
SENTENCE = 600  #: characters of a message about a file of others

_SMALL = 2**26  # bytes that need no check of the machine's memory


def available_memory() -> int:
    """Bytes that this process may still allocate, by machine, control group and own limit."""
    limits = [_core.machine_memory()]
    with contextlib.suppress(OSError, ValueError, IndexError):  # elsewhere than on Linux
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        limits += [
            1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")
        ]
    return min(limits)


def check_fits(
    shape: Sequence[int], itemsize: int, remedy: str = "leave it out of the dump"
) -> None:
    """Check before an array from elsewhere is allocated.

    Raises
    ------
    ValueError
        It does not fit into this machine's memory; the words follow a file's name.
    """
    needed = math.prod(shape) * itemsize
    if needed > _SMALL and needed > (there := available_memory()):
        raise ValueError(
            f"an array of shape {list(shape)} needs {_size(needed)} of memory, and this machine "
            f"has {_size(there)}; {remedy}"
        )


def is_of_memory(error: BaseException) -> bool:
    """Whether memory ran out; libraries use various messages while loading or starting threads."""
    words = (
        "failed to map",
        "cannot allocate memory",
        "start new thread",
        "bad_alloc",
        "MemoryError",
        "error return without exception set",
    )
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def memory_sentence(error: BaseException) -> str:
    """A command's message when memory has run out."""
    message = " ".join(str(error).split())
    why = f" ({message})" if message and "bad_alloc" not in message else ""
    return (
        "there is not enough memory: this process may use "
        f"{_size(_core.machine_memory())}{why}; give it more, or a part of the input"
    )


def _size(count: int) -> str:
    for unit, factor in (("EiB", 2**60), ("TiB", 2**40), ("GiB", 2**30)):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}" if count < 2**120 else f"more than 2^60 {unit}"
    return f"{count / 2**20:,.1f} MiB"
