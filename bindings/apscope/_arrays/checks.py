"""Arguments that must be of one kind: one sentence each, before C++ sees them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar, cast

import numpy as np

from .._text import clip, count_of

_Init = TypeVar("_Init", bound=Callable[..., None])


def shown(value: Any) -> str:
    """The value in a message: one line, clipped; its type if it has no repr.

    NumPy's numbers are shown as Python's, arrays by their shape.
    """
    if isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, np.ndarray) and value.size > 1:
        return f"an array of shape {value.shape}"
    try:
        return clip(" ".join(repr(value).split()))
    except ValueError:  # an integer of thousands of digits
        return type(value).__name__


def integer(name: str, value: Any, low: int, high: int) -> int:
    """The value as an int of low..high; TypeError for anything else, ValueError outside."""
    if isinstance(value, bool):
        raise TypeError(f"{name}={value} must be an integer, not a bool")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={shown(value)} must be an integer") from None
    if not low <= number <= high:
        raise ValueError(
            f"{name}={number} is not between {low} and "
            f"{high if high < 2**53 else f'2^{high.bit_length()} - 1'}"
        )
    return number


def text(name: str, value: Any) -> str:
    """The value, which must be a str that UTF-8 can encode."""
    if not isinstance(value, str):
        raise TypeError(
            f"{name}={shown(value)} must be a string, such as the names that docs/definitions.md "
            "lists"
        )
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"{name}={clip(value)!r} contains half a surrogate pair; remove it"
            ) from None
    return value


def of_type(name: str, value: Any, types: type | tuple[type, ...], give: str) -> Any:
    """The value, which must be of a type; else TypeError says what to give."""
    if not isinstance(value, types):
        raise TypeError(f"{name} is {shown(value)}, of type {type(value).__name__}; give {give}")
    return value


def made_by(sentence: str) -> Callable[[_Init], _Init]:
    """For the constructor of a class that functions make: the message about missing arguments."""

    def words(init: _Init) -> _Init:
        @functools.wraps(init)
        def call(*given: Any, **named: Any) -> None:
            try:
                init(*given, **named)
            except TypeError as error:
                if "__init__()" not in str(error):
                    raise
                raise TypeError(sentence) from None

        return cast("_Init", call)

    return words


def number(name: str, value: Any) -> Any:
    """The value, which must be an int or a float, Python's or NumPy's."""
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, int | float | np.integer | np.floating
    ):
        raise TypeError(f"{name}={shown(value)} must be a number")
    if isinstance(value, int) and abs(value) >= 2**1024:
        bits = value.bit_length()
        raise ValueError(f"{name} is an integer of {bits} bits; fp64 has none so large")
    return value


def listed(name: str, values: Any, most: int = 100_000) -> list[Any]:
    """The values of an iterable as a list, which must not be a text and not have more than `most`.

    Raises
    ------
    TypeError
        It is not an iterable.
    ValueError
        It has more values, or is endless.
    """
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        raise TypeError(f"{name}={shown(values)} must be a list")
    several = list(islice(values, most + 1))
    if len(several) > most:
        raise ValueError(f"{name} has more than {most} values; give fewer")
    return several


def flag(name: str, value: Any) -> bool:
    """The value, which must be True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}={shown(value)} must be True or False")
    return bool(value)


def taken(seed: Any) -> Any:
    """The seed of one call: the next one of a `Draws`, else the given number."""
    return seed.next() if hasattr(seed, "next") else seed


def workers_first(shape: tuple[int, ...], what: str = "x") -> tuple[int, ...]:
    """The shape of one worker's array, of a shape that must be (workers, ...); `what` has it.

    Raises
    ------
    ValueError
        No worker; a vector, whose numbers could be workers or the values of one worker.
    """
    if len(shape) < 2 or not shape[0]:
        sentence = (
            f"{what} has shape {tuple(shape)}; its first axis must be the workers, at least one: "
            "give (workers, ...)"
        )
        if len(shape) == 1 and shape[0]:
            sentence += (
                f"; x[None] is one worker with {count_of(shape[0], 'value')}, x[:, None] "
                f"{count_of(shape[0], 'worker')} with one value each"
            )
        raise ValueError(sentence)
    return tuple(shape[1:])
