"""Provable claims of the communication model, by hand.

The model is apscope's own (latency, bandwidth, passes); no paper's.
"""

import math

import numpy as np
import pytest

import apscope
from apscope import cost
from tests.python.one_bit_claims import DATA
from tests.python.recorded import record
from tests.python.scheme_cases import cases

RESNET50, W = 25.557e6, 32
FAST = cost.Network(latency=5e-6, bandwidth=100e9 / 8, pass_cost=0.0)


def row(frame, scheme, topology):
    found = frame[(frame.scheme == scheme) & (frame.topology == topology)]
    assert len(found) == 1
    return found.iloc[0]


@pytest.fixture(scope="module")
def digits():
    return apscope.replay(
        DATA / "digits",
        ["none:fp32", "aps:e4m3", "aps:e3m0", "none:fp16", "aps:e4m3,accumulate=fp32", "qsgd"],
        steps="0:3",
    )


# Collectives: test_claims_nodes.py plays them message by message
# -------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 6, 8, 33])
def test_the_tree_has_as_many_levels_as_neighbours_pair_up(workers):
    levels, left = 0, workers
    while left > 1:
        left, levels = (left + 1) // 2, levels + 1
    c = cost.collective("tree", 10.0, workers)
    assert c.messages == 2 * levels and c.bytes == 2 * levels * 10.0 and c.added == levels * 10.0


def test_one_worker_sends_nothing():
    for name in "ring tree halving pat double_tree all_gather shards hierarchical hierarchical_shards streams".split():
        c = cost.collective(name, 1e6, 1, group=4)
        assert (c.messages, c.bytes, c.intra_messages, c.intra_bytes, c.added) == (
            0,
            0,
            0,
            0,
            0,
        ) and c.seconds() == 0.0


# P1 to P3 -----------------------------------------------------------------------------------------


def test_P1_the_speed_up_over_fp32_tends_to_32_over_b_where_passes_are_free(digits):
    limits = {"aps:e4m3": 4.0, "aps:e3m0": 8.0, "none:fp16": 2.0}
    for scheme, limit in limits.items():
        ups = [
            row(cost.step_time(digits, FAST, elements=n), scheme, "ring").speedup
            for n in (1e5, 1e7, 1e9, 1e13)
        ]
        assert ups == sorted(ups) and ups[-1] < limit and ups[-1] == pytest.approx(limit, rel=1e-6)
    # Passes that cost something keep a scheme off its limit.
    slow = cost.Network(FAST.latency, FAST.bandwidth, pass_cost=1e-11)
    assert row(cost.step_time(digits, slow, elements=1e13), "aps:e4m3", "ring").speedup < 3.0


def test_P2_the_side_message_is_a_latency_not_a_volume():
    """W = 32, 5 us, 100 Gb/s, 25.557e6 values, 161 scales of 8 bits: 16.16 ms, 4.27 ms, 0.31 ms."""
    seconds = {b: cost.collective("ring", RESNET50 * b / 8, W).seconds(FAST) for b in (32, 8)}
    side = cost.collective("ring", 161.0, W)
    assert seconds[32] == pytest.approx(16.16e-3, abs=5e-6) and seconds[8] == pytest.approx(
        4.27e-3, abs=5e-6
    )
    assert side.seconds(FAST) == pytest.approx(0.31e-3, abs=1e-6)
    assert side.messages * FAST.latency / side.seconds(FAST) > 0.999
    assert side.seconds(FAST) / seconds[8] == pytest.approx(0.07, abs=0.005)
    assert 161 * 8 / (8 * RESNET50) == pytest.approx(6.3e-6, rel=0.005)


def test_P2_through_a_replay_with_W_32(tmp_path):
    rows = {"a.weight": [np.linspace(-1, 1, 300)] * W, "b.weight": [np.linspace(-1, 1, 100)] * W}
    results = apscope.replay(
        record(tmp_path / "t", [rows]), ["none:fp32", "aps:e4m3"], topology="ring"
    )
    frame = cost.step_time(results, FAST, elements=RESNET50)
    fp32, aps = row(frame, "none:fp32", "ring"), row(frame, "aps:e4m3", "ring")
    assert (
        fp32.seconds == pytest.approx(16.16e-3, abs=5e-6)
        and fp32.speedup == 1.0
        and fp32.side_seconds == 0.0
    )
    assert aps.side_seconds == pytest.approx(0.31e-3, abs=1e-6) and aps.seconds == pytest.approx(
        4.27e-3 + 0.31e-3, abs=1e-5
    )
    assert aps.side_share == aps.side_seconds / aps.seconds
    delayed = row(
        cost.step_time(results, FAST, elements=RESNET50, side="delayed"), "aps:e4m3", "ring"
    )
    assert (
        delayed.side_seconds == 0.0
        and delayed.seconds == pytest.approx(4.27e-3, abs=5e-6)
        and delayed.side_bytes == aps.side_bytes
    )
    split = cost.step_time(results, FAST, elements=RESNET50, side="bucket", bucket_bytes=0)
    assert row(split, "aps:e4m3", "ring").side_seconds == pytest.approx(
        2 * aps.side_seconds, rel=1e-3
    )
    tree = row(
        cost.step_time(results, FAST, elements=RESNET50, side_collective="tree"), "aps:e4m3", "ring"
    )
    assert tree.side_seconds == pytest.approx(2 * 5 * 5e-6, rel=1e-3)


