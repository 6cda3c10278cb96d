"""The work of a replay as one would write it in NumPy with ml_dtypes, checked against
`apscope.replay` and timed beside it.

    python -m docs.tools.replay_numpy [--runs N] [--tensors REGEX] [--page docs/performance.md]
    [TRACE...]

By default on the bundled traces; notebooks/record/record_resnet.py records larger ones. The NumPy
job rounds by casting to ml_dtypes' float8 types, after every hop too, on all workers and as many
steps of a tensor at once as make up to 16 million values, and fills the same columns: those of
docs/definitions.md, section 3, for schemes that scale by a power of two and round to nearest. NumPy
runs on one thread, apscope on one and on all that the machine has (as it does by default), in turn;
neither compares files with their digests; the medians count. Whole numbers must be equal, sums
equal up to the order of their additions.
"""

import argparse
import os
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pandas as pd

import apscope

from . import page
from .replay_cost import TRACES

TOPOLOGIES = ["sequential", "ring", "tree", "hierarchical:4"]
SCHEMES = [
    "none:e4m3",
    "none:e5m2",
    "loss_scaling:e4m3,scale=1024",
    "loss_scaling:e5m2,scale=1024",
    "aps:e4m3",
    "aps:e5m2",
]
TYPES = {"e4m3": ml_dtypes.float8_e4m3, "e5m2": ml_dtypes.float8_e5m2}
KEYS = ["trace", "step", "tensor", "scheme", "stage", "topology"]
WHOLE = """
    workers count counted nonzero underflow subnormal saturated overflow nan infinite wire_bits
    scale_exponent
""".split()
EXACT = ["underflow_rate", "max_ulp"]
SUMS = ["bias", "relative_bias", "variance", "expected_bias", "expected_variance", "mse", "nmse",
        "sqnr_db", "cosine", "sum_error",
        "sum_squared_error", "sum_squared_reference"]  # fmt: skip
TOLERANCE = 1e-12
AT_ONCE = 2**24  # values; arrays of more would take gigabytes, and NumPy no less time


# ---- The job in NumPy -------------------------------------------------------------------------


def exponents(scheme: str, gradients: np.ndarray, info: ml_dtypes.finfo) -> np.ndarray:
    """s of the scale 2^s of every step; gradients are (steps, workers, n)."""
    steps, workers, _ = gradients.shape
    if scheme.startswith("none"):
        return np.zeros(steps, np.int32)
    if scheme.startswith("loss_scaling"):
        return np.full(steps, 10, np.int32)
    largest = np.abs(gradients).max(axis=(1, 2)).astype(np.float64)
    fraction, exponent = np.frexp(workers * np.maximum(largest, 2.0**-126))
    ceiling = exponent - (fraction == 0.5)
    return np.where(largest == 0, 0, np.frexp(float(info.max))[1] - 1 - ceiling).astype(np.int32)


def reduce(codes: np.ndarray, topology: str, dtype: type) -> np.ndarray:
    """The sum over the workers of fp32 numbers (steps, workers, n), every addition rounded."""
    steps, workers, n = codes.shape

    def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (a + b).astype(dtype).astype(np.float32)

    def in_order(rows: np.ndarray) -> np.ndarray:
        total = rows[:, 0]
        for w in range(1, rows.shape[1]):
            total = add(total, rows[:, w])
        return total

    if topology == "sequential":
        return in_order(codes)
    if topology == "ring":
        bounds = np.arange(workers + 1) * n // workers
        chunk = np.repeat(np.arange(workers), np.diff(bounds))
        ranks = (chunk + 1 + np.arange(workers)[:, None]) % workers
        return in_order(np.take_along_axis(codes, ranks[None], axis=1))
    if topology == "tree":
        while codes.shape[1] > 1:
            pairs = codes.shape[1] // 2 * 2
            codes = np.concatenate(
                [add(codes[:, 0:pairs:2], codes[:, 1:pairs:2]), codes[:, pairs:]], axis=1
            )
        return codes[:, 0]
    group = int(topology.split(":")[1])
    leaders = codes[:, ::group].copy()
    for member in range(1, group):
        rows = codes[:, member::group]
        leaders[:, : rows.shape[1]] = add(leaders[:, : rows.shape[1]], rows)
    return in_order(leaders)


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.divide(a, b, out=np.full(np.broadcast_shapes(a.shape, b.shape), np.nan), where=b != 0)


