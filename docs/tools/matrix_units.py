"""What FP8 products lose in a matrix unit, beside what they lose in their casts: docs/matrix_units.md.

    python -m docs.tools.matrix_units docs/matrix_units.md

Every error is the root of the squared error of a product of matrices over the root of its square. A
matrix is cast under the power of two that brings its largest magnitude below the format's largest;
scales are powers of two, so what a unit loses does not depend on them. The exact product is fp64's.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import apscope
from apscope._training.experiment import TASKS
from apscope.train import _tasks
from apscope.train._run import optimizer_of

from . import page

#: Column -> order of the sums.
ORDERS = {
    "fp32": "sequential",
    "`h100:mma_fp8`": "unit:h100:mma_fp8",
    "`h100:fp8,promote=128`": "unit:h100:fp8,promote=128",
    "`h100:fp8`": "unit:h100:fp8",
    "`ada:fp8`": "unit:ada:fp8",
}
FORMATS = ("e4m3fn", "e5m2")
LENGTHS = (128, 512, 1024, 4096, 16384)
STEPS, SEED, ROWS = 100, 0, 64


def scaled(x: np.ndarray, name: str) -> tuple[np.ndarray, int]:
    """x times the power of two that brings its amax just below the largest value; the power."""
    f = apscope.FloatFormat(name)
    room = np.floor(np.log2(f.largest / np.abs(x).max()))
    return apscope.quantize(np.float32(np.ldexp(x, int(room))), f), int(room)


def errors(x: np.ndarray, y: np.ndarray, formats: tuple[str, str]) -> dict[str, float]:
    """Of the product of (m, k) and (k, n): of the casts, and of the sums in every order."""
    (a, of_a), (b, of_b) = scaled(x, formats[0]), scaled(y, formats[1])
    exact, cast = x.astype(float) @ y, a.astype(float) @ b
    size = np.linalg.norm(cast)
    told = {
        "casts": float(np.linalg.norm(np.ldexp(cast, -of_a - of_b) - exact) / np.linalg.norm(exact))
    }
    for title, order in ORDERS.items():
        stated = f"{order},inputs={formats[0]}*{formats[1]}" if order.startswith("unit:") else order
        found = apscope.matmul(a, b, "fp32", order=stated, threads=0)
        told[title] = float(np.linalg.norm(found - cast) / size)
    return told


def random_pair(kind: str, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Operands of (ROWS, k) and (k, ROWS)."""
    r = np.random.default_rng(SEED)
    draw = {"normal": r.normal, "from 0 to 1": r.uniform}[kind]
    return draw(size=(ROWS, k)).astype(np.float32), draw(size=(k, ROWS)).astype(np.float32)


def random_products() -> Iterator[tuple[str, str, int, dict[str, float]]]:
    """Of random numbers, in two formats, by K."""
    for kind in ("normal", "from 0 to 1"):
        for name in FORMATS:
            for k in LENGTHS:
                yield f"random, {kind}", name, k, errors(*random_pair(kind, k), (name, name))


def largest_error(kind: str, order: str, k: int = 4096) -> float:
    """The largest error of a sum in e4m3fn, over the root mean square of the product."""
    (a, _), (b, _) = (scaled(x, "e4m3fn") for x in random_pair(kind, k))
    exact = a.astype(float) @ b
    found = apscope.matmul(a, b, "fp32", order=order, threads=0)
    return float(np.abs(found - exact).max() / np.sqrt(np.mean(exact**2)))


def recorded(task: Any) -> Iterator[tuple[str, str, int, dict[str, float]]]:
    """Of the layer of a trained model with the most products: forward and both gradients."""
    torch.manual_seed(SEED)
    data = _tasks.load(task.name, task.model, task.text)
    model = data.model()
    optimizer, taken = optimizer_of(task, model), {}

    def take(layer: nn.Linear) -> None:
        def forward(_: nn.Module, inputs: Any, output: torch.Tensor) -> None:
            x = inputs[0].detach().reshape(-1, layer.in_features)
            output.register_hook(
                lambda g: taken.__setitem__(layer, (x.numpy(), g.reshape(-1, layer.out_features).numpy()))
            )  # fmt: skip

        layer.register_forward_hook(forward)

    for step in range(STEPS):
        if step == STEPS - 1:
            for module in model.modules():
                if isinstance(module, nn.Linear):
                    take(module)
        x, y = data.batch(torch.randint(0, data.examples, (task.batch,)))
        optimizer.zero_grad()
        _tasks.loss(model(x), y).backward()
        optimizer.step()
    layer = max(taken, key=lambda found: found.weight.numel())
    x, g = taken[layer]
    w = layer.weight.detach().numpy()
    title = f"{task.name}, {task.model}"
    yield f"{title}: forward", "e4m3fn", x.shape[1], errors(x, w.T.copy(), ("e4m3fn", "e4m3fn"))
    yield f"{title}: input gradient", "e5m2, e4m3fn", g.shape[1], errors(g, w, ("e5m2", "e4m3fn"))
    yield (
        f"{title}: weight gradient",
        "e5m2, e4m3fn",
        len(g),
        errors(g.T.copy(), x, ("e5m2", "e4m3fn")),
    )


def table() -> list[str]:
    """The section of the page."""
    found = [*random_products()]
    for name, model in (("digits", "convolutional"), ("characters", "transformer")):
        found += recorded(TASKS[name][model])
    titles = ["operands", "formats", "K", "casts", *ORDERS]
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for operands, formats, k, told in found:
        cells = [operands, formats, f"{k:,}", *(f"{100 * value:.2g} %" for value in told.values())]
        lines.append("| " + " | ".join(cells) + " |")
    largest = [
        f"| random, {kind} | " + " | ".join(f"{100 * largest_error(kind, order):.2g} %" for order in ORDERS.values()) + " |"
        for kind in ("normal", "from 0 to 1")
    ]  # fmt: skip
    return [
        *lines, "",
        f"The largest error of {ROWS * ROWS:,} results, of their root mean square, e4m3fn, K = 4,096:", "",
        "| operands | " + " | ".join(ORDERS) + " |", "|" + "---|" * (1 + len(ORDERS)), *largest,
    ]  # fmt: skip


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path)
    page.write(parser.parse_args().page, {"errors of products": table()})


if __name__ == "__main__":
    main()
