"""The matches of a recipe, as text: counts first, then one line per part."""

from __future__ import annotations

from typing import Any

from .parts import Part
from .specs import Weights
from .uses import Clock


def text_of(
    parts: list[Any],
    others: dict[str, str],
    clock: Clock,
    weights: Weights | None,
    scaler: Any,
) -> str:
    """The whole text."""
    layers = len(parts)
    inside = sum(p.numel() for _, m, _ in parts for p in m.parameters(recurse=False))
    lines = [
        f"{layers} {'layer is' if layers == 1 else 'layers are'} quantized ({inside:,} "
        f"parameters), {len(others)} not" + (f": {_listed(others)}" if others else "")
    ]
    for phase, first in enumerate(clock.starts):
        if len(clock.starts) > 1:
            lines.append(f"from step {first}:")
        lines += [
            line
            for _, _, module_parts in parts
            for p in module_parts.values()
            if (line := _line(p, phase))
        ]
    if weights is not None:
        lines.append(f"weights between steps: {weights}")
    if scaler.rule is not None:
        lines.append(f"loss scale: {scaler}")
    return "\n".join(lines)


def _listed(others: dict[str, str]) -> str:
    shown = [f"{name or 'the model'} ({kind})" for name, kind in others.items()]
    return ", ".join(shown[:6]) + (", ..." if len(shown) > 6 else "")


def _line(part: Part, phase: int) -> str:
    """`conv1: input e4m3fn, weight e4m3fn, grad_output e5m2; sums fp32 sequential`."""
    casts = [f"{u.role} {u.casts[phase]}" for u in part.uses if u.casts[phase] is not None]
    sums = []
    if part.kind == "product":
        by_product = {role.partition(".")[0]: a.sums[phase] for role, a in part.adders.items()}
        if any(by_product.values()):
            same = len(set(by_product.values())) == 1
            sums = (
                [f"sums {next(iter(by_product.values()))}"]
                if same
                else [f"{product} sums {s}" for product, s in by_product.items() if s is not None]
            )
    return (
        f"  {part.name or 'the model'}: " + "; ".join([", ".join(casts) or "fp32", *sums])
        if casts or sums
        else ""
    )
