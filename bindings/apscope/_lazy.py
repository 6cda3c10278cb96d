"""Public names that are imported on first use: a package states once where each is defined."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def lazy(
    package: str, places: Mapping[str, str], modules: Iterable[str] = ()
) -> tuple[list[str], Callable[[str], Any]]:
    """The `__all__` and the `__getattr__` of a package; .ci/stubs.py writes its stub of the same.

    Parameters
    ----------
    package : str
        Its name.
    places : mapping
        A module of apscope -> the public names that it defines, with spaces between them.
    modules : iterable of str
        Modules of the package that are imported in the same way; `__all__` has them only if
        `places` names them under "".
    """
    where = {name: place for place, names in places.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in modules or where.get(name) == "":
            return importlib.import_module(f"{package}.{name}")
        if name not in where:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(importlib.import_module(f"apscope.{where[name]}"), name)
        setattr(sys.modules[package], name, value)  # once
        return value

    return sorted(where), get
