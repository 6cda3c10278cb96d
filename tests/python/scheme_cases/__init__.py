"""The specs on which every invariant runs, one file per group of the registry; at least one a
scheme."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import numpy as np

GROUPS = ("baseline", "aps", "loss_scaling", "recipes", "stochastic_grids", "one_bit", "transforms")


@dataclass(frozen=True)
class Case:
    """A spec, and which invariants its scheme has by design."""

    spec: str
    zero: bool = True  #: all-zero tensors come out as zeros (not: signs)
    own: bool = True  #: one worker's reduced value is what it sent (not: a second encoding)
    #: the order of the workers does not matter to what each sends, rank by rank (not: random words,
    #: ranks with roles)
    order: bool = True
    #: run(2^k g) = 2^k run(g), bit for bit, away from the limits of fp32 (not: constant scales)
    scaled: bool = True
    special: bool = (
        True  #: elements that are not finite are rounded or returned, and change nothing else
    )
    alone: bool = True  #: a tensor's scale is its own (not: one for several tensors)
    #: run(3 g) = 3 run(g) to rounding: the scale is a real number taken from the gradients
    homogeneous: bool = False
    needs: tuple[
        str, ...
    ] = ()  #: what beside gradients it is given: weights, full_batch, loss, learning_rate
    sent: Callable[[np.ndarray], np.ndarray] | None = (
        #: the formula, where it is a line of NumPy: of a worker's gradients, fp32, what its message
        #: decodes to
        None
    )


def cases() -> list[Case]:
    return [case for group in GROUPS for case in import_module(f"{__name__}.{group}").CASES]
