"""Short names of schemes: what tells one from the others, and no more."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .schemes import as_scheme, definitions


def short_labels(specs: Iterable[str]) -> dict[str, str]:
    """Spec -> short name.

    The format stands where namesakes differ in it or most schemes have another, a key where
    namesakes of one format differ in it; where they differ in several keys, those at their default
    are left out. A combinator keeps what it holds, a long policy its first and its last branch. Two specs never share a label: where the rule
    would make them, both keep their whole spec.
    """
    specs = list(dict.fromkeys(specs))
    parts = {spec: _parts(spec) for spec in specs}
    formats = [format for _, format, _ in parts.values() if format]
    usual = max(formats, key=formats.count, default="")
    defaults = {d["name"]: {key: value for key, value, _ in d["keys"]} for d in definitions()}
    labels = {}
    for spec, (name, format, keys) in parts.items():
        namesakes = [k for n, f, k in parts.values() if n == name and f == format]
        words = [name]
        if format and (format != usual or len({f for n, f, _ in parts.values() if n == name}) > 1):
            words.append(format)
        telling = [key for key in keys if len({k.get(key) for k in namesakes}) > 1]
        if len(telling) > 1:
            telling = [key for key in telling if keys[key] != defaults.get(name, {}).get(key)]
        words += [f"{key}={keys[key]}" for key in telling]
        labels[spec] = " ".join(words)
    taken = list(labels.values())
    return {spec: label if taken.count(label) == 1 else spec for spec, label in labels.items()}


def two_lines(label: str) -> str:
    """The label with its keys on a line of their own, and no line much longer than `LINE` letters."""
    words = label.split(" ")
    plain = [w for w in words if "=" not in w or "(" in w]
    keys = [w for w in words if w not in plain]
    return "\n".join(line for part in (plain, keys) if part for line in _wrapped(" ".join(part)))


#: Letters of a line of a label beside a plot.
LINE = 26


def _wrapped(text: str) -> list[str]:
    """Broken after a space, a comma or a semicolon."""
    lines = [""]
    for piece in re.findall(r"[^ ,;]*[ ,;]|[^ ,;]+", text):
        if lines[-1] and len(lines[-1] + piece.rstrip()) > LINE:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _parts(spec: str) -> tuple[str, str, dict[str, str]]:
    """Name, format and keys, defaults included; a spec of a scheme that is not registered is its own name."""
    try:
        scheme = as_scheme(spec)
    except ValueError:
        return spec, "", {}
    if not scheme.body:
        return scheme.name, scheme.format, scheme.keys
    branches = [f"{condition}={inner}" for condition, inner in scheme.branches]
    body = f"{branches[0]};…;{branches[-1]}" if len(branches) > 2 else scheme.body
    return f"{scheme.name}({body})", "", scheme.keys
