"""The schemes, as classes made from the C++ registry.

Every class takes the format first (where the scheme has one) and the scheme's keys as keyword
arguments; ``apscope schemes`` lists them. A scheme prints as its spec and is equal to any scheme of
the same spec.
"""

from __future__ import annotations

import json
from typing import Any, Union

from . import _core
from ._core import FloatFormat

__all__ = ["Scheme", "as_scheme", "definitions"]


class Scheme:
    """A scheme: a spec, parsed and checked.

    Parameters
    ----------
    spec : str
        ``name[:format][,key=value...]``, for instance ``aps:e4m3,headroom=one``.

    Raises
    ------
    ValueError
        An unknown name, key or value.
    """

    def __init__(self, spec: str) -> None:
        self._parsed = _core.parse_scheme(spec)

    @property
    def spec(self) -> str:
        """The canonical spec: keys at their defaults are left out."""
        return self._parsed["spec"]

    @property
    def name(self) -> str:
        return self._parsed["name"]

    @property
    def format(self) -> str:
        """The format's name; empty for schemes without one."""
        return self._parsed["format"]

    @property
    def keys(self) -> dict[str, str]:
        """Every key with its value, defaults included."""
        return dict(self._parsed["keys"])

    def to_json(self) -> str:
        return json.dumps({"scheme": self.name, "format": self.format, "keys": self.keys})

    @staticmethod
    def from_json(text: str) -> "Scheme":
        d = json.loads(text)
        return Scheme(_spec(d["scheme"], d.get("format", ""), d.get("keys", {})))

    def __str__(self) -> str:
        return self.spec

    def __repr__(self) -> str:
        return f"Scheme({self.spec!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scheme) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)


def _spec(name: str, format: str, keys: dict[str, Any]) -> str:
    settings = ",".join(f"{key}={value}" for key, value in keys.items())
    if format:
        return f"{name}:{format}" + ("," + settings if settings else "")
    return name + (":" + settings if settings else "")


def as_scheme(scheme: Union[Scheme, str]) -> Scheme:
    """The scheme itself, or the one a spec stands for."""
    if isinstance(scheme, Scheme):
        return scheme
    if isinstance(scheme, str):
        return Scheme(scheme)
    raise TypeError(f"scheme is {type(scheme).__name__}; give a Scheme or a spec such as 'aps:e4m3'")


def definitions() -> list[dict[str, Any]]:
    """The registry: name, class_name, summary, source, needs, takes_format, keys of every scheme."""
    return _core.scheme_definitions()


def _make_class(d: dict[str, Any]) -> type:
    allowed = {key for key, _, _ in d["keys"]}

    def check(keys: dict[str, Any]) -> None:
        for key in keys:
            if key not in allowed:
                raise TypeError(f"{d['class_name']} has no argument '{key}'; its keys are {', '.join(sorted(allowed))}")

    if d["takes_format"]:

        def __init__(self, format: Union[FloatFormat, str], **keys: Any) -> None:
            check(keys)
            Scheme.__init__(self, _spec(d["name"], str(format), keys))
    else:

        def __init__(self, **keys: Any) -> None:
            check(keys)
            Scheme.__init__(self, _spec(d["name"], "", keys))

    doc = [d["summary"][0].upper() + d["summary"][1:] + ".", "", f"Source: {d['source']}.", "", "Parameters", "----------"]
    if d["takes_format"]:
        doc += ["format : FloatFormat or str", "    The float format of the wire."]
    for key, default, meaning in d["keys"]:
        doc += [f"{key} : default {default}", f"    {meaning[0].upper() + meaning[1:]}."]
    return type(d["class_name"], (Scheme,), {"__init__": __init__, "__doc__": "\n".join(doc), "__module__": __name__})


for _definition in definitions():
    globals()[_definition["class_name"]] = _make_class(_definition)
    __all__.append(_definition["class_name"])
del _definition
