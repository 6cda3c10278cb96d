"""The table behind a plan: the errors of every candidate for every unit, as additive sums.

Squared errors of different layers add up, and so do the logarithms of the noise blocks, cosines,
counts and volumes; so the figures of any mixture follow from the table, provided that every
candidate decides for each layer separately (docs/advice.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pandas as pd

from .._results.noise import noise_table
from .._results.pooling import (
    OWN_REDUCTIONS,
    PARTS,
    after_gap,
    losses,
    numbers,
    quotient,
    step_losses,
    wire_of,
)
from ..cost import Network
from .seconds import Latencies, linear_seconds
from .units import Unit

#: Maximum number of runs of consecutive steps; the steps of one run do not count as independent.
BLOCKS = 8


@dataclass(eq=False)
class Sums:
    """Sums over some steps: U units, K candidates, B blocks of consecutive steps.

    NaN if a candidate was not measured, overflowed, or has memory and steps with gaps.

    Attributes
    ----------
    steps : list of int
        Recorded step numbers.
    interval : (2,) floats
        Factors of an error over the noise at both ends of its 95 % interval; docs/definitions.md,
        section 16.
    losses : (B,) floats
        Steps of the block that have a loss; those of `lost` are among them.
    noise_blocks : (U, B) floats
    log2, nmse : (U, K, B) floats
        Sums of ``sum_log2_error_over_noise``, and of the squared error divided by the step's whole
        reference.
    volume, cosine, underflow, nonzero, seconds : (U, K) floats
        Volume times elements; cosines; counts at the wire; modelled seconds without latencies,
        times steps.
    elements, layers : (U,) floats
        Divisors of the sums of volumes and cosines.
    overflow : (U, K) floats
        Rows with overflow.
    lost : (U, K, 3, V) floats
        At each of the V steps with overflow of some candidate: squared error, squared reference
        and rows with overflow. Their loss does not add up over the units.
    rest : (U, K) floats
        The sum of `nmse` over all other steps.
    gain : (U, K) floats
        The share of the unit's gradient that arrives; NaN if unknown.
    parts : (U, K, 5) floats
        Parts of the squared error; NaN if unknown.
    """

    steps: list[int]
    interval: np.ndarray
    losses: np.ndarray
    noise_blocks: np.ndarray
    log2: np.ndarray
    nmse: np.ndarray
    volume: np.ndarray
    cosine: np.ndarray
    underflow: np.ndarray
    nonzero: np.ndarray
    seconds: np.ndarray
    elements: np.ndarray
    layers: np.ndarray
    overflow: np.ndarray
    lost: np.ndarray
    rest: np.ndarray
    gain: np.ndarray
    parts: np.ndarray

    @property
    def lossy(self) -> bool:
        """Whether a step has a loss: a gradient that is finite and not zero."""
        return bool(self.losses.sum() > 0)

    @property
    def noisy(self) -> bool:
        """Whether the noise of the batch is known."""
        return bool(self.noise_blocks.sum() > 0)

    def picked(self, choice: np.ndarray) -> Sums:
        """The sums of one mixture, as a table with one candidate."""
        rows = np.arange(len(choice))
        by_candidate = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name in _BY_CANDIDATE
        }
        return Sums(
            **(
                vars(self)
                | {name: values[rows, choice][:, None] for name, values in by_candidate.items()}
            )
        )


_BY_CANDIDATE = (
    "log2", "nmse", "volume", "cosine", "underflow", "nonzero", "seconds", "overflow", "lost", "rest",
    "gain", "parts",
)  # fmt: skip


@dataclass(eq=False)
class Table:
    """Units, candidates, and their sums over the `chosen` and the `held_out` steps, if any."""

    units: list[Unit]
    candidates: list[str]
    chosen: Sums
    held_out: Sums | None
    latencies: Latencies = field(default_factory=Latencies)
    counts_bits: bool = False  # one worker sends nothing: volumes are bits per value divided by 32
    #: Of every candidate: the topology, its own reduction, both joined by "+", or "" for the wire.
    reductions: list[str] = field(default_factory=list)

    def reduction(self, options: np.ndarray) -> str:
        """The reductions of a mixture's messages, joined by ``+``; empty if nothing was reduced."""
        used = {name for k in options for name in self.reductions[k].split("+")}
        return "+".join(sorted(used - {""}))

    def latency(self, options: np.ndarray) -> float:
        """Latency of a mixture's messages, in seconds per step."""
        candidates_of: dict[tuple[int | None, int | None], set[int]] = {}
        for unit, k in zip(self.units, options.tolist()):
            candidates_of.setdefault((unit.begin, unit.end), set()).add(k)
        steps = self.chosen.steps
        shares = [
            sum(Unit("", (), *period).contains(step) for step in steps) / len(steps)
            for period in candidates_of
        ]
        return sum(
            share * self.latencies.messages(used)
            for share, used in zip(shares, candidates_of.values())
        ) + self.latencies.sides(set(options.tolist()))


