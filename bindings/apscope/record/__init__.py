"""Making traces: a writer without frameworks, a converter of dumps, and adapters for PyTorch.

The adapters import torch, so they are imported by name: ``apscope.record.torch_ddp``,
``torch_workers``, ``torch_optimizer`` and ``torch_layers``.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from .._traces.roles import guess_role
from ._overhead import Overhead
from ._recorder import Recorder
from ._writer import TraceWriter

if _TYPE_CHECKING:
    from .._dumps.conversion import Conversion, convert
    from .._dumps.te_statistics import beside_te_statistics, te_statistics

__all__ = [
    "Conversion", "Overhead", "Recorder", "TraceWriter", "beside_te_statistics", "convert",
    "guess_role", "te_statistics",
]  # fmt: skip
__dir__ = __all__.copy

_OF_DUMPS = {
    "Conversion": "conversion",
    "convert": "conversion",
    "beside_te_statistics": "te_statistics",
    "te_statistics": "te_statistics",
}


def __getattr__(name: str) -> _Any:
    """Imports names of the conversion on first use, because it imports this package's writer."""
    if name in _OF_DUMPS:
        return getattr(_importlib.import_module(f"apscope._dumps.{_OF_DUMPS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
