"""1,797 handwritten digits of 8 x 8 pixels, and three small convolutional nets.

`Net` is that of the trace `digits`; `Plain` has no normalization, `ResNet` has batch norms.

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

__all__ = ["Net", "Plain", "ResNet", "load", "pictures"]
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


class Plain(nn.Module):
    """Three convolutions without normalization, a linear head: 10,970 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3, padding=1)
        self.conv2 = nn.Conv2d(12, 24, 3, stride=2, padding=1)
        self.conv3 = nn.Conv2d(24, 32, 3, stride=2, padding=1)
        self.head = nn.Linear(128, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images of shape (n, 1, 8, 8) to logits of shape (n, 10)."""
        x = torch.relu(self.conv1(images))
        x = torch.relu(self.conv2(x))
        return self.head(torch.relu(self.conv3(x)).flatten(1))


class Block(nn.Module):
    """A residual block of two convolutions with batch norms (arXiv:1512.03385)."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample: nn.Module | None = None
        if before != width:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, before, h, h) to (n, width, h / stride, h / stride)."""
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Two residual blocks between a convolution and a linear head: 19,706 parameters.

    The workers normalize by the statistics of their own parts of the batch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = Block(16, 16, 1)
        self.layer2 = Block(16, 32, 2)
        self.head = nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images of shape (n, 1, 8, 8) to logits of shape (n, 10)."""
        x = torch.relu(self.bn1(self.conv1(images)))
        return self.head(self.layer2(self.layer1(x)).mean((2, 3)))


_MODELS: dict[str, type[nn.Module]] = {"convolutional": Net, "plain": Plain, "resnet": ResNet}


def load(model: str) -> tuple[Any, ...]:
    """The content of `tasks.Data`: 1,500 images train, 297 validate."""
    with np.load(_FILE) as file:
        images, labels = file["images"], file["labels"]
    x = torch.from_numpy(images.astype(np.float32) / 16).unsqueeze(1)
    y = torch.from_numpy(labels.astype(np.int64))
    sha = hashlib.sha256(_FILE.read_bytes()).hexdigest()
    return pictures(x, y, _TRAINED, _MODELS[model], f"1,797 digits of scikit-learn, SHA-256 {sha}")


def pictures(x: torch.Tensor, y: torch.Tensor, trained: int, model: Any, about: str) -> Any:
    """The first `trained` images train, the others validate."""

    def batch(indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[indices], y[indices]

    return batch, trained, (x[trained:], y[trained:]), model, about
