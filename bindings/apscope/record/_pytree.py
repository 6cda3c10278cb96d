"""Nested containers of arrays, flattened to dotted names."""

from __future__ import annotations

import dataclasses
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from .._traces.safetensors import storable
from .._traces.sources import natural

#: The keys on the path to an array, each after its sort key for ordering by name.
Path = tuple[tuple[Any, Any], ...]


def flatten(tree: Any) -> tuple[dict[str, Any], bool]:
    """The arrays of nested containers, named by dotted keys, and whether their order is a guess.

    Mappings, sequences, named tuples and dataclasses are traversed in their own order; None is
    skipped. If JAX is loaded, other containers registered there are traversed as in JAX. JAX sorts
    the keys of the dicts that it returns, so dicts that are all in alphabetical order say nothing
    about the order of layers: the natural order (2 before 10) is used. A single array is named
    ``value``.

    Raises
    ------
    ValueError
        Two arrays have the same name.
    """
    alphabetical: list[bool] = []
    arrays = list(_walk(tree, (), alphabetical, sys.modules.get("jax")))
    if guessed := bool(alphabetical) and all(alphabetical):
        arrays.sort(key=lambda pair: [rank for rank, _ in pair[0]])
    leaves: dict[str, Any] = {}
    for path, leaf in arrays:
        name = ".".join(_word(key) for _, key in path) or "value"
        if name in leaves:
            raise ValueError(
                f"two arrays have the name {name!r}, their keys joined by dots; rename a key of "
                "one of them"
            )
        leaves[name] = leaf
    return leaves, guessed


class Leaves:
    """The arrays of the steps of one recording; the first step defines names and order.

    `chosen` says whether a name is recorded. `workers` are along every array's first axis; None if
    the arrays belong to one, whose number is that of the `process`.
    """

    def __init__(
        self,
        chosen: Callable[[str], bool] | None,
        workers: int | None,
        process: int,
        round_to_fp32: bool = False,
    ):
        self._chosen, self._workers, self._process = chosen, workers, process
        self._round = round_to_fp32
        self._shapes: dict[str, tuple[int, ...]] | None = None

    def arrays(
        self, tree: Any, step: int
    ) -> tuple[dict[int, dict[str, np.ndarray]], list[str], bool]:
        """Worker -> name -> a copy of the values; the missing names; whether order is a guess.

        Raises
        ------
        ValueError
            There is no array, one has a wrong dtype, or its first axis is not the workers.
        """
        in_tree, guessed = flatten(tree)
        leaves = {
            name: leaf
            for name, leaf in in_tree.items()
            if self._chosen is None or self._chosen(name)
        }
        arrays = {
            name: storable(
                leaf,
                f"gradient {name!r} of step {step}",
                self._round,
                remedy="pass round_to_fp32=True to the recorder, or round it to float32 first",
            )
            for name, leaf in leaves.items()
        }
        if not arrays and self._shapes is None:
            which = (
                f"the first is {next(iter(in_tree))!r}; choose others by tensors="
                if in_tree
                else "give the step's gradients"
            )
            raise ValueError(
                f"step {step} has no array to record: {len(in_tree)} were given, {which}"
            )
        if self._workers is not None:
            for name, array in arrays.items():
                if array.shape[:1] != (self._workers,):
                    raise ValueError(
                        f"gradient {name!r} has shape {array.shape}; its first axis must be the "
                        f"{self._workers} workers"
                    )
        if self._shapes is None:
            self._shapes = {name: array.shape for name, array in arrays.items()}
        zeros = [name for name in self._shapes if name not in arrays]
        complete = {
            name: arrays.pop(name) if name in arrays else np.zeros(shape, np.float32)
            for name, shape in self._shapes.items()
        } | arrays
        if self._workers is None:
            return {self._process: complete}, zeros, guessed
        of_workers = {
            worker: {name: array[worker] for name, array in complete.items()}
            for worker in range(self._workers)
        }
        return of_workers, zeros, guessed


def _walk(tree: Any, path: Path, alphabetical: list[bool], jax: Any) -> Iterator[tuple[Path, Any]]:
    """Leaves with their paths; `alphabetical` gets whether each ordered mapping is alphabetical."""
    if tree is None:
        return
    items: Any
    if isinstance(tree, Mapping):
        items = [((natural(str(key)), str(key)), key, value) for key, value in tree.items()]
        if len(tree) > 1 and all(isinstance(key, str) for key in tree):
            alphabetical.append(not isinstance(tree, OrderedDict) and list(tree) == sorted(tree))
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        items = [(i, *pair) for i, pair in enumerate(zip(tree._fields, tree, strict=True))]
    elif isinstance(tree, (list, tuple)):
        items = [(i, i, value) for i, value in enumerate(tree)]
    elif jax is not None:
        inner = jax.tree_util.tree_flatten_with_path(
            tree, is_leaf=lambda node: isinstance(node, Mapping)
        )[0]
        for i, (keys, leaf) in enumerate(inner):
            longer = (*path, *((i, key) for key in keys))
            yield from (
                _walk(leaf, longer, alphabetical, jax)
                if isinstance(leaf, Mapping)
                else [(longer, leaf)]
            )
        return
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        items = [(i, f.name, getattr(tree, f.name)) for i, f in enumerate(dataclasses.fields(tree))]
    else:
        yield path, tree
        return
    for rank, key, value in items:
        yield from _walk(value, (*path, (rank, key)), alphabetical, jax)


def _word(key: Any) -> str:
    """A key, or the content of JAX's DictKey, SequenceKey, GetAttrKey or FlattenedIndexKey."""
    for attribute in ("key", "idx", "name"):
        if type(key).__module__.startswith("jax") and hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)
