"""The expressions that find step, worker, micro-batch and tensor in an array's address."""

from __future__ import annotations

import re
from functools import cache

_STEP = r"(?i:global_step|step|iteration|iter|it)[_.=-]?(?P<step>\d+)"
_WORKER = r"(?i:worker|rank|gpu|device|process|proc|replica)[_.=-]?(?P<worker>\d+)"
_MICRO = r"(?i:micro[_-]?batch|micro[_-]?step|micro|mb)[_.=-]?(?P<micro>\d+)"
#: Whole parts of a path, which may be one letter: a letter elsewhere belongs to a tensor's name.
_STEP_PART = r"(?i:(?:global_step|step|iteration|iter|it)[_.=-]?|s)(?P<step>\d+)"
_WORKER_PART = r"(?i:(?:worker|rank|gpu|device|process|proc|replica)[_.=-]?|w)(?P<worker>\d+)"
#: The same side by side, which may be words that alone often count something else.
_STEP_BESIDE = (
    r"(?i:(?:global_step|step|iteration|iter|it|update|batch|epoch|round)[_.=-]?|[sit])"
    r"(?P<step>\d+)"
)
_WORKER_BESIDE = (
    r"(?i:(?:worker|rank|gpu|device|process|proc|replica|dev|node|client|learner|tid)[_.=-]?|[wr])"
    r"(?P<worker>\d+)"
)
_BEFORE = r"(?:.*?[/_.-])?"
_TENSOR = r"(?P<tensor>.+)"
_SEPARATOR = "[/_.-]"

#: Tried in this order if no pattern is given; the first that matches every array is used.
DEFAULT_PATTERNS = (
    # TransformerEngine's: rank_0/LAYER_wgrad_iter_000100.pt or rank_0/iter_000100/LAYER_wgrad.pt,
    # under the key high_precision
    rf"(?:.*/)?{_WORKER}/(?P<tensor>[^/]+)_{_STEP}/high_precision",
    rf"(?:.*/)?{_WORKER}/{_STEP}/(?P<tensor>[^/]+)/high_precision",
    rf"{_BEFORE}{_STEP}{_SEPARATOR}{_BEFORE}{_WORKER}{_SEPARATOR}{_TENSOR}",
    rf"{_BEFORE}{_WORKER}{_SEPARATOR}{_BEFORE}{_STEP}{_SEPARATOR}{_TENSOR}",
    rf"(?:.*/)?{_STEP}/(?P<tensor>[^/]+?)[_.-]{_WORKER}",
    rf"(?:.*/)?{_WORKER}/(?P<tensor>[^/]+?)[_.-]{_STEP}",
    rf"(?:.*/)?(?P<tensor>[^/]+?)[_.-]{_STEP}[_.-]{_WORKER}",
    rf"(?:.*/)?(?P<tensor>[^/]+?)[_.-]{_WORKER}[_.-]{_STEP}",
    rf"(?:.*/)?{_STEP_BESIDE}[/_.-]{_WORKER_BESIDE}/{_TENSOR}",
    rf"(?:.*/)?{_WORKER_BESIDE}[/_.-]{_STEP_BESIDE}/{_TENSOR}",
    rf"{_BEFORE}{_STEP}{_SEPARATOR}{_TENSOR}",
    rf"(?:.*/)?(?P<tensor>[^/]+?)[_.-]{_STEP}",
    rf"{_BEFORE}{_WORKER}{_SEPARATOR}{_TENSOR}",
    rf"(?:.*/)?(?P<tensor>[^/]+?)[_.-]{_WORKER}",
    rf"(?:.*/)?{_STEP_PART}/{_TENSOR}",
    rf"(?:.*/)?{_WORKER_PART}/{_TENSOR}",
)
#: If names contain neither step nor worker: one file, or one array per file.
BARE_PATTERN = _TENSOR


def _with_micro(pattern: str) -> list[str]:
    """A default pattern with a micro-batch before the tensor, between the others, before all."""
    inserted = f"{_BEFORE}{_MICRO}{_SEPARATOR}"
    longer = (
        [pattern.removesuffix(_TENSOR) + inserted + _TENSOR]
        if pattern.endswith(_TENSOR)
        else [f"{pattern}[_.-]{_MICRO}"]
    )
    step, worker = (
        next((form for form in forms if form in pattern), "")
        for forms in (
            (_STEP, _STEP_PART, _STEP_BESIDE),
            (_WORKER, _WORKER_PART, _WORKER_BESIDE),
        )
    )
    if step and worker:
        second = max(step, worker, key=pattern.index)
        longer.append(pattern.replace(second, inserted + second))
    longer.append(f"(?:.*[/_.-])?{_MICRO}{_SEPARATOR}{pattern}")
    return longer


#: The same with a micro-batch, for dumps whose micro-batches are added.
MICRO_PATTERNS = (
    *(longer for pattern in DEFAULT_PATTERNS for longer in _with_micro(pattern)),
    f"{_BEFORE}{_MICRO}{_SEPARATOR}{_TENSOR}",
)

#: A part of a name that is only a step or a worker.
PLACES = re.compile(
    rf"(?:^|(?<=[/_.-]))(?:{_STEP}|{_WORKER})".replace("P<step>", ":").replace("P<worker>", ":")
)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The expression; ``.`` matches a newline too, because a name may have one."""
    return re.compile(pattern, re.DOTALL)
