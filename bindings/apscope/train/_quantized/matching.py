"""What a recipe quantizes of a model: the modules that it matches, their parts, their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from ..._arrays.checks import integer
from . import attention, layers, recurrent  # noqa: F401  # they register themselves
from .parts import SUMS, Part
from .recipe import WEIGHT_UPDATE, Bound, by_patterns
from .registry import Kind, kind_of
from .specs import Cast, Sum, Weights, as_cast, as_sum, as_weights
from .uses import Clock


def schedule_of(recipe: Any) -> dict[int, Any]:
    """First step -> recipe, ascending from 0; presets by their names."""
    given = recipe if isinstance(recipe, Mapping) and not _are_patterns(recipe) else {0: recipe}
    steps = [integer("a schedule's step", step, 0, 2**31 - 1) for step in given]
    if sorted(steps) != steps or steps[:1] != [0]:
        raise ValueError(f"the steps of a schedule must begin with 0 and ascend; they are {steps}")
    return {step: _named(r) for step, r in zip(steps, given.values(), strict=True)}


def _are_patterns(given: Mapping[Any, Any]) -> bool:
    return bool(given) and all(isinstance(key, str) for key in given)


def _named(given: Any) -> Any:
    """A preset by its name, patterns as one recipe; other values unchanged."""
    from .presets import preset

    if isinstance(given, str):
        return preset(given)
    if isinstance(given, Mapping) and _are_patterns(given):
        return by_patterns({pattern: _named(one) for pattern, one in given.items()})
    return given


Found = tuple[str, nn.Module, dict[str, Part]]


def parts_of(
    model: nn.Module, bound: list[Bound], clock: Clock
) -> tuple[list[Found], dict[str, str]]:
    """Modules with quantized parts, and these; the other modules, and their class."""
    found: list[Found] = []
    kept: dict[str, str] = {}
    for name, module in model.named_modules():
        kind = kind_of(module)
        if kind is None:
            if any(True for _ in module.parameters(recurse=False)):
                kept[name] = type(module).__name__
            continue
        parts = _parts(name, module, kind, bound, clock)
        if any(p.uses or _emulates(p) for p in parts.values()) or any(
            b.format_for(name, module, WEIGHT_UPDATE) is not None for b in bound
        ):
            if (sentence := kind.refuse(module)) is not None:
                raise ValueError(f"{name} ({kind.type.__name__}) cannot be quantized: {sentence}")
            found.append((name, module, parts))
        else:
            kept[name] = kind.type.__name__
    return found, kept


def _emulates(part: Part) -> bool:
    return part.kind == "product" and any(any(a.sums) for a in part.adders.values())


def _parts(
    name: str, module: nn.Module, kind: Kind, bound: list[Bound], clock: Clock
) -> dict[str, Part]:
    made = {}
    for below, sort in kind.parts(module).items():
        whole = f"{name}:{below}" if below else name

        def of(one: Bound, whole: str = whole) -> Callable[[str], Cast | Sum | None]:
            def spec(role: str) -> Cast | Sum | None:
                given = one.format_for(whole, module, role)
                try:
                    return as_sum(given) if role in SUMS else as_cast(given)
                except (TypeError, ValueError) as error:
                    raise type(error)(f"{whole}, {role}: {error}") from None

            return spec

        made[below] = Part(whole, sort, [of(one) for one in bound], clock)
        _check_hadamard(made[below])
    return made


def _check_hadamard(part: Part) -> None:
    for phase in range(len(part.output.casts)):
        turned = [u for u in part.uses if (c := u.casts[phase]) is not None and c.hadamard]
        roles = {u.role for u in turned}
        if roles not in (set(), {"weight_gradient.grad_output", "weight_gradient.input"}):
            raise ValueError(
                f"{part.name} has a Hadamard transform of {', '.join(sorted(roles))}; it belongs "
                "to both weight_gradient.grad_output and weight_gradient.input, where the "
                "transforms cancel"
            )


def check_matched(bound: list[Bound], parts: list[Found], model: nn.Module) -> None:
    """Raises an error for patterns and recipes that match nothing."""
    names = [name for name, m in model.named_modules() if kind_of(m) is not None]
    shown = ", ".join(name or "the model itself" for name in names[:8]) + (
        ", ..." if len(names) > 8 else ""
    )
    for one in bound:
        for pattern, matched in one.matched.items():
            if not matched:
                raise ValueError(
                    f"{pattern!r} matches no layer of the model that can be quantized; it has "
                    f"{shown or 'none'}"
                )
    if not parts:
        raise ValueError("the recipe quantizes nothing; give one that names layers of the model, "
                         f"which has {shown or 'none that can be quantized'}")  # fmt: skip


def kept_in(parts: list[Found], bound: list[Bound]) -> list[nn.Parameter]:
    """The parameters of the modules whose weights a recipe keeps in a format."""
    return [
        p
        for name, module, _ in parts
        if any(one.format_for(name, module, WEIGHT_UPDATE) is not None for one in bound)
        for p in module.parameters(recurse=False)
    ]


def weights_of(parts: list[Found], bound: list[Bound]) -> Weights | None:
    """The one format of all weights."""
    found = {
        as_weights(one.format_for(name, module, WEIGHT_UPDATE)) for name, module, _ in parts for one in bound
    } - {None}  # fmt: skip
    if len(found) > 1:
        raise ValueError(
            f"weights are in {' and '.join(sorted(map(str, found)))}; "
            "an optimizer keeps them in one format"
        )
    return next(iter(found), None)
