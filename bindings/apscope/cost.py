"""What a step's communication costs, by a model.

The usual alpha-beta-gamma model of collective algorithms, docs/definitions.md, section 12: ours, not the
model of any paper. No congestion and no overlap with computation; a modelled second compares schemes and
is no measurement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from . import _core
from .checks import integer, text
from .pooling import OWN_REDUCTIONS, frame_of
from .schemes import as_scheme

__all__ = ["CollectiveCost", "Network", "collective", "collective_of", "step_time"]


@dataclass(frozen=True)
class Network:
    """Links between the workers, and memory.

    Parameters
    ----------
    latency : float
        Seconds a message between nodes.
    bandwidth : float
        Bytes a second and worker between nodes.
    intra_latency, intra_bandwidth : float, optional
        The same inside a node, used by hierarchies; by default as between nodes.
    pass_cost : float
        Seconds a byte of one local pass over memory: scanning, encoding, decoding, adding.
    """

    latency: float = 5e-6
    bandwidth: float = 10e9
    intra_latency: float | None = None
    intra_bandwidth: float | None = None
    pass_cost: float = 1e-12

    def __post_init__(self) -> None:
        for name in ("latency", "intra_latency", "pass_cost"):
            value = getattr(self, name)
            if value is not None and not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{name}={value} is no time; give a finite number of seconds, at least 0")
        for name in ("bandwidth", "intra_bandwidth"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}={value} is no bandwidth; give bytes a second, above 0")

    def __str__(self) -> str:
        words = f"{self.bandwidth / 1e9:g} GB/s and {self.latency * 1e6:g} µs a message"
        if self.intra_bandwidth is not None or self.intra_latency is not None:
            words += f", inside a node {self._intra[1] / 1e9:g} GB/s and {self._intra[0] * 1e6:g} µs"
        return words + (f"; {self.pass_cost * 1e12:g} ps a byte of a pass over memory" if self.pass_cost else "; passes over memory are free")

    @property
    def _intra(self) -> tuple[float, float]:
        return (
            self.latency if self.intra_latency is None else self.intra_latency,
            self.bandwidth if self.intra_bandwidth is None else self.intra_bandwidth,
        )


@dataclass(frozen=True)
class CollectiveCost:
    """What one worker does in a collective operation."""

    messages: float  #: sent between nodes, one after another
    bytes: float  #: of them
    intra_messages: float  #: sent inside a node
    intra_bytes: float
    added: float  #: bytes that it adds up
    decoded: float  #: bytes that it decodes
    busiest: float  #: bytes that the worker which sends most sends between nodes; in a tree less than `bytes`, the way down a branch and up

    def seconds(self, network: Network = Network()) -> float:
        """Latencies and transfers, and the passes of the additions; none for encoding and decoding."""
        latency, bandwidth = network._intra
        return (
            self.messages * network.latency + self.bytes / network.bandwidth
            + self.intra_messages * latency + self.intra_bytes / bandwidth + self.added * network.pass_cost
        )  # fmt: skip


def collective(
    name: str, sent: float, workers: int, *, group: int = 1, partial: float | None = None, result: float | None = None, messages: int = 1
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
        Bytes of a partial sum that travels, and of the result; by default as `sent`.
    messages : int
        Into how many the bytes are split: each pays the latency.

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
    return _in_messages(_core.collective_cost(text("name", name), float(sent), partial, result, 0.0, workers, group), messages)


def collective_of(topology: str) -> tuple[str, int] | None:
    """The collective and its group that a row's topology stands for; None for ``exact``, which is no algorithm."""
    return _core.collective_of(text("topology", topology))


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
    """Modelled seconds a step of every scheme and topology.

    Parameters
    ----------
    results : Results or DataFrame
        A RESULTS table.
    network : Network
    elements : float, optional
        Of a model of that many parameters in as many tensors, all larger by one factor; by default the tensors as
        recorded.
    bucket_bytes : float, optional
        Tensors are fused, in their order, until a bucket holds this many bytes of fp32; 0: one message a
        tensor. By default all are one message.
    side : {"fused", "bucket", "delayed"}
        What must be agreed before encoding (scales): one message for all tensors, one a bucket, or that of the
        step before, which costs no time.
    side_collective : {"ring", "tree", "halving"}
        How it is agreed.
    baseline : str
        The topology of the fp32 all-reduce that `speedup` compares with.

    Returns
    -------
    DataFrame
        A row a trace, scheme and topology, means over the steps: ``seconds``, of which ``side_seconds`` and
        ``pass_seconds``; ``payload_bytes`` and ``side_bytes`` that one worker sends between nodes and
        ``intra_bytes`` inside; ``messages`` one after another; ``side_share`` of the seconds; ``fp32_seconds`` and
        ``speedup`` over it. ``exact`` is no algorithm: its numbers are NaN. Tensors with a reduction of their own
        count beside those that use the row's topology. Traces without local gradients have no row.

    Raises
    ------
    ValueError
        An unknown choice.
    """
    if side not in ("fused", "bucket", "delayed"):
        raise ValueError(f"side='{side}' is unknown; use fused, bucket or delayed")
    if side_collective not in ("ring", "tree", "halving"):
        raise ValueError(f"side_collective='{side_collective}' is unknown; use ring, tree or halving")
    if collective_of(baseline) is None:
        raise ValueError(f"baseline='{baseline}' has no model; use a topology such as ring")
    frame = frame_of(results)
    frame = frame[frame["stage"] == "reduced"]
    if elements is not None and not (elements > 0 and math.isfinite(elements)):
        raise ValueError(f"elements={elements} is no number of parameters; give one above 0")
    if bucket_bytes is not None and not bucket_bytes >= 0:
        raise ValueError(f"bucket_bytes={bucket_bytes} is no size; give bytes, 0 for one message a tensor")
    options = (network, elements, bucket_bytes, side, side_collective, baseline)
    rows = []
    for _, own in frame.groupby(["trace", "scheme"], sort=False):
        crossing = [t for t in dict.fromkeys(own["topology"]) if t != "exact" and t not in OWN_REDUCTIONS]
        alone = own[own["topology"].isin(OWN_REDUCTIONS)]
        for topology in [*(["exact"] if "exact" in set(own["topology"]) else []), *crossing]:
            chosen = own[own["topology"] == topology]
            if topology != "exact":  # a policy: some tensors may have a reduction of their own
                chosen = pd.concat([chosen, alone])
            rows.append(_row(chosen, topology, *options))
        if len(alone) and not crossing:
            rows.append(_row(alone, "+".join(dict.fromkeys(alone["topology"])), *options))
    return pd.DataFrame(rows, columns=_COLUMNS)


