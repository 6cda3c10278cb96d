"""All arrays of a dump, and the numbers beside them: loss, learning rate, loss scale."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from .._arrays.casts import decode
from .dtypes import CODES, numpy_dtype
from .layout import Layout, Options
from .names import Item, Named, number_of
from .patterns import compiled
from .units import Apart, Readers, Unit, told


class Dump:
    """All arrays of all units, and the numbers beside them."""

    def __init__(
        self, units: list[Unit], readers: Readers, apart: Apart, options: Options, source: str
    ):
        self.items: list[Item] = []
        self.notes: list[str] = []
        self._ordered: dict[str, bool] = {}
        self._nones: list[str] = []  # addresses
        self._numbers: list[
            tuple[Unit, str, str, float, int | None]
        ] = []  # address, kind, value, step if given by an axis
        axes = [axis for axis in (options.worker_axis, options.step_axis) if isinstance(axis, int)]
        taken: dict[str, None] = {}
        for unit in units:
            try:
                reader = readers.open(unit)
                with told(unit.label):
                    if not reader.entries:
                        raise ValueError("it has no array; remove it from the dump")
            except ValueError as error:
                apart.tell(unit.stem, error)
                continue
            with told(unit.label):
                found: list[tuple[str, str, float, int | None]] = [
                    (path, kind, value, None)
                    for path, value in reader.scalars.items()
                    if (kind := number_of(path))
                ]
                for entry in reader.entries:
                    item = Item(unit, entry)
                    word = options.word(item)
                    shape = [length for axis, length in enumerate(entry.shape) if axis not in axes]
                    kind = number_of(entry.key or unit.stem, shape)
                    values_lack = entry.layout != "dense" or entry.refusal
                    if kind is None or values_lack or numpy_dtype(word) is None:
                        self.items.append(item)
                    else:
                        taken[re.split("[/.]", entry.key or unit.stem)[-1]] = None
                        values = _decoded(reader.read(entry.key), word)
                        found += [
                            (entry.key, kind, value, step)
                            for value, step in _by_step(values, options.step_axis)
                        ]
            for path, kind, value, step in found:
                if kind:
                    self._numbers.append(
                        (unit, f"{unit.stem}/{path}" if path else unit.stem, kind, value, step)
                    )
            self._nones += [f"{unit.stem}/{path}" for path in reader.nones if not number_of(path)]
            self._ordered[unit.label] = reader.ordered
            self.notes += [note for note in reader.notes if note not in self.notes]
        for left in () if self.items else apart.broken.values():
            raise left
        if not self.items:
            raise ValueError(
                f"{source} has no array except {', '.join(taken)}, numbers of a step; dump the "
                "gradients beside them"
            )
        if taken:
            self.notes.append(f"treated as numbers of a step, not as tensors: {', '.join(taken)}")

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
            return [
                address
                for unit_path in self._nones
                if (address := unit_path).rsplit("/", 1)[-1] not in known
            ]
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
        """Loss (the workers' mean) and learning rate of every step that has them; loss scales."""
        regex = compiled(pattern)
        # A file with only numbers may be of any step.
        steps: dict[str, set[int]] = {unit.label: set(layout.steps) for unit, *_ in self._numbers}
        steps |= {item.unit.label: set() for item in self.items}
        for step, _, unit in layout.files():
            steps.setdefault(unit.label, set()).add(step)
        found: dict[int, dict[str, list[float]]] = {step: {} for step in layout.steps}
        for unit, address, key, value, counted in self._numbers:
            match = regex.fullmatch(address if "tensor" in regex.groupindex else unit.stem)
            named = match.groupdict().get("step") if match else None
            own = counted if named is None else int(named)
            of = steps[unit.label] if own is None else steps[unit.label] & {own}
            if key == "loss_scale" and value != 1 and loss_scale is None and of:
                raise ValueError(
                    f"{unit.label} has the loss scale {value:g}, and nothing says whether its "
                    "gradients still include it; pass --loss-scale "
                    f"{'recorded' if len(of) == 1 else f'{value:g}'} if they do, so that they are "
                    "divided by it, --loss-scale 1 if they were unscaled"
                )
            if len(of) == 1:
                found[next(iter(of))].setdefault(key, []).append(value)
        if loss_scale == "recorded" and (
            lost := [step for step, values in found.items() if "loss_scale" not in values]
        ):
            raise ValueError(
                f"loss_scale is 'recorded', but the files of step {lost[0]} have no loss_scale; "
                "give the number"
            )
        numbers: dict[int, dict[str, float]] = {}
        scales: dict[int, float] = {}
        for step, values in found.items():
            numbers[step] = {
                key: fmean(several) for key, several in values.items() if key != "loss_scale"
            }
            if loss_scale == "recorded":
                if len(set(values["loss_scale"])) > 1:
                    raise ValueError(
                        f"the files of step {step} have several loss scales, "
                        f"{values['loss_scale'][0]:g} and others; a step has one"
                    )
                scale = scales[step] = values["loss_scale"][0]
                if not (math.isfinite(scale) and scale > 0):
                    raise ValueError(
                        f"the files of step {step} have the loss scale {scale:g}, and gradients "
                        "can be divided only by a number above 0; leave the step out with --steps"
                    )
            elif loss_scale is not None and loss_scale != 1:
                scales[step] = float(loss_scale)
        return numbers, scales if any(scale != 1 for scale in scales.values()) else {}


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
