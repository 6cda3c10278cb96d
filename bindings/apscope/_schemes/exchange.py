"""One exchange: a scheme on the gradients of all workers, at one step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._arrays.checks import integer, taken, text, workers_first
from .._arrays.draws import Draws
from .._arrays.inputs import _as_array, contiguous
from .scheme import Scheme, as_scheme


@dataclass(frozen=True)
class Exchange:
    """The result of a scheme for the workers' gradients. Arrays are float64."""

    #: (workers, ...): the values before encoding: gradients, possibly compensated
    intended: np.ndarray
    sent: np.ndarray  #: (workers, ...): the decoded message of each worker
    reduced: np.ndarray  #: (...): the sum over the workers (never divided)
    #: the topology, or the scheme's own reduction: gather, vote, code_sum, own:two_phase, linear,
    #: streams, own:ring, own:butterfly
    reduction: str
    payload: list[bytes]  #: each worker's packed codes
    payload_bits: list[int]  #: their lengths; a payload's last byte may have unused bits
    side_bits: list[int]  #: each worker's side information: scales, norms
    #: (workers, ...): E[sent] - intended over the random draws; None if unknown or not random
    bias: np.ndarray | None
    variance: np.ndarray | None  #: (workers, ...): Var[sent]
    scale_exponent: int | None  #: s if one power of two 2^s scaled everything
    skipped: bool  #: the scheme dropped this step
    state: dict[str, np.ndarray]  #: the scheme's memory; pass it to the next step


def exchange(
    scheme: Scheme | str,
    x: Any,
    *,
    topology: str = "ring",
    state: Mapping[str, np.ndarray] | None = None,
    step: int = 0,
    index: int | None = None,
    tensor: str = "x",
    role: str = "other",
    seed: int | Draws = 0,
    loss: float | None = None,
    learning_rate: float | None = None,
    weights: Any = None,
    full_batch: Any = None,
) -> Exchange:
    """Run one step's gradients of one tensor through a scheme.

    Parameters
    ----------
    scheme : Scheme or str
        Any scheme except ``hybrid``, whose branches are separate schemes. A scheme with one scale
        for all tensors of a step (``aps`` with ``unit=model`` or ``bucket:SIZE``) treats x as all
        of them.
    x : array_like of float32, shape (workers, ...)
        One array per worker. Elements that are not finite are rounded by a float grid (with
        ``overflow=saturate`` an infinity becomes the largest value) and by the blocks of ``mx``
        and ``nvfp4``, and returned unchanged by other schemes. They count as 0 in the choice of a
        scale, which learns how many there are: a dynamic loss scale drops such a step, and one
        whose sums overflow. Not changed.
    topology : str
        For schemes that add in a format; the others have their own reduction.
    state : mapping, optional
        The state of the step before, from `Exchange.state`; empty at first. Not changed.
    step, tensor, seed
        Key of the random draws, as in a replay; a `Draws` gives every call its own seed.
    index : int, optional
        Number of the step in the sequence of exchanges, from 0; by default `step`.
    role : str
        The tensor's role.
    loss, learning_rate, weights, full_batch
        For schemes that need them; arrays of x.shape[1:].

    Returns
    -------
    Exchange

    Raises
    ------
    ValueError
        An unknown scheme or topology, no worker, a policy, a missing input of the scheme.
    TypeError
        x is not float32.
    """
    chosen = as_scheme(scheme)
    a = _as_array(x, "x")
    if a.dtype.newbyteorder("=") != np.float32:
        raise TypeError(f"x has dtype {a.dtype}; exchange takes float32")
    shape = workers_first(a.shape)
    records = {
        "weights": weights,
        "full_batch": full_batch,
        "loss": loss,
        "learning_rate": learning_rate,
    }
    for name in chosen.needs:
        if records[name] is None:
            raise ValueError(f"scheme '{chosen.spec}' needs {name}; give {name}=")
    extra = []
    for name in ("weights", "full_batch"):
        array = records[name]
        if array is not None:
            array = contiguous(array, np.float32)
            if array.shape != shape:
                raise ValueError(
                    f"{name} has shape {array.shape}; it must be that "
                    f"of one worker's gradient, {shape}"
                )
            array = array.reshape(-1)
        extra.append(array)
    number = integer("step", step, 0, 2**62)
    at = _core.TrainingStep(
        text("tensor", tensor),
        text("role", role),
        list(shape),
        number,
        number if index is None else integer("index", index, 0, 2**62),
        integer("seed", taken(seed), 0, 2**64 - 1),
        math.nan if loss is None else float(loss),
        math.nan if learning_rate is None else float(learning_rate),
    )
    flat = contiguous(a, np.float32).reshape(a.shape[0], math.prod(shape))
    made = _core.exchange(
        chosen.spec, flat, at, dict(state or {}), text("topology", topology), *extra
    )
    del made["draws"]
    for name in ("intended", "sent", "bias", "variance"):
        if made[name] is not None:
            made[name] = made[name].reshape(a.shape)
    made["reduced"] = made["reduced"].reshape(shape)
    return Exchange(**made)
