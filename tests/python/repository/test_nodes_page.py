"""The tables of docs/nodes.md are those that its command writes, and its sentences are theirs."""

from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
def nodes(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import nodes

    return nodes


def between(name):
    text = (DOCS / "nodes.md").read_text()
    return (
        text.partition(f"<!-- {name}: written by make tables -->\n\n")[2]
        .partition(f"\n\n<!-- end of {name} -->")[0]
        .splitlines()
    )


@pytest.mark.parametrize("name", ["links", "sent", "times"])
def test_a_table_is_what_its_command_writes(nodes, name):
    assert between(name) == nodes.TABLES[name](), "run make tables"


def test_what_the_page_says_of_two_phases(nodes):
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
