"""A call of a function of apscope as one text: custom operators take tensors, numbers and texts."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import torch

from .._arrays.blocks import quantize_blocks
from .._arrays.casts import quantize
from .._arrays.checks import taken
from .._arrays.inputs import as_format
from .._arrays.projection import Projection
from .._arrays.sums import matmul
from .._core import BlockFormat, FloatFormat

__all__ = ["call", "draws", "text_of"]

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quantize": quantize,
    "quantize_blocks": quantize_blocks,
    "matmul": matmul,
}
#: Arguments that are float formats.
_FORMATS = ("product", "accumulate")


def text_of(function: str, format: Any, options: dict[str, Any]) -> str:
    """The text of ``function(..., format, **options)``; a `Draws` gives its next seed."""
    if torch.compiler.is_compiling():
        if hasattr(options.get("seed"), "next"):
            raise TypeError(
                "a compiled function would draw the same words at every call; give seed= a number, "
                "or call this outside of torch.compile"
            )
        text: str = _constant(function, format, tuple(options.items()))
        return text
    return _text(function, format, options)


@torch.compiler.assume_constant_result
def _constant(function: str, format: Any, options: tuple[tuple[str, Any], ...]) -> str:
    """The same, for a graph: a constant."""
    return _text(function, format, dict(options))


def _text(function: str, format: Any, options: dict[str, Any]) -> str:
    given = dict(options)
    if "seed" in given:
        given["seed"] = int(taken(given["seed"]))
    if isinstance(given.get("projection"), Projection):
        given["projection"] = given["projection"].to_json()
    for name in _FORMATS:
        if given.get(name) is not None:
            given[name] = as_format(given[name]).to_json()
    if function == "quantize_blocks":
        block = format if isinstance(format, BlockFormat) else BlockFormat(format)
        given["format"] = block.to_json()
    else:
        given["format"] = as_format(format).to_json()
    return json.dumps([function, given], sort_keys=True)


def draws(how: str) -> bool:
    """Whether the call draws random words."""
    _, given = json.loads(how)
    projection = json.loads(given.get("projection") or "{}")
    return "stochastic" in str(projection.get("rounding", given.get("rounding", "")))


@functools.lru_cache(maxsize=1024)
def _parsed(how: str) -> tuple[Callable[..., Any], Any, dict[str, Any]]:
    function, given = json.loads(how)
    if "projection" in given and given["projection"] is not None:
        given["projection"] = Projection.from_json(given["projection"])
    for name in _FORMATS:
        if given.get(name) is not None:
            given[name] = FloatFormat.from_json(given[name])
    kind = BlockFormat if function == "quantize_blocks" else FloatFormat
    return _FUNCTIONS[function], kind.from_json(given.pop("format")), given


def call(how: str, *tensors: torch.Tensor) -> torch.Tensor:
    """The numbers: a new, contiguous tensor without a gradient."""
    function, format, options = _parsed(how)
    result: torch.Tensor = function(*(t.detach() for t in tensors), format, **options)
    return result
