"""The loss of a scheme's runs compared with fp32's: paired by seed, with intervals and a verdict.

A run's loss is the mean of its training loss over the last tenth of its steps. Its excess is the
difference to the fp32 run of the same seed: the same weights at the start and the same batches. A
run diverged if its loss was not finite, or ended above that of its first step; diverged runs are
counted, never averaged.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from .._core import student_t
from .._text import count_of
from .experiment import BASELINES, ENOUGH_SEEDS, Experiment

#: The columns that tell an exchange of a task. fp32 has one topology, the experiment's.
KEY = ["task", "model", "scheme", "topology"]


def run_ends(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per run of `folder.rows`: its loss at the end, its last validation, diverged or not."""
    ends = []
    for key, run in rows.groupby([*KEY, "seed"], sort=False):
        loss = run["loss"].to_numpy(float)
        end = float(loss[-max(len(loss) // 10, 1) :].mean())
        last = run.iloc[-1]
        ends.append({
            **dict(zip([*KEY, "seed"], key)), "loss": end,
            "validation_loss": last["validation_loss"], "accuracy": last["accuracy"],
            "diverged": not math.isfinite(end) or end > loss[0],
            "skipped": int(run["skipped"].sum()),
        })  # fmt: skip
    return pd.DataFrame(ends)


def interval(differences: np.ndarray) -> tuple[float, float, float]:
    """The mean of paired differences and its 95 % interval (Student's t); NaN if undefined."""
    n = len(differences)
    mean = float(differences.mean()) if n else math.nan
    if n < 2:
        return mean, math.nan, math.nan
    half = student_t(n - 1) * float(differences.std(ddof=1)) / math.sqrt(n)
    return mean, mean - half, mean + half


def verdicts(rows: pd.DataFrame, experiment: Experiment) -> pd.DataFrame:
    """Excess loss and accuracy with intervals, and a verdict, per task, scheme and topology.

    ``pass``: the whole interval is at most the gate. ``fail``: the whole interval is above, or a
    run diverged whose fp32 run did not. ``undecided``: all other cases, such as a single seed. The
    row of fp32 is ``baseline``; it has the standard deviation of its loss over the seeds as
    ``noise``.
    """
    ends = run_ends(rows)
    judged = []
    for (task, model, scheme, topology), runs in ends.groupby(KEY, sort=False):
        base = ends[
            (ends["task"] == task) & (ends["model"] == model) & (ends["scheme"] == BASELINES[0])
        ]
        pairs = runs.merge(base, on="seed", suffixes=("", "_base"))
        sound = pairs[~pairs["diverged"] & ~pairs["diverged_base"]]
        lost = int((pairs["diverged"] & ~pairs["diverged_base"]).sum())
        mean, low, high = interval((sound["loss"] - sound["loss_base"]).to_numpy(float))
        gained = interval((sound["accuracy"] - sound["accuracy_base"]).to_numpy(float))
        if scheme == BASELINES[0]:
            verdict, low, high = "baseline", math.nan, math.nan
            gained = (0.0, math.nan, math.nan)
        elif lost or low > experiment.gate:
            verdict = "fail"
        else:
            verdict = "pass" if high <= experiment.gate else "undecided"
        notes = [f"{count_of(lost, 'run')} of {len(runs)} diverged"] if lost else []
        if (unsound := int(pairs["diverged_base"].sum())) > 0:
            notes.append(f"{count_of(unsound, 'fp32 run')} diverged")
        if len(runs) < ENOUGH_SEEDS:
            notes.append(f"{count_of(len(runs), 'seed')} only")
        if runs["skipped"].sum():
            notes.append(f"{count_of(int(runs['skipped'].sum()), 'step')} skipped")
        converged = runs[~runs["diverged"]]
        judged.append({
            "task": task, "model": model, "scheme": scheme, "topology": topology,
            "seeds": len(runs), "diverged": int(runs["diverged"].sum()),
            "loss": converged["loss"].mean(),
            "noise": converged["loss"].std(ddof=1) if len(converged) > 1 else math.nan,
            "excess": mean, "excess_low": low, "excess_high": high,
            "excess_validation": (sound["validation_loss"] - sound["validation_loss_base"]).mean(),
            "accuracy": converged["accuracy"].mean(), "excess_accuracy": gained[0],
            "excess_accuracy_low": gained[1], "excess_accuracy_high": gained[2],
            "verdict": verdict, "note": "; ".join(notes),
        })  # fmt: skip
    return pd.DataFrame(judged)


def noise_sentences(rows: pd.DataFrame, experiment: Experiment) -> list[str]:
    """The baselines' losses and their spread over the seeds, one sentence per task."""
    table = verdicts(rows, experiment)
    sentences = []
    for (task, model), of_task in table.groupby(["task", "model"], sort=False):
        by = of_task.set_index("scheme")
        fp32, bf16 = by.loc[BASELINES[0]], by.loc[BASELINES[1]]
        half = (bf16["excess_high"] - bf16["excess_low"]) / 2
        lost = int(fp32["diverged"])
        if lost == fp32["seeds"]:
            sentences.append(
                f"{task} {model}: fp32 diverged with every seed, so nothing is compared"
            )
            continue
        sentences.append(
            f"{task} {model}: fp32 ends at {fp32['loss']:.4g} nats over "
            f"{count_of(int(fp32['seeds']) - lost, 'seed')}"
            + (f" ({lost} diverged)" if lost else "")
            + (
                f" (standard deviation {fp32['noise']:.2g})"
                if not math.isnan(fp32["noise"])
                else ""
            )
            + (
                "; no run of bf16 converged beside one of fp32"
                if math.isnan(bf16["excess"])
                else f"; bf16 - fp32 {bf16['excess']:+.2g}"
                + (f" ± {half:.2g}, paired by seed" if not math.isnan(half) else "")
            )
            + f"; gate {experiment.gate:g}"
        )
    return sentences
