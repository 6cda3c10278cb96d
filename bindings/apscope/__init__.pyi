"""Written by .ci/stubs.py: make stubs."""

from . import cli, conformance, cost, cuda, hybrid, machine, p3109, plots, record, schemes, studies, types
from ._advice.plan import Plan
from ._advice.recommend import recommend
from ._arrays.allreduce import allreduce
from ._arrays.arithmetic import add, divide, fma, multiply, sqrt, subtract
from ._arrays.blocks import decode_blocks, encode_blocks, named_block_formats, pack, quantize_blocks, unpack
from ._arrays.cast_statistics import cast_statistics
from ._arrays.casts import decode, encode, quantize
from ._arrays.draws import Draws
from ._arrays.plan import plan
from ._arrays.projection import Projection
from ._arrays.sums import dot, matmul, sum
from ._core import BlockFormat, FloatFormat, __version__
from ._excess_loss.expected import expected_excess
from ._formats.formats import named_formats
from ._formats.identify import identify
from ._proof.fingerprint import fingerprint
from ._rate_limit.limit import limit
from ._replay.ladder import ladder
from ._replay.replay import replay
from ._report import report
from ._report.explore import explore
from ._results.merging import merge
from ._results.results import Results
from ._schemes.exchange import exchange
from ._search.search import search
from ._traces.opening import open_trace
from ._traces.trace import Trace

__all__ = ["BlockFormat", "Draws", "FloatFormat", "Plan", "Projection", "Results", "Trace", "__version__", "add", "allreduce", "cast_statistics", "cli", "conformance", "cost", "cuda", "decode", "decode_blocks", "divide", "dot", "encode", "encode_blocks", "exchange", "expected_excess", "explore", "fingerprint", "fma", "hybrid", "identify", "ladder", "limit", "machine", "matmul", "merge", "multiply", "named_block_formats", "named_formats", "open_trace", "p3109", "pack", "plan", "plots", "quantize", "quantize_blocks", "recommend", "record", "replay", "report", "schemes", "search", "sqrt", "studies", "subtract", "sum", "types", "unpack"]
