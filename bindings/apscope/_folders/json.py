"""Reads JSON from elsewhere: too long, too deep or invalid JSON is refused in one sentence."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from .._limits import JSON_DEPTH, JSON_DIGITS, JSON_LENGTH
from .._text import clip
from .reading import read_limited

#: The test of a JSON value, and its description.
Rule: TypeAlias = tuple[Callable[[Any], bool], str]


def is_integer(value: Any) -> bool:
    """An integer of at most 64 bits; not true or false."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def is_number(value: Any) -> bool:
    """Such an integer, or a finite float."""
    return is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def _of(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


INTEGER: Rule = (is_integer, "an integer")
NUMBER: Rule = (is_number, "a number")
TEXT: Rule = (_of(str), "a text")
LIST: Rule = (_of(list), "a list")
OBJECT: Rule = (_of(dict), "an object")


def check_keys(what: Mapping[str, Any], keys: Mapping[str, Rule], where: str) -> None:
    """Raises ValueError for the first missing key or bad value; the text follows a file's name."""
    for key, (right, must) in keys.items():
        if key not in what:
            raise ValueError(f"it has no {where}{key}")
        if not right(what[key]):
            raise ValueError(f"{where}{key} is {clip(json.dumps(what[key]))}; it must be {must}")


class _TwiceError(ValueError):
    pass


def parse_json(data: bytes | str, longest: int = JSON_LENGTH) -> Any:
    """The value of a text; a duplicate key is refused because readers would disagree about it.

    Raises
    ------
    ValueError
        In words that follow the text's name: "its JSON ...".
    """
    if not isinstance(data, bytes | str):
        raise TypeError(f"{data!r:.60} is {type(data).__name__}; give a text of JSON")
    if len(data) > longest:
        raise ValueError(f"its JSON has {len(data)} bytes; at most {longest} are read")
    try:
        value = json.loads(
            data.decode("utf-8") if isinstance(data, bytes) else data,
            object_pairs_hook=_without_duplicates,
        )
    except _TwiceError:
        raise
    except RecursionError:
        raise ValueError(f"its JSON is nested more than {JSON_DEPTH} deep") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"its JSON is not UTF-8 (at byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"its JSON is damaged at line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError:  # Python's message on an integer
        raise ValueError(f"its JSON has an integer of more than {JSON_DIGITS} digits") from None
    _check_depth(value)
    return value


def read_json(path: str | os.PathLike[str], longest: int = JSON_LENGTH) -> Any:
    """The value of a file, as `parse_json` reads it; the sentence begins with the file's name."""
    data = read_limited(path, longest)
    try:
        return parse_json(data, longest)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


def _check_depth(value: Any) -> None:
    level: list[Any] = [[value]]
    for _ in range(JSON_DEPTH + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise ValueError(f"its JSON is nested more than {JSON_DEPTH} deep")


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _TwiceError(f"the key {clip(twice)!r} occurs twice in its JSON")
    return value
