"""A trace for notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from .._html import name, paragraphs, table
from .._text import count_of

if TYPE_CHECKING:
    from .trace import Trace


def trace_html(trace: Trace) -> str:
    """The recording, and the tensors."""
    manifest = trace.manifest
    steps = trace.steps
    facts = {
        "model": html.escape(manifest.model) or "not given",
        "workers": str(trace.workers),
        "steps": f"{len(steps)}" + (f", {steps[0]} to {steps[-1]}" if steps else ""),
        "stage": html.escape(manifest.stage),
        "reduction": html.escape(manifest.reduction),
        "elements": f"{sum(t.size for t in manifest.tensors):,}",
        "recorded": ", ".join(
            f"{kind} ({count_of(len(at), 'step')})" for kind, at in trace.recorded().items() if at
        ),
    }
    rows = [
        [
            name(t.name),
            html.escape(t.role),
            " × ".join(map(str, t.shape)) or "scalar",
            f"{t.size:,}",
        ]
        for t in manifest.tensors
    ]
    return paragraphs([
        f"<b>Trace</b> {name(trace.name)}",
        "; ".join(f"{key}: {value}" for key, value in facts.items() if value),
        table(["tensor", "role", "shape", "elements"], rows, numeric=[False, False, True, True]),
    ])  # fmt: skip
