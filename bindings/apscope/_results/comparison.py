"""Compares two schemes layer by layer: which has less error, in how many steps, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .. import _core
from .._arrays.checks import text
from .._arrays.float_environment import guarded
from .._schemes.scheme import as_scheme
from .._text import clip, hint
from .columns import columns_that_pool
from .pooling import PARTS
from .row_table import objects, rows_of

#: Columns of `compare`, in order.
COLUMNS = (
    "trace", "layer", "whole", "steps", "wins", "losses", "ties", "median_ratio", "worst_ratio",
    "geometric_ratio",
    *(f"{name}_{side}" for name in (
        "error_over_noise", "step_nmse", "nmse", "underflow_wire", "underflow_reduced", "cosine",
        "overflowed", "accumulation", *(part.replace("split", "share") for part in PARTS),
        "topology", "scheme",
    ) for side in "ab"),
)  # fmt: skip

#: The columns of a table of results that a comparison is computed from.
USED = (
    "trace", "tensor", "scheme", "topology", "stage", "step", "skipped", "underflow", "nonzero",
    "overflow", "cosine",
    *columns_that_pool("lost"), *columns_that_pool("sum_blocks"), *PARTS,
)  # fmt: skip


@guarded
def compare(
    results: Any,
    a: Any,
    b: Any,
    topology: str | None = None,
    layers: bool = True,
    against: Any = None,
) -> pd.DataFrame:
    """Scheme `a` against scheme `b`, or several; a ratio below 1, or a win, favours `a`.

    Parameters
    ----------
    results : Results or DataFrame
        A RESULTS table.
    a : Scheme or str
        A spec in any spelling, or ``SPEC@TOPOLOGY`` for its own reduction: ``aps:e3m4@two_phase``
        against ``aps:e3m4@ring`` is what two phases are worth.
    b : Scheme, str or a sequence of them
        As `a`.
    topology : str, optional
        Of a scheme without one of its own; by default the other's, if it has that, else the first
        that both have and that is not ``exact``. A scheme that lacks the topology and has its own
        reduction uses that, except for ``exact`` and ``wire``: the messages before any sum. Traces
        without reduced rows compare the wire.
    layers : bool
        Whether to add a row per layer.
    against : Results or DataFrame, optional
        Other results, with `b`: of another seed, recording or version. Traces are matched by name,
        or as the only one of each; layers and steps that only one has are omitted.

    Returns
    -------
    DataFrame
        `COLUMNS`: for every trace with both schemes a row for all layers (``layer`` is ``all``,
        ``whole`` True: a layer may have that name) and one per layer, in the trace's order. Let L
        be the NMSE at one step of the layer, or of all layers together; 1 if the scheme skipped the
        step, at least 1 with overflow. Steps with a reference of zero are omitted, and so are
        layers and steps for which one of the schemes has no numbers because the trace lacks its
        inputs.

        - ``steps``, of which ``wins`` (L of a below that of b), ``losses`` and ``ties``;
        - ``median_ratio``, ``worst_ratio``: of L of a divided by L of b, over the steps; 1 if both
          are 0;
        - ``geometric_ratio``: the geometric mean of that ratio over layers and steps. 0 if L of a
          is 0 somewhere and L of b is not, ``inf`` the other way round, NaN if both occur;
        - ``error_over_noise``: the typical block's squared error divided by the noise of the batch
          (docs/definitions.md, section 16);
        - ``step_nmse``: mean of L over the steps; ``nmse``: pooled, the sum of squared errors over
          that of squared references, ``inf`` with overflow; ``overflowed``: steps with overflow;
        - ``underflow_wire``, ``underflow_reduced``: shares of nonzero values that became 0, without
          skipped rows;
        - ``cosine``: mean over layers and steps, 0 if skipped or overflowed;
        - ``accumulation``: share of the reduced squared error that is not in ``exact``, so is due
          to rounding sums; below 0 if it happens to cancel errors of the wire. Skipped rows are
          omitted; NaN with overflow;
        - ``share_underflow``, ``share_rounding``, ``share_saturation``, ``share_accumulation``: the
          shares in the same squared error of the squares of its parts, the workers' errors by class
          of element and those of the additions; ``share_interaction`` is that of the cross terms,
          below 0 if the parts cancel. They add up to 1; NaN if a row has no split, or overflow;
        - ``topology_a``, ``topology_b``, ``scheme_a``, ``scheme_b``: the compared ones.

        The rows of several `b` are in the order given.

    Raises
    ------
    ValueError
        A scheme or topology that the results do not have, schemes without a common topology where
        neither names one, the wire against a reduction; no `b`; with `against` no common trace, or
        no common layer and step.
    """
    others = list(b) if isinstance(b, Iterable) and not isinstance(b, str) else [b]
    if not others:
        raise ValueError(f"b is empty; give a scheme to compare '{a}' with")
    pairing = _Pairing(results, against)
    return pd.concat(
        [pairing.by_layer(a, other, topology, layers) for other in others], ignore_index=True
    )


#: A spec, and the reduction that was named with it.
Side = tuple[str, str | None]


class _Pairing:
    """Pairs of schemes of one table, or of two."""

    def __init__(self, results: Any, against: Any = None) -> None:
        first = rows_of(results, USED)
        second = first if against is None else rows_of(against, USED)
        self._core = _core.Pairing(first.core, second.core)
        self._schemes = [first.scheme_specs(), second.scheme_specs()]

    def sides(self, a: Any, b: Any) -> tuple[Side, Side]:
        """Both schemes, each with its reduction if it names one."""
        one, other = (side_in(specs, scheme) for specs, scheme in zip(self._schemes, (a, b)))
        return one, other

    def by_layer(self, a: Any, b: Any, topology: str | None, layers: bool) -> pd.DataFrame:
        one, other = self.sides(a, b)
        tables = []
        for pair in self._core.compare(one, other, topology, layers):
            whole = np.arange(len(pair["layer"])) == 0
            layer = np.array(pair["layer"], object)
            tables.append(
                pd.DataFrame({"trace": pair["trace"], "layer": layer, "whole": whole, **pair["figures"]})
                .assign(scheme_a=one[0], scheme_b=other[0], topology_a=pair["topology_a"], topology_b=pair["topology_b"])
            )  # fmt: skip
        return pd.concat(tables, ignore_index=True)[list(COLUMNS)]

    def by_cell(self, a: Any, b: Any, topology: str | None) -> pd.DataFrame:
        tables = []
        for pair in self._core.cells(*self.sides(a, b), topology):
            figures, names = pair["figures"], objects(pair["layer"])
            columns = {
                "trace": pair["trace"],
                "layer": names,
                "step": pd.array(pair["step"], "Int64"),
            }
            columns |= {
                k: figures[k] for k in ("overflow_a", "overflow_b", "nmse_a", "nmse_b", "ratio")
            }
            columns |= {k: pair[k] for k in ("topology_a", "topology_b")}
            tables.append(pd.DataFrame(columns))
        return pd.concat(tables, ignore_index=True)


@guarded
def ratios(results: Any, a: Any, b: Any, topology: str | None = None) -> pd.DataFrame:
    """The ratio of two schemes' NMSE per layer and step; arguments and errors as for `compare`.

    Returns
    -------
    DataFrame
        trace, layer, step, ``nmse_a``, ``nmse_b`` (L of `compare`), ``ratio`` (a divided by b; 1 if
        both are 0), ``overflow_a``, ``overflow_b`` (elements), ``topology_a``, ``topology_b``; NaN
        if the reference is zero.
    """
    return _Pairing(results).by_cell(a, b, topology)


def met(here: Sequence[str], there: Sequence[str]) -> dict[str, str]:
    """Matches traces of two results: by name, or as the only one of each."""
    return (
        {here[0]: there[0]}
        if len(here) == len(there) == 1
        else {name: name for name in here if name in there}
    )


def side_in(specs: Sequence[str], scheme: Any) -> Side:
    """A scheme of a table with these, given as a spec or as ``SPEC@TOPOLOGY``, as a `Side`."""
    if isinstance(scheme, str) and scheme not in specs:
        known = next(
            (i for i, c in enumerate(scheme) if c == "@" and scheme[:i] in specs), None
        )  # a name of another process may have an @
        if known is not None:
            return _side(scheme[:known], scheme[known + 1 :])
        spec, topology = _core.named_side(text("scheme", scheme))
        return _side(spec_in(specs, spec), topology)
    return spec_in(specs, scheme), None


def _side(spec: str, topology: str | None) -> Side:
    """With the topology's name, if it is a spelling of one."""
    if topology == "":
        raise ValueError(f"'{spec}@' has no topology after the @, as in {spec}@ring")
    return spec, None if topology is None else _core.canonical_topology(topology)


def scheme_in(frame: pd.DataFrame, scheme: Any) -> str:
    """The spec of the scheme, given in any spelling, in a table.

    Raises
    ------
    TypeError
        Neither a Scheme nor a str.
    ValueError
        The table has no rows of it; the message lists the schemes that it has.
    """
    return spec_in(list(frame["scheme"].unique()), scheme)


def spec_in(specs: Sequence[str], scheme: Any) -> str:
    """`scheme_in` of a table with these schemes."""
    if isinstance(scheme, str) and scheme in specs:  # perhaps of another process with more schemes
        return scheme
    try:
        spec = as_scheme(scheme).spec
    except ValueError:
        name, _, settings = str(scheme).partition(":")
        if "," in settings and any(one.startswith(f"{name}:") for one in specs):
            raise  # a key or value that this scheme does not have
        # Not a spec, such as the bare name of a scheme that needs a format: the message says more.
        spec = str(scheme)
    if spec in specs:
        return spec
    raise ValueError(
        f"the results have no scheme '{clip(str(scheme), 200)}'; {hint(str(scheme), specs)}"
    )