_NUMBERS = (
    "messages", "payload_bytes", "intra_bytes", "side_bytes", "side_seconds", "pass_seconds", "seconds", "side_share", "fp32_seconds", "speedup",
)  # fmt: skip
_COLUMNS = ["trace", "scheme", "topology", "workers", *_NUMBERS]


def _row(
    rows: pd.DataFrame, name: str, network: Network, elements: float | None, bucket_bytes: float | None, side: str, side_collective: str, baseline: str
) -> dict[str, Any]:
    """One row of `step_time`, from all rows of one trace and scheme that reduce together."""
    rows = rows.assign(**{c: rows[c].astype(float) for c in ("count", "wire_bits", "side_bits")})
    spec, workers, steps = rows["scheme"].iloc[0], int(rows["workers"].iloc[0]), rows["step"].nunique()
    out: dict[str, Any] = {"trace": rows["trace"].iloc[0], "scheme": spec, "topology": name, "workers": workers}
    empty = out | dict.fromkeys(_NUMBERS, math.nan)
    if "note" in rows and rows["note"].astype(str).str.startswith("not measurable").any():
        return empty
    known, recorded = _known(spec), rows["count"].sum() / steps
    factor = elements / recorded if elements and recorded else 1.0
    sums = dict.fromkeys(("messages", "bytes", "intra_messages", "intra_bytes"), 0.0)
    passes = agreed_bytes = agreed_buckets = travelling_side = 0.0
    # Tensors of one reduction and one grid share messages. The model is linear in the bytes, so those of all steps add up first.
    for (topology, grid), part in rows.groupby(["topology", "format"], sort=False):
        n, payload = factor * part["count"].sum() / steps, factor * part["wire_bits"].sum() / 8 / steps
        agreed_bits = part["side_bits"].clip(upper=_core.agreed_bits(known, grid))
        agreed, travelling = (_scaled(bits, factor, steps) for bits in (agreed_bits, part["side_bits"] - agreed_bits))
        way = _core.way(known, grid, topology, n, payload, travelling, workers)
        if way is None:
            return empty
        cost = _cost(way, workers, way["side"])
        buckets = part.groupby("step", sort=False)["count"].agg(lambda sizes: _buckets(factor * sizes, bucket_bytes)).sum() / steps
        sums["messages"] += buckets * cost.messages
        sums["intra_messages"] += buckets * cost.intra_messages
        sums["bytes"] += cost.bytes
        sums["intra_bytes"] += cost.intra_bytes
        passes += cost.added + (0.0 if grid == "fp32" else 4 * n + payload + cost.decoded + 4 * n)
        travelling_side += cost.bytes - _cost(way, workers, 0.0).bytes
        if agreed:
            agreed_bytes += agreed
            agreed_buckets += buckets
            passes += 4 * n  # the scan for the statistic
    latency, bandwidth = network._intra
    out["messages"] = sums["messages"] + sums["intra_messages"]
    out["payload_bytes"] = sums["bytes"] - travelling_side
    out["intra_bytes"] = sums["intra_bytes"]
    out["side_bytes"] = travelling_side
    out["side_seconds"] = travelling_side / network.bandwidth
    out["pass_seconds"] = passes * network.pass_cost
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
    out["fp32_seconds"] = _fp32_seconds(factor * rows["count"], rows, steps, network, bucket_bytes, baseline)
    out["speedup"] = out["fp32_seconds"] / out["seconds"] if out["seconds"] else math.nan
    return out