@pytest.mark.parametrize("workers", [3, 8, 64])
def test_P3_an_all_gather_moves_half_of_W_times_a_rings_volume(workers):
    gathered, ring = (
        cost.collective("all_gather", 100.0, workers),
        cost.collective("ring", 100.0, workers),
    )
    assert gathered.bytes == (workers - 1) * 100.0
    assert gathered.bytes / ring.bytes == pytest.approx(workers / 2, rel=1e-12)
    assert all(
        gathered.bytes >= cost.collective(name, 100.0, workers, group=2).bytes
        for name in ("ring", "halving", "shards", "hierarchical")
        if name != "halving" or workers.bit_count() == 1  # else whole messages travel first
    )


# B3, H3 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "each"), [(2, 8), (8, 8), (5, 3)])
def test_B3_a_hierarchy_divides_the_bits_between_nodes_by_the_workers_of_a_node(nodes, each):
    n, b = 240_000, 16  # bits of a value inside the node
    flat = cost.collective("shards", n / 8, nodes)
    c = cost.collective(
        "hierarchical_shards", n / 8, nodes * each, group=each, partial=n * b / 8, result=n / 8
    )
    assert 8 * flat.bytes == pytest.approx(2 * n * (nodes - 1) / nodes, rel=1e-12)
    assert 8 * c.bytes == pytest.approx(2 * n * (nodes - 1) / (nodes * each), rel=1e-12)
    assert flat.bytes / c.bytes == pytest.approx(each, rel=1e-12)
    assert 8 * c.intra_bytes == pytest.approx(
        n * b * (each - 1) / each + n * (each - 1) / each, rel=1e-12
    )


def test_H3_a_hybrid_costs_the_sum_over_its_layers():
    trace = apscope.open_trace(DATA / "digits")
    spec = "hybrid(last=none:fp16;role:norm=none:fp32;else=aps:e4m3)"
    results = apscope.replay(trace, spec, steps="0:2", topology="ring")
    width = {
        "head.weight": 16,
        "head.bias": 16,
        "norm.weight": 32,
        "norm.bias": 32,
        "conv1.weight": 8,
        "conv2.weight": 8,
    }
    bits = sum(math.prod(trace.shapes[t]) * width[t] for t in trace.tensors)
    wire = results.frame[results.frame.stage == "wire"]
    assert (wire.groupby("step").wire_bits.sum() == bits).all()
    modelled = row(cost.step_time(results, FAST), spec, "ring")
    assert modelled.payload_bytes == pytest.approx(2 * 7 / 8 * bits / 8, rel=1e-12)
    # Three widths are three messages round the ring, and the scales of two tensors a fourth.
    assert modelled.messages == 4 * 14 and modelled.side_bytes == pytest.approx(
        2 * 7 / 8 * 2, rel=1e-12
    )


# From rows to costs -------------------------------------------------------------------------------


def test_every_number_of_a_row_by_hand(digits):
    network = cost.Network(
        latency=3e-6, bandwidth=2e9, intra_latency=1e-6, intra_bandwidth=5e10, pass_cost=2e-12
    )
    frame = cost.step_time(digits, network)
    n = 1906
    a = row(frame, "aps:e4m3", "hierarchical:4")
    assert (
        a.workers == 8 and a.payload_bytes == 2 * 1 / 2 * n / 4 and a.intra_bytes == 2 * 3 / 4 * n
    )
    side = 14 * 3e-6 + 2 * 7 / 8 * 6 / 2e9
    passes = 2e-12 * (4 * n + (4 * n + n) + (n + 4 * n) + (3 / 4 * n + 1 / 2 * n / 4))
    assert a.side_seconds == pytest.approx(side, rel=1e-12) and a.pass_seconds == pytest.approx(
        passes, rel=1e-12
    )
    assert a.seconds == pytest.approx(
        2 * 3e-6 + n / 4 / 2e9 + 6 * 1e-6 + 1.5 * n / 5e10 + side + passes, rel=1e-12
    )
    q = row(frame, "qsgd", "gather")  # its norms travel with the codes
    norms = sum(math.ceil(s / 512) * 4 for s in (72, 1152, 16, 16, 640, 10))
    assert q.payload_bytes == pytest.approx(
        7 * n * 4 / 8, rel=1e-12
    ) and q.side_bytes == pytest.approx(7 * norms, rel=1e-12)
    assert q.messages == 7


