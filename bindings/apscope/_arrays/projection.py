"""Projection: how a number is converted to a format, as a value."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection
from typing import Any

from .. import _core
from .._folders.json import parse_json
from .._text import clip
from .checks import flag, integer, text

#: Parts that are words.
_RULES = ("rounding", "overflow", "underflow")


@dataclasses.dataclass(frozen=True, repr=False)
class Projection:
    """How a real number is converted to a format. Projections with equal parts are equal.

    Parameters
    ----------
    rounding : str
        To nearest: ``ties_to_even``, ``ties_to_away``, ``ties_to_zero``. Directed: ``toward_zero``,
        ``toward_positive``, ``toward_negative``, ``away_from_zero``. ``to_odd``: an inexact number
        is rounded to the neighbour with the odd significand. Stochastic: the magnitude is rounded
        up if count + R >= 2^N, with R a random integer of N bits and, for the fraction eta of the
        step that lies below x, the count floor(eta 2^N) (``stochastic``, P3109 StochasticA),
        floor(eta 2^N + 1/2) (``stochastic_b``), eta 2^N to the nearest integer, ties to even
        (``stochastic_c``), or 2^(N-1) (``stochastic_equal``: both neighbours equally likely).
        ``stochastic_exact``: with probability exactly eta, with as many random bits as needed.
        Synonyms are listed in docs/definitions.md, section 6.
    overflow : str
        ``ieee`` (by direction: infinity, else NaN, else the largest value), ``saturate`` (the
        largest value, for infinite inputs too; P3109 SatFinite), ``propagate`` (the largest value,
        but infinite inputs stay infinite if the format has infinities; P3109 SatPropagate),
        ``infinity`` or ``nan``. Applies to rounded magnitudes above the largest finite value, and
        to infinite inputs.
    underflow : str
        ``gradual``, ``flush_result`` (a result below the smallest normal number becomes a zero of
        its sign), ``flush_input`` (an input below it is treated as such a zero) or ``flush_both``.
    keep_payload : bool
        A NaN keeps its sign and the leading bits of its payload, made quiet, as far as the format
        has codes for them. Otherwise every NaN is the canonical one.
    random_bits : int
        N of stochastic rounding, 1 to 64 (``stochastic_b`` and ``stochastic_c``: 62).

    Raises
    ------
    ValueError
        An unknown rounding, overflow or underflow; random bits out of range.
    TypeError
        A part of a wrong type.

    Notes
    -----
    Every function that rounds takes one as ``projection=``, or its parts by name, never both. So
    does the class of every scheme with a key ``rounding``. Whether a format supports it, for
    example an overflow to infinity, is checked when it is used.

    Examples
    --------
    >>> import apscope
    >>> p = apscope.Projection("stochastic", overflow="saturate", random_bits=8)
    >>> p
    Projection('stochastic', overflow='saturate', random_bits=8)
    >>> apscope.quantize(300.0, "e4m3", projection=p)
    240.0
    """

    rounding: str = "ties_to_even"
    overflow: str = dataclasses.field(default="ieee", kw_only=True)
    underflow: str = dataclasses.field(default="gradual", kw_only=True)
    keep_payload: bool = dataclasses.field(default=False, kw_only=True)
    random_bits: int = dataclasses.field(default=32, kw_only=True)

    def __post_init__(self) -> None:
        parts: dict[str, Any] = {
            "keep_payload": flag("keep_payload", self.keep_payload),
            "random_bits": integer("random_bits", self.random_bits, 1, 64),
        }
        rules: dict[str, Any] = {name: text(name, getattr(self, name)) for name in _RULES}
        in_core = _core.Projection(**rules, **parts)
        parts.update({name: getattr(in_core, name) for name in _RULES})
        for name, value in parts.items():
            object.__setattr__(self, name, value)

    def _in_core(self) -> _core.Projection:
        """The same for C++."""
        return _core.Projection(**self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Every part by its name, for JSON."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """`to_dict` as text, which `from_json` reads."""
        return json.dumps(self.to_dict())

    @staticmethod
    def from_json(text: str) -> Projection:
        """The projection of a text made by `to_json`."""
        parts = parse_json(text)
        if not isinstance(parts, dict) or not parts.keys() <= set(FIELDS):
            raise ValueError(f"{clip(text)!r} is not a projection; give a text made by to_json")
        return Projection(**parts)

    def __repr__(self) -> str:
        parts = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in dataclasses.fields(self)[1:]
            if getattr(self, f.name) != f.default
        ]
        return f"Projection({', '.join([repr(self.rounding), *parts])})"

    def __str__(self) -> str:
        words = [self.rounding, f"overflow {self.overflow}"]
        if self.rounding.startswith("stochastic") and self.rounding != "stochastic_exact":
            words.insert(1, f"{self.random_bits} random bits")
        if self.underflow != "gradual":
            words.append(f"underflow {self.underflow}")
        return ", ".join([*words, "payloads of NaN kept"] if self.keep_payload else words)


#: A projection's parts, in the order of the class.
FIELDS = tuple(f.name for f in dataclasses.fields(Projection))


def checked(
    projection: Any, parts: Collection[str], supported: Collection[str], what: str
) -> Projection:
    """A call's ``projection=``, for a function that supports some of its parts.

    Raises
    ------
    TypeError
        Something other than a projection.
    ValueError
        `parts` given in addition to it; a part that is not at its default and not supported.
    """
    if not isinstance(projection, Projection):
        raise TypeError(
            f"projection is of type {type(projection).__name__}; give a Projection, such as "
            "Projection('toward_zero')"
        )
    if parts:
        raise ValueError(
            f"projection and {next(iter(parts))} are both given, but "
            "one is a part of the other; omit one"
        )
    for f in dataclasses.fields(Projection):
        if f.name not in supported and (value := getattr(projection, f.name)) != f.default:
            raise ValueError(
                f"the projection has {f.name}={value!r}, which {what} does not support; leave it "
                f"at {f.default!r}"
            )
    return projection
