"""Checks the files as texts: layers, lengths, headers, drawn rows, and unfinished notes.

Prints one line per finding, and exits 1 if there is any.
"""

from __future__ import annotations

import collections
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CPP = {".h", ".cpp", ".cu"}
SUFFIXES = CPP | {".py", ".sh", ".js"}
MAX_LINES = 525
#: Columns of a line: of every line of JavaScript, whose formatter does not break texts, and of all
#: lines of code but a small share, which tables and samples need.
MAX_COLUMNS = 100
WIDE_SHARE = 0.003
CODE = CPP | {".py", ".js", ".css"}

# What each layer may include of the project, and of other libraries.
LAYERS = ["core", "emulation", "analysis", "bindings"]
LIBRARIES = {
    "core": ("xmmintrin.h",),  # the processor's flags
    "emulation": (
        "cuda_runtime",
        "cuda/atomic",
        "emmintrin.h",
        "immintrin.h",
        "re2/",
    ),  # streaming stores; names that match
    "analysis": ("nlohmann/", "immintrin.h"),  # the peak that the bench is held to
    "bindings": (
        "pybind11/",
        "xtensor/",
        "nlohmann/",  # what the C++ library writes
        "apscope/",
    ),  # the last: the C++ library's headers, as its examples have them
}
#: The folders that are libraries of their own; each may include of the project what it names and
#: what is below that.
BELOW = {
    "core": [],
    "core/oracle": ["core"],
    "emulation/machine": ["core"],
    "emulation/draws": ["emulation/machine"],
    "emulation/cast": ["emulation/draws"],
    "emulation/blocks": ["emulation/cast"],
    "emulation/arithmetic": ["emulation/cast"],
    "emulation/allreduce": ["emulation/arithmetic"],
    "emulation/schemes": ["emulation/allreduce", "emulation/blocks"],
    "emulation/verify": ["core/oracle", "emulation/cast", "emulation/arithmetic"],
    "emulation/cuda": ["emulation/blocks", "emulation/allreduce"],
    "analysis/trace": ["emulation/machine"],
    "analysis/statistics": ["emulation/allreduce"],
    "analysis/cost": ["emulation/schemes"],
    "analysis/summary": ["analysis/statistics", "analysis/cost"],
    "analysis/replay": ["analysis/trace", "analysis/statistics", "analysis/cost"],
    "analysis/bench": ["analysis/replay"],
    "analysis/cuda": ["emulation/cuda", "analysis/statistics", "analysis/replay"],
    "bindings/cpp": ["analysis/summary", "analysis/replay", "emulation/verify"],
    "bindings/module": [
        "bindings/cpp",
        "analysis/summary",
        "analysis/bench",
        "analysis/cuda",
        "emulation/verify",
    ],
}
SYSTEM = ("fcntl.h", "sched.h", "signal.h", "unistd.h", "sys/")  # POSIX
ORACLE_ONLY = ("mpfr", "gmp", "boost/")
ORACLE = (
    "core/oracle/",
    "bindings/cpp/apscope/multiprecision.h",
)  # and the public header that takes Boost's numbers
USERS = "tests/bindings/cpp/"  # of the C++ library, with libraries of their own
XTENSOR = "bindings/cpp/apscope/xtensor.h"
LATER = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]) + r")\b")
#: A row that is drawn in a C++ comment: a formula, a table or bits. clang-format leaves it alone.
DRAWN = re.compile(r"\s*// {3,}(?=\S)")
#: What ends a statement within a drawn row: a gap between columns, punctuation, a word.
STATEMENT_ENDS = re.compile(
    r" {2,}|[;,:] |\b(?:if|else|where|with|over|of|for|and|or|unless|so|than)\b"
)
BRACKETS = re.compile(r"\([^()]*\)|\[[^][]*\]|\{[^{}]*\}|`[^`]*`")
RELATIONS = re.compile(r"(?<= )(?:=|<=|>=|<|>)(?= )")
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)
#: A type that a header defines outside other types.
TYPE = re.compile(
    r"^(?:struct|class|enum class|enum) (\w+)(?: final)?(?: :[^;{]*)?\s*\{", re.MULTILINE
)


def tracked() -> list[str]:
    """Every file that git knows or would take."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return sorted(name for name in listed.stdout.splitlines() if (ROOT / name).is_file())


def includes(text: str) -> list[tuple[str, str]]:
    """The brackets and names of a file's includes."""
    return re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', text, re.MULTILINE)


def library_of(name: str) -> str | None:
    """The innermost folder of `BELOW` that a file lies in."""
    return max((folder for folder in BELOW if name.startswith(f"{folder}/")), key=len, default=None)


def reaches(folder: str) -> set[str]:
    """A folder and all that is below it."""
    return {folder}.union(*(reaches(below) for below in BELOW[folder]))


def wrong_includes(name: str, text: str) -> Iterator[str]:
    """Dependencies point one way; MPFR and Boost stay in the oracle, xtensor in one header."""
    layer = name.partition("/")[0]
    if name.startswith(USERS):
        return
    if layer in LAYERS and Path(name).suffix in CPP and library_of(name) is None:
        yield "lies in a folder that BELOW does not name"
    for bracket, included in includes(text):
        if included.endswith("multiprecision.h"):
            yield f"includes {included}, and so Boost: that is for users"
        if included.startswith(ORACLE_ONLY) and not name.startswith(ORACLE):
            yield f"includes {included}, which is the oracle's alone"
        if included.startswith("xtensor/") and name != XTENSOR:
            yield f"includes {included}, which {XTENSOR} is there for"
        if layer not in LAYERS:
            continue
        if bracket == '"':
            below = tuple(f"{folder}/" for folder in LAYERS[: LAYERS.index(layer) + 1])
            if "/" not in included and (ROOT / name).with_name(included).is_file():
                continue  # beside it, as headers that are installed name each other
            library, of = library_of(name), library_of(included)
            if not included.startswith(below):
                yield f"includes {included}, which is not below {layer}/"
            elif library and (of is None or of not in reaches(library)):
                yield f"includes {included}, which is not below {library}/"
        elif "/" in included or "." in included:  # else a header of the standard library
            libraries = (
                LIBRARIES[layer]
                + (SYSTEM if layer != "core" else ())
                + (ORACLE_ONLY if name.startswith(ORACLE) else ())
            )
            if not included.startswith(libraries):
                yield f"includes {included}, a library that {layer}/ does not use"