def columns(
    x: np.ndarray, y: np.ndarray, shift: np.ndarray, info: ml_dtypes.finfo, units: int
) -> dict[str, np.ndarray]:
    """The columns of every step; x and y are (steps, ...), fp64, and stand for `units` x 2^shift in
    the format."""
    axes = tuple(range(1, x.ndim))
    shift = shift.reshape(-1, *[1] * len(axes))
    error = y - x
    finite = np.isfinite(error)
    every = bool(finite.all())
    number, result = (x, y) if every else (np.where(finite, x, 0.0), np.where(finite, y, 0.0))
    error = error if every else np.where(finite, error, 0.0)
    size = np.abs(number)
    count = np.full(len(x), x[0].size)
    counted = finite.sum(axis=axes)
    finite_x = finite if every else np.isfinite(x)
    nonzero = (finite_x & (x != 0)).sum(axis=axes)
    underflow = (finite_x & (x != 0) & (y == 0)).sum(axis=axes)
    sum_error, squared_error, squared = (
        error.sum(axis=axes),
        (error * error).sum(axis=axes),
        (number * number).sum(axis=axes),
    )
    bias, mse = quotient(sum_error, counted), quotient(squared_error, counted)
    with np.errstate(divide="ignore", invalid="ignore"):
        decibels = 10 * np.log10(quotient(squared, squared_error))
    decibels = np.where((squared_error == 0) & (squared != 0), np.inf, decibels)
    lowest = np.frexp(float(info.smallest_normal))[1] - 1
    step = np.maximum(np.frexp(np.ldexp(units * size, shift))[1] - 1, lowest) - info.nmant
    step = np.where(size == 0, lowest - info.nmant, step)
    variance = np.maximum(mse - bias * bias, 0)
    empty = np.where(counted == 0, np.nan, 0.0)
    overflow = (finite_x & ~np.isfinite(y)).sum(axis=axes)
    over = overflow > 0  # then no error is finite: the sums know nothing of what is not
    cosine = quotient(
        (number * result).sum(axis=axes),
        np.sqrt(squared) * np.sqrt((result * result).sum(axis=axes)),
    )
    return {
        "count": count,
        "counted": counted,
        "nonzero": nonzero,
        "underflow": underflow,
        "underflow_rate": quotient(underflow, nonzero),
        "overflow": overflow,
        "nan": np.isnan(x).sum(axis=axes),
        "infinite": np.isinf(x).sum(axis=axes),
        "bias": bias,
        "relative_bias": quotient((np.sign(number) * error).sum(axis=axes), size.sum(axis=axes)),
        "variance": np.where(over, np.inf, variance),
        "expected_bias": bias,
        "expected_variance": empty,
        "mse": np.where(over, np.inf, mse),
        "nmse": np.where(over, np.inf, quotient(squared_error, squared)),
        "sqnr_db": np.where(over, -np.inf, decibels),
        "cosine": np.where(over, 0.0, cosine),
        "max_ulp": np.ldexp(units * np.abs(error), shift - step).max(axis=axes) + empty,
        "sum_error": sum_error,
        "sum_squared_error": squared_error,
        "sum_squared_reference": squared,
    }


def histogram(gradients: np.ndarray) -> list[np.ndarray]:
    """Per step, how many values lie in every binade; zeros in the last bin."""
    exponent = np.where(gradients == 0, 128, np.frexp(gradients)[1] - 1) + 149
    return [np.bincount(step.ravel(), minlength=278) for step in exponent]


