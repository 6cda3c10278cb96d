"""Run clang-tidy on sources that changed since the branch main, and on headers through a source.

python .ci/tidy.py [--all]. Reads build/tidy/compile_commands.json; exits 1 where there is a
finding.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/tidy"
LAYERS = ("core/", "emulation/", "analysis/", "bindings/")


def git(*arguments: str) -> list[str]:
    """The lines that git answers; none where it fails."""
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()


def changed() -> set[str]:
    """Files that differ from where this branch left main; on main, from the commit before."""
    base = git("merge-base", "HEAD", "origin/main") or git("merge-base", "HEAD", "main")
    if not base or base == git("rev-parse", "HEAD"):
        base = git("rev-parse", "HEAD~1")
    return {*git("diff", "--name-only", *base), *git("ls-files", "--others", "--exclude-standard")}


def headers_of(name: str, known: dict[str, set[str]]) -> set[str]:
    """The project's headers that a file includes, and those that they do."""
    if name not in known:
        known[name] = set()
        text = (ROOT / name).read_text() if (ROOT / name).is_file() else ""
        for header in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            known[name] |= {header} | headers_of(header, known)
    return known[name]


def chosen(sources: list[str]) -> list[str]:
    """Sources that cover every changed file: a header by the source with the fewest includes."""
    names = changed()
    if ".clang-tidy" in names:
        return sources
    known: dict[str, set[str]] = {}
    seen_by = {source: headers_of(source, known) for source in sources}
    picked = names & set(sources)
    for header in sorted(name for name in names if name.endswith(".h")):
        if not any(header in seen_by[source] for source in picked):
            picked |= set(
                sorted(
                    (source for source in sources if header in seen_by[source]),
                    key=lambda s: (len(seen_by[s]), s),
                )[:1]
            )
    return sorted(picked)


def tidy(source: str) -> str:
    """What clang-tidy says of one source and its headers."""
    command = [Path(sys.executable).parent / "clang-tidy", "-p", BUILD, "--quiet", ROOT / source]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.stdout if ran.returncode else ""


def main() -> int:
    """Print each finding once."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    compiled = {
        Path(command["file"]).relative_to(ROOT).as_posix()
        for command in commands
        if Path(command["file"]).is_relative_to(ROOT)
    }
    sources = sorted(source for source in compiled if source.startswith(LAYERS))
    if len(sources) < 50:
        print(f"{len(sources)} sources in {BUILD}: that cannot be all", file=sys.stderr)
        return 1
    picked = sources if "--all" in sys.argv[1:] else chosen(sources)
    findings = set()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for said in pool.map(tidy, picked):
            for finding in re.split(r"\n(?=/)", said):
                if finding.strip() and finding not in findings:
                    findings.add(finding)
                    print(finding.replace(f"{ROOT}/", ""), flush=True)
    print(f"{len(picked)} of {len(sources)} sources, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
