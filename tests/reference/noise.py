"""The noise of the batch and errors in its unit: definitions.md section 16, walked literally in
fp64 with libm's log2."""

import math

import numpy as np

from .statistics import fixed_shape_sum, quotient

BLOCK = 32
COLUMNS = (
    "sum_noise",
    "noise_blocks",
    "sum_log2_error_over_noise",
    "error_over_noise",
    "pooled_error_over_noise",
)


def block_sums(terms: np.ndarray) -> np.ndarray:
    """The noise of every 32 consecutive elements; elements that are not finite add nothing."""
    kept = np.where(np.isfinite(terms), terms, 0.0)
    return np.array([fixed_shape_sum(kept[i : i + BLOCK]) for i in range(0, len(kept), BLOCK)])


def noise_of(g: np.ndarray, reduction: str) -> np.ndarray | None:
    """g: (W, n). The variance of the workers' mean, or of their sum, over every noise block; None
    for one worker."""
    workers = len(g)
    if workers < 2:
        return None
    x = g.astype(np.float64)
    mean = np.add.accumulate(x, axis=0)[-1] / workers
    deviations = [block_sums((row - mean) ** 2) for row in x]
    unit = workers * (workers - 1) if reduction == "mean" else (workers - 1) / workers
    return np.add.accumulate(deviations, axis=0)[-1] / unit


def over_noise(noise: np.ndarray | None, reference: np.ndarray, y: np.ndarray) -> dict:
    """The columns of a reduced row."""
    if noise is None:
        return dict.fromkeys(COLUMNS)
    both = np.isfinite(reference) & np.isfinite(y)
    error = np.where(both, y - reference, 0.0)
    squares, there = block_sums(error * error), noise > 0
    total = float(sum(fixed_shape_sum(noise[i : i + 128]) for i in range(0, len(noise), 128)))
    row = {
        "sum_noise": total,
        "noise_blocks": int(there.sum()),
        "error_over_noise": None,
        "pooled_error_over_noise": None,
    }
    q = np.maximum(squares[there] / noise[there], 2.0**-30)
    overflows = bool((np.isfinite(reference) & ~np.isfinite(y)).any())
    row["sum_log2_error_over_noise"] = math.inf if overflows else math.fsum(np.log2(q))
    row["sum_log2_error_over_noise_tolerance"] = 1e-13 * float(np.abs(np.log2(q)).sum()) + 1e-13
    if len(q):
        row["error_over_noise"] = (
            math.inf if overflows else 2.0 ** (row["sum_log2_error_over_noise"] / len(q))
        )
        row["error_over_noise_tolerance"] = 1e-11 * row["error_over_noise"]
        lost = fixed_shape_sum(error * error)
        row["pooled_error_over_noise"] = math.inf if overflows else quotient(lost, total)
    return row


def without(g: np.ndarray, reduction: str) -> list[tuple[float, float]]:
    """Of every worker: the noise without it, added up, and the sum of log2 of its ratio to that
    with all, over blocks that are not lone."""
    workers = len(g)
    full, factor = (
        noise_of(g, reduction),
        (workers - 1) / workers if reduction == "mean" else workers / (workers - 1),
    )
    finite = np.where(np.isfinite(g).all(axis=0), g, 0.0)
    # Without w there are W - 1 workers, whose mean varies more than that of W: the factor takes
    # that back.
    left = np.array(
        [noise_of(np.delete(finite, w, axis=0), reduction) * factor for w in range(workers)]
    )
    known = (full > 0) & (left.min(axis=0) >= 2.0**-10 * full)
    return [(math.fsum(row), math.fsum(np.log2(row[known] / full[known]))) for row in left]


def student_quantile(freedom: float) -> float:
    """Student's t at 0.975: where the integral of the density over [0, t], by Simpson's rule in
    the angle atan(t / sqrt f), is 0.475."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)

    def inside(t: float) -> float:
        angles = np.linspace(0, math.atan(t / math.sqrt(freedom)), 401)
        weights = np.where(np.arange(401) % 2, 4.0, 2.0)
        weights[[0, -1]] = 1
        return scale * float((weights * np.cos(angles) ** (freedom - 1)).sum() * angles[1] / 3)

    return bisected(lambda t: inside(t) < 0.475, 0.0, 100.0)


def log_bias(freedom: float) -> float:
    """digamma(f / 2) - ln(f / 2), digamma as the slope of lgamma, after 200 steps of its
    recurrence."""
    x, shift = freedom / 2, sum(1 / (freedom / 2 + k) for k in range(200))
    y = x + 200
    slope = (math.lgamma(y + 0.01) - math.lgamma(y - 0.01)) / 0.02
    return slope - shift - math.log(x)


def bisected(is_below, low: float, high: float) -> float:
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low


def jackknife(values: np.ndarray) -> tuple[float, float]:
    """values[step, worker]. Half of the interval of the sum over the steps of the means, and that
    sum."""
    steps, workers = values.shape
    variances = [
        (workers - 1) / workers * math.fsum((v - row.mean()) ** 2 for v in row) for row in values
    ]
    total = math.fsum(variances)
    freedom = total**2 / (math.fsum(v * v for v in variances) / (workers - 1)) if total else 1.0
    return student_quantile(max(freedom, 1.0)) * math.sqrt(total), math.fsum(values.mean(axis=1))


def typical_interval(rows: list[dict]) -> tuple[float, float]:
    """Factors of the typical error over the noise, from rows of `Results.noise`; `without` is None
    with all workers."""
    whole = [r for r in rows if r["without"] is None]
    blocks = sum(r["noise_blocks"] for r in whole)
    known = blocks - sum(r["lone_blocks"] for r in whole)
    steps, workers = sorted({r["step"] for r in rows}), max(r["workers"] for r in whole)
    logs = np.zeros((len(steps), workers))
    for r in rows:
        if r["without"] is not None:
            logs[steps.index(r["step"]), r["without"]] += r["sum_log2_ratio"]
    half, total = jackknife(logs / blocks)
    change = total * blocks / known * math.log(2)
    log_d = bisected(
        lambda d: (
            log_bias((workers - 2) * math.exp(d)) - log_bias((workers - 1) * math.exp(d)) < change
        ),
        math.log(1e-2),
        math.log(1e9),
    )
    bias = known / blocks * log_bias((workers - 1) * math.exp(log_d)) / math.log(2)
    return 2.0 ** (bias - half), 2.0 ** (bias + half)


def pooled_interval(rows: list[dict], error: dict[int, float]) -> tuple[float, float]:
    """The interval of the mean over the steps of error[step] over the noise of the step."""
    steps, workers = sorted(error), max(r["workers"] for r in rows)

    def noise(step: int, without: int | None) -> float:
        return math.fsum(
            r["sum_noise"] for r in rows if (r["step"], r["without"]) == (step, without)
        )

    values = np.array([[error[s] / noise(s, w) for w in range(workers)] for s in steps]) / len(
        steps
    )
    half, total = jackknife(values)
    plain = math.fsum(error[s] / noise(s, None) for s in steps) / len(steps)
    middle = workers * plain - (workers - 1) * total
    return max(middle - half, 0.0), middle + half
