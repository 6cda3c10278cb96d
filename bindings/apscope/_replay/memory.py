"""Amounts of memory, as command lines write them."""

from __future__ import annotations

import re

from .._arrays.checks import integer

__all__ = ["memory_bytes"]

UNITS = ("", "K", "M", "G", "T")


def memory_bytes(memory: int | str | None) -> int:
    """A number of bytes; 0 for None, which leaves it to the machine.

    Parameters
    ----------
    memory : int or str or None
        Bytes, or a text: ``4G``, ``4GiB`` (1024^3 bytes each), ``4GB`` (1000^3), ``512M``, ``1.5T``.

    Raises
    ------
    ValueError
        It is no such text, or below one byte.
    TypeError
        It is neither of them.
    """
    if memory is None:
        return 0
    if not isinstance(memory, str):
        return integer("memory", memory, 1, 2**62)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)(B?)\s*", memory, re.IGNORECASE)
    if found is None:
        raise ValueError(f"memory '{memory}' is not a number of bytes such as 4000000000, 512M, 4G or 4GiB")
    amount, unit, binary, byte = found.groups()
    base = 1000 if byte and not binary else 1024
    return integer("memory", int(float(amount) * base ** UNITS.index(unit.upper())), 1, 2**62)