def tensor_tables(gradients: np.ndarray, mean: bool) -> list[tuple[dict, dict]]:
    """Names and columns of every row of one tensor; gradients are (steps, workers, n) fp32."""
    steps, workers, n = gradients.shape
    x = gradients.astype(np.float64)
    divisor = workers if mean else 1
    reference = x.sum(axis=1) / divisor
    made = []
    for scheme in SCHEMES:
        name = scheme.split(":")[1].split(",")[0]
        dtype, info = TYPES[name], ml_dtypes.finfo(TYPES[name])
        s = exponents(scheme, gradients, info)
        scaled = np.ldexp(gradients, s[:, None, None])
        codes = scaled.astype(dtype).astype(np.float32)
        decoded = np.ldexp(codes.astype(np.float64), -s[:, None, None])
        shared = {
            "workers": np.full(steps, workers),
            "wire_bits": np.full(steps, 8 * n),
            "scale_exponent": s,
        }
        size = np.abs(scaled)
        limits = {
            "subnormal": ((size > 0) & (size < info.smallest_normal)).sum(axis=(1, 2)),
            "saturated": ((size > float(info.max)) & (np.abs(codes) == float(info.max))).sum(
                axis=(1, 2)
            ),
        }
        made.append(
            (
                {"scheme": scheme, "stage": "wire", "topology": ""},
                columns(x, decoded, s, info, 1) | limits | shared,
            )
        )
        for topology in ["exact", *TOPOLOGIES]:
            if topology == "exact":
                y = decoded.sum(axis=1) / divisor
            else:
                y = (
                    np.ldexp(reduce(codes, topology, dtype).astype(np.float64), -s[:, None])
                    / divisor
                )
            made.append(
                (
                    {"scheme": scheme, "stage": "reduced", "topology": topology},
                    columns(reference, y, s, info, divisor) | shared,
                )
            )
    return made


