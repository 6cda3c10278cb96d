"""Emulated formats on PyTorch's tensors, with gradients (extra ``torch``).

`quantize`, `quantize_blocks`, `matmul`, `linear` and `conv2d` give the numbers of
`apscope.quantize`, `apscope.quantize_blocks` and `apscope.matmul`, bit for bit, and are part of the
graph: under ``autograd``, ``torch.func`` (``grad``, ``vmap``) and ``torch.compile``. Nothing is
changed in place. `LowPrecisionWeights` keeps a model's weights in a format while any optimizer
trains them.
"""

try:
    import torch as _torch
except ImportError as _error:
    raise ImportError(
        "apscope.torch needs PyTorch: pip install 'apscope[torch]', or any torch from 2.4 on"
    ) from _error

from ._functions import conv2d, linear, matmul, quantize, quantize_blocks
from ._weights import LowPrecisionWeights

__all__ = ["LowPrecisionWeights", "conv2d", "linear", "matmul", "quantize", "quantize_blocks"]
__dir__ = __all__.copy
del _torch
