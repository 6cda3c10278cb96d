"""Describes recorded gradients as text: zeros, non-finite numbers, sizes, and exponents."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _core
from .._results.results import Results
from .._text import aligned, count_of, printable
from .._traces.trace import Trace
from .replay import replay

BARS = 20  # of the histogram, at most
WIDTH = 50  # of the longest


def share_of(count: int, total: int) -> str:
    return "-" if total == 0 else "<0.01%" if 0 < count < total / 10_000 else f"{count / total:.2%}"


@dataclass
class Values:
    """Values of one tensor, of all workers at some steps."""

    count: int = 0
    zeros: int = 0
    nan: int = 0
    infinite: int = 0
    squares: float = 0.0  # of the finite ones
    # Of finite nonzero values: floor(log2 |g|) -> count.
    exponents: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, other: Values) -> None:
        for name in ("count", "zeros", "nan", "infinite", "squares"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for exponent, count in other.exponents.items():
            self.exponents[exponent] += count

    def cells(self) -> list[str]:
        finite = self.count - self.nan - self.infinite
        rms = f"{math.sqrt(self.squares / finite):.3g}" if finite else "-"
        low, high = (f"2^{f(self.exponents)}" if self.exponents else "-" for f in (min, max))
        return [
            share_of(self.zeros, self.count),
            f"{self.nan:,}",
            f"{self.infinite:,}",
            rms,
            low,
            high,
        ]


def rows_of(results: Results, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    """Rows of these columns, without pandas, which is slow to import."""
    by_name = results.as_columns(table)
    several = (by_name[name] for name in columns.split())
    return zip(*((c[0] if isinstance(c, tuple) else c).tolist() for c in several))


def values_of(results: Results, trace: Trace) -> dict[str, Values]:
    """Tensor -> its values, of a replay of some steps."""
    values = {name: Values() for name in trace.tensors}
    for stage, name, count, nan, infinite, squares in rows_of(
        results, "frame", "stage tensor counted nan infinite sum_squared_reference"
    ):
        if stage == "wire":
            values[name].add(
                Values(count=count + nan + infinite, nan=nan, infinite=infinite, squares=squares)
            )
    for name, kind, exponent, count in rows_of(results, "histograms", "tensor kind exponent count"):
        if kind == "finite":
            values[name].exponents[exponent] += count
        elif kind == "zero":
            values[name].zeros += count
    return values


def histogram(exponents: dict[int, int]) -> list[str]:
    """Bars: the number of values in [2^a, 2^b)."""
    if not exponents:
        return []
    low, high = min(exponents), max(exponents)
    width = -(-(high - low + 1) // BARS)
    low = low // width * width
    bins = [
        sum(exponents.get(e, 0) for e in range(a, a + width)) for a in range(low, high + 1, width)
    ]
    total, most = sum(bins), max(bins)
    lines = []
    for i, count in enumerate(bins):
        a = low + i * width
        name = f"2^{a}" if width == 1 else f"2^{a}..{a + width - 1}"
        lines.append(
            f"{name:>14}  {share_of(count, total):>7}  "
            f"{'#' * max(round(WIDTH * count / most), count > 0)}".rstrip()
        )
    return lines


def describe_values(trace: Trace, most: int = 20) -> str:
    """A table and a histogram of the gradients of the first, the middle and the last step.

    Reads those steps. ``most``: the number of tensors shown, the largest first; 0 for all.
    """
    steps = (
        sorted({trace.steps[0], trace.steps[len(trace.steps) // 2], trace.steps[-1]})
        if trace.steps
        else []
    )
    if not steps:
        return ""
    results = replay(trace, "none:fp32", topology=(), steps=steps, check=False)
    of_tensor, all_of_them = values_of(results, trace), Values()
    for values in of_tensor.values():
        all_of_them.add(values)
    sizes = {
        tensor.name: (tensor.size, tensor.role, list(tensor.shape))
        for tensor in trace.manifest.tensors
    }
    names = sorted(trace.tensors, key=lambda name: -sizes[name][0])
    shown = names[: most or None]
    head = ["elements", "zeros", "NaN", "inf", "RMS", "min", "max"]
    rows = [
        [
            printable(name, 100),
            printable(sizes[name][1]),
            f"{sizes[name][0]:,}",
            *of_tensor[name].cells(),
            str(sizes[name][2]),
        ]
        for name in shown
    ]
    rows.append(
        ["all", "", f"{sum(size for size, _, _ in sizes.values()):,}", *all_of_them.cells(), ""]
    )
    where = f"step {steps[0]}" if len(steps) == 1 else f"steps {', '.join(map(str, steps))}"
    lines = [f"gradients of {where}, all workers; min and max: exponents of finite nonzero values"]
    words = ("tensor", "role", "shape")
    lines += aligned(["tensor", "role", *head, "shape"], rows, words)[0]
    if len(shown) < len(names):
        lines.insert(-1, f"... and {len(names) - len(shown)} smaller tensors; --all shows them")
    return "\n".join(
        [
            *lines,
            *_oddities(all_of_them),
            *_rounding_noise(results),
            "",
            "exponents, of all tensors",
            *histogram(all_of_them.exponents),
        ]
    )


def _rounding_noise(results: Results) -> list[str]:
    """A remark on layers whose gradients are numerically zero: docs/definitions.md, section 14."""
    _, all_workers = results.as_columns("noise")["without"]
    rows = rows_of(results, "noise", "tensor step sum_squared_reference sum_noise elements")
    places = [row for row, of_all in zip(rows, all_workers) if of_all]
    layers, steps = (
        {name: k for k, name in enumerate(dict.fromkeys(row[i] for row in places))} for i in (0, 1)
    )
    reference, noise, elements = np.array([row[2:] for row in places], float).reshape(-1, 3).T
    zero = _core.numerically_zero(
        reference,
        noise,
        elements,
        np.array([layers[row[0]] for row in places], np.int64),
        np.array([steps[row[1]] for row in places], np.int64),
    )
    names = [printable(name, 100) for name, is_zero in zip(layers, zero) if is_zero]
    return (
        [
            f"numerically zero, so probably rounding errors alone: {', '.join(names)}; then errors "
            "in them mean nothing"
        ]
        if names
        else []
    )


def _oddities(values: Values) -> list[str]:
    """Remarks on values whose errors cannot be measured."""
    odd = values.nan + values.infinite
    if odd:
        return [
            f"{odd:,} of {count_of(values.count, 'value')} are NaN or infinite: a replay omits "
            "them from every error"
        ]
    return (
        ["all of these gradients are zero"] if values.count and values.zeros == values.count else []
    )
