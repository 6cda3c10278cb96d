"""The schemes of the lists ``main`` and ``all``, which are accepted wherever specs are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from .. import _core
from .scheme import LISTS, Scheme, as_scheme


def main_schemes() -> list[Scheme]:
    """The schemes that show which formats and scales these gradients allow; ``main`` in specs.

    Baselines without a scale; then for every format: no scaling; one scale for all steps, the best
    in hindsight; APS, by its own rule; stochastic rounding with partial sums rounded in the ring,
    and with gathered codes, at fp32's volume. For hardware's two formats and e3m4, by the rule
    without a spare binade, one scale for all steps, one per step and one per layer (APS): three
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


def schemes_of(given: Iterable[Scheme | str]) -> list[Scheme]:
    """Schemes and specs, including ``main`` and ``all``, as schemes, each once."""
    lists = dict(zip(LISTS, (main_schemes, all_schemes)))
    found: list[Scheme] = []
    for one in given:
        if isinstance(one, str) and one in lists:
            found += lists[one]()
            continue
        try:
            found.append(as_scheme(one))
        except ValueError:
            if near := difflib.get_close_matches(str(one), LISTS, n=1, cutoff=0.7):
                raise ValueError(f"unknown scheme '{one}'; did you mean {near[0]}?") from None
            raise
    return list(dict.fromkeys(found))
