"""Words of a command, written as on a command line."""

from typing import Any


def argv(line: str, *places: Any) -> list[str]:
    """The line's words, a place for every ``{}`` in their order; places may have spaces."""
    left = iter(places)
    words = [str(next(left)) if word == "{}" else word for word in line.split()]
    assert next(left, None) is None, (line, places)
    return words


def command(line: str, *places: Any) -> int:
    """The exit status of ``apscope`` with these words, in this process."""
    from apscope.cli import main

    return main(argv(line, *places))
