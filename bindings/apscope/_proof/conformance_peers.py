"""Where the dtypes of NumPy, ml_dtypes and torch differ from apscope on a conformance pack."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from .._core import FloatFormat
from .._formats.blackbox import cast_of, name_of, run_cast, same
from .._formats.identify import identify
from ..conformance import OVERFLOWS, check, describe, expected, inputs_of


def peers() -> dict[str, tuple[str, Any]]:
    """The installed floating-point dtypes of at most 16 bits: name -> (package version, dtype)."""
    dtypes: dict[str, tuple[str, Any]] = {}
    for package, words in (("numpy", ["float16"]), ("ml_dtypes", None), ("torch", None)):
        try:
            module = importlib.import_module(package)
        except ImportError:
            continue
        starts = ("float8", "float6", "float4", "float16", "bfloat16")
        names = words or [n for n in sorted(dir(module)) if n.startswith(starts)]
        for name in names:
            dtype = getattr(module, name)
            try:
                identify(dtype)
            except (TypeError, ValueError):
                continue  # pairs of values, conversion functions
            dtypes[name_of(dtype)] = (module.__version__, dtype)
    return dtypes


def peer_table(directory: str | Path) -> str:
    """A Markdown table of every installed dtype on a pack, and one of the differences and reasons.

    Parameters
    ----------
    directory : str or Path
        A pack with all formats. Ties to even; each dtype is compared with that one of the pack's
        two overflow rules that it agrees with at more inputs.
    """
    table = [
        "| dtype | version | format | overflow | inputs | differing |",
        "|---|---|---|---|---|---|",
    ]
    reasons = ["| dtype | which inputs | how many | first | why |", "|---|---|---|---|---|"]
    for name, (version, dtype) in peers().items():
        nearest = min(
            (check(directory, dtype, overflow=o) for o in OVERFLOWS), key=lambda c: c.differing
        )
        table.append(
            f"| `{name}` | {version} | {nearest.format} | {nearest.overflow} | {nearest.inputs} | "
            f"{nearest.differing} |"
        )
        reasons += [
            f"| `{name}` | {row} |" for row in _reasons(dtype, nearest.format, nearest.overflow)
        ]
    return "\n".join([*table, "", *reasons])


def _reasons(dtype: Any, format: str, overflow: str) -> list[str]:
    """The differing inputs, by kind."""
    inputs = inputs_of(format)
    x = inputs.astype(np.uint32).view(np.float32)
    got = run_cast(cast_of(dtype), x)
    right = expected(inputs, format, "ties_to_even", overflow).view(np.float32).astype(np.float64)
    wrong = ~same(got, right)
    f = FloatFormat(format)
    size = np.abs(np.where(np.isnan(x), np.float32(0), x))
    kinds = [
        ("NaN", np.isnan(x),
         "the format has no NaN: the dtype makes it a zero, apscope keeps the NaN of a value and "
         "refuses to encode it"),
        ("zeros", x == 0, "the format has no zero: the dtype gives its smallest value, apscope NaN "
                          "unless saturating"),
        ("negative", np.signbit(x) & (not f.is_signed),
         "the format has no sign: the dtype drops it, apscope gives NaN, or the smallest value "
         "when saturating"),
        ("fp32 subnormals", (size > 0) & (size < 2.0**-126),
         "rounded to the wrong neighbour: an input nearer to 2^-127 becomes 2^-126"),
        ("past the largest", size > f.largest,
         "the dtype gives NaN, where the rule that it agrees with more often saturates"),
        ("others", np.ones(len(x), bool), "rounded otherwise"),
    ]  # fmt: skip
    rows = []
    for kind, of_kind, why in kinds:
        here = np.flatnonzero(wrong & of_kind)
        wrong = wrong & ~of_kind
        if here.size:
            rows.append(
                f"{kind} | {here.size} | {describe(x[here[0]], got[here[0]], right[here[0]])} "
                f"| {why}"
            )
    return rows
