"""Describes a trace as text, and checks its files against the manifest."""

from __future__ import annotations

from .._progress import Bar
from .._text import count_of, plain_number, printable
from .absent import count_absent, is_absent
from .loss_scale import scales_left
from .trace import KINDS, Trace

#: Tensors whose absent gradients are listed.
_SHOWN = 6


def describe(trace: Trace) -> str:
    """A page of text: model, steps, workers, size, kinds of records, the hash."""
    manifest = trace.manifest
    size = sum(size for _, size, _ in trace.files())
    divided = "divided" if manifest.loss_divided_by_workers else "not divided"
    lines = [
        f"trace      {printable(trace.name)}",
        f"model      {printable(manifest.model) or '(not given)'}",
        f"hash       {trace.hash}",
        f"workers    {trace.workers}",
        f"stage      {manifest.stage}",
        f"reduction  {manifest.reduction} (loss {divided} by the number of workers)",
        f"size       {size:,} bytes in {count_of(sum(1 for _ in trace.files()), 'file')}",
        f"steps      {_steps(trace)}",
        f"tensors    {len(trace.tensors)}",
    ]
    for label, key in (("loss", "loss"), ("rate", "learning_rate"), ("scale", "loss_scale")):
        left = ", still in the gradients" if key == "loss_scale" and scales_left(trace) else ""
        values = [getattr(step, key) for step in manifest.steps]
        known = [value for value in values if value is not None]
        if known:
            first, last = (
                plain_number(value) if key == "loss_scale" else f"{value:.6g}"
                for value in (known[0], known[-1])
            )
            lines.append(f"{label:<10} {first} at first, {last} at last{left}")
    if absent := count_absent(manifest.metadata, trace.steps, trace.workers):
        total = len(trace.steps) * trace.workers * len(trace.tensors)
        lines.append(f"absent     {absent:,} of {count_of(total, 'gradient')}, recorded as zeros")
    recorded = trace.recorded()
    for kind in KINDS:
        lines.append(f"{kind:<20} {_at(recorded[kind], len(trace.steps))}")
    listed = [key for key in manifest.metadata if is_absent(key)]
    lines += [
        f"{printable(key):<20} {_word(key, value)}{printable(str(value), 200)}"
        for key, value in manifest.metadata.items()
        if key not in listed[_SHOWN:]
    ]
    if (more := len(listed) - _SHOWN) > 0:
        lines.append(f"... and {more} more tensor{'s' * (more > 1)} with zeros, in manifest.json")
    return "\n".join(lines)


def check(trace: Trace, progress: bool = False) -> int:
    """Compares every file with its SHA-256 and every tensor with its shape in the manifest.

    Returns the number of files. Raises ValueError that names the first differing file.
    """
    with Bar("check", progress, "B") as update:
        trace.check(update=update)
    recorded = trace.recorded()
    for step in trace.steps:
        for tensor in trace.tensors:
            for worker in range(trace.workers):
                trace.read(step, tensor, worker)
            for kind in ("weights", "full_batch"):
                if step in recorded[kind]:
                    trace.read(step, tensor, kind=kind)
    return sum(1 for _ in trace.files())


def _steps(trace: Trace) -> str:
    """Step numbers, with runs of consecutive numbers joined: 0-39, 60, 85."""
    runs: list[list[int]] = []
    for number in trace.steps:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    shown = texts if len(texts) <= 24 else [*texts[:12], "...", *texts[-11:]]
    return f"{len(trace.steps)}: " + ", ".join(shown) if texts else "0"


def _word(key: str, value: str) -> str:
    """The word before the steps of absent gradients."""
    if not is_absent(key):
        return ""
    return "step " if value.isdecimal() else "steps "


def _at(steps: tuple[int, ...], total: int) -> str:
    if not steps:
        return "not recorded"
    if len(steps) == total:
        return "every step"
    digits = ", ".join(map(str, steps[:8])) + (", ..." if len(steps) > 8 else "")
    return f"{len(steps)} {'step' if len(steps) == 1 else 'steps'}: {digits}"
