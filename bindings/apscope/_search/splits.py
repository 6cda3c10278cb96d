"""The splits of N bits that are tried: exponent, mantissa, special values and biases, in the schemes that they stand in.

What is left out cannot have less error at the wire than what is there (docs/search.md; tests hold it to that):

- without a sign bit negative gradients are lost;
- e0m6 has the values of e1m5, and `fnuz` and P3109's formats those of `finite` and `fn`, but for the scale;
- more than eight exponent bits reach beyond fp32, in which gradients are recorded;
- a smaller bias than the first only makes the grid coarser within reach, and a larger one than the last overflows or, where the top saturates,
  saturates more than half of all values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from .._arrays.checks import integer, text
from .._core import FloatFormat
from .._formats.formats import named_formats
from .._schemes.scheme import Scheme, as_scheme

__all__ = ["BITS", "SCHEMES", "SPECIALS", "Reach", "Split", "nearest_named", "reach_of", "splits_of"]

#: The widths that are searched.
BITS = (3, 16)
#: Of the top codes: infinity and NaNs in the whole last binade, one NaN, or numbers alone, which saturate.
SPECIALS = ("ieee", "fn", "finite")
#: Where a format stands in a scheme: {format} with its usual bias, {biased} with every bias of the list. A bias is a constant scale.
SCHEMES = ("none:{biased}", "aps:{format},rule=tight")

_PLACES = ("{format}", "{biased}")
_WIDEST = 8  # exponent bits


class Split(NamedTuple):
    """One candidate."""

    scheme: Scheme
    format: FloatFormat


class Reach(NamedTuple):
    """Exponents, floor(log2), of what a trace holds: what biases follow from."""

    above: int  #: every sum over the workers is below 2^above
    amax: int  #: of the largest magnitude of a layer, the least of all layers that are told apart
    middle: int  #: of the median, likewise; zeros left out
    smallest: int  #: of the smallest magnitude but zeros


def reach_of(histograms: pd.DataFrame, workers: int, by_layer: bool) -> Reach:
    """The reach of one trace.

    Parameters
    ----------
    histograms : DataFrame
        `Results.histograms` of one trace.
    workers : int
    by_layer : bool
        Whether layers are told apart.

    Raises
    ------
    ValueError
        Nothing but zeros, infinities and NaNs.
    """
    finite = histograms[histograms["kind"] == "finite"]
    if not len(finite):
        raise ValueError("the gradients are zero everywhere they are finite, so that every format keeps them; give other steps")
    exponents = finite["exponent"].astype(int)
    counts = finite["count"].groupby([finite["tensor"] if by_layer else finite["kind"], exponents]).sum()
    layers = [of.droplevel(0) for _, of in counts.groupby(level=0)]
    return Reach(
        above=int(exponents.max()) + 1 + math.ceil(math.log2(workers)),
        amax=min(int(of.index.max()) for of in layers),
        middle=min(int(of.index[(2 * of.cumsum() >= of.sum()).argmax()]) for of in layers),
        smallest=int(exponents.min()),
    )


def splits_of(bits: int, schemes: Sequence[str], specials: Iterable[str] | None, reach: Reach) -> list[Split]:
    """The candidates, each once: a scheme after the other, in each the named formats first, then exponent bits, special values, biases ascending.

    Parameters
    ----------
    bits : int, 3 to 16
    schemes : sequence of str
        Specs with ``{format}`` or ``{biased}`` in them.
    specials : iterable of str, optional
        Of `SPECIALS`. By default all of them, and every named signed format of so many bits.
    reach : Reach

    Raises
    ------
    ValueError
        `bits` out of range; a scheme without a place for the format, or that is none; unknown special values.
    """
    bits = integer("bits", bits, *BITS)
    kinds = list(SPECIALS if specials is None else specials)
    if wrong := [kind for kind in kinds if kind not in SPECIALS]:
        raise ValueError(f"unknown special values '{wrong[0]}'; use {', '.join(SPECIALS)}")
    if not kinds:
        raise ValueError(f"there are no special values to search; give at least one of {', '.join(SPECIALS)}")
    usual = [f for e in range(1, min(_WIDEST, bits - 1) + 1) for kind in kinds if (f := _usual(e, bits - 1 - e, kind)) is not None]
    named = [] if specials is not None else [f for f in _signed() if f.storage_bits == bits]
    found: dict[str, Split] = {}
    for template in schemes:
        given = [place for place in _PLACES if place in text("schemes", template)]
        if len(given) != 1:
            raise ValueError(f"the scheme '{template}' must have {{format}} in the place of its format, or {{biased}} for every bias")
        for f in [*named, *(_biased(usual, reach) if given == ["{biased}"] else usual)]:
            scheme = as_scheme(template.replace(given[0], f.name))
            found.setdefault(scheme.spec, Split(scheme, f))
    if not found:
        raise ValueError("there is no scheme to search; give at least one, such as 'aps:{format}'")
    return list(found.values())


def _usual(exponent_bits: int, mantissa_bits: int, kind: str) -> FloatFormat | None:
    """With IEEE 754's bias, or the next one under which fp32 has all values; None where all codes would be special."""
    # By fields, for names may be taken: e2m3fn has no NaN.
    fields: dict[str, Any] = {"exponent_bits": exponent_bits, "mantissa_bits": mantissa_bits, "specials": kind}
    try:
        f = FloatFormat(**fields)
    except ValueError:
        return None
    return f if f.fits_fp32 else FloatFormat(**fields, bias=f.bias + 1)


def _biased(formats: Iterable[FloatFormat], reach: Reach) -> Iterator[FloatFormat]:
    """Every bias of the list: from the first under which no sum can overflow, until nothing is gained at the bottom or too much lost at the top."""
    for f in formats:
        if f.exponent_bits == _WIDEST or (f.emax >= reach.above and f.emin <= reach.smallest):
            yield f  # in its range whatever happens, so that another bias changes nothing
            continue
        last = reach.amax if f.has_infinity or f.has_nan else reach.middle
        for top in range(min(reach.above, 127), last - 1, -1):
            moved = FloatFormat(**(f.to_dict() | {"bias": (bias := f.bias + f.emax - top), "subnormal_exponent": 1 - bias}))
            if moved.fits_fp32:
                yield moved
            if moved.emin <= reach.smallest:
                break


def _signed() -> list[FloatFormat]:
    return [f for f in named_formats().values() if f.is_signed and f.fits_fp32]


def nearest_named(f: FloatFormat) -> FloatFormat:
    """The signed format with a name that differs least: in width, then exponent bits, subnormals, share of codes that are not numbers, and bias."""

    def lost(g: FloatFormat) -> float:
        return (g.nan_codes + g.has_infinity) / 2**g.storage_bits

    def distance(g: FloatFormat) -> tuple[float, ...]:
        return (abs(g.storage_bits - f.storage_bits), abs(g.exponent_bits - f.exponent_bits), g.subnormals != f.subnormals, abs(lost(g) - lost(f)),
                abs(g.bias - f.bias))  # fmt: skip

    return min(_signed(), key=distance)
