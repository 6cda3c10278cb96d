"""A part of every tensor: whole blocks of it, the same for every step and worker."""

from __future__ import annotations

import hashlib
import math

import numpy as np

#: Elements per block; blocks of statistics and of block formats are aligned with these.
BLOCK = 4096


def chosen_blocks(name: str, size: int, fraction: float) -> np.ndarray:
    """The numbers of the sampled blocks of a tensor of `size` elements, ascending; at least one.

    The `fraction` is rounded up to a whole number of blocks. The choice (:func:`at_random`) depends
    only on the name and the size.
    """
    count = math.ceil(size / BLOCK)
    return at_random(name, count, math.ceil(count * fraction))


def at_random(name: str, count: int, chosen: int) -> np.ndarray:
    """`chosen` of the numbers 0 to `count` - 1, ascending, or all if there are fewer.

    Those with the smallest BLAKE2b digest of ``NAME/NUMBER``: more of them include fewer.
    """
    if chosen >= count:
        return np.arange(count)
    begin = hashlib.blake2b(f"{name}/".encode(errors="surrogatepass"), digest_size=8)

    def digest(number: int) -> bytes:
        state = begin.copy()
        state.update(str(number).encode())
        return state.digest()

    return np.sort(np.array(sorted(range(count), key=digest)[:chosen], dtype=np.int64))


def take_blocks(values: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """The elements of these blocks of a tensor, row-major, as one axis."""
    flat = values.reshape(-1)
    return (
        np.concatenate([flat[b * BLOCK : (b + 1) * BLOCK] for b in blocks]) if len(blocks) else flat
    )
