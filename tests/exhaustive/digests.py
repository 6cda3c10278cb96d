"""What a job's result rests on, in twelve digits: the C++ that it runs through, and what Python asks of it.

What Python asks is taken from the calls of the oracle's module themselves, not from the code that makes them: the fields of
the format, the roundings and rules, how many inputs and which of them. So a name that means another format, or a sample that
shrinks, asks for the proof again, and a `verify` that is written otherwise and asks for the same does not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apscope import FloatFormat, _oracle

from .jobs import Job
from .sources import PARTS, Tree

PROOFS = ("verify", "verify_operation")
#: Arguments that no result depends on.
WITHOUT_EFFECT = ("threads", "progress")


@contextmanager
def _calls() -> Iterator[list[Any]]:
    """Meanwhile the oracle's module proves nothing: it writes down what it is called with."""
    asked: list[Any] = []
    real = {name: getattr(_oracle, name) for name in PROOFS}

    def note(proof: str, format: str, *rest: Any, **settings: Any) -> dict[str, Any]:
        what = {key: value for key, value in sorted(settings.items()) if key not in WITHOUT_EFFECT}
        asked.append([proof, FloatFormat(format).to_dict(), rest, what])
        return {"cases": 0, "mismatches": 0, "first": None}

    try:
        for name in PROOFS:
            setattr(_oracle, name, lambda *args, _name=name, **settings: note(_name, *args, **settings))
        yield asked
    finally:
        for name, function in real.items():
            setattr(_oracle, name, function)


def calls(job: Job) -> list[Any]:
    """What a job asks the oracle's module for, call by call."""
    with _calls() as asked:
        Job.run(job)
    return asked


class Digests:
    """Of jobs on the sources of a working tree, each computed once."""

    def __init__(self, tree: Tree | None = None) -> None:
        self._tree = tree or Tree()
        self._sources: dict[str, str] = {}
        self._jobs: dict[str, str] = {}

    def of(self, job: Job) -> str:
        if job.part not in self._sources:
            self._sources[job.part] = self._tree.digest(PARTS[job.part])
        if job.key not in self._jobs:
            text = self._sources[job.part] + json.dumps(calls(job), sort_keys=True)
            self._jobs[job.key] = hashlib.sha256(text.encode()).hexdigest()[:12]
        return self._jobs[job.key]
