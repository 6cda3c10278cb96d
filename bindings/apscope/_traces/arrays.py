"""A trace of gradients that are in memory: a temporary folder, which is deleted with the trace."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from .. import _core
from .._arrays.checks import integer, listed, shown, text, workers_first
from .._folders.temporary import TemporaryFolder
from .._text import count_of
from .safetensors import host_array
from .trace import Trace
from .writer import TraceWriter

#: Gradients of one step, or of several: see `from_arrays`.
Gradients: TypeAlias = (
    "Mapping[str, Any] | Mapping[int, Mapping[str, Any]] | Iterable[Mapping[str, Any]]"
)

_GIVE = (
    "give {'name': array of (workers, ...)} for one step, and for several a list of these, or "
    "{step: {'name': array}}"
)


#: The `source` of such a trace begins with this, and then has its name.
IN_MEMORY = "arrays in memory/"


def from_arrays(
    gradients: Gradients,
    *,
    name: str = "arrays",
    reduction: str = "mean",
    model: str = "",
) -> Trace:
    """A trace of gradients in memory.

    `replay`, `ladder`, `recommend`, `search`, `limit`, `report` and the studies take the gradients
    themselves, too; this function also takes a name and a reduction. Its rows are bit for bit those
    of a trace that `TraceWriter` makes of the same arrays.

    Parameters
    ----------
    gradients : mapping, or iterable of mappings
        One step: ``{"name": array}``. Several: a list of such mappings, numbered from 0, or
        ``{number: {"name": array}}``. An array is of shape (workers, ...): anything NumPy reads,
        PyTorch tensors on any device, or a list with one array per worker. All have the same number
        of workers; every step has the same names and shapes. float32, float16 and bfloat16 are kept
        as they are, fp8 becomes float16 (E8M0 float32); float64, integers and bools are taken if
        every element is an fp32 value, because a trace has no wider numbers. NaN, infinities, -0,
        zeros, and arrays without elements, (workers, 0), are kept. Nothing of the caller's changes,
        and later changes of an array do not change the trace.
    name : str
        The trace's name in tables and reports.
    reduction : {"mean", "sum"}
        How training combines the workers' gradients: "mean" divides their sum by the workers.
    model : str
        Free text.

    Returns
    -------
    Trace
        Its values are copied to a folder in the place for temporary files (``TMPDIR``), which is
        deleted with the object. ``source`` is ``arrays in memory/NAME``, as in the commands of
        results.

    Raises
    ------
    TypeError
        Not such a mapping or iterable; a name that is not a string; a masked array.
    ValueError
        No step or tensor; an array of one axis, whose numbers could be workers or elements;
        different numbers of workers, names or shapes; a number that is not an fp32 value.

    Examples
    --------
    >>> import numpy as np, apscope
    >>> g = np.random.default_rng(0).standard_normal((8, 1000), np.float32)
    >>> trace = apscope.record.from_arrays({"fc.weight": g}, name="mine")
    >>> trace.name, trace.workers, trace.steps, trace.shapes
    ('mine', 8, (0,), {'fc.weight': (1000,)})
    """
    steps = _steps(gradients)
    folder = TemporaryFolder()
    try:
        return _written(steps, text("name", name), reduction, model, folder)
    except BaseException:
        folder.remove()
        raise


def _written(
    steps: list[tuple[int, Mapping[str, Any]]],
    name: str,
    reduction: str,
    model: str,
    folder: TemporaryFolder,
) -> Trace:
    place = folder.path / "arrays"
    writer: TraceWriter | None = None
    first = ""  # the array that determines the number of workers
    for number, tensors in steps:
        for tensor, value in tensors.items():
            what = f"gradient {shown(tensor)} of step {number}"
            rows = _rows(value, what)
            if writer is None:
                first = what
                writer = TraceWriter(
                    place,
                    workers=len(rows),
                    model=model,
                    name=name,
                    reduction=reduction,
                    metadata={"recorded_from": "arrays in memory"},
                    durable=False,
                )
            if len(rows) != writer.workers:
                raise ValueError(
                    f"{what} has {count_of(len(rows), 'worker')}, its first axis, but {first} has "
                    f"{writer.workers}; all arrays must have the same number"
                )
            for worker, row in enumerate(rows):
                writer.add(number, worker, tensor, row)
        assert writer is not None  # every step has a tensor
        writer.end_step(number)
    assert writer is not None  # there is a step
    writer.close()
    trace = Trace(_core.Trace.open(str(place)))
    trace.source = f"{IN_MEMORY}{name}"
    weakref.finalize(trace, folder.remove)
    return trace


def _steps(gradients: Any) -> list[tuple[int, Mapping[str, Any]]]:
    """Every step with its number, ascending, and its arrays by name."""
    if hasattr(gradients, "__array__"):
        shape = tuple(np.shape(gradients))
        raise TypeError(f"an array of shape {shape} is given without a name; {_GIVE}")
    if isinstance(gradients, Mapping):
        keys = list(gradients)
        if all(isinstance(key, str) for key in keys):
            steps = [(0, gradients)]
        else:
            steps = sorted(
                ((_number(key), gradients[key]) for key in keys), key=lambda step: step[0]
            )
    elif isinstance(gradients, Iterable) and not isinstance(gradients, str | bytes):
        steps = list(enumerate(listed("gradients", gradients)))
    else:
        raise TypeError(
            f"{shown(gradients)} is of type {type(gradients).__name__}, and not a trace, its path "
            f"or gradients; of gradients in memory {_GIVE}"
        )
    if not steps:
        raise ValueError(f"there is no step; {_GIVE}")
    for number, tensors in steps:
        if not isinstance(tensors, Mapping):
            raise TypeError(f"step {number} is of type {type(tensors).__name__}; {_GIVE}")
        if not tensors:
            raise ValueError(f"step {number} has no gradient; {_GIVE}")
        for tensor in tensors:
            if not isinstance(tensor, str):
                raise TypeError(
                    f"step {number} has a gradient named {shown(tensor)}, of type "
                    f"{type(tensor).__name__}; names are strings"
                )
    return steps


def _number(key: Any) -> int:
    """A key of several steps."""
    if isinstance(key, str | bool) or not hasattr(key, "__index__"):
        raise TypeError(
            f"the key {shown(key)} is of type {type(key).__name__}, but other keys are not; keys "
            "are all names of tensors (strings) or all numbers of steps (integers)"
            if isinstance(key, str)
            else f"the key {shown(key)} is of type {type(key).__name__}; a key is the name of a "
            "tensor (a string) or the number of a step (an integer)"
        )
    return integer("step", key, 0, 2**63 - 1)


def _rows(value: Any, what: str) -> list[Any]:
    """Every worker's array."""
    if isinstance(value, Mapping):
        raise TypeError(f"{what} is a mapping; {_GIVE}")
    rows = [host_array(row, what) for row in value] if isinstance(value, list | tuple) else None
    array = None if rows is not None else host_array(value, what)
    shape = (
        array.shape if array is not None else (len(rows or ()), *(rows[0].shape if rows else ()))
    )
    workers_first(shape, what)
    return rows if rows is not None else list(array)  # type: ignore[arg-type]
