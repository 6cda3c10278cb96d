"""Proof of the emulator on this machine: the rule, the array path and the codes of a format.

The exact oracles (MPFR, and exact rationals written a second time) live in the optional module
``apscope._oracle``, built where MPFR is found. Without it only the paths of the emulator are
compared with each other, and the result says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from . import _core
from .arrays import decode, encode, quantize
from .formats import FloatFormat

try:
    from . import _oracle
except ImportError:  # built without MPFR
    _oracle = None

__all__ = ["ROUNDINGS", "Verification", "has_oracle", "verify"]

#: Every rounding that `quantize` knows.
ROUNDINGS = tuple(_core.rounding_modes())

WITHOUT_ORACLE = (
    "the oracle module is not there (apscope was built without MPFR), so the emulator's paths were "
    "compared with each other only; install libmpfr-dev and build again for the proof"
)


@dataclass(frozen=True)
class Verification:
    """What one format gave in one rounding mode."""

    format: str  #: the format's name
    rounding: str  #: the rounding mode's name
    cases: int  #: comparisons made, all overflow rules together
    mismatches: int  #: how many of them differed
    oracle: str  #: "mpfr+rational", or "none" where only paths were compared
    seconds: float  #: wall-clock time
    first: str | None  #: the first mismatch: input bits, expected, got, the two neighbours


def has_oracle() -> bool:
    """Whether the exact oracles were built into this installation."""
    return _oracle is not None


def verify(
    format: FloatFormat | str,
    rounding: str | Iterable[str] = "all",
    *,
    exhaustive: bool = False,
    oracle: str | None = None,
    random_bits: int = 32,
    threads: int | None = None,
    seed: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Verification]:
    """Compare the emulator with exact arithmetic for one format.

    Formats of up to 19 bits are checked at every value and every midpoint with the fp32 numbers
    next to them, wider ones at the boundary significands of every binade and a million random bit
    patterns; all at subnormal and overflow edges, NaN patterns, both zeros and infinities. Every
    overflow rule that the format allows is checked, those other than ``ieee`` fully near the
    edges, where alone they differ, and at a sample elsewhere. Encode and decode are checked at
    every code (wide formats: at random codes).

    Parameters
    ----------
    format : FloatFormat or str
        The format, or its name.
    rounding : str or iterable of str
        A rounding mode, several, or ``"all"``.
    exhaustive : bool
        Compare the array path with the rounding rule on all 2**32 fp32 inputs as well
        (overflow ``ieee``).
    oracle : {None, "mpfr"}
        With `exhaustive`, ``"mpfr"`` compares the rule with MPFR on all 2**32 inputs too, which
        takes tens of minutes a mode. In any case ``"mpfr"`` insists on the oracle module.
    random_bits : int
        N of stochastic rounding, 1 to 64.
    threads : int, optional
        Worker threads; all processors if not given. Results do not depend on it.
    seed : int
        Of the random inputs and words.
    progress : callable, optional
        Called as ``progress(rounding, done, total)`` every now and then; an exception from it
        (or Ctrl-C) stops the work.

    Returns
    -------
    list of Verification
        One per rounding mode, in the order asked for.

    Raises
    ------
    ValueError
        For an unknown format, rounding mode or oracle, and where `exhaustive` or `oracle` asks
        for an oracle module that is not there.
    """
    name = (FloatFormat(format) if isinstance(format, str) else format).name
    modes = _modes(rounding)
    if oracle not in (None, "mpfr"):
        raise ValueError(f"unknown oracle {oracle!r}; use 'mpfr' or leave it out")
    if threads is not None and threads < 1:
        raise ValueError(f"threads={threads} is not at least 1")
    if not 1 <= random_bits <= 64:
        raise ValueError(f"random_bits={random_bits} is not between 1 and 64")
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"seed={seed} is not between 0 and 2**64 - 1")
    threads = threads or os.cpu_count() or 1
    if _oracle is None:
        if exhaustive or oracle:
            asked = "exhaustive" if exhaustive else f"oracle={oracle!r}"
            raise ValueError(
                f"{asked} needs the oracle module, and apscope was built without MPFR; "
                "install libmpfr-dev and build again"
            )
        return [_compare_paths(name, mode, random_bits, threads, seed) for mode in modes]

    results = []
    for mode in modes:
        started = time.perf_counter()
        cases = mismatches = 0
        first = None
        for overflow in _oracle.overflow_rules(name):
            found = _oracle.verify(
                name,
                rounding=mode,
                overflow=overflow,
                random_bits=random_bits,
                exhaustive=exhaustive and overflow == "ieee",
                exhaustive_oracle=oracle == "mpfr",
                threads=threads,
                seed=seed,
                thinning=1 if overflow == "ieee" else 97,
                progress=None if progress is None else (lambda done, total, mode=mode: progress(mode, done, total)),
            )
            cases += found["cases"]
            mismatches += found["mismatches"]
            if first is None and found["first"] is not None:
                first = found["first"]["text"]
        seconds = time.perf_counter() - started
        results.append(Verification(name, mode, cases, mismatches, "mpfr+rational", seconds, first))
    return results


def _modes(rounding: str | Iterable[str]) -> tuple[str, ...]:
    modes = ROUNDINGS if rounding == "all" else (rounding,) if isinstance(rounding, str) else tuple(rounding)
    for mode in modes:
        if mode not in ROUNDINGS:
            raise ValueError(f"unknown rounding mode {mode!r}; use one of {', '.join(ROUNDINGS)}, or 'all'")
    return modes


def _inputs(seed: int) -> np.ndarray:
    """Every sign, exponent and leading significand of fp32, and random bit patterns."""
    leading = np.arange(1 << 16, dtype=np.uint32) << 16
    random = np.random.default_rng(seed).integers(0, 1 << 32, 1 << 17, dtype=np.uint32)
    return np.concatenate([leading, leading | 1, random]).view(np.float32)


def _compare_paths(name: str, mode: str, random_bits: int, threads: int, seed: int) -> Verification:
    """The emulator against itself: threads, in place, one by one, through codes."""
    started = time.perf_counter()
    format, x = FloatFormat(name), _inputs(seed)
    options = {"rounding": mode, "seed": seed, "random_bits": random_bits}
    expected = quantize(x, format, threads=1, **options)
    in_place = x.copy()
    quantize(in_place, format, out=in_place, threads=threads, **options)
    pairs = [("threads and in place", x, expected, in_place)]
    if not mode.startswith("stochastic"):  # a value's random word follows from its place
        some = x[:: len(x) // 2000]
        single = np.concatenate([quantize(v, format, **options) for v in np.split(some, len(some))])
        pairs.append(("one by one", some, expected[:: len(x) // 2000], single))
    coded = ~np.isnan(expected)
    values = expected[coded]
    pairs.append(("through codes", values, values, decode(encode(values, format), format)))

    cases = mismatches = 0
    first = None
    for what, inputs, want, got in pairs:
        wrong = np.flatnonzero(want.view(np.uint32) != got.view(np.uint32))
        cases += len(inputs)
        mismatches += len(wrong)
        if first is None and len(wrong):
            i = wrong[0]
            bits = [int(a.view(np.uint32)[i]) for a in (inputs, want, got)]
            first = "{}, {}: input 0x{:08X}, expected 0x{:08X}, got 0x{:08X}".format(what, mode, *bits)
    return Verification(name, mode, cases, mismatches, "none", time.perf_counter() - started, first)
