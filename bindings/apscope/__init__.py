"""apscope shows what a low-precision gradient loses, exactly.

Formats: `FloatFormat`, `named_formats`. Arrays: `quantize`, `encode`, `decode`, `allreduce`.
Arithmetic, one rounding each: `add`, `subtract`, `multiply`, `divide`, `sqrt`, `fma`;
in a stated order: `sum`, `dot`, `matmul`.
Traces: `open_trace`, `replay`, `Results`, `merge`, `report`; the schemes are in `apscope.schemes`,
recording in `apscope.record`.
"""

from . import schemes
from ._core import FloatFormat, __version__
from .arithmetic import add, divide, fma, multiply, sqrt, subtract
from .arrays import allreduce, decode, encode, quantize
from .formats import named_formats
from .replay import default_schemes, replay
from .report import report
from .results import Results, merge
from .sums import dot, matmul, sum
from .trace import Trace, open_trace

__all__ = [
    "FloatFormat",
    "Results",
    "Trace",
    "__version__",
    "add",
    "allreduce",
    "decode",
    "default_schemes",
    "divide",
    "dot",
    "encode",
    "fma",
    "matmul",
    "merge",
    "multiply",
    "named_formats",
    "open_trace",
    "quantize",
    "replay",
    "report",
    "schemes",
    "sqrt",
    "subtract",
    "sum",
]
