"""Modelled time of a step's communication: the public names are those of `apscope.cost`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

import pandas as pd

from .. import _core
from .._arrays.checks import integer, number, of_type, text
from .._arrays.float_environment import guarded
from .._text import clip, count_of, hint
from .row_table import Rows, objects, rows_of


@dataclass(frozen=True)
class Link:
    """A link of known hardware."""

    bandwidth: float  #: bytes per second in one direction, as reached where that is published
    rated: float  #: the same by the data sheet
    latency: float  #: seconds per message
    interfaces: int | None  #: of a node; None: one for each worker
    source: str  #: of the numbers


#: Links of known hardware by name; docs/nodes.md. Latencies are NCCL's own constants.
LINKS: Mapping[str, Link] = MappingProxyType(
    {name: Link(**numbers) for name, numbers in _core.known_links().items()}
)


@dataclass(frozen=True)
class Network:
    """The links between workers and the speed of their memory, of which times are modelled.

    Parameters
    ----------
    latency : float
        Seconds that a message between nodes takes besides its bytes.
    bandwidth : float
        Bytes per second that a worker sends to other nodes.
    intra_latency, intra_bandwidth : float, optional
        The same inside a node, for hierarchies and where `nodes` is given; by default those between
        nodes.
    pass_cost : float
        Seconds per byte of one pass over a worker's memory: scanning, encoding, decoding, adding.
    nodes : int, optional
        The number of nodes, which must divide the number of workers; neighbours are on one node. By
        default every worker, or every group of a hierarchy, has a node of its own.
    interfaces : int, optional
        The number of a node's network interfaces, where `nodes` is given: each has `bandwidth`, and
        the node's workers share them. By default, and at most, one for each worker.
    """

    latency: float = 5e-6
    bandwidth: float = 10e9
    intra_latency: float | None = None
    intra_bandwidth: float | None = None
    pass_cost: float = 1e-12
    nodes: int | None = None
    interfaces: int | None = None

    @classmethod
    def of(cls, inside: str, between: str, *, nodes: int | None = None, **own: Any) -> Network:
        """Links of known hardware.

        Parameters
        ----------
        inside, between : str
            Names in `LINKS`: of a node's links, and of those between the nodes.
        nodes : int, optional
        own : keyword arguments
            Fields with your own values instead.

        Raises
        ------
        ValueError
            An unknown link.

        Examples
        --------
        >>> from apscope.cost import Network
        >>> Network.of("nvlink4", "infiniband_ndr", nodes=2).bandwidth
        48500000000.0
        """
        for name in (inside, between):
            if text("link", name) not in LINKS:
                raise ValueError(
                    f"unknown link {clip(name)}; {hint(name, list(LINKS), len(LINKS), 'use')}"
                )
        near, far = LINKS[inside], LINKS[between]
        return replace(
            cls(
                far.latency,
                far.bandwidth,
                near.latency,
                near.bandwidth,
                nodes=nodes,
                interfaces=far.interfaces,
            ),
            **own,
        )

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                number(name, value)
        for name in ("nodes", "interfaces"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, integer(name, getattr(self, name), 1, 2**20))
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
        words += (
            f"; {self.pass_cost * 1e12:g} ps per byte of a pass over memory"
            if self.pass_cost
            else "; passes over memory are free"
        )
        if self.nodes is None:
            return words
        words += f"; {count_of(self.nodes, 'node')}"
        return words + (
            f" of {count_of(self.interfaces, 'interface')}" if self.interfaces is not None else ""
        )

    @property
    def _intra(self) -> tuple[float, float]:
        return (
            self.latency if self.intra_latency is None else self.intra_latency,
            self.bandwidth if self.intra_bandwidth is None else self.intra_bandwidth,
        )

    @property
    def _links(self) -> dict[str, float]:
        latency, bandwidth = self._intra
        return asdict(self) | {"intra_latency": latency, "intra_bandwidth": bandwidth}


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
    node_bytes: float  #: that the busiest node sends to the others
    workers_of_node: int  #: where they are placed on `nodes`; else 1
    #: bytes between nodes and inside one, of stages one after another; the links of both work at
    #: once, and the slower one decides
    stages: tuple[tuple[float, float], ...]

    def seconds(self, network: Network = Network()) -> float:
        """Latencies, transfers and the passes of additions; not those of encoding and decoding.

        The nodes are those that the cost was computed for, whatever `network` says.
        """
        return _core.collective_seconds(
            self.stages,
            self.messages,
            self.intra_messages,
            self.added,
            self.workers_of_node,
            network._links,
        )


@guarded
def collective(
    name: str,
    sent: float,
    workers: int,
    *,
    group: int | None = None,
    partial: float | None = None,
    result: float | None = None,
    messages: int = 1,
    nodes: int | None = None,
) -> CollectiveCost:
    """The cost of one collective operation.

    Parameters
    ----------
    name : str
        ``ring``, ``tree``, ``halving``, ``pat``, ``double_tree``, ``all_gather``, ``shards``,
        ``hierarchical``, ``hierarchical_shards`` or ``streams``: the algorithm; docs/definitions.md,
        section 12.
    sent : float
        Bytes of one worker's message.
    workers : int
    group : int, optional
        Workers in a node; hierarchies only. By default those of `nodes`, or 1.
    partial, result : float, optional
        Bytes of a sent partial sum, and of the result; by default `sent`.
    messages : int
        Number of messages into which the bytes are split; each takes the latency.
    nodes : int, optional
        That the workers are on, neighbours together. ``bytes`` and ``busiest`` are then a worker's
        share of what its node sends, ``intra_bytes`` what the busiest worker sends inside. By
        default every worker is a node of its own, or every group of a hierarchy.

    Returns
    -------
    CollectiveCost

    Raises
    ------
    ValueError
        An unknown name, no worker; `nodes` that do not divide the workers, or whose workers are not
        the groups; `nodes` for ``streams``.
    """
    workers = integer("workers", workers, 1, 2**30)
    group = None if group is None else integer("group", group, 1, 2**30)
    nodes = None if nodes is None else integer("nodes", nodes, 1, 2**20)
    partial, result = (float(sent if size is None else size) for size in (partial, result))
    cost = _core.collective_cost(
        text("name", name), float(sent), partial, result, workers, group, nodes
    )
    for count in ("messages", "intra_messages"):
        cost[count] *= messages
    return CollectiveCost(**cost)


#: The columns of a table of results that modelled times are computed from.
_USED = (
    "trace", "tensor", "scheme", "topology", "format", "workers", "stage", "step", "skipped",
    "count", "wire_bits", "side_bits", "note",
)  # fmt: skip


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
    nodes: int | None = None,
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
    nodes : int, optional
        That the workers are on, in place of the network's.

    Returns
    -------
    DataFrame
        A row per trace, scheme and topology, means over the steps: ``seconds``, of which
        ``side_seconds`` and ``pass_seconds``; ``payload_bytes`` and ``side_bytes`` that one worker
        sends between nodes and ``intra_bytes`` inside, with nodes a worker's share of what its node
        sends; ``node_bytes`` that the busiest node sends to the others, of both; ``messages`` one
        after another; ``side_share`` of the seconds; ``fp32_seconds`` and ``speedup`` over it.
        ``exact`` is not an algorithm, and a hierarchy whose groups are not the nodes is not priced:
        their numbers are NaN. Tensors with their own reduction are counted together with
        those that use the row's topology. Traces without local gradients have no row.

    Raises
    ------
    ValueError
        An unknown choice; nodes that do not divide the workers of a trace.
    """
    of_type("network", network, Network, "a cost.Network")
    if nodes is not None:
        network = replace(network, nodes=nodes)
    options = options_of(
        network,
        elements=elements,
        bucket_bytes=bucket_bytes,
        side=text("side", side),
        side_collective=text("side_collective", side_collective),
        baseline=text("baseline", baseline),
    )
    rows = rows_of(results, _USED)
    return modelled_times(rows, options)


def options_of(
    network: Network,
    *,
    elements: float | None,
    bucket_bytes: float | None = None,
    side: str = "fused",
    side_collective: str = "ring",
    baseline: str = "ring",
) -> dict[str, Any]:
    """The arguments of the core for `step_time`."""
    return {
        "network": network._links,
        "elements": None if elements is None else number("elements", elements),
        "bucket_bytes": None if bucket_bytes is None else number("bucket_bytes", bucket_bytes),
        "side": side,
        "side_collective": side_collective,
        "baseline": baseline,
        "not_measurable": _core.NOT_MEASURABLE,
    }


def modelled_times(rows: Rows, options: dict[str, Any]) -> pd.DataFrame:
    """`step_time` of rows for the core, by `options_of`."""
    times = rows.core.step_time(**options)
    first = times["first"]
    return pd.DataFrame(
        {
            "trace": rows.cells("trace", first),
            "scheme": rows.cells("scheme", first),
            "topology": objects(times["topology"]),
            "workers": rows.cells("workers", first).astype(int),
            **times["figures"],
        }
    )
