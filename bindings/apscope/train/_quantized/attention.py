"""Multi-head attention of quantized products: three projections, scores, and mean of values.

The output's projection is a separate module, and is quantized as such. Softmax, masks and dropout
are in fp32.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from .parts import Part
from .registry import register_module

__all__: list[str] = []

_PARTS = dict.fromkeys(("query", "key", "value", "scores", "values"), "product")


def _refuse(m: nn.MultiheadAttention) -> str | None:
    if m.bias_k is not None or m.add_zero_attn:
        return "add_bias_kv and add_zero_attn have no rule here"
    return None


def _weights(m: Any) -> list[torch.Tensor]:
    if m._qkv_same_embed_dim:
        return list(m.in_proj_weight.chunk(3))
    return [m.q_proj_weight, m.k_proj_weight, m.v_proj_weight]


def _mask(mask: torch.Tensor | None, shape: tuple[int, ...]) -> torch.Tensor | float:
    """A mask as numbers that are added to scores of (batch, heads, queries, keys)."""
    if mask is None:
        return 0.0
    if mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, device=mask.device).masked_fill(mask, -math.inf)
    if mask.dim() == 3:
        mask = mask.reshape(shape[0], -1, *mask.shape[1:])
    return mask


def _forward(
    m: Any,
    parts: dict[str, Part],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    key_padding_mask: torch.Tensor | None = None,
    need_weights: bool = True,
    attn_mask: torch.Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """As in ``torch.nn``: (queries, batch, e), (batch, queries, e) if batch_first, (queries, e)."""
    if is_causal and attn_mask is None:
        raise ValueError("is_causal needs attn_mask, as it does in torch.nn.MultiheadAttention")
    alone = query.dim() == 2
    swapped = not m.batch_first and not alone
    operands = [
        t.unsqueeze(0) if alone else t.transpose(0, 1) if swapped else t
        for t in (query, key, value)
    ]
    if alone and key_padding_mask is not None:
        key_padding_mask = key_padding_mask.unsqueeze(0)
    biases = [None] * 3 if m.in_proj_bias is None else m.in_proj_bias.chunk(3)
    q, k, v = (
        parts[name].linear(t, w, b).unflatten(-1, (m.num_heads, -1)).transpose(1, 2)
        for name, t, w, b in zip(("query", "key", "value"), operands, _weights(m), biases)
    )
    scores = parts["scores"].matmul(q / math.sqrt(q.shape[-1]), k.mT)
    scores = scores + _mask(attn_mask, scores.shape)
    if key_padding_mask is not None:
        scores = scores + _mask(key_padding_mask, scores.shape)[:, None, None, :]  # type: ignore[index]
    shares = functional.dropout(scores.softmax(-1), m.dropout, m.training)
    mixed = parts["values"].matmul(shares, v).transpose(1, 2).flatten(2)
    y = m.out_proj(mixed)
    y = y.squeeze(0) if alone else y.transpose(0, 1) if swapped else y
    if not need_weights:
        return y, None
    shares = shares.mean(1) if average_attn_weights else shares
    return y, shares.squeeze(0) if alone else shares


register_module(nn.MultiheadAttention, _forward, _PARTS, refuse=_refuse)
