"""The order of layers: the files' own, the natural one of names, or a given one."""

from __future__ import annotations

from collections.abc import Sequence

from .._folders.reading import read_utf8, refuse_special
from .._limits import TEXT_LENGTH
from .._traces.order import FILES, GIVEN, NATURAL
from .._traces.sources import natural


def order_tensors(tensors: Sequence[str], ordered: bool, path: str | None) -> tuple[list[str], str]:
    """Tensors in the order of layers, and its source: `FILES`, `NATURAL` or `GIVEN`.

    `tensors` are as in the files, whose order is intended if `ordered`. `path`, if there is one, is
    a file with one name per line; every tensor must be among them.

    Raises
    ------
    ValueError
        The file cannot be read, lists a tensor twice, or lacks one.
    """
    if path is None:
        by_name = sorted(tensors, key=natural)
        # layers.10 before layers.2: not intended.
        sorted_keys = list(tensors) == sorted(tensors) != by_name
        return (list(tensors), FILES) if ordered and not sorted_keys else (by_name, NATURAL)
    names = names_in(path)
    places = {name: i for i, name in enumerate(names)}
    if lost := [tensor for tensor in tensors if tensor not in places]:
        raise ValueError(
            f"{path} lacks the tensor {lost[0]!r}, and {len(lost) - 1} others; name every tensor "
            "of the dump, one per line"
        )
    return sorted(tensors, key=lambda tensor: places[tensor]), GIVEN


def names_in(path: str) -> list[str]:
    """The names in a caller's file, one per line; ValueError as of `order_tensors`."""
    refuse_special(path)
    try:
        names = [line.strip() for line in read_utf8(path, TEXT_LENGTH).splitlines() if line.strip()]
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read as a list of names: {error.strerror or error}"
        ) from None
    except ValueError as error:
        raise ValueError(f"{error}; give a list of names, one per line") from None
    if len(set(names)) != len(names):
        raise ValueError(
            f"{path} has {next(name for name in names if names.count(name) > 1)!r} twice; name "
            "every tensor once"
        )
    return names
