"""Records a GPT of 3.4 million parameters with 4,096 tokens, layer norms and a tied head, in bf16
autocast, on the sources of Python's standard library: runs of consecutive steps early, in the
middle and late in training.

    python notebooks/record/record_gpt.py /tmp/gpt                        # 8 workers, 18 steps: 2 GB
    apscope cut /tmp/gpt notebooks/data/gpt --size 6MB
    python notebooks/record/record_gpt.py /tmp/gpt_w64 --workers 64       # 64 workers, 6 steps: 5 GB

Tokens are pairs of characters, pairs of those, and so on, made from the text itself; most are rare,
so the rows of the embedding's gradient differ by many powers of two. The text is that of the Python
that runs; its SHA-256 is in the metadata. AdamW at 1e-3, 50 steps of warm-up, then a linear decay
to a tenth. Eight workers have 4 windows of 32 tokens each, 64 workers one; at the steps between the
runs all windows are one batch.
"""

import argparse
import hashlib
import platform
from pathlib import Path

from common import about, deterministic, nn, torch, train

from apscope._training.pairs import tokens
from apscope._training.texts import NAMED
from apscope.record import TraceWriter
from apscope.record.torch_layers import roles
from apscope.train._tasks.tokens import CONTEXT, GPT, VOCABULARY

SEED = 20261127
RUN = 6  # consecutive steps
BEGINS = {8: (20, 300, 994), 64: (300,)}  # of the runs, by workers
LAST = 999


def loss_function(model, batch):
    inputs, following = batch
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(inputs)
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), following.flatten())


def record(folder, workers, begins):
    generator = deterministic(SEED)
    text = NAMED["stdlib"]()
    made, vocabulary = tokens(text, VOCABULARY)
    data = torch.tensor(made)
    model = GPT(vocabulary, width=256, heads=8, layers=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 50, 1 - 0.9 * step / LAST)
    )
    each = max(1, 32 // workers)

    def batches_at(_):
        starts = generator.integers(0, len(data) - CONTEXT, size=(workers, each))
        rows = [[data[start : start + CONTEXT + 1] for start in row] for row in starts]
        return [(torch.stack(row)[:, :-1], torch.stack(row)[:, 1:]) for row in rows]

    size = sum(parameter.numel() for parameter in model.parameters())
    with TraceWriter(
        folder, workers=workers, name=folder.name, model=f"GPT, {size} parameters",
        reduction="mean", roles=roles(model),
        metadata=about(
            "record_gpt.py", SEED,
            data=f"the standard library's modules of one file, Python {platform.python_version()}, "
            f"{vocabulary} tokens",
            data_sha256=hashlib.sha256(text.encode()).hexdigest(),
            batch_per_worker=f"{each} windows of {CONTEXT} tokens",
            optimizer="AdamW, betas 0.9 and 0.95, weight decay 0.1", autocast="bfloat16",
        ),
    ) as writer:  # fmt: skip
        steps = [begin + i for begin in begins for i in range(RUN)]
        train(
            model, optimizer, schedule, loss_function, batches_at, writer, steps, (), [], joins=True
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the trace")
    parser.add_argument("--workers", type=int, choices=sorted(BEGINS), default=8)
    parser.add_argument("--begins", help="first steps of the runs, such as 20,300,994")
    arguments = parser.parse_args()
    begins = arguments.begins
    record(
        arguments.folder,
        arguments.workers,
        BEGINS[arguments.workers] if begins is None else [int(word) for word in begins.split(",")],
    )
