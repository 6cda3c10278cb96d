"""The next character of a text: a transformer and an LSTM.

The text is Genesis in the King James Version, from which the trace `characters` was recorded; it is
in Debian's package bible-kjv. It is in the public domain outside the United Kingdom and does not
ship with this package. ``python`` is the language reference that comes with Python (it differs
between its versions), anything else the path of a UTF-8 file.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import nn

from ..._training.texts import read

__all__ = ["LSTM", "Attention", "Transformer", "load", "windows"]
__dir__ = __all__.copy

CONTEXT = 32
_VALIDATED = 64  # windows of the text's last tenth


class Attention(nn.Module):
    """Causal attention over the context."""

    def __init__(self, width: int, heads: int, context: int = CONTEXT) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.future = torch.ones(context, context, dtype=torch.bool).triu(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, context, width) to the same shape."""
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        weights = scores.masked_fill(self.future, float("-inf")).softmax(dim=-1)
        return self.proj((weights @ value).transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    """One pre-norm block of width 32 between an embedding and a head."""

    def __init__(self, tokens: int, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(tokens, width)
        self.position_embedding = nn.Embedding(CONTEXT, width)
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)
        self.norm3 = nn.LayerNorm(width)
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens of shape (n, context) to logits of shape (n, context, tokens)."""
        x = self.token_embedding(tokens) + self.position_embedding(torch.arange(tokens.shape[-1]))
        x = x + self.attention(self.norm1(x))
        x = x + self.fc2(nn.functional.gelu(self.fc1(self.norm2(x))))
        return self.head(self.norm3(x))


class LSTM(nn.Module):
    """One layer of 64 cells, written out: ``torch.func.vmap`` has no rule for ``nn.LSTM``."""

    def __init__(self, tokens: int, width: int = 32, cells: int = 64) -> None:
        super().__init__()
        self.cells = cells
        self.embedding = nn.Embedding(tokens, width)
        self.input = nn.Linear(width, 4 * cells)
        self.recurrent = nn.Linear(cells, 4 * cells, bias=False)
        self.head = nn.Linear(cells, tokens)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens of shape (n, context) to logits of shape (n, context, tokens)."""
        products = self.input(self.embedding(tokens)).unbind(1)
        hidden = cell = torch.zeros(tokens.shape[0], self.cells)
        outputs = []
        for x in products:
            i, f, o, g = (x + self.recurrent(hidden)).chunk(4, dim=-1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
            outputs.append(hidden)
        return self.head(torch.stack(outputs, 1))


def load(model: str, text: str) -> tuple[Any, ...]:
    """The content of `tasks.Data`: windows of 32 characters; the last tenth validates."""
    content = read(text)
    alphabet = sorted(set(content))
    number = {letter: place for place, letter in enumerate(alphabet)}
    data = torch.tensor([number[letter] for letter in content])
    kind = LSTM if model == "lstm" else Transformer
    return (
        *windows(data, CONTEXT, text, "characters"),
        lambda: kind(len(alphabet)),
        about(data, content, text, "characters"),
    )


def windows(data: torch.Tensor, context: int, text: str, what: str) -> tuple[Any, ...]:
    """`batch`, `examples` and `validation` of `tasks.Data`; the last tenth validates.

    Parameters
    ----------
    data : LongTensor
        The text's `what`, such as characters, as numbers.
    context : int
        Of them in a window.
    text, what : str
        For the error.

    Raises
    ------
    ValueError
        The text is too short.
    """
    trained = len(data) * 9 // 10
    if len(data) - trained < 2 * context:
        raise ValueError(f"text={text!r} has {len(data)} {what}; give {20 * context} or more")
    offsets = torch.arange(context + 1)

    def batch(starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = data[starts[:, None] + offsets]
        return rows[:, :-1], rows[:, 1:]

    last = len(data) - context - 1
    starts = torch.linspace(trained, last, _VALIDATED, dtype=torch.float64).long()
    return batch, trained - context, batch(starts)


def about(data: torch.Tensor, content: str, text: str, what: str) -> str:
    """`about` of `tasks.Data`."""
    sha = hashlib.sha256(content.encode()).hexdigest()
    return f"{len(data):,} {what} of {text}, SHA-256 {sha}"
