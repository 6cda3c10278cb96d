"""The source of the order of a trace's tensors, and a warning if a scheme relies on a guess."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable

from .trace import Trace

#: Values of ``tensor_order`` in a trace's metadata: the dump's files, a list, or the names (a
#: guess).
FILES, GIVEN, NATURAL = "the files", "a list", "the names"


def warn_of_guessed_order(trace: Trace, specs: Iterable[str]) -> None:
    """Warns if a ``hybrid`` uses the first or last layer of a trace with a guessed order."""
    if trace.manifest.metadata.get("tensor_order") != NATURAL:
        return
    for spec in specs:
        if match := re.search(r"hybrid\((?:.*;)?(first|last)\b", spec):
            layer = trace.tensors[0 if match[1] == "first" else -1]
            origin, remedy = ("converted from files", "convert again with --order FILE")
            if "converted_from" not in trace.manifest.metadata:
                origin, remedy = (
                    "recorded from dicts",
                    "record an OrderedDict in the order of layers",
                )
            warnings.warn(
                f"trace '{trace.name}' was {origin} that have no order of layers, so '{match[1]}' "
                f"in {spec} is {layer}, by the order of the names; {remedy}, or use name:REGEX",
                stacklevel=3,
            )
            return
