"""Walks all 2^32 float32 inputs through a peer and through apscope, in several processes."""

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence

import numpy as np

from .compare import Found, compare
from .everyone import find
from .peer import Peer

ALL = 2**32
CHUNK = 2**20  # inputs cast at a time: what fits in a processor's cache
TASK = 2**28  # inputs that a process takes at a time


def stretch(peer: Peer, begin: int, end: int, chunk: int = CHUNK) -> Found:
    """The comparison on the patterns begin to end - 1."""
    found = Found()
    for start in range(begin, end, chunk):
        found.add(compare(peer, np.arange(start, min(start + chunk, end), dtype=np.uint32)))
    return found


def _one_thread() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported, later


def _task(arguments: tuple[str, int, int]) -> Found:
    name, begin, end = arguments
    return stretch(find(name), begin, end)


def walk(
    names: Sequence[str], processes: int = 2, end: int = ALL, task: int = TASK
) -> Iterator[tuple[str, Found, float]]:
    """Name, what was found on the patterns below `end`, and the seconds it took, one peer after the
    other."""
    # A fresh interpreter each, since torch's threads do not survive a fork; and one thread in each.
    with multiprocessing.get_context("spawn").Pool(processes, _one_thread) as pool:
        for name in names:
            began = time.perf_counter()
            found = Found()
            for part in pool.imap(
                _task, [(name, begin, min(begin + task, end)) for begin in range(0, end, task)]
            ):
                found.add(part)
            yield name, found, time.perf_counter() - began
