"""Records the trace `characters`: a character-level transformer on the King James Version's Genesis.

    apt-get install bible-kjv          # the program `bible` and, as its dependency, bible-kjv-text
    python notebooks/record/record_characters.py notebooks/data

The text is in the public domain outside the United Kingdom and is not part of this repository; the
script takes it from the Debian package and refuses any other text than the one whose SHA-256 stands
below. On the same versions of PyTorch and NumPy and the same kind of CPU a second run writes the
same bytes.
"""

import argparse
import hashlib
import re
import subprocess
from pathlib import Path

import torch
from common import about, deterministic, train
from torch import nn

from apscope.record import TraceWriter
from apscope.record.torch_layers import roles

SEED = 20210501
TEXT_SHA256 = "e7b72bfd25d395f55a3bd0c1ada5cbf3fd627f61734d239503d834ac9b5e23b6"
CONTEXT, WIDTH, HEADS = 16, 32, 4


def genesis(program, library):
    """Genesis, one verse a line, without numbers: about 190 thousand characters."""
    command = [program, *(["-p", library] if library else []), "-f", "ge1:1-50:26"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = "\n".join(re.sub(r"^Ge\d+:\d+ ", "", line) for line in output.splitlines()) + "\n"
    found = hashlib.sha256(text.encode()).hexdigest()
    if found != TEXT_SHA256:
        raise SystemExit(f"`{' '.join(command)}` gave a text with SHA-256 {found}, not {TEXT_SHA256}")
    return text


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("future", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1))

    def forward(self, x):
        query, key, value = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = query @ key.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        weights = scores.masked_fill(self.future, float("-inf")).softmax(dim=-1)
        return self.proj((weights @ value).transpose(1, 2).flatten(2))


class CharacterTransformer(nn.Module):
    """One pre-norm transformer block."""

    def __init__(self, characters):
        super().__init__()
        self.token_embedding = nn.Embedding(characters, WIDTH)
        self.position_embedding = nn.Embedding(CONTEXT, WIDTH)
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.fc1 = nn.Linear(WIDTH, 4 * WIDTH)
        self.fc2 = nn.Linear(4 * WIDTH, WIDTH)
        self.norm3 = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, characters)

    def forward(self, tokens):
        x = self.token_embedding(tokens) + self.position_embedding(torch.arange(CONTEXT))
        x = x + self.attention(self.norm1(x))
        x = x + self.fc2(nn.functional.gelu(self.fc1(self.norm2(x))))
        return self.head(self.norm3(x))


def loss_function(model, batch):
    tokens, following = batch
    return nn.functional.cross_entropy(model(tokens).flatten(0, 1), following.flatten())


def record(folder, text, workers=8, batch=2, steps=(0, 30, 150, 600, 1500, 3000)):
    generator = deterministic(SEED)
    alphabet = sorted(set(text))
    data = torch.tensor([alphabet.index(character) for character in text])
    model = CharacterTransformer(len(alphabet))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.99), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(  # 100 steps of warm-up, then linear decay to a tenth
        optimizer, lambda step: min((step + 1) / 100, 1 - 0.9 * step / steps[-1])
    )

    def windows(starts):
        rows = torch.stack([data[start : start + CONTEXT + 1] for start in starts])
        return rows[:, :-1], rows[:, 1:]

    def batches_at(step):
        starts = generator.integers(0, len(data) - CONTEXT, size=(workers, batch))
        return [windows(row) for row in starts]

    whole = range(0, len(data) - CONTEXT, CONTEXT)  # the text cut into windows, its last few characters left out
    all_data = [windows(whole[first : first + 1024]) for first in range(0, len(whole), 1024)]
    size = sum(parameter.numel() for parameter in model.parameters())
    writer = TraceWriter(
        folder,
        workers=workers,
        name=folder.name,
        model=f"character-level transformer, {size} parameters",
        reduction="mean",
        roles=roles(model),
        metadata=about(
            "record_characters.py",
            SEED,
            data="Genesis, King James Version, from Debian's bible-kjv-text 4.38",
            data_sha256=TEXT_SHA256,
            batch_per_worker=f"{batch} windows of {CONTEXT} characters",
            optimizer="AdamW, betas 0.9 and 0.99, weight decay 0.01",
            full_batch_of=f"mean loss over the text cut into {len(whole)} windows",
        ),
    )
    with writer:
        train(model, optimizer, schedule, loss_function, batches_at, writer, steps, (steps[0], steps[-1]), all_data)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the trace goes")
    parser.add_argument("--bible", default="bible", help="the program of the package bible-kjv")
    parser.add_argument("--library", help="folder of bible.data, where it is not installed")
    arguments = parser.parse_args()
    record(arguments.folder / "characters", genesis(arguments.bible, arguments.library))
