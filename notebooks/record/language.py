"""The text of record_characters.py, its transformer and the training.

The text is Genesis in the King James Version. It is in the public domain outside the United Kingdom
and is not part of this repository; it is taken from the Debian package bible-kjv-text, and any
other text than the one whose SHA-256 stands below is refused.
"""

import argparse
import hashlib
import re
import subprocess
from pathlib import Path

from common import about, deterministic, nn, torch, train

from apscope.record import TraceWriter
from apscope.record.torch_layers import roles

TEXT_SHA256 = "e7b72bfd25d395f55a3bd0c1ada5cbf3fd627f61734d239503d834ac9b5e23b6"


def genesis(program, library):
    """Genesis, one verse per line, without numbers: about 190 thousand characters."""
    command = [program, *(["-p", library] if library else []), "-f", "ge1:1-50:26"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise SystemExit(
            f"the program {program} is not installed; this script needs: apt-get install bible-kjv"
        ) from None
    text = "\n".join(re.sub(r"^Ge\d+:\d+ ", "", line) for line in output.splitlines()) + "\n"
    found = hashlib.sha256(text.encode()).hexdigest()
    if found != TEXT_SHA256:
        raise SystemExit(
            f"`{' '.join(command)}` gave a text with SHA-256 {found}, not {TEXT_SHA256}"
        )
    return text


class Attention(nn.Module):
    def __init__(self, context, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.register_buffer("future", torch.ones(context, context, dtype=torch.bool).triu(1))

    def forward(self, x):
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        weights = scores.masked_fill(self.future, float("-inf")).softmax(dim=-1)
        return self.proj((weights @ value).transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    """One pre-norm transformer block between an embedding and a head."""

    def __init__(self, tokens, context, width, heads):
        super().__init__()
        self.token_embedding = nn.Embedding(tokens, width)
        self.position_embedding = nn.Embedding(context, width)
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(context, width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)
        self.norm3 = nn.LayerNorm(width)
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens):
        x = self.token_embedding(tokens) + self.position_embedding(torch.arange(tokens.shape[-1]))
        x = x + self.attention(self.norm1(x))
        x = x + self.fc2(nn.functional.gelu(self.fc1(self.norm2(x))))
        return self.head(self.norm3(x))


def loss_function(model, batch):
    tokens, following = batch
    return nn.functional.cross_entropy(model(tokens).flatten(0, 1), following.flatten())


def record(
    folder,
    tokens,
    alphabet,
    script,
    seed,
    what,
    *,
    steps,
    rich_steps,
    context,
    width,
    heads,
    rate,
    batch,
    workers=8,
):
    """Trains on `tokens`, a list of members of `alphabet` (`what` they are, in the plural), and
    records `steps`."""
    generator = deterministic(seed)
    numbers = {token: number for number, token in enumerate(alphabet)}
    data = torch.tensor([numbers[token] for token in tokens])
    model = Transformer(len(alphabet), context, width, heads)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.99), weight_decay=0.01)
    schedule = (
        torch.optim.lr_scheduler.LambdaLR(  # 100 steps of warm-up, then linear decay to a tenth
            optimizer, lambda step: min((step + 1) / 100, 1 - 0.9 * step / steps[-1])
        )
    )

    def windows(starts):
        rows = torch.stack([data[start : start + context + 1] for start in starts])
        return rows[:, :-1], rows[:, 1:]

    def batches_at(step):
        starts = generator.integers(0, len(data) - context, size=(workers, batch))
        return [windows(row) for row in starts]

    whole = range(
        0, len(data) - context, context
    )  # the text cut into windows, its last few tokens left out
    all_data = [windows(whole[first : first + 1024]) for first in range(0, len(whole), 1024)]
    size = sum(parameter.numel() for parameter in model.parameters())
    more = (
        {"full_batch_of": f"mean loss over the text cut into {len(whole)} windows"}
        if rich_steps
        else {}
    )
    writer = TraceWriter(
        folder,
        workers=workers,
        name=folder.name,
        model=f"{what.removesuffix('s')}-level transformer, {size} parameters",
        reduction="mean",
        roles=roles(model),
        metadata=about(
            script,
            seed,
            data="Genesis, King James Version, from Debian's bible-kjv-text 4.38",
            data_sha256=TEXT_SHA256,
            batch_per_worker=f"{batch} windows of {context} {what}",
            optimizer="AdamW, betas 0.9 and 0.99, weight decay 0.01",
            **more,
        ),
    )
    with writer:
        train(
            model,
            optimizer,
            schedule,
            loss_function,
            batches_at,
            writer,
            steps,
            rich_steps,
            all_data,
        )


def arguments_of(description, folder_help):
    """The folder and the text that the command line names."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path, help=folder_help)
    parser.add_argument("--bible", default="bible", help="the program of the package bible-kjv")
    parser.add_argument("--library", help="folder of bible.data, where it is not installed")
    arguments = parser.parse_args()
    return arguments.folder, genesis(arguments.bible, arguments.library)
