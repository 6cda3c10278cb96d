"""What FP8 products lose in a matrix unit, in a product and in training: docs/matrix_units.md.

    python -m docs.tools.matrix_units docs/matrix_units.md                       # all tables
    python -m docs.tools.matrix_units docs/matrix_units.md --section training    # one of them

Of products: every error is the root of the squared error of a product of matrices over the root of its square. A
matrix is cast under the power of two that brings its largest magnitude below the format's largest;
scales are powers of two, so what a unit loses does not depend on them. The exact product is fp64's.

Of training: the tasks, rates and batches of `apscope train`, 300 steps, one worker. A seed draws the
weights at the start and the examples of every batch; differences are paired by seed.

Of times: products of 1,024 x 1,024 normal numbers, one thread, by turns; the median of the quotients.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

import apscope
from apscope._training.experiment import TASKS, Task
from apscope._training.verdicts import interval
from apscope.train import Recipe, Sum, _tasks, recipes
from apscope.train._run import Run, optimizer_of

from . import page
from .recipes import trained
from .training import signed

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

TRAINED = tuple(
    replace(TASKS[name][model], steps=300)
    for name, model in (("digits", "convolutional"), ("characters", "transformer"))
)
SEEDS = range(5)
#: Recipe -> itself with fp32 sums, and the sums that are compared with these.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "`te_current`": (
        recipes()["te_current"],
        {"fp32, in order": Sum("fp32")}
        | {f"`{name}`": name for name in ("h100:fp8,promote=128", "h100:fp8", "ada:fp8")},
    ),
    "`deepseek`": (
        recipes()["deepseek"], {"`h100:fp8,promote=128`": "h100:fp8,promote=128"},
    ),
}  # fmt: skip


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


def ends(task: Task, recipe: Recipe | None, seeds: Sequence[int]) -> np.ndarray:
    """By seed, the mean training loss of the last tenth of the steps."""
    losses = [trained(Run(task, "", seed, 1, "ring"), recipe)["loss"] for seed in seeds]
    last = max(1, task.steps // 10)
    return np.array(
        [np.mean(loss[-last:]) if len(loss) == task.steps else np.nan for loss in losses]
    )


def training(
    tasks: Sequence[Task] = TRAINED,
    seeds: Sequence[int] = SEEDS,
    recipes: Mapping[str, tuple[Recipe, dict[str, Any]]] = RECIPES,
) -> list[str]:
    """The section of the page: losses with and without the unit.

    A recipe in blocks is not trained with a convolution, whose terms have several scales.
    """
    rows = []
    for task in tasks:
        rows.append((task.label, "none", "fp32", f"{ends(task, None, seeds).mean():.4g}", "", ""))
        for title, (recipe, others) in recipes.items():
            if task.model == "convolutional" and recipe.input.kind == "blocks":
                continue
            base = ends(task, recipe, seeds)
            rows.append((task.label, title, "fp32", f"{base.mean():.4g}", "", ""))
            for sums, accumulate in others.items():
                found = ends(task, replace(recipe, accumulate=accumulate), seeds)
                mean, *low_high = interval(found - base)
                row = (task.label, title, sums, f"{found.mean():.4g}")
                rows.append((*row, signed(mean), signed(*low_high)))
    heads = ("task", "recipe", "sums", "loss, nats", "minus fp32 sums", "95 %")
    return page.table(heads, rows)


#: Unit -> the operands' format, for the times.
TIMED = {
    "h100:fp8": "e4m3fn", "h100": "fp16", "h100:tf32": "tf32", "h100:mma_fp8": "e4m3fn",
    "b200:fp8": "e4m3fn", "b200:mxfp8": "e4m3fn", "b200:nvfp4": "e2m1fn", "a100": "fp16",
    "v100": "fp16",
}  # fmt: skip


def times(size: int = 1024, rounds: int = 9) -> list[str]:
    """A row for each unit: the time of a product over that of the same operands, added in fp32."""
    numbers = np.random.default_rng(SEED).normal(size=(2, size, size)).astype(np.float32)
    rows = []
    for unit in apscope.units(*TIMED):
        format, pieces = TIMED[unit["name"]], -(-size // (unit["scaled"] or size))
        a, b = apscope.quantize(numbers, format, overflow="saturate")
        ones = np.ones((size, pieces), np.float32)
        how = {"scales": (ones, ones.T)} if unit["scaled"] else {}
        quotients = []
        for _ in range(rounds):
            begun = time.perf_counter()
            apscope.matmul(a, b, "fp32", order="chunked:16", threads=1)
            between = time.perf_counter()
            apscope.matmul(a, b, "fp32", order=f"unit:{unit['name']}", threads=1, **how)
            quotients.append((time.perf_counter() - between) / (between - begun))
        rows.append([f"`{unit['name']}`", format, unit["k"], f"{np.median(quotients):.2f}"])
    return page.table(["unit", "operands", "K", "time / `chunked:16`"], rows)


SECTIONS = {"errors of products": table, "losses of training": training, "times": times}


def main() -> None:
    """The command."""
    parser = page.options(__doc__)
    parser.add_argument(
        "--section", choices=("products", "training", "times"), help="by default all"
    )
    asked = parser.parse_args()
    chosen = [name for name in SECTIONS if name.endswith(asked.section or "")]
    page.write(asked.page, {name: SECTIONS[name]() for name in chosen})


if __name__ == "__main__":
    main()
