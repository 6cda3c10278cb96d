"""apscope shows what a low-precision gradient loses, exactly.

Formats: `FloatFormat`, `named_formats`, `identify`; casts of others: `fingerprint`; IEEE P3109's
projections: `p3109`. Which path serves a request, and why it is exact: `plan`.
Arrays: `quantize`, `encode`, `decode`, `allreduce`.
Arithmetic, one rounding each: `add`, `subtract`, `multiply`, `divide`, `sqrt`, `fma`;
in a stated order: `sum`, `dot`, `matmul`.
Blocks that share a scale: `BlockFormat`, `quantize_blocks`, `encode_blocks`, `decode_blocks`; codes
without gaps: `pack`, `unpack`.
A scheme on one step's gradients: `exchange`.
Traces: `open_trace`, `replay`, `Results`, `merge`, `report`; the schemes are in `apscope.schemes`,
mixtures of them in `apscope.hybrid`, recording in `apscope.record`.
"""

from . import hybrid, p3109, schemes
from ._core import BlockFormat, FloatFormat, __version__
from .arithmetic import add, divide, fma, multiply, sqrt, subtract
from .arrays import allreduce, decode, encode, quantize
from .bench import bench
from .blocks import EncodedBlocks, decode_blocks, encode_blocks, named_block_formats, pack, quantize_blocks, unpack
from .exchange import Exchange, exchange
from .fingerprint import Fingerprint, fingerprint
from .formats import named_formats
from .identify import identify
from .plan import Plan, plan
from .replay import default_schemes, replay
from .report import report
from .results import Results, merge
from .sums import dot, matmul, sum
from .trace import Trace, open_trace

__all__ = [
    "BlockFormat",
    "EncodedBlocks",
    "Exchange",
    "Fingerprint",
    "FloatFormat",
    "Plan",
    "Results",
    "Trace",
    "__version__",
    "add",
    "allreduce",
    "bench",
    "decode",
    "decode_blocks",
    "default_schemes",
    "divide",
    "dot",
    "encode",
    "encode_blocks",
    "exchange",
    "fingerprint",
    "fma",
    "hybrid",
    "identify",
    "matmul",
    "merge",
    "multiply",
    "named_block_formats",
    "named_formats",
    "open_trace",
    "p3109",
    "pack",
    "plan",
    "quantize",
    "quantize_blocks",
    "replay",
    "report",
    "schemes",
    "sqrt",
    "subtract",
    "sum",
    "unpack",
]
