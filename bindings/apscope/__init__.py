"""apscope shows what a low-precision gradient loses, exactly.

Formats
    `FloatFormat`, `BlockFormat`, and `Projection` (how a number is converted to a format);
    `named_formats`, `named_block_formats`; `identify` (the format of a dtype), `fingerprint` (the
    rule of another library's cast). Parameters that are formats also accept names and dtypes.
Arrays
    `quantize`, `encode`, `decode`; `Draws` (a seed that advances from call to call, for stochastic
    rounding); `cast_statistics` (the errors of a cast); `allreduce`; with scales of blocks
    `quantize_blocks`, `encode_blocks`, `decode_blocks`; codes without gaps: `pack`, `unpack`.
Arithmetic, one rounding each
    `add`, `subtract`, `multiply`, `divide`, `sqrt`, `fma`; in a stated order `sum`, `dot`,
    `matmul`; `plan` (which path is used, and why it is exact).
Traces and replays
    `open_trace` (to a `Trace`), `replay` (to `Results`: ``summary``, ``compare``, ``pool``),
    `merge`; `ladder` (the gain of finer scales); `recommend` (a scheme for every layer, a `Plan`);
    `search` (which split of N bits); `limit` (the error that no memoryless code of N bits
    undercuts); `expected_excess` (what an error costs in training, as far as it was established);
    `report`, `explore`; `exchange` (one step through one scheme).
Modules
    `schemes` (one class each, lists, `schemes.define`), `hybrid` (mixtures), `cost` (modelled time
    of a step); `record` (making traces), `plots`, `studies` (one module per question); `p3109`
    (IEEE P3109's projections), `conformance` (test vectors for other implementations), `machine`
    (proofs and speed on this machine), `cuda` (arrays in a GPU's memory), `types` (what functions
    return), `cli` (the command line). With PyTorch (extra ``torch``): ``apscope.torch``
    (these functions with gradients), ``apscope.train`` (training under an emulated exchange).
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from . import _interrupt  # noqa: F401  # first: the others take their time
from ._arrays.allreduce import allreduce
from ._arrays.arithmetic import add, divide, fma, multiply, sqrt, subtract
from ._arrays.blocks import (
    decode_blocks,
    encode_blocks,
    named_block_formats,
    pack,
    quantize_blocks,
    unpack,
)
from ._arrays.cast_statistics import cast_statistics
from ._arrays.casts import decode, encode, quantize
from ._arrays.draws import Draws
from ._arrays.projection import Projection
from ._arrays.sums import dot, matmul, sum
from ._core import BlockFormat, FloatFormat, __version__
from ._formats.formats import named_formats

if _TYPE_CHECKING:
    from . import (
        cli,
        conformance,
        cost,
        cuda,
        hybrid,
        machine,
        p3109,
        plots,
        record,
        schemes,
        studies,
        types,
    )
    from ._advice.plan import Plan
    from ._advice.recommend import recommend
    from ._arrays.plan import plan
    from ._excess_loss.expected import expected_excess
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

#: Names that are imported on first use, because they need pandas, pyarrow or matplotlib, or few
#: programs use them: where each is defined.
_LAZY = {
    "Plan": "_advice.plan",
    "Results": "_results.results",
    "Trace": "_traces.trace",
    "exchange": "_schemes.exchange",
    "expected_excess": "_excess_loss.expected",
    "explore": "_report.explore",
    "fingerprint": "_proof.fingerprint",
    "identify": "_formats.identify",
    "ladder": "_replay.ladder",
    "limit": "_rate_limit.limit",
    "merge": "_results.merging",
    "open_trace": "_traces.opening",
    "plan": "_arrays.plan",
    "recommend": "_advice.recommend",
    "replay": "_replay.replay",
    "report": "_report",
    "search": "_search.search",
}
#: The public modules, also imported on first use.
_MODULES = (
    "cli", "conformance", "cost", "cuda", "hybrid", "machine", "p3109", "plots", "record",
    "schemes", "studies", "types",
)  # fmt: skip
#: Public modules that need an extra, likewise; ``from apscope import *`` does without them.
_EXTRAS = ("torch", "train", "train.cpd", "train.unit_scaling")

__all__ = [
    "BlockFormat", "Draws", "FloatFormat", "Plan", "Projection", "Results", "Trace",
    "__version__", "add", "allreduce", "cast_statistics", "cli", "conformance", "cost", "cuda",
    "decode", "decode_blocks", "divide", "dot", "encode", "encode_blocks", "exchange",
    "expected_excess", "explore", "fingerprint", "fma", "hybrid", "identify", "ladder", "limit",
    "machine", "matmul", "merge", "multiply", "named_block_formats", "named_formats", "open_trace", "p3109",
    "pack", "plan", "plots", "quantize", "quantize_blocks", "recommend", "record", "replay",
    "report", "schemes", "search", "sqrt", "studies", "subtract", "sum", "types", "unpack",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _MODULES or name in _EXTRAS:
        return _importlib.import_module(f".{name}", __name__)
    if name in _LAZY:
        value = getattr(_importlib.import_module(f".{_LAZY[name]}", __name__), name)
        globals()[name] = value  # once
        return value
    raise AttributeError(f"module 'apscope' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
