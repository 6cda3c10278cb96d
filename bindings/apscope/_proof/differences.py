"""How a cast differs from the rule that fits it best: every kind of difference, with its count."""

from __future__ import annotations

import numpy as np

from .._arrays.casts import quantize
from .._core import FloatFormat
from .._formats.blackbox import same
from .._text import count_of
from ..conformance import describe


def allowed(
    x: np.ndarray, f: FloatFormat, rounding: str, overflow: str, underflow: str = "gradual"
) -> list[np.ndarray]:
    """The results that a rounding may give, float64: one, or both neighbours if it is stochastic.

    `stochastic` stands for every stochastic rounding. Beyond the largest value and one more
    quantum nothing is random.
    """

    def cast(rounding: str, overflow: str) -> np.ndarray:
        y = quantize(x, f, rounding=rounding, overflow=overflow, underflow=underflow)
        return y.astype(np.float64)

    if rounding != "stochastic":
        return [cast(rounding, overflow)]
    up = cast("away_from_zero", overflow)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        end = np.where(f.is_signed | (x >= 0), after_largest(f), f.smallest_positive)
        inside = np.abs(x.astype(np.float64)) < end
    return [np.where(inside, cast("toward_zero", "saturate"), up), up]


def after_largest(f: FloatFormat) -> float:
    """The value that would follow the largest if the format went on."""
    return float(f.largest + 2.0 ** (np.frexp(f.largest)[1] - f.precision))


def agrees(got: np.ndarray, rights: list[np.ndarray]) -> np.ndarray:
    """Where a result is one of those allowed; any NaN is any NaN, -0 is not +0."""
    return np.logical_or.reduce([same(got, right) for right in rights])


def differences(
    x: np.ndarray, got: np.ndarray, rights: list[np.ndarray], f: FloatFormat
) -> tuple[str, ...]:
    """Every kind of difference, the most frequent first.

    Parameters
    ----------
    x : float32 array
        The inputs.
    got : float64 array
        The results of the cast.
    rights : list of float64 arrays
        The results that its preset allows, as `allowed` returns them.
    f : FloatFormat
        The preset's format.

    Returns
    -------
    tuple of str
        By what is wrong with the result: how many probes, their sign if they have one, how many of
        which kind of input, and the first of them.
    """
    wrong = ~agrees(got, rights)
    if not wrong.any():
        return ()
    inputs, input_kinds = _inputs(x, f)
    results, result_kinds = _results(x, got, rights, f)
    rows = []
    for r, of_result in enumerate(result_kinds):
        these = np.flatnonzero(wrong & (results == r))
        if not these.size:
            continue
        negative = np.signbit(x[these])
        sign = f", all {'negative' if negative[0] else 'positive'}" * (len(set(negative)) == 1)
        counts = np.bincount(inputs[these], minlength=len(input_kinds))
        where = ", ".join(
            f"{input_kinds[i]} {counts[i]} of {np.count_nonzero(inputs == i)}"
            for i in np.argsort(-counts, kind="stable")
            if counts[i]
        )
        rows.append(
            (
                -these.size,
                f"{of_result} at {count_of(these.size, 'probe')}{sign} ({where}); "
                f"{described(these[0], x, got, rights)}",
            )
        )
    return tuple(words for _, words in sorted(rows, key=lambda row: row[0]))


def described(i: int, x: np.ndarray, got: np.ndarray, rights: list[np.ndarray]) -> str:
    """Probe i with the results of the cast and of the preset."""
    words = describe(x[i], got[i], rights[0][i]).replace("correct is", "the preset")
    return words if same(rights[0], rights[-1])[i] else f"{words} or {rights[-1][i]:.9g}"


def _inputs(x: np.ndarray, f: FloatFormat) -> tuple[np.ndarray, list[str]]:
    """The kind of every input, a number into the list."""
    with np.errstate(invalid="ignore"):
        size = np.abs(x.astype(np.float64))
        down, up = allowed(x, f, "stochastic", "saturate")
        middle = np.abs(down) + (np.abs(up) - np.abs(down)) / 2
        kinds = [
            ("NaN", np.isnan(x)),
            ("infinity", np.isinf(x)),
            ("zero", x == 0),
            ("beyond the largest", size > f.largest),
            ("a value of the format", down == x),
            ("a tie below the smallest normal", (size < f.smallest_normal) & (size == middle)),
            ("below the smallest normal", size < f.smallest_normal),
            ("a tie", size == middle),
            ("between two values", np.ones(x.shape, bool)),
        ]
    return np.select([where for _, where in kinds], range(len(kinds))), [name for name, _ in kinds]


def _results(
    x: np.ndarray, got: np.ndarray, rights: list[np.ndarray], f: FloatFormat
) -> tuple[np.ndarray, list[str]]:
    """The kind of every result, a number into the list."""
    right = rights[0]
    with np.errstate(invalid="ignore", over="ignore"):
        narrow = got.astype(np.float32)
        member = (narrow == got) & (quantize(narrow, f).astype(np.float64) == got)
        opposite = np.logical_or.reduce([got == -r for r in rights]) & (got != 0)
        down, up = allowed(x, f, "stochastic", "saturate")
        kinds = [
            ("NaN", np.isnan(got)),
            ("no NaN", np.isnan(right)),
            ("the other zero", (got == 0) & np.logical_or.reduce([r == 0 for r in rights])),
            ("the other sign", opposite),
            ("infinite", np.isinf(got)),
            ("not infinite", np.isinf(right)),
            ("not a value of the format", ~member),
            ("zero", got == 0),
            ("the other neighbour", (got == down) | (got == up)),
            ("a value that is not a neighbour", np.ones(x.shape, bool)),
        ]
    return np.select([where for _, where in kinds], range(len(kinds))), [name for name, _ in kinds]
