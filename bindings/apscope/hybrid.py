"""Hybrid precision: which tensors, at which steps, get the better scheme.

Presets make common `hybrid` specs; `greedy` chooses the tensors from a replay of two schemes.
`apscope.recommend` chooses exactly among many, within limits on several figures.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import pandas as pd

from ._arrays.checks import integer, listed, of_type, text
from ._docstrings import with_sections
from ._results.pooling import headline_topology, wire_of
from ._results.results import Results
from ._results.volume import at_most
from ._schemes.scheme import Scheme, as_scheme

__all__ = ["Promotions", "exactly", "first_and_last", "greedy", "last_layer", "warmup"]
__dir__ = __all__.copy

SchemeLike = Scheme | str


@dataclass(frozen=True, eq=False)
class Promotions:
    """The choice of `greedy`.

    Attributes
    ----------
    scheme : Scheme
        A `hybrid`, or the lower scheme itself if nothing is promoted.
    front : pandas.DataFrame
        One row per number of promotions, from none to all that help: the tensor ``promoted``,
        whether it is within the budget (``chosen``), the predicted mean ``bits`` per value and
        ``nmse`` of all tensors. They equal a replay of that hybrid if both schemes decide for each
        tensor separately.
    """

    scheme: Scheme
    front: pd.DataFrame


#: Docstring sections of every preset.
_preset = with_sections("""
Returns
-------
Scheme
    A `hybrid`.

Raises
------
ValueError
    An invalid spec.
