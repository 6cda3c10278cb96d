"""The record: what each job found, kept in a JSON file, so that a stopped run goes on where it was.

A job's row has the job's key; rows of the same job on further instruction sets have "key on simd".
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from apscope import _core

from .jobs import Job

ROOT = Path(__file__).resolve().parents[2]
#: What is proved: deterministic casts and codes; what stochastic rounding adds; and arithmetic. A change in
#: these files asks for the proofs again that run through them.
CASTS = (
    "core/float_format.*", "core/named_formats.*", "core/nearest_names.*", "core/projection.*", "core/bits.h", "core/draws.h",
    "core/rounding.*", "core/codec.*", "core/philox.h", "core/float_environment.*", "core/host_device.h", "emulation/quantize*", "emulation/code_kernels.h",
    "emulation/streaming.h", "emulation/simd.*", "emulation/parallel.*",
)  # fmt: skip
STOCHASTIC = ("emulation/stochastic_*", "emulation/narrow_draws.h")
ARITHMETIC = (
    "core/wide_number.h", "core/exact_sum.h", "core/exact_arithmetic.h", "core/stochastic_moments.h",
    "emulation/arithmetic*", "emulation/reduce_kernels.h",
    "emulation/register_arithmetic.*", "emulation/rounding_steps.*", "emulation/value_range.*",
)  # fmt: skip
#: The parts of the record that run more than deterministic casts.
SOURCES = {
    "rule": CASTS + STOCHASTIC,
    "fp64 formats": CASTS + STOCHASTIC,
    "P3109 beyond fp32": CASTS + STOCHASTIC,
    "arithmetic": CASTS + ARITHMETIC,
    "sampled fma": CASTS + ARITHMETIC,
}  # fmt: skip


def sources_of(part: str) -> tuple[str, ...]:
    """Patterns of the files that a part of the record proves."""
    return SOURCES.get(part, CASTS)


def digest_of_sources(part: str, root: Path = ROOT) -> str:
    """SHA-256 over the C++ sources that a part proves, by path; its first 12 digits."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in sources_of(part) for path in root.glob(pattern)}):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


class Record:
    """What was found, job by job and instruction set by instruction set; what was done with these sources is not done again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digests: dict[str, str] = {}
        self.jobs: dict[str, dict[str, Any]] = json.loads(path.read_text())["jobs"] if path.exists() else {}

    def on(self, job: Job) -> dict[str, Any]:
        """What a job runs on: sources, instruction set, processors."""
        if job.part not in self.digests:
            self.digests[job.part] = digest_of_sources(job.part)
        return {"sources": self.digests[job.part], "simd": _core.simd_level(), "processors": os.cpu_count()}

    def row_key(self, job: Job) -> str:
        """Where the job's row on the instruction set in use is, or belongs."""
        simd, found = _core.simd_level(), self.jobs.get(job.key)
        return job.key if found is None or found["simd"] == simd else f"{job.key} on {simd}"

    def is_done(self, job: Job, once: bool) -> bool:
        """Whether the job has been done on the instruction set in use: on these sources, or, with `once`, on any."""
        found = self.jobs.get(self.row_key(job))
        return found is not None and (once or found["sources"] == self.on(job)["sources"])

    def run(self, jobs: list[Job], once: bool = False) -> int:
        """Runs what is not yet done; the number of jobs with a mismatch."""
        left = [job for job in jobs if not self.is_done(job, once)]
        print(f"{len(jobs)} jobs, {len(jobs) - len(left)} of them done before", flush=True)
        for number, job in enumerate(left, 1):
            started = time.perf_counter()
            rows = job.run()
            first = next((row.first for row in rows if row.first), None)
            found = self.jobs[self.row_key(job)] = {
                "cases": sum(row.cases for row in rows),
                "mismatches": sum(row.mismatches for row in rows),
                "seconds": round(time.perf_counter() - started, 1),
                **self.on(job),
                **({"first": first} if first else {}),
            }
            self._write()
            print(f"[{number}/{len(left)}] {job.key}: {found['cases']} cases, {found['mismatches']} mismatches, {found['seconds']} s", flush=True)
            if first:
                print(f"  {first}", flush=True)
        return sum(self.jobs[self.row_key(job)]["mismatches"] > 0 for job in jobs)

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(self.path.name + ".part")
        beside.write_text(json.dumps({"jobs": self.jobs}, indent=0) + "\n")
        beside.replace(self.path)
