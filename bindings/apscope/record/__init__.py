"""Recording traces: a framework-free writer, and one thin adapter a file for PyTorch.

The adapters import torch, so they are imported by name: ``apscope.record.torch_ddp``,
``torch_workers``, ``torch_optimizer`` and ``torch_layers``.
"""

from apscope.record.writer import TraceWriter

__all__ = ["TraceWriter"]