""")


@_preset
def last_layer(high: SchemeLike, low: SchemeLike) -> Scheme:
    """One scheme for the last layer, another for the rest.

    Parameters
    ----------
    high, low : Scheme or str

    Examples
    --------
    >>> last_layer("none:fp16", "aps:e4m3").spec
    'hybrid(last=none:fp16;else=aps:e4m3)'
    """
    return Scheme(f"hybrid(last={as_scheme(high)};else={as_scheme(low)})")


@_preset
def first_and_last(high: SchemeLike, low: SchemeLike) -> Scheme:
    """One scheme for the first and the last layer, another for the rest.

    Parameters
    ----------
    high, low : Scheme or str
    """
    return Scheme(f"hybrid(first={as_scheme(high)};last={as_scheme(high)};else={as_scheme(low)})")


@_preset
def warmup(steps: int, first: SchemeLike, then: SchemeLike) -> Scheme:
    """One scheme for steps with numbers below `steps`, another one from there.

    Parameters
    ----------
    steps : int
        A step number, at least 0.
    first, then : Scheme or str
    """
    return Scheme(
        f"hybrid(steps:0:{integer('steps', steps, 0, 2**62)}={as_scheme(first)};else={as_scheme(then)})"
    )


def exactly(names: list[str]) -> str:
    """The condition for the tensors of these names and no others.

    Parameters
    ----------
    names : list of str
        At least one; any characters.

    Returns
    -------
    str
        A condition for `hybrid`.

    Raises
    ------
    ValueError
        No name.
    """
    names = [text("names", name) for name in listed("names", names)]
    if not names:
        raise ValueError("names is empty; a condition needs at least one tensor")
    # Special characters of specs and regular expressions are written by their codes.
    escaped = [
        re.sub(
            r"[^\w-]",
            lambda c: r"\." if c[0] == "." else f"\\x{ord(c[0]):02x}" if ord(c[0]) < 128 else c[0],
            name,
        )
        for name in names
    ]
    return f"name:^{escaped[0]}$" if len(escaped) == 1 else f"name:^({'|'.join(escaped)})$"


def greedy(
    results: Results, low: SchemeLike, high: SchemeLike, bits: float, *, topology: str = "exact"
) -> Promotions:
    """Promote the tensors with the largest error reduction per bit, until a budget is spent.

    Over all replayed steps, err and bits are a tensor's squared error and its bits per worker,
    including side information. Tensors are promoted in descending order of (err_low - err_high) /
    (bits_high - bits_low), free promotions first; a promotion that does not reduce the error is
    never made.

    Parameters
    ----------
    results : Results
        A replay of both schemes on one trace.
    low, high : Scheme or str
        The scheme of tensors, and the one that they are promoted to.
    bits : float
        The budget: mean bits per value, over all tensors and steps. Side information below 0.1 % of
        fp32's 32 bits does not count: ``aps:e4m3`` is within 8 bits.
    topology : str
        The reduced row that is compared; ``""`` for the wire, that of the headline topology if
        what a scheme sends depends on the topology.

    Returns
    -------
    Promotions

    Raises
    ------
    ValueError
        Rows are missing, or the budget is below what `low` needs.
    """
    specs = as_scheme(low).spec, as_scheme(high).spec
    frame = of_type("results", results, Results, "a Results").frame
    if frame.trace.nunique() > 1:
        raise ValueError(
            f"the results have {frame.trace.nunique()} traces; greedy chooses the tensors of one"
        )
    chosen = frame[
        (frame.stage != "wire") & (frame.topology == topology)
        if text("topology", topology)
        else wire_of(frame, headline_topology(frame))
    ]
    tables = []
    for spec in specs:
        rows = chosen[chosen.scheme == spec]
        if rows.empty:
            raise ValueError(
                f"the results have no rows of '{spec}' at topology "
                f"'{topology}'; replay both schemes"
            )
        # A skipped step gives 0.
        error = rows.sum_squared_error.where(~rows.skipped.astype(bool), rows.sum_squared_reference)
        # The sums omit values with overflow.
        error = error.where(~(rows.overflow > 0).fillna(False), math.inf)
        rows = rows.assign(
            sum_squared_error=error,
            bits=rows.wire_bits.astype(float) + rows.side_bits.astype(float),
            values=_values(rows, results),
        )
        tables.append(
            rows.groupby("tensor", sort=False)[
                ["sum_squared_error", "sum_squared_reference", "bits", "values"]
            ].sum()
        )
    a, b = tables
    if list(a.index) != list(b.index):
        raise ValueError("the two schemes were replayed on different tensors")
    gain, cost = a.sum_squared_error - b.sum_squared_error, b.bits - a.bits
    order = sorted(
        (t for t in a.index if gain[t] > 0),
        key=lambda t: -math.inf if cost[t] <= 0 else -gain[t] / cost[t],
    )

    total, values, reference = a.bits.sum(), a["values"].sum(), a.sum_squared_reference.sum()
    if not at_most(total / values / 32, bits / 32):
        raise ValueError(
            f"bits={bits} is below the {total / values:.6g} bits per value that '{specs[0]}' needs"
        )
    promoted: list[str] = []
    front = []
    fits = True
    for count in range(len(order) + 1):
        some = order[:count]
        rest = [t for t in a.index if t not in set(some)]
        mean = (a.bits[rest].sum() + b.bits[some].sum()) / values
        error = a.sum_squared_error[rest].sum() + b.sum_squared_error[some].sum()
        fits = fits and at_most(mean / 32, bits / 32)
        if fits:
            promoted = some
        front.append(
            {
                "promoted": some[-1] if some else "",
                "chosen": fits,
                "bits": mean,
                "nmse": error / reference if reference else math.nan,
            }
        )
    scheme = (
        Scheme(f"hybrid({exactly(promoted)}={specs[1]};else={specs[0]})")
        if promoted
        else Scheme(specs[0])
    )
    return Promotions(scheme, pd.DataFrame(front))


def _values(rows: pd.DataFrame, results: Results) -> pd.Series:
    """Values of one worker: reduced rows count them, wire rows count those of all workers."""
    count = rows["count"].astype(float)
    if (rows.stage != "wire").all():
        return count
    return count / results.provenance["traces"][0]["workers"]