#: The columns that a table needs. Rows are selected several times, so the others are dropped first.
_COLUMNS = {
    "scheme", "stage", "topology", "step", "tensor", "skipped", "workers", "format",
    "note", "count", "counted", "nan", "infinite", "overflow", "underflow", "nonzero", "cosine",
    "sum_squared_reference", "sum_absolute_reference", "sum_squared_error", "sum_signed_error",
    "sum_product", "sum_noise", "sum_log2_error_over_noise", "noise_blocks", "volume", "wire_bits", "side_bits",
    *PARTS,
}  # fmt: skip


def table_of(
    frame: pd.DataFrame,
    noise: pd.DataFrame | None,
    candidates: Sequence[str],
    units: Sequence[Unit],
    topology: str,
    chosen: Sequence[int],
    held_out: Sequence[int],
    network: Network,
    elements: float,
) -> Table:
    """The table of one trace's results.

    Parameters
    ----------
    frame, noise : DataFrame
        Of `Results`, one trace.
    candidates : sequence of str
        Schemes of the frame.
    units : sequence of Unit
    topology : str
        The reduction; empty for the wire. A tensor of a candidate that does not have it uses the
        candidate's own.
    chosen, held_out : sequences of int
        Recorded steps.
    network, elements
        Of the modelled seconds, as for `Results.summary`.
    """
    of_these = frame["scheme"].isin(list(candidates)) & (
        wire_of(frame, topology)
        | ((frame["stage"] != "wire") & frame["topology"].isin([topology, *OWN_REDUCTIONS]))
    )
    frame = frame.loc[of_these, [name for name in frame if name in _COLUMNS]]
    wire = frame["stage"] == "wire"
    rows = _of_one_reduction(frame[~wire], topology) if topology else frame[wire]
    bits = not topology or bool((rows["workers"] == 1).all())
    found = [
        _sums(rows, frame[wire], noise, candidates, units, steps, bits) if len(steps) else None
        for steps in (chosen, held_out)
    ]
    latencies = Latencies()
    if not bits:
        of_steps = rows[rows["step"].isin(list(chosen))]
        seconds, latencies = linear_seconds(
            of_steps,
            *_Places(candidates, units)(of_steps),
            (len(units), len(candidates)),
            network,
            elements,
        )
        for sums in found:
            if sums is not None:
                sums.seconds = seconds * len(sums.steps)
    assert found[0] is not None
    used = {spec: "+".join(part.unique()) for spec, part in rows.groupby("scheme")["topology"]}
    return Table(
        list(units),
        list(candidates),
        found[0],
        found[1],
        latencies,
        bits,
        [used.get(spec, "") if topology else "" for spec in candidates],
    )


def _of_one_reduction(rows: pd.DataFrame, topology: str) -> pd.DataFrame:
    """Reduced rows without those of a scheme's own reduction where it also has the topology."""
    of = pd.MultiIndex.from_frame(rows[["scheme", "tensor"]].astype(str))
    requested = (rows["topology"] == topology).to_numpy()
    return rows[requested | ~of.isin(of[requested])]


