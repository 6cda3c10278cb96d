"""The record: the result of each job on an instruction set, in a JSON file of one line per row, so
that a stopped run goes on where it was."""

import json
import os
import re
import time
from collections import defaultdict
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from statistics import median
from typing import NamedTuple

from apscope import _core

from .jobs import Job
from .proved import PATHS, ROOT, Repository

RECORDED = ROOT / "tests" / "exhaustive" / "recorded.json"
SECONDS_BETWEEN_WRITES = 1.0


class Key(NamedTuple):
    part: str
    simd: str
    name: str


@dataclass(frozen=True)
class Row:
    """The result of a job."""

    cases: int  #: comparisons
    mismatches: int  #: how many of them differ
    seconds: float
    commit: str  #: that was proved
    day: str  #: of the commit, ISO 8601
    processors: int
    first: str = ""  #: the first mismatch


def read(path: Path) -> dict[Key, Row]:
    """The rows of a record; none if the file does not exist."""
    if not path.exists():
        return {}
    parts = json.loads(path.read_text())["rows"]
    return {
        Key(part, simd, name): Row(*row)
        for part, sets in parts.items()
        for simd, rows in sets.items()
        for name, row in rows.items()
    }


def write(path: Path, rows: dict[Key, Row]) -> None:
    """One line per row, names in the order of the numbers in them; written to a temporary file
    first, so that no half-written file remains."""
    parts: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for key in sorted(
        rows,
        key=lambda key: (
            key.part,
            key.simd,
            [int(word) if word.isdigit() else word for word in re.split(r"(\d+)", key.name)],
        ),
    ):
        row = list(astuple(rows[key]))
        parts[key.part][key.simd].append(
            f"{json.dumps(key.name)}: {json.dumps(row if row[-1] else row[:-1])}"
        )
    groups = [
        f"{json.dumps(part)}: {{\n"
        + ",\n".join(
            f"{json.dumps(simd)}: {{\n" + ",\n".join(lines) + "\n}" for simd, lines in sets.items()
        )
        + "\n}"
        for part, sets in parts.items()
    ]
    columns = json.dumps([field.name for field in fields(Row)])
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    beside.write_text(f'{{\n"columns": {columns},\n"rows": {{\n' + ",\n".join(groups) + "\n}\n}\n")
    beside.replace(path)


class Record:
    """The rows of a file, and which of them hold for the commit in use."""

    def __init__(self, path: Path = RECORDED, repository: Repository | None = None) -> None:
        self.path = path
        self.rows = read(path)
        self.repository = repository or Repository()
        self._written = 0.0

    def row(self, job: Job, simd: str) -> Row | None:
        return self.rows.get(Key(job.part, simd, job.name))

    def is_done(self, job: Job, simd: str) -> bool:
        """Whether the job has been run on what the commit in use has, whatever it found."""
        row = self.row(job, simd)
        return row is not None and self.repository.holds(row.commit, PATHS[job.part])

    def run(self, asked: list[tuple[Job, str]], minutes: float | None = None) -> int:
        """Runs what is not done, and starts nothing after so many minutes; the number of jobs asked
        for that found a mismatch."""
        left = [(job, simd) for job, simd in asked if not self.is_done(job, simd)]
        print(f"{len(asked)} jobs, {len(asked) - len(left)} of them done before", flush=True)
        begun, in_use = time.monotonic(), _core.simd_level()
        try:
            for number, (job, simd) in enumerate(left, 1):
                if minutes is not None and time.monotonic() - begun >= 60 * minutes:
                    print(f"{len(left) - number + 1} jobs are left", flush=True)
                    break
                _core.set_simd_level(simd)
                row = self._run(job, simd)
                print(
                    f"[{number}/{len(left)}] {job.key}, {simd}: {row.cases} cases, "
                    f"{row.mismatches} mismatches, {row.seconds} s",
                    flush=True,
                )
                if row.first:
                    print(f"  {row.first}", flush=True)
        finally:
            _core.set_simd_level(in_use)
            if left:
                write(self.path, self.rows)
        return sum(
            row is not None and row.mismatches > 0 for row in (self.row(*each) for each in asked)
        )

    def _run(self, job: Job, simd: str) -> Row:
        (commit, day), started = self.repository.head(), time.monotonic()
        found = job.run()
        cases, mismatches = (
            sum(getattr(one, what) for one in found) for what in ("cases", "mismatches")
        )
        first = next((one.first for one in found if one.first), "")
        row = Row(
            cases,
            mismatches,
            round(time.monotonic() - started, 1),
            commit,
            day,
            os.cpu_count() or 1,
            first,
        )
        self.rows[Key(job.part, simd, job.name)] = row
        if time.monotonic() - self._written >= SECONDS_BETWEEN_WRITES:
            write(self.path, self.rows)
            self._written = time.monotonic()
        return row


@dataclass
class Standing:
    """The state of a part of the record on an instruction set: counts of rows."""

    part: str
    simd: str
    expected: int = 0
    recorded: int = 0
    standing: int = 0  #: found without a mismatch, on what the commit in use has
    behind: int = 0  #: found at a commit that differs in what they run through
    missing: int = 0
    wrong: int = 0  #: with a mismatch, at whatever commit
    #: to prove what is behind, by the median of the times recorded: a busy machine makes outliers
    hours_left: float = 0.0


def standings(record: Record, asked: list[tuple[Job, str]]) -> list[Standing]:
    """Part by part and instruction set by instruction set, in the order of what is asked."""
    groups: dict[tuple[str, str], list[Job]] = defaultdict(list)
    for job, simd in asked:
        groups[job.part, simd].append(job)
    found = []
    for (part, simd), jobs in groups.items():
        rows = [(job, row) for job in jobs if (row := record.row(job, simd)) is not None]
        done = [(job, row) for job, row in rows if record.is_done(job, simd)]
        standing = Standing(
            part,
            simd,
            len(jobs),
            len(rows),
            sum(row.mismatches == 0 for _, row in done),
            len(rows) - len(done),
            len(jobs) - len(rows),
        )
        standing.wrong = sum(row.mismatches > 0 for _, row in rows)
        if rows:
            standing.hours_left = (
                median(row.seconds for _, row in rows) * (standing.behind + standing.missing) / 3600
            )
        found.append(standing)
    return found


def table(found: list[Standing]) -> str:
    """The counts as columns of text, and their sums."""
    words = [name.replace("_", " ") for name in asdict(Standing("", ""))]
    total = Standing(
        "all",
        "",
        *(sum(getattr(s, name) for s in found) for name in list(asdict(Standing("", "")))[2:]),
    )
    lines = [
        words,
        *(
            [f"{value:.1f}" if isinstance(value, float) else str(value) for value in astuple(s)]
            for s in [*found, total]
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i < 2 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )
