"""Replay recorded gradients through schemes and topologies."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _core
from .._arrays.checks import flag, integer, text
from .._results.columns import frame_of, joined
from .._results.merging import in_order
from .._results.results import Results
from .._schemes.lists import schemes_of
from .._schemes.scheme import Scheme
from .._text import hint
from .._traces.json_number import json_number
from .._traces.opening import as_trace
from .._traces.order import warn_of_guessed_order
from .._traces.selection import parse_steps
from .._traces.trace import Trace
from .memory import memory_bytes
from .progress import Bar

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["DEFAULT_TOPOLOGIES", "replay"]

#: Summaries and comparisons use the first.
DEFAULT_TOPOLOGIES = ("ring", "tree", "hierarchical:4", "sequential")


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, (str, os.PathLike, Scheme, Trace)) or hasattr(
        value, "scheme"
    ):  # the last: a plan
        return [value]
    return (
        list(value) if isinstance(value, Iterable) else [value]
    )  # invalid values are reported by the reader


def _steps_text(steps: slice | list[int]) -> str:
    """The same steps as an option of the command line; a negative bound is 0."""
    if isinstance(steps, slice):
        return ":".join(
            "" if bound is None else str(max(int(bound), 0)) for bound in (steps.start, steps.stop)
        )
    return f"{steps[0]}:{steps[0] + 1}" if len(steps) == 1 else ",".join(map(str, steps))


def _select_steps(trace: Trace, steps: slice | list[int] | None) -> list[int]:
    """Indices of the selected recorded steps."""
    numbers = list(trace.steps)
    if not numbers:
        raise ValueError(
            f"trace '{trace.name}' has no complete step, so there is nothing to replay"
        )
    if steps is None:
        return list(range(len(numbers)))
    if isinstance(steps, slice):
        if steps.step not in (None, 1):
            raise ValueError(
                f"steps {steps} has a stride; stateful schemes need consecutive recorded steps"
            )
        low = numbers[0] if steps.start is None else steps.start
        high = numbers[-1] + 1 if steps.stop is None else steps.stop
        chosen = [i for i, n in enumerate(numbers) if low <= n < high]
        if not chosen:
            raise ValueError(
                f"no recorded step of trace '{trace.name}' is in {low}:{high}; it has steps {numbers[0]} to {numbers[-1]}"
            )
        return chosen
    for n in steps:
        if n not in numbers:
            raise ValueError(
                f"trace '{trace.name}' has no step {n}; it has steps {numbers[0]} to {numbers[-1]}"
            )
    return [numbers.index(n) for n in steps]


def _select_tensors(trace: Trace, pattern: str | None) -> list[int]:
    if pattern is None:
        return list(range(len(trace.tensors)))
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"tensors '{pattern}' is not a regular expression: {error}") from None
    chosen = [i for i, name in enumerate(trace.tensors) if compiled.search(name)]
    if not chosen:
        raise ValueError(
            f"tensors '{pattern}' matches no name in trace '{trace.name}'; {hint(pattern, trace.tensors, have='it has')}"
        )
    return chosen


def _json_value(value: float | None) -> float | str | None:
    return None if value is None else json_number(value)


def _describe(trace: Trace, steps: list[int], tensors: list[int], workers: int) -> dict[str, Any]:
    """The description of a trace for reports, as JSON values."""
    m = trace.manifest
    at, what = list(m.steps), list(m.tensors)  # each access makes the whole list
    return {
        "name": trace.name,
        "hash": trace.hash,
        "model": m.model,
        "stage": m.stage,
        "reduction": m.reduction,
        "workers": workers,
        "steps": [at[i].number for i in steps],
        "loss": [_json_value(at[i].loss) for i in steps],
        "learning_rate": [_json_value(at[i].learning_rate) for i in steps],
        "tensors": [
            {"name": what[i].name, "role": what[i].role, "shape": list(what[i].shape)}
            for i in tensors
        ],
    }


def _command(
    traces: list[Trace], schemes: list[Scheme], topologies: list[str], options: list[str]
) -> str:
    words = ["apscope", "replay", *(t.source for t in traces)]
    for s in schemes:
        words += ["--scheme", s.spec]
    for t in topologies or [
        "exact"
    ]:  # none given: only exact, which is always there, not the default
        words += ["--topology", t]
    return " ".join(shlex.quote(w) for w in words + options)


def _check_shard(shard: Sequence[int] | None) -> tuple[int, int]:
    if shard is None:
        return 0, 1
    if isinstance(shard, str) or len(shard) != 2:
        raise ValueError(f"shard {shard!r} is not a pair (I, N), such as (0, 4)")
    index, count = (integer("shard", v, 0, 2**31) for v in shard)
    if not 0 <= index < count:
        raise ValueError(f"shard {index}/{count} does not exist; shards count from 0 to N-1")
    return index, count


def replay(
    traces: Trace | str | os.PathLike[str] | Sequence[Trace | str | os.PathLike[str]],
    schemes: Scheme | str | Sequence[Scheme | str] | None = None,
    *,
    topology: str | Sequence[str] = DEFAULT_TOPOLOGIES,
    workers: int | None = None,
    steps: slice | str | Iterable[int] | None = None,
    tensors: str | None = None,
    seed: int = 0,
    threads: int = 0,
    memory: int | str | None = None,
    shard: Sequence[int] | None = None,
    draws: int = 1,
    states: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    keep_states: bool = False,
    check: bool = True,
    device: str = "cpu",
    progress: bool = False,
    client: Client | None = None,
) -> Results:
    """Run recorded gradients through schemes, and compare with the recorded ones.

    Parameters
    ----------
    traces : Trace, path-like, URL, or a sequence of them
        Recorded traces, as for `open_trace`.
    schemes : Scheme, spec, or a sequence of them
        ``main``, the default, means `main_schemes`, ``all`` means `all_schemes`. Other schemes are
        replayed alone.
    topology : str or sequence of str
        Reduction orders; ``exact`` is always among the rows. They apply to schemes that sum in a
        format; gathering schemes have one row ``gather`` instead.
    workers : int, optional
        Use ranks 0..workers-1; by default all.
    steps : slice, "A:B", "A,B,C" or step numbers, optional
        Recorded step numbers; ranges are half open. State is initialised at the first one.
    tensors : str, optional
        Regular expression; selects tensors whose name it matches somewhere.
    seed : int
        Of the random draws.
    threads : int
        0 uses all of the machine's. Their number never changes a bit.
    memory : int or str, optional
        Limit on the memory of tensors, in bytes or as a text: ``4G``, ``512M`` (powers of 1024),
        ``4GB`` (of 1000); by default half of the machine's memory, or of its control group's. It
        limits the number of items that run at once, and changes no bit. The memory of an item (its
        recorded values, its schemes' copies, and their state) is measured by running the schemes on
        small tensors first. Python, its libraries and the results' tables are not included.
    shard : (I, N), optional
        Every N-th item, from the I-th; `apscope.merge` joins the N results.
    draws : int
        K >= 3 samples expected bias and variance where no closed form exists.
    states : mapping, optional
        ``Results.states`` of a replay of the earlier steps: schemes continue from there, and the
        rows are those of one replay over all steps.
    keep_states : bool
        Whether to keep `Results.states`. Otherwise a scheme's state of a tensor is freed after the
        tensor's last step; with it, the states of all tensors stay in memory (8 bytes per element
        and worker for ``error_feedback``).
    check : bool
        Whether every file that is read is first compared with its SHA-256 in the manifest (once for a `Trace` object).
    device : str
        ``cpu``, or ``cuda``: the first GPU that CUDA finds does the work of schemes that round scaled
        gradients to a float format (their specs name one: ``aps:e4m3``), except the choice of the
        scales: casts, hops, statistics, draws. The rows are the same, byte for byte. Everything
        else runs on the CPU: reading and statistics of the traces, ``qsgd``, and schemes that work
        on whole tensors or have memory of elements (blocks, codebooks, signs, sparse ones,
        transforms, ``error_feedback``, ``cpd``). A large tensor goes through the GPU in pieces.
        With `client` the Dask workers' GPUs are used. Needs the CUDA module, built with
        ``-DAPSCOPE_CUDA=ON``.
    progress : bool
        A progress bar on standard error: visited values (once by the statistics, once by every
        scheme), their rate, and the time left.
    client : dask.distributed.Client, optional
        Replay on this Dask cluster, local or remote: one part per Dask worker, on `threads` threads
        (0: as many as the worker has) and within `memory` (by default half of the worker's own
        limit). The work is divided in proportion to the workers' threads, by the time that the
        schemes take on small tensors here. If a worker ends, another takes its part; if all end,
        the replay starts again with the workers that appear within a minute. The rows are the same,
        byte for byte. Workers and scheduler must have this version of apscope, and the workers must
        read the traces under the same absolute path, or URL, as here. Each reads the steps of its
        part: whole steps if possible, all steps for a scheme with memory of elements; for a URL it
        fetches their files into its temporary folder until the replay is done. Needs
        ``apscope[dask]``.

    Returns
    -------
    Results

    Raises
    ------
    ValueError
        Unknown schemes, topologies, steps, tensors; more workers than recorded; a damaged trace; a
        trace that a Dask worker does not find; `memory` too small for the largest item.
    TypeError
        `client` is not a Dask client.
    ChildProcessError
        A Dask worker ended during the replay, or has no supported GPU.
    RuntimeError
        ``device="cuda"`` without the CUDA module, without a GPU, or with one that is too old; CUDA failed.
    MemoryError
        The GPU's memory is too small for 4096 elements of every worker.
    """
    if client is not None:
        from .cluster import check_client, replay_on
        from .tasks import Job

        check_client(client)
    if device not in ("cpu", "cuda"):
        raise ValueError(f"unknown device '{device}'; use cpu or cuda")
    on_device = None
    if device == "cuda" and client is None:
        from .._arrays.gpu import row_device

        on_device = row_device()
    opened = [as_trace(t) for t in _as_list(traces)]
    if not opened:
        raise ValueError("there is no trace to replay; give at least one")
    names = [t.name for t in opened]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two traces are named '{name}'; give them different folder names")
    chosen = schemes_of(["main"] if schemes is None else _as_list(schemes))
    if not chosen:
        raise ValueError("there is no scheme to replay; give at least one, such as 'aps:e4m3'")
    topologies = list(
        dict.fromkeys(_core.parse_topology(text("topology", t)) for t in _as_list(topology))
    )
    index, count = _check_shard(shard)
    seed = integer("seed", seed, 0, 2**64 - 1)
    threads = integer("threads", threads, 0, 2**20)
    memory = memory_bytes(memory)
    draws = integer("draws", draws, 1, 2**20)
    keep_states = flag("keep_states", keep_states)
    check = flag("check", check)
    if workers is not None:
        workers = integer("workers", workers, 0, 2**31 - 1)
    if tensors is not None:
        text("tensors", tensors)

    if isinstance(steps, Iterable) and not isinstance(steps, str):
        steps = [int(n) for n in steps]  # once: every trace and the command use them

    specs = [s.spec for s in chosen]
    kinds = [
        "gradient",
        *sorted({need for s in chosen for need in s.needs} & {"weights", "full_batch"}),
    ]
    options: list[str] = []
    if workers is not None:
        options += ["--workers", str(workers)]
    steps = parse_steps(steps)
    if steps is not None:
        options += ["--steps", _steps_text(steps)]
    if tensors is not None:  # as one word: an expression may begin with a dash
        options += [f"--tensors={tensors}"]
    options += ["--seed", str(seed)]
    if draws != 1:
        options += ["--draws", str(draws)]
    whole = _command(opened, chosen, topologies, options)

    parts, histogram_parts, noise_parts, described, states_after = (
        [],
        [],
        [],
        [],
        {},
    )  # parts: trace name, columns
    for trace in opened:
        warn_of_guessed_order(trace, specs)
        step_indices = _select_steps(trace, steps)
        tensor_indices = _select_tensors(trace, tensors)
        used = trace.workers if workers is None else workers
        arguments = (specs, topologies, step_indices, tensor_indices, used, seed)
        before = {} if states is None else dict(states.get(trace.name, {}))
        if client is None:  # else its workers fetch and check the files
            trace.require(step_indices, range(used), kinds)
            if check:
                with Bar(f"{trace.name}, SHA-256", progress, "B") as update:
                    trace.check(step_indices, range(used), kinds, threads=threads, update=update)
        with Bar(trace.name, progress) as update:
            if client is None:
                core_options = _core.ReplayOptions(*arguments, index, count, draws, threads, memory)
                columns, histogram, noise, after = _core.replay(
                    trace.core, core_options, None, None, before, keep_states, update, on_device
                )
                trace.check_unchanged()
                made, counted, noises = [columns], [histogram], [noise]
            else:
                job = Job(
                    arguments,
                    (index, count),
                    draws,
                    threads,
                    memory,
                    before,
                    keep_states,
                    device,
                    kinds,
                    check,
                )
                made, counted, noises, after = replay_on(client, trace, job, update)
        states_after[trace.name] = after
        described.append(_describe(trace, step_indices, tensor_indices, used))
        parts += [(trace.name, columns) for columns in made]
        histogram_parts += [(trace.name, columns) for columns in counted]
        noise_parts += [(trace.name, columns) for columns in noises]
    provenance = {
        "command": whole + (f" --shard {index}/{count}" if count > 1 else ""),
        "command_of_whole": whole,
        "version": _core.__version__,
        "seed": seed,
        "draws": draws,
        "schemes": specs,
        "topologies": topologies,
        "selection": options,
        "shard": [index, count],
        "traces": described,
    }
    tables: list[Any] = [joined(parts), joined(histogram_parts), joined(noise_parts)]
    if client is not None:  # each of its parts is a shard
        tables = [in_order(frame_of(table), provenance) for table in tables]
    rows, histograms, noise_table = tables
    results = Results(rows, histograms, provenance, noise_table)
    if keep_states:
        results.states = states_after
    return results
