"""One sentence for wrong arguments of `FloatFormat`; the C++ class would list all signatures."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np

from .._core import FloatFormat
from .._text import clip

#: The fields, and their types.
_KINDS = {
    "exponent_bits": int, "mantissa_bits": int, "bias": int, "specials": str, "is_signed": bool,
    "subnormals": bool, "subnormal_exponent": int, "zero": str,
    "nan_codes": int, "has_infinity": bool, "nan_at_negative_zero": bool, "even_code_ties": bool,
}  # fmt: skip
_NEEDED = ("exponent_bits", "mantissa_bits")
#: Words that people use for a format without infinities.
_SPECIALS = (
    "inf", "infs", "infinity", "infinities", "has_inf", "has_infinities", "nan", "nans",
    "has_nan", "finite", "fn",
)  # fmt: skip
#: The arguments that they mean.
_FINITE = "specials='fn' has no infinity and one NaN, specials='finite' neither"
_WORDS = {int: "an integer", str: "a word", bool: "True or False"}


def explained(names_given: tuple[Any, ...], fields: dict[str, Any]) -> str:
    """Why ``FloatFormat(*given, **fields)`` is invalid."""
    if unknown := [name for name in fields if name not in _KINDS and name not in ("name", "dtype")]:
        if unknown[0].lower() in _SPECIALS:
            return f"FloatFormat has no argument '{unknown[0]}'; give specials: {_FINITE}"
        near = difflib.get_close_matches(unknown[0], _KINDS, n=1, cutoff=0.5)
        return f"FloatFormat has no argument '{clip(unknown[0])}'; " + (
            f"did you mean {near[0]}?" if near else f"its fields are {', '.join(_KINDS)}"
        )
    names = [*names_given, *(fields[key] for key in ("name", "dtype") if key in fields)]
    known = {key: value for key, value in fields.items() if key in _KINDS}
    if len(names) > 1 or (names and isinstance(names[0], (int, float))):
        return (
            "FloatFormat takes its fields by name, such as exponent_bits=4, mantissa_bits=3, "
            "or a format's name alone"
        )
    for key, value in known.items():
        kind = _KINDS[key]
        right = (
            isinstance(value, (bool, np.bool_))
            if kind is bool
            else isinstance(value, kind) or (kind is int and isinstance(value, np.integer))
        )
        if not right and not (value is None and key not in _NEEDED):
            return f"{key}={clip(repr(value))} is not {_WORDS[kind]}"
    if names and known:
        return (
            f"FloatFormat takes a name or fields, not {clip(repr(names[0]))} and {', '.join(known)}"
            + _meant(names[0], known)
        )
    missing = [key for key in _NEEDED if key not in known]
    return (
        f"FloatFormat needs {' and '.join(missing)}, or a format's name alone, such as "
        "FloatFormat('e4m3')"
    )


def _meant(name: Any, known: dict[str, Any]) -> str:
    """The format that a name and fields together may mean."""
    if known.get("has_infinity") is False and not {"nan_codes", "specials"} & set(known):
        return f"; for no infinity: {_FINITE}"
    try:
        if "specials" in known:
            raise ValueError("they decide fields that the name decides as well")
        fields = FloatFormat(name).to_dict()
        if "bias" in known:
            fields["subnormal_exponent"] += fields["bias"] - known["bias"]
        return f"; that format is FloatFormat('{FloatFormat(**(fields | known)).name}')"
    except (ValueError, TypeError):
        return "; give exponent_bits, mantissa_bits and what differs"
