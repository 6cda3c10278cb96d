"""Replaces the calls of a model's linear layers and convolutions by those of a method.

`LayerMode` is a context: inside it every ``linear`` and ``conv2d`` with a weight of the model goes
to the method's `layer`. The model itself, its weights and its state dict are not changed.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional, grad
from torch.overrides import TorchFunctionMode

Pair = tuple[int, int]


@dataclass(frozen=True)
class Product:
    """The three products of a layer, as PyTorch computes them; without the bias."""

    #: stride, padding, dilation, groups; None: linear
    convolution: tuple[Pair, Pair, Pair, int] | None = None

    def output(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """Activations times weights."""
        if self.convolution is None:
            return functional.linear(x, w)
        return functional.conv2d(x, w, None, *self.convolution)

    def input_gradient(self, g: torch.Tensor, w: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        """The output's gradient times weights, of the input's shape."""
        if self.convolution is None:
            return g @ w
        return grad.conv2d_input(shape, w, g, *self.convolution)

    def weight_gradient(self, g: torch.Tensor, x: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        """The output's gradient times activations, of the weight's shape."""
        if self.convolution is None:
            return g.reshape(-1, g.shape[-1]).T @ x.reshape(-1, x.shape[-1])
        return grad.conv2d_weight(x, shape, g, *self.convolution)

    def bias_gradient(self, g: torch.Tensor) -> torch.Tensor:
        """The sum of the output's gradient over all axes but that of the outputs."""
        return g.reshape(-1, g.shape[-1]).sum(0) if self.convolution is None else g.sum((0, 2, 3))

    def with_bias(self, y: torch.Tensor, b: torch.Tensor | None) -> torch.Tensor:
        """The bias added along the axis of the outputs."""
        if b is None:
            return y
        return y + (b if self.convolution is None else b.reshape(-1, 1, 1))

    def is_depthwise(self, w: torch.Tensor) -> bool:
        """Whether every output channel of a convolution reads one channel of several."""
        return self.convolution is not None and self.convolution[3] > 1 and w.shape[1] == 1

    def forward_operations(self, y: torch.Tensor, w: torch.Tensor) -> int:
        """Multiplications of the forward product."""
        return y.numel() * (w.numel() // w.shape[0])


class LayerMode(TorchFunctionMode):
    """Sends the calls of a model's linear layers and convolutions to `layer`.

    Parameters
    ----------
    model : torch.nn.Module
        Its ``nn.Linear`` and ``nn.Conv2d`` modules, or others that call
        ``torch.nn.functional.linear`` or ``conv2d`` with a parameter of their own.

    Raises
    ------
    TypeError
        Not a module.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"model is {type(model).__name__}; it must be a torch.nn.Module")
        self.model = model
        self._names = {id(p): n.removesuffix(".weight") for n, p in model.named_parameters()}
        self._uncompiled = contextlib.ExitStack()

    def __enter__(self) -> Any:
        """Until the context ends, compiled models run uncompiled, with the same bits."""
        if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
            self._uncompiled.enter_context(torch.compiler.set_stance("force_eager"))
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        self._uncompiled.close()

    def layer(
        self, name: str, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, product: Product
    ) -> torch.Tensor:
        """The method's own call."""
        raise NotImplementedError

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is functional.linear:
            operands, convolution = _linear(*args, **kwargs), None
        elif func is functional.conv2d:
            operands, convolution = _conv2d(*args, **kwargs)
        else:
            return func(*args, **kwargs)
        name = self._names.get(id(operands[1]))
        if name is None:
            return func(*args, **kwargs)
        if torch.compiler.is_compiling():
            raise RuntimeError(
                f"{type(self).__name__} cannot be compiled; call torch.compile before its context, "
                "with PyTorch 2.6 or later"
            )
        return self.layer(name, *operands, Product(convolution))


def _linear(input: Any, weight: Any, bias: Any = None) -> tuple[Any, Any, Any]:
    return input, weight, bias


def _conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> tuple[tuple[Any, Any, Any], tuple[Pair, Pair, Pair, int]]:  # fmt: skip
    if isinstance(padding, str):
        raise ValueError(f"padding={padding!r} is not supported here; give it in numbers")
    return (input, weight, bias), (_pair(stride), _pair(padding), _pair(dilation), groups)


def _pair(value: Any) -> Pair:
    first, second = (
        (value * 2 if len(value) == 1 else value)
        if isinstance(value, tuple | list)
        else (value, value)
    )
    return int(first), int(second)
