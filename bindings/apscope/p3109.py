"""IEEE P3109's projection specifications as projections of this package."""

from __future__ import annotations

from ._arrays.checks import integer
from ._arrays.inputs import FormatLike, as_format
from ._arrays.projection import Projection
from ._core import FloatFormat

__all__ = ["ROUNDINGS", "SATURATIONS", "VERSIONS", "projection"]
__dir__ = __all__.copy

#: P3109's rounding modes and their names in `quantize`.
ROUNDINGS = {
    "NearestTiesToEven": "ties_to_even",
    "NearestTiesToAway": "ties_to_away",
    "TowardPositive": "toward_positive",
    "TowardNegative": "toward_negative",
    "TowardZero": "toward_zero",
    "ToOdd": "to_odd",
    "StochasticA": "stochastic",
    "StochasticB": "stochastic_b",
    "StochasticC": "stochastic_c",
}
SATURATIONS = ("SatFinite", "SatPropagate", "SatNone")
#: Interim report v4.0, and the draft of July 2026, whose SatNone gives NaN in finite formats.
VERSIONS = ("v4.0", "2026-07")


def projection(
    format: FormatLike,
    rounding: str = "NearestTiesToEven",
    saturation: str = "SatNone",
    *,
    random_bits: int | None = None,
    version: str = "2026-07",
) -> Projection:
    """The projection of a P3109 projection specification, for casts and arithmetic.

    Parameters
    ----------
    format : FloatFormat, str or dtype
        A P3109 format, such as ``binary8p3se``: a projection depends on its domain.
    rounding : str
        One of `ROUNDINGS`.
    saturation : str
        One of `SATURATIONS`.
    random_bits : int, optional
        N of the stochastic roundings, which need it; 1 to 64 (StochasticB and StochasticC: 62).
    version : str
        One of `VERSIONS`. They differ in SatNone on finite formats: the largest value in v4.0, NaN
        (except for directions that round towards zero) in the draft of July 2026.

    Returns
    -------
    Projection

    Raises
    ------
    ValueError
        A format that is not P3109's, an unknown name, a stochastic rounding without `random_bits`
        or another with it; ToOdd with SatNone on an unsigned extended format in v4.0, which clamps
        only above, unlike any overflow rule here.

    Notes
    -----
    Sections 4.7.4 (rounding to precision) and 4.7.5 (saturation) of the draft. P3109's Divide gives
    NaN for x / 0, where `divide` follows IEEE 754.

    Examples
    --------
    >>> from apscope import p3109, quantize
    >>> p3109.projection("binary8p3se", "ToOdd")
    Projection('to_odd', overflow='infinity')
    >>> quantize(1e9, "binary4p2sf", projection=p3109.projection("binary4p2sf", version="v4.0"))
    3.0
    """
    f = as_format(format)
    if not _is_p3109(f):
        raise ValueError(f"{f.name} is not a P3109 format; give one such as binary8p3se")
    mode = ROUNDINGS.get(rounding)
    if mode is None:
        raise ValueError(f"unknown P3109 rounding {rounding!r}; use one of {', '.join(ROUNDINGS)}")
    if saturation not in SATURATIONS:
        raise ValueError(
            f"unknown P3109 saturation {saturation!r}; use one of {', '.join(SATURATIONS)}"
        )
    if version not in VERSIONS:
        raise ValueError(f"unknown P3109 version {version!r}; use one of {', '.join(VERSIONS)}")
    drawn = 32
    if mode.startswith("stochastic"):
        if random_bits is None:
            raise ValueError(f"{rounding} needs random_bits, the N of P3109")
        drawn = integer("random_bits", random_bits, 1, 64 if mode == "stochastic" else 62)
    elif random_bits is not None:
        raise ValueError(f"random_bits={random_bits} is given, but {rounding} draws nothing")
    return Projection(mode, overflow=_overflow(f, rounding, saturation, version), random_bits=drawn)


def _is_p3109(f: FloatFormat) -> bool:
    try:
        kind = ("s" if f.is_signed else "u") + ("e" if f.has_infinity else "f")
        return f == FloatFormat(f"binary{f.storage_bits}p{f.precision}{kind}")
    except ValueError:
        return False


def _overflow(f: FloatFormat, rounding: str, saturation: str, version: str) -> str:
    if saturation == "SatFinite":
        return "saturate"
    if saturation == "SatPropagate":
        return "propagate"
    if version == "v4.0" and not f.has_infinity:
        return "saturate"
    if rounding != "ToOdd":
        return "ieee"
    # ToOdd has no direction: overflow is the infinity, or the NaN, whatever its sign.
    if version == "v4.0" and not f.is_signed:
        raise ValueError(
            f"ToOdd with SatNone on {f.name} clamps only above in P3109 v4.0, unlike any overflow "
            "rule here; use version='2026-07'"
        )
    return "infinity" if f.has_infinity else "nan"
