"""Why a peer differs: a plain sentence for each known difference."""

from fnmatch import fnmatchcase

from .compare import Interval

ABSOLUTE = (
    "the format has no sign: NVIDIA documents a cast of the absolute value, for apscope a "
    "negative number lies below the format"
)
# The first row that fits: names of peers, kind of input, sign (None: both), why.
REASONS = (
    ("ml_dtypes.float[46]_*", "NaN", None,
     "the format has no NaN: ml_dtypes makes it the zero of the other sign, apscope refuses to "
     "encode it unless told a code"),
    ("*e8m0*", "zero", None,
     "the format has no zero: the peer gives the smallest value, apscope NaN unless it saturates"),
    ("__nv_cvt_*e8m0*", "finite", True, ABSOLUTE),
    ("__nv_cvt_*e8m0*", "infinity", True, ABSOLUTE),
    ("torch.float8_e8m0fnu", "finite", True,
     "the format has no sign: torch drops it, apscope gives NaN"),
    ("*.float8_e8m0fnu", "finite", False,
     "rounded to the wrong neighbour: below 1.5 2^-127 an input "
     "is nearer to 2^-127, but becomes 2^-126"),
    ("VCVTNEPS2BF16", "finite", None,
     "the instruction takes an fp32 subnormal as a zero, as its manual says"),
)  # fmt: skip


def reason(peer: str, interval: Interval) -> str | None:
    """The sentence for an interval of a peer's differences, None if the reason is unknown."""
    for names, kind, is_negative, why in REASONS:
        if (
            fnmatchcase(peer, names)
            and interval.kind == kind
            and is_negative in (None, interval.is_negative)
        ):
            return why
    return None
