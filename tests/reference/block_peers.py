"""The scale codes (E8M0) that two libraries give a block of float32 numbers, by their published
rules on the bits of its largest magnitude.

torchao, ``torchao/prototype/mx_formats/mx_tensor.py``: the maximum is torch's, to which a NaN is
largest. Up to 0.18 a NaN alone has code 255; since August 2026 (#4725) an infinity has it too.
Transformer Engine, ``float_to_e8m0`` in ``common/util/ptx_arch_spec.cuh`` and the kernels of
``common/cast/mxfp8``: the maximum is fmaxf's, to which a NaN is nothing, and an infinity has code
254.
"""

import numpy as np

NAN_CODE = 255


def torchao(block: np.ndarray, emax: int, mode: str, newest: bool) -> int:
    """`mode` as torchao's: floor, ceil or rceil; rceil of blocks that are not finite only."""
    largest = np.float32(0)
    for x in block:
        if np.isnan(x):
            return NAN_CODE
        largest = max(largest, abs(x))
    if newest and np.isinf(largest):
        return NAN_CODE
    if mode == "rceil":
        assert np.isinf(largest)
        return 254
    bits = int(largest.view(np.uint32))
    exponent = (bits >> 23) - 127
    if mode == "ceil" and bits & 0x7FFFFF:
        exponent += 1
    return min(max(exponent - emax, -127), 128) + 127


def transformer_engine(block: np.ndarray, largest_element: float) -> int:
    amax = np.float32(0)
    for x in block:
        amax = np.fmax(amax, abs(x))
    value = amax * (np.float32(1) / np.float32(largest_element))
    if np.isinf(value):
        return 254
    bits = int(value.view(np.uint32))
    exponent, fraction = bits >> 23, bits & 0x7FFFFF
    # Up to the next power of two; below 2^-127 that is 2^-127 itself.
    if fraction and exponent != 254 and not (exponent == 0 and fraction <= 0x400000):
        exponent += 1
    return exponent
