"""LSTM of quantized products: those of all inputs at once, those of the hidden state step by step.

Gates and cells are in fp32. A layer's parts are named after its weights: `ih_l0`, `hh_l0`,
`ih_l0_reverse`, ...
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from .parts import Part
from .registry import register_module

__all__: list[str] = []


def _suffixes(m: nn.LSTM) -> list[list[str]]:
    """Of every layer those of its directions."""
    ends = ("", "_reverse") if m.bidirectional else ("",)
    return [[f"l{layer}{end}" for end in ends] for layer in range(m.num_layers)]


def _parts(m: nn.LSTM) -> dict[str, str]:
    return {f"{of}_{s}": "product" for layer in _suffixes(m) for s in layer for of in ("ih", "hh")}


def _refuse(m: nn.LSTM) -> str | None:
    return "proj_size has no rule here" if m.proj_size else None


def _direction(
    m: Any, parts: dict[str, Part], suffix: str, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x of shape (steps, batch, n); h and c of shape (batch, cells)."""
    weights = {of: getattr(m, f"weight_{of}_{suffix}") for of in ("ih", "hh")}
    biases = {of: getattr(m, f"bias_{of}_{suffix}") if m.bias else None for of in ("ih", "hh")}
    products = parts[f"ih_{suffix}"].linear(x, weights["ih"], biases["ih"])
    back = suffix.endswith("_reverse")
    outputs = []
    for entry in reversed(products.unbind(0)) if back else products.unbind(0):
        gates = entry + parts[f"hh_{suffix}"].linear(h, weights["hh"], biases["hh"])
        i, f, g, o = gates.chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs[::-1] if back else outputs), h, c


def _forward(
    m: Any,
    parts: dict[str, Part],
    x: Any,
    hx: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """As ``torch.nn``'s, without packed sequences."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(
            f"the input is {type(x).__name__}; a quantized LSTM takes a tensor: pad the sequences"
        )
    alone, swapped = x.dim() == 2, m.batch_first and x.dim() == 3
    x = x.unsqueeze(1) if alone else x.transpose(0, 1) if swapped else x
    lines = _suffixes(m)
    if hx is None:
        zeros = x.new_zeros(sum(map(len, lines)), x.shape[1], m.hidden_size)
        hidden, cells = zeros, zeros
    else:
        hidden, cells = (t.unsqueeze(1) for t in hx) if alone else hx
    last_h: list[torch.Tensor] = []
    last_c: list[torch.Tensor] = []
    for number, layer in enumerate(lines):
        outputs = []
        for suffix in layer:
            at = len(last_h)
            y, h, c = _direction(m, parts, suffix, x, hidden[at], cells[at])
            outputs.append(y)
            last_h.append(h)
            last_c.append(c)
        x = torch.cat(outputs, -1)
        if m.dropout and number < len(lines) - 1:
            x = functional.dropout(x, m.dropout, m.training)
    ends = torch.stack(last_h), torch.stack(last_c)
    if alone:
        return x.squeeze(1), (ends[0].squeeze(1), ends[1].squeeze(1))
    return (x.transpose(0, 1) if swapped else x), ends


register_module(nn.LSTM, _forward, _parts, refuse=_refuse)
