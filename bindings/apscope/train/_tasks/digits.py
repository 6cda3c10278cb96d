"""1,797 handwritten digits of 8 x 8 pixels, and the small convolutional net of the trace `digits`.

The images are those of scikit-learn's ``load_digits``: the test half of the Optical Recognition of
Handwritten Digits data set (E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998, CC BY
4.0), in ``digits.npz``.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

__all__ = ["Net", "load", "pictures"]
__dir__ = __all__.copy

_FILE = Path(__file__).with_name("digits.npz")
_TRAINED = 1500  # the others, by other writers, validate


class Net(nn.Module):
    """Two convolutions, a group norm, a linear head: 1,906 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, stride=2, padding=1, bias=False)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(4, 16)
        self.head = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images of shape (n, 1, 8, 8) to logits of shape (n, 10)."""
        x = torch.relu(self.conv1(images))
        x = torch.relu(self.norm(self.conv2(x)))
        return self.head(nn.functional.max_pool2d(x, 2).flatten(1))


def load() -> tuple[Any, ...]:
    """The content of `tasks.Data`: 1,500 images train, 297 validate."""
    with np.load(_FILE) as file:
        images, labels = file["images"], file["labels"]
    x = torch.from_numpy(images.astype(np.float32) / 16).unsqueeze(1)
    y = torch.from_numpy(labels.astype(np.int64))
    sha = hashlib.sha256(_FILE.read_bytes()).hexdigest()
    return pictures(x, y, _TRAINED, Net, f"1,797 digits of scikit-learn, SHA-256 {sha}")


def pictures(x: torch.Tensor, y: torch.Tensor, trained: int, model: Any, about: str) -> Any:
    """The first `trained` images train, the others validate."""

    def batch(indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[indices], y[indices]

    return batch, trained, (x[trained:], y[trained:]), model, about
