"""apscope shows what a low-precision gradient loses, exactly.

Formats: `FloatFormat`, `named_formats`, `identify`, `fingerprint`. Arrays: `quantize`, `encode`, `decode`, `allreduce`.
Traces: `open_trace`, `replay`, `Results`, `merge`, `report`; the schemes are in `apscope.schemes`,
recording in `apscope.record`.
"""

from . import schemes
from ._core import FloatFormat, __version__
from .arrays import allreduce, decode, encode, quantize
from .fingerprint import Fingerprint, fingerprint
from .formats import named_formats
from .identify import identify
from .replay import default_schemes, replay
from .report import report
from .results import Results, merge
from .trace import Trace, open_trace

__all__ = [
    "Fingerprint",
    "FloatFormat",
    "Results",
    "Trace",
    "__version__",
    "allreduce",
    "decode",
    "default_schemes",
    "encode",
    "fingerprint",
    "identify",
    "merge",
    "named_formats",
    "open_trace",
    "quantize",
    "replay",
    "report",
    "schemes",
]
