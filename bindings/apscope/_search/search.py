"""`apscope.search`: splits of N bits replayed in rounds over growing sets of steps, and ranked.

Every reduction is searched separately, and all of them are ranked together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .. import _core
from .._arrays.checks import flag, integer, text
from .._arrays.float_environment import guarded
from .._replay.ladder import REDUCTIONS
from .._replay.replay import replay
from .._results.joined import in_order
from .._results.noise import zero_layers
from .._results.pooling import OWN_REDUCTIONS, wire_of
from .._results.ranking import RANKS
from .._results.results import Results
from .._results.summary import headline, summary
from .._traces.opening import TraceLike, as_trace
from .._traces.selection import parse_steps
from .bounds import FIGURES, Bounds
from .floor import ends_in_format, least_terms
from .splits import BITS, Reach, Split, nearest_named, reach_of, schemes_for, splits_of

#: Values of `by`: parts that have separate winners.
BY = ("all", "layer")
#: Schemes whose rows of a step do not depend on other steps, unless they keep a state. All others
#: are replayed on all steps at once.
STEP_BY_STEP = ("none", "aps", "cpd", "hfp8", "current_scaling", "stochastic")
#: Columns of a summary; empty if a split was stopped.
_FIGURES = (
    "error_over_noise", "step_nmse", "layer_cosine", "worst_nmse", "underflow_wire", "volume",
    "skipped", "overflowed", "nonfinite", "gaps", "lost_layers",
)  # fmt: skip
#: Columns of `search`, in order.
COLUMNS = (
    "layer",
    "scheme",
    "topology",
    "format",
    "exponent_bits",
    "mantissa_bits",
    "bias",
    "nearest_named",
    *_FIGURES,
    "stopped",
    "steps",
    "bound",
)


@guarded
def search(
    trace: TraceLike,
    bits: int = 8,
    *,
    schemes: str | Sequence[str] | None = None,
    specials: str | Iterable[str] | None = None,
    minimize: str = RANKS,
    by: str = "all",
    topology: str | Sequence[str] = REDUCTIONS,
    steps: slice | str | Iterable[int] | None = None,
    workers: int | None = None,
    seed: int = 0,
    stop: bool = True,
    threads: int = 0,
    progress: bool = False,
) -> pd.DataFrame:
    """Rank the splits of N bits into sign, exponent and mantissa by a trace's error.

    Parameters
    ----------
    trace : Trace, path-like, URL or gradients
        One recorded trace, or gradients in memory, as for `replay`.
    bits : int, 3 to 16
        Bits of a value, including the sign. One to eight are exponent bits, the others mantissa
        bits.
    schemes : str or sequence of str
        Specs in which ``{format}`` is replaced by a split with its usual bias, ``{biased}`` by
        every bias that is useful for the trace's range. By default ``none:{biased}``, where the
        bias is a constant scale, and ``aps:{format},rule=tight`` with a scale per layer and step,
        and per 32 elements, of at most 4 bits per 16.
    specials : str or iterable of str, optional
        The top codes: ``ieee`` (infinities and NaNs), ``fn`` (one NaN), ``finite`` (numbers only:
        overflow becomes the largest). By default all three, and every named signed format of that
        many bits.
    minimize : {"step_nmse", "error_over_noise", "worst_nmse", "layer_cosine"}
        A figure of `Results.summary`; ``layer_cosine`` is maximized.
    by : {"all", "layer"}
        Whether to rank splits for all layers together, or for each layer.
    topology : str or sequence of str
        The reductions, which are ranked side by side. A scheme with its own reduction has that in
        place of the first, if it does not have the first. A scheme that does not have a reduction
        has no row there.
    steps, workers, seed, threads, progress
        As for `replay`.
    stop : bool
        Whether to stop a split once it provably ranks behind another with as many exponent bits;
        False: every split on all steps.

    Returns
    -------
    DataFrame
        One row per layer (``all`` by default), split and reduction, layer by layer; the best first,
        then
        splits that lose layers, then those with overflow, then schemes with memory on steps with
        ``gaps``, then those that were stopped. Ties are in the order of the reductions, then of
        `schemes`, named formats first, then by exponent bits, special values (``ieee``, ``fn``,
        ``finite``) and bias. `COLUMNS`:

        - ``scheme``, ``topology``, ``format``, ``exponent_bits``, ``mantissa_bits``, ``bias``;
        - ``nearest_named``: the named signed format that differs least from the split; itself if it
          has a name;
        - the figures of `Results.summary`, for the layer; NaN if the split was stopped;
        - ``stopped``, ``steps``: whether it was stopped, and the number of replayed steps;
        - ``bound``: lower bound of the `minimize` figure (``layer_cosine``: upper) from these
          steps; the figure if it was not stopped; infinite (``layer_cosine``: minus infinity) with
          overflow.

        The best of every layer, reduction and number of exponent bits is never stopped, and every
        figure is
        that of a full replay (docs/search.md has the proof).

    Raises
    ------
    ValueError
        `bits` out of range; a scheme without a placeholder for the format; an unknown figure,
        topology or kind of special values; ``error_over_noise`` if the noise is unknown; gradients
        that are zero everywhere.

    Examples
    --------
    >>> import apscope
    >>> table = apscope.search("notebooks/data/digits", bits=8)  # doctest: +SKIP
    >>> table.pivot_table(index="layer", columns="exponent_bits", values="error_over_noise", aggfunc="min")  # doctest: +SKIP
    """
    if by not in BY:
        raise ValueError(f"by='{by}' is unknown; use {' or '.join(BY)}")
    if minimize not in FIGURES:
        raise ValueError(f"minimize='{minimize}' is unknown; use one of {', '.join(FIGURES)}")
    stop, steps = flag("stop", stop), parse_steps(steps)
    reductions = [topology] if isinstance(topology, str) else list(topology)
    reductions = list(dict.fromkeys(text("topology", name) for name in reductions))
    if not reductions:
        raise ValueError("there is no topology to search in; give at least one, such as ring")
    for name in reductions:
        _core.parse_topology(name)
    kinds = specials.split(",") if isinstance(specials, str) else specials
    bits = integer("bits", bits, *BITS)
    templates = [schemes] if isinstance(schemes, str) else list(schemes or schemes_for(bits))
    # What is wrong with the arguments is said before the trace is opened.
    splits_of(bits, templates, kinds, Reach(0, 0, 0, 0))
    opened = as_trace(trace)

    def replayed(specs: Sequence[str], on: Any, name: str) -> Results:
        return replay(
            opened,
            specs,
            topology=name,
            steps=on,
            workers=workers,
            seed=seed,
            threads=threads,
            progress=progress,
        )

    survey = replayed(["none:fp32"], steps, reductions[0])
    about = survey.provenance["traces"][0]
    splits = splits_of(
        bits, templates, kinds, reach_of(survey.histograms, about["workers"], by == "layer")
    )
    _needs_noise(minimize, survey)
    layers = [t["name"] for t in about["tensors"]]
    cells = {name: i if by == "layer" else 0 for i, name in enumerate(layers)}
    tables = []
    for name in reductions:
        here = _reduced(splits, name, replayed, about["steps"][:1], first=name == reductions[0])
        if not here:
            continue
        bounds = Bounds(
            minimize,
            survey.frame,
            cells,
            about["steps"],
            {s.scheme.spec: s.format.exponent_bits for s in here},
            []
            if by == "layer"
            else [layer for names in zero_layers(survey).values() for layer in names],
        )
        exact = [k for k, s in enumerate(here) if ends_in_format(s.scheme.spec, s.format, name)]
        if (
            stop
            and exact
            and minimize != "layer_cosine"
            and (survey.frame["noise_blocks"] > 0).any()
        ):
            formats = [here[k].format for k in exact]
            terms = least_terms(
                opened, minimize, about["steps"], layers, about["workers"], formats, threads
            )
            bounds.know(exact, terms)
        parts = []
        for places, on in _work(here, bounds, about["steps"], stop):
            specs = [here[k].scheme.spec for k in places]
            parts.append(_of_reduction(replayed(specs, on, name).frame, name))
            bounds.see(parts[-1])
        specs = [s.scheme.spec for s, complete in zip(here, bounds.whole) if complete]
        if not parts:
            raise ValueError(
                "the gradients, added over the workers, are zero wherever they are finite, so no "
                "error can be compared with them; give other steps"
            )
        rows = pd.concat(parts, ignore_index=True)
        reduced = rows[rows["stage"] == "reduced"]
        of_split = dict(zip(reduced["scheme"], reduced["topology"]))
        # A split may be stopped before any replay: only one that ends in the format of this one.
        usual = name if of_split else ""
        rows = in_order(rows[rows["scheme"].isin(specs)], survey.provenance | {"schemes": specs})
        # Every layer, or all together, as a separate trace. The table of noise is left out because
        # its intervals are the same for all splits.
        figures = headline(
            summary(rows.assign(trace=rows["tensor"] if by == "layer" else "all")), name
        )
        of_layer = figures.set_index(["trace", "scheme"])[list(_FIGURES)]
        tables += [
            part.assign(topology=part["scheme"].map(of_split).fillna(usual))
            for part in _rows(here, bounds, layers if by == "layer" else ["all"], of_layer)
        ]
    if not tables:
        raise ValueError(
            f"none of these schemes has a reduction {' or '.join(reductions)}; give another "
            "topology, such as ring"
        )
    return _ranked(pd.concat(tables, ignore_index=True), minimize)


def _reduced(
    splits: Sequence[Split],
    topology: str,
    replayed: Callable[[Sequence[str], Any, str], Results],
    steps: Sequence[int],
    *,
    first: bool,
) -> list[Split]:
    """The splits whose scheme has this reduction, by a replay of one split of each scheme.

    Of the first reduction also those that have their own instead.
    """
    kinds: dict[tuple[str, str], list[Split]] = {}  # the scheme without its format
    for split in splits:
        spec = split.scheme.spec
        kinds.setdefault(tuple(spec.split(split.format.name, 1)), []).append(split)  # type: ignore[arg-type]
    probes = {members[0].scheme.spec: members for members in kinds.values()}
    frame = replayed(list(probes), list(steps), topology).frame
    reduced = frame[frame["topology"].isin([topology, *(OWN_REDUCTIONS if first else ())])]
    there = set(reduced["scheme"])
    if not (frame["stage"] == "reduced").any():  # the wire alone, which is the same in each
        there = set(probes) if first else set()
    specs_there = {split.scheme.spec for spec, members in probes.items() if spec in there
            for split in members}  # fmt: skip
    return [split for split in splits if split.scheme.spec in specs_there]


def _of_reduction(frame: pd.DataFrame, topology: str) -> pd.DataFrame:
    """Rows without the exact sums, and without a scheme's own reduction if it has the topology."""
    reduced = frame["stage"] == "reduced"
    requested = reduced & (frame["topology"] == topology)
    other = reduced & frame["topology"].isin(OWN_REDUCTIONS)
    other &= ~frame["scheme"].isin(frame.loc[requested, "scheme"].unique())
    return frame[wire_of(frame, topology) | requested | other]


