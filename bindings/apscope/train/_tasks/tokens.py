"""The next token of a text, of a vocabulary of thousands: a small GPT.

The tokens are pairs of characters, pairs of those, and so on (`_training.pairs`), made from the
text itself; nothing is downloaded. As in large language models most tokens are rare: the gradient of
the embedding, which is also the head, has rows whose sizes differ by many powers of two.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..._training.pairs import tokens
from ..._training.texts import read
from .characters import Attention, about, windows

__all__ = ["GPT", "load"]
__dir__ = __all__.copy

CONTEXT = 32
VOCABULARY = 4096
SIZES: dict[str, dict[str, int]] = {"gpt": {}, "gpt-3m": {"width": 256, "heads": 8, "layers": 3}}


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, CONTEXT)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, context, width) to the same shape."""
        x = x + self.attention(self.norm1(x))
        return x + self.fc2(nn.functional.gelu(self.fc1(self.norm2(x))))


class GPT(nn.Module):
    """Pre-norm blocks, by default two of width 64; the head is the transposed embedding."""

    def __init__(self, vocabulary: int, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.position_embedding = nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for embedding in (self.token_embedding, self.position_embedding):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens of shape (n, context) to logits of shape (n, context, vocabulary)."""
        x = self.token_embedding(tokens) + self.position_embedding.weight
        for block in self.blocks:
            x = block(x)
        return nn.functional.linear(self.norm(x), self.token_embedding.weight)


def load(model: str, text: str) -> tuple[Any, ...]:
    """The content of `tasks.Data`: windows of 32 tokens; the last tenth validates."""
    content = read(text)
    made, vocabulary = tokens(content, VOCABULARY)
    data = torch.tensor(made)
    return (
        *windows(data, CONTEXT, text, "tokens"),
        lambda: GPT(vocabulary, **SIZES[model]),
        about(data, content, text, f"tokens of {vocabulary:,} kinds"),
    )
