"""Modelled time of a step's communication.

The usual alpha-beta-gamma model of collective algorithms, docs/definitions.md, section 12: ours,
not the model of any paper. It ignores congestion and overlap with computation; modelled seconds
compare schemes and are not a measurement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from . import _core
from ._arrays.checks import integer, number, of_type, text
from ._arrays.float_environment import guarded
from ._results.pooling import distinct, frame_of, groups, numbers, whole_sums
from ._schemes.scheme import as_scheme

__all__ = ["CollectiveCost", "Network", "collective", "step_time"]
__dir__ = __all__.copy


@dataclass(frozen=True)
class Network:
    """Links between the workers, and memory.

    Parameters
    ----------
    latency : float
        Seconds per message between nodes.
    bandwidth : float
        Bytes per second and worker between nodes.
    intra_latency, intra_bandwidth : float, optional
        The same inside a node, used by hierarchies; by default as between nodes.
    pass_cost : float
        Seconds per byte of one local pass over memory: scanning, encoding, decoding, adding.
    """

    latency: float = 5e-6
    bandwidth: float = 10e9
    intra_latency: float | None = None
    intra_bandwidth: float | None = None
    pass_cost: float = 1e-12

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                number(name, value)
        for name in ("latency", "intra_latency", "pass_cost"):
            value = getattr(self, name)
            if value is not None and not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{name}={value} must be a finite number of seconds, at least 0")
        for name in ("bandwidth", "intra_bandwidth"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}={value} must be bytes per second, above 0")

    def __str__(self) -> str:
        words = f"{self.bandwidth / 1e9:g} GB/s and {self.latency * 1e6:g} µs per message"
        if self.intra_bandwidth is not None or self.intra_latency is not None:
            words += (
                f", inside a node {self._intra[1] / 1e9:g} GB/s and {self._intra[0] * 1e6:g} µs"
            )
        return words + (
            f"; {self.pass_cost * 1e12:g} ps per byte of a pass over memory"
            if self.pass_cost
            else "; passes over memory are free"
        )

    @property
    def _intra(self) -> tuple[float, float]:
        return (
            self.latency if self.intra_latency is None else self.intra_latency,
            self.bandwidth if self.intra_bandwidth is None else self.intra_bandwidth,
        )


@dataclass(frozen=True)
class CollectiveCost:
    """The work of one worker in a collective operation."""

    messages: float  #: sent between nodes, one after another
    bytes: float  #: of them
    intra_messages: float  #: sent inside a node
    intra_bytes: float
    added: float  #: bytes that it adds up
    decoded: float  #: bytes that it decodes
    #: bytes that the busiest worker sends between nodes; in a tree less than `bytes`, the way up
    #: and down
    busiest: float

    def seconds(self, network: Network = Network()) -> float:
        """Latencies, transfers and the passes of additions; not those of encoding and decoding."""
        latency, bandwidth = network._intra
        return (
            self.messages * network.latency
            + self.bytes / network.bandwidth
            + self.intra_messages * latency
            + self.intra_bytes / bandwidth
            + self.added * network.pass_cost
        )


@guarded
def collective(
    name: str,
    sent: float,
    workers: int,
    *,
    group: int = 1,
    partial: float | None = None,
    result: float | None = None,
    messages: int = 1,
) -> CollectiveCost:
    """The cost of one collective operation.

    Parameters
    ----------
    name : {"ring", "tree", "halving", "all_gather", "shards", "hierarchical", "hierarchical_shards"}
        The algorithm; docs/definitions.md, section 12.
    sent : float
        Bytes of one worker's message.
    workers : int
    group : int
        Workers in a node; hierarchies only.
    partial, result : float, optional
        Bytes of a sent partial sum, and of the result; by default `sent`.
    messages : int
        Number of messages into which the bytes are split; each takes the latency.

    Returns
    -------
    CollectiveCost

    Raises
    ------
    ValueError
        An unknown name, no worker.
    """
    workers, group = integer("workers", workers, 1, 2**30), integer("group", group, 1, 2**30)
    partial, result = (float(sent if given is None else given) for given in (partial, result))
    return _in_messages(
        _core.collective_cost(
            text("name", name), float(sent), partial, result, 0.0, workers, group
        ),
        messages,
    )


def _collective_of(topology: str) -> tuple[str, int] | None:
    """Collective and group of a row's topology; None for ``exact``, which is not an algorithm."""
    return _core.collective_of(text("topology", topology))


