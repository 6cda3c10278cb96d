"""apscope shows what a low-precision gradient loses, exactly.

Formats: `FloatFormat`, `named_formats`, `identify`; casts of others: `fingerprint`; IEEE P3109's
projections: `p3109`. Which path serves a request, and why it is exact: `plan`.
Arrays: `quantize`, `encode`, `decode`, `allreduce`; what a cast loses: `cast_statistics`.
Arithmetic, one rounding each: `add`, `subtract`, `multiply`, `divide`, `sqrt`, `fma`;
in a stated order: `sum`, `dot`, `matmul`.
Blocks that share a scale: `BlockFormat`, `quantize_blocks`, `encode_blocks`, `decode_blocks`; codes
without gaps: `pack`, `unpack`.
Loss scales of layers: `activation_scales`, `layer_scale`, `join_scales`; static ones: `unit_scaling`,
`unit_scales`; weights in low precision: `update_underflow`, `underflow_curve`, `weight_residual`, `sgd_updates`.
A scheme on one step's gradients: `exchange`; levels of least variance: `optimal_levels`; low-precision
gradients of linear models: `double_sampling`; what a mixed-width training step costs: `fractrain_cost`.
Traces: `open_trace`, `replay`, `Results` (`summary`, `compare`, `pool`), `merge`, `report`; the schemes are in
`apscope.schemes`, lists of them `main_schemes` and `all_schemes`,
mixtures of them in `apscope.hybrid`, recording in `apscope.record`. What errors do to the loss: `loss_change`,
`path_loss_change`; what a step costs, by a model: `apscope.cost`.
"""

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
from .exchange import Exchange, exchange
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
