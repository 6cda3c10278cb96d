"""The record: what each job found, kept in a JSON file, so that a stopped run goes on where it was."""

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
#: What is proved: a change here asks for the proofs again.
SOURCES = ("core", "emulation")


def digest_of_sources() -> str:
    """SHA-256 over the emulator's C++ sources, by path."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


class Record:
    """What was found, job by job; a job done with these sources on this instruction set is not done again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.on = {"sources": digest_of_sources()[:12], "simd": _core.simd_level(), "processors": os.cpu_count()}
        self.jobs: dict[str, dict[str, Any]] = json.loads(path.read_text())["jobs"] if path.exists() else {}

    def is_done(self, job: Job) -> bool:
        found = self.jobs.get(job.key)
        return found is not None and (found["sources"], found["simd"]) == (self.on["sources"], self.on["simd"])

    def run(self, jobs: list[Job]) -> int:
        """Runs what is not yet done; the number of jobs with a mismatch."""
        left = [job for job in jobs if not self.is_done(job)]
        print(f"{len(jobs)} jobs, {len(jobs) - len(left)} of them done before", flush=True)
        for number, job in enumerate(left, 1):
            started = time.perf_counter()
            rows = job.run()
            first = next((row.first for row in rows if row.first), None)
            found = self.jobs[job.key] = {
                "cases": sum(row.cases for row in rows),
                "mismatches": sum(row.mismatches for row in rows),
                "seconds": round(time.perf_counter() - started, 1),
                **self.on,
                **({"first": first} if first else {}),
            }
            self._write()
            print(f"[{number}/{len(left)}] {job.key}: {found['cases']} cases, {found['mismatches']} mismatches, {found['seconds']} s", flush=True)
            if first:
                print(f"  {first}", flush=True)
        return sum(self.jobs[job.key]["mismatches"] > 0 for job in jobs)

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(self.path.name + ".part")
        beside.write_text(json.dumps({"jobs": self.jobs}, indent=0) + "\n")
        beside.replace(self.path)