def _fp32_seconds(counts: pd.Series, rows: pd.DataFrame, steps: int, network: Network, bucket_bytes: float | None, baseline: str) -> float:
    name, group = collective_of(baseline) or ("ring", 1)
    buckets = counts.groupby(rows["step"], sort=False).agg(lambda s: _buckets(s, bucket_bytes)).sum() / steps
    one = collective(name, 4 * counts.sum() / steps, int(rows["workers"].iloc[0]), group=group)
    return replace(one, messages=buckets * one.messages, intra_messages=buckets * one.intra_messages).seconds(network)


def _buckets(sizes: pd.Series, bucket_bytes: float | None) -> int:
    """How many messages the tensors of one step become."""
    if bucket_bytes is None:
        return 1
    count, held = 0, math.inf
    for size in sizes:
        if held >= bucket_bytes:
            count, held = count + 1, 0.0
        held += 4.0 * float(size)
    return count


def _scaled(bits: pd.Series, factor: float, steps: int) -> float:
    """Bytes a step of side information; where all tensors have equally much, it is one number a tensor, whatever its size."""
    one_a_tensor = bits.nunique() == 1 and bits.max() <= 64
    return float((1.0 if one_a_tensor else factor) * bits.sum() / 8 / steps)


def _cost(way: dict[str, Any], workers: int, side: float) -> CollectiveCost:
    """Of the messages of `_core.way`, with so much side information in each."""
    c = _core.collective_cost(way["collective"], way["sent"], way["partial"], way["result"], side, workers, way["group"])
    return _in_messages(c, way["rounds"])


def _in_messages(c: dict[str, float], messages: int) -> CollectiveCost:
    return CollectiveCost(**c | {"messages": c["messages"] * messages, "intra_messages": c["intra_messages"] * messages})


def _known(spec: str) -> str:
    """The spec; empty for a scheme that another process defined, of which its rows say all that is known."""
    try:
        return as_scheme(spec).spec
    except ValueError:
        return ""
