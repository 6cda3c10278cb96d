"""Adaptive loss scaling beside constant scales: no tuning, and no worse than the best of them?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch

from apscope.train import AdaptiveLossScaling, _tasks

from . import common


@dataclass(frozen=True)
class Setting:
    """A task in a format of gradients, with the constant scales to try.

    In the cases of `more` the scale at the loss is halved after every step that overflowed.
    """

    task: str
    model: str
    format: str
    scales: tuple[float, ...]
    steps: int
    more: tuple[tuple[str, dict[str, Any]], ...] = ()


DIGITS = (
    Setting("digits", "convolutional", "e4m3", (1, 16, 256, 4096), 200),
    Setting("digits", "convolutional", "e5m2", (1, 16, 256, 4096), 200),
)
TRANSFORMER = Setting(
    "characters", "transformer", "e4m3", (1, 16, 256, 4096), 100,
    (("dynamic", {"scale": 2.0**16}), ("adaptive from a dynamic start", {"start": 2.0**16})),
)  # fmt: skip


def run(
    seeds: Sequence[int], settings: Sequence[Setting], steps: int | None = None
) -> pd.DataFrame:
    """A row per setting, case and seed."""
    rows = []
    for setting in settings:
        cases: list[tuple[str, dict[str, Any] | None]] = [("fp32", None)]
        cases += [(f"scale {s:g}", {"scale": float(s)}) for s in setting.scales]
        cases += [("adaptive", {}), *setting.more]
        for seed in seeds:
            for case, options in cases:
                halves = case in dict(setting.more)
                loss, accuracy, skipped = one(
                    setting, seed, options, steps or setting.steps, halves
                )
                rows.append((setting.task, setting.format, case, seed, loss, accuracy, skipped))
    return pd.DataFrame(
        rows, columns=["task", "format", "case", "seed", "loss", "accuracy", "skipped"]
    )


def one(
    setting: Setting, seed: int, options: dict[str, Any] | None, steps: int, halves: bool = False
) -> tuple[float, float, int]:
    """Loss at the end, accuracy, steps left out after an overflow."""
    data = _tasks.load(
        setting.task, setting.model, "genesis" if setting.task == "characters" else ""
    )
    with common.seeded(seed) as rng:
        model = data.model()
        if setting.task == "digits":
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        else:
            optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
        scales = None if options is None else AdaptiveLossScaling(model, setting.format, **options)

        def overflowed() -> bool:
            found = scales is not None and scales.overflowed
            if found and halves:
                scales.start /= 2
            return found

        losses, skipped = common.train(
            data, model, optimizer, rng, steps, 64 if setting.task == "digits" else 32,
            context=scales, skips=overflowed,
        )  # fmt: skip
        return common.end(losses), common.accuracy(data, model), skipped


def lines() -> list[str]:
    """The tables of the page."""
    settings = list(DIGITS)
    try:
        _tasks.load("characters", "transformer", "genesis")
        settings.append(TRANSFORMER)
    except ValueError as error:
        print(f"left out: {error}")
    rows = run(common.SEEDS, settings)
    found = []
    for setting in settings:
        own = rows[(rows.task == setting.task) & (rows.format == setting.format)]
        mean = own.groupby("case", sort=False)[["loss", "accuracy", "skipped"]].mean()
        constant = mean[mean.index.str.startswith("scale")]
        best = constant.loss.idxmin()
        found += ["", f"**{setting.task}, {setting.model}, gradients in {setting.format}**, "
                      f"{setting.steps} steps:", ""]  # fmt: skip
        found += common.table(
            "case | loss, nats | excess over fp32 (95 %) | accuracy | steps left out",
            [
                [
                    case,
                    f"{r.loss:.4g}",
                    "" if case == "fp32" else common.span(common.paired(own, case, "fp32", "loss")),
                    f"{100 * r.accuracy:.1f} %",
                    f"{r.skipped:g}",
                ]
                for case, r in mean.iterrows()
            ],
        )
        found += [""] + [
            f"{case.capitalize()} less the best constant, {best}: "
            f"{common.span(common.paired(own, case, best, 'loss'))} nats."
            for case in mean.index if case.startswith(("adaptive", "dynamic"))
        ]  # fmt: skip
    return found[1:]
