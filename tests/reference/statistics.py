"""The columns of a row from its pairs (x, y): sums of fixed shape, then the fixed quotients.

definitions.md sections 2 to 4, walked literally in fp64.
"""

import math

import numpy as np

LANES, BLOCK = 16, 4096


def fixed_shape_sum(terms: np.ndarray) -> float:
    """The sum over one worker's tensor; terms that are left out are zeros, which add nothing."""
    total = 0.0
    for start in range(0, len(terms), BLOCK):
        block = terms[start : start + BLOCK]
        lanes = np.zeros(LANES)
        for row in range(0, len(block), LANES):
            part = block[row : row + LANES]
            lanes[: len(part)] += part
        for half in (8, 4, 2, 1):
            lanes[:half] += lanes[half : 2 * half]
        total += lanes[0]
    return float(total)


def over_workers(terms: np.ndarray) -> float:
    """terms: (workers, n)."""
    total = 0.0
    for row in terms:
        total += fixed_shape_sum(row)
    return total


def decibel(ratio: float) -> float:
    m, k = math.frexp(ratio)  # m in [1/2, 1)
    if m < math.sqrt(0.5):
        m, k = 2 * m, k - 1
    z = (m - 1) / (m + 1)
    square, series = z * z, 0.0
    for odd in range(25, 0, -2):
        series = series * square + 1 / odd
    log2 = k + 2 / math.log(2) * (z * series)
    return 10 * math.log10(2) * log2


def quotient(a: float, b: float) -> float | None:
    return None if b == 0 else a / b


#: A result with overflow has no finite error, whatever the sums over the finite pairs are.
OVERFLOWED = {
    "mse": math.inf,
    "variance": math.inf,
    "nmse": math.inf,
    "sqnr_db": -math.inf,
    "cosine": 0.0,
    "rescaled_nmse": 1.0,
    "gain": 0.0,
}


def statistics(x: np.ndarray, y: np.ndarray) -> dict:
    """x, y: (workers, n) in fp64, or (1, n) for a reduced row."""
    counted = np.isfinite(x) & np.isfinite(y)
    x0, y0 = np.where(counted, x, 0.0), np.where(counted, y, 0.0)
    e = y0 - x0
    pairs = int(counted.sum())
    row = {
        "count": x.size,
        "counted": pairs,
        "nonzero": int((np.isfinite(x) & (x != 0)).sum()),
        "underflow": int((np.isfinite(x) & (x != 0) & (y == 0)).sum()),
        "overflow": int((np.isfinite(x) & ~np.isfinite(y)).sum()),
        "nan": int(np.isnan(x).sum()),
        "infinite": int(np.isinf(x).sum()),
        "sum_error": over_workers(e),
        "sum_squared_error": over_workers(e * e),
        "sum_squared_reference": over_workers(x0 * x0),
        "sum_signed_error": over_workers(np.sign(x0) * e),
        "sum_absolute_reference": over_workers(abs(x0)),
    }
    row["underflow_rate"] = quotient(row["underflow"], row["nonzero"])
    row["bias"] = quotient(row["sum_error"], pairs)
    row["relative_bias"] = quotient(row["sum_signed_error"], row["sum_absolute_reference"])
    row["mse"] = quotient(row["sum_squared_error"], pairs)
    row["variance"] = None if pairs == 0 else max(row["mse"] - row["bias"] * row["bias"], 0.0)
    row["nmse"] = quotient(row["sum_squared_error"], row["sum_squared_reference"])
    xx, yy, xy = row["sum_squared_reference"], over_workers(y0 * y0), over_workers(x0 * y0)
    row["sum_product"], row["gain"] = xy, quotient(xy, xx)
    row["cosine"] = quotient(xy, math.sqrt(xx) * math.sqrt(yy))
    row["rescaled_nmse"] = rescaled_nmse(xx, yy, xy - xx, row["sum_squared_error"])
    if row["sum_squared_reference"] == 0:
        row["sqnr_db"] = None
    elif row["sum_squared_error"] == 0:
        row["sqnr_db"] = math.inf
    else:
        row["sqnr_db"] = decibel(row["sum_squared_reference"] / row["sum_squared_error"])
    return row | (OVERFLOWED if row["overflow"] else {})


