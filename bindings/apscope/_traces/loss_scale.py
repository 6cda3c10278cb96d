"""The loss scale of recorded gradients: divided out, which the metadata says, or still in them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from .._text import plain_number
from .trace import Trace


def add_divisor(metadata: dict[str, str], step: int, scale: float) -> None:
    """Adds that a step's gradients were divided by `scale`: ``divided_by_loss_scale``."""
    text = metadata.get("divided_by_loss_scale", "")
    last = text.rsplit(", ", 1)[-1]
    if last.partition(" ")[0] != plain_number(scale):
        metadata["divided_by_loss_scale"] = ", ".join(
            filter(None, [text, f"{plain_number(scale)} from step {step}"])
        )


def scales_left(trace: Trace) -> dict[int, float]:
    """Step -> the loss scale that its gradients still include, where that is not 1."""
    return {
        step.number: step.loss_scale
        for step in trace.manifest.steps
        if step.loss_scale is not None and step.loss_scale != 1
    }


def warn_of_loss_scale(trace: Trace, specs: Iterable[str]) -> None:
    """Warns if narrower schemes replay gradients that still include a loss scale."""
    if (left := scales_left(trace)) and set(specs) != {"none:fp32"}:
        step, scale = next(iter(left.items()))
        warnings.warn(
            f"trace '{trace.name}' has gradients that are multiplied by a loss scale, "
            f"{plain_number(scale)} at step {step}, so what a format without a scale of its own "
            "flushes or overflows is that of the multiplied values; convert with --loss-scale, or record, so that they are "
            "divided by it",
            stacklevel=3,
        )
