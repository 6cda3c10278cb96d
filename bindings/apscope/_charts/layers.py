"""A map of a scheme's errors by layer and step, with reasons and remedies of the worst layers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from .._results.pooling import (
    PARTS,
    infinite_with,
    losses,
    pool,
    quotient,
    step_losses,
)
from .._results.volume import at_most
from .._schemes.titles import format_of
from .._text import count_of
from .describe import Cells, Row, number

#: Number of layers that are framed.
WORST = 5
#: A remedy's error must be smaller by at least this factor.
_BETTER = 1.5
#: Edges between the bands; the last edge of an NMSE is where quantized training stops working
#: (docs/definitions.md, section 16).
_EDGES = {
    True: ((1e-3, ".001"), (1e-2, ".01"), (0.1, ".1"), (1.0, "1")),
    False: ((1e-4, "10⁻⁴"), (1e-3, ".001"), (1e-2, ".01"), (1 / 3, "1/3")),
}


def by_layer(rows: pd.DataFrame) -> pd.DataFrame:
    """The error of every scheme in every layer, all steps together.

    Parameters
    ----------
    rows : DataFrame
        From `headline_rows`, of one trace.

    Returns
    -------
    DataFrame
        ``scheme``, ``layer``, ``error`` (over the noise, the geometric mean over its blocks; where
        that is unknown the pooled NMSE; infinite with overflow), ``volume`` (where no row has one,
        as with one worker, the bits of a message over fp32's), ``reason`` (the largest part of its
        squared error) and ``share`` (of the parts).
    """
    table = pool(rows, ["scheme", "tensor"])
    volume = table["volume"]
    if volume.isna().all():
        volume = table["bits_per_value"] / 32
    error = table["error_over_noise"] if table["error_over_noise"].notna().any() else table["nmse"]
    parts = np.nan_to_num(table[list(PARTS[:4])].to_numpy(float))
    return pd.DataFrame(
        {
            "scheme": table["scheme"].astype(object),
            "layer": table["tensor"].astype(object),
            "error": infinite_with(table["overflow"], error),
            "volume": volume,
            "reason": [
                PARTS[k].removeprefix("split_") if row[k] > 0 else ""
                for row, k in zip(parts, parts.argmax(axis=1))
            ],
            "share": quotient(parts.max(axis=1), parts.sum(axis=1)),
        }
    )


def _errors(rows: pd.DataFrame) -> tuple[bool, np.ndarray]:
    """Whether errors are over the noise, else they are NMSEs; and that of each row."""
    lost = losses(rows)
    noisy = bool(np.nansum(lost["noise_blocks"]) > 0)
    nmse, known = step_losses(lost)
    value = lost["over_noise"] if noisy else np.where(known, nmse, np.nan)
    return noisy, infinite_with(lost["overflow"], value)


def worst_of(rows: pd.DataFrame) -> dict[tuple[str, str], tuple[str, int, float]]:
    """The layer, the step and the error of the worst cell of every scheme and reduction.

    Parameters
    ----------
    rows : DataFrame
        Of one trace, as those of `layer_map`, whose error this is.
    """
    rows = rows.reset_index(drop=True)
    value = pd.Series(_errors(rows)[1], index=rows.index).dropna()
    known = rows.loc[value.index]
    keys = [known["scheme"].astype(object), known["topology"].astype(object)]
    return {
        key: (str(rows.at[i, "tensor"]), int(rows.at[i, "step"]), float(value[i]))
        for key, i in value.groupby(keys, sort=False).idxmax().items()
    }


def layer_map(rows: pd.DataFrame, scheme: str, titles: Callable[[str], str] = str) -> Cells:
    """The error of one scheme, by layer and step.

    Parameters
    ----------
    rows : DataFrame
        From `headline_rows`, of one trace, all schemes, because the remedies are chosen from them.
    scheme : str
        A spec of these.
    titles : callable
        A spec's name for people.

    Returns
    -------
    Cells
        The layer with the largest error at a step is first. NaN if a step has no number. The
        `WORST` layers have a reason and a remedy: the scheme with the least error among those with
        as many bytes, if it halves the error; else the first scheme with more bytes that does.
    """
    of_scheme = rows[rows["scheme"] == scheme]
    noisy, value = _errors(of_scheme)
    cells = pd.DataFrame(
        {
            "layer": of_scheme["tensor"].astype(object).to_numpy(),
            "step": of_scheme["step"].to_numpy(),
            "value": value,
        }
    )
    layers, steps = list(dict.fromkeys(cells["layer"])), sorted(set(cells["step"]))
    grid = (
        cells.drop_duplicates(["layer", "step"])
        .pivot(index="layer", columns="step", values="value")
        .reindex(index=layers, columns=steps)
    )
    table = by_layer(rows)
    of_layer = table[table["scheme"] == scheme].set_index("layer").reindex(layers)
    peaks = grid.max(axis=1).fillna(-1.0).to_numpy()
    order = np.argsort(-peaks, kind="stable")
    unit = "error over noise" if noisy else "NMSE"
    map_rows = []
    for rank, place in enumerate(order):
        layer = layers[place]
        row, values = of_layer.iloc[place], grid.iloc[place].to_numpy(float)
        reason = row["reason"]
        part = f"{reason}, {row['share']:.0%}" if reason else ""
        says = f"{layer}\n{unit} {_error(row['error'])}"
        if not np.isnan(values).all():
            says += (
                f", at most {_error(np.nanmax(values))}, at step {steps[int(np.nanargmax(values))]}"
            )
        says += f"\nlargest part: {part}" if part else ""
        reason_beside = remedy = ""
        if rank < WORST:
            better = _remedy(table, scheme, layer, row)
            reason_beside = reason
            if better is not None:
                more = (
                    ""
                    if at_most(better["volume"], row["volume"])
                    else f" at {number(better['volume'] / row['volume'])} times the bytes"
                )
                remedy, reason_beside = (
                    f"{better['scheme']}: {_error(better['error'])}{more}",
                    f"{reason_beside}; helps: "
                    f"{_short(better['scheme'], scheme, titles)}{_cost(better, row)}",
                )
                says += f"\nwhat helps: {remedy}"
        map_rows.append(
            Row(layer, values.tolist(), float(row["error"]), part, remedy, reason_beside, says)
        )
    worst = "; ".join(f"{r.name} (at most {_error(r.peak[0])})" for r in map_rows[:WORST] if r.peak)
    return Cells(
        title=titles(scheme), says=f"{unit} of {scheme} in {count_of(len(layers), 'layer')} at "
                                   f"{count_of(len(steps), 'step')}, the worst layers first: {worst}.",
        rows=map_rows, steps=[int(s) for s in steps], edges=_EDGES[noisy], unit=unit,
        order=np.argsort(order).tolist(),
    )  # fmt: skip


def _short(better: str, scheme: str, titles: Callable[[str], str]) -> str:
    """The format of a better scheme, if it is different; else its name."""
    format = format_of(better)
    return format if format and format != format_of(scheme) else titles(better)


def _cost(better: pd.Series, row: pd.Series) -> str:
    """The factor of the bytes, if it is more than side information."""
    times = better["volume"] / row["volume"]
    return f", {number(times)}× bytes" if times >= 1.05 else ""


def _remedy(table: pd.DataFrame, scheme: str, layer: str, row: pd.Series) -> pd.Series | None:
    others = table[
        (table["layer"] == layer)
        & (table["scheme"] != scheme)
        & (table["error"] * _BETTER <= row["error"])
        & table["volume"].notna()
    ]
    if not len(others):
        return None
    as_cheap = others[at_most(others["volume"], row["volume"])]
    return (
        as_cheap.sort_values("error", kind="stable").iloc[0]
        if len(as_cheap)
        else others.sort_values(["volume", "error"], kind="stable").iloc[0]
    )


def _error(value: float) -> str:
    return "overflow" if np.isinf(value) else "–" if np.isnan(value) else number(value)
