"""Common parts of scripts that write into pages: the machine's name, and lines between markers."""

import os
import platform
import re
import textwrap
import time
from pathlib import Path

import numpy as np

from apscope import _core


def machine() -> str:
    """Processor, how many, vector instructions, NumPy and the day, as a sentence's beginning."""
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


def wrapped(text: str) -> str:
    """A paragraph, or an item of a list that begins with "- ", in lines of 100 columns."""
    indent = "  " * text.startswith("- ")
    return textwrap.fill(
        text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def replace_between(page: Path, begin: str, end: str, lines: list[str]) -> None:
    """Put `lines` between the two markers, which must be there once."""
    block = "\n".join([begin, "", *lines, "", end])
    text, count = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: block, page.read_text(), flags=re.DOTALL
    )
    if count != 1:
        raise SystemExit(f"{page} has {count} places marked '{begin}'; one is needed")
    page.write_text(text)
