"""FracTrain's cost of a training step with operands of different widths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arrays.float_environment import guarded

__all__ = ["FracTrainCost", "relative_cost"]
__dir__ = __all__.copy

Cost = float | np.ndarray


@dataclass(frozen=True)
class FracTrainCost:
    """Costs relative to the same step with 32 bits everywhere; arrays if widths are."""

    forward: Cost  #: activations times weights
    backward: Cost  #: errors times weights
    gradient: Cost  #: activations times errors
    percent: float  #: of all three over all layers, weighted by the layers' operations


@guarded
def relative_cost(
    activation_bits: Any, weight_bits: Any, gradient_bits: Any, flops: Any = 1.0
) -> FracTrainCost:
    """A multiplication of b and c bits costs b c / 32^2 of one of 32 bits each.

    Parameters
    ----------
    activation_bits, weight_bits, gradient_bits : array_like
        Widths, one per layer or one for all.
    flops : array_like
        Operations of each layer's forward pass; the two backward products have as many each.

    Returns
    -------
    FracTrainCost

    Raises
    ------
    ValueError
        A width or a number of operations below 0, no operation at all.

    Examples
    --------
    >>> relative_cost(8, 8, 8).percent
    6.25
    """
    a, w, g, f = np.broadcast_arrays(
        *(np.asarray(v, np.float64) for v in (activation_bits, weight_bits, gradient_bits, flops))
    )
    for name, v in (("activation_bits", a), ("weight_bits", w), ("gradient_bits", g), ("flops", f)):
        if not (v >= 0).all():
            raise ValueError(f"{name} has {v.min()}; it must not be below 0")
    if not f.sum() > 0:
        raise ValueError("flops has no operation; at least one layer must have some")
    forward, backward, gradient = a * w / 1024, g * w / 1024, a * g / 1024
    percent = 100 * float((f * (forward + backward + gradient)).sum() / (3 * f.sum()))
    return FracTrainCost(forward[()], backward[()], gradient[()], percent)
