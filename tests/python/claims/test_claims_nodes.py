"""Bytes and messages between nodes: closed forms against collectives played message by message."""

import numpy as np
import pytest

import apscope
from apscope import cost
from apscope.cost import LINKS, Network
from tests.python.claims.test_claims_cost import row
from tests.python.one_bit_claims import DATA
from tests.python.recorded import record
from tests.reference import nodes as played

PLACED = [(w, g) for w in range(1, 17) for g in range(1, w + 1) if w % g == 0]
PLAYED = {
    "ring": played.ring,
    "all_gather": played.all_gather,
    "shards": played.shards,
    "tree": played.tree,
    "double_tree": played.double_tree,
    "halving": played.halving,
    "pat": played.pat,
}
ONE_AFTER_ANOTHER = {"tree", "double_tree", "halving", "pat"}  # rounds, each with its slowest
SIZES = [(960.0, 960.0), (960.0, 240.0), (240.0, 960.0)]


@pytest.mark.parametrize("name", PLAYED)
@pytest.mark.parametrize(("workers", "nodes"), PLACED)
def test_a_node_sends_what_playing_the_collective_sends(name, workers, nodes):
    stages, each = PLAYED[name](workers), workers // nodes
    for sent, result in SIZES:
        c = cost.collective(name, sent, workers, partial=sent, result=result, nodes=nodes)
        assert c.node_bytes == pytest.approx(
            played.node_bytes(stages, each, nodes, sent, result), rel=1e-12
        )
        assert c.workers_of_node == each
        if nodes == workers:
            assert c.busiest == pytest.approx(c.node_bytes, rel=1e-12)
        if name in ONE_AFTER_ANOTHER - {"pat"}:
            continue  # `bytes` are those of the rounds, which belong to several workers
        assert c.bytes == pytest.approx(c.node_bytes / each, rel=1e-12)
        assert c.intra_bytes == pytest.approx(
            played.intra_bytes(stages, each, sent, result) if nodes > 1 else c.intra_bytes,
            rel=1e-12,
        )


@pytest.mark.parametrize("name", PLAYED)
@pytest.mark.parametrize(("workers", "nodes"), PLACED)
def test_messages_are_the_longest_chain_of_the_played_ones(name, workers, nodes):
    stages, each = PLAYED[name](workers), workers // nodes
    if name in ONE_AFTER_ANOTHER:
        chain = sum(played.by_rounds(stage, each) for stage in stages)
    elif name == "shards":
        chain = played.in_turn(stages[0], each) + played.followed(stages[1], each)
    else:
        chain = played.followed(stages[0], each)
    c = cost.collective(name, 960.0, workers, nodes=nodes)
    assert c.messages * played.BETWEEN + c.intra_messages * played.INSIDE == chain


