"""One constant scale for a whole training, by a rule: from the recorded steps of the fp32 run.

``loss_scaling`` with ``scale=best`` or ``largest`` chooses its scale only in hindsight. In an
experiment it is the constant that the scheme would have chosen for the recorded fp32 run: it is
known before the training that uses it, but needs an fp32 run.
"""

from __future__ import annotations

import os
from typing import Any

from .._schemes.scheme import as_scheme, spec_of


def in_hindsight(spec: str) -> bool:
    """Whether it is ``loss_scaling`` with ``scale=best`` or ``scale=largest``."""
    scheme = as_scheme(spec)
    return scheme.name == "loss_scaling" and scheme.keys["scale"] in ("best", "largest")


def constant(spec: str, exponent: int) -> str:
    """The spec with the scale 2^exponent instead of a word, without the rule that chose it."""
    scheme = as_scheme(spec)
    rules = ("scale", "headroom", "rule", "by")
    keys = {k: v for k, v in scheme.keys.items() if k not in rules}
    return as_scheme(
        spec_of(scheme.name, scheme.format, {"scale": repr(2.0**exponent), **keys})
    ).spec


def of_trace(spec: str, trace: str | os.PathLike[str], topology: str) -> str:
    """A spec ``in_hindsight`` with the constant that it chooses for a trace; others unchanged."""
    if not in_hindsight(spec):
        return spec
    from .._replay.replay import replay

    frame: Any = replay(trace, [spec], topology=[topology], progress=False).frame
    exponents = frame.loc[frame["topology"] == topology, "scale_exponent"]
    return constant(spec, int(exponents.dropna().iloc[0]))
