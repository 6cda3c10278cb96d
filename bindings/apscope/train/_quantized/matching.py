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
    recipes = recipe if isinstance(recipe, Mapping) and not _are_patterns(recipe) else {0: recipe}
    steps = [integer("a schedule's step", step, 0, 2**31 - 1) for step in recipes]
    if sorted(steps) != steps or steps[:1] != [0]:
        raise ValueError(f"the steps of a schedule must begin with 0 and ascend; they are {steps}")
    return {step: _named(r) for step, r in zip(steps, recipes.values(), strict=True)}


def _are_patterns(recipe: Mapping[Any, Any]) -> bool:
    return bool(recipe) and all(isinstance(key, str) for key in recipe)


def _named(recipe: Any) -> Any:
    """A preset by its name, patterns as one recipe; other values unchanged."""
    from .presets import preset

    if isinstance(recipe, str):
        return preset(recipe)
    if isinstance(recipe, Mapping) and _are_patterns(recipe):
        return by_patterns({pattern: _named(one) for pattern, one in recipe.items()})
    return recipe


Found = tuple[str, nn.Module, dict[str, Part]]


def parts_of(
    model: nn.Module, bound: list[Bound], clock: Clock
) -> tuple[list[Found], dict[str, str]]:
    """Modules with quantized parts, and these; the other modules, and their class."""
    quantized: list[Found] = []
    others: dict[str, str] = {}
    for name, module in model.named_modules():
        kind = kind_of(module)
        if kind is None:
            if any(True for _ in module.parameters(recurse=False)):
                others[name] = type(module).__name__
            continue
        parts = _parts(name, module, kind, bound, clock)
        if any(p.uses or _emulates(p) for p in parts.values()) or any(
            b.format_for(name, module, WEIGHT_UPDATE) is not None for b in bound
        ):
            if (sentence := kind.refuse(module)) is not None:
                raise ValueError(f"{name} ({kind.type.__name__}) cannot be quantized: {sentence}")
            quantized.append((name, module, parts))
        else:
            others[name] = kind.type.__name__
    return quantized, others


def _emulates(part: Part) -> bool:
    return part.kind == "product" and any(any(a.sums) for a in part.adders.values())


def _parts(
    name: str, module: nn.Module, kind: Kind, bound: list[Bound], clock: Clock
) -> dict[str, Part]:
    made = {}
    for below, sort in kind.parts(module).items():
        full_name = f"{name}:{below}" if below else name

        def of(one: Bound, full_name: str = full_name) -> Callable[[str], Cast | Sum | None]:
            def spec(role: str) -> Cast | Sum | None:
                value = one.format_for(full_name, module, role)
                try:
                    return as_sum(value) if role in SUMS else as_cast(value)
                except (TypeError, ValueError) as error:
                    raise type(error)(f"{full_name}, {role}: {error}") from None

            return spec

        made[below] = Part(full_name, sort, [of(one) for one in bound], clock)
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
    formats = {
        as_weights(one.format_for(name, module, WEIGHT_UPDATE)) for name, module, _ in parts for one in bound
    } - {None}  # fmt: skip
    if len(formats) > 1:
        raise ValueError(
            f"weights are in {' and '.join(sorted(map(str, formats)))}; "
            "an optimizer keeps them in one format"
        )
    return next(iter(formats), None)
