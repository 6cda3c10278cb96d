"""The versions that a run's bits depend on."""

from __future__ import annotations

import numpy as np
import torch

from .._core import __version__


def versions() -> dict[str, str]:
    """Of apscope, PyTorch and NumPy."""
    return {"apscope": __version__, "torch": torch.__version__, "numpy": np.__version__}
