"""The rule of an undocumented cast or sum: its format and roundings, or the order it adds in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np

from .._arrays.casts import decode, quantize
from .._arrays.checks import text
from .._arrays.inputs import FormatLike, as_format
from .._arrays.projection import Projection
from .._core import FloatFormat
from .._formats.blackbox import cast_of, run_cast, same
from .._formats.formats import named_formats
from ..conformance import EDGES, ROUNDINGS, inputs_of
from .differences import agrees, allowed, described, differences
from .lattice import infer_format, is_lattice
from .orders.fingerprint import KINDS, SumFingerprint, sum_fingerprint
from .random_rounding import RandomRounding, draws_at_random, random_rounding

Run = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Fingerprint:
    """The result of `fingerprint`. `unknown` or `mixed (...)`: probes contradict each other.

    Attributes
    ----------
    format : str
        The format whose values the cast returns; ``unknown`` if there is none.
    rounding : str
        Between two normal values: one of the rounding modes, several joined by ``or`` if the format
        or the draws cannot distinguish them, ``ties_to_even after a rounding to FORMAT``, ``random,
        by no stochastic rounding``, ``not deterministic``, or ``mixed``.
    overflow, infinity : str
        The results for finite values beyond the largest, and for infinities.
    subnormals : str
        ``gradual``, ``flushed to zero``, ``inputs flushed to zero``, a rounding of their own, or
        ``none in the format``.
    nan, signed_zero : str
        ``kept``, or the results.
    preset : str
        The named format (or the inferred one), rounding and overflow that agree with the cast at
        the largest number of probes.
    projection : Projection
        The preset's rounding and overflow.
    probes, differing : int
        Inputs tried, and those where the cast differs from the preset.
    first : str
        The first differing input, with the results of the cast and of the preset.
    differences : tuple of str
        Every kind of difference from the preset, by the kind of input and of result, with its count
        and its first probe; for a cast that rounds at random also the kinds of values at which the
        frequency of rounding up is not the rule's.
    random : RandomRounding or None
        Of a cast that rounds at random: its probability of rounding up, random bits, ties and bias.
    """

    format: str
    rounding: str
    overflow: str
    infinity: str
    subnormals: str
    nan: str
    signed_zero: str
    preset: str
    projection: Projection
    probes: int
    differing: int
    first: str
    differences: tuple[str, ...] = ()
    random: RandomRounding | None = None

    def __str__(self) -> str:
        rows = []
        for f in dataclasses.fields(self)[:-2]:
            if f.name != "projection":
                rows.append((f.name.replace("_", " "), str(getattr(self, f.name))))
            if f.name == "rounding" and self.random is not None:
                rows += self.random.rows()
        rows += [("difference", words) for words in self.differences]
        return "\n".join(f"{name:<12} {value}" for name, value in rows if value)


@overload
def fingerprint(
    cast: Any, *, kind: Literal["cast"] = "cast", codes: FormatLike | None = None
) -> Fingerprint: ...


@overload
def fingerprint(
    cast: Callable[..., Any],
    *,
    kind: Literal["sum", "dot", "matmul", "allreduce"],
    inputs: FormatLike = "fp32",
    n: int = 64,
    workers: int = 4,
    shape: tuple[int, int] = (4, 4),
    addend: bool = False,
) -> SumFingerprint: ...


def fingerprint(
    cast: Any,
    *,
    kind: str = "cast",
    codes: FormatLike | None = None,
    inputs: FormatLike = "fp32",
    n: int = 64,
    workers: int = 4,
    shape: tuple[int, int] = (4, 4),
    addend: bool = False,
) -> Fingerprint | SumFingerprint:
    """Find the rule of a cast, or the order and the roundings of a sum, by probing.

    Parameters
    ----------
    cast : callable or dtype
        A cast takes a float32 array, one-dimensional, and returns one of the same shape: values of
        any floating-point dtype, or integers, which are codes. Or a dtype of NumPy, ml_dtypes or
        torch. It is called a few dozen times, with up to about 60 000 elements; a cast that rounds
        at random about 150 times, with up to 2^20 elements, 10^7 in all. The callables of the other
        kinds take float32 arrays and return numbers of any real dtype (NumPy or torch).
    kind : {"cast", "sum", "dot", "matmul", "allreduce"}
        What the callable is: a cast; f(x) of n terms; f(a, b) of n products; f(a, b) of shapes
        (rows, n) and (n, columns); f(x) of shape (workers, n), whose rows it adds to n numbers.
    codes : FloatFormat, str or dtype, optional
        The format of the codes of a cast that returns integers; by default the named one for which
        the results are nearest to the inputs.
    inputs : FloatFormat, str or dtype
        Operands of a sum or product are values of this format, signed and with a zero. The wider
        its exponents, the more is seen: see the notes.
    n : int
        Terms of a sum or product, the elements of an all-reduce; 1 to 256.
    workers : int
        Rows of an all-reduce; 1 to 256.
    shape : (int, int)
        Rows and columns of a matrix product.
    addend : bool
        The callable of a product takes a third operand C, of the shape of its result, and adds it.

    Returns
    -------
    Fingerprint or SumFingerprint
        The second for every kind but ``cast``.

    Notes
    -----
    **Casts.** The probes are the conformance pack's inputs for the format found (every value,
    midpoint and neighbour of up to 8 bits), all powers of two and a pattern of every fp32 exponent.
    Errors elsewhere are not found: a cast that is wrong at one other fp32 value passes.

    A cast whose results differ for equal inputs of one array rounds at random. Its probes agree if
    they are one of the two neighbours; the preset's rounding is the rule that agrees with the
    frequencies (see `RandomRounding`). At most 16 random bits can be counted; if the cast draws the
    same in every call (a fixed seed), about 33.

    **Sums.** A large term M at one place, -M at another and small terms elsewhere: those that are
    added to M before -M is are lost, the others are the result. Over all pairs of places this shows
    the tree of the additions (FPRev, Xie, Gao and Xue, arXiv 2411.00442), also those that add
    several terms at once. Then sizes beside M show the bits that are kept, and fractions of the
    last bit the rounding. A name is given only if apscope's order has the callable's bits on every
    random probe (30 to 60), overflows, subnormals, signed zeros, infinities and NaN among them;
    docs/conformance.md has the method and its limits. The callable is called some hundred times,
    about n^2 times (n of 64: 12 000) if its additions do not round to nearest.

    What the inputs cannot show is not found: if no term is lost beside one 2^ratio times as large,
    there is no tree. FP8 products (e4m3fn: a ratio of 2^25 with FP8 results, 2^34 with fp32 ones)
    show F up to 33, FP8 sums (2^16) no fp32 accumulator. A matrix product is probed at one shape.

    Raises
    ------
    ValueError
        A cast: a result that is not one number per input; integers that are not codes of a named
        format. A sum: an exception, a result of another shape or not a number, results that change
        from call to call, a callable that does not return single terms; an option out of range or
        of another kind.
    TypeError
        Neither a callable nor a dtype; for a sum, not a callable.

    Examples
    --------
    >>> import numpy as np, apscope
    >>> found = apscope.fingerprint(np.float16)
    >>> found.format, found.rounding, found.differing
    ('fp16', 'ties_to_even', 0)
    >>> found = apscope.fingerprint(lambda x: np.cumsum(x)[-1], kind="sum", n=16)
    >>> found.name, found.order, found.accumulator
    ('sequential', 'seq(0..15)', '24 bits (fp32)')
    """
    if text("kind", kind) in KINDS:
        if codes is not None:
            raise ValueError(f"codes= is for kind='cast', not for '{kind}'")
        return sum_fingerprint(
            cast, kind, n=n, inputs=inputs, workers=workers, shape=shape, addend=addend
        )
    if kind != "cast":
        raise ValueError(f"kind='{kind}' is not one of cast, {', '.join(KINDS)}")
    if (inputs, n, workers, tuple(shape), addend) != ("fp32", 64, 4, (4, 4), False):
        raise ValueError(
            f"inputs, n, workers, shape and addend are for a sum; give kind=, one of "
            f"{', '.join(KINDS)}"
        )
    run = _values_of(cast_of(cast), None if codes is None else as_format(codes))
    candidates = _named()
    general = infer_format(run)
    if general is not None and general not in candidates:
        candidates.append(general)

    at_random = draws_at_random(run)
    roundings = ("stochastic",) if at_random else ROUNDINGS
    x = _generic()
    near = [preset[0] for preset in _ranked(candidates, x, run(x), roundings)[:3]]
    x = np.unique(np.concatenate([x.view(np.uint32), _around(near[0])])).view(np.float32)
    got = run(x)
    f, rounding, overflow = _ranked(near, x, got, roundings)[0]
    known = is_lattice(run, f)
    changed = ~same(got, run(x)) & ~np.full(x.shape, at_random)
    words = (
        _words(f, x, got, roundings, rounding, overflow, changed)
        if known
        else dict.fromkeys(("rounding", "overflow", "infinity", "subnormals"), "unknown")
    )
    rights = allowed(x, f, rounding, overflow)
    kinds = differences(x, got, rights, f)
    random: RandomRounding | None = None
    projection = Projection(rounding, overflow=overflow)
    if at_random and known:
        random, deviating = random_rounding(run, f)
        kinds += deviating
        projection = random.projection(overflow)
        none = random.rounding == "none"
        words["rounding"] = "random, by no stochastic rounding" if none else random.rounding
    elif at_random:
        words["rounding"] = "random, not between the values of one format"
    return Fingerprint(
        format=f.name if known else "unknown",
        nan=_seen(got[np.isnan(x)]),
        signed_zero=_signed_zero(x, got),
        preset=f"{f.name}, {projection}",
        projection=projection,
        probes=len(x),
        differing=int(np.count_nonzero(~agrees(got, rights))),
        first=_first(x, got, rights),
        differences=kinds,
        random=random,
        **words,
    )


def _named() -> list[FloatFormat]:
    """The named formats whose values are fp32 numbers: a cast from fp32 shows no other."""
    return [f for f in named_formats().values() if f.fits_fp32]


def _values_of(cast: Callable[[np.ndarray], Any], codes: FloatFormat | None) -> Run:
    """The cast as a function from float32 to float64 values."""
    x = _generic()
    got = run_cast(cast, x)
    if got.dtype.kind != "i":
        return lambda x: run_cast(cast, x)
    if codes is None:
        width = max(int(got.max()), 0).bit_length()
        scores = []
        for f in _named():
            if width <= f.storage_bits <= 16 and got.min() >= 0:
                values = decode(got, f).astype(np.float64)
                scores.append(
                    (np.count_nonzero(same(values, quantize(x, f).astype(np.float64))), f)
                )
        agreeing, codes = max(scores, key=lambda s: s[0], default=(0, None))
        if codes is None or agreeing < len(x) // 2:
            raise ValueError(
                "the cast returns integers that are not codes of a named format; give their format "
                "with codes="
            )
    table = decode(np.arange(2**codes.storage_bits, dtype=np.uint32), codes).astype(np.float64)

    def run(x: np.ndarray) -> np.ndarray:
        result = run_cast(cast, x)
        if result.size and not 0 <= result.min() <= result.max() < len(table):
            seen = f"from {result.min()} to {result.max()}"
            raise ValueError(
                f"the cast returned integers {seen}; {codes.name} has codes up to {len(table) - 1}"
            )
        return table[result]

    return run


def _generic() -> np.ndarray:
    """Probes for any format: fp32's limits, powers of two, neighbours, 8 patterns per binade."""
    powers = (np.float32(2.0) ** np.arange(-149, 128, dtype=np.float32)).view(np.uint32)
    top = (np.arange(2048, dtype=np.uint32) << 20) & np.uint32(0x7FFFFFFF)
    mixed = top + (np.arange(2048, dtype=np.uint32) * np.uint32(80021)) % np.uint32(1 << 20)
    bits = np.concatenate([np.array(EDGES, np.uint32), powers - 1, powers, powers + 1, top, mixed])
    return np.unique(np.concatenate([bits, bits | np.uint32(0x80000000)])).view(np.float32)


