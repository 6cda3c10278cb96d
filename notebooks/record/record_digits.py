"""Records the traces `digits` and `digits_w64`: a small convolutional network on handwritten
digits.

    python notebooks/record/record_digits.py notebooks/data

Data: scikit-learn's copy of the UCI optical recognition of handwritten digits (1797 images, 8 x 8).
Both traces are data-parallel training with the mean over the workers' mini-batches: the same images
in the same order, 64 a step, cut among 8 workers or among 64. On the same versions of PyTorch and
NumPy and the same kind of CPU a second run writes the same bytes.
"""

import argparse
from pathlib import Path

from common import about, deterministic, digits, nn, torch, train

from apscope.record import TraceWriter
from apscope.record.torch_layers import roles

SEED = 20191120


class DigitsNet(nn.Module):
    """Two convolutions, a group norm, a linear head: 1906 parameters."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, stride=2, padding=1, bias=False)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(4, 16)
        self.head = nn.Linear(64, 10)

    def forward(self, images):
        x = torch.relu(self.conv1(images))
        x = torch.relu(self.norm(self.conv2(x)))
        return self.head(nn.functional.max_pool2d(x, 2).flatten(1))


def loss_function(model, batch):
    images, labels = batch
    return nn.functional.cross_entropy(model(images), labels)


def record(folder, workers, batch, steps, rich_steps):
    generator = deterministic(SEED)
    images, labels = digits()
    model = DigitsNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[600, 1200], gamma=0.3)

    per_epoch = len(labels) // (workers * batch)
    order = None

    def batches_at(step):
        nonlocal order
        if step % per_epoch == 0:  # a new order of the images for every epoch
            order = torch.from_numpy(generator.permutation(len(labels)))
        first = step % per_epoch * workers * batch
        parts = order[first : first + workers * batch].split(batch)
        return [(images[part], labels[part]) for part in parts]

    writer = TraceWriter(
        folder,
        workers=workers,
        name=folder.name,
        model="convolutional network, 1906 parameters",
        reduction="mean",
        roles=roles(model),
        metadata=about(
            "record_digits.py",
            SEED,
            data="scikit-learn load_digits (UCI, 1797 images of 8 x 8)",
            batch_per_worker=str(batch),
            optimizer="SGD, momentum 0.9",
            full_batch_of="mean loss over all 1797 images",
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
            [(images, labels)],
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the two traces go")
    folder = parser.parse_args().folder
    early = list(range(40))
    late = [60, 85, 120, 170, 240, 340, 480, 680, 900, 1150, 1500, 2000]
    record(folder / "digits", 8, 8, early + late, rich_steps=(0, 2000))
    record(folder / "digits_w64", 64, 1, [10, 11, 12, 498, 499, 500], rich_steps=(10, 500))
