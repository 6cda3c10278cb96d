"""Making traces: a framework-free writer, the conversion of foreign dumps, and one thin adapter a file for PyTorch.

The adapters import torch, so they are imported by name: ``apscope.record.torch_ddp``,
``torch_workers``, ``torch_optimizer`` and ``torch_layers``.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from .._traces.roles import guess_role
from ._recorder import Overhead, Recorder
from ._writer import TraceWriter

if _TYPE_CHECKING:
    from .._dumps.conversion import Conversion, convert

__all__ = ["Conversion", "Overhead", "Recorder", "TraceWriter", "convert", "guess_role"]


def __getattr__(name: str) -> _Any:
    """Names of the conversion wait for their first use, because it writes with this package's writer."""
    if name in ("Conversion", "convert"):
        return getattr(_importlib.import_module("apscope._dumps.conversion"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
