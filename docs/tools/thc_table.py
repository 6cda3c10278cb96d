"""Writes the errors of THC's tables and of its authors' code into a page:

    python -m docs.tools.thc_table docs/schemes.md

On the bundled traces, error over noise with the expected error of a step's sums in the place of
that of one draw: of each tensor bias and variance are those that an exchange states, and the
figure is the geometric mean over blocks of 32 elements of all tensors and steps, and over seeds.
It takes some minutes.
"""

import numpy as np

import apscope
from apscope._page.numbers import figure

from . import page

#: Spec -> what it is, in words.
SCHEMES = {
    "thc": "the default",
    "thc:table=symmetric": "the published table",
    "thc:table=symmetric,grid=1001": "and two roundings",
    "thc:table=symmetric,grid=1001,rotation=1024,signs=constant": "and a partial, constant rotation",
}  # fmt: skip
BLOCK = 32
SEEDS = range(4)


def in_blocks(x: np.ndarray) -> np.ndarray:
    """The sums over blocks of elements."""
    return np.add.reduceat(x, np.arange(0, x.size, BLOCK))


def logarithms(spec: str, trace: apscope.Trace) -> np.ndarray:
    """log2 of expected error over noise, of every block with noise."""
    found = []
    for step in trace.steps:
        for name in trace.tensors:
            g = np.stack([trace.read(step, name, worker=w).ravel() for w in range(trace.workers)])
            deviations = np.square(g - g.mean(axis=0, dtype=np.float64)).sum(axis=0)
            noise = in_blocks(deviations) * trace.workers / (trace.workers - 1)  # of the sum
            for seed in SEEDS:
                e = apscope.exchange(spec, g, step=step, tensor=name, seed=seed)
                bias, variance = e.bias.sum(axis=0), e.variance.sum(axis=0)
                error = in_blocks(np.square(bias) + variance)
                found.append(np.log2(error[noise > 0] / noise[noise > 0]))
    return np.concatenate(found)


def lines() -> list[str]:
    rows = []
    for name in page.TRACES:
        trace = apscope.open_trace(page.DATA / name)
        figures = [2 ** float(np.mean(logarithms(spec, trace))) for spec in SCHEMES]
        rows.append(
            [f"`{name}`", figure(figures[0], 4)]
            + [f"{figure(x, 4)} ({(x / figures[0] - 1) * 100:+.2f} %)" for x in figures[1:]]
        )
    return page.table(["trace", *SCHEMES.values()], rows)


if __name__ == "__main__":
    page.write(page.options(__doc__).parse_args().page, {"thc_table": lines()})
