"""The record as a section of docs/conformance.md."""

from pathlib import Path

from docs.tools import page

from .jobs import expected
from .record import Record, Row

PARTS = {
    "all inputs": "array path against the oracle's steps: all 2^32 fp32 inputs, every "
    "deterministic mode, on AVX-512 beside an overflow in their buffer too; encode "
    "and decode at every code; the rule and its own loop at every value, midpoint "
    "and their neighbours",
    "P3109, all inputs": "the same for every P3109 format of up to 16 bits whose values fp32 holds",
    "P3109 beyond fp32": "those whose values fp64 holds and fp32 does not, "
    "as the formats beyond fp32 below",
    "rule": "rule, array path and codes against MPFR and exact rationals, every (exponent 1..8) x "
    "(fraction 0..23), every rounding, overflow and underflow rule",
    "fp64 formats": "the same for formats with values beyond fp32",
    "arithmetic": "add, subtract, multiply, divide, sqrt, fma against MPFR; all operands up to 8 "
    "bits (fma: 6), else boundaries and samples",
    "sampled fma": "fma against MPFR, 10^8 random triples a format "
    "to nearest, 10^7 towards negative",
}
#: On further instruction sets.
THE_SAME = "the same, without a second turn beside an overflow"
HEAD = (
    "what is compared",
    "on",
    "proved at",
    "formats",
    "jobs",
    "comparisons",
    "mismatches",
    "minutes",
)


def proved_at(rows: list[Row], expected: int) -> str:
    """The commits at which a part was proved, with their days, and how many jobs were not run."""
    commits = sorted({(row.day, row.commit) for row in rows})
    if not commits:
        return "not run"
    (first, one), (last, _) = commits[0], commits[-1]
    words = (
        f"`{one}`, {first}" if len(commits) == 1 else f"{len(commits)} commits, {first} to {last}"
    )
    return (
        words if len(rows) == expected else f"{words}; {expected - len(rows)} of {expected} not run"
    )


def render(record: Record) -> list[str]:
    """A table with a row for every part and instruction set."""
    asked = expected()
    groups = list(dict.fromkeys((job.part, simd) for job, simd in asked))
    lines = []
    processors = set()
    for part, words in PARTS.items():
        for number, simd in enumerate(simd for p, simd in groups if p == part):
            jobs = [job for job, s in asked if (job.part, s) == (part, simd)]
            rows = {job.key: row for job in jobs if (row := record.row(job, simd)) is not None}
            processors |= {row.processors for row in rows.values()}
            formats, asked_formats = (
                len({job.format for job in some})
                for some in ([job for job in jobs if job.key in rows], jobs)
            )
            cases, wrong, seconds = (
                sum(getattr(row, what) for row in rows.values())
                for what in ("cases", "mismatches", "seconds")
            )
            lines.append([
                THE_SAME if number else words,
                simd,
                proved_at(list(rows.values()), len(jobs)),
                f"{formats} of {asked_formats}",
                f"{len(rows):,}",
                f"{cases:,}",
                f"{wrong}",
                f"{seconds / 60:.1f}",
            ])  # fmt: skip
    on = " or ".join(map(str, sorted(processors))) or "no"
    return [f"On {on} processors.", "", *page.table(HEAD, lines)]


def write(record: Record, place: Path) -> None:
    """Puts the table of the record into its section of a page."""
    page.write(place, {"exhaustive": render(record)})