def _needs_noise(minimize: str, survey: Results) -> None:
    known = bool((survey.frame["noise_blocks"].fillna(0) > 0).any())
    if minimize == "error_over_noise" and not known:
        raise ValueError(
            "minimize='error_over_noise' needs the noise of the batch, which needs local gradients "
            "of several workers; use step_nmse for this trace"
        )


def _rounds(steps: Sequence[int]) -> list[list[int]]:
    """The steps in rounds, spread over the run: an eighth, then up to a quarter, half, 3/4, all."""
    return [
        part
        for first, every in ((0, 8), (4, 8), (2, 4), (1, 4), (3, 4))
        if (part := list(steps[first::every]))
    ]


def _work(
    splits: Sequence[Split], bounds: Bounds, steps: Sequence[int], stop: bool
) -> Iterator[tuple[list[int], list[int]]]:
    """The splits and steps to replay next; between two, `bounds` is updated.

    At first and after each round the candidates for the best of their groups are replayed on all
    steps, as rivals for the next rounds.
    """
    at_once = [
        k
        for k, split in enumerate(splits)
        if not (stop and split.scheme.name in STEP_BY_STEP) or split.scheme.keeps_state
    ]
    if at_once:
        yield at_once, list(steps)
    for part in [[], *_rounds(steps)]:
        left = [int(k) for k in np.flatnonzero(~bounds.whole & ~bounds.lost())]
        if left and part:
            yield left, part
        together: dict[tuple[int, ...], list[int]] = {}
        for k in bounds.leaders():
            together.setdefault(bounds.unseen(k), []).append(k)
        for unseen, leaders in together.items():
            yield leaders, list(unseen)


