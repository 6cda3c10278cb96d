"""How NCCL 2.19.3 divides a message among channels, played as its kernels do: every channel of every
loop names the elements of its chunks (definitions.md, section 1, "Channels")."""

from __future__ import annotations

import math

import numpy as np

#: Bytes of a channel's step, threads, and bytes that each thread needs.
PROTOCOLS = {"simple": (1 << 19, 512, 64), "ll": (1 << 15, 512, 8), "ll128": (576_000, 640, 8)}


def launched(
    n: int, size: int, workers: int, channels: int, protocol: str, tree: bool
) -> tuple[int, int]:
    """Channels and threads of a message of n numbers of `size` bytes."""
    _, threads, need = PROTOCOLS[protocol]
    if protocol == "ll" and not tree:
        need *= workers
    while n * size < channels * threads * need:
        if channels > 1:
            channels -= 1
        elif threads % 128 == 0:
            threads //= 2
        else:
            break
    if protocol == "simple":
        threads += 128 if tree else 32
    return channels, max(threads, 96)


def up(a: int, b: int) -> int:
    return -(-a // b)


def ring_chunks(n: int, size: int, workers: int, channels: int, protocol: str) -> np.ndarray:
    """The rank whose chunk each element is in; the sum starts one further on."""
    channels, threads = launched(n, size, workers, channels, protocol, False)
    step = PROTOCOLS[protocol][0] // size
    most = 4 * step if protocol == "simple" else step
    grain = {"simple": 0, "ll": threads * (8 // size), "ll128": threads * (60 // size) // 2}[
        protocol
    ]
    owner = np.full(n, -1)
    for loop in range(0, n, channels * workers * most):
        left = n - loop
        if protocol == "simple":
            chunk = min(most, up(left, channels * workers))
            chunk = up(chunk, (threads - 32) * 8 // size) * ((threads - 32) * 8 // size)
        else:
            chunk = min(most, up(left, channels * workers * grain) * grain)
        for channel in range(channels):
            for rank in range(workers):
                if protocol == "simple":
                    at = loop + channel * workers * chunk + rank * chunk
                else:
                    at = loop + (rank * channels + channel) * chunk
                part = owner[at : at + chunk]
                assert (part == -1).all()  # no element has two chunks
                part[:] = rank
    assert (owner >= 0).all()
    return owner


def tree_chunks(n: int, size: int, workers: int, channels: int, protocol: str) -> np.ndarray:
    """The tree of each element, 0 or 1; every rank is a node."""
    of_all = channels
    channels, threads = launched(n, size, workers, channels, protocol, True)
    bytes_, levels = n * size, int(math.log2(workers))

    def halve(chunk: int, loops: float, least: int) -> int:
        while bytes_ // (channels * chunk) < loops and chunk > least:
            chunk //= 2
        return chunk

    if protocol == "simple":
        chunk = 1 << 19
        for loops, least in ((8 * levels, 1 << 17), (4 * levels, 1 << 16), (levels, 1 << 15)):
            chunk = halve(chunk, loops, least)
        chunk //= size
        grain = (threads - 64) * 8 * (8 // size)
    elif protocol == "ll":
        chunk, grain = (1 << 15) // size, threads * (8 // size)
    else:
        chunk = halve(halve(614_400, (1.1 + levels) * 64, 1 << 17), (1.1 + levels) * 16, 1 << 15)
        chunk, grain = chunk * 15 // (16 * size), threads * (60 // size) // 8
    loop = channels * chunk
    if loop > n:
        chunk = up(n, channels * grain) * grain
    tree = np.full(n, -1)
    for first in range(0, n, loop):
        for channel in range(channels):
            at = first + channel * chunk
            part = tree[at : min(at + chunk, first + loop)]
            assert (part == -1).all()
            part[:] = channel >= up(of_all, 2)
    assert (tree >= 0).all()
    return tree
