"""The record: what each job found, kept in a JSON file, so that a stopped run goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
import platform
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
    """Jobs done with these sources on this machine's instruction set."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.head = {
            "sources": digest_of_sources(),
            "simd": _core.simd_level(),
            "machine": f"{platform.machine()}, {os.cpu_count()} processors",
        }
        self.done: dict[str, dict[str, Any]] = {}
        if path.exists():
            kept = json.loads(path.read_text())
            if kept.get("sources") == self.head["sources"] and kept.get("simd") == self.head["simd"]:
                self.done = kept["jobs"]

    def run(self, jobs: list[Job]) -> int:
        """Runs what is not yet done; the number of jobs with a mismatch."""
        left = [job for job in jobs if job.key not in self.done]
        print(f"{len(jobs)} jobs, {len(jobs) - len(left)} of them done before", flush=True)
        for number, job in enumerate(left, 1):
            started = time.perf_counter()
            rows = job.run()
            first = next((row.first for row in rows if row.first), None)
            self.done[job.key] = {
                "cases": sum(row.cases for row in rows),
                "mismatches": sum(row.mismatches for row in rows),
                "seconds": round(time.perf_counter() - started, 1),
                **({"first": first} if first else {}),
            }
            self._write()
            found = self.done[job.key]
            print(f"[{number}/{len(left)}] {job.key}: {found['cases']} cases, {found['mismatches']} mismatches, {found['seconds']} s", flush=True)
            if first:
                print(f"  {first}", flush=True)
        return sum(self.done[job.key]["mismatches"] > 0 for job in jobs)

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(self.path.name + ".part")
        beside.write_text(json.dumps({**self.head, "jobs": self.done}, indent=0) + "\n")
        beside.replace(self.path)