@pytest.mark.parametrize("name", ["tree", "double_tree", "halving"])
@pytest.mark.parametrize(("workers", "nodes"), PLACED)
def test_bytes_of_rounds_are_divided_by_the_level_that_the_slowest_message_takes(
    name, workers, nodes
):
    each, sent = workers // nodes, 960.0
    between = inside = 0.0
    for messages in PLAYED[name](workers)[0]:
        whole = sent * float(max(p + r for *_, p, r in messages))
        if any(a // each != b // each for a, b, *_ in messages):
            between += whole / each
        else:
            inside += whole
    c = cost.collective(name, sent, workers, nodes=nodes)
    assert c.bytes == pytest.approx(between) and c.intra_bytes == pytest.approx(inside)
    assert c.stages == ((0.0, c.intra_bytes), (c.bytes, 0.0)) or nodes == 1


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize(("workers", "nodes"), PLACED)
def test_a_hierarchy_of_the_nodes_is_played_too(workers, nodes, flat):
    stages, each = played.hierarchical(workers, nodes, flat), workers // nodes
    name = "hierarchical_shards" if flat else "hierarchical"
    for sent, result in SIZES:
        c = cost.collective(name, sent, workers, partial=sent, result=result, nodes=nodes)
        assert c.node_bytes == pytest.approx(
            played.node_bytes(stages, each, nodes, sent, result), rel=1e-12
        )
        assert c.bytes == pytest.approx(c.node_bytes / each, rel=1e-12)
        assert c.intra_bytes == pytest.approx(
            played.intra_bytes(stages, each, sent, result), rel=1e-12
        )
    chain = sum(
        played.in_turn(stage, each) if flat and k == 1 else played.followed(stage, each)
        for k, stage in enumerate(stages)
    )
    assert c.messages * played.BETWEEN + c.intra_messages * played.INSIDE == chain


@pytest.mark.parametrize("name", [*PLAYED, "hierarchical", "hierarchical_shards"])
@pytest.mark.parametrize("workers", [1, 2, 5, 8, 12])
def test_a_node_for_every_worker_is_no_nodes_and_one_node_has_no_network(name, workers):
    flat, alone, together = (
        cost.collective(name, 960.0, workers, result=240.0, nodes=n) for n in (None, workers, 1)
    )
    assert alone.seconds() == pytest.approx(flat.seconds(), rel=1e-12)
    assert (alone.messages, alone.bytes) == pytest.approx((flat.messages, flat.bytes), rel=1e-12)
    assert together.messages == together.bytes == together.node_bytes == 0.0
    inside = Network(latency=9.0, bandwidth=1.0, intra_latency=5e-6, intra_bandwidth=10e9)
    assert together.seconds(inside) == pytest.approx(
        cost.collective(name, 960.0, workers, group=workers, result=240.0).seconds(inside)
        if name.startswith("hierarchical")
        else flat.seconds(),
        rel=1e-12,
    )


def test_an_all_to_all_sends_about_as_often_a_rings_bytes_as_a_node_has_workers():
    """Of eight workers a node; the all-to-all that takes a ring reduce-scatter's place."""
    factors = []
    for nodes in (2, 4, 8, 16, 128):
        workers = 8 * nodes
        ring = cost.collective("ring", 1e6, workers, nodes=nodes).node_bytes
        flat = cost.collective("shards", 1e6, workers, result=0.0, nodes=nodes).node_bytes
        both = cost.collective("shards", 1e6, workers, nodes=nodes).node_bytes
        factor = flat / (ring / 2)
        assert factor == pytest.approx(8 * (workers - 8) / (workers - 1), rel=1e-12)
        assert both / ring == pytest.approx((factor + 1) / 2, rel=1e-12)
        factors.append(factor)
    assert factors == sorted(factors)
    assert factors[0] == pytest.approx(4.27, abs=0.005) and 7.9 < factors[-1] < 8
    by_level = cost.collective("hierarchical_shards", 1e6, 128, nodes=16).node_bytes
    assert by_level / cost.collective("ring", 1e6, 128, nodes=16).node_bytes < 1


def test_an_all_to_all_reaches_what_nccls_maintainers_expect_of_it():
    """N/(N - 1) times the bandwidth of an interface for N nodes; NVIDIA/nccl-tests issue 130."""
    for nodes in (2, 3, 8):
        network = Network.of("nvlink4", "infiniband_ndr", latency=0, intra_latency=0, pass_cost=0)
        c = cost.collective("shards", 1e9, 8 * nodes, result=0.0, nodes=nodes)
        bus = 1e9 / c.seconds(network) * (8 * nodes - 1) / (8 * nodes)
        full = nodes / (nodes - 1) * network.bandwidth
        assert bus == pytest.approx(full * (8 * nodes - 1) / (8 * nodes), rel=1e-12)


def test_both_levels_of_a_ring_work_at_once_and_the_slower_one_decides():
    c = cost.collective("ring", 1e9, 16, nodes=2)
    bytes_sent = 2 * 15 / 16 * 1e9
    free = {"latency": 0.0, "intra_latency": 0.0, "pass_cost": 0.0}
    slow_network = Network(bandwidth=1e9, intra_bandwidth=1e12, **free)
    slow_inside = Network(bandwidth=1e12, intra_bandwidth=1e9, **free)
    assert c.seconds(slow_network) == pytest.approx(bytes_sent / 8 / 1e9, rel=1e-12)
    assert c.seconds(slow_inside) == pytest.approx(bytes_sent / 1e9, rel=1e-12)


def test_workers_share_the_interfaces_of_their_node():
    c = cost.collective("ring", 1e9, 16, nodes=2)
    free = {"latency": 0.0, "intra_latency": 0.0, "pass_cost": 0.0, "intra_bandwidth": 1e15}
    alone, four, one, many = (
        c.seconds(Network(bandwidth=1e9, interfaces=n, **free)) for n in (None, 4, 1, 64)
    )
    assert four == pytest.approx(2 * alone) and one == pytest.approx(8 * alone) and many == alone


@pytest.mark.parametrize(("workers", "nodes"), [(8, 3), (8, 16), (6, 4)])
def test_nodes_that_do_not_divide_the_workers_are_refused(workers, nodes):
    with pytest.raises(ValueError, match=f"nodes={nodes} does not divide workers={workers}"):
        cost.collective("ring", 1.0, workers, nodes=nodes)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (lambda: cost.collective("hierarchical", 1.0, 8, group=2, nodes=2), "group=2 is not the 4"),
        (lambda: cost.collective("ring", 1.0, 2**21, nodes=2), "at most 1048576"),
        (lambda: cost.collective("ring", 1.0, 8, nodes=0), "nodes=0"),
        (lambda: Network(nodes=0), "nodes=0"),
        (lambda: Network(interfaces=-1), "interfaces=-1"),
        (lambda: Network.of("nvlink", "infiniband_ndr"), "did you mean 'nvlink4'"),
        (lambda: Network.of("nvlink4", "token_ring"), "token_ring"),
    ],
)
def test_refusals_name_what_is_wrong(wrong, named):
    with pytest.raises(ValueError, match=named):
        wrong()


def test_every_known_link_has_a_source_and_reaches_at_most_its_rate():
    for name, link in LINKS.items():
        assert link.bandwidth <= link.rated and link.latency > 0 and len(link.source) > 20, name
    assert Network.of("pcie5_x16", "ethernet_25", nodes=4).interfaces == 1
    own = Network.of("nvlink4", "infiniband_ndr", nodes=2, latency=1e-6)
    assert own.latency == 1e-6 and own.bandwidth == LINKS["infiniband_ndr"].bandwidth


