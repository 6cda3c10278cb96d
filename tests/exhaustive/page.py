"""The record as a section of docs/conformance.md."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from .jobs import main_jobs, p3109_jobs

BEGIN, END = "<!-- exhaustive: written by make exhaustive -->", "<!-- end of exhaustive -->"
PARTS = {
    "all inputs": "array path against the oracle's steps: all 2^32 fp32 inputs, every deterministic mode, "
    "on AVX-512 beside an overflow in their buffer too, and the rule's own loop; encode and decode at every code",
    "P3109, all inputs": "the same for every P3109 format of up to 16 bits whose values fp32 holds",
    "P3109 beyond fp32": "those whose values fp64 holds and fp32 does not, as the formats beyond fp32 below",
    "rule": "rule, array path and codes against MPFR and exact rationals, every (exponent 1..8) x (fraction 0..23), every rounding, overflow and underflow rule",
    "fp64 formats": "the same for formats with values beyond fp32",
    "arithmetic": "add, subtract, multiply, divide, sqrt, fma against MPFR; all operands up to 8 bits (fma: 6), else boundaries and samples",
    "sampled fma": "fma against MPFR, 10^8 random triples a format to nearest, 10^7 towards negative",
}


def summary(record: dict[str, Any]) -> str:
    """Table rows: part, formats, jobs, comparisons, mismatches, time, the digest of the sources and the instruction sets, and how many jobs ran on each."""
    keys = {(j.part, j.name.split()[0]) for j in main_jobs() + p3109_jobs(0, 1)}
    asked = Counter(part for part, _ in keys)
    lines = ["| what is compared | formats | jobs | comparisons | mismatches | minutes | sources | instruction sets |", "|---|---|---|---|---|---|---|---|"]
    for part, words in PARTS.items():
        jobs = {key[len(part) + 2 :]: found for key, found in record["jobs"].items() if key.startswith(part + ": ")}
        formats = {name.split()[0] for name in jobs}
        names = {name.removesuffix(f" on {found['simd']}") for name, found in jobs.items()}
        cases, wrong = (sum(found[what] for found in jobs.values()) for what in ("cases", "mismatches"))
        minutes = sum(found["seconds"] for found in jobs.values()) / 60
        sources, sets = (_counted(Counter(found[what] for found in jobs.values())) for what in ("sources", "simd"))
        lines.append(f"| {words} | {len(formats)} of {asked[part]} | {len(names)} | {cases:,} | {wrong} | {minutes:.1f} | {sources} | {sets} |")
    return "\n".join(lines)


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{name}: {n}" if len(found) > 1 else name for name, n in found.most_common())


def write(record_file: Path, page: Path) -> None:
    """Puts the tables of the record between the page's marks."""
    record = json.loads(record_file.read_text())
    kinds = {(f["simd"], f["processors"]) for f in record["jobs"].values()}
    on = "; ".join(f"{simd}, {processors} processors" for simd, processors in sorted(kinds))
    words = f"On {on}.\n\n{summary(record)}"
    text = page.read_text()
    new, found = re.subn(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: f"{BEGIN}\n\n{words}\n\n{END}", text, flags=re.S)
    if found != 1:
        raise ValueError(f"{page} has {found} places marked for the record; one is needed")
    page.write_text(new)
