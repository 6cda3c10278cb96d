"""Another implementation of a cast, and the rule that its documentation states."""

import dataclasses
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Peer:
    """A cast from float32 to the codes of a format.

    Attributes
    ----------
    name : str
        ``package.what``, unique among the peers.
    version : str
        Of the package, of the headers or of the processor's instruction set; with all on which
        results depend.
    format, rounding, overflow : str
        The arguments of apscope's function.
    codes : callable
        From a float32 array (float64 where `source` says so) to the codes, unsigned integers.
    nan : int or None
        The code that a NaN gets in a format without NaN, where the peer documents one.
    source : str
        ``float32`` or ``float64``: what it casts from. Only float32 peers are walked over all
        inputs.
    """

    name: str
    version: str
    format: str
    codes: Callable[[np.ndarray], np.ndarray]
    rounding: str = "ties_to_even"
    overflow: str = "ieee"
    nan: int | None = None
    source: str = "float32"


class Missing(Exception):
    """A package, a header or an instruction that is not here: the reason why peers are left out."""
