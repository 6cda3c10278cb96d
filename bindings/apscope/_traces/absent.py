"""Gradients that were absent and are recorded as zeros: their entries in a trace's metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_KEY = "no_gradient_so_zeros: "


def add_absent(
    metadata: dict[str, str],
    step: int,
    tensor: str,
    missing: Sequence[int],
    workers: int,
    earlier: Sequence[int],
) -> None:
    """Adds that a tensor was absent at a step, to ``no_gradient_so_zeros: TENSOR``.

    `missing`: the numbers of the workers without it, of `workers` in all; `earlier`: the trace's
    steps before this one, ascending.
    """
    of = "" if len(missing) == workers else f" of worker {', '.join(map(str, missing))}"
    key = f"{_KEY}{tensor}{of}"
    text = metadata.get(key, "")
    runs = text.split(", ") if text else []
    if runs and earlier and runs[-1].rsplit("-", 1)[-1] == str(earlier[-1]):
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
        match = re.search(r" of worker (\d+(?:, \d+)*)$", key)
        ranks = len(match[1].split(",")) if match else workers
        for run in text.split(", "):
            first, _, last = run.partition("-")
            if first.isdecimal() and (last or first).isdecimal():
                low, high = int(first), int(last or first)
                total += ranks * sum(low <= step <= high for step in steps)
    return total
