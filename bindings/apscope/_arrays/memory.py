"""Numbers of bytes, as written on command lines."""

from __future__ import annotations

import re

from .._text import clip
from .checks import integer

UNITS = ("", "K", "M", "G", "T")
#: An upper limit, more than any machine has.
MOST = 2**62


def memory_bytes(memory: int | str | None) -> int:
    """The memory of a replay in bytes; 0 for None, the machine's default."""
    return 0 if memory is None else number_of_bytes("memory", memory)


def number_of_bytes(what: str, value: int | str) -> int:
    """A number of bytes, given as such or as a text.

    Parameters
    ----------
    what : str
        The argument's name, for messages.
    value : int or str
        Bytes, or a text: ``4G``, ``4GiB`` (1024^3 bytes each), ``4GB`` (1000^3), ``512M``,
        ``1.5T``.

    Raises
    ------
    ValueError
        It is not such a text, or below one byte.
    TypeError
        It is neither.
    """
    if not isinstance(value, str):
        return integer(what, value, 1, MOST)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)(B?)\s*", value, re.IGNORECASE)
    if match is None:
        raise ValueError(
            f"{what} '{clip(value)}' is not a number of bytes such as 4000000000, 512M, 4G or 4GiB"
        )
    amount, unit, binary, byte = match.groups()
    base = 1000 if byte and not binary else 1024
    number = float(amount) * base ** UNITS.index(unit.upper())
    if not 1 <= number <= MOST:
        raise ValueError(f"{what} '{clip(value)}' is not between 1 byte and {MOST // 1024**4}T")
    return int(number)
