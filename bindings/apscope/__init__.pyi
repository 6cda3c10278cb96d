"""Written by .ci/stubs.py: make stubs."""

from . import cli as cli, conformance as conformance, cost as cost, cuda as cuda, hybrid as hybrid, machine as machine, p3109 as p3109, plots as plots, record as record, schemes as schemes, studies as studies, types as types
from ._advice.plan import Plan as Plan
from ._advice.recommend import recommend as recommend
from ._arrays.allreduce import allreduce as allreduce
from ._arrays.arithmetic import add as add, divide as divide, fma as fma, multiply as multiply, sqrt as sqrt, subtract as subtract
from ._arrays.blocks import decode_blocks as decode_blocks, encode_blocks as encode_blocks, named_block_formats as named_block_formats, pack as pack, quantize_blocks as quantize_blocks, unpack as unpack
from ._arrays.cast_statistics import cast_statistics as cast_statistics
from ._arrays.casts import decode as decode, encode as encode, quantize as quantize
from ._arrays.draws import Draws as Draws
from ._arrays.plan import plan as plan
from ._arrays.projection import Projection as Projection
from ._arrays.sums import dot as dot, matmul as matmul, sum as sum
from ._arrays.units import units as units
from ._core import BlockFormat as BlockFormat, FloatFormat as FloatFormat, __version__ as __version__
from ._excess_loss.expected import expected_excess as expected_excess
from ._formats.formats import named_formats as named_formats
from ._formats.identify import identify as identify
from ._proof.fingerprint import fingerprint as fingerprint
from ._rate_limit.limit import limit as limit
from ._replay.ladder import ladder as ladder
from ._replay.replay import replay as replay
from ._report import report as report
from ._report.explore import explore as explore
from ._results.merging import merge as merge
from ._results.results import Results as Results
from ._schemes.exchange import exchange as exchange
from ._search.search import search as search
from ._traces.opening import open_trace as open_trace
from ._traces.trace import Trace as Trace

__all__ = ["BlockFormat", "Draws", "FloatFormat", "Plan", "Projection", "Results", "Trace", "__version__", "add", "allreduce", "cast_statistics", "cli", "conformance", "cost", "cuda", "decode", "decode_blocks", "divide", "dot", "encode", "encode_blocks", "exchange", "expected_excess", "explore", "fingerprint", "fma", "hybrid", "identify", "ladder", "limit", "machine", "matmul", "merge", "multiply", "named_block_formats", "named_formats", "open_trace", "p3109", "pack", "plan", "plots", "quantize", "quantize_blocks", "recommend", "record", "replay", "report", "schemes", "search", "sqrt", "studies", "subtract", "sum", "types", "units", "unpack"]
