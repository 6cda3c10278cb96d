"""Cuts a trace to a size: of every tensor it keeps runs of consecutive elements, evenly spaced. The
result is a trace.

    python notebooks/record/cut_trace.py /tmp/resnet18 notebooks/data/resnet18 --bytes 4000000

A run begins at a multiple of its length (32 elements, or `--run`) and a tensor that is cut has the
shape (runs, elements of a run), so that blocks of 32 elements stay whole and `unit=row` gives every
run its scale. A tensor of at most one run stays as it is; an end that is shorter than a run goes.
Beside the evenly spaced runs that with the largest magnitude of every step stays: a layer's scale
follows from that one element. Gradients, weights and the full batch's gradient are cut alike,
activations are left out. The metadata of the result says what was cut: `cut` in words, `cut_from`
the whole trace's hash, and as JSON by tensor `cut_shapes`, its shape before, and `cut_runs`, the
numbers of its runs.
"""

import argparse
import json

import numpy as np

import apscope
from apscope.record import TraceWriter

KINDS = ("gradient", "weights", "full_batch")


def whole_runs(values, run):
    """The runs of a tensor as rows, its shorter end left out."""
    return values.reshape(-1)[: values.size // run * run].reshape(-1, run)


def largest_runs(trace, name, run):
    """Numbers of the runs that hold the largest magnitude at a step, of all workers."""
    found = set()
    for step in trace.steps:
        peaks = [
            np.abs(whole_runs(trace.read(step, name, worker), run)).max(axis=1)
            for worker in range(trace.workers)
        ]
        found.add(int(np.argmax(np.max(peaks, axis=0))))
    return found


def records(trace):
    """Kind, step and rank of everything that is cut."""
    kept = trace.recorded()
    return [(kind, step, rank) for step in trace.steps for kind in KINDS if step in kept[kind]
            for rank in range(trace.workers if kind == "gradient" else 1)]  # fmt: skip


def choose_runs(trace, run, size):
    """Tensor -> numbers of the runs that stay, of every tensor of more than one run, so that the
    files have at most `size` bytes."""
    elements = {tensor.name: tensor.size for tensor in trace.manifest.tensors}
    counts = {name: n // run for name, n in elements.items() if n > run}
    largest = {name: largest_runs(trace, name, run) for name in counts}
    files = len(records(trace))
    heads = (files + 3) * (
        200 + sum(len(json.dumps(name)) + 100 for name in elements)
    )  # of the files, and the manifest's lists
    fixed = (
        heads
        + 4 * files * sum(n for name, n in elements.items() if name not in counts)
        + (trace.path / "manifest.json").stat().st_size
    )
    each = 4 * files * run + 10  # with its number in the manifest

    def chosen(spacing):
        runs = {}
        for name, count in counts.items():
            parts = count // spacing  # equal ones, of which the run in the middle stays
            runs[name] = sorted(
                largest[name] | {(2 * i + 1) * count // (2 * parts) for i in range(parts)}
            )
        return runs

    room, most = (size - fixed) // each, max(counts.values(), default=1)
    for spacing in range(min(most, max(1, sum(counts.values()) // max(room, 1))), most + 1):
        runs = chosen(spacing)
        if sum(map(len, runs.values())) <= room:
            return runs
    least = fixed + each * sum(map(len, runs.values()))
    raise ValueError(
        f"{size} bytes are too few for a run of {run} elements of each of the {len(elements)} "
        f"tensors; give {least} or more"
    )


def cut(trace, folder, run=32, size=4_000_000, name=None):
    """Writes the cut of an open trace into a new folder."""
    if run < 1:
        raise ValueError(f"run is {run}; a run has 1 element or more")
    runs, manifest = choose_runs(trace, run, size), trace.manifest
    whole = sum(tensor.size for tensor in manifest.tensors)
    stay = sum(len(runs[t.name]) * run if t.name in runs else t.size for t in manifest.tensors)
    about = {
        "cut": f"runs of {run} consecutive elements, {stay} of {whole} elements",
        "cut_from": trace.hash,
        "cut_shapes": json.dumps({tensor: trace.shapes[tensor] for tensor in runs}),
        "cut_runs": json.dumps(runs),
    }
    ends = {
        step.number: {
            "loss": step.loss,
            "learning_rate": step.learning_rate,
            "loss_scale": step.loss_scale,
        }
        for step in manifest.steps
    }
    with TraceWriter(
        folder,
        workers=trace.workers,
        model=manifest.model,
        name=name or trace.name,
        stage=manifest.stage,
        reduction=manifest.reduction,
        loss_divided_by_workers=manifest.loss_divided_by_workers,
        roles=trace.roles,
        metadata={**manifest.metadata, **about},
    ) as writer:
        parts = records(trace)
        for step in trace.steps:
            for kind, at, rank in parts:
                for tensor in trace.tensors if at == step else ():
                    values = trace.read(step, tensor, rank, kind)
                    writer.add(
                        step,
                        rank,
                        tensor,
                        whole_runs(values, run)[runs[tensor]] if tensor in runs else values,
                        kind,
                    )
            writer.end_step(step, **ends[step])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", help="folder or URL of the trace")
    parser.add_argument("folder", help="where the cut trace goes")
    parser.add_argument(
        "--run", type=int, default=32, metavar="N", help="elements of a run; by default 32"
    )
    parser.add_argument(
        "--bytes",
        type=int,
        default=4_000_000,
        metavar="N",
        help="most that all files have; by default 4000000",
    )
    parser.add_argument(
        "--name", help="what reports call the cut trace; by default the trace's name"
    )
    arguments = parser.parse_args()
    try:
        cut(
            apscope.open_trace(arguments.trace),
            arguments.folder,
            arguments.run,
            arguments.bytes,
            arguments.name,
        )
    except ValueError as error:
        raise SystemExit(str(error)) from None