def _around(f: FloatFormat) -> np.ndarray:
    """fp32 patterns at the values of a format, between them and beside them."""
    if f.storage_bits <= 16:
        return inputs_of(f).astype(np.uint32)
    shift = 23 - f.mantissa_bits  # tf32 and fp32: the fields are fp32's
    value = (np.arange(8192, dtype=np.uint32) * np.uint32(2654435761)) & np.uint32(0x7FFFFFFF)
    value = value >> np.uint32(shift) << np.uint32(shift)
    half = value + np.uint32((1 << shift) >> 1)
    bits = np.concatenate([value, half, half - np.uint32(shift > 0), half + np.uint32(shift > 0)])
    return np.concatenate([bits, bits | np.uint32(0x80000000)])


def _overflows(f: FloatFormat) -> list[str]:
    """The overflow rules that a format can follow."""
    return ["ieee", "saturate", *["propagate", "infinity"] * f.has_infinity, *["nan"] * f.has_nan]


Preset = tuple[FloatFormat, str, str]


def _ranked(
    candidates: list[FloatFormat], x: np.ndarray, got: np.ndarray, roundings: tuple[str, ...]
) -> list[Preset]:
    """Each format's best rounding and overflow, formats with the fewest differing probes first.

    Values decide before the signs of zeros; ties are broken by the order of the candidates.
    """
    ranking = []
    for place, f in enumerate(candidates):
        best: tuple[int, int, str, str] | None = None
        for rounding in roundings:
            for overflow in _overflows(f):
                rights = allowed(x, f, rounding, overflow)
                values = _differing(got, rights)
                signs = len(x) - int(np.count_nonzero(agrees(got, rights))) - values
                if best is None or (values, signs) < best[:2]:
                    best = (values, signs, rounding, overflow)
        assert best is not None
        ranking.append((best[:2], place, (f, *best[2:])))
    return [preset for _, _, preset in sorted(ranking, key=lambda row: row[:2])]


