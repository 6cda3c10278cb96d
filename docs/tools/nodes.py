"""The tables of docs/nodes.md."""

from apscope import cost
from apscope.cost import LINKS, Network

from . import page

EACH = 8  # workers of a node
NODES = (1, 2, 4, 8, 16)
BYTES = 100e6  # of one worker's message: 100 million parameters of 8 bits
#: The reductions of the tables: the collective, and bytes of a value over those of 8 bits.
ROWS = {
    "ring, 8 bits": ("ring", 1),
    "two phases, 8 bits": ("shards", 1),
    "two phases by level, 8 bits": ("hierarchical_shards", 1),
    "ring, bf16": ("ring", 2),
    "ring, fp32": ("ring", 4),
}
NETWORKS = (
    ("nvlink4", "infiniband_ndr"),
    ("pcie5_x16", "ethernet_100"),
    ("pcie5_x16", "ethernet_25"),
)


def links() -> list[str]:
    """The known links."""
    cells = [
        [
            f"`{name}`",
            f"{link.bandwidth / 1e9:.4g}",
            f"{link.rated / 1e9:.4g}",
            f"{link.latency * 1e6:g}",
            "one for each worker" if link.interfaces is None else f"{link.interfaces} for a node",
            link.source,
        ]
        for name, link in LINKS.items()
    ]
    return page.table(["name", "GB/s", "rated GB/s", "µs a message", "interfaces", "source"], cells)


def found(collective: str, times: float, nodes: int) -> cost.CollectiveCost:
    return cost.collective(collective, times * BYTES, EACH * nodes, nodes=nodes)


def sent() -> list[str]:
    """What a node sends to the others, and the all-to-all alone over a ring's reduce-scatter."""
    cells = []
    for nodes in NODES[1:]:
        flat = cost.collective("shards", BYTES, EACH * nodes, result=0.0, nodes=nodes).node_bytes
        ring = found("ring", 1, nodes).node_bytes
        cells.append(
            [
                str(nodes),
                *(f"{found(*row, nodes).node_bytes / 1e6:,.0f}" for row in ROWS.values()),
                f"{flat / (ring / 2):.1f}",
            ]
        )
    return page.table(["nodes", *ROWS, "all-to-all / ring reduce-scatter"], cells)


def times() -> list[str]:
    """Milliseconds of the exchange."""
    cells = [
        [
            f"`{inside}`, `{between}`",
            str(nodes),
            *(
                f"{1e3 * found(*row, nodes).seconds(Network.of(inside, between)):.3g}"
                for row in ROWS.values()
            ),
        ]
        for inside, between in NETWORKS
        for nodes in NODES
    ]
    return page.table(["links", "nodes", *ROWS], cells)


SECTIONS = {"links": links, "sent": sent, "times": times}