def rescaled_nmse(xx: float, yy: float, xe: float, ee: float) -> float | None:
    """The least sum of (a y - x)^2 over x^2 that a factor a reaches; a result of zeros stays at
    1."""
    if xx == 0:
        return None
    return 1.0 if yy == 0 else min(max((xx * ee - xe * xe) / (xx * yy), 0.0), 1.0)


def of_the_reference(x: np.ndarray) -> dict:
    """The values of a step that was not sent."""
    finite = np.isfinite(x)
    x0 = np.where(finite, x, 0.0)
    return {
        "count": x.size,
        "counted": int(finite.sum()),
        "nonzero": int((x0 != 0).sum()),
        "nan": int(np.isnan(x).sum()),
        "infinite": int(np.isinf(x).sum()),
        "sum_squared_reference": over_workers(x0 * x0),
        "sum_absolute_reference": over_workers(abs(x0)),
    }


SPLIT = (
    "split_underflow",
    "split_rounding",
    "split_saturation",
    "split_accumulation",
    "split_interaction",
)


def sent_errors(x: np.ndarray, y: np.ndarray, saturated: np.ndarray) -> list[np.ndarray]:
    """The errors of sent elements, (workers, n), in three arrays of which each holds one class:
    underflow, rounding, saturation."""
    counted = np.isfinite(x) & np.isfinite(y)
    e = np.where(counted, np.where(counted, y, 0.0) - np.where(counted, x, 0.0), 0.0)
    lost = counted & (x != 0) & (y == 0)
    return [np.where(of_class, e, 0.0) for of_class in (lost, ~lost & ~saturated, saturated)]


def wire_split(x: np.ndarray, y: np.ndarray, saturated: np.ndarray) -> dict:
    """definitions.md section 15, of what the workers sent."""
    if not (np.isfinite(x) & np.isfinite(y)).any():
        return dict.fromkeys(SPLIT)
    return dict(
        zip(SPLIT, [over_workers(e * e) for e in sent_errors(x, y, saturated)] + [0.0, 0.0])
    )


def reduced_split(
    x: np.ndarray,
    y: np.ndarray,
    saturated: np.ndarray,
    reference: np.ndarray,
    exact: np.ndarray,
    result: np.ndarray,
    divisor: int,
) -> dict:
    """The same of a sum; x, y, saturated: (workers, n), the others (n,)."""
    counted = np.isfinite(reference) & np.isfinite(result)
    if not counted.any():
        return dict.fromkeys(SPLIT)
    u, _, s = (np.add.accumulate(e, axis=0)[-1] / divisor for e in sent_errors(x, y, saturated))
    r, a = ((exact - reference) - u) - s, result - exact
    products = [u * u, r * r, s * s, a * a, 2 * (u * (r + s + a) + (r * (s + a) + s * a))]
    sums = [fixed_shape_sum(np.where(counted, p, 0.0)) for p in products]
    return dict(zip(SPLIT, sums if all(map(math.isfinite, sums)) else [None] * 5))


def max_ulp(
    x: np.ndarray, y: np.ndarray, scale: float, divisor: float, emin: int, mantissa_bits: int
) -> float | None:
    """The largest error in ulp of the format at x over the counted pairs, before a mean's
    division."""
    counted = np.isfinite(x) & np.isfinite(y)
    if not counted.any():
        return None
    x, e = x[counted], (y - x)[counted]
    sent = x * divisor * scale
    exponent = np.where(sent == 0, emin, np.frexp(sent)[1] - 1)
    return float(
        np.max(np.ldexp(abs(e) * divisor * scale, -(np.maximum(exponent, emin) - mantissa_bits)))
    )
