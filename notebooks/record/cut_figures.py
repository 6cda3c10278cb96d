"""Error over noise of traces, as tables: the typical block's (pooled), by format and by what a
scale follows.

    python notebooks/record/cut_figures.py /tmp/resnet18 notebooks/data/resnet18

A block is 32 consecutive elements of a tensor. Its q at a step is the squared error of the reduced
gradient (ring all-reduce) over the variance of the mean over the workers, not below 2^-30. The
typical value is the geometric mean of q over all blocks that have noise, the pooled one the mean
over the steps of the ratio of a step's sums; both are inf where a sum overflowed. A scale is the
largest power of two at which W times the largest magnitude fits the format: the magnitude of the
trace, of a step, of a layer at a step, or of every 1,024 or 32 elements of one.
"""

import argparse
import math

import numpy as np

import apscope

FORMATS = ("e4m3", "e3m4", "e2m5", "e3m0")
RUNGS = ("one constant", "one a step", "a layer", "1,024 elements", "32 elements")
BLOCK, LEAST = 32, 2.0**-30


def specs(format, amax_of_trace, amax_of_step, workers):
    """A scheme for every rung; the first two have their scale from the largest magnitude, as
    scale=largest,rule=tight takes it."""
    largest = apscope.FloatFormat(format).largest
    constant, step = (
        2.0 ** math.floor(math.log2(largest / (workers * amax)))
        for amax in (amax_of_trace, amax_of_step)
    )
    return [
        f"loss_scaling:{format},scale={constant!r}", f"loss_scaling:{format},scale={step!r}",
        f"aps:{format},rule=tight", f"aps:{format},rule=tight,unit=1024",
        f"aps:{format},rule=tight,unit=32",
    ]  # fmt: skip


def sums(values):
    """The sums of a row's blocks, the last of which may be shorter."""
    return np.add.reduceat(values, np.arange(0, len(values), BLOCK))


def gradients(trace, step, tensor):
    return np.stack(
        [trace.read(step, tensor, worker).reshape(-1) for worker in range(trace.workers)]
    )


def measure(trace):
    """Per step, tensor: noise of every block, and its squared error by (format, rung)."""
    amax = [
        max(float(np.abs(gradients(trace, step, tensor)).max()) for tensor in trace.tensors)
        for step in trace.steps
    ]
    for step, largest in zip(trace.steps, amax):
        for tensor in trace.tensors:
            x = gradients(trace, step, tensor)
            mean = x.mean(axis=0, dtype=np.float64)
            noise = sums(x.var(axis=0, ddof=1, dtype=np.float64) / trace.workers)
            error = {}
            for format in FORMATS:
                for rung, spec in zip(RUNGS, specs(format, max(amax), largest, trace.workers)):
                    reduced = apscope.exchange(spec, x, topology="ring").reduced
                    error[format, rung] = sums((reduced / trace.workers - mean) ** 2)
            yield step, tensor, noise, error


def table(trace):
    """Lines of Markdown: a row per format, a column per rung, and how many blocks have no noise."""
    logs, totals, blocks, silent = {}, {}, 0, 0
    for step, _, noise, error in measure(trace):
        has, blocks = noise > 0, blocks + len(noise)
        silent += int((~has).sum())
        for key, e in error.items():
            logs.setdefault(key, []).append(np.log(np.maximum(e[has] / noise[has], LEAST)))
            total = totals.setdefault(key, {}).setdefault(step, np.zeros(2))
            total += e.sum(), noise.sum()
    yield f"{trace.name}: {blocks} blocks of {BLOCK} over the steps, {silent} of them without noise"
    yield "| format | " + " | ".join(RUNGS) + " |\n|" + "---|" * (1 + len(RUNGS))
    for format in FORMATS:
        cells = []
        for rung in RUNGS:
            typical = np.exp(np.concatenate(logs[format, rung]).mean())
            pooled = np.mean([e / n for e, n in totals[format, rung].values()])
            cells.append(f"{typical:.2g} ({pooled:.2g})")
        yield f"| {format} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="+", help="folders of traces")
    for folder in parser.parse_args().traces:
        print("\n".join(table(apscope.open_trace(folder))), flush=True)