def test_wide_sums_take_their_width_where_partial_sums_travel(digits):
    frame = cost.step_time(digits, FAST)
    wide, narrow, fp32 = (
        lambda t, s=s: row(frame, s, t)
        for s in ("aps:e4m3,accumulate=fp32", "aps:e4m3", "none:fp32")
    )
    for topology in ("ring", "tree", "hierarchical:4"):
        assert (
            wide(topology).payload_bytes
            == fp32(topology).payload_bytes
            == 4 * narrow(topology).payload_bytes
        )
    assert wide("sequential").payload_bytes == narrow("sequential").payload_bytes


def test_what_is_no_algorithm_has_no_cost(digits):
    frame = cost.step_time(digits)
    assert (
        frame[frame.topology == "exact"].seconds.isna().all()
        and frame[frame.topology != "exact"].seconds.notna().all()
    )
    exact = cost.step_time(
        apscope.replay(DATA / "digits", "aps:e4m3,accumulate=exact", steps="0:1")
    )
    # Two phases add in fp32 whatever `accumulate` says.
    assert set(exact[exact.seconds.notna()].topology) == {"sequential", "two_phase"}


def test_buckets_pay_a_latency_each(digits):
    one, each, some = (
        row(cost.step_time(digits, FAST, bucket_bytes=b), "none:fp16", "ring")
        for b in (None, 0, 4 * 1200)
    )
    assert (one.messages, each.messages, some.messages) == (14, 6 * 14, 2 * 14)
    assert each.seconds - one.seconds == pytest.approx(5 * 14 * FAST.latency, rel=1e-9)


def test_two_rounds_pay_their_latencies_twice():
    spec = "error_feedback(powersgd:rank=1)"
    frame = cost.step_time(
        apscope.replay(DATA / "digits", [spec, "zero_blocks"], steps="0:2"), FAST
    )
    assert (
        row(frame, spec, "linear").messages == 2 * 14
        and row(frame, "zero_blocks", "linear").messages == 14
    )


def test_every_scheme_has_a_cost():
    """Every case of the registry's tests, except those that are not an algorithm."""
    specs = list(dict.fromkeys(case.spec for case in cases()))
    frame = cost.step_time(
        apscope.replay(DATA / "digits", specs, steps=[0], topology=["ring", "tree"]), FAST
    )
    measured = frame[(frame.topology != "exact") & ~frame.scheme.str.contains("accumulate=exact")]
    assert set(measured.scheme) == {
        apscope.schemes.Scheme(s).spec for s in specs if "accumulate=exact" not in s
    }
    assert (
        (measured.seconds > 0).all()
        and (measured.payload_bytes >= 0).all()
        and np.isfinite(measured.speedup).all()
    )


def test_a_policy_of_two_reductions_has_one_row_a_topology():
    spec = "hybrid(last=qsgd;else=none:e4m3)"
    frame = cost.step_time(
        apscope.replay(DATA / "digits", spec, steps="0:2", topology=["ring", "tree"]), FAST
    )
    assert list(frame.topology) == ["exact", "ring", "tree"]
    ring = row(frame, spec, "ring")
    assert ring.payload_bytes == pytest.approx(2 * 7 / 8 * (1906 - 650) + 7 * 650 / 2, rel=1e-12)
    assert ring.messages == 14 + 7


def test_results_without_local_gradients_have_no_row(digits):
    frame = digits.frame
    assert len(cost.step_time(frame[frame.stage == "wire"])) == 0


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (lambda f: cost.step_time(f, side="never"), "side='never'"),
        (lambda f: cost.step_time(f, side_collective="star"), "side_collective='star'"),
        (lambda f: cost.step_time(f, baseline="exact"), "baseline='exact'"),
        (lambda f: cost.step_time(f, elements=0), "elements=0"),
        (lambda f: cost.step_time(f, bucket_bytes=-1), "bucket_bytes=-1"),
        (lambda f: cost.Network(bandwidth=0.0), "bandwidth=0.0"),
        (lambda f: cost.Network(latency=-1.0), "latency=-1.0"),
        (lambda f: cost.collective("star", 1.0, 2), "star"),
        (lambda f: cost.collective("ring", 1.0, 0), "workers=0"),
    ],
)
def test_refusals_name_what_is_wrong(digits, wrong, named):
    with pytest.raises(ValueError, match=named):
        wrong(digits)
