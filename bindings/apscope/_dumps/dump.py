"""All arrays of a dump, and the numbers beside them: loss, learning rate, loss scale."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from .._arrays.casts import decode
from .dtypes import CODES, numpy_dtype
from .layout import Layout, Options
from .names import Item, Named, list_of, number_of
from .patterns import compiled
from .step_numbers import Number, NumbersOf, of_steps
from .units import Apart, Readers, Unit, reading


class Dump:
    """All arrays of all units, and the numbers beside them."""

    def __init__(
        self, units: list[Unit], readers: Readers, apart: Apart, options: Options, source: str
    ):
        self.items: list[Item] = []
        self.notes: list[str] = []
        self._ordered: dict[str, bool] = {}
        self._nones: list[str] = []  # addresses
        self._numbers: list[Number] = []
        axes = [axis for axis in (options.worker_axis, options.step_axis) if isinstance(axis, int)]
        of_step: dict[str, None] = {}
        for unit in units:
            try:
                reader = readers.open(unit)
                with reading(unit.label):
                    if not reader.entries:
                        raise ValueError("it has no array; remove it from the dump")
            except ValueError as error:
                apart.report(unit.stem, error)
                continue
            with reading(unit.label):
                beside = NumbersOf(unit)
                for path, value in reader.scalars.items():
                    if (kind := number_of(path)) is not None:
                        beside.add(path, kind, value)
                    elif (of := list_of(path)) is not None:
                        beside.add_to_list(of, value)
                for entry in reader.entries:
                    item = Item(unit, entry)
                    word = options.word(item)
                    shape = [length for axis, length in enumerate(entry.shape) if axis not in axes]
                    name = entry.key or unit.stem
                    kind, of = number_of(name, shape), list_of(name, shape)
                    values_lack = entry.layout != "dense" or entry.refusal
                    if (kind is None and of is None) or values_lack or numpy_dtype(word) is None:
                        self.items.append(item)
                        continue
                    of_step[re.split("[/.]", name if of is None else of)[-1]] = None
                    count = math.prod(entry.shape)
                    if kind is not None:
                        values = _decoded(reader.read(entry.key), word)
                        for value, step in _by_step(values, options.step_axis):
                            beside.add(entry.key, kind, value, step)
                    elif of is not None:
                        one = _decoded(reader.read(entry.key), word).item() if count == 1 else 0.0
                        beside.add_to_list(of if entry.key else "", one, count)
                self._numbers += beside.numbers
            self._nones += [f"{unit.stem}/{path}" for path in reader.nones if not number_of(path)]
            self._ordered[unit.label] = reader.ordered
            self.notes += [note for note in reader.notes if note not in self.notes]
        for left in () if self.items else apart.broken.values():
            raise left
        if not self.items:
            raise ValueError(
                f"{source} has no array except {', '.join(of_step)}, numbers of a step; dump the "
                "gradients beside them"
            )
        if of_step:
            self.notes.append(f"treated as numbers of a step, not as tensors: {', '.join(of_step)}")

    def ordered(self, layout: Layout) -> bool:
        """Whether the first step and worker have one unsorted file, in the order of layers."""
        units = {
            unit.label
            for step, worker, unit in layout.files()
            if step == layout.steps[0] and worker == 0
        }
        if layout.micro > 1:  # the same names in every micro-batch's file
            units = set(sorted(units)[:1])
        return len(layout.tensors) == 1 or (
            len(units) == 1 and all(self._ordered[label] for label in units)
        )

    def left_out(self, named: Sequence[Named], pattern: str) -> list[str]:
        """Addresses of tensors that are None everywhere, so that nothing gives their shape."""
        regex = compiled(pattern)
        if "tensor" not in regex.groupindex:
            known = {n.item.entry.key for n in named}
            return [address for address in self._nones if address.rsplit("/", 1)[-1] not in known]
        matches = ((n.item.address, regex.fullmatch(n.item.address)) for n in named)
        known = {match["tensor"] for _, match in matches if match}
        return [
            address
            for address in self._nones
            if not (match := regex.fullmatch(address)) or match["tensor"] not in known
        ]

    def numbers(
        self, layout: Layout, pattern: str, loss_scale: float | str | None
    ) -> tuple[dict[int, dict[str, float]], dict[int, float]]:
        """Loss and learning rate of every step that has them; loss scales (`of_steps`)."""
        seen = [item.unit for item in self.items]
        return of_steps(self._numbers, layout, pattern, seen, loss_scale)


def _decoded(values: np.ndarray, word: str) -> np.ndarray:
    return np.asarray(
        decode(values.view(numpy_dtype(word)), CODES[word]) if word in CODES else values,
        dtype=np.float64,
    )


def _by_step(values: np.ndarray, step_axis: int | str | None) -> list[tuple[float, int | None]]:
    """Every value, and its step if given by an axis."""
    if not isinstance(step_axis, int) or step_axis >= values.ndim:
        return [(value, None) for value in values.ravel().tolist()]
    return [
        (value, step)
        for step, of in enumerate(np.moveaxis(values, step_axis, 0))
        for value in of.ravel().tolist()
    ]
