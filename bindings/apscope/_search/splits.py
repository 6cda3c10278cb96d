"""The splits of N bits to try: exponent, mantissa, special values and biases, in their schemes.

Other splits cannot have less error at the wire (docs/search.md; tests check this):


- without a sign bit negative gradients are lost;
- e0m6 has the values of e1m5, and `fnuz` and P3109's formats those of `finite` and `fn`, except for
  the scale;
- more than eight exponent bits exceed fp32, in which gradients are recorded;
- a smaller bias than the first only makes the grid coarser in the needed range, and a larger one
  than the last overflows or, if it saturates, saturates more than half of all values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from .._arrays.checks import integer, text
from .._core import FloatFormat
from .._formats.formats import named_formats
from .._results.ranking import finest_block
from .._schemes.scheme import Scheme, as_scheme

#: The widths that are searched.
BITS = (3, 16)
#: Kinds of top codes: infinity and NaNs in the whole last binade, one NaN, or only numbers, which
#: saturate.
SPECIALS = ("ieee", "fn", "finite")
_PLACES = ("{format}", "{biased}")
_WIDEST = 8  # exponent bits


def schemes_for(bits: int) -> tuple[str, ...]:
    """The schemes that are searched by default: no scale, one for a layer and for the finest block.

    Placeholders of a format: {format} with its usual bias, {biased} with every bias of the list. A
    bias is a constant scale.
    """
    tight = "aps:{format},rule=tight"
    return ("none:{biased}", tight, f"{tight},unit={finest_block(bits)}")


class Split(NamedTuple):
    """One candidate."""

    scheme: Scheme
    format: FloatFormat


class Reach(NamedTuple):
    """Exponents, floor(log2), of a trace's values, from which biases are chosen."""

    above: int  #: every sum over the workers is below 2^above
    amax: int  #: of a layer's largest magnitude; the least over separate layers
    middle: int  #: of the median, likewise; without zeros
    smallest: int  #: of the smallest nonzero magnitude


def reach_of(histograms: pd.DataFrame, workers: int, by_layer: bool) -> Reach:
    """The reach of one trace, by its `Results.histograms`; `by_layer`: whether layers are separate.

    Raises
    ------
    ValueError
        Nothing but zeros, infinities and NaNs.
    """
    finite = histograms[histograms["kind"] == "finite"]
    if not len(finite):
        raise ValueError(
            "the gradients are zero wherever they are finite, so every format keeps them; give "
            "other steps"
        )
    exponents = finite["exponent"].astype(int)
    counts = (
        finite["count"].groupby([finite["tensor"] if by_layer else finite["kind"], exponents]).sum()
    )
    layers = [of.droplevel(0) for _, of in counts.groupby(level=0)]
    return Reach(
        above=int(exponents.max()) + 1 + math.ceil(math.log2(workers)),
        amax=min(int(of.index.max()) for of in layers),
        middle=min(int(of.index[(2 * of.cumsum() >= of.sum()).argmax()]) for of in layers),
        smallest=int(exponents.min()),
    )


def splits_of(
    bits: int, schemes: Sequence[str], specials: Iterable[str] | None, reach: Reach
) -> list[Split]:
    """The candidates, each once: by scheme, named formats first, exponent bits, specials, bias.

    The specs of the schemes have ``{format}`` or ``{biased}`` in them. By default all `SPECIALS`
    are tried, and every named signed format of that many bits.

    Raises
    ------
    ValueError
        `bits` out of range; an invalid scheme, or one without a placeholder for the format; unknown
        special values.
    """
    bits = integer("bits", bits, *BITS)
    kinds = list(SPECIALS if specials is None else specials)
    if wrong := [kind for kind in kinds if kind not in SPECIALS]:
        raise ValueError(f"unknown special values '{wrong[0]}'; use {', '.join(SPECIALS)}")
    if not kinds:
        raise ValueError(
            f"there are no special values to search; give at least one of {', '.join(SPECIALS)}"
        )
    usual = [
        f
        for e in range(1, min(_WIDEST, bits - 1) + 1)
        for kind in kinds
        if (f := _usual(e, bits - 1 - e, kind)) is not None
    ]
    named = [] if specials is not None else [f for f in _signed() if f.storage_bits == bits]
    splits: dict[str, Split] = {}
    for template in schemes:
        places = [place for place in _PLACES if place in text("schemes", template)]
        if len(places) != 1:
            raise ValueError(
                f"the scheme '{template}' must have {{format}} in place of its format, or "
                f"{{biased}} for every bias"
            )
        for f in [*named, *(_biased(usual, reach) if places == ["{biased}"] else usual)]:
            scheme = as_scheme(template.replace(places[0], f.name))
            splits.setdefault(scheme.spec, Split(scheme, f))
    if not splits:
        raise ValueError("there is no scheme to search; give at least one, such as 'aps:{format}'")
    return list(splits.values())


def _usual(exponent_bits: int, mantissa_bits: int, kind: str) -> FloatFormat | None:
    """With IEEE 754's bias, or the next one that fp32 can hold; None if all values are special."""
    # By fields, because names may be taken: e2m3fn has no NaN.
    fields: dict[str, Any] = {
        "exponent_bits": exponent_bits,
        "mantissa_bits": mantissa_bits,
        "specials": kind,
    }
    try:
        f = FloatFormat(**fields)
    except ValueError:
        return None
    return f if f.fits_fp32 else FloatFormat(**fields, bias=f.bias + 1)


def _biased(formats: Iterable[FloatFormat], reach: Reach) -> Iterator[FloatFormat]:
    """Every useful bias: from the first without overflowing sums until more cannot help."""
    for f in formats:
        if f.exponent_bits == _WIDEST or (f.emax >= reach.above and f.emin <= reach.smallest):
            yield f  # always in its range, so another bias changes nothing
            continue
        last = reach.amax if f.has_infinity or f.has_nan else reach.middle
        for top in range(min(reach.above, 127), last - 1, -1):
            moved = FloatFormat(
                **(
                    f.to_dict()
                    | {"bias": (bias := f.bias + f.emax - top), "subnormal_exponent": 1 - bias}
                )
            )
            if moved.fits_fp32:
                yield moved
            if moved.emin <= reach.smallest:
                break


def _signed() -> list[FloatFormat]:
    return [f for f in named_formats().values() if f.is_signed and f.fits_fp32]


def nearest_named(f: FloatFormat) -> FloatFormat:
    """The nearest named signed format: by width, exponent bits, subnormals, special codes, bias."""

    def lost(g: FloatFormat) -> float:
        return (g.nan_codes + g.has_infinity) / 2**g.storage_bits

    def distance(g: FloatFormat) -> tuple[float, ...]:
        return (abs(g.storage_bits - f.storage_bits), abs(g.exponent_bits - f.exponent_bits),
                g.subnormals != f.subnormals, abs(lost(g) - lost(f)),
                abs(g.bias - f.bias))  # fmt: skip

    return min(_signed(), key=distance)
