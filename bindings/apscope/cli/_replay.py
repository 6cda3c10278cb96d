"""``apscope replay TRACE... -o RESULTS``: recorded gradients through schemes and topologies."""

from __future__ import annotations

import argparse
import contextlib
import shlex
from typing import Any

from .._arrays.memory import memory_bytes
from .._core import OPTIMIZERS, parse_topology
from .._folders.results import writing_results
from .._replay.replay import DEFAULT_TOPOLOGIES
from .._replay.run import Rest, Take, run_replay
from .._results.saving import NewResults, csv_left_out
from .._schemes.lists import schemes_of
from .._text import count_of
from .._traces.opening import open_trace
from .._traces.selection import check_shard, parse_steps
from ._arguments import add_written_results, adder
from ._table import on_terminal, say

EXAMPLE = (
    "apscope replay notebooks/data/digits --scheme aps:e4m3fn --scheme none:e4m3fn --steps "
    "0:8 -o results"
)
HELP = "run recorded gradients through schemes and topologies"

#: Options that `run_replay` has by the same names.
_SAME = (
    "workers", "steps", "tensors", "seed", "threads", "memory", "draws", "device", "limit",
    "persistence", "optimizer",
)  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add(
        "traces TRACE",
        "a recorded trace's folder, or a URL that fsspec reads, such as s3://bucket/run",
        nargs="+",
    )
    add_written_results(add)
    add(
        "--scheme SPEC",
        "name[:format][,key=value...], main or all; repeatable; by default main; see apscope "
        "schemes",
        action="append",
    )
    add(
        "--topology NAME",
        f"reduction order, repeatable; by default {', '.join(DEFAULT_TOPOLOGIES)}",
        action="append",
    )
    add("--workers N", "ranks 0..N-1 only")
    add("--steps A:B", "recorded step numbers A <= step < B, or a list A,B,C")
    add("--tensors REGEX", "tensors whose name matches")
    add(
        "--device DEVICE",
        "cpu, or cuda: schemes that scale and round, also in blocks, run on a GPU; the same rows",
        default="cpu",
    )
    add("--threads N", "number of threads; 0: all of the machine", default=0)
    add(
        "--memory BYTES",
        "limit on the memory of tensors, such as 4G or 512M; by default half of the machine's",
    )
    add("--no-check", "read files without comparing them with their SHA-256 in the manifest")
    add("--seed N", "seed of the random draws", default=0)
    add("--draws K", "sample moments without a closed form, K >= 3", type=int, default=1)
    add("--shard I/N", "every N-th item, from the I-th (from 0); join with apscope merge")
    add(
        "--limit",
        "also compute the limit of the traces' sums: the column bits_above_limit of a summary",
    )
    add(
        "--persistence",
        "also add up errors and an optimizer's updates over consecutive steps: the columns "
        "persistence_k and update_loss_k of a summary",
    )
    add(
        "--optimizer",
        "of the columns update_loss_k; by default that of a trace's metadata",
        choices=list(OPTIMIZERS),
    )
    add(
        "--dask ADDRESS",
        "replay on the Dask cluster with this scheduler, such as tcp://10.0.0.1:8786",
    )


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.split("/")
    if len(parts) != 2 or not all(p.isdigit() for p in parts):
        raise ValueError(f"shard '{text}' is not I/N, such as 0/4")
    return int(parts[0]), int(parts[1])


def run(args: argparse.Namespace) -> int:
    _look_at(args)
    with contextlib.ExitStack() as stack:
        writing = stack.enter_context(writing_results(args.output, args.force))
        client = None
        if args.dask is not None:
            from .._replay.waiting import connect

            client = stack.enter_context(connect(args.dask))
        new = stack.enter_context(NewResults(writing, args.csv))
        try:
            rest = _replay(args, new.add, client)
        except (RuntimeError, MemoryError) as error:
            if args.device != "cuda":
                raise
            raise ValueError(str(error)) from error  # the GPU's error, in one sentence
        tables = {
            "histograms": rest.histograms, "noise": rest.noise, "limit": rest.limit,
            "persistence": rest.persistence,
        }  # fmt: skip
        rows = new.finish(tables, rest.provenance)
    say(
        f"{args.output}: {count_of(rows, 'row')}; apscope summary {shlex.quote(args.output)} ranks "
        "the schemes"
    )
    if left_out := csv_left_out(rows, args.csv):
        say(left_out)
    if rest.provenance["shard"][0] == 0:
        if args.limit:
            _say_without_limit(rest)
        if args.persistence:
            _say_without_persistence(rest)
    return 0


def _look_at(args: argparse.Namespace) -> None:
    """Reads the arguments, then opens the traces, before a folder of results is looked at."""
    args.scheme = schemes_of(["main"] if args.scheme is None else args.scheme)
    for name in args.topology or []:
        parse_topology(name)
    check_shard(_shard(args.shard))
    parse_steps(args.steps)
    memory_bytes(args.memory)
    args.traces = [open_trace(trace) for trace in args.traces]


def _say_without_limit(rest: Rest) -> None:
    """A line for each trace that has no limit, with the reason; only the first shard has limits."""
    with_limit = set(rest.limit["trace"])
    for trace in rest.provenance["traces"]:
        if trace["name"] in with_limit:
            continue
        if any("sampled_from" in tensor for tensor in trace["tensors"]):
            say(
                f"{trace['name']} has no limit, because it is a sample, and blocks of the whole "
                "are unknown"
            )
            continue
        say(
            f"{trace['name']} has no limit, because the limit is relative to the noise of the "
            f"batch, which is unknown: {_why_no_noise(trace)}"
        )


def _say_without_persistence(rest: Rest) -> None:
    """A line for each column of windows of several steps that a trace lacks, with the reason."""
    for trace in rest.provenance["traces"]:
        steps, name = set(trace["steps"]), trace["name"]
        if trace["stage"] != "local":
            say(f"{name} has no persistence, because {_why_no_noise(trace)}")
        elif not any({step + 1, step + 2} <= steps for step in steps):
            say(f"{name} has no persistence, because no three of its steps are consecutive")
        else:
            if trace["workers"] == 1:
                say(
                    f"{name} has no persistence_k, because the noise of the batch is unknown: "
                    f"{_why_no_noise(trace)}"
                )
            if "optimizer" not in trace:
                say(
                    f"{name} has no update_loss_k, because its metadata name none of "
                    f"{', '.join(OPTIMIZERS)}; apscope summary --optimizer takes one"
                )


def _why_no_noise(trace: dict[str, Any]) -> str:
    if trace["workers"] == 1:
        return "one worker was replayed"
    if trace["stage"] != "local":
        return f"its gradients are {trace['stage']}, not local"
    return "its workers' gradients do not differ, or are not finite"


def _replay(args: argparse.Namespace, take: Take, client: Any) -> Rest:
    return run_replay(
        take,
        args.traces,
        args.scheme,
        topology=args.topology or DEFAULT_TOPOLOGIES,
        shard=_shard(args.shard),
        states=None,
        keep_states=False,
        check=not args.no_check,
        progress=on_terminal(),
        client=client,
        **{name: getattr(args, name) for name in _SAME},
    )
