"""apscope shows what a low-precision gradient loses, exactly.

Formats
    `FloatFormat`, `BlockFormat`, and `Projection` (how a number is converted to a format);
    `named_formats`, `named_block_formats`; `identify` (the format of a dtype), `fingerprint` (the
    rule of another library's cast, the order of its sums). Parameters that are formats also accept
    names and dtypes.
Arrays
    `quantize`, `encode`, `decode`; `Draws` (a seed that advances from call to call, for stochastic
    rounding); `cast_statistics` (the errors of a cast); `allreduce`; with scales of blocks
    `quantize_blocks`, `encode_blocks`, `decode_blocks`; codes without gaps: `pack`, `unpack`.
Arithmetic, one rounding each
    `add`, `subtract`, `multiply`, `divide`, `sqrt`, `fma`; in a stated order `sum`, `dot`,
    `matmul`, also as matrix units add (`units`); `plan` (which path is used, and why it is exact).
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

from . import _interrupt  # noqa: F401  # first: the others take their time
from ._arrays import blocks as _blocks  # noqa: F401  # this and the next give C++'s classes words
from ._formats import formats as _worded  # noqa: F401
from ._lazy import lazy as _lazy

#: The public modules, and those that need an extra, which ``from apscope import *`` does without.
_MODULES = (
    "cli", "conformance", "cost", "cuda", "hybrid", "machine", "p3109", "plots", "record",
    "schemes", "studies", "types",
)  # fmt: skip
_EXTRAS = ("torch", "train", "train.cpd", "train.unit_scaling")

#: Every public name, under the module that defines it; some modules need pandas, pyarrow or
#: matplotlib.
_NAMES = {
    "": " ".join(_MODULES),
    "_advice.plan": "Plan",
    "_advice.recommend": "recommend",
    "_arrays.allreduce": "allreduce",
    "_arrays.arithmetic": "add divide fma multiply sqrt subtract",
    "_arrays.blocks": "decode_blocks encode_blocks named_block_formats pack quantize_blocks unpack",
    "_arrays.cast_statistics": "cast_statistics",
    "_arrays.casts": "decode encode quantize",
    "_arrays.draws": "Draws",
    "_arrays.plan": "plan",
    "_arrays.projection": "Projection",
    "_arrays.sums": "dot matmul sum",
    "_arrays.units": "units",
    "_core": "BlockFormat FloatFormat __version__",
    "_excess_loss.expected": "expected_excess",
    "_formats.formats": "named_formats",
    "_formats.identify": "identify",
    "_proof.fingerprint": "fingerprint",
    "_rate_limit.limit": "limit",
    "_replay.ladder": "ladder",
    "_replay.replay": "replay",
    "_report": "report",
    "_report.explore": "explore",
    "_results.merging": "merge",
    "_results.results": "Results",
    "_schemes.exchange": "exchange",
    "_search.search": "search",
    "_traces.opening": "open_trace",
    "_traces.trace": "Trace",
}
__all__, __getattr__ = _lazy(__name__, _NAMES, _EXTRAS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