def _words(
    f: FloatFormat,
    x: np.ndarray,
    got: np.ndarray,
    roundings: tuple[str, ...],
    rounding: str,
    overflow: str,
    changed: np.ndarray,
) -> dict[str, str]:
    """By region: between normal values, beyond the largest, below the smallest normal."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        size = np.abs(x.astype(np.float64))
    usable = np.isfinite(x) & (x > 0 if not f.is_signed else x != 0)
    normal = usable & (size >= f.smallest_normal) & (size <= f.largest)
    how, closest = _rounding(f, x[normal], got[normal], roundings, rounding)
    if changed.any():
        how = (
            f"not deterministic ({np.count_nonzero(changed)} of {len(x)} probes changed from "
            "one run to the next)"
        )
    below = usable & (size < f.smallest_normal)
    return {
        "rounding": how,
        "overflow": _overflow(f, x, got, usable & (size > f.largest), closest, overflow),
        "infinity": _seen(np.where(x < 0, -got, got)[np.isinf(x) & (f.is_signed | (x > 0))], f),
        "subnormals": _subnormals(f, x[below], got[below], roundings, closest),
    }


def _rounding(
    f: FloatFormat, x: np.ndarray, got: np.ndarray, roundings: tuple[str, ...], closest: str
) -> tuple[str, str]:
    """The words, and the mode with the fewest differing probes."""
    differing = {r: _differing(got, allowed(x, f, r, "ieee")) for r in roundings}
    fitting = [r for r in roundings if differing[r] == 0]
    if fitting == list(ROUNDINGS):
        return "none: every fp32 value is in the format", closest
    if fitting:
        return " or ".join(fitting), closest if closest in fitting else fitting[0]
    closest = min(differing, key=differing.__getitem__)
    for between in ("fp16", "bf16", "tf32"):
        if _differing(got, [quantize(quantize(x, between), f)]) == 0:
            return f"ties_to_even after a rounding to {between}", "ties_to_even"
    return f"mixed (closest to {closest}, {differing[closest]} of {len(x)} probes differ)", closest


def _differing(got: np.ndarray, rights: list[np.ndarray]) -> int:
    """The number of results that are none of those allowed, ignoring signs of zeros."""
    nan = np.isnan(got)
    agree = [(got == right) | (nan & np.isnan(right)) for right in rights]
    return len(got) - int(np.count_nonzero(np.logical_or.reduce(agree)))


def _first(x: np.ndarray, got: np.ndarray, rights: list[np.ndarray]) -> str:
    wrong = np.flatnonzero(~agrees(got, rights))
    return described(wrong[0], x, got, rights) if wrong.size else ""


def _overflow(
    f: FloatFormat, x: np.ndarray, got: np.ndarray, past: np.ndarray, rounding: str, preset: str
) -> str:
    """Finite inputs beyond the largest value, by their results."""
    if not past.any():
        return "none: no fp32 value is beyond the largest"
    x, got = x[past], got[past]
    # Rules can agree on finite inputs; infinite ones decided the preset.
    for overflow in [preset, *_overflows(f)]:
        if _differing(got, allowed(x, f, rounding, overflow)) == 0:
            far = np.abs(x) >= min(2 * f.largest, float(np.abs(x).max()))
            return f"{overflow} ({_seen(np.where(x < 0, -got, got)[far], f)})"
    return f"mixed ({_seen(np.where(x < 0, -got, got), f)})"


def _subnormals(
    f: FloatFormat, x: np.ndarray, got: np.ndarray, roundings: tuple[str, ...], rounding: str
) -> str:
    if f.smallest_positive >= f.smallest_normal:
        return "none in the format"
    rights = allowed(x, f, rounding, "ieee")
    if _differing(got, rights) == 0:
        return "gradual"
    if _differing(got, [np.where(np.abs(r) < f.smallest_normal, 0, r) for r in rights]) == 0:
        return "flushed to zero"
    if not got.any():
        return "inputs flushed to zero"
    for other in roundings:
        if _differing(got, allowed(x, f, other, "ieee")) == 0:
            return f"gradual, rounded {other}"
    return f"mixed (gradual except for {_differing(got, rights)} of {len(x)} probes)"


def _seen(values: np.ndarray, f: FloatFormat | None = None) -> str:
    """The different values among results, with their counts if there are several."""
    if values.size == 0:
        return "not probed"
    kinds: dict[str, int] = {}
    for value in values:
        word = (
            "NaN"
            if np.isnan(value)
            else "largest"
            if f is not None and value == f.largest
            else f"{value:g}"
        )
        kinds[word] = kinds.get(word, 0) + 1
    if f is None:
        kinds = {
            "kept" if word == "NaN" else f"becomes {word}": count for word, count in kinds.items()
        }
    if len(kinds) == 1:
        return next(iter(kinds))
    common = sorted(kinds.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{word} at {count}" for word, count in common[:3])
    return f"{shown} and {len(common) - 3} other values" if len(common) > 3 else shown


def _signed_zero(x: np.ndarray, got: np.ndarray) -> str:
    """The signs of zero results of -0 and negative numbers."""
    zeros = np.signbit(x) & ~np.isnan(x) & (got == 0)
    if not zeros.any():
        return "no negative input becomes zero"
    negative = np.signbit(got[zeros])
    if negative.all() or not negative.any():
        return "kept" if negative.all() else "lost"
    minus_zero = np.signbit(got[zeros & (x == 0)])
    of_zero = "kept" if minus_zero.size and minus_zero.all() else "lost"
    return f"mixed (-0 {of_zero}, lost at {np.count_nonzero(~negative)} of {len(negative)} probes)"
