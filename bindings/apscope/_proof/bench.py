"""Speed of the kernels on this machine, compared with its memory."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._arrays.checks import integer, text

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True)
class Bench:
    """The result of `bench`.

    Attributes
    ----------
    machine : dict
        Processor, vector instructions, number of processors, versions.
    created : str
        When, in UTC.
    rows : list of dict
        Per job ``name``, ``where`` (L2, DRAM, CPU, peer), ``threads``, ``elements`` per call,
        ``floor`` (its reference job, or empty), ``ns`` (median nanoseconds per element), ``spread``
        (half the range between the quartiles over the median), ``gb_per_s`` (bytes read and
        written, 10^9 per second; None if operations count), and ``ratio``: the job's speed divided
        by its reference's, in bytes or multiply-adds per second, the median of the rounds' ratios.
        1.0 is the reference's own speed.
    """

    machine: dict[str, Any]
    created: str
    rows: list[dict[str, Any]]

    @property
    def frame(self) -> pd.DataFrame:
        """The rows as a table."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return dataclasses.asdict(self)


def bench(
    only: str = "",
    *,
    rounds: int = 9,
    visit_seconds: float = 0.02,
    elements: int = 2**25,
    threads: int = 2,
    peers: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Bench:
    """Time every kernel and its reference in one interleaved run.

    Parameters
    ----------
    only : str
        Jobs whose name contains this text, and their references; all if empty.
    rounds : int
        Visits to each job, in turn with all others.
    visit_seconds : float
        A visit repeats its job for at least this long.
    elements : int
        fp32 numbers in the arrays for main memory; far more than fit into the caches.
    threads : int
        DRAM jobs run with 1 and with this many.
    peers : bool
        Also casts of ml_dtypes, torch, gfloat and pychop on an array of 65536 numbers, if they are
        installed.
    progress : callable, optional
        Called with visits done and their number.

    Returns
    -------
    Bench

    Raises
    ------
    ValueError
        A number out of range.
    """
    rounds = integer("rounds", rounds, 1, 10_000)
    rows = _core.bench(
        2**16, integer("elements", elements, 2**12, 2**33), 192,
        integer("threads", threads, 1, 1024), rounds,
        float(visit_seconds), text("only", only), progress,
    )  # fmt: skip
    if peers:
        rows += [r for r in _peers(rounds, visit_seconds) if only in r["name"]]
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Bench(_machine(), created, [_summary(r, rows) for r in rows])


def _summary(row: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    reference = (row["floor"], row["where"], row["threads"])
    floor = next((f for f in rows if (f["name"], f["where"], f["threads"]) == reference), None)
    seconds = row["seconds"]
    median = statistics.median(seconds)
    quartiles = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else [median] * 3
    ratio = None
    if floor is not None:
        work = "bytes" if row["bytes"] else "operations"
        amount, floor_amount = (r["elements"] * r[work] for r in (row, floor))
        ratio = statistics.median(
            amount / t / (floor_amount / f) for t, f in zip(seconds, floor["seconds"], strict=True)
        )
    each, operations = median / row["elements"], row["operations"]
    return {
        "name": row["name"],
        "where": row["where"],
        "threads": row["threads"],
        "elements": int(row["elements"]),
        "floor": row["floor"],
        "ns": each * 1e9,
        "ns_per_operation": each / operations * 1e9 if operations else None,
        "spread": (quartiles[2] - quartiles[0]) / 2 / median,
        "gb_per_s": row["elements"] * row["bytes"] / median / 1e9 if row["bytes"] else None,
        "ratio": ratio,
    }


def _machine() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = next(
            (
                line.split(":", 1)[1].strip()
                for line in info.read_text(encoding="utf-8", errors="replace").splitlines()
                if line.startswith("model name")
            ),
            model,
        )
    return {
        "processor": model,
        "simd": _core.simd_level(),
        "processors": os.cpu_count(),
        "apscope": _core.__version__,
        "numpy": np.__version__,
    }


#: Types of both ml_dtypes and torch.
_TYPES = ("float8_e4m3fn", "float8_e5m2", "bfloat16")


def _peers(rounds: int, visit_seconds: float) -> list[dict[str, Any]]:
    """Peers' casts from and to fp32 through their type, our small call, and memcpy, interleaved."""
    from .._arrays.casts import quantize

    x = np.random.default_rng(7).standard_normal(2**16).astype(np.float32)
    out, few, few_out = np.empty_like(x), x[:16].copy(), np.empty(16, np.float32)
    jobs: list[tuple[str, np.ndarray, Callable[[], Any]]] = [
        ("memcpy", x, lambda: np.copyto(out, x)),
        ("apscope.quantize e4m3fn from Python", x, lambda: quantize(x, "e4m3fn", out=out)),
    ]
    call = "apscope.quantize of 16 elements from Python"
    jobs.append((call, few, lambda: quantize(few, "e4m3fn", out=few_out)))
    with contextlib.suppress(ImportError):
        import ml_dtypes

        for name in _TYPES:
            run: Callable[[], Any] = functools.partial(
                lambda dtype: x.astype(dtype).astype(np.float32), getattr(ml_dtypes, name)
            )
            jobs.append((f"ml_dtypes.{name} {ml_dtypes.__version__}", x, run))
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(1)  # like the others
        t = torch.from_numpy(x)
        for name in _TYPES:
            run = functools.partial(
                lambda dtype: t.to(dtype).to(torch.float32), getattr(torch, name)
            )
            jobs.append((f"torch.{name} {torch.__version__}", x, run))
    with contextlib.suppress(ImportError):
        import gfloat
        from gfloat.formats import format_info_ocp_e4m3 as e4m3

        name = f"gfloat.round_ndarray e4m3fn {version('gfloat')}"
        jobs.append((name, x, lambda: gfloat.round_ndarray(e4m3, x)))
    with contextlib.suppress(ImportError):
        import pychop

        pychop.backend("numpy")
        chop = pychop.Chop(exp_bits=4, sig_bits=3, rmode=1)
        jobs.append((f"pychop.Chop e4m3 {version('pychop')}", x, lambda: chop(x)))
    rows: list[dict[str, Any]] = [
        {
            "name": name, "where": "peer", "floor": "" if name == "memcpy" else "memcpy",
            "threads": 1, "elements": a.size, "bytes": 8, "operations": 0, "seconds": [],
        }
        for name, a, _ in jobs
    ]  # fmt: skip
    for _, _, job in jobs:
        job()
    for _ in range(rounds):
        for row, (_, _, job) in zip(rows, jobs, strict=True):
            start, calls = time.perf_counter(), 0
            while (passed := time.perf_counter() - start) < visit_seconds:
                job()
                calls += 1
            row["seconds"].append(passed / calls)
    return rows
