"""The hidden names: ``.NAME.apscope-3f9c2a71`` during writing, ``.NAME.apscope-lock`` for locks."""

from __future__ import annotations

import os
import re

_LONGEST = 100  # bytes of a name kept in its hidden names: file systems allow 255


def stem(name: str) -> str:
    """The beginning of a destination's hidden names."""
    return f".{os.fsdecode(os.fsencode(name)[:_LONGEST])}.apscope-"


def lock_of(name: str) -> str:
    """The name of a destination's lock."""
    return f"{stem(name)}lock"


def fresh(name: str) -> str:
    """An unpredictable hidden name."""
    return f"{stem(name)}{os.urandom(4).hex()}"


def waiting(names: str) -> re.Pattern[str]:
    """The hidden names of files that match the expression `names`, of earlier versions too."""
    return re.compile(rf"\.(?:{names})\.apscope-[0-9a-f]{{8}}|(?:{names})\.part")
