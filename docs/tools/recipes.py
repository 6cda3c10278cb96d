"""Trains the recipes of docs/recipes.md, and writes its table.

    python -m docs.tools.recipes run FOLDER [--jobs 2] [--task digits|lstm]    # a killed run goes on where it was
    python -m docs.tools.recipes write FOLDER docs/recipes.md

Tasks, rates and batches are those of `apscope train`: digits (600 steps of 64 images), characters with the LSTM (500
steps of 32 windows of Genesis), one worker, five seeds. A seed draws the weights at the start and the examples of
every batch, and is that of the stochastic rounding; every recipe gets the same weights and batches. Loss, excess,
interval and verdict are those of `apscope train`: gate 0.01 nats. The second table has differences of two recipes,
paired by seed.
"""

import argparse
import dataclasses
import json
import math
import multiprocessing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import torch

from apscope._training.experiment import TASKS
from apscope._training.verdicts import interval, run_ends, verdicts
from apscope.train import Cast, Recipe, _tasks, quantization, quantize_model, recipes
from apscope.train._run import Run, indices_of, one_thread, optimizer_of

from . import page
from .training import baseline, signed

SEEDS, GATE, FP32 = range(5), 0.01, "none:fp32"
TASK = {"digits": TASKS["digits"]["convolutional"], "lstm": TASKS["characters"]["lstm"]}


def variants() -> dict[str, Any]:
    """Title -> recipe. The presets, and what their claims are compared with."""
    held = recipes()
    bf16 = Cast("bf16")
    ieee = Cast("e5m2", overflow="ieee")
    hybrid = dataclasses.replace(held["hfp8"], accumulate=None, where={}, weight_update=None)
    fp32_sums = {
        "hfp8's formats": hybrid,
        "1-5-2 in both directions": dataclasses.replace(hybrid, input=ieee, weight=ieee),
        "1-4-3, bias 11, in both directions": dataclasses.replace(hybrid, grad_output=Cast("hfp8_forward")),
        "e4m3fn in both directions": dataclasses.replace(hybrid, input="e4m3fn", weight="e4m3fn", grad_output="e4m3fn"),
    }  # fmt: skip
    fp32_sums |= {
        f"{title}, no loss scale": dataclasses.replace(recipe, loss_scale=None)
        for title, recipe in fp32_sums.items()
        if not title.startswith("1-5-2")
    }
    whole = {
        f"{name}, all layers": dataclasses.replace(held[name], where={})
        for name in ("fp8_training", "fp8_training_nearest")
    }
    del held["cpd"]
    return {
        FP32: None,
        "none:bf16": Recipe(input=bf16, weight=bf16, grad_output=bf16, output=bf16, grad_input=bf16),
        **held, **whole, **fp32_sums,
    }  # fmt: skip


#: The LSTM rounds its recurrent weights 32 times a step, and takes ten times as long: the claims
#: alone.
NOT_ON_LSTM = (
    "mixed_precision", "hfp8", "hfp8_subnormals", "hfp8_flush", "ibm8", "mxfp8", "mxfp4", "nvfp4",
    "te_delayed", "te_current", "te_blockwise",
    "deepseek",
)  # fmt: skip
#: What is compared with what, paired by seed.
PAIRS = (
    ("fp8_training_nearest", "fp8_training"),
    ("fp8_training_nearest, all layers", "fp8_training, all layers"),
    ("1-5-2 in both directions", "hfp8's formats"),
    ("1-4-3, bias 11, in both directions", "hfp8's formats"),
    ("e4m3fn in both directions", "hfp8's formats"),
    ("1-4-3, bias 11, in both directions, no loss scale", "hfp8's formats, no loss scale"),
    ("e4m3fn in both directions, no loss scale", "hfp8's formats, no loss scale"),
)


def trained(run: Run, recipe: Any) -> dict[str, Any]:
    """The losses of a run with a recipe, the steps left out, and the held-out loss and accuracy."""
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        data = _tasks.load(run.task.name, run.task.model, run.task.text)
        model = data.model()
        optimizer = optimizer_of(run.task, model)
        quantized = recipe and quantization(
            quantize_model(model, recipe, optimizer=optimizer, seed=run.seed, say=None)
        )
        losses, skipped = [], []
        for step in range(run.task.steps):
            for group in optimizer.param_groups:
                group["lr"] = run.task.rate(step)
            x, y = data.batch(indices_of(run, step, data.examples))
            loss = _tasks.loss(model(x), y)
            losses.append(float(loss.detach()))
            if not math.isfinite(losses[-1]):
                break
            if quantized is not None:
                skipped += [] if quantized.step(loss) else [step]
            else:
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        inputs, targets = data.validation
        with torch.no_grad():
            output = model(inputs)
        return {
            "loss": losses, "skipped": skipped, "about": data.about,
            "validation_loss": float(_tasks.loss(output, targets)),
            "accuracy": _tasks.accuracy(output, targets),
        }  # fmt: skip


