"""`apscope.search`: splits of N bits replayed in rounds over growing sets of steps, and ranked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .._arrays.checks import flag, text
from .._arrays.float_environment import guarded
from .._replay.replay import replay
from .._results.joined import in_order
from .._results.noise import zero_layers
from .._results.results import Results
from .._results.summary import headline, summary
from .._traces.opening import as_trace
from .._traces.trace import Trace
from .bounds import FIGURES, Bounds
from .floor import ends_in_format, least_terms
from .splits import SCHEMES, Reach, Split, nearest_named, reach_of, splits_of

#: Values of `by`: parts that have separate winners.
BY = ("all", "layer")
#: Schemes whose rows of a step do not depend on other steps, unless they keep a state. All others
#: are replayed on all steps at once.
STEP_BY_STEP = ("none", "aps", "cpd", "hfp8", "current_scaling", "stochastic")
#: Columns of a summary; empty if a split was stopped.
_FIGURES = (
    "error_over_noise", "step_nmse", "layer_cosine", "worst_nmse", "underflow_wire", "volume",
    "skipped", "overflowed", "nonfinite", "gaps",
)  # fmt: skip
#: Columns of `search`, in order.
COLUMNS = (
    "layer",
    "scheme",
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
    trace: Trace | str | os.PathLike[str],
    bits: int = 8,
    *,
    schemes: str | Sequence[str] = SCHEMES,
    specials: str | Iterable[str] | None = None,
    minimize: str | None = None,
    by: str = "all",
    topology: str = "ring",
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
    trace : Trace, path-like or URL
        One recorded trace.
    bits : int, 3 to 16
        Bits of a value, including the sign. One to eight are exponent bits, the others mantissa
        bits.
    schemes : str or sequence of str
        Specs in which ``{format}`` is replaced by a split with its usual bias, ``{biased}`` by
        every bias that is useful for the trace's range. By default ``none:{biased}``, where the
        bias is a constant scale, and ``aps:{format},rule=tight``, with a scale per layer and step.
    specials : str or iterable of str, optional
        The top codes: ``ieee`` (infinities and NaNs), ``fn`` (one NaN), ``finite`` (numbers only:
        overflow becomes the largest). By default all three, and every named signed format of that
        many bits.
    minimize : {"error_over_noise", "step_nmse", "worst_nmse", "layer_cosine"}, optional
        A figure of `Results.summary`; ``layer_cosine`` is maximized. By default
        ``error_over_noise``, or ``step_nmse`` for one worker, whose noise is unknown.
    by : {"all", "layer"}
        Whether to rank splits for all layers together, or for each layer.
    topology : str
        The order of the additions.
    steps, workers, seed, threads, progress
        As for `replay`.
    stop : bool
        Whether to stop a split once it provably ranks behind another with as many exponent bits;
        False: every split on all steps.

    Returns
    -------
    DataFrame
        One row per layer (``all`` by default) and split, layer by layer; the best first, then
        splits with overflow, then schemes with memory on steps with ``gaps``, then those that were
        stopped. Ties are in the order of `schemes`,
        named formats first, then by exponent bits, special values (``ieee``, ``fn``, ``finite``)
        and bias. `COLUMNS`:

        - ``scheme``, ``format``, ``exponent_bits``, ``mantissa_bits``, ``bias``;
        - ``nearest_named``: the named signed format that differs least from the split; itself if it
          has a name;
        - the figures of `Results.summary`, for the layer; NaN if the split was stopped;
        - ``stopped``, ``steps``: whether it was stopped, and the number of replayed steps;
        - ``bound``: lower bound of the `minimize` figure (``layer_cosine``: upper) from these
          steps; the figure if it was not stopped; infinite (``layer_cosine``: minus infinity) with
          overflow.

        The best of every layer and number of exponent bits is never stopped, and every figure is
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
    if minimize is not None and minimize not in FIGURES:
        raise ValueError(f"minimize='{minimize}' is unknown; use one of {', '.join(FIGURES)}")
    stop = flag("stop", stop)
    opened = as_trace(trace)

    def replayed(specs: Sequence[str], on: Any) -> Results:
        return replay(
            opened,
            specs,
            topology=text("topology", topology),
            steps=on,
            workers=workers,
            seed=seed,
            threads=threads,
            progress=progress,
        )

    kinds = specials.split(",") if isinstance(specials, str) else specials
    templates = [schemes] if isinstance(schemes, str) else list(schemes)
    # Reports errors in the arguments before any replay.
    splits_of(bits, templates, kinds, Reach(0, 0, 0, 0))
    survey = replayed(["none:fp32"], steps)
    about = survey.provenance["traces"][0]
    splits = splits_of(
        bits, templates, kinds, reach_of(survey.histograms, about["workers"], by == "layer")
    )
    figure = _figure(minimize, survey)
    layers = [t["name"] for t in about["tensors"]]
    cells = {name: i if by == "layer" else 0 for i, name in enumerate(layers)}
    bounds = Bounds(
        figure,
        survey.frame,
        cells,
        about["steps"],
        {s.scheme.spec: s.format.exponent_bits for s in splits},
        [] if by == "layer" else [name for names in zero_layers(survey).values() for name in names],
    )
    exact = [k for k, s in enumerate(splits) if ends_in_format(s.scheme.spec, s.format, topology)]
    if stop and exact and figure != "layer_cosine" and (survey.frame["noise_blocks"] > 0).any():
        formats = [splits[k].format for k in exact]
        terms = least_terms(
            opened, figure, about["steps"], layers, about["workers"], formats, threads
        )
        bounds.know(exact, terms)
    parts = []
    for places, on in _work(splits, bounds, about["steps"], stop):
        parts.append(replayed([splits[k].scheme.spec for k in places], on).frame)
        bounds.see(parts[-1])
    whole = bounds.whole
    specs = [s.scheme.spec for s, kept in zip(splits, whole) if kept]
    rows = pd.concat(parts, ignore_index=True)
    rows = in_order(rows[rows["scheme"].isin(specs)], survey.provenance | {"schemes": specs})
    # Every layer, or all together, as a separate trace. The table of noise is left out because its
    # intervals are the same for all splits.
    found = headline(
        summary(rows.assign(trace=rows["tensor"] if by == "layer" else "all")), topology
    )
    return _ranked(
        splits,
        bounds,
        figure,
        layers if by == "layer" else ["all"],
        found.set_index(["trace", "scheme"])[list(_FIGURES)],
    )


def _figure(minimize: str | None, survey: Results) -> str:
    known = bool((survey.frame["noise_blocks"].fillna(0) > 0).any())
    if minimize == "error_over_noise" and not known:
        raise ValueError(
            "minimize='error_over_noise' needs the noise of the batch, which needs local gradients "
            "of several workers; use step_nmse for this trace"
        )
    return minimize or ("error_over_noise" if known else "step_nmse")


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


def _ranked(
    splits: Sequence[Split], bounds: Bounds, figure: str, layers: Sequence[str], found: pd.DataFrame
) -> pd.DataFrame:
    """The table; `found` has the figures of splits that were not stopped, by layer and spec."""
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
        whole = table.assign(layer=layer, bound=bound).merge(
            found.loc[[layer]].droplevel(0), how="left", left_on="scheme", right_index=True
        )
        error = np.where(whole["stopped"], bound, whole[figure])
        order = np.lexsort(
            [
                -error if figure == "layer_cosine" else error,
                whole["overflowed"].fillna(0) > 0,
                whole["gaps"].fillna(0) > 0,
                whole["stopped"],
            ]
        )
        tables.append(whole.iloc[order])
    return pd.concat(tables, ignore_index=True).astype(
        dict.fromkeys(("skipped", "overflowed", "nonfinite", "gaps"), "Int64")
    )[list(COLUMNS)]
