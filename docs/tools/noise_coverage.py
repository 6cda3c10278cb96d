"""How often the intervals of errors over noise contain the true value: python -m
docs.tools.noise_coverage [--trials 1000]

Synthetic gradients whose covariance is known, so that the true noise of every block is; an error
that is given. The share of trials in which the intervals of docs/definitions.md, section 16, hold
the true value: 95 % is what they promise.
"""

import argparse

import numpy as np
import pandas as pd

from apscope._results.noise import noise_table as noise_for_core

from . import page

BLOCK, BLOCKS = 32, 20

#: How the gradients of one step scatter, and how many steps there are.
SETTINGS = {
    "independent elements": ("independent", 5),
    "independent elements, one step": ("independent", 1),
    "neighbours correlated at .9": ("neighbours", 5),
    "a direction of each block's own": ("blocks", 5),
    "half the variance shared by all": ("shared", 10),
    "half the variance shared by all, one step": ("shared", 1),
    "heavy tails in every block (Student, 5)": ("heavy", 5),
    "a block touched by a worker in three": ("sparse", 5),
}


def draw(
    kind: str, steps: int, workers: int, scale: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients (steps, workers, blocks, 32) and the true variance of one worker's, summed over
    each block."""
    shape = (steps, workers, BLOCKS, BLOCK)
    z, factor = rng.standard_normal(shape), 1.0
    if kind == "neighbours":
        for i in range(1, BLOCK):
            z[..., i] = 0.9 * z[..., i - 1] + np.sqrt(1 - 0.81) * z[..., i]
    elif kind == "blocks":
        z = np.broadcast_to(z[..., :1], shape)
    elif kind == "shared":
        z = np.sqrt(0.5) * (z + rng.standard_normal((steps, workers, 1, 1)))
    elif kind == "heavy":
        z, factor = z / np.sqrt(rng.chisquare(5, (steps, workers, BLOCKS, 1)) / 5), 5 / 3
    elif kind == "sparse":
        z, factor = z * (rng.random((steps, workers, BLOCKS, 1)) < 1 / 3), 1 / 3
    return z * scale, factor * (scale**2).sum(-1)


def noise_table(g: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
    """`Results.noise` of a tensor of these blocks at every step, and N of the blocks."""
    steps, workers = g.shape[:2]
    d = ((g - g.mean(axis=1, keepdims=True)) ** 2).sum(axis=-1)
    total = d.sum(axis=1)
    n = total / (workers * (workers - 1))
    left = np.maximum(total[:, None] - workers / (workers - 1) * d, 0) / (workers * (workers - 2))
    known = (n > 0) & (left.min(axis=1) >= 2.0**-10 * n)
    rows = []
    for s in range(steps):
        facts = {
            "trace": "t",
            "step": s,
            "blocks": BLOCKS,
            "noise_blocks": (n[s] > 0).sum(),
            "lone_blocks": ((n[s] > 0) & ~known[s]).sum(),
        }
        rows.append(facts | {"without": pd.NA, "sum_noise": n[s].sum(), "sum_log2_ratio": 0.0})
        logs = np.log2(left[s][:, known[s]] / n[s][known[s]]).sum(axis=1)
        rows += [
            facts | {"without": w, "sum_noise": left[s, w].sum(), "sum_log2_ratio": logs[w]}
            for w in range(workers)
        ]
    table = pd.DataFrame(rows)
    return table.assign(without=table["without"].astype("Int64")), n


def coverage(
    kind: str, steps: int, workers: int, trials: int, seed: int = 0
) -> tuple[float, float]:
    """The shares of trials in which the intervals of the typical and the pooled error over noise
    hold the truth."""
    rng = np.random.default_rng(seed)
    held = np.zeros(2)
    for _ in range(trials):
        scale = np.exp(rng.normal(0, 2, (BLOCKS, 1)) + rng.normal(0, 1, (BLOCKS, BLOCK)))
        g, variance = draw(kind, steps, workers, scale, rng)
        table, n = noise_table(g)
        true = np.broadcast_to(variance / workers, n.shape)
        error = true * np.exp(rng.normal(0, 1, n.shape))  # given: any
        there = n > 0
        plain, truth = (
            np.log2(error[there] / n[there]).mean(),
            np.log2(error[there] / true[there]).mean(),
        )
        noise = noise_for_core(table)
        low, high = np.log2(noise.typical_interval()) + plain
        held[0] += low <= truth <= high
        ratios = error.sum(axis=1) / n.sum(axis=1)
        low, high = noise.pooled_interval(list(enumerate(ratios)))
        held[1] += low <= (error.sum(axis=1) / true.sum(axis=1)).mean() <= high
    return tuple(held / trials)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    args = parser.parse_args(arguments)
    counts = (4, 8, 64)
    rows = [
        (name, *("{:.1%}, {:.1%}".format(*coverage(kind, steps, w, args.trials)) for w in counts))
        for name, (kind, steps) in SETTINGS.items()
    ]
    heads = ("gradients", *(f"W = {w}: typical, pooled" for w in counts))
    print("\n".join(page.table(heads, rows)))


if __name__ == "__main__":
    main()
