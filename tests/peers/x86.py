"""The conversions in x86 processors, as peers: F16C and AVX-512 BF16."""

import numpy as np

from .compiled import array_function, library
from .peer import Missing, Peer

MODES = {
    "rn": (0, "ties_to_even"),
    "rd": (1, "toward_negative"),
    "ru": (2, "toward_positive"),
    "rz": (3, "toward_zero"),
}


def f16c_peers() -> list[Peer]:
    """VCVTPS2PH, one peer a rounding mode."""
    lib = library("x86.cpp")
    if not lib.has_f16c():
        raise Missing("this processor has no F16C")
    return [
        Peer(
            f"VCVTPS2PH_{name}",
            "F16C",
            "fp16",
            array_function(lib.f16c, np.uint16, mode),
            rounding=rounding,
        )
        for name, (mode, rounding) in MODES.items()
    ]


def bf16_peers() -> list[Peer]:
    """VCVTNEPS2BF16, which has one rounding mode."""
    lib = library("x86.cpp")
    if not lib.has_bf16():
        raise Missing("this processor has no AVX-512 BF16")
    return [Peer("VCVTNEPS2BF16", "AVX-512 BF16", "bf16", array_function(lib.bf16, np.uint16))]
