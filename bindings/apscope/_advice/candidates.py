"""The schemes that a plan may choose from."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from .._arrays.inputs import as_format
from .._results.ranking import finest_block
from .._schemes.lists import schemes_of
from .._schemes.scheme import LISTS, Scheme


def _scaled(formats: Iterable[str]) -> list[str]:
    """Without a scale, with two for all steps, and with APS by the rule without a spare binade."""
    return [
        spec
        for f in formats
        for spec in (
            f"none:{f}",
            f"loss_scaling:{f},scale=largest,rule=tight",
            f"loss_scaling:{f},scale=best,overflow=saturate",
            f"aps:{f},rule=tight",
        )
    ]


#: Formats from 8 bits to 4.
_WIDTHS = (
    "e5m2", "e4m3fn", "e3m4", "e3m3", "e3m2fn", "e2m3fn", "e3m1", "e2m2", "e3m0", "e2m1fn",
)  # fmt: skip
#: Formats with fewer exponent bits than hardware's, for scales of fewer elements.
_BLOCKS = {
    name: finest_block(as_format(name).storage_bits)
    for name in ("e4m3fn", "e3m4", "e2m5finite", "e2m1fn", "e3m0noinf")
}
#: A ring's scale with less room for the sum than for all workers': sums that need more saturate.
_LESS_ROOM = ",headroom=sqrt_workers,overflow=saturate"
#: The candidates of a trace by default.
DEFAULT = ("main", "blocks")
#: Names of lists of candidates, besides `main` and `all`.
WORDS = {
    # What GPUs have: two formats of 8 bits, two of 16.
    "hardware": ("none:fp32", "none:bf16", "none:fp16", *_scaled(("e5m2", "e4m3fn"))),
    # Every split of 8 bits between exponent and fraction.
    "8-bit": tuple(_scaled(("e5m2", "e4m3fn", "e3m4", "e2m5finite"))),
    # Scales for fewer elements than a layer: hardware's block formats, a row, 32 elements of 8
    # bits, 16 of 4, and the same formats with a layer's scale. Few exponent bits gain by less room.
    "blocks": (
        "mx",
        "mx:block_format=mxfp4",
        "nvfp4",
        "nvfp4:rounding=ties_to_even,rht=false",
        *(
            f"aps:{f},rule=tight{unit}"
            for f, block in _BLOCKS.items()
            for unit in ("", ",unit=row", f",unit={block}")
        ),
        *(
            f"aps:{f},rule=tight{unit}{_LESS_ROOM}"
            for f, block in _BLOCKS.items()
            if as_format(f).exponent_bits <= 3
            for unit in ("", f",unit={block}")
        ),
    ),
    # APS at every width from 4 bits to 16.
    "widths": (
        "none:fp32",
        "none:bf16",
        "none:fp16",
        *(f"aps:{f},rule=tight" for f in _WIDTHS),
    ),
}


def candidates_of(requested: Scheme | str | Iterable[Scheme | str]) -> list[Scheme]:
    """Schemes, specs and words as schemes, each once, in their order.

    Raises
    ------
    ValueError
        An unknown spec or word; a hybrid, because a plan is one itself.
    """
    requested = [requested] if isinstance(requested, (str, Scheme)) else list(requested)
    words = {name: list(specs) for name, specs in WORDS.items()}
    schemes: list[Scheme] = []
    for one in requested:
        try:
            schemes += schemes_of(words.get(one, [one]) if isinstance(one, str) else [one])
        except ValueError:
            if near := difflib.get_close_matches(str(one), [*words, *LISTS], n=1, cutoff=0.6):
                raise ValueError(f"unknown candidate '{one}'; did you mean {near[0]}?") from None
            raise
    schemes = list(dict.fromkeys(schemes))
    if mixed := [s.spec for s in schemes if s.branches]:
        raise ValueError(
            f"the candidate '{mixed[0]}' is a hybrid, which a plan cannot contain; give its "
            "schemes as candidates"
        )
    return schemes
