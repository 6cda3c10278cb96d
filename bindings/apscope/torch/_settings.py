"""A call of a function of apscope as one text: custom operators take tensors, numbers and texts."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .._arrays.blocks import quantize_blocks
from .._arrays.casts import quantize
from .._arrays.checks import integer, taken
from .._arrays.draws import Draws
from .._arrays.inputs import as_format
from .._arrays.projection import FIELDS, Projection
from .._arrays.sums import matmul
from .._core import BlockFormat, FloatFormat

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quantize": quantize,
    "quantize_blocks": quantize_blocks,
    "matmul": matmul,
}
#: Arguments that are float formats.
_FORMATS = ("product", "accumulate")


def seed_of(seed: Any) -> int:
    """The seed of one call as a signed 64-bit number, for operators; a `Draws` gives its next.

    The text does not contain it, so that a compiled function is not compiled again for another
    seed.
    """
    if torch.compiler.is_compiling():
        if isinstance(seed, Draws):
            raise TypeError(
                "a compiled function would draw the same words at every call; give seed= a number, "
                "or call this outside of torch.compile"
            )
        if seed < 0:
            raise ValueError("seed is negative; give a number from 0 to 2^64 - 1")
    else:
        seed = integer("seed", taken(seed), 0, 2**64 - 1)
    return seed if seed < 2**63 else seed - 2**64


def text_of(function: str, format: Any, options: dict[str, Any]) -> str:
    """The text of ``function(..., format, **options)``, options without a seed."""
    text: str
    if torch.compiler.is_compiling():
        p = options.get("projection")
        # A graph holds a projection's parts, not the object.
        parts = None if p is None else tuple([getattr(p, name) for name in FIELDS])
        rest = tuple([(k, v) for k, v in options.items() if k != "projection"])
        text = _constant(function, format, parts, rest)
        return text
    try:
        text = _text(function, format, **options)
    except TypeError:  # an option that cannot be hashed, or a mistake
        text = _text.__wrapped__(function, format, **options)
    return text


@torch.compiler.assume_constant_result
def _constant(
    function: str, format: Any, parts: tuple[Any, ...] | None, rest: tuple[tuple[str, Any], ...]
) -> str:
    """The same, for a graph: a constant."""
    options = dict(rest)
    if parts is not None:
        options["projection"] = Projection(**dict(zip(FIELDS, parts, strict=True)))
    return _text.__wrapped__(function, format, **options)


@functools.lru_cache(maxsize=1024, typed=True)
def _text(function: str, format: Any, /, **given: Any) -> str:
    for name in ("out", "random"):
        if given.pop(name, None) is not None:
            raise TypeError(
                f"{name}= is not an option of apscope.torch: results are new tensors, and random "
                "words are those of seed="
            )
    for name, why in (("c", "products begin at +0"), ("scales", "products have no scales")):
        if given.pop(name, None) is not None:
            raise TypeError(
                f"{name}= is not an option of apscope.torch: {why}; call apscope.matmul"
            )
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
    return json.dumps([function, given], sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r:.60} is not an option's value; give a number or a text")


def draws(how: str) -> bool:
    """Whether the call draws random words."""
    _, options = json.loads(how)
    projection = json.loads(options.get("projection") or "{}")
    return "stochastic" in str(projection.get("rounding", options.get("rounding", "")))


@functools.lru_cache(maxsize=1024)
def _parsed(how: str) -> tuple[Callable[..., Any], Any, dict[str, Any]]:
    function, options = json.loads(how)
    if "projection" in options and options["projection"] is not None:
        options["projection"] = Projection.from_json(options["projection"])
    for name in _FORMATS:
        if options.get(name) is not None:
            options[name] = FloatFormat.from_json(options[name])
    kind = BlockFormat if function == "quantize_blocks" else FloatFormat
    return _FUNCTIONS[function], kind.from_json(options.pop("format")), options


def is_wide(how: str) -> bool:
    """Whether the format has values beyond fp32, so that every result is fp64."""
    format = _parsed(how)[1]
    return isinstance(format, FloatFormat) and not format.fits_fp32


def call(how: str, seed: int, *tensors: torch.Tensor) -> torch.Tensor:
    """The numbers: a new, contiguous tensor without a gradient."""
    function, format, options = _parsed(how)
    # A subclass of Tensor counts as one.
    plain = (t.detach().as_subclass(torch.Tensor) for t in tensors)
    result: torch.Tensor = function(*plain, format, seed=seed % 2**64, **options)
    return result