def train(job: tuple[str, str, int, str]) -> None:
    """One run into one file."""
    task, title, seed, place = job
    told = trained(Run(TASK[task], title, seed, 1, "ring"), variants()[title])
    Path(place).write_text(json.dumps({"task": task, "title": title, "seed": seed, **told}))


def jobs(folder: Path, only: str | None) -> list[tuple[str, str, int, str]]:
    """The runs without a file, the baselines first."""
    found = []
    for task in TASK:
        for title in variants():
            if (only and task != only) or (task == "lstm" and title in NOT_ON_LSTM):
                continue
            for seed in SEEDS:
                name = "".join(c if c.isalnum() else "-" for c in title)
                place = folder / f"{task}_{name}_{seed}.json"
                if not place.exists():
                    found.append((task, title, seed, str(place)))
    return sorted(found, key=lambda job: job[0])


def rows_of(folder: Path) -> pd.DataFrame:
    """A row a step of every run, as `apscope train` has them."""
    found = []
    for path in sorted(folder.glob("*.json")):
        told = json.loads(path.read_text())
        last = len(told["loss"]) - 1
        found += [
            {
                "task": told["task"], "model": "", "scheme": told["title"], "topology": "",
                "seed": told["seed"],
                "step": step,
                "loss": loss, "skipped": step in told["skipped"],
                "validation_loss": told["validation_loss"] if step == last else math.nan,
                "accuracy": told["accuracy"] if step == last else math.nan,
            }
            for step, loss in enumerate(told["loss"])
        ]  # fmt: skip
    return pd.DataFrame(found)


def lines(folder: Path) -> list[str]:
    """Two tables a task."""
    rows = rows_of(folder)
    table = verdicts(rows, SimpleNamespace(gate=GATE))
    ends = run_ends(rows)
    order = list(variants())
    found = [f"Gate {GATE:g} nats, {len(SEEDS)} seeds, one worker; PyTorch {torch.__version__}."]
    for task in TASK:
        own = table[table.task == task].set_index("scheme")
        if FP32 not in own.index:
            continue
        found += ["", baseline(task, own.loc[FP32]), ""]
        cells = []
        for title in order[1:]:
            if title in own.index and not (task == "lstm" and title in NOT_ON_LSTM):
                r = own.loc[title]
                cells.append((
                    _named(title), signed(r.excess), signed(r.excess_low, r.excess_high),
                    f"{100 * r.accuracy:.1f} %", r.verdict + (f": {r.note}" if r.note else ""),
                ))  # fmt: skip
        found += page.table(("recipe", "excess, nats", "95 %", "accuracy", "verdict"), cells)
        cells = []
        for one, other in PAIRS:
            a, b = (
                ends[(ends.task == task) & (ends.scheme == t) & ~ends.diverged]
                for t in (one, other)
            )
            both = a.merge(b, on="seed")
            if len(both) > 1:
                mean, *low_high = interval((both.loss_x - both.loss_y).to_numpy(float))
                points = interval(100 * (both.accuracy_x - both.accuracy_y).to_numpy(float))
                cells.append((
                    _named(one), _named(other), signed(mean), signed(*low_high),
                    signed(points[0]), signed(*points[1:]),
                ))  # fmt: skip
        heads = ("this", "minus this", "nats", "95 %", "accuracy, points", "95 %")
        found += ["", *page.table(heads, cells)]
    return found


def _named(title: str) -> str:
    return f"`{title}`" if title in recipes() or title.startswith("none:") else title


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("run", "write"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("page", type=Path, nargs="?", default=Path("docs/recipes.md"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--task", choices=tuple(TASK))
    asked = parser.parse_args()
    if asked.what == "write":
        page.write(asked.page, {"claims": lines(asked.folder)})
        raise SystemExit
    asked.folder.mkdir(parents=True, exist_ok=True)
    missing = jobs(asked.folder, asked.task)
    with multiprocessing.get_context("spawn").Pool(asked.jobs) as pool:
        for number, _ in enumerate(pool.imap_unordered(train, missing), 1):
            print(f"{number} of {len(missing)} runs", flush=True)