# From rows to costs -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    return apscope.replay(
        DATA / "digits",
        ["none:fp32", "aps:e4m3", "mx", "qsgd"],
        steps="0:2",
        topology=[
            "ring",
            "tree",
            "hierarchical:4",
            "hierarchical:2",
            "two_phase",
            "reduce_scatter",
        ],
    )


def test_every_number_of_a_row_on_nodes_by_hand(digits):
    n, network = (
        1906,
        Network(3e-6, 2e9, intra_latency=1e-6, intra_bandwidth=5e9, pass_cost=0.0, interfaces=2),
    )
    frame = cost.step_time(digits, network, nodes=2)
    ring = row(frame, "none:fp32", "ring")
    node = 2 * 7 / 8 * 4 * n
    assert ring.node_bytes == pytest.approx(node) and ring.payload_bytes == pytest.approx(node / 4)
    # Four ways between the nodes, ten inside; two interfaces of 2 GB/s, and 5 GB/s for a worker.
    assert ring.seconds == pytest.approx(
        4 * 3e-6 + 10 * 1e-6 + max(node / 4e9, node / 5e9), rel=1e-12
    )
    flat = row(frame, "none:fp32", "two_phase")
    first, second = 4 * (4 / 8) * 4 * n, 7 / 8 * 4 * n
    assert flat.node_bytes == pytest.approx(first + second)
    assert flat.seconds == pytest.approx(
        (4 + 2) * 3e-6 + (3 + 5) * 1e-6 + first / 4e9 + max(second / 4e9, second / 5e9), rel=1e-12
    )
    half = row(frame, "none:fp32", "reduce_scatter")
    assert half.node_bytes == pytest.approx(first) and half.messages == 7
    level = row(frame, "none:fp32", "hierarchical:4")
    assert level.node_bytes == pytest.approx(2 * 1 / 2 * 4 * n)
    assert np.isnan(row(frame, "none:fp32", "hierarchical:2").seconds)
    assert ring.fp32_seconds == ring.seconds and flat.speedup < 1


def test_side_information_crosses_with_its_messages(digits):
    frame = cost.step_time(digits, Network(nodes=2))
    n, scales = 1906, sum(-(-s // 32) for s in (72, 1152, 16, 16, 640, 10))
    gathered = row(frame, "mx", "gather")
    assert gathered.node_bytes == pytest.approx(7 * (n + scales), rel=1e-12)
    assert gathered.payload_bytes == pytest.approx(7 * n / 4, rel=1e-12)
    agreed = row(frame, "aps:e4m3", "ring")
    assert agreed.node_bytes == pytest.approx(2 * 7 / 8 * (n + 6), rel=1e-12)


def test_recommend_and_summary_price_the_nodes_of_the_network(digits):
    slow = Network.of("nvlink4", "ethernet_25", nodes=2)
    times = cost.step_time(digits, slow, elements=25.6e6).set_index(["scheme", "topology"])
    table = digits.summary(network=slow).set_index(["scheme", "topology"])
    for key in times.index:
        assert table.loc[key, "time"] == times.loc[key, "seconds"] or np.isnan(
            table.loc[key, "time"]
        )
    plan = apscope.recommend(
        digits, ["none:fp32", "aps:e4m3", "qsgd"], topology="ring", minimize="time",
        max_nmse=1.0, network=slow,
    )  # fmt: skip
    one = times.loc[("aps:e4m3", "ring"), "seconds"]
    assert plan.figures.loc[plan.figures.index[0], "time"] <= one * (1 + 1e-9)


def test_a_trace_whose_workers_the_nodes_do_not_divide_is_refused(digits):
    with pytest.raises(ValueError, match="nodes=3 does not divide workers=8"):
        cost.step_time(digits, nodes=3)


def test_times_of_a_replay_with_sixteen_workers_follow_the_collectives(tmp_path):
    values = np.random.default_rng(0).standard_normal((16, 3200))
    results = apscope.replay(
        record(tmp_path / "t", [{"a.weight": values}]),
        "none:fp32",
        topology=["ring", "tree", "two_phase", "butterfly", "pat", "nccl:tree"],
    )
    names = {"two_phase": "shards", "butterfly": "halving", "nccl:tree": "double_tree"}
    for nodes in (1, 2, 4, 8, 16):
        network = Network.of("nvlink4", "infiniband_ndr", nodes=nodes)
        frame = cost.step_time(results, network, elements=1e6)
        for topology in ("ring", "tree", "two_phase", "butterfly", "pat", "nccl:tree"):
            c = cost.collective(names.get(topology, topology), 4e6, 16, nodes=nodes)
            got = row(frame, "none:fp32", topology)
            assert got.seconds == pytest.approx(c.seconds(network), rel=1e-9), (topology, nodes)
            assert got.node_bytes == pytest.approx(c.node_bytes, rel=1e-12)
