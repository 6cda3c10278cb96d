"""The scheme classes, made from the C++ registry: signatures, and conversion of calls to specs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .._arrays.dtypes import is_dtype
from .._arrays.inputs import as_format
from .._arrays.projection import FIELDS, checked
from .._core import BlockFormat, FloatFormat
from .definitions import SchemeDefinition, definitions
from .scheme import Scheme, as_scheme, spec_of

#: First parameter of a constructor, by the scheme's content: name, annotation, and an example.
_FIRST = {
    "format": ("format", "FloatFormat | str | dtype", "'e4m3'", "The float format of the wire."),
    "scheme": ("scheme", "Scheme | str", "'aps:e4m3'", "The inner scheme."),
    "policy": (
        "branches", "Mapping[str, Scheme | str]", "{'last': 'none:fp16', 'else': 'aps:e4m3'}",
        "Conditions in order, the last ``else``; docs/schemes.md.",
    ),
}  # fmt: skip

#: The key that may be given first, without its name.
_FIRST_KEY = "block_format"

#: Further errors if a projection is accepted.
_NOT_WHOLE = (
    "; a projection together with one of its parts, or with a part that the scheme has no key for"
)


def _value(text: str) -> Any:
    """A default in Python: a truth value, a number if spelt the same way, else text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            if _text("", kind(text)) == text:
                return kind(text)
        except ValueError:
            pass
    return text


def _text(key: str, value: Any) -> str:
    """A key's value as in specs."""
    if isinstance(value, (bool, np.bool_)):
        return str(value).lower()
    if isinstance(value, (float, np.floating)):
        return re.sub(r"(?<=e)\+?(-?)0*", r"\1", repr(float(value)))  # 1e-08 is spelt 1e-8
    if isinstance(value, FloatFormat) or is_dtype(value):
        return as_format(value).name
    if isinstance(value, BlockFormat):
        value = value.name
    if isinstance(value, (str, int, np.integer)):
        return str(value).replace(",", "/") if key == _FIRST_KEY else str(value)
    raise TypeError(
        f"{key}={value!r} is of type {type(value).__name__}; give text, a number, True or False, "
        "or a format"
    )


def _kind(d: SchemeDefinition) -> str:
    """The entry of `_FIRST`, or empty."""
    return d.body or ("format" if d.takes_format else "")


def _parameters(d: SchemeDefinition) -> Iterator[tuple[inspect.Parameter, str, str]]:
    """The constructor's parameters without self, each with its type or default, and its meaning.

    A first parameter, if any, and keyword-only keys; but a block format may be given first, without
    its name. Before the key `rounding` comes the projection that may replace it and other keys.
    """
    first, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    if kind := _kind(d):
        name, annotation, _, meaning = _FIRST[kind]
        yield inspect.Parameter(name, first, annotation=annotation), annotation, meaning
    names = [key.name for key in d.keys]
    for key in d.keys:
        if key.name == "rounding":
            parts = ", ".join(f"`{name}`" for name in FIELDS if name in names)
            projection = inspect.Parameter("projection", keyword, default=None)
            meaning = f"{parts} as one value; give it, or these."
            yield projection, "Projection, optional", meaning
        place, default = first if key.name == _FIRST_KEY else keyword, _value(key.default)
        meaning = f"{key.meaning[0].upper() + key.meaning[1:]}."
        yield inspect.Parameter(key.name, place, default=default), f"default {default!r}", meaning


def _arguments(
    d: SchemeDefinition, given: tuple[Any, ...], keys: dict[str, Any]
) -> tuple[Any, dict[str, str]]:
    """The first argument, and the keys as text.

    Raises
    ------
    TypeError
        In one sentence: a missing argument, too many positional ones, an invalid projection.
    ValueError
        A projection together with one of its parts, or with a part that the scheme has no key for.
    """
    kind, cls = _kind(d), d.class_name
    if kind and not given and _FIRST[kind][0] in keys:
        given = (keys.pop(_FIRST[kind][0]),)
    if kind and not given:
        name, _, example, _ = _FIRST[kind]
        raise TypeError(
            f"{cls} needs {'a ' if kind != 'policy' else ''}{name}, such as {cls}({example})"
        )
    names = [key.name for key in d.keys]
    first = kind and _FIRST[kind][0]
    if not kind and _FIRST_KEY in names:
        first = _FIRST_KEY
        if given and first not in keys and isinstance(given[0], (str, BlockFormat)):
            keys, given = {first: given[0], **keys}, given[1:]
    if len(given) > bool(kind):
        known = (
            f"such as {d.keys[0].name}={_value(d.keys[0].default)!r}"
            if d.keys
            else "of which it has none"
        )
        raise TypeError(
            f"{cls} takes {f'its {first} and then ' if first else ''}keys by name, "
            f"{known}; {given[bool(kind)]!r} has no name"
        )
    if "rounding" in names and (projection := keys.pop("projection", None)) is not None:
        parts = [name for name in FIELDS if name in names]
        projection = checked(
            projection, [key for key in keys if key in FIELDS], parts, f"scheme '{d.name}'"
        )
        keys |= {name: getattr(projection, name) for name in parts}
    # The parser reports unknown keys, whatever their values.
    return given[0] if given else None, {
        key: _text(key, value) if key in names else "" for key, value in keys.items()
    }


def _make_class(d: SchemeDefinition) -> type:
    parameters = list(_parameters(d))
    names = [p.name for p, _, _ in parameters]

    # of the class made below
    def __init__(self: Scheme, *given: Any, **keys: Any) -> None:  # noqa: N807
        first, settings = _arguments(d, given, keys)
        if d.body == "scheme":
            spec = spec_of(d.name, "", settings, as_scheme(first).spec)
        elif d.body == "policy":
            if not isinstance(first, Mapping):
                raise TypeError(
                    f"branches is of type {type(first).__name__}; give a mapping of conditions to "
                    f"schemes, such as {_FIRST['policy'][2]}"
                )
            spec = spec_of(
                d.name, "", settings, ";".join(f"{c}={as_scheme(s).spec}" for c, s in first.items())
            )
        else:
            spec = spec_of(d.name, as_format(first).name if d.takes_format else "", settings)
        try:
            Scheme.__init__(self, spec)
        except ValueError as error:
            if all(key in names for key in settings):
                raise
            raise TypeError(str(error)) from None  # an argument that the function does not have

    doc = [f"{d.summary[0].upper() + d.summary[1:]}.", "", f"Source: {d.source}.", ""]
    doc += ["Parameters", "----------"]
    for p, kind, meaning in parameters:
        doc += [f"{p.name} : {kind}", f"    {meaning}"]
    doc += ["", "Raises", "------"]
    doc += ["TypeError", "    A missing argument, or a key that the scheme does not have."]
    doc += ["ValueError"]
    doc += [f"    A value that a key does not take{_NOT_WHOLE if 'projection' in names else ''}."]
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = inspect.Signature([this, *(p for p, _, _ in parameters)])  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{d.class_name}.__init__"
    members = {"__init__": __init__, "__doc__": "\n".join(doc), "__module__": "apscope.schemes"}
    return type(d.class_name, (Scheme,), members)


#: Class name -> class, in the registry's order.
CLASSES = {d.class_name: _make_class(d) for d in definitions()}
