"""The cost of recording every tenth step of a training of ResNet-18: python -m
docs.tools.recording_cost docs/performance.md

Trains the network of notebooks/record/record_resnet.py (11.2 million parameters) on random images
of 32 x 32, some tens of steps alternately without and with a recorder, and takes the median of the
pairs' ratios, of wall time and of processor time (of all threads, the writing one too; it says more
where other programs run beside). What is recorded holds all that a recorder does: attaching, taking
the gradients of every tenth step, writing and hashing them beside the next nine, closing. Writes
the lines between the markers of the page.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from apscope import open_trace
from apscope.record import Overhead, Recorder

from . import page

sys.path.append(str(page.ROOT / "notebooks/record"))
from record_resnet import MODELS, ResNet, loss_function

EVERY = 10


def train(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: tuple,
    steps: int,
    folder: Path | None,
) -> tuple[float, float, Overhead | None]:
    """Seconds and processor seconds of `steps` steps, and what the recorder says itself."""
    begin, begin_processor = time.perf_counter(), time.process_time()
    recorder = None if folder is None else Recorder(folder, every=EVERY, quiet=True).attach(model)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_function(model, batch).backward()
        optimizer.step()
    if recorder is not None:
        recorder.close()
    return (
        time.perf_counter() - begin,
        time.process_time() - begin_processor,
        recorder and recorder.overhead,
    )


def measure(pairs: int, steps: int, size: int, work: Path) -> list[str]:
    torch.manual_seed(0)
    blocks, bottleneck, classes = MODELS["resnet18"]
    model = ResNet(blocks, bottleneck, classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batch = torch.randn(size, 3, 32, 32), torch.randint(classes, (size,))
    train(model, optimizer, batch, 2, None)
    plain, recorded = [], []
    for pair in range(pairs):
        # A machine that slows down slows both.
        for recording in (False, True) if pair % 2 else (True, False):
            (recorded if recording else plain).append(
                train(model, optimizer, batch, steps, work / str(pair) if recording else None)
            )
        assert open_trace(work / str(pair)).steps == tuple(range(0, steps, EVERY))
    said = [overhead.share for _, _, overhead in recorded]
    megabytes = sum(p.numel() for p in model.parameters()) * 4 / 1e6
    return [
        f"{page.machine()}, PyTorch {torch.__version__} on {torch.get_num_threads()} threads; "
        f"{megabytes:.1f} MB of gradients a recorded step, batches of {size} images; {pairs} pairs "
        f"of {steps} steps, alternately.",
        "",
        *page.table(
            ("", f"{steps} steps without, s", "with every tenth recorded, s", "longer by, median",
             "quarter to three quarters of the pairs"),
            [
                (what, *row([p[i] for p in plain], [r[i] for r in recorded]))
                for i, what in enumerate(("wall time", "processor time"))
            ],
        ),
        "",
        f"The training's own thread spent {100 * statistics.median(said):.1f} % of its time on "
        "taking gradients and waiting for the disk, according to the recorder.",
    ]  # fmt: skip


def row(plain: list[float], recorded: list[float]) -> tuple[str, ...]:
    ratios = sorted(100 * (b / a - 1) for a, b in zip(plain, recorded, strict=True))
    low, high = ratios[len(ratios) // 4], ratios[(3 * len(ratios) - 1) // 4]
    return (
        f"{statistics.median(plain):.2f}", f"{statistics.median(recorded):.2f}",
        f"{statistics.median(ratios):.1f} %", f"{low:.1f} to {high:.1f} %",
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = page.options(__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3 * EVERY, help="of each way in a pair")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of PyTorch")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as work:
        lines = measure(given.pairs, given.steps, given.batch, Path(work))
    page.write(given.page, {"recording": lines})
    print("\n".join(lines))


if __name__ == "__main__":
    main()
