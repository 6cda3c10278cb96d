"""Marked sections of pages, tables, and the other parts that the commands of this folder share.

A section stands between `<!-- NAME: written by COMMAND -->` and `<!-- end of NAME -->`.
"""

import argparse
import os
import platform
import re
import statistics
import textwrap
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
DATA = ROOT / "notebooks" / "data"
#: The bundled traces.
TRACES = ("digits", "digits_w64", "characters", "resnet18", "gpt")
QUIET = "(0 is a quiet machine)"

Key = TypeVar("Key", bound=Hashable)


def replaced(text: str, name: str, lines: Iterable[str]) -> str:
    """The text with these lines as the section `name`.

    Raises
    ------
    ValueError
        The text does not have the section exactly once.
    """
    block = "\n".join(["", "", *lines, "", ""])
    section = rf"(<!-- {re.escape(name)}: [^\n]* -->).*?(<!-- end of {re.escape(name)} -->)"
    text, count = re.subn(section, lambda m: m[1] + block + m[2], text, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{count} sections are marked '{name}'; there must be one")
    return text


def read(page: Path, name: str) -> list[str]:
    """The lines of a section."""
    text = page.read_text()
    begin = text.index("\n", text.index(f"<!-- {name}: "))
    return text[begin : text.index(f"<!-- end of {name} -->", begin)].strip("\n").splitlines()


def rows(page: Path, name: str) -> list[list[str]]:
    """The cells of the tables of a section, without their heads."""
    lines = [line for line in read(page, name) if line.startswith("|")]
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line, after in zip(lines, [*lines[1:], ""])
        if not line.startswith("|---") and not after.startswith("|---")
    ]


def write(page: Path, sections: Mapping[str, Iterable[str]]) -> None:
    """Put the lines of all these sections into a page."""
    text = page.read_text()
    for name, lines in sections.items():
        text = replaced(text, name, lines)
    page.write_text(text)


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """A table of Markdown, line by line."""
    heads = list(heads)
    lines = [f"| {' | '.join(map(str, line))} |" for line in (heads, *rows)]
    return [lines[0], "|" + "---|" * len(heads), *lines[1:]]


def wrapped(text: str) -> str:
    """A paragraph, or an item of a list that begins with "- ", in lines of 100 columns."""
    indent = "  " * text.startswith("- ")
    return textwrap.fill(
        text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def ratio(value: float) -> str:
    """A quotient of speeds, as a fraction of 1 where it is small."""
    return f"{value:.2f}" if value >= 0.1 else f"1/{1 / value:.0f}"


def span(values: Iterable[float], say: Callable[[float], str] = "{:.2g}".format) -> str:
    """The least and the largest of some figures that are not NaN."""
    values = [value for value in values if value == value]
    return f"{say(min(values))} to {say(max(values))}"


def listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def machine() -> str:
    """Processor, how many, vector instructions, NumPy and the day, as a sentence's beginning."""
    import numpy as np

    from apscope import _core

    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        found = re.search(
            r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE
        )
        name = found.group(1) if found else name
    return (
        f"{name}, {os.cpu_count()} processors, {_core.simd_level()}, NumPy {np.__version__}, "
        f"{time.strftime('%Y-%m-%d', time.gmtime())}"
    )


def proc(file: str, key: str) -> int:
    """Bytes that a file of Linux's /proc states."""
    with open(f"/proc/{file}") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))


def medians(runs: Mapping[Key, Sequence[Sequence[float]]]) -> dict[Key, list[float]]:
    """The median of every figure over the runs of each job."""
    return {
        job: [statistics.median(figures) for figures in zip(*each)] for job, each in runs.items()
    }


def options(doc: str, sources: str = "") -> argparse.ArgumentParser:
    """The options of a command that writes into one page, from `sources` if these are described."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if sources:
        parser.add_argument("sources", type=Path, nargs="+", help=sources)
    parser.add_argument("page", type=Path, help="page with the section, such as docs/PAGE.md")
    return parser
