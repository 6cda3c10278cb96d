"""Unit scaling as a diagnostic: static scales from shapes, compared with recorded gradients."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
import pandas as pd

from .._arrays.casts import quantize
from .._arrays.checks import integer, listed
from .._arrays.float_environment import guarded
from .._arrays.inputs import FormatLike, as_format
from .._traces.opening import as_trace
from .._traces.trace import Trace

__all__ = ["UnitScales", "layer_deviations", "unit_scales"]
__dir__ = __all__.copy


@dataclass(frozen=True)
class UnitScales:
    """The factors of the results of a layer's three products."""

    output: float
    input_gradient: float
    weight_gradient: float


@guarded
def unit_scales(weight_shape: Sequence[int], batch: int, *, constrained: bool = True) -> UnitScales:
    """The scales of a linear layer or convolution that preserve unit variance.

    A sum of n independent products of variance 1 has variance n; each scale is one over the root of
    the number of terms in its sum.

    Parameters
    ----------
    weight_shape : sequence of int
        (outputs, inputs, kernel...). A kernel's positions count as inputs and as outputs: an
        extension of the rule for linear layers, whose kernel is a single position.
    batch : int
        Terms of the weights' gradient: samples times output positions.
    constrained : bool
        The input's gradient uses the output's scale; otherwise forward and backward disagree.

    Returns
    -------
    UnitScales

    Raises
    ------
    ValueError
        Fewer than two axes, a length or a batch below 1.
    """
    lengths = listed("weight_shape", weight_shape)
    weight_shape = [integer("weight_shape", n, 0, 2**62) for n in lengths]
    batch = integer("batch", batch, 0, 2**62)
    if len(weight_shape) < 2 or min(weight_shape) < 1 or batch < 1:
        raise ValueError(
            f"weight_shape={tuple(weight_shape)}, batch={batch}: give "
            "outputs and inputs, all at least 1"
        )
    kernel = math.prod(weight_shape[2:])
    output = (weight_shape[1] * kernel) ** -0.5
    return UnitScales(
        output, output if constrained else (weight_shape[0] * kernel) ** -0.5, batch**-0.5
    )


@guarded
def layer_deviations(
    trace: Trace | str | os.PathLike[str],
    step: int,
    *,
    format: FormatLike = "e5m2",
    worker: int = 0,
) -> pd.DataFrame:
    """How far a model is from unit scale: one row per linear layer or convolution.

    Parameters
    ----------
    trace : Trace or path-like
        With ``layer_input`` and ``activation_gradient`` at `step`.
    step : int
    format : FloatFormat, str or dtype
        Of the weight gradients.
    worker : int

    Returns
    -------
    pandas.DataFrame
        layer, batch, the three scales; std_input, std_output_gradient (as recorded); std_scaled: of
        the weight gradient times its scale; ratio: std_scaled divided by the product of both, 1 for
        independent factors of mean zero; underflow: share of nonzero weight gradient elements that
        round to 0 in the format at that scale, and underflow_unit the same once the gradient at the
        output is divided by its standard deviation.

    Raises
    ------
    ValueError
        Neither kind is recorded at that step.
    """
    trace = as_trace(trace)
    layers = set(trace.names(step, "layer_input")) & set(trace.names(step, "activation_gradient"))
    if not layers:
        have = trace.recorded()["layer_input"]
        raise ValueError(
            f"{trace.path}: step {step} has no layer inputs and activation gradients; steps with "
            f"them are {have}"
        )
    f = as_format(format)
    rows = []
    for name, shape in trace.shapes.items():
        layer = name.removesuffix(".weight")
        if (
            layer == name
            or layer not in layers
            or len(shape) < 2
            or trace.roles[name] == "embedding"
        ):
            continue
        x, g = (
            trace.read(step, layer, worker, kind).astype(np.float64)
            for kind in ("layer_input", "activation_gradient")
        )
        weight_gradient = trace.read(step, name, worker).astype(np.float64)
        batch = g.size // shape[0]  # samples times positions
        scales = unit_scales(shape, batch)
        scaled = weight_gradient * scales.weight_gradient
        deviations = float(x.std()), float(g.std())
        spread = math.prod(deviations)
        nonzero = scaled[scaled != 0]
        lost = [
            float((quantize(nonzero / by, f) == 0).mean()) if nonzero.size and by > 0 else 0.0
            for by in (1.0, deviations[1])
        ]
        std = float(scaled.std())
        ratio = std / spread if spread > 0 else math.nan
        rows.append((layer, batch, *astuple(scales), *deviations, std, ratio, *lost))
    statistics = [
        "std_input", "std_output_gradient", "std_scaled", "ratio", "underflow", "underflow_unit",
    ]  # fmt: skip
    return pd.DataFrame(
        rows, columns=["layer", "batch", "output", "input_gradient", "weight_gradient", *statistics]
    )
