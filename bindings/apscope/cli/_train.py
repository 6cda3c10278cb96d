"""``apscope train EXPERIMENT.toml -o DIR``: what schemes cost in training, with verdicts."""

from __future__ import annotations

import argparse
import contextlib
import shlex

from .._training.experiment import Experiment, check_trainable
from ._arguments import adder
from ._table import on_terminal, print_frame, say

EXAMPLE = "apscope train experiment.toml -o trained"
HELP = "what schemes cost in training, with verdicts"
DESCRIPTION = (
    "Trains the experiment's tasks with its schemes, once per seed, fp32 and bf16 first, "
    "and compares the losses with those of fp32, paired by seed. If it was interrupted, "
    "the same command continues, with the same bits. docs/training.md."
)

#: Columns of the verdicts for a terminal.
_SHORT = (
    "task", "model", "scheme", "reduction", "seeds", "loss", "excess", "excess_low", "excess_high", "accuracy",
    "volume",
    "verdict", "note",
)  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("experiment EXPERIMENT.toml", "docs/training.md shows one")
    add("-o, --output DIR", "a new folder, or the folder of an experiment", required=True)
    add(
        "--jobs N",
        "number of processes; by default 1; the bits do not depend on it",
        default=1,
    )
    add(
        "--dask ADDRESS",
        "train on the Dask cluster with this scheduler, such as tcp://10.0.0.1:8786; same bits",
    )
    add(
        "--checkpoint SECONDS",
        "seconds between two checkpoints of a run; by default 5",
        type=float,
        default=5.0,
    )
    add("--allow-outside", "the file may name texts outside its folder, to be trained on")


def run(args: argparse.Namespace) -> int:
    if args.jobs < 1:
        raise ValueError(f"train: --jobs {args.jobs} must be at least 1")
    if args.dask is not None and args.jobs > 1:
        raise ValueError(
            f"train: --jobs {args.jobs} is of this machine's processes; with --dask the cluster's "
            "workers train, so leave it out"
        )
    if not args.checkpoint >= 0:
        raise ValueError(f"train: --checkpoint {args.checkpoint} must be at least 0 seconds")
    from .._training.folder import check_folder, read

    experiment = Experiment.open(args.experiment, args.allow_outside)
    check_trainable(experiment)
    check_folder(args.output)
    try:
        from ..train._experiment import run_experiment
    except ImportError as error:
        raise ValueError(f"train: {error}") from None
    with contextlib.ExitStack() as stack:
        client = None
        if args.dask is not None:
            from .._replay.waiting import connect

            client = stack.enter_context(connect(args.dask))
        run_experiment(
            experiment,
            args.output,
            jobs=args.jobs,
            client=client,
            checkpoint=args.checkpoint,
            progress=on_terminal(),
            say=say,
            command=shlex.join(["apscope", *args.words]),
        )
    table = read(args.output)[2]["verdicts"]
    print_frame(
        f"{args.output}: excess training loss over fp32 in nats, gate {experiment.gate:g}",
        table[[c for c in _SHORT if c in table]],
        fit=True,
    )
    say(f"{args.output}/results.csv, verdicts.csv; apscope report {shlex.quote(args.output)}")
    return 0
