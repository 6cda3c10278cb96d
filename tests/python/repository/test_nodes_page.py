"""The sentences of docs/nodes.md are those of its tables."""

import pytest

from docs.tools import nodes


def test_what_the_page_says_of_two_phases():
    def seconds(row, count, links=nodes.NETWORKS[0]):
        return nodes.found(*nodes.ROWS[row], count).seconds(nodes.Network.of(*links))

    ring, flat, level = (
        f"{name}, 8 bits" for name in ("ring", "two phases", "two phases by level")
    )
    for links in nodes.NETWORKS:
        assert seconds(flat, 1, links) == pytest.approx(seconds(ring, 1, links))
        for count in nodes.NODES[1:]:
            assert seconds(flat, count, links) > seconds(ring, count, links)
            assert (
                nodes.found(*nodes.ROWS[level], count).node_bytes
                <= nodes.found(*nodes.ROWS[ring], count).node_bytes
            )
    assert seconds(flat, 2) > seconds("ring, bf16", 2)
    assert seconds(flat, 16) > seconds("ring, fp32", 16)