@guarded
def step_time(
    results: Any,
    network: Network = Network(),
    *,
    elements: float | None = None,
    bucket_bytes: float | None = None,
    side: str = "fused",
    side_collective: str = "ring",
    baseline: str = "ring",
) -> pd.DataFrame:
    """Modelled seconds per step of every scheme and topology.

    Parameters
    ----------
    results : Results or DataFrame
        A RESULTS table.
    network : Network
    elements : float, optional
        For a model of that many parameters, with all tensors scaled by one factor; by default the
        tensors as recorded.
    bucket_bytes : float, optional
        Tensors are fused, in their order, until a bucket has this many bytes of fp32; 0: one
        message per tensor. By default all are one message.
    side : {"fused", "bucket", "delayed"}
        Values agreed before encoding (scales): one message for all tensors, one per bucket, or that
        of the step before, which takes no time.
    side_collective : {"ring", "tree", "halving"}
        The collective for agreed values.
    baseline : str
        The topology of the fp32 all-reduce that `speedup` compares with.

    Returns
    -------
    DataFrame
        A row per trace, scheme and topology, means over the steps: ``seconds``, of which
        ``side_seconds`` and ``pass_seconds``; ``payload_bytes`` and ``side_bytes`` that one worker
        sends between nodes and ``intra_bytes`` inside; ``messages`` one after another;
        ``side_share`` of the seconds; ``fp32_seconds`` and ``speedup`` over it. ``exact`` is not an
        algorithm: its numbers are NaN. Tensors with their own reduction are counted together with
        those that use the row's topology. Traces without local gradients have no row.

    Raises
    ------
    ValueError
        An unknown choice.
    """
    of_type("network", network, Network, "a cost.Network")
    if side not in ("fused", "bucket", "delayed"):
        raise ValueError(f"side='{side}' is unknown; use fused, bucket or delayed")
    if side_collective not in ("ring", "tree", "halving"):
        raise ValueError(
            f"side_collective='{side_collective}' is unknown; use ring, tree or halving"
        )
    if _collective_of(baseline) is None:
        raise ValueError(f"baseline='{baseline}' has no model; use a topology such as ring")
    frame = frame_of(results)
    if elements is not None and not (elements > 0 and math.isfinite(elements)):
        raise ValueError(f"elements={elements} must be a number of parameters above 0")
    if bucket_bytes is not None and not bucket_bytes >= 0:
        raise ValueError(
            f"bucket_bytes={bucket_bytes} is not a size; give bytes, 0 for one message per tensor"
        )
    needed = [
        "trace",
        "scheme",
        "topology",
        "format",
        "workers",
        "step",
        "count",
        "wire_bits",
        "side_bits",
        "note",
    ]
    rows = frame.loc[frame["stage"] == "reduced", [c for c in needed if c in frame]].reset_index(
        drop=True
    )
    rows = whole_sums(rows.assign(reduction=rows["topology"]))
    key = ["trace", "scheme", "topology"]
    whole, first = groups(rows, key)
    # Tensors of one reduction and one grid share messages. The model is linear in the bytes, so
    # those of all steps add up first.
    part, part_first = groups(rows, [*key, "reduction", "format"])
    owner, of_part = whole[part_first], len(part_first)
    specs, grids, reductions = (
        rows[c].to_numpy(object)[part_first] for c in ("scheme", "format", "reduction")
    )
    step = pd.factorize(rows["step"])[0]
    steps = distinct(whole, groups(rows, [*key, "step"])[0], len(first))
    count = numbers(rows, "count")
    recorded = np.bincount(whole, count, len(first)) / steps
    factor = (
        np.where(recorded > 0, elements / recorded, 1.0)
        if elements and len(first)
        else np.ones(len(first))
    )
    known = {spec: known_spec(spec) for spec in set(specs)}
    limit = np.array(
        [float(_core.agreed_bits(known[spec], grid)) for spec, grid in zip(specs, grids)]
    )
    side_bits = numbers(rows, "side_bits")
    agreed_bits = np.minimum(side_bits, limit[part]) if of_part else side_bits
    own: list[list[Part]] = [[] for _ in first]
    for place, values in zip(owner, zip(
        factor[owner] * np.bincount(part, count, of_part) / steps[owner],
        factor[owner] * np.bincount(part, numbers(rows, "wire_bits"), of_part) / 8 / steps[owner],
        _bytes(agreed_bits, part, of_part, factor[owner]) / steps[owner],
        _bytes(side_bits - agreed_bits, part, of_part, factor[owner]) / steps[owner],
        _buckets(part, step, factor[whole] * count, of_part, bucket_bytes) / steps[owner],
        reductions, grids,
    )):  # fmt: skip
        own[place].append(Part(*values))
    buckets = _buckets(whole, step, factor[whole] * count, len(first), bucket_bytes) / steps
    unknown = (
        {note for note in rows["note"].unique() if str(note).startswith(_core.NOT_MEASURABLE)}
        if "note" in rows
        else set()
    )
    dark = (
        np.bincount(whole, rows["note"].isin(unknown), len(first)) > 0
        if unknown
        else np.zeros(len(first), bool)
    )
    out = rows[[*key, "workers"]].iloc[first].reset_index(drop=True).astype({"workers": int})
    found = []
    for place, (spec, workers, parts) in enumerate(
        zip(out["scheme"].to_numpy(object), out["workers"], own)
    ):
        one = (
            None
            if dark[place]
            else part_cost(parts, known[spec], workers, network, side, side_collective)
        )
        if one:
            name, group = _collective_of(baseline) or ("ring", 1)
            fp32 = collective(name, 4 * factor[place] * recorded[place], workers, group=group)
            fp32 = replace(
                fp32,
                messages=buckets[place] * fp32.messages,
                intra_messages=buckets[place] * fp32.intra_messages,
            )
            one["fp32_seconds"] = fp32.seconds(network)
            one["speedup"] = (
                one["fp32_seconds"] / one["seconds"]
                if one["seconds"] and one["fp32_seconds"]
                else math.nan
            )
        found.append(one or dict.fromkeys(_NUMBERS, math.nan))
    return out.join(pd.DataFrame(found, columns=list(_NUMBERS), dtype=float))


