"""A scheme for notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from .._html import name, paragraphs, table
from .definitions import definitions

if TYPE_CHECKING:
    from .scheme import Scheme


def scheme_html(scheme: Scheme) -> str:
    """The spec, what the scheme does, its keys with values, and what it needs."""
    definition = next((d for d in definitions() if d.name == scheme.name), None)
    parts = [
        f"<b>Scheme</b> {name(scheme.spec)}"
        + (f": {html.escape(definition.summary)}" if definition else "")
    ]
    values = scheme.keys
    if definition and definition.keys:
        rows = []
        for key in definition.keys:
            value = values.get(key.name, key.default)
            shown = name(value) if value == key.default else f"<b>{name(value)}</b>"
            rows.append(
                [
                    name(key.name),
                    shown,
                    "" if value == key.default else name(key.default),
                    html.escape(key.meaning),
                ]
            )
        parts.append(table(["key", "value", "default", "meaning"], rows, numeric=[False] * 4))
    elif values:
        parts.append(
            table(
                ["key", "value"],
                [[name(k), name(v)] for k, v in values.items()],
                numeric=[False] * 2,
            )
        )
    if scheme.branches:
        parts.append(
            table(
                ["where", "scheme"],
                [[name(c), name(s)] for c, s in scheme.branches],
                numeric=[False] * 2,
            )
        )
    needs = scheme.needs
    parts.append(f"Family: {html.escape(scheme.family)}. Needs "
                 f"gradients{''.join(f', {html.escape(n)}' for n in needs)} recorded"
                 + ("; has memory from step to step." if scheme.keeps_state else "."))  # fmt: skip
    return paragraphs(parts)
