"""The exchange's share of a training step with 8 workers, beside the same loop with torch's own
sum.

    python -m docs.tools.bench_train_step [--model digits|resnet18|tasks] [--exchange aps:e4m3] [--threads N]

`digits` is the task of `apscope train` (1,906 parameters, all workers' gradients at once, 8 images
a worker); `resnet18` has 11.2 million parameters in the form for CIFAR (3 x 3 at the start, no
pooling), worker after worker. A step is timed in its parts, in turn with a step of the other loop;
medians are printed. Share: the exchange over backward + exchange + update, all of the same step, on
the clock and of processor time (what other programs take is not in it). The other loop's exchange
is `rows.sum(0) / W`, put into `grad`. `tasks`: processor seconds of one run of every task of
`apscope train` by its defaults, on one thread.
"""

import argparse
import json
import statistics
import sys
import time

import torch
from torch import nn

from apscope._training.experiment import TASKS
from apscope.train import Workers, _tasks
from apscope.train._run import Run, train

from .page import ROOT

WORKERS = 8


def resnet18() -> nn.Module:
    """ResNet-18 for 32 x 32 pixels and 10 classes, of the recording script's blocks."""
    sys.path.append(str(ROOT / "notebooks/record"))
    from record_resnet import Block

    sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    sizes += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        *(Block(*s, bottleneck=False) for s in sizes),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


class TorchSum(Workers):
    """The same loop with PyTorch's sum in place of the exchange."""

    def exchange(self) -> None:
        for name, p in self.model.named_parameters():
            p.grad = (self.gradients[name].sum(0) / self.workers).reshape(p.shape)
        self.skipped = False


def loops(
    name: str, exchange: str, images: int, threads: int
) -> tuple[list[Workers], torch.Tensor, torch.Tensor]:
    """Both loops from the same weights, and a batch."""
    torch.manual_seed(0)
    task = TASKS["digits"]["convolutional"]
    data = _tasks.load("digits", "convolutional")
    make = data.model if name == "digits" else resnet18
    first, found = make(), []
    for kind in (Workers, TorchSum):
        model = make()
        model.load_state_dict(first.state_dict())
        optimizer = torch.optim.SGD(model.parameters(), lr=task.learning_rate, momentum=0.9)
        found.append(
            kind(model, _tasks.loss, optimizer, workers=WORKERS, exchange=exchange, threads=threads)
        )
    count = WORKERS * images
    if name == "digits":
        return found, *data.batch(torch.arange(count))
    return found, torch.randn(count, 3, 32, 32), torch.randint(10, (count,))


def timed_step(loop: Workers, x: torch.Tensor, y: torch.Tensor) -> tuple[list[float], list[float]]:
    """Seconds of backward, exchange and update: on the clock, and of the processor."""
    wall, used = [time.perf_counter()], [time.process_time()]
    for part in (lambda: loop.backward(x, y), loop.exchange, loop.update):
        part()
        wall.append(time.perf_counter())
        used.append(time.process_time())
    return [b - a for a, b in zip(wall, wall[1:])], [b - a for a, b in zip(used, used[1:])]


def measure(name: str, exchange: str, steps: int, images: int, threads: int) -> dict[str, object]:
    """Medians over the steps, after one that is not counted."""
    torch.set_num_threads(threads)
    found, x, y = loops(name, exchange, images, threads)
    times: list[list[list[float]]] = [[], []]
    used = []
    for step in range(steps + 1):
        for loop, kept in zip(found, times):
            seconds, processor = timed_step(loop, x, y)
            if step:
                kept.append(seconds)
                used += [processor] if loop is found[0] else []
    mine, others = ([statistics.median(p) for p in zip(*kept)] for kept in times)
    return {
        "model": name,
        "exchange": exchange,
        "images": images,
        "steps": steps,
        "threads": threads,
        "backward_ms": 1e3 * mine[0],
        "exchange_ms": 1e3 * mine[1],
        "update_ms": 1e3 * mine[2],
        "share": statistics.median(p[1] / sum(p) for p in times[0]),
        "share_of_processor_time": statistics.median(p[1] / sum(p) for p in used),
        "torch_sum_ms": 1e3 * others[1],
        "step_over_torch": statistics.median(map(sum, times[0]))
        / statistics.median(map(sum, times[1])),
    }


def tasks(exchange: str) -> list[dict[str, object]]:
    """Processor seconds of a run of every task; one whose data is missing is left out."""
    found = []
    for models in TASKS.values():
        for task in models.values():
            try:
                _tasks.load(task.name, task.model, task.text)
            except ValueError as error:
                print(f"{task.label} is left out: {error}", file=sys.stderr)
                continue
            began = time.process_time()
            train(Run(task, exchange, 0, WORKERS, "ring"))
            found.append(
                {
                    "task": task.label,
                    "steps": task.steps,
                    "processor_s": time.process_time() - began,
                }
            )
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("digits", "resnet18", "tasks"), default="digits")
    parser.add_argument("--exchange", default="aps:e4m3", metavar="SPEC")
    parser.add_argument("--steps", type=int, default=0, help="by default 200, of resnet18 3")
    parser.add_argument("--images", type=int, default=8, help="of a worker; by default 8")
    parser.add_argument(
        "--threads", type=int, default=1, help="PyTorch's and the exchange's; by default 1"
    )
    asked = parser.parse_args()
    if asked.model == "tasks":
        print(json.dumps(tasks(asked.exchange), indent=1))
        raise SystemExit
    steps = asked.steps or (200 if asked.model == "digits" else 3)
    print(
        json.dumps(
            measure(asked.model, asked.exchange, steps, asked.images, asked.threads), indent=1
        )
    )