_NUMBERS = (
    "messages", "payload_bytes", "intra_bytes", "side_bytes", "side_seconds", "pass_seconds",
    "seconds", "side_share", "fp32_seconds", "speedup",
)  # fmt: skip


class Part(NamedTuple):
    """Tensors that share messages: means over the steps, in bytes except `values`."""

    values: float
    payload: float
    agreed: float
    travelling: float
    buckets: float
    reduction: str
    grid: str


def part_cost(
    parts: list[Part], known: str, workers: int, network: Network, side: str, side_collective: str
) -> dict[str, float] | None:
    """Total of the parts of one trace, scheme and topology; None if one has no algorithm."""
    sums = dict.fromkeys(("messages", "bytes", "intra_messages", "intra_bytes"), 0.0)
    passes = agreed_bytes = agreed_buckets = travelling_side = 0.0
    for part in parts:
        way = _core.way(
            known, part.grid, part.reduction, part.values, part.payload, part.travelling, workers
        )
        if way is None:
            return None
        cost = _cost(way, workers, way["side"])
        sums["messages"] += part.buckets * cost.messages
        sums["intra_messages"] += part.buckets * cost.intra_messages
        sums["bytes"] += cost.bytes
        sums["intra_bytes"] += cost.intra_bytes
        passes += cost.added + (
            0.0
            if part.grid == "fp32"
            else 4 * part.values + part.payload + cost.decoded + 4 * part.values
        )
        travelling_side += cost.bytes - _cost(way, workers, 0.0).bytes
        if part.agreed:
            agreed_bytes += part.agreed
            agreed_buckets += part.buckets
            passes += 4 * part.values  # the scan for the statistic
    latency, bandwidth = network._intra
    out = {
        "messages": sums["messages"] + sums["intra_messages"],
        "payload_bytes": sums["bytes"] - travelling_side,
        "intra_bytes": sums["intra_bytes"],
        "side_bytes": travelling_side,
        "side_seconds": travelling_side / network.bandwidth,
        "pass_seconds": passes * network.pass_cost,
    }
    seconds = (
        sums["messages"] * network.latency + out["payload_bytes"] / network.bandwidth
        + sums["intra_messages"] * latency + sums["intra_bytes"] / bandwidth
    )  # fmt: skip
    if agreed_bytes:
        message = collective(side_collective, agreed_bytes, workers, messages=1)
        out["side_bytes"] += message.bytes
        if side != "delayed":
            count = message.messages * (agreed_buckets if side == "bucket" else 1)
            out["messages"] += count
            out["side_seconds"] += count * network.latency + message.bytes / network.bandwidth
    out["seconds"] = seconds + out["side_seconds"] + out["pass_seconds"]
    out["side_share"] = out["side_seconds"] / out["seconds"] if out["seconds"] else 0.0
    return out


def _buckets(
    codes: np.ndarray, step: np.ndarray, values: np.ndarray, count: int, limit: float | None
) -> np.ndarray:
    """The number of messages of the tensors of every group, over all steps."""
    if limit is None:  # one per step
        return distinct(codes, codes * (step.max(initial=0) + 1) + step, count)
    found, held, last = np.zeros(count), np.zeros(count), np.full(count, -1)
    for group, now, size in zip(codes, step, values):
        if now != last[group] or held[group] >= limit:
            found[group] += 1
            held[group], last[group] = 0.0, now
        held[group] += 4.0 * size
    return found


def one_number(bits: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    """Whether a group's side information is one number per tensor (or for several), of any size."""
    narrowest, widest = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(narrowest, codes[bits > 0], bits[bits > 0])
    np.maximum.at(widest, codes, bits)
    return (narrowest == widest) & (widest <= 64)


def _bytes(bits: np.ndarray, codes: np.ndarray, count: int, factor: np.ndarray) -> np.ndarray:
    """Bytes of side information; one number per tensor does not grow with it."""
    return (
        np.where(one_number(bits, codes, count), 1.0, factor) * np.bincount(codes, bits, count) / 8
    )


def _cost(way: dict[str, Any], workers: int, side: float) -> CollectiveCost:
    """Cost of the messages of `_core.way`, with this much side information in each."""
    c = _core.collective_cost(
        way["collective"], way["sent"], way["partial"], way["result"], side, workers, way["group"]
    )
    return _in_messages(c, way["rounds"])


def _in_messages(c: dict[str, float], messages: int) -> CollectiveCost:
    return CollectiveCost(
        **c
        | {"messages": c["messages"] * messages, "intra_messages": c["intra_messages"] * messages}
    )


def known_spec(spec: str) -> str:
    """The spec; empty for a scheme defined in another process, known only from its rows."""
    try:
        return as_scheme(spec).spec
    except ValueError:
        return ""
