"""Gradients that were absent and are recorded as zeros: their entries in a trace's metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_KEY = "no_gradient_so_zeros: "


def add_absent(
    metadata: dict[str, str],
    step: int,
    name: str,
    lacking: Sequence[int],
    workers: int,
    before: Sequence[int],
) -> None:
    """Adds that a tensor was absent at a step, to ``no_gradient_so_zeros: NAME``.

    Parameters
    ----------
    metadata : dict
        Changed.
    step : int
    name : str
        The tensor.
    lacking : sequence of int
        The workers without it.
    workers : int
        The number of all workers.
    before : sequence of int
        The trace's earlier steps, ascending.
    """
    of = "" if len(lacking) == workers else f" of worker {', '.join(map(str, lacking))}"
    key = f"{_KEY}{name}{of}"
    text = metadata.get(key, "")
    runs = text.split(", ") if text else []
    if runs and before and runs[-1].rsplit("-", 1)[-1] == str(before[-1]):
        runs[-1] = f"{runs[-1].split('-')[0]}-{step}"
    else:
        runs.append(str(step))
    metadata[key] = ", ".join(runs)


def is_absent(key: str) -> bool:
    """Whether this key of the metadata lists absent gradients."""
    return key.startswith(_KEY)


def count_absent(metadata: Mapping[str, str], steps: Iterable[int], workers: int) -> int:
    """The number of absent gradients, one for every step, worker and tensor."""
    steps, total = sorted(steps), 0
    for key, text in metadata.items():
        if not is_absent(key):
            continue
        found = re.search(r" of worker (\d+(?:, \d+)*)$", key)
        ranks = len(found[1].split(",")) if found else workers
        for run in text.split(", "):
            first, _, last = run.partition("-")
            if first.isdecimal() and (last or first).isdecimal():
                low, high = int(first), int(last or first)
                total += ranks * sum(low <= step <= high for step in steps)
    return total