def _sums(
    rows: pd.DataFrame,
    wire: pd.DataFrame,
    noise: pd.DataFrame | None,
    candidates: Sequence[str],
    units: Sequence[Unit],
    steps: Sequence[int],
    bits: bool,
) -> Sums:
    rows, wire = (part[part["step"].isin(list(steps))] for part in (rows, wire))
    at = _Places(candidates, units)
    unit, candidate = at(rows)
    blocks = min(len(steps), BLOCKS)
    block_of = {step: i * blocks // len(steps) for i, step in enumerate(steps)}
    block = rows["step"].map(block_of).to_numpy(int)
    shape = (len(units), len(candidates))

    def total(values: Any, *where: np.ndarray, size: tuple[int, ...] = shape) -> np.ndarray:
        return np.bincount(np.ravel_multi_index(where, size), values, int(np.prod(size))).reshape(
            size
        )

    lost = losses(rows)
    there = total(np.ones(len(rows)), unit, candidate)
    expected = there.max(axis=1, keepdims=True)
    # The reference belongs to the trace: for each step that of the first candidate with all of it.
    references = pd.DataFrame(
        {"step": rows["step"].to_numpy(), "k": candidate, "reference": lost["reference"]}
    )
    of_step = references.groupby(["step", "k"])["reference"].sum().groupby(level=0).max()
    reference = rows["step"].map(of_step).to_numpy(float)
    known = reference > 0
    nmse = np.divide(lost["error"], reference, out=np.zeros(len(rows)), where=known)
    nmse = np.where(np.isnan(lost["error"]), np.nan, nmse)
    missing = (there < expected)[..., None]
    overflow = total(lost["overflow"] > 0, unit, candidate)
    gaps = total(after_gap(rows), unit, candidate)
    incomplete = missing | (overflow > 0)[..., None] | (gaps > 0)[..., None]
    spoiled = sorted(rows.loc[lost["overflow"] > 0, "step"].unique())
    in_spoiled = rows["step"].isin(spoiled).to_numpy()
    where = (unit, candidate, np.searchsorted(spoiled, rows["step"]))
    of_spoiled = [
        total(lost[name][in_spoiled], *(w[in_spoiled] for w in where), size=(*shape, len(spoiled)))
        for name in ("error", "reference", "overflow")
    ]

    def in_blocks(values: np.ndarray) -> np.ndarray:
        return total(values, unit, candidate, block, size=(*shape, blocks))

    def by_block(values: np.ndarray) -> np.ndarray:
        return np.where(incomplete, np.nan, in_blocks(values))

    def over_all(values: np.ndarray) -> np.ndarray:
        return total(values, unit, candidate)

    cosine, present = lost["cosine"], step_losses(lost)[1]
    count = numbers(rows, "count")
    volume = np.where(count == 0, 0.0, numbers(rows, "volume") * count)  # an empty tensor has none
    if bits:
        workers = numbers(rows, "workers")
        count = np.where(rows["stage"] == "wire", count / workers, count)
        volume = (numbers(rows, "wire_bits") + numbers(rows, "side_bits")) / 32
    wire_unit, wire_candidate = at(wire)
    sent = ~wire["skipped"].to_numpy(bool)
    empty = np.where(missing[..., 0], np.nan, 0.0)

    def sent_of(column: str) -> np.ndarray:
        values = np.where(sent, np.nan_to_num(numbers(wire, column)), 0.0)
        return total(values, wire_unit, wire_candidate) + empty

    interval = (math.nan, math.nan)
    if noise is not None:
        own_noise = noise[noise["step"].isin(list(steps))]
        interval = noise_table(own_noise).typical_interval()
    lossy = [block_of[s] for s in steps if of_step.get(s, 0.0) > 0 or s in spoiled]
    parts = [over_all(np.where(lost["skipped"], 0.0, numbers(rows, part))) for part in PARTS]
    product = numbers(rows, "sum_product") if "sum_product" in rows else np.full(len(rows), np.nan)
    gain = quotient(over_all(np.where(lost["skipped"], 0.0, product)), over_all(lost["reference"]))
    return Sums(
        steps=[int(step) for step in steps],
        interval=np.array(interval),
        losses=np.bincount(lossy, minlength=blocks).astype(float),
        noise_blocks=in_blocks(np.nan_to_num(lost["noise_blocks"])).max(axis=1),
        log2=by_block(np.nan_to_num(lost["log2_over_noise"], posinf=np.inf)),
        nmse=by_block(nmse),
        volume=over_all(volume) + empty,
        cosine=over_all(np.where(present, cosine, 0.0)) + empty,
        underflow=sent_of("underflow"),
        nonzero=sent_of("nonzero"),
        seconds=np.full(shape, math.nan),
        elements=over_all(count).max(axis=1),
        layers=over_all(present * 1.0).max(axis=1),
        overflow=overflow,
        lost=np.stack(of_spoiled, axis=2),
        rest=np.where(gaps > 0, np.nan, over_all(np.where(in_spoiled, 0.0, nmse)) + empty),
        gain=gain,
        parts=np.stack(parts, axis=2),
    )


class _Places:
    """The unit and the candidate of every row."""

    def __init__(self, candidates: Sequence[str], units: Sequence[Unit]) -> None:
        self._candidates = pd.Index(list(candidates))
        self._units: dict[str, list[tuple[int, Unit]]] = {}
        for place, unit in enumerate(units):
            for tensor in unit.tensors:
                self._units.setdefault(tensor, []).append((place, unit))

    def __call__(self, rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        pairs = rows[["tensor", "step"]].drop_duplicates()
        found = {
            (t, s): next(place for place, unit in self._units[t] if unit.contains(s))
            for t, s in zip(pairs["tensor"], pairs["step"])
        }
        unit = np.array([found[pair] for pair in zip(rows["tensor"], rows["step"])], int)
        return unit, self._candidates.get_indexer(rows["scheme"])
