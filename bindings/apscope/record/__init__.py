"""Making traces: of arrays, step by step without frameworks, of dumps, cuts; adapters for PyTorch.

The adapters import torch, so they are imported by name: ``apscope.record.torch_ddp``,
``torch_workers``, ``torch_optimizer`` and ``torch_layers``.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from .._traces.roles import guess_role
from .._traces.writer import TraceWriter
from ._overhead import Overhead
from ._recorder import Recorder

if _TYPE_CHECKING:
    from .._dumps.conversion import Conversion, convert
    from .._dumps.te_statistics import beside_te_statistics, te_statistics
    from .._traces.arrays import from_arrays
    from ._cut import cut

__all__ = [
    "Conversion", "Overhead", "Recorder", "TraceWriter", "beside_te_statistics", "convert",
    "cut", "from_arrays", "guess_role", "te_statistics",
]  # fmt: skip
__dir__ = __all__.copy

_LAZY = {
    "Conversion": "_dumps.conversion",
    "convert": "_dumps.conversion",
    "beside_te_statistics": "_dumps.te_statistics",
    "cut": "record._cut",
    "from_arrays": "_traces.arrays",
    "te_statistics": "_dumps.te_statistics",
}


def __getattr__(name: str) -> _Any:
    """Imports names of conversions on first use, because they import this package's writer."""
    if name in _LAZY:
        return getattr(_importlib.import_module(f"apscope.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