def is_chain(statement: str) -> bool:
    """Whether a statement has one relation at most, or more that read on: a <= b < c."""
    while (inner := BRACKETS.sub("", statement)) != statement:
        statement = inner
    relations = RELATIONS.findall(statement)
    return len(relations) < 2 or any(
        set(relations) <= chain for chain in ({"<", "<="}, {">", ">="})
    )


def columns(row: str) -> set[int]:
    """Where the columns of a drawn row after the first begin, and where its relations stand."""
    return {gap.end() for gap in re.finditer(r"(?<=[^\s/]) {2,}", row)} | {
        relation.start() for relation in RELATIONS.finditer(row)
    }


def joined_rows(text: str) -> Iterator[str]:
    """Drawn rows that join two statements, or that are broken as prose is.

    A row is broken as prose if the next one begins no deeper and shares no column with it, and if
    its first word had no room in the row. Rows that go on under a column, and items of a list that
    begin with a dash, may be broken so.
    """
    above, margin = "", 0
    lines = text.splitlines()
    for place, (line, below) in enumerate(zip(lines, [*lines[1:], ""], strict=True), 1):
        if row := DRAWN.match(line):
            margin = min(margin or row.end(), row.end())
            if not all(is_chain(part) for part in STATEMENT_ENDS.split(line[row.end() :])):
                yield f"joins two statements on line {place}: one formula, one row"
            rest = re.match(r"\s*// +(?=\S)", below)
            if (
                rest
                and rest.end() <= row.end() == margin
                and not re.match(r"\s*// - ", above)
                and not columns(line) & columns(below)
                and len(line) + 1 + len(below[rest.end() :].split(" ")[0]) > MAX_COLUMNS
            ):
                yield f"breaks the drawn row on line {place} as prose: go on under its column"
        else:
            above, margin = line, 0


def findings(name: str, text: str) -> Iterator[str]:
    """What is wrong with one file."""
    path = Path(name)
    if match := LATER.search(text):
        yield f"says {match.group()}: finish it, or leave it out"
    if path.suffix not in SUFFIXES:
        return
    if (lines := len(text.splitlines())) > MAX_LINES:
        yield f"has {lines} lines; {MAX_LINES} are the limit"
    if path.suffix == ".js":
        for place, line in enumerate(text.splitlines(), 1):
            if len(line) > MAX_COLUMNS:
                yield f"has {len(line)} columns on line {place}; {MAX_COLUMNS} are the limit"
    if path.suffix == ".h" and not text.startswith("//"):
        yield "does not begin with a comment that says what it is for"
    if path.suffix in CPP:
        yield from joined_rows(text)
    yield from wrong_includes(name, text)


def defined_twice(texts: dict[str, str]) -> Iterator[str]:
    """Types of one name and namespace in two headers: a program may mix up their functions."""
    headers: dict[str, list[str]] = collections.defaultdict(list)
    for name, text in texts.items():
        for found in TYPE.finditer(text):
            spaces = NAMESPACE.findall(text[: found.start()])
            headers["::".join([*spaces[-1:], found[1]])].append(name)
    for type_, names in headers.items():
        if len(names) > 1:
            yield f"{' and '.join(names)} define {type_}: one of both needs another name"


def too_wide(names: list[str]) -> str:
    """The finding about lines of code beyond `MAX_COLUMNS`, if they are more than `WIDE_SHARE`."""
    wide: list[str] = []
    total = 0
    for name in names:
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        total += len(lines)
        wide += [name for line in lines if len(line) > MAX_COLUMNS]
    if len(wide) <= WIDE_SHARE * total:
        return ""
    (worst, most), *_ = collections.Counter(wide).most_common()
    return (
        f"{len(wide)} of {total} lines of code have more than {MAX_COLUMNS} columns, {most} of "
        f"them in {worst}; {WIDE_SHARE:.1%} are the limit"
    )


def main() -> int:
    """Look at every source and page."""
    names = [
        name
        for name in tracked()
        if Path(name).suffix in SUFFIXES | {".md", ".txt"} or Path(name).name == "Makefile"
    ]
    sources = [name for name in names if Path(name).suffix in SUFFIXES]
    if len(sources) < 100 or {name.partition("/")[0] for name in sources} < set(LAYERS):
        print(f"{len(sources)} sources were found in {ROOT}: that cannot be all", file=sys.stderr)
        return 1
    count = 0
    for name in names:
        for finding in findings(name, (ROOT / name).read_text(encoding="utf-8")):
            print(f"{name} {finding}")
            count += 1
    headers = [name for name in sources if name.endswith(".h") and name.partition("/")[0] in LAYERS]
    for finding in defined_twice({n: (ROOT / n).read_text(encoding="utf-8") for n in headers}):
        print(finding)
        count += 1
    if wide := too_wide([name for name in tracked() if Path(name).suffix in CODE]):
        print(wide)
        count += 1
    print(f"{len(names)} files, {count} findings", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
