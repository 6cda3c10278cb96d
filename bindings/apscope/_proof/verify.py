"""Proof of the emulator on this machine: the rule, the array path and the codes of a format.

The exact oracles (MPFR, and exact rationals written a second time) live in the optional module
``apscope._oracle``, built if MPFR is found. Without it only the paths of the emulator are compared
with each other, and the result says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._arrays.casts import decode, encode, quantize
from .._arrays.checks import text
from .._arrays.inputs import FormatLike, as_format
from .._arrays.projection import Projection
from .._core import FloatFormat

try:
    from .. import _oracle
except ImportError:  # built without MPFR
    _oracle = None  # type: ignore[assignment]

#: Every rounding of `quantize`.
ROUNDINGS = tuple(_core.rounding_modes())

WITHOUT_ORACLE = (
    "the oracle module is missing (apscope was built without MPFR), so the emulator's paths were "
    "only compared with each other; install libmpfr-dev and build again for the proof"
)


#: What can be verified: casts, and each arithmetic operation.
OPERATIONS = ("quantize", "add", "subtract", "multiply", "divide", "sqrt", "fma")


@dataclass(frozen=True)
class Verification:
    """The result for one format, operation and rounding mode."""

    format: str  #: the format's name
    operation: str  #: ``quantize`` (with encode and decode), or an arithmetic operation
    rounding: str  #: the rounding mode's name
    cases: int  #: comparisons made, all overflow and underflow rules together
    mismatches: int  #: number of differing comparisons
    #: whether all 2^32 inputs, or all operands of up to 8 bits (fma: 6), were tried
    exhaustive: bool
    oracle: str  #: "mpfr+rational", "mpfr" for arithmetic, or "none" if only paths were compared
    seconds: float  #: wall-clock time
    first: str | None  #: the first mismatch: input bits, expected, got, the two neighbours


def has_oracle() -> bool:
    """Whether the exact oracles were built into this installation.

    Returns
    -------
    bool
    """
    return _oracle is not None


def verify(
    format: FormatLike,
    rounding: str | Iterable[str] = "all",
    *,
    projection: Projection | None = None,
    operation: str | Iterable[str] = "quantize",
    samples: int | None = None,
    exhaustive: bool = False,
    oracle: str | None = None,
    random_bits: int = 32,
    threads: int | None = None,
    seed: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Verification]:
    """Compare the emulator with exact arithmetic for one format.

    Casts: formats of up to 19 bits are checked at every value and every midpoint with the numbers
    next to them, wider ones at the boundary significands of every binade and a million random bit
    patterns; all at subnormal and overflow limits, NaN patterns, both zeros and infinities, in fp32
    (if the format fits) and in fp64. Every overflow and underflow rule that the format allows is
    checked, those other than ``ieee`` and ``gradual`` fully near the limits, the only place where
    they differ, and at a sample elsewhere (so are the stochastic roundings of formats of more than
    12 bits, each input with the random integers between which its result changes). Encode and
    decode are checked at every code (wide formats: at random codes).

    Arithmetic: all operands of formats of up to 8 bits (fma: 4; the others, and fma, at boundary
    operands crossed with each other and at random ones).

    Parameters
    ----------
    format : FloatFormat, str or dtype
        The format, or its name.
    rounding : str or iterable of str
        A rounding mode, several, or ``"all"``.
    projection : Projection, optional
        Its rounding and random bits, instead of `rounding` and `random_bits`; all overflow and
        underflow rules are always tried.
    operation : str or iterable of str
        One of `OPERATIONS`, several, or ``"all"``.
    samples : int, optional
        Random operands of an arithmetic operation, 100,000 if not given; random inputs of a format
        of more than 19 bits, 1,000,000 if not given (narrower ones get a hundredth).
    exhaustive : bool
        Casts: the array path on all 2**32 fp32 inputs (overflow ``ieee``). For deterministic modes
        and formats of up to 19 bits it is compared with the steps that the oracle finds, else with
        the rounding rule. fma: all operands of formats of up to 6 bits.
    oracle : {None, "mpfr"}
        With `exhaustive`, ``"mpfr"`` compares the rule with MPFR on all 2**32 inputs too, which
        takes tens of minutes per mode. ``"mpfr"`` always requires the oracle module.
    random_bits : int
        N of stochastic rounding, 1 to 64.
    threads : int, optional
        Worker threads; all processors if not given. Results do not depend on it.
    seed : int
        Of the random inputs and words.
    progress : callable, optional
        Called from time to time as ``progress(words, done, total)``, with the operation and
        rounding as words; an exception from it (or Ctrl-C) stops the work.

    Returns
    -------
    list of Verification
        One per operation and rounding mode, in the order given. Arithmetic has no
        ``stochastic_exact``: ``"all"`` omits it there.

    Raises
    ------
    ValueError
        For an unknown format, operation, rounding mode or oracle, and if `exhaustive` or `oracle`
        needs the oracle module and it is missing.
    """
    name = as_format(format).name
    if projection is not None:
        if rounding != "all" or random_bits != 32:
            raise ValueError(
                "projection is given together with rounding or random_bits, "
                "which are parts of it; omit one"
            )
        rounding, random_bits = projection.rounding, projection.random_bits
    words = [rounding] if isinstance(rounding, str) else list(rounding)
    if words != ["all"]:
        words = [_core.rounding_word(text("rounding", word)) for word in words]
    modes = _chosen("all" if words == ["all"] else words, ROUNDINGS, "rounding mode")
    operations = _chosen(operation, OPERATIONS, "operation")
    if oracle not in (None, "mpfr"):
        raise ValueError(f"unknown oracle {oracle!r}; use 'mpfr' or omit it")
    if threads is not None and threads < 1:
        raise ValueError(f"threads={threads} is not at least 1")
    if not 1 <= random_bits <= 64:
        raise ValueError(f"random_bits={random_bits} is not between 1 and 64")
    if samples is not None and samples < 0:
        raise ValueError(f"samples={samples} is negative")
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"seed={seed} is not between 0 and 2**64 - 1")
    threads = threads or _core.usable_processors()
    if _oracle is None:
        if exhaustive or oracle or operations != ("quantize",):
            argument = (
                "exhaustive"
                if exhaustive
                else f"oracle={oracle!r}"
                if oracle
                else f"operation={operations[0]!r}"
            )
            raise ValueError(
                f"{argument} needs the oracle module, and apscope was built without MPFR; "
                "install libmpfr-dev and build again"
            )
        return [
            _verification(
                name, "quantize", mode, False, "none",
                _compare_paths(name, mode, _bits(mode, random_bits), threads, seed),
            )
            for mode in modes
        ]  # fmt: skip

    _oracle.set_simd_level(_core.simd_level())
    results = []
    for op in operations:
        for mode in modes:
            if op != "quantize" and mode == "stochastic_exact" and rounding == "all":
                continue
            shared = {
                "rounding": mode,
                "random_bits": _bits(mode, random_bits) if rounding == "all" else random_bits,
                "threads": threads,
                "seed": seed,
            }
            if progress is not None:
                shared["progress"] = lambda done, total, words=f"{op} {mode}": progress(
                    words, done, total
                )
            prove = (
                _casts(name, exhaustive, oracle, samples)
                if op == "quantize"
                else _arithmetic(name, op, exhaustive, samples)
            )
            by = "mpfr+rational" if op == "quantize" else "mpfr"
            results.append(_verification(name, op, mode, exhaustive, by, prove(shared)))
    return results


def _chosen(words: str | Iterable[str], known: tuple[str, ...], what: str) -> tuple[str, ...]:
    chosen = known if words == "all" else (words,) if isinstance(words, str) else tuple(words)
    for word in chosen:
        if word not in known:
            raise ValueError(f"unknown {what} {word!r}; use one of {', '.join(known)}, or 'all'")
    return chosen


def _bits(mode: str, random_bits: int) -> int:
    """StochasticB and C use two bits more than N, so their limit is 62."""
    return min(random_bits, 62) if mode in ("stochastic_b", "stochastic_c") else random_bits


Findings = Iterator[dict[str, Any]]  #: Each with its cases, its mismatches and the first.


def _casts(
    name: str, exhaustive: bool, oracle: str | None, samples: int | None
) -> Callable[[dict[str, Any]], Findings]:
    """Every overflow rule; with the first also every underflow rule, and NaN payloads."""
    f = FloatFormat(name)
    rest = 97  # every 97th case, away from the limits

    def prove(shared: dict[str, Any]) -> Findings:
        # A stochastic rounding is tried with several random integers per input.
        some = 17 if f.storage_bits > 12 and shared["rounding"].startswith("stochastic") else 1
        if samples is not None:
            shared["random_cases"] = samples
        for overflow in _oracle.overflow_rules(name):
            first = overflow == "ieee"
            yield _oracle.verify(
                name,
                overflow=overflow,
                exhaustive=exhaustive and first,
                exhaustive_oracle=oracle == "mpfr",
                thinning=some if first else rest,
                **shared,
            )
        for underflow in _core.underflow_modes()[1:] if f.smallest_normal > 0 else []:
            yield _oracle.verify(name, underflow=underflow, thinning=rest, **shared)
        yield _oracle.verify(name, keep_payload=True, thinning=rest, **shared)

    return prove


def _arithmetic(
    name: str, operation: str, exhaustive: bool, samples: int | None
) -> Callable[[dict[str, Any]], Findings]:
    def prove(shared: dict[str, Any]) -> Findings:
        drawn: dict[str, Any] = {} if samples is None else {"samples": samples}
        yield _oracle.verify_operation(name, operation, exhaustive=exhaustive, **drawn, **shared)

    return prove


def _verification(
    name: str, operation: str, mode: str, exhaustive: bool, oracle: str, findings: Findings
) -> Verification:
    started = time.perf_counter()
    cases = mismatches = 0
    first = None
    for finding in findings:
        cases += finding["cases"]
        mismatches += finding["mismatches"]
        if first is None and finding["first"] is not None:
            first = finding["first"]["text"]
    return Verification(
        name,
        operation,
        mode,
        cases,
        mismatches,
        exhaustive,
        oracle,
        time.perf_counter() - started,
        first,
    )


def _inputs(seed: int) -> np.ndarray:
    """Every sign, exponent and leading significand of fp32, and random bit patterns."""
    leading = np.arange(1 << 16, dtype=np.uint32) << 16
    random = np.random.default_rng(seed).integers(0, 1 << 32, 1 << 17, dtype=np.uint32)
    return np.concatenate([leading, leading | 1, random]).view(np.float32)


def _compare_paths(name: str, mode: str, random_bits: int, threads: int, seed: int) -> Findings:
    """The emulator against itself: threads, in place, single elements, through codes."""
    format, x = FloatFormat(name), _inputs(seed)
    if not format.fits_fp32:
        x = x.astype(np.float64)
    options: dict[str, Any] = {"rounding": mode, "seed": seed, "random_bits": random_bits}
    expected = quantize(x, format, threads=1, **options)
    in_place = x.copy()
    quantize(in_place, format, out=in_place, threads=threads, **options)
    pairs = [("threads and in place", x, expected, in_place)]
    if not mode.startswith("stochastic"):  # a value's random word depends on its index
        some = x[:: len(x) // 2000]
        single = np.concatenate([quantize(v, format, **options) for v in np.split(some, len(some))])
        pairs.append(("one by one", some, expected[:: len(x) // 2000], single))
    coded = ~np.isnan(expected)
    values = expected[coded]
    pairs.append(("through codes", values, values, decode(encode(values, format), format)))

    for what, inputs, right, got in pairs:
        word = f"u{right.itemsize}"
        wrong = np.flatnonzero(right.view(word) != got.view(word))
        first = None
        if len(wrong):
            bits = [int(a.view(word)[wrong[0]]) for a in (inputs, right, got)]
            words = "{}, {}: input 0x{:08X}, expected 0x{:08X}, got 0x{:08X}"
            first = {"text": words.format(what, mode, *bits)}
        yield {"cases": len(inputs), "mismatches": len(wrong), "first": first}
