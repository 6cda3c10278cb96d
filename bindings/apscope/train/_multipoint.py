"""Multipoint quantization of a trained model's weights: sums of few-bit vectors per channel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.nn.functional import unfold

from .._arrays.checks import integer
from .._schemes.exchange import exchange
from ._layers import LayerMode, Product


class _Seen(LayerMode):
    """Adds up x x^T of every layer's inputs, in fp64; the outputs' squared errors follow."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        self.products: dict[str, np.ndarray] = {}
        self.weights: dict[str, torch.Tensor] = {}

    def layer(
        self, name: str, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, product: Product
    ) -> torch.Tensor:
        """The unchanged layer."""
        groups = 1 if product.convolution is None else product.convolution[3]
        rows = _rows(x.double(), w, product).reshape(-1, groups, w[0].numel())
        products = torch.einsum("ngi,ngj->gij", rows, rows).numpy()
        self.products[name] = self.products.get(name, 0) + products
        self.weights[name] = w
        return product.with_bias(product.output(x, w), b)


def _rows(x: torch.Tensor, w: torch.Tensor, product: Product) -> torch.Tensor:
    """The inputs of the layer's sums, one row per sum."""
    if product.convolution is None:
        return x.reshape(-1, x.shape[-1])
    stride, padding, dilation, _ = product.convolution
    kernel = (w.shape[2], w.shape[3])
    patches = unfold(x, kernel, dilation=dilation, padding=padding, stride=stride)
    return patches.transpose(1, 2).reshape(-1, patches.shape[1])


@torch.no_grad()
def multipoint(
    model: torch.nn.Module,
    inputs: Any,
    *,
    bits: int = 2,
    error: float = 0.01,
    points: int = 8,
    zero: bool = False,
    search: int = 16,
) -> pd.DataFrame:
    """Replaces every weight of linear layers and convolutions by a sum of points, in place.

    Of every output channel, with weights w and inputs x over the calibration data,

        w' = a1 z1 + a2 z2 + ...,   z of `bits` bits, a fp32

    greedily: each point is that of the scheme `multipoint` (docs/definitions.md, section 8) for the
    remainder of the earlier ones. Points are added while the error of the output, sum (w'.x -
    w.x)^2 / sum (w.x)^2, is above `error` and there are fewer than `points`: channels that matter
    to the output get more.

    Source: X. Liu, M. Ye, D. Zhou, Q. Liu, arXiv:2002.09049. Only its abstract and a summary were
    read; that the error is relative to the channel's output is our choice.

    Parameters
    ----------
    model : torch.nn.Module
        In evaluation mode, on the CPU. Its biases, norms and embeddings are not changed.
    inputs
        The calibration data; the model is called with it once.
    bits : int, 1 to 8
        Of an element of a point; 1: signs.
    error : float
        0: every channel gets all `points`.
    points : int, 1 to 64
        The largest number of points per channel.
    zero : bool
        Whether 0 is a level: 2^bits - 1 levels; False: all 2^bits from -1 to 1, the paper's.
    search : int
        Number of scales that the line search of a point tries.

    Returns
    -------
    pandas.DataFrame
        A row per channel: layer, channel, points, ``bits`` per weight (those of the points and of
        their fp32 factors), ``error``, as above; ``error_1``, with one point. A channel whose
        output is 0 on all inputs gets one point and has error 0.

    Raises
    ------
    TypeError
        Not a module.
    ValueError
        No layer was called, a number out of range.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(64, 3)
    >>> table = multipoint(model, torch.randn(100, 64), bits=2, error=1e-3)
    >>> bool((table.error <= 1e-3).all())
    True
    """
    most = integer("points", points, 1, 64)
    if not 0 <= error < np.inf:
        raise ValueError(f"error={error} must be a number from 0 on")
    seen = _Seen(model)
    with seen:
        model(inputs)
    if not seen.products:
        raise ValueError("the model called no linear layer and no convolution of its own")
    table = []
    for name, products in seen.products.items():
        w = seen.weights[name]
        rows = w.detach().float().reshape(w.shape[0], -1).numpy()
        for channel, row in enumerate(rows):
            gram = products[channel // (len(rows) // len(products))]
            tried: list[tuple[np.ndarray, float, float]] = []
            while not tried or (len(tried) < most and (error == 0 or tried[-1][2] > error)):
                tried.append(_sum_of_points(row, gram, len(tried) + 1, bits, zero, search))
            sent, cost, left = tried[-1]
            w[channel].copy_(torch.from_numpy(sent).reshape(w[channel].shape))
            table.append((name, channel, len(tried), cost, left, tried[0][2]))
    return pd.DataFrame(table, columns=["layer", "channel", "points", "bits", "error", "error_1"])


def _sum_of_points(
    row: np.ndarray, gram: np.ndarray, count: int, bits: int, zero: bool, search: int
) -> tuple[np.ndarray, float, float]:
    """The sum of `points` points, the bits per weight, and the output's relative squared error."""
    spec = f"multipoint:bits={bits},points={count},zero={str(zero).lower()},search={search}"
    made = exchange(spec, row[None])
    difference, remainder = made.sent[0] - row, row.astype(np.float64)
    scale = remainder @ gram @ remainder
    left = float(difference @ gram @ difference / scale) if scale > 0 else 0.0
    return made.sent[0], (made.payload_bits[0] + made.side_bits[0]) / row.size, left
