"""Training with an emulated exchange of gradients, bit for bit (extra ``torch``).

`Workers` trains with several workers in one process; `ExchangeState` and `exchange_hook` do the
same in a job of several processes under PyTorch's ``DistributedDataParallel``. Both give the same
bits.
"""

try:
    import torch as _torch
except ImportError as _error:
    raise ImportError(
        "apscope.train needs PyTorch: pip install 'apscope[torch]', or any torch from 2.4 on"
    ) from _error

from ._hook import ExchangeState, exchange_hook
from ._workers import Workers

__all__ = ["ExchangeState", "Workers", "exchange_hook"]
__dir__ = __all__.copy
del _torch
