"""Verdicts: intervals against NumPy's and hand-made ones, divergence counted and never averaged."""

import math

import numpy as np
import pandas as pd
import pytest

from apscope._training.experiment import Experiment, Task
from apscope._training.verdicts import interval, noise_sentences, verdicts

TASK = Task("digits", "convolutional", 64, 20, "sgd", 0.1)
EXPERIMENT = Experiment((TASK,), (("aps:e4m3", "ring"),), (0, 1, 2, 3, 4), 0.01)


def rows(excess, seeds=5, spoil=()):
    """fp32 falls from 2 to a seed's own loss; the scheme ends `excess[seed]` above it."""
    found = []
    for scheme in ("none:fp32", "none:bf16", "aps:e4m3"):
        for seed in range(seeds):
            end = 0.1 * (seed + 1) + (excess[seed] if scheme == "aps:e4m3" else 0.0)
            loss = [2.0] * 18 + [end - 0.001, end + 0.001]
            if scheme == "aps:e4m3" and seed in spoil:
                loss = [2.0, math.nan] if spoil[seed] == "nan" else [2.0] * 18 + [3.0, 3.0]
            for step, value in enumerate(loss):
                last = step == len(loss) - 1
                found.append({
                    "task": "digits", "model": "convolutional", "scheme": scheme, "topology": "ring", "seed": seed,
                    "step": step, "loss": value,
                    "validation_loss": 2 * value if last else math.nan,
                    "accuracy": 0.9 if last else math.nan, "skipped": False,
                })  # fmt: skip
    return pd.DataFrame(found)


def of_aps(*args, **options):
    table = verdicts(rows(*args, **options), EXPERIMENT)
    assert list(table["scheme"]) == ["none:fp32", "none:bf16", "aps:e4m3"]
    assert table["verdict"][0] == "baseline"
    return table.iloc[2]


def test_the_interval_is_students():
    d = np.array([1.0, 2.0, 4.0, 4.0, 9.0])
    mean, low, high = interval(d)
    # t(4) at 0.975 is 2.776445; the standard error of these is sqrt(9.5 / 5)
    assert mean == 4 and high - mean == pytest.approx(2.776445105 * math.sqrt(9.5 / 5))
    assert mean - low == pytest.approx(high - mean)
    assert all(map(math.isnan, interval(d[:1])[1:])) and interval(d[:1])[0] == 1
    assert all(map(math.isnan, interval(d[:0])))


def test_the_accuracy_has_an_interval_paired_by_seed():
    given, change = rows([0.0] * 5), [0.01, -0.02, 0.0, 0.01, 0.03]
    ours = (given["scheme"] == "aps:e4m3") & given["accuracy"].notna()
    base = (given["scheme"] == "none:fp32") & given["accuracy"].notna()
    seeds = np.array([0.5, 0.6, 0.7, 0.8, 0.9])  # far apart, and in no interval
    given.loc[base, "accuracy"], given.loc[ours, "accuracy"] = seeds, seeds + change
    row = verdicts(given, EXPERIMENT).iloc[2]
    found = row["excess_accuracy"], row["excess_accuracy_low"], row["excess_accuracy_high"]
    assert found == pytest.approx(interval(np.array(change)))
    assert row["excess_accuracy_low"] < 0.006 < row["excess_accuracy_high"] < 0.03


@pytest.mark.parametrize(
    "excess, said",
    [
        ([0.001, 0.002, 0.0, 0.001, 0.002], "pass"),
        ([0.5, 0.51, 0.49, 0.5, 0.52], "fail"),
        ([-0.3, 0.3, 0.0, 0.2, -0.1], "undecided"),
    ],
)
def test_verdicts_are_of_the_whole_interval(excess, said):
    row = of_aps(excess)
    assert row["verdict"] == said and row["note"] == ""
    assert row["excess"] == pytest.approx(np.mean(excess))
    assert row["excess_validation"] == pytest.approx(2 * np.mean(excess))
    # Paired by seed: what the seeds differ by, 0.1 each, is not in the interval.
    assert row["excess_high"] - row["excess"] == pytest.approx(
        2.776445105 * np.std(excess, ddof=1) / math.sqrt(5)
    )
    assert row["noise"] > 0.1


@pytest.mark.parametrize("how", ["nan", "above"])
def test_divergence_fails_and_is_not_averaged(how):
    row = of_aps([0.001] * 5, spoil={3: how})
    assert row["verdict"] == "fail" and row["diverged"] == 1
    assert row["note"] == "1 run of 5 diverged"
    assert row["excess"] == pytest.approx(0.001)


def test_few_seeds_are_told_and_one_decides_nothing():
    table = verdicts(rows([0.5], seeds=1), EXPERIMENT)
    assert table["verdict"][2] == "undecided" and table["note"][2] == "1 seed only"
    assert of_aps([0.0, 0.001, 0.0], seeds=3)["note"] == "3 seeds only"


def test_the_noise_is_told():
    (line,) = noise_sentences(rows([0.0] * 5), EXPERIMENT)
    assert line == (
        "digits convolutional: fp32 ends at 0.3 nats over 5 seeds (standard deviation 0.16); "
        "bf16 - fp32 +0 ± 0, paired by seed; gate 0.01"
    )
    given = rows([0.0] * 5)

    def diverged(scheme, seeds):
        own = (given["scheme"] == scheme) & given["seed"].isin(seeds)
        (line,) = noise_sentences(given.assign(loss=given["loss"].mask(own)), EXPERIMENT)
        return line.removeprefix("digits convolutional: ")

    assert diverged("none:fp32", [0, 1]).startswith(
        "fp32 ends at 0.4 nats over 3 seeds (2 diverged)"
    )
    assert (
        diverged("none:fp32", range(5)) == "fp32 diverged with every seed, so nothing is compared"
    )
    assert diverged("none:bf16", range(5)).endswith(
        "(standard deviation 0.16); no run of bf16 converged beside one of fp32; gate 0.01"
    )
