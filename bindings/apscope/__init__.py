"""apscope shows what a low-precision gradient loses, exactly.

Formats
    `FloatFormat`, `BlockFormat`; `named_formats`, `named_block_formats`; `identify` (which one a dtype is), `fingerprint` (what a cast of
    others does, a `Fingerprint`), `p3109` (IEEE P3109's projections). Where a format is asked for, its name or a dtype does.
Arrays
    `quantize`, `encode`, `decode`; `Draws` (a seed that advances from call to call, for stochastic rounding); `cast_statistics` (what a cast
    loses); `allreduce`; with scales of blocks `quantize_blocks`, `encode_blocks` (to `EncodedBlocks`), `decode_blocks`; codes without gaps:
    `pack`, `unpack`; `optimal_levels` (of least variance).
Arithmetic, one rounding each
    `add`, `subtract`, `multiply`, `divide`, `sqrt`, `fma`; in a stated order `sum`, `dot`, `matmul`; `plan` (which path serves, and why it is
    exact, a `Plan`).
Schemes
    `schemes` (one class each, specs, `schemes.define`), `hybrid` (mixtures), `main_schemes`, `all_schemes`; `exchange` (one step's
    gradients through one, an `Exchange`); `cost` (what a step costs, by a model).
Traces and replays
    `record` (how to make one), `open_trace` (a `Trace`), `replay` (to `Results`: ``summary``, ``compare``, ``pool``), `merge`; `report`, `explore`, `plots`.
Studies
    scales of layers: `activation_scales`, `layer_scale`, `join_scales`, `unit_scaling`, `unit_scales`; weights in low precision:
    `update_underflow`, `underflow_curve`, `weight_residual` (a `WeightResidual`), `sgd_updates`; what errors do to the loss: `loss_change`,
    `path_loss_change` (a `PathLossChange`); linear models: `double_sampling` (a `DoubleSampling`); mixed widths: `fractrain_cost` (a
    `FracTrainCost`).
This machine
    `bench`.
"""

import importlib as _importlib
import sys as _sys
import types as _types

from . import cost, hybrid, p3109, schemes
from ._core import BlockFormat, FloatFormat, __version__
from .activation_scales import activation_scales, join_scales, layer_scale
from .arithmetic import add, divide, fma, multiply, sqrt, subtract
from .arrays import allreduce, decode, encode, quantize
from .attribution import PathLossChange, loss_change, path_loss_change
from .bench import bench
from .blocks import EncodedBlocks, decode_blocks, encode_blocks, named_block_formats, pack, quantize_blocks, unpack
from .cast_statistics import cast_statistics
from .double_sampling import DoubleSampling, double_sampling
from .draws import Draws
from .exchange import Exchange, exchange
from .explore import explore
from .fingerprint import Fingerprint, fingerprint
from .formats import named_formats
from .fractrain import FracTrainCost, fractrain_cost
from .identify import identify
from .levels import optimal_levels
from .plan import Plan, plan
from .replay import replay
from .report import report
from .results import Results, merge
from .scheme_lists import all_schemes, main_schemes
from .sums import dot, matmul, sum
from .trace import Trace, open_trace
from .unit_scaling import unit_scales, unit_scaling
from .weight_updates import WeightResidual, sgd_updates, underflow_curve, update_underflow, weight_residual

__all__ = [
    "BlockFormat",
    "DoubleSampling",
    "Draws",
    "EncodedBlocks",
    "Exchange",
    "Fingerprint",
    "FloatFormat",
    "FracTrainCost",
    "PathLossChange",
    "Plan",
    "Results",
    "Trace",
    "WeightResidual",
    "__version__",
    "activation_scales",
    "add",
    "all_schemes",
    "allreduce",
    "bench",
    "cast_statistics",
    "cost",
    "decode",
    "decode_blocks",
    "divide",
    "dot",
    "double_sampling",
    "encode",
    "encode_blocks",
    "exchange",
    "explore",
    "fingerprint",
    "fma",
    "fractrain_cost",
    "hybrid",
    "identify",
    "join_scales",
    "layer_scale",
    "loss_change",
    "main_schemes",
    "matmul",
    "merge",
    "multiply",
    "named_block_formats",
    "named_formats",
    "open_trace",
    "optimal_levels",
    "p3109",
    "pack",
    "path_loss_change",
    "plan",
    "quantize",
    "quantize_blocks",
    "replay",
    "report",
    "schemes",
    "sgd_updates",
    "sqrt",
    "subtract",
    "sum",
    "underflow_curve",
    "unit_scales",
    "unit_scaling",
    "unpack",
    "update_underflow",
    "weight_residual",
]

#: Modules that wait for their first use: matplotlib takes half a second.
_LAZY = ("plots", "record")


def __getattr__(name: str) -> _types.ModuleType:
    if name in _LAZY:
        return _importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'apscope' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


# Some functions have the name of their module, and `import apscope.report as r` gives the function: what such a module offers is
# the function's too, so that r.page is there either way.
for _name in __all__:
    _module, _function = _sys.modules.get(f"{__name__}.{_name}"), globals().get(_name)
    if _module is not None and isinstance(_function, _types.FunctionType):
        _function.__dict__.update({_part: getattr(_module, _part) for _part in getattr(_module, "__all__", (_name,))})
del _name, _module, _function
