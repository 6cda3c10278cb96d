"""The effect of a scheme's error on the loss, by Loss Change Allocation: first-order and path."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from .._arrays.checks import integer, text
from .._arrays.float_environment import guarded
from .._schemes.exchange import exchange
from .._schemes.scheme import Scheme, as_scheme
from .._traces.opening import TraceLike, as_trace
from .._traces.selection import parse_steps, selected_steps, selected_tensors

__all__ = ["PathLossChange", "loss_change", "path_loss_change"]
__dir__ = __all__.copy


@guarded
def loss_change(
    trace: TraceLike,
    scheme: Scheme | str,
    *,
    topology: str = "ring",
    workers: int | None = None,
    steps: Any = None,
    tensors: str | None = None,
    seed: int = 0,
    learning_rate: float | None = None,
    gradient: str = "reduced",
) -> pd.DataFrame:
    """First-order change of the loss by one step of gradient descent, with and without a scheme.

    Descent by h = -eta g would change the loss by sum G h to first order, with eta the learning
    rate, g the fp64 reference of the reduced gradient and G the gradient of the loss. With the
    scheme's reduced gradient g' it changes by sum -eta G g': that is -eta sum G g plus the damage,
    the sum of eta G (g - g'). Positive damage is harm. Elements with g or g' not finite are
    omitted.

    Parameters
    ----------
    trace : Trace, path-like or gradients
        Local gradients, and the learning rate if none is given; gradients in memory as for
        `replay`.
    scheme : Scheme or str
        Any except ``hybrid``. Its state continues from step to step. As in `exchange`, it gets one
        tensor at a time: ``scale=largest`` and ``best`` are those of the tensor and step, and a
        step is skipped tensor by tensor.
    topology : str
        For schemes that add in a format.
    workers, steps, tensors, seed
        As in `replay`.
    learning_rate : float, optional
        Instead of the recorded ones.
    gradient : {"reduced", "full_batch"}
        The choice of G: g itself, or the recorded gradient of the full batch, at the steps that
        have one.

    Returns
    -------
    DataFrame
        A row per step and tensor: trace, step, tensor, role, scheme, topology; ``count``, elements
        compared; ``change`` = -eta sum G g; ``damage``; ``predicted_change`` = -eta sum G g';
        ``damage_share``, of the sum of the magnitudes of the step's damages; ``helping`` and
        ``helping_scheme``, the share of elements whose update lowers the loss: G g > 0, and G g' >
        0.

    Raises
    ------
    ValueError
        A trace without local gradients or learning rate; an unknown scheme, topology, step or
        tensor; an input of the scheme that the trace lacks.
    """
    if gradient not in ("reduced", "full_batch"):
        raise ValueError(f"gradient='{gradient}' is unknown; use reduced or full_batch")
    opened = as_trace(trace)
    chosen, m = as_scheme(scheme), opened.manifest
    if m.stage != "local":
        raise ValueError(
            f"trace '{opened.name}' has {m.stage} gradients; a loss change needs each worker's own"
        )
    used = opened.workers if workers is None else integer("workers", workers, 1, opened.workers)
    divisor = used if m.reduction == "mean" else 1
    has = opened.recorded()
    indices = selected_steps(opened, parse_steps(steps))
    if gradient == "full_batch":
        indices = [i for i in indices if m.steps[i].number in has["full_batch"]]
        if not indices:
            raise ValueError(
                f"trace '{opened.name}' has no full-batch gradient at these steps; it has some at "
                f"{has['full_batch'] or 'none'}"
            )
    states: dict[str, dict[str, np.ndarray]] = {}
    rows = []
    for place, index in enumerate(indices):
        step = m.steps[index]
        eta = step.learning_rate if learning_rate is None else float(learning_rate)
        if eta is None or math.isnan(eta):
            raise ValueError(
                f"trace '{opened.name}' has no learning rate at step {step.number}; give "
                "learning_rate="
            )
        for t in (m.tensors[i] for i in selected_tensors(opened, tensors)):
            g = np.stack([opened.read(step.number, t.name, w) for w in range(used)])
            records = {
                kind: opened.read(step.number, t.name, kind=kind)
                for kind in ("weights", "full_batch")
                if step.number in has[kind]
            }
            made = exchange(
                chosen, g, topology=text("topology", topology), state=states.get(t.name, {}),
                step=step.number, index=place, tensor=t.name, role=t.role,
                seed=seed, loss=_number(step.loss), learning_rate=eta, **records,
            )  # fmt: skip
            states[t.name] = made.state
            reference = g[0].astype(np.float64)
            for row in g[1:]:
                reference = reference + row
            reference, reduced = reference / divisor, made.reduced / divisor
            if made.skipped:
                reduced = np.zeros_like(reference)
            truth = reference if gradient == "reduced" else records["full_batch"].astype(np.float64)
            rows.append(
                {
                    "trace": opened.name, "step": step.number, "tensor": t.name, "role": t.role,
                    "scheme": chosen.spec,
                    "topology": made.reduction, **_first_order(eta, truth, reference, reduced),
                }
            )  # fmt: skip
    frame = pd.DataFrame(rows)
    total = frame["damage"].abs().groupby(frame["step"]).transform("sum")
    frame.insert(
        frame.columns.get_loc("predicted_change") + 1,
        "damage_share",
        frame["damage"].abs() / total.where(total > 0),
    )
    return frame


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _first_order(
    eta: float, truth: np.ndarray, g: np.ndarray, reduced: np.ndarray
) -> dict[str, float]:
    finite = np.isfinite(truth) & np.isfinite(g) & np.isfinite(reduced)
    truth, g, reduced = truth[finite], g[finite], reduced[finite]
    n = int(finite.sum())
    return {
        "count": n,
        "change": -eta * math.fsum(truth * g),
        "damage": eta * math.fsum(truth * (g - reduced)),
        "predicted_change": -eta * math.fsum(truth * reduced),
        "helping": float((np.sign(truth) * np.sign(g) > 0).sum() / n) if n else math.nan,
        "helping_scheme": float((np.sign(truth) * np.sign(reduced) > 0).sum() / n)
        if n
        else math.nan,
    }


#: The change of a loss, or the losses before and after.
Change: TypeAlias = float | tuple[float, float]


@dataclass(frozen=True)
class PathLossChange:
    """The change of a loss along a straight path of the weights, allocated to the parameters."""

    allocation: np.ndarray  #: each parameter's share; negative: its change lowered the loss
    total: float  #: their sum
    intervals: int  #: of Simpson's rule
    error: float  #: the true change minus `total`; NaN if the change was not given
    test: PathLossChange | None = None  #: the same of the second set, if one was given


@guarded
def path_loss_change(
    gradient: Callable[[np.ndarray], Any],
    start: Any,
    end: Any,
    *,
    change: Change | None = None,
    test: tuple[Callable[[np.ndarray], Any], Change] | None = None,
    intervals: int = 2,
    tolerance: float = 1e-3,
    max_intervals: int = 32,
) -> PathLossChange:
    """Loss Change Allocation along the straight path between two settings of the weights.

    The loss changes by the integral over the path of gradient times displacement; each parameter's
    term of that scalar product, integrated by the composite Simpson rule, is its share. It needs
    the loss's gradient: a trace has none between its steps. With n intervals the gradient is taken
    at (1 - j/n) start + (j/n) end for j = 0..n.

    Parameters
    ----------
    gradient : callable
        The loss's gradient, of the shape of the weights.
    start, end : array_like
        Weights before and after.
    change : float or (float, float), optional
        The true change L(end) - L(start), or L(start) and L(end), whose error is then L(end) -
        (L(start) + total). With it, intervals are doubled until the shares add up to it.
    test : (callable, change), optional
        The gradient and the change of a second set of examples: intervals are doubled until the
        shares of both sets add up. `change` is required then.
    intervals : int
        The initial number; even.
    tolerance : float
        On abs(error).
    max_intervals : int
        Doubling stops at this number of intervals.

    Returns
    -------
    PathLossChange

    Raises
    ------
    ValueError
        Shapes that differ, an odd number of intervals, a second set without `change`.
    TypeError
        A change that is neither a number nor two.
    """
    a, b = np.asarray(start, np.float64), np.asarray(end, np.float64)
    if a.shape != b.shape:
        raise ValueError(f"start has shape {a.shape} and end {b.shape}; they must be equal")
    n = integer("intervals", intervals, 2, 2**20)
    if n % 2:
        raise ValueError(f"intervals={n} is odd; Simpson's rule needs an even number, such as 2")
    if test is not None and change is None:
        raise ValueError("test is given, but change=None; give the change of the first set too")
    sets = [(gradient, change)] if test is None else [(gradient, change), test]
    for name, (_, given) in zip(("change", "the change of test"), sets, strict=False):
        _check_change(name, given, optional=test is None)
    slopes: list[dict[float, np.ndarray]] = [{} for _ in sets]
    while True:
        found = [
            _path(gradient, a, b, n, change, held)
            for (gradient, change), held in zip(sets, slopes, strict=True)
        ]
        adds_up = all(abs(one.error) <= tolerance for one in found)
        if change is None or adds_up or 2 * n > max_intervals:
            return found[0] if test is None else replace(found[0], test=found[1])
        n *= 2


def _check_change(name: str, change: Any, optional: bool) -> None:
    """Raises an error for what is neither a number nor two, nor None if that is allowed."""
    if change is None and optional:
        return
    values = change if isinstance(change, tuple) else (change,)
    if len(values) > 2 or not all(isinstance(v, numbers.Real) for v in values):
        raise TypeError(f"{name} {change!r} must be a number, or two numbers in a tuple")


def _path(
    gradient: Callable[[np.ndarray], Any],
    a: np.ndarray,
    b: np.ndarray,
    n: int,
    change: Change | None,
    slopes: dict[float, np.ndarray],
) -> PathLossChange:
    """With n intervals; `slopes` are the gradients by their place on the path, from 0 to 1."""

    def slope(at: float) -> np.ndarray:
        if at not in slopes:
            slopes[at] = np.asarray(gradient((1 - at) * a + at * b), np.float64)
            if slopes[at].shape != a.shape:
                raise ValueError(
                    f"gradient returned shape {slopes[at].shape}; the weights have {a.shape}"
                )
        return slopes[at]

    weights = [1.0, *(4.0 if j % 2 else 2.0 for j in range(1, n)), 1.0]
    sums = sum((w * slope(j / n) for j, w in enumerate(weights)), start=np.zeros_like(a))
    allocation = (b - a) * (sums / (3.0 * n))
    total = math.fsum(allocation.ravel())
    if change is None:
        error = math.nan
    elif isinstance(change, tuple):
        before, after = change
        error = after - (before + total)
    else:
        error = change - total
    return PathLossChange(allocation, total, n, error)
