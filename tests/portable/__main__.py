"""Runs and compares all builds: `python -m tests.portable [--page docs/conformance.md]`.

Prints one line per build and instruction set with the SHA-256 of the program's output for all
schemes; exits with 1 if they differ. With --page the table goes into the page.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import apscope
from apscope import _core

from .columns import columns_of
from .programs import LEVELS, PROGRAMS, ROOT, command

TRACE = "notebooks/data/characters"
BEGIN, END = (
    "<!-- portable: written by python -m tests.portable --page -->",
    "<!-- end of portable -->",
)
HEAD = ("compiler", "library", "processor", "instruction set", "SHA-256", "seconds")


class Run(NamedTuple):
    compiler: str
    library: str
    target: str
    level: str
    digest: str
    seconds: float


def runs(specs: Path) -> Iterator[Run]:
    """The outputs of the programs, one after the other; at the end that of the Python package."""
    here = LEVELS[: LEVELS.index(_core.best_simd_level()) + 1]
    for program in PROGRAMS:
        if not program.path.exists():
            print(
                f"left out: build/{program.folder}, which .ci/portable.sh did not build", flush=True
            )
            continue
        for level in here if program.levels else LEVELS[:1]:
            words, environment = command(program, level, TRACE, str(specs))
            started = time.monotonic()
            printed = subprocess.run(
                words, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE
            ).stdout
            digest = hashlib.sha256(printed).hexdigest()
            yield Run(
                program.compiler(),
                program.library,
                program.target,
                level,
                digest,
                time.monotonic() - started,
            )
    started = time.monotonic()
    digest = hashlib.sha256(
        "".join(columns_of(apscope.replay(ROOT / TRACE, "all"))).encode()
    ).hexdigest()
    yield Run(
        "`apscope.replay`",
        "the Python package",
        "x86-64",
        _core.simd_level(),
        digest,
        time.monotonic() - started,
    )


def table(found: list[Run], schemes: int) -> str:
    """The text of the page."""
    words = subprocess.run(
        ["git", "log", "-1", "--format=`%h`, %cs", "--abbrev=8"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    head = (
        f"{schemes} schemes on `{TRACE}`, at {words.strip()}. Digests are cut here; they were "
        "compared whole."
    )
    rows = [
        (r.compiler, r.library, r.target, r.level, f"`{r.digest[:16]}`", f"{r.seconds:.0f}")
        for r in found
    ]
    return "\n".join(
        [head, "", *(f"| {' | '.join(row)} |" for row in (HEAD, ("---",) * len(HEAD), *rows))]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.portable", description=__doc__.splitlines()[0], allow_abbrev=False
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="docs/conformance.md")
    args = parser.parse_args()
    schemes = [scheme.spec for scheme in apscope.schemes.all_schemes()]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        specs = Path(folder) / "specs.txt"
        specs.write_text("".join(f"{spec}\n" for spec in schemes))
        for run in runs(specs):
            found.append(run)
            print(
                f"{run.digest}  {run.seconds:6.1f} s  {run.compiler}, {run.library}, {run.target}, "
                f"{run.level}",
                flush=True,
            )
    digests = {run.digest for run in found}
    print(
        f"{len(schemes)} schemes, {len(found)} runs: "
        f"{'all agree' if len(digests) == 1 else f'{len(digests)} different outputs'}"
    )
    if args.page and len(digests) == 1:
        text, count = re.subn(
            f"{BEGIN}.*?{END}",
            lambda _: f"{BEGIN}\n\n{table(found, len(schemes))}\n\n{END}",
            args.page.read_text(),
            flags=re.DOTALL,
        )
        if count != 1:
            raise SystemExit(f"{args.page} has {count} places marked '{BEGIN}'; one is needed")
        args.page.write_text(text)
    return len(digests) != 1


if __name__ == "__main__":
    sys.exit(main())
