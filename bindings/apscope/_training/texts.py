"""The texts of the task characters: by name, or a file; read without PyTorch."""

from __future__ import annotations

import hashlib
import re
import subprocess

from .._folders.reading import read_utf8
from .._limits import TEXT_LENGTH

#: Of Genesis as the trace was recorded from it.
GENESIS_SHA256 = "e7b72bfd25d395f55a3bd0c1ada5cbf3fd627f61734d239503d834ac9b5e23b6"


def genesis() -> str:
    """Genesis, one verse per line, without numbers: about 190 thousand characters."""
    try:
        told = subprocess.run(
            ["bible", "-f", "ge1:1-50:26"], capture_output=True, text=True, check=True
        ).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        raise ValueError(
            "the text genesis needs Debian's program bible: apt-get install bible-kjv; "
            "or give text = 'python', or a file's path"
        ) from None
    text = "\n".join(re.sub(r"^Ge\d+:\d+ ", "", line) for line in told.splitlines()) + "\n"
    if hashlib.sha256(text.encode()).hexdigest() != GENESIS_SHA256:
        raise ValueError(
            "the program bible printed another text than that of bible-kjv 4.38; "
            "install that version"
        )
    return text


def python() -> str:
    """The language reference that ``help()`` shows."""
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))


#: The texts that have a name.
NAMED = {"genesis": genesis, "python": python}


def read(text: str) -> str:
    """A text by name, or a file's.

    Raises
    ------
    ValueError
        It is not installed; or there is no such file, or it is not UTF-8 or too long.
    """
    if text in NAMED:
        return NAMED[text]()
    try:
        return read_utf8(text, TEXT_LENGTH)
    except OSError as error:
        raise ValueError(
            f"text={text!r} is not genesis or python, and not a file that can be read: "
            f"{error.strerror or error}"
        ) from None
    except ValueError as error:
        raise ValueError(f"text={text!r}: {error}") from None
