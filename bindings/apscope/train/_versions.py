"""The versions that a run's bits depend on."""

from __future__ import annotations

import numpy as np
import torch


def versions() -> dict[str, str]:
    """Of apscope, PyTorch and NumPy."""
    from .. import __version__

    return {"apscope": __version__, "torch": torch.__version__, "numpy": np.__version__}
