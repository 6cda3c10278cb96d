"""Making traces: of arrays, step by step without frameworks, of dumps, cuts; adapters for PyTorch.

The adapters import torch, so they are imported by name: ``apscope.record.torch_ddp``,
``torch_workers``, ``torch_optimizer`` and ``torch_layers``.
"""

from .._lazy import lazy as _lazy

_NAMES = {
    "_dumps.conversion": "Conversion convert",
    "_dumps.te_statistics": "beside_te_statistics te_statistics",
    "_traces.arrays": "from_arrays",
    "_traces.roles": "guess_role",
    "_traces.writer": "TraceWriter",
    "record._cut": "cut",
    "record._overhead": "Overhead",
    "record._recorder": "Recorder",
}
__all__, __getattr__ = _lazy(__name__, _NAMES)
__dir__ = __all__.copy
