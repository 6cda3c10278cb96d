"""Training with an emulated exchange of gradients, bit for bit (extra ``torch``).

`Workers` trains with several workers in one process. `ExchangeState` does the same in a job of
several processes: with `exchange_hook` under PyTorch's ``DistributedDataParallel``, with
`exchange_fsdp` under ``fully_shard``. All give the same bits.

Methods of training, each with its source (docs/methods.md): `AdaptiveLossScaling`, `FracTrain`
with `Gates` (contexts around a model's layers), `HALP` (an optimizer), `DoubleSampledLinear` (a layer),
`multipoint` (a trained model's weights); `apscope.train.unit_scaling` has layers of unit variance.
"""

try:
    import torch as _torch
except ImportError as _error:
    raise ImportError(
        "apscope.train needs PyTorch: pip install 'apscope[torch]', or any torch from 2.4 on"
    ) from _error

from ._adaptive_loss_scaling import AdaptiveLossScaling
from ._double_sampling import DoubleSampledLinear
from ._fractrain import FracTrain
from ._fractrain_gates import Gates
from ._fsdp import exchange_fsdp
from ._halp import HALP
from ._hook import ExchangeState, exchange_hook
from ._multipoint import multipoint
from ._quantized import (
    Cast,
    LossScale,
    QuantizedModel,
    Recipe,
    Sum,
    Weights,
    quantization,
    quantize_model,
    recipes,
    register_module,
)
from ._workers import Workers

__all__ = [
    "HALP", "AdaptiveLossScaling", "Cast", "DoubleSampledLinear", "ExchangeState", "FracTrain",
    "Gates", "LossScale", "QuantizedModel", "Recipe", "Sum", "Weights", "Workers", "exchange_fsdp",
    "exchange_hook", "multipoint", "quantization", "quantize_model", "recipes", "register_module",
]  # fmt: skip
__dir__ = __all__.copy
del _torch