@np.errstate(invalid="ignore")  # infinities of opposite signs
def numpy_job(traces: list[str], tensors: str = "") -> tuple[pd.DataFrame, list]:
    frames, histograms = [], []
    for path in traces:
        trace = apscope.open_trace(path)
        for tensor in (t for t in trace.manifest.tensors if re.search(tensors, t.name)):
            some = max(1, AT_ONCE // (trace.workers * tensor.size))
            for steps in (trace.steps[i : i + some] for i in range(0, len(trace.steps), some)):
                gradients = np.stack(
                    [
                        [trace.read(step, tensor.name, w).ravel() for w in range(trace.workers)]
                        for step in steps
                    ]
                )
                histograms += histogram(gradients)
                for names, table in tensor_tables(gradients, trace.manifest.reduction == "mean"):
                    frames.append(
                        pd.DataFrame(
                            {
                                "trace": trace.name,
                                "step": steps,
                                "tensor": tensor.name,
                                **names,
                                **table,
                            }
                        )
                    )
    return pd.concat(frames, ignore_index=True), histograms


# ---- Compared and timed -----------------------------------------------------------------------


def apscope_job(traces: list[str], threads: int = 1, tensors: str = "") -> pd.DataFrame:
    return apscope.replay(
        traces, SCHEMES, topology=TOPOLOGIES, threads=threads, tensors=tensors, check=False
    ).frame


def disagreements(ours: pd.DataFrame, theirs: pd.DataFrame) -> list[str]:
    """Columns in which the two differ, with the first place; empty if they agree."""
    theirs = theirs.rename(columns={"scheme": "spec"})
    ours = ours.copy()
    ours["spec"] = ours["scheme"].map({apscope.schemes.as_scheme(s).spec: s for s in SCHEMES})
    keys = [k if k != "scheme" else "spec" for k in KEYS]
    both = ours.merge(theirs, on=keys, suffixes=("", "_numpy"), validate="one_to_one")
    if not len(both) == len(ours) == len(theirs):
        return [f"{len(ours)} rows here, {len(theirs)} in NumPy, {len(both)} of the same names"]
    # How far sums of other order may be apart: relative to the sum of the terms' magnitudes.
    magnitude = np.sqrt(both["sum_squared_error"].to_numpy() * both["counted"].to_numpy(float))
    slack = {"sum_error": magnitude, "bias": quotient(magnitude, both["counted"].to_numpy(float)),
             "relative_bias": both["relative_bias"].abs() + 1e-3,
             "expected_bias": quotient(magnitude, both["counted"].to_numpy(float)),
                 "variance": both["mse"].to_numpy()}  # fmt: skip
    wrong = []
    for column in WHOLE + EXACT + SUMS:
        a, b = (
            both[name].astype("Float64").to_numpy(float, na_value=np.nan)
            for name in (column, column + "_numpy")
        )
        if column in SUMS:
            with np.errstate(invalid="ignore"):
                same = np.abs(a - b) <= TOLERANCE * np.maximum(
                    np.abs(a), np.asarray(slack.get(column, 0.0), float)
                )
        else:
            same = a == b
        same |= np.isnan(a) & np.isnan(b) | (a == b)
        if not same.all():
            row = both[~same].iloc[0]
            wrong.append(
                f"{column}: {row[column]} here, {row[column + '_numpy']} in NumPy, {(~same).sum()} "
                f"rows, first {[row[k] for k in keys]}"
            )
    return wrong


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*", metavar="TRACE", help="by default the bundled ones")
    parser.add_argument("--runs", type=int, default=5, help="of each; the medians count")
    parser.add_argument(
        "--tensors", default="", metavar="REGEX", help="tensors whose name matches; all if none"
    )
    parser.add_argument(
        "--page",
        metavar="FILE",
        type=Path,
        help="write the figures between its markers: docs/performance.md",
    )
    args = parser.parse_args(arguments)
    traces, load = args.traces or TRACES, os.getloadavg()[0]
    wrong = disagreements(
        apscope_job(traces, tensors=args.tensors), numpy_job(traces, args.tensors)[0]
    )
    for line in wrong:
        print(line, file=sys.stderr)
    jobs: dict[str, Callable[[], object]] = {"numpy": lambda: numpy_job(traces, args.tensors)}
    for threads in sorted({1, os.cpu_count() or 1}):
        jobs[f"apscope on {threads}"] = lambda threads=threads: apscope_job(
            traces, threads, args.tensors
        )
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(args.runs):
        for name, job in jobs.items():
            begin = time.perf_counter()
            job()
            times[name].append(time.perf_counter() - begin)
    middle = {name: statistics.median(t) for name, t in times.items()}
    ratios = {
        name: statistics.median(n / a for n, a in zip(times["numpy"], times[name]))
        for name in jobs
        if name != "numpy"
    }
    runs = f"the median of {args.runs} runs" if args.runs > 1 else "one run"
    heads = ("traces", "schemes", "topologies", "NumPy, s", "apscope's threads", "apscope, s")
    lines = [
        f"{page.machine()}, ml_dtypes {ml_dtypes.__version__}; {runs} of each, alternately. "
        f"NumPy runs on one thread. Load before them {load:.1f} {page.QUIET}.",
        "",
        *page.table(
            (*heads, "ratio"),
            [
                (
                    ", ".join(Path(t).name for t in traces), len(SCHEMES), len(TOPOLOGIES),
                    f"{middle['numpy']:.2f}", name.split()[-1], f"{middle[name]:.3f}",
                    f"{ratio:.1f}",
                )
                for name, ratio in ratios.items()
            ],
        ),
    ]  # fmt: skip
    print("\n".join([*lines, "", f"Numbers {'DIFFER' if wrong else 'agree'}."]))
    if args.page:
        page.write(args.page, {"numpy": lines})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
