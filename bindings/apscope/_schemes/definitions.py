"""The registry's entry of every scheme."""

from __future__ import annotations

import dataclasses

from .. import _core


@dataclasses.dataclass(frozen=True)
class SchemeKey:
    """A key of a scheme, with its meaning."""

    name: str
    default: str  #: as in specs
    meaning: str


@dataclasses.dataclass(frozen=True)
class SchemeDefinition:
    """The registry's entry of a scheme."""

    name: str  #: in specs
    class_name: str
    summary: str
    source: str
    needs: str  #: inputs besides gradients that a trace must contain, in words
    takes_format: bool
    grid_key: str  #: the key whose value follows the colon without its name, or empty
    #: empty for combinators, whose family is that of the inner scheme (`Scheme.family`)
    family: str
    keys: tuple[SchemeKey, ...]
    body: str  #: content of the parentheses: ``scheme``, ``policy`` or nothing


def definitions() -> list[SchemeDefinition]:
    """Every scheme of the registry, in its order.

    Returns
    -------
    list of SchemeDefinition
    """
    plain = [f.name for f in dataclasses.fields(SchemeDefinition) if f.name != "keys"]
    return [
        SchemeDefinition(
            **{name: d[name] for name in plain}, keys=tuple(SchemeKey(*key) for key in d["keys"])
        )
        for d in _core.scheme_definitions()
    ]
