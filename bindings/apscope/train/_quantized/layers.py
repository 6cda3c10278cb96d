"""Forward functions of layers with one part: linear, convolution, norms, embedding."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from .parts import Part
from .registry import register_module

__all__: list[str] = []

Parts = dict[str, Part]


def _linear(m: nn.Linear, parts: Parts, x: torch.Tensor) -> torch.Tensor:
    return parts[""].linear(x, m.weight, m.bias)


def _conv2d(m: nn.Conv2d, parts: Parts, x: torch.Tensor) -> torch.Tensor:
    padding = m.padding
    if m.padding_mode != "zeros" or isinstance(padding, str):
        mode = "constant" if m.padding_mode == "zeros" else m.padding_mode
        x, padding = functional.pad(x, m._reversed_padding_repeated_twice, mode), (0, 0)
    images = x if x.dim() == 4 else x.unsqueeze(0)
    y = parts[""].conv2d(images, m.weight, m.bias, m.stride, padding, m.dilation, m.groups)
    return y if x.dim() == 4 else y.squeeze(0)


def _through(part: Part, m: Any, x: torch.Tensor, compute: Any) -> torch.Tensor:
    """A layer without a product: casts around what PyTorch computes in fp32."""
    weight = None if m.weight is None else part.through_weight(m.weight)
    return part.through_output(compute(part.through_input(x), weight))


def _layer_norm(m: nn.LayerNorm, parts: Parts, x: torch.Tensor) -> torch.Tensor:
    return _through(
        parts[""], m, x, lambda x, w: functional.layer_norm(x, m.normalized_shape, w, m.bias, m.eps)
    )


def _rms_norm(m: Any, parts: Parts, x: torch.Tensor) -> torch.Tensor:
    return _through(
        parts[""], m, x, lambda x, w: functional.rms_norm(x, m.normalized_shape, w, m.eps)
    )


def _group_norm(m: nn.GroupNorm, parts: Parts, x: torch.Tensor) -> torch.Tensor:
    return _through(
        parts[""], m, x, lambda x, w: functional.group_norm(x, m.num_groups, w, m.bias, m.eps)
    )


def _batch_norm(m: Any, parts: Parts, x: torch.Tensor) -> torch.Tensor:
    """As ``torch.nn``'s, statistics in fp32."""
    m._check_input_dim(x)
    factor = 0.0 if m.momentum is None else m.momentum
    if m.training and m.track_running_stats and m.num_batches_tracked is not None:
        m.num_batches_tracked.add_(1)
        factor = 1.0 / float(m.num_batches_tracked) if m.momentum is None else m.momentum
    tracked = not m.training or m.track_running_stats
    by_batch = m.training or (m.running_mean is None and m.running_var is None)

    def compute(x: torch.Tensor, w: torch.Tensor | None) -> torch.Tensor:
        return functional.batch_norm(
            x, m.running_mean if tracked else None, m.running_var if tracked else None, w, m.bias,
            by_batch, factor, m.eps,
        )  # fmt: skip

    return _through(parts[""], m, x, compute)


def _embedding(m: nn.Embedding, parts: Parts, tokens: torch.Tensor) -> torch.Tensor:
    part = parts[""]
    rows = functional.embedding(
        tokens, part.through_weight(m.weight), m.padding_idx, None, 2.0, m.scale_grad_by_freq
    )
    return part.through_output(rows)


def _refuse_embedding(m: nn.Embedding) -> str | None:
    if m.max_norm is not None:
        return "max_norm changes the weights as they are looked up"
    return "its gradient is sparse" if m.sparse else None


register_module(nn.Linear, _linear, {"": "product"})
register_module(nn.Conv2d, _conv2d, {"": "product"})
register_module(nn.LayerNorm, _layer_norm, {"": "pointwise"})
register_module(nn.GroupNorm, _group_norm, {"": "pointwise"})
register_module(nn.Embedding, _embedding, {"": "pointwise"}, refuse=_refuse_embedding)
for _kind in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
    register_module(_kind, _batch_norm, {"": "pointwise"})
if hasattr(nn, "RMSNorm"):
    register_module(nn.RMSNorm, _rms_norm, {"": "pointwise"})