def _rows(
    splits: Sequence[Split],
    bounds: Bounds,
    layers: Sequence[str],
    figures: pd.DataFrame,
) -> list[pd.DataFrame]:
    """One table per layer; `figures` has the figures of splits that were not stopped."""
    formats = [split.format for split in splits]
    table = pd.DataFrame(
        {
            "scheme": [split.scheme.spec for split in splits],
            "format": [f.name for f in formats],
            "exponent_bits": [f.exponent_bits for f in formats],
            "mantissa_bits": [f.mantissa_bits for f in formats],
            "bias": [f.bias for f in formats],
            "nearest_named": [nearest_named(f).name for f in formats],
            "stopped": ~bounds.whole,
            "steps": bounds.steps_seen,
        }
    )
    tables = []
    for layer, bound in zip(layers, bounds.bounds().T):
        tables.append(
            table.assign(layer=layer, bound=bound).merge(
                figures.loc[[layer]].droplevel(0), how="left", left_on="scheme", right_index=True
            )
        )
    return tables


def _ranked(table: pd.DataFrame, figure: str) -> pd.DataFrame:
    """All rows, layer by layer, the best first."""
    error = np.where(table["stopped"], table["bound"], table[figure])
    order = np.lexsort(
        [
            -error if figure == "layer_cosine" else error,
            table["lost_layers"].fillna(0) > 0,
            table["overflowed"].fillna(0) > 0,
            table["gaps"].fillna(0) > 0,
            table["stopped"],
            pd.factorize(table["layer"])[0],
        ]
    )
    return (
        table.iloc[order]
        .reset_index(drop=True)
        .astype(
            dict.fromkeys(("skipped", "overflowed", "nonfinite", "gaps", "lost_layers"), "Int64")
        )[list(COLUMNS)]
    )
