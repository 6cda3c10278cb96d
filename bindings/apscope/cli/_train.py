"""``apscope train EXPERIMENT.toml -o DIR``: what schemes cost in training, with verdicts."""

from __future__ import annotations

import argparse
import contextlib
import shlex

from .._training.experiment import Experiment
from ._table import on_terminal, print_frame, say

EXAMPLE = "apscope train experiment.toml -o trained"

#: Columns of the verdicts for a terminal.
_SHORT = (
    "task", "model", "scheme", "seeds", "loss", "excess", "excess_low", "excess_high", "accuracy",
    "volume",
    "verdict", "note",
)  # fmt: skip


def add_parser(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser(
        "train",
        help="what schemes cost in training, with verdicts",
        allow_abbrev=False,
        description="Trains the experiment's tasks with its schemes, once per seed, fp32 and bf16 "
        "first, and compares the losses with those of fp32, paired by seed. If it was "
        "interrupted, the same command continues, with the same bits. docs/training.md.",
    )
    parser.add_argument("experiment", metavar="EXPERIMENT.toml", help="docs/training.md shows one")
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        required=True,
        help="a new folder, or the folder of an experiment",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="number of processes; by default 1; the bits do not depend on it",
    )
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="train on the Dask cluster with this scheduler, such as tcp://10.0.0.1:8786; same "
        "bits",
    )
    parser.add_argument(
        "--checkpoint", type=float, default=5.0, metavar="SECONDS",
        help="seconds between two checkpoints of a run; by default 5",
    )  # fmt: skip
    parser.set_defaults(run=run)


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
    experiment = Experiment.open(args.experiment)
    try:
        from ..train._experiment import run_experiment
    except ImportError as error:
        raise ValueError(f"train: {error}") from None
    from .._training.folder import read

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
