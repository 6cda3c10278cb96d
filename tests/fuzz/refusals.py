"""The property of the Python targets: foreign input is accepted, or refused by a ValueError (or
OSError) of one sentence."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

try:
    import atheris
except ImportError:  # the functions alone, for tests
    atheris = None


def instrumented(*modules: str) -> contextlib.AbstractContextManager:
    """Imports in it are seen by the fuzzer, where there is one."""
    return (
        atheris.instrument_imports(include=list(modules)) if atheris else contextlib.nullcontext()
    )


def taken(call: Callable[[], Any]) -> bool:
    """Whether `call` takes what it is given; raises where it refuses it by anything but one
    sentence."""
    try:
        call()
    except (ValueError, OSError) as error:
        sentence = str(error)
        assert sentence.strip(), f"a refusal without a word: {error!r}"
        assert "\n" not in sentence, f"a refusal of several lines: {error!r}"
        return False
    return True


def places(value: Any, place: tuple = ()) -> Iterator[tuple]:
    """Where the values of a JSON text stand: their keys from the outermost to their own."""
    yield place
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield from places(inner, (*place, key))


def replaced(value: Any, place: tuple, other: Any) -> Any:
    """The same with another value at a place; `Ellipsis` takes it out."""
    if not place:
        return None if other is ... else other
    holder = value
    for key in place[:-1]:
        holder = holder[key]
    if other is ...:
        del holder[place[-1]]
    else:
        holder[place[-1]] = other
    return value


#: What a careless or a hostile program may write in the place of any value.
ODD_VALUES = (
    ..., None, True, 0, -1, 1, 2, 64, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308,
    float("nan"), float("inf"), "", "x", "digits", "bias",
    "aps:e4m3", "a\nb", "\x1b[1m", "\ud800", "e4m3", "9" * 400, [], [None], [0], ["x"], [0, 1],
    [1, 0], [0, 0], {}, {"name": "x"}, [[[[]]]], "../x", "/etc/passwd",
)  # fmt: skip
