"""Candidates for one number of every kind of error, their lines, and how they are judged.

The candidates were fixed before the tasks of docs/held_out.toml were trained, with their theory.
Take SGD on a quadratic with the rate eta and the curvature h: the weights average the gradients of
about k = 2 / (eta h) steps. Their noise there is that of the batch times 1 + |sum of e|^2 / (sum of
N), both over k steps, e the error and N the noise's variance (`apscope._training.persistence`).
So an error that averages out counts once, one that stays counts k times, one that is fed back
less than once (`persistence_k`). What is lost of the gradient itself, by a gain below 1 or a
turned direction, slows the descent, whatever the noise (`lost_gain`, `cosine_loss`). Several
names: their geometric mean.
"""

import re
from typing import NamedTuple

import numpy as np
import pandas as pd

from apscope._training.relation import Law, above_noise, wrong_pairs

from .insight import CHOSEN_ON, law_of

NOISE = "typical_32"  # error_over_noise of a replay
LAST = "update_loss_10_times_gained"
SHORT = "update_loss_3_times_gained"  # of runs with fewer than ten steps
MANY = 0.5  # nats
REFUSED = 1 / 3  # lost gain from which on `LAST` says nothing
HALF = 0.005  # nats: of the interval of an excess from fewer than three seeds

CANDIDATES: dict[str, tuple[str, ...]] = {
    # those of docs/insight.md
    "typical_32": ("typical_32",),
    "pooled": ("pooled",),
    "step_nmse": ("step_nmse",),
    "cosine_loss": ("cosine_loss",),
    "signed": ("signed",),
    # what persists over k consecutive steps
    "typical_persistence_10": ("typical_persistence_10",),
    "persistence_10": ("persistence_10",),
    "persistence_30": ("persistence_30",),
    "lost_persistence_10": ("lost_persistence_10",),
    # what persists times what is lost
    "signed_x_cosine": ("signed", "cosine_loss"),
    "signed_10_x_cosine": ("signed_10", "cosine_loss"),
    "typical_persistence_10_x_cosine": ("typical_persistence_10", "cosine_loss"),
    "typical_persistence_30_x_cosine": ("typical_persistence_30", "cosine_loss"),
    "signed_x_gain": ("signed", "lost_gain"),
    "typical_persistence_10_x_gain": ("typical_persistence_10", "lost_gain"),
    "typical_persistence_30_x_gain": ("typical_persistence_30", "lost_gain"),
}
#: Thought of when the runs of plain-sgd and some of plain-adam were there, before resnet-sgd and
#: the GPT: the direction that a layer loses of the gradient that an optimizer averages.
LATER: dict[str, tuple[str, ...]] = {
    "cosine_loss_3": ("cosine_loss_3",),
    "cosine_loss_10": ("cosine_loss_10",),
    "cosine_loss_30": ("cosine_loss_30",),
    "persistence_10_x_cosine_10": ("persistence_10", "cosine_loss_10"),
    "lost_persistence_10_x_cosine_10": ("lost_persistence_10", "cosine_loss_10"),
}
#: Thought of after these, with the small GPT (docs/gpt.toml) and eight exchanges of resnet-sgd
#: seen, before the large GPT: the direction of what the optimizer does in k steps with a whole
#: model. SGD's update is the gradient, Adam's has every element over its root mean square, LARS's
#: every layer over its length.
UPDATES = {f"update_loss_{k}": k for k in (3, 10, 30)}
#: And times the loss that fp32 gains from the middle of the training on: what is lost is progress.
#: Thought of when all tasks but the large GPT were known.
PROGRESS = {LAST: "update_loss_10", SHORT: "update_loss_3"}
OF_OPTIMIZER = {
    "sgd": "model_cosine_loss_{}", "lars": "cosine_loss_{}",
    "adam": "adam_cosine_loss_{}", "adamw": "adam_cosine_loss_{}",
}  # fmt: skip


PLAIN, RESNET = ("plain-sgd", "plain-adam"), ("resnet-sgd",)
SMALL, LARGE = "tokens", "gpt-3m"  # the GPTs: a task, and one that has the model's name
KINDS = ("nearest", "two phases", "blocks", "clipping", "stochastic", "error feedback", "plan")


def kind(scheme: str, topology: str) -> str:
    """Of an exchange: what it rounds, and how."""
    if scheme.startswith("hybrid("):
        return "plan"
    if scheme.startswith("error_feedback("):
        return "error feedback"
    if "rounding=stochastic" in scheme or scheme.startswith("qsgd"):
        return "stochastic"
    if re.match(r"loss_scaling:.*scale=\d", scheme):
        return "clipping"
    if re.match(r"mx|nvfp4|.*unit=\d", scheme):
        return "blocks"
    return "two phases" if topology.startswith("two_phase") else "nearest"


def with_candidates(table: pd.DataFrame) -> pd.DataFrame:
    """With a column of every candidate, and `kind`; of few seeds an interval of a fixed width."""
    held = table.copy()
    held.loc[held["model"] == LARGE, "task"] = LARGE
    for name, parts in (CANDIDATES | LATER).items():
        held[name] = np.exp(np.log(table[list(parts)]).mean(axis=1, skipna=False))
    for name, k in UPDATES.items():
        columns = table["optimizer"].map(OF_OPTIMIZER)
        held[name] = [row[row["of"].format(k)] for _, row in table.assign(of=columns).iterrows()]
    for name, part in PROGRESS.items():
        held[name] = held[part] * held["gained"]
    few = held["seeds"] < 3
    held.loc[few, "excess_low"], held.loc[few, "excess_high"] = (
        held.loc[few, "excess"] - HALF, held.loc[few, "excess"] + HALF,
    )  # fmt: skip
    held["kind"] = [kind(*both) for both in zip(held["scheme"], held["topology"], strict=True)]
    return held[held["step_nmse"] != 1]  # what sends only zeros has no number


class Judged(NamedTuple):
    """A candidate's line on a set of combinations."""

    wrong: int
    pairs: int
    ratio: float  # trained over predicted, geometric mean
    spread: float  # a factor: root mean square of its logarithm
    inside: int  # of the 95 % interval
    count: int  # combinations above the seeds' noise


def judged(table: pd.DataFrame, candidate: str, law: Law) -> Judged:
    held = above_noise(table, candidate)
    low, high = law.predict_interval(held[candidate])
    log = np.log10(held["excess"] / law.predict(held[candidate]))
    wrong, pairs = wrong_pairs(table, candidate)
    return Judged(
        len(wrong), pairs, 10.0 ** log.mean(), 10.0 ** np.sqrt((log**2).mean()),
        int(held["excess"].between(low, high).sum()), len(held),
    )  # fmt: skip


def laws_of(table: pd.DataFrame) -> dict[str, Law]:
    """Of every candidate its line through the tasks that it may be fitted to."""
    own = table[table["task"].isin(CHOSEN_ON)]
    return {name: law_of(own, name) for name in CANDIDATES | LATER | UPDATES | PROGRESS}
