"""The texts of the tasks characters and tokens: by name, or a file; read without PyTorch."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

from .._folders.reading import read_utf8
from .._limits import TEXT_LENGTH

#: Of Genesis as the trace was recorded from it.
GENESIS_SHA256 = "e7b72bfd25d395f55a3bd0c1ada5cbf3fd627f61734d239503d834ac9b5e23b6"


def genesis() -> str:
    """Genesis, one verse per line, without numbers: about 190 thousand characters."""
    try:
        verses = subprocess.run(
            ["bible", "-f", "ge1:1-50:26"], capture_output=True, text=True, check=True
        ).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        raise ValueError(
            "the text genesis needs Debian's program bible: apt-get install bible-kjv; "
            "or give text = 'python', or a file's path"
        ) from None
    text = "\n".join(re.sub(r"^Ge\d+:\d+ ", "", line) for line in verses.splitlines()) + "\n"
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


def stdlib() -> str:
    """The sources of the modules of Python's standard library that are one file, by name."""
    folder = Path(os.__file__).parent
    files = [folder / f"{name}.py" for name in sorted(sys.stdlib_module_names)]
    sources = [read_utf8(path, TEXT_LENGTH) for path in files if path.is_file()]
    if not sources:
        raise ValueError(
            f"the text stdlib needs the sources of Python's standard library, but {folder} has "
            "none; give text = 'python', or a file's path"
        )
    return "".join(sources)


#: The texts that have a name.
NAMED = {"genesis": genesis, "python": python, "stdlib": stdlib}


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
            f"text={text!r} is not {', '.join(NAMED)}, and not a file that can be read: "
            f"{error.strerror or error}"
        ) from None
    except ValueError as error:
        raise ValueError(f"text={text!r}: {error}") from None
