"""The numbers beside a dump's arrays: the step that each is of, and the loss scales to divide by."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from .._text import plain_number
from .layout import Layout, range_of
from .patterns import compiled
from .units import Unit


@dataclass(frozen=True)
class Number:
    """A number beside the arrays.

    Attributes
    ----------
    address : str
        Its unit's stem and its key.
    kind : str
        As of `names.number_of`.
    counted : int or None
        The step, if an axis of its array counts them.
    count : int
        How many there are under this name; `value` is the number if there is one.
    """

    unit: Unit
    address: str
    kind: str
    value: float
    counted: int | None = None
    count: int = 1


class NumbersOf:
    """Collects the numbers of one unit; a list of loss scales is one of them."""

    def __init__(self, unit: Unit):
        self._unit = unit
        self._found: list[Number] = []
        self._lists: dict[str, Number] = {}

    @property
    def numbers(self) -> list[Number]:
        return [*self._found, *self._lists.values()]

    def add(self, path: str, kind: str, value: float, step: int | None = None) -> None:
        """A number under its key; one of the kind "" is of no use."""
        if kind:
            self._found.append(Number(self._unit, self._address(path), kind, value, step))

    def add_to_list(self, path: str, value: float, count: int = 1) -> None:
        """Loss scales of the list under this key; `value` is the number if there is one."""
        count += self._lists[path].count if path in self._lists else 0
        self._lists[path] = Number(
            self._unit, self._address(path), "loss_scale", value, count=count
        )

    def _address(self, path: str) -> str:
        return f"{self._unit.stem}/{path}" if path else self._unit.stem


def of_steps(
    numbers: Sequence[Number],
    layout: Layout,
    pattern: str,
    units: Sequence[Unit],
    loss_scale: float | str | None,
) -> tuple[dict[int, dict[str, float]], dict[int, float]]:
    """Loss (the workers' mean) and learning rate of every step that has them; loss scales.

    A loss scale that is of no step is that of every step of its file, or of the dump if its file
    has no array, that has none of its own. `pattern` is the one that found the arrays' steps;
    `units` are all that have arrays, selected or not; `loss_scale` is the user's.

    Raises
    ------
    ValueError
        A recorded loss scale is not 1 and `loss_scale` is not given, or is another number than 1;
        it is recorded and a step has none, several, or one that divides nothing; a list of them.
    """
    steps: dict[str, set[int]] = {n.unit.label: set(layout.steps) for n in numbers}
    steps |= {unit.label: set() for unit in units}
    for step, _, unit in layout.files():
        steps.setdefault(unit.label, set()).add(step)
    names = _StepNames(layout, pattern)
    single: dict[int, dict[str, list[Number]]] = {step: {} for step in layout.steps}
    shared: dict[int, dict[str, list[Number]]] = {step: {} for step in layout.steps}
    for number in numbers:
        named = names.step_of(number)
        of = steps[number.unit.label] & (steps[number.unit.label] if named is None else {named})
        if of and number.count != 1 and loss_scale != 1:
            raise ValueError(
                f"{number.unit.label} has {number.count} loss scales in {number.address!r}, and a "
                "step has one; save one number beside the gradients of each step, or pass "
                "--loss-scale 1 if they were unscaled"
            )
        if number.count != 1 or (len(of) > 1 and number.kind != "loss_scale"):
            continue
        for one in of:
            (shared if named is None else single)[one].setdefault(number.kind, []).append(number)
    of_step = {step: shared[step] | single[step] for step in layout.steps}
    recorded = {step: of["loss_scale"] for step, of in of_step.items() if "loss_scale" in of}
    if loss_scale == "recorded":
        scales = _recorded(recorded, layout.steps)
    else:
        _check_given(recorded, layout.steps, loss_scale)
        scales = {} if loss_scale is None else dict.fromkeys(layout.steps, float(loss_scale))
    return {
        step: {
            kind: fmean(number.value for number in several)
            for kind, several in of.items()
            if kind != "loss_scale"
        }
        for step, of in of_step.items()
    }, scales if any(scale != 1 for scale in scales.values()) else {}


def _recorded(recorded: Mapping[int, Sequence[Number]], steps: Sequence[int]) -> dict[int, float]:
    """Every step's own loss scale."""
    if lost := [step for step in steps if step not in recorded]:
        remedy = _remedy(recorded, steps)
        raise ValueError(
            f"loss_scale is 'recorded', but the files of step {lost[0]} have no loss_scale; "
            + (
                f"select the steps that have one with {remedy.partition(' ')[2]}"
                if remedy.startswith("recorded ")
                else "give the number"
            )
        )
    for step, several in recorded.items():
        scale = several[0].value
        if len({number.value for number in several}) > 1:
            raise ValueError(
                f"the files of step {step} have several loss scales, {plain_number(scale)} and "
                "others; a step has one"
            )
        if not _divides(scale):
            raise ValueError(
                f"the files of step {step} have the loss scale {plain_number(scale)}, and "
                "gradients can be divided only by a number above 0; leave the step out with --steps"
            )
    return {step: several[0].value for step, several in recorded.items()}


def _check_given(
    recorded: Mapping[int, Sequence[Number]], steps: Sequence[int], loss_scale: float | str | None
) -> None:
    """Refuses recorded loss scales of which the user says nothing, or something else."""
    if loss_scale == 1:
        return
    for step, several in recorded.items():
        for number in several:
            if number.value == (1 if loss_scale is None else loss_scale):
                continue
            has = f"{number.unit.label} has the loss scale {plain_number(number.value)}"
            remedy = _remedy(recorded, steps)
            if loss_scale is None:
                raise ValueError(
                    f"{has}, and nothing says whether its gradients still include it; pass "
                    f"--loss-scale {remedy} if they do, so that they are divided by it, "
                    "--loss-scale 1 if they were unscaled"
                )
            raise ValueError(
                f"{has} at step {step}, but {plain_number(float(loss_scale))} is given; pass "
                f"--loss-scale {remedy} if its gradients still include it, --loss-scale 1 if they "
                "were unscaled"
            )


def _remedy(recorded: Mapping[int, Sequence[Number]], steps: Sequence[int]) -> str:
    """The value of ``--loss-scale`` that divides by the recorded numbers, and options with it."""
    if len(recorded) == len(steps):
        return "recorded"
    values = {number.value for several in recorded.values() for number in several}
    if len(values) == 1 and _divides(value := values.pop()):
        return plain_number(value)
    return f"recorded --steps {range_of(list(recorded), steps)}" if recorded else ""


def _divides(scale: float) -> bool:
    return math.isfinite(scale) and scale > 0


class _StepNames:
    """Finds the step in a number's address: by the pattern, or by its part for the step alone."""

    def __init__(self, layout: Layout, pattern: str):
        self._layout, self._regex = layout, compiled(pattern)

    def _text(self, unit: Unit, address: str) -> str:
        return address if "tensor" in self._regex.groupindex else unit.stem

    def step_of(self, number: Number) -> int | None:
        """The step; None if its name has none."""
        match = self._regex.fullmatch(self._text(number.unit, number.address))
        named = match.groupdict().get("step") if match else None
        if named is not None and re.fullmatch(r"\d+", named, re.ASCII):
            return int(named)
        if number.counted is not None or match is not None:
            return number.counted
        matches = (mark.search(number.address) for mark in self._marks)
        return next((int(match[1]) for match in matches if match), None)

    @cached_property
    def _marks(self) -> list[re.Pattern[str]]:
        """Expressions of a step, from the arrays' names: the word before the number, or all of it.

        A number of a whole step, such as ``step_0/meta/loss_scale``, has no worker, so that the
        pattern of ``step_0/rank_1/w`` does not match it.
        """
        if "step" not in self._regex.groupindex:
            return []
        marks: dict[str, None] = {}
        for place in self._layout.places.values():
            for batch in place.batches:
                text = self._text(batch.item.unit, batch.item.address)
                match = self._regex.fullmatch(text)
                if match is None or match["step"] is None:
                    continue
                before = text[: match.start("step")]
                word = re.search(r"[^\W\d_]+[_.=-]?$", before)
                mark = rf"(?<![^\W\d_]){re.escape(word[0])}" if word else f"^{re.escape(before)}"
                marks[mark] = None
        return [re.compile(rf"{mark}(\d+)(?!\d)", re.ASCII) for mark in marks]
