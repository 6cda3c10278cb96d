"""The hidden names beside what is written: ``.NAME.apscope-3f9c2a71`` while it is, ``.NAME.apscope-lock`` for its lock."""

from __future__ import annotations

import os
import re

__all__ = ["fresh", "lock_of", "stem", "waiting"]

_LONGEST = 100  # bytes of a name that its hidden names keep: file systems end at 255


def stem(name: str) -> str:
    """How the hidden names beside a place begin."""
    return f".{os.fsdecode(os.fsencode(name)[:_LONGEST])}.apscope-"


def lock_of(name: str) -> str:
    """The name of a place's lock."""
    return f"{stem(name)}lock"


def fresh(name: str) -> str:
    """A hidden name that nobody can foresee."""
    return f"{stem(name)}{os.urandom(4).hex()}"


def waiting(names: str) -> re.Pattern[str]:
    """The hidden names of files whose names match the regular expression `names`; those of earlier versions, too."""
    return re.compile(rf"\.(?:{names})\.apscope-[0-9a-f]{{8}}|(?:{names})\.part")
