"""Replay recorded gradients through schemes and topologies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._results.columns import Columns, together
from .._results.results import Results
from .._results.stored import OnFile
from .._schemes.scheme import Scheme
from .._traces.opening import TraceLike
from .run import run_replay

if TYPE_CHECKING:
    from distributed import Client

#: Summaries and comparisons use the first.
DEFAULT_TOPOLOGIES = ("ring", "two_phase", "tree", "hierarchical:4", "sequential")


def replay(
    traces: TraceLike | Sequence[TraceLike],
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
    limit: bool = False,
    persistence: bool = False,
    optimizer: str | None = None,
) -> Results:
    """Run recorded gradients through schemes, and compare with the recorded ones.

    Parameters
    ----------
    traces : Trace, path-like, URL, gradients, or a sequence of them
        Recorded traces, as for `open_trace`. Or gradients in memory, float32, float16 or bfloat16:
        one step ``{"name": array of (workers, ...)}``, or several, ``[{...}, {...}]`` or
        ``{number: {...}}``, as for `record.from_arrays`, which takes two of them side by side, and
        training that adds gradients instead of taking their mean.
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
        Regular expression in RE2's syntax; selects tensors whose name it matches somewhere.
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
        Whether every file is compared with its SHA-256 in the manifest before it is read (once for
        a `Trace` object).
    device : str
        ``cpu``, or ``cuda``: the first GPU that CUDA finds does the work of schemes that round
        scaled gradients to a float format (their specs name one: ``aps:e4m3``), a block format
        (``mx``, ``nvfp4``) or uniform levels (``qsgd``), except the choice of a layer's scale:
        casts, hops, statistics, draws. The rows are the same, byte for byte.
        Everything else runs on the CPU: reading and statistics of the traces, scales of
        rows, schemes that work on whole tensors or have memory of elements (codebooks, signs,
        sparse ones, transforms, ``error_feedback``, ``cpd``), and tensors with fewer than 2^18
        values, elements times workers. A large tensor goes through the GPU in pieces. With `client` the
        Dask workers' GPUs are used. Needs the CUDA module, built with ``-DAPSCOPE_CUDA=ON``.
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
    limit : bool
        Whether `Results.limit` is computed, and with it the column ``bits_above_limit`` of a
        summary and the line in the picture of the front: two more passes over the gradients and
        their entropies, by this process even with `client`; of shards the first has it.
    persistence : bool
        Whether `Results.persistence` is computed, and with it the columns ``persistence_k`` and
        ``update_loss_k`` of a summary: errors and an optimizer's updates are added up over 3, 10
        and 30 consecutive steps, element by element. The rows are the same. Every scheme is then
        replayed tensor by tensor through all steps, with 65 bytes per element for each of its
        topologies, which `memory` counts; and all rows are held until the end. Runs of steps begin
        anew at the first step, whatever `states` says. Not with ``device="cuda"``.
    optimizer : str, optional
        Of ``update_loss_k``, as in `Results.summary`, which may name another; of all traces. By
        default what each trace's metadata call ``optimizer``, if it is a known one. It changes no
        table, and stands in the results' provenance. Only with `persistence`.

    Returns
    -------
    Results

    Raises
    ------
    ValueError
        Unknown schemes, topologies, steps, tensors, optimizer; `optimizer` without `persistence`;
        more workers than recorded; a damaged trace; a trace that a Dask worker does not find;
        `memory` too small for the largest item.
    TypeError
        `client` is not a Dask client; gradients without a name, or with one that is not a string.
    ChildProcessError
        A Dask worker ended during the replay, or has no supported GPU.
    RuntimeError
        ``device="cuda"`` without the CUDA module, without a GPU, or with one that is too old; or
        CUDA failed.
    MemoryError
        The GPU's memory is too small for 4096 elements of every worker.

    Examples
    --------
    >>> import numpy as np, apscope
    >>> g = np.random.default_rng(0).standard_normal((8, 1000), np.float32)
    >>> results = apscope.replay({"fc.weight": g}, ["aps:e4m3fn", "aps:e5m2"], topology="ring")
    >>> sorted(set(results.summary()["scheme"]))
    ['aps:e4m3fn', 'aps:e5m2']
    """
    arguments = locals().copy()  # `run_replay` has the same, by the same names
    parts: list[Columns | OnFile] = []
    rest = run_replay(parts.append, **arguments)
    rows = parts[0] if isinstance(parts[0], OnFile) else together(parts)  # type: ignore[arg-type]  # one kind
    results = Results(
        rows, rest.histograms, rest.provenance, rest.noise, rest.limit, rest.persistence
    )
    if keep_states:
        results.states = rest.states
    return results
