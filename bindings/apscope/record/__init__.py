"""Making traces: a framework-free writer, the conversion of foreign dumps, and one thin adapter a file for PyTorch.

The adapters import torch, so they are imported by name: ``apscope.record.torch_ddp``,
``torch_workers``, ``torch_optimizer`` and ``torch_layers``.
"""

from .._traces.roles import guess_role
from ._convert import Conversion, convert
from ._recorder import Overhead, Recorder
from ._writer import TraceWriter

__all__ = ["Conversion", "Overhead", "Recorder", "TraceWriter", "convert", "guess_role"]
