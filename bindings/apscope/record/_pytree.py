"""Nested containers of arrays, flattened to dotted names."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from typing import Any


def flatten(tree: Any) -> Iterator[tuple[str, Any]]:
    """The arrays of a nesting of containers, each with the keys on the way to it joined by dots.

    Mappings, sequences, named tuples and dataclasses are opened in their own order; None is left out. Where
    JAX is loaded, its registered containers are opened as it does, its dicts in the order of their keys.

    Parameters
    ----------
    tree : pytree
        An array by itself is called ``value``.
    """
    jax = sys.modules.get("jax")
    for path, leaf in _walk(tree, ()) if jax is None else jax.tree_util.tree_flatten_with_path(tree)[0]:
        yield ".".join(map(_word, path)) or "value", leaf


def _walk(tree: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if tree is None:
        return
    if isinstance(tree, Mapping):
        items: Any = tree.items()
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        items = zip(tree._fields, tree, strict=True)
    elif isinstance(tree, (list, tuple)):
        items = enumerate(tree)
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        items = ((f.name, getattr(tree, f.name)) for f in dataclasses.fields(tree))
    else:
        yield path, tree
        return
    for key, value in items:
        yield from _walk(value, (*path, key))


def _word(key: Any) -> str:
    """A key, or what is in one of JAX's: DictKey, SequenceKey, GetAttrKey, FlattenedIndexKey."""
    for attribute in ("key", "idx", "name"):
        if type(key).__module__.startswith("jax") and hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)
