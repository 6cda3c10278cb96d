"""The work of a replay: opens traces, checks arguments, passes rows on as they are made."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import _core
from .._arrays.checks import flag, integer, listed, text
from .._arrays.memory import memory_bytes
from .._progress import Bar
from .._results.columns import Columns, frame_of, joined
from .._results.joined import Joined, in_order
from .._results.no_rows import NO_LIMIT
from .._results.stored import OnFile, Stored
from .._schemes.lists import schemes_of
from .._schemes.scheme import Scheme
from .._traces.json_number import json_number
from .._traces.loss_scale import warn_of_loss_scale
from .._traces.opening import as_trace
from .._traces.order import warn_of_guessed_order
from .._traces.selection import check_shard, parse_steps, selected_steps, selected_tensors
from .._traces.trace import Trace
from .job import Job

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

#: Takes the next rows of the table: those of one trace after another, in the order of the table.
Take: TypeAlias = "Callable[[Columns | OnFile], None]"


@dataclass(frozen=True)
class Rest:
    """What a replay finds besides its rows."""

    histograms: Columns | pd.DataFrame
    noise: Columns | pd.DataFrame
    limit: Columns
    persistence: Columns | pd.DataFrame
    provenance: dict[str, Any]
    states: dict[str, Any]  # by trace; empty ones unless they are kept


def _as_list(name: str, value: Any) -> list[Any]:
    # The last two: a plan, an array.
    if (
        isinstance(value, (str, os.PathLike, Scheme, Trace, Mapping))
        or hasattr(value, "scheme")
        or hasattr(value, "__array__")
    ):
        return [value]
    # Invalid values are reported by the reader.
    return listed(name, value) if isinstance(value, Iterable) else [value]


def _traces(value: Any) -> list[Trace]:
    """Every trace; a list of mappings has the steps of one, in memory."""
    several = _as_list("traces", value)
    if several and all(isinstance(one, Mapping) for one in several):
        several = several if isinstance(value, Mapping) else [several]
    return [as_trace(one) for one in several]


def _steps_text(steps: slice | list[int]) -> str:
    """The same steps as an option of the command line; a negative bound is 0."""
    if isinstance(steps, slice):
        return ":".join(
            "" if bound is None else str(max(int(bound), 0)) for bound in (steps.start, steps.stop)
        )
    return f"{steps[0]}:{steps[0] + 1}" if len(steps) == 1 else ",".join(map(str, steps))


def _json_value(value: float | None) -> float | str | None:
    return None if value is None else json_number(value)


def _describe(
    trace: Trace, steps: list[int], tensors: list[int], workers: int, optimizer: str | None
) -> dict[str, Any]:
    """The description of a trace for reports, as JSON values."""
    m = trace.manifest
    at, what = list(m.steps), list(m.tensors)  # each access makes the whole list
    known = optimizer or _core.optimizer_told(m.metadata.get("optimizer", ""))
    return {
        "name": trace.name,
        "hash": trace.hash,
        "model": m.model,
        "stage": m.stage,
        "reduction": m.reduction,
        "workers": workers,
        **({"optimizer": known} if known else {}),
        "steps": [at[i].number for i in steps],
        "loss": [_json_value(at[i].loss) for i in steps],
        "learning_rate": [_json_value(at[i].learning_rate) for i in steps],
        "tensors": [
            {"name": what[i].name, "role": what[i].role, "shape": list(what[i].shape)}
            | ({"sampled_from": elements} if (elements := what[i].sampled_from) else {})
            for i in tensors
        ],
    }


def _command(
    traces: list[Trace], schemes: list[Scheme], topologies: list[str], options: list[str]
) -> str:
    words = ["apscope", "replay", *(t.source for t in traces)]
    for s in schemes:
        words += ["--scheme", s.spec]
    # None given: only exact, which is always there, not the default.
    for t in topologies or ["exact"]:
        words += ["--topology", t]
    return " ".join(shlex.quote(w) for w in words + options)


def run_replay(
    take: Take,
    traces: Any,
    schemes: Any,
    *,
    topology: str | Sequence[str],
    workers: int | None,
    steps: slice | str | Iterable[int] | None,
    tensors: str | None,
    seed: int,
    threads: int,
    memory: int | str | None,
    shard: Sequence[int] | None,
    draws: int,
    states: Mapping[str, Mapping[str, Mapping[str, Any]]] | None,
    keep_states: bool,
    check: bool,
    device: str,
    progress: bool,
    client: Client | None,
    limit: bool,
    persistence: bool,
    optimizer: str | None,
) -> Rest:
    """`replay`, with rows passed to `take`: called at least once, serially, in any thread."""
    if client is not None:
        from .cluster import replay_on
        from .waiting import check_client

        check_client(client)
    if device not in ("cpu", "cuda"):
        raise ValueError(f"unknown device '{device}'; use cpu or cuda")
    on_device = None
    if device == "cuda" and client is None:
        from .._arrays.gpu import row_device

        on_device = row_device()
    chosen = schemes_of(["main"] if schemes is None else _as_list("schemes", schemes))
    if not chosen:
        raise ValueError("there is no scheme to replay; give at least one, such as 'aps:e4m3'")
    topologies = list(
        dict.fromkeys(
            _core.parse_topology(text("topology", t)) for t in _as_list("topology", topology)
        )
    )
    index, count = check_shard(shard)
    seed = integer("seed", seed, 0, 2**64 - 1)
    threads = integer("threads", threads, 0, 2**20)
    memory = memory_bytes(memory)
    draws = integer("draws", draws, 1, 2**20)
    keep_states = flag("keep_states", keep_states)
    check, limit = flag("check", check), flag("limit", limit)
    persistence = flag("persistence", persistence)
    if optimizer is not None:
        if text("optimizer", optimizer) not in _core.OPTIMIZERS:
            known = ", ".join(_core.OPTIMIZERS)
            raise ValueError(f"optimizer='{optimizer}' is not one of {known}")
        if not persistence:
            raise ValueError(
                f"optimizer='{optimizer}' is that of the columns update_loss_k, which need "
                "persistence=True (--persistence)"
            )
    if workers is not None:
        workers = integer("workers", workers, 0, 2**31 - 1)
    if tensors is not None:
        text("tensors", tensors)

    steps = parse_steps(steps)  # once: every trace and the command use them
    opened = _traces(traces)  # now that the other arguments are known to be right
    if not opened:
        raise ValueError("there is no trace to replay; give at least one")
    names = [t.name for t in opened]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two traces are named '{name}'; give them different folder names")

    specs = [s.spec for s in chosen]
    kinds = [
        "gradient",
        *sorted({need for s in chosen for need in s.needs} & {"weights", "full_batch"}),
    ]
    options: list[str] = []
    if workers is not None:
        options += ["--workers", str(workers)]
    if steps is not None:
        options += ["--steps", _steps_text(steps)]
    if tensors is not None:  # as one word: an expression may begin with a dash
        options += [f"--tensors={tensors}"]
    options += ["--seed", str(seed)]
    if draws != 1:
        options += ["--draws", str(draws)]
    tables = ["--limit"] * limit + ["--persistence"] * persistence
    tables += [] if optimizer is None else ["--optimizer", optimizer]
    command = _command(opened, chosen, topologies, options + tables)

    parts: list[OnFile] = []  # of Dask's workers
    # By table: the trace's name, columns.
    beside: dict[str, list[tuple[str, Columns]]] = {
        name: [] for name in ("histograms", "noise", "persistence", "limit")
    }
    described, states_after = [], {}
    for trace in opened:
        warn_of_guessed_order(trace, specs)
        warn_of_loss_scale(trace, specs)
        step_indices = selected_steps(trace, steps)
        tensor_indices = selected_tensors(trace, tensors)
        used = trace.workers if workers is None else workers
        ranks = range(min(used, trace.workers))  # more are refused by the replay itself
        before = {} if states is None else dict(states.get(trace.name, {}))
        job = Job(
            (specs, topologies, step_indices, tensor_indices, used, seed), (index, count), draws,
            threads, memory, before, keep_states, device, kinds, check, persistence,
        )  # fmt: skip
        if client is None:  # else its workers fetch and check the files
            trace.require(step_indices, ranks, kinds)
            if check:
                with Bar(f"{trace.name}, SHA-256", progress, "B") as update:
                    trace.check(step_indices, ranks, kinds, threads=threads, update=update)
        with Bar(trace.name, progress) as update:
            if client is None:
                histogram, noise, windows, after = _core.replay(
                    trace.core,
                    job.options(),
                    lambda rows, name=trace.name: take(joined([(name, rows)])),
                    None,
                    None,
                    before,
                    keep_states,
                    update,
                    on_device,
                )
                trace.check_unchanged()
                collected: list[list[Any]] = [[histogram], [noise], [windows]]
            else:
                files, *collected, after = replay_on(client, trace, job, update)
                parts += [Stored(rows, Path("results.parquet")) for rows in files]
        sampled = any(tensor.sampled_from for tensor in trace.manifest.tensors)
        limits: list[Columns] = []
        # Of a trace, whatever its schemes: the first shard has it.
        if limit and index == 0 and not sampled:
            from .._rate_limit.table import limit_columns

            limits = [limit_columns(trace, step_indices, tensor_indices, used, threads, progress)]
        states_after[trace.name] = after
        described.append(_describe(trace, step_indices, tensor_indices, used, optimizer))
        for table, columns in zip(beside.values(), (*collected, limits), strict=True):
            table += [(trace.name, one) for one in columns]
    provenance = {
        "command": command + (f" --shard {index}/{count}" if count > 1 else ""),
        "command_of_whole": command,
        "version": _core.__version__,
        "seed": seed,
        "draws": draws,
        "persistence": persistence,
        "schemes": specs,
        "topologies": topologies,
        "selection": options,
        "shard": [index, count],
        "traces": described,
    }
    limits_of_all = beside.pop("limit")
    tables_of: dict[str, Any] = {name: joined(table) for name, table in beside.items()}
    if client is not None:  # each of its parts is a shard
        take(Joined(parts, provenance))
        tables_of = {
            name: in_order(frame_of(table), provenance) for name, table in tables_of.items()
        }
    return Rest(
        **tables_of,
        limit=joined(limits_of_all) if limits_of_all else NO_LIMIT,
        provenance=provenance,
        states=states_after,
    )
