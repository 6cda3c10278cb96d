"""The schemes of the lists ``main`` and ``all``, which are accepted wherever specs are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from .. import _core
from .scheme import LISTS, Scheme, as_scheme


def main_schemes() -> list[Scheme]:
    """The schemes that show which formats and scales these gradients allow; ``main`` in specs.

    Baselines without a scale; the block formats of the hardware, MXFP8, MXINT8, MXFP4, NVFP4 (by
    its recipe, and to nearest without its rotation), and integers of 4 bits in blocks of 32. Then
    e5m2, e4m3fn and e3m4 without a scale, with one for all steps, the largest that fits, and by
    APS's own rule; the last two also with stochastic rounding. By the rule without a spare binade,
    a scale per layer and one for 32 elements of 8 bits (e4m3fn, e3m4, e2m5finite) or 16 of 4 bits
    (e2m1fn, e3m0noinf), for at most three exponent bits also with room for the sum of √W of W
    workers, which saturates beyond it; for e4m3fn and e3m4 also one for all steps and one per step:
    rungs of the ladder that differ in nothing else. Loss scales as in training systems; QSGD with 4
    and 8 bits.

    Returns
    -------
    list of Scheme
    """
    return [Scheme(spec) for spec in _core.main_schemes()]


def all_schemes() -> list[Scheme]:
    """Those of `main_schemes`, then every other scheme of the registry; ``all`` in specs.

    Schemes that are not named here use their default keys, e4m3 if they take a format, and
    ``aps:e4m3`` as an inner scheme.

    Returns
    -------
    list of Scheme
    """
    return [Scheme(spec) for spec in _core.all_schemes()]


def schemes_of(schemes: Iterable[Scheme | str]) -> list[Scheme]:
    """Schemes and specs, including ``main`` and ``all``, as schemes, each once."""
    lists = dict(zip(LISTS, (main_schemes, all_schemes)))
    parsed: list[Scheme] = []
    for one in schemes:
        if isinstance(one, str) and one in lists:
            parsed += lists[one]()
            continue
        try:
            parsed.append(as_scheme(one))
        except ValueError:
            if near := difflib.get_close_matches(str(one), LISTS, n=1, cutoff=0.7):
                raise ValueError(f"unknown scheme '{one}'; did you mean {near[0]}?") from None
            raise
    return list(dict.fromkeys(parsed))
