"""Columns volume and intra_volume: bytes of the busiest rank, divided by those in an fp32 ring."""

import math

import numpy as np
import pytest

import apscope
from apscope import _core, cost
from apscope._results.volume import at_most
from tests.python import recorded
from tests.reference import topologies as reference
from tests.reference import traffic

N = 6400
PADDED = 6656  # to a multiple of 64 times 8 workers


def record(folder, workers, n=N):
    values = np.random.default_rng(0).standard_normal((workers, n // 64, 64))
    return recorded.record(folder, [{"w": values}])


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return record(tmp_path_factory.mktemp("volume") / "t", 8)


def volumes(trace, spec, topology="ring"):
    """{topology: (volume, intra_volume)} of the reduced rows."""
    frame = apscope.replay(trace, spec, topology=topology).frame
    assert (
        frame.volume[frame.stage == "wire"].isna().all()
        and frame.intra_volume[frame.stage == "wire"].isna().all()
    )
    return {
        r.topology: (r.volume, r.intra_volume) for r in frame[frame.stage == "reduced"].itertuples()
    }


# Played message by message; test_claims_nodes.py has collectives other than hierarchies
# --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "group"), [(8, 4), (8, 8), (8, 1), (12, 3), (10, 8), (7, 3), (9, 2), (3, 100)]
)
def test_a_hierarchy_sends_what_playing_it_sends_nodes_of_different_size_too(workers, group):
    between, inside = traffic.hierarchical(workers, group)
    for partial, result in [(10.0, 10.0), (3.0, 7.0)]:
        c = cost.collective(
            "hierarchical", partial, workers, group=group, partial=partial, result=result
        )
        assert (
            c.busiest
            == c.bytes
            == pytest.approx(traffic.busiest(between, partial, result), rel=1e-12)
        )
        assert c.intra_bytes == pytest.approx(traffic.busiest(inside, partial, result), rel=1e-12)


@pytest.mark.parametrize("workers", [2, 3, 5, 8])
def test_volumes_of_a_replay_are_those_of_the_played_collectives(tmp_path, workers):
    trace, topologies = (
        record(tmp_path / "t", workers, 640),
        ["hierarchical:2", *(name.replace(":G", ":3") for name in _core.orders())],
    )
    for spec, payload, side, wide, agreed in [
        ("none:fp32", 32, 0, 32, True),
        ("aps:e4m3", 8, 8, 8, True),
        ("aps:e3m0,accumulate=fp16", 4, 8, 16, True),
        ("current_scaling:e4m3fn", 8, 32, 32, True),
        ("none:e5m2,accumulate=exact", 8, 0, None, True),
        ("stochastic:e5m2", 8, 8, 8, True),
        ("qsgd:levels=127,bucket=128", 8, 5 * 32, 8, False),
    ]:
        for topology, found in volumes(trace, spec, topologies).items():
            expected = reference.volumes(topology, workers, 640, 640 * payload, side, wide, agreed)
            for a, b in zip(found, expected, strict=True):
                assert math.isnan(a) if b is None else a == pytest.approx(b, rel=1e-12), (
                    spec,
                    topology,
                )


# What the schemes' definitions say
# ------------------------------------------------------------------

RING = {  # bits of a value that travel, and of an agreed scale
    "none:fp32": (32, 0),
    "none:bf16": (16, 0),
    "none:fp16": (16, 0),
    "aps:e4m3": (8, 8),
    "aps:e3m0": (4, 8),
    "aps:e4m3,unit=64": (8, 8 * N / 64),
    "aps:e4m3,accumulate=fp32": (32, 8),
    "error_feedback(aps:e4m3,accumulate=fp32)": (32, 8),
    "error_feedback(aps:e4m3,unit=64,accumulate=bf16)": (16, 8 * N / 64),
    "hybrid(else=aps:e4m3,accumulate=fp32)": (32, 8),
    "loss_scaling:e4m3": (8, 0),
    "hfp8:e5m2": (16, 0),
    "hfp8:e5m2,accumulate=format": (8, 0),
    "delayed_scaling:e5m2": (32, 32),
    "current_scaling:e5m2": (32, 32),
    "fp8_allreduce:e4m3fn": (8, 32),
}


@pytest.mark.parametrize("spec", RING)
def test_a_ring_moves_the_width_of_the_sums_and_the_scale(trace, spec):
    bits, scale = RING[spec]
    found = volumes(trace, spec)
    assert found["ring"][0] == pytest.approx(
        (bits * N + scale) / (32 * N), rel=1e-12
    ) and math.isnan(found["ring"][1])
    assert math.isnan(found["exact"][0])


OWN = {  # topology, and bytes that a rank sends
    "stochastic:e4m3": ("gather", 7 * N + 7 / 4),  # the scale is agreed, in a ring
    "natural": ("gather", 7 * N * 9 / 8 + 7 / 4),
    "qsgd": ("gather", 7 * (N / 2 + 4 * 13)),
    "qsgd:levels=127": ("gather", 7 * (N + 4 * 13)),
    "sign": ("gather", 7 * (N / 8 + 4)),
    "top_k:keep=0.01": ("gather", 7 * 64 * 8),
    "mx": ("gather", 7 * (N + N / 32)),
    "nvfp4": ("gather", 7 * (N / 2 + N / 16) + 7 / 4 * 4),
    "nvfp4:agree=local": ("gather", 7 * (N / 2 + N / 16 + 4)),
    "current_scaling:e5m2,agree=local": ("gather", 7 * (N + 4)),
    "residual(aps:e4m3),points=3": ("gather", 7 * 3 * N + 7 / 4 * 3),
    "sign_vote": ("vote", 7 / 8 * 2 * N / 8),
    "sign_vote:tie=zero": ("vote", 7 / 8 * 3 * N / 8),
    "sign_vote:momentum=0.9": ("vote", 7 / 8 * 2 * N / 8),
    "terngrad": ("code_sum", 7 / 8 * (2 + 5) * N / 8 + 7 / 4 * 4),
    "thc": ("code_sum", 7 / 8 * (4 + 8) * 8192 / 8 + 7 / 4 * 4),
    "integer_allreduce:bits=8": ("code_sum", 7 / 4 * N + 7 / 4 * N / 256),
    "integer_allreduce:bits=16": ("code_sum", 7 / 4 * 2 * N + 7 / 4 * N / 256),
    "integer_allreduce": ("code_sum", 7 / 4 * 4 * N + 7 / 4 * N / 256),
    "onebit_adam": ("own:two_phase", 7 / 4 * N / 8 + 7 * 8),
    "birder": ("own:two_phase", 7 / 4 * N / 8),
    "ok_topk": ("own:two_phase", 7 / 4 * 4 * N),
    # All elements: a stream of N to the nearest, then halves and quarters there and back.
    "sparcml:keep=1": ("streams", 4 + 4 * N + 2 * 3 / 4 * 4 * N),
    # 25 super-groups, of which 8 have 8 bits and 5 have 2; 4 bytes of statistics each.
    "dynamiq": ("own:ring", 7 / 4 * (8 * 274 + 12 * 146 + 5 * 82 + 25 * 4)),
    "dynamiq:widths=four,topology=butterfly": ("own:butterfly", 7 / 4 * 25 * (146 + 4)),
    "fp8_two_shot:e4m3fn": ("own:two_phase", 7 / 4 * N + 7 * 8),
    "fp8_two_shot:e4m3fn,group=256": ("own:two_phase", 7 / 4 * (N + 4 * N / 256)),
    "quickreduce:int8": ("own:two_phase", 7 / 4 * 8.5 * PADDED / 8),
    "quickreduce:int4": ("own:two_phase", 7 / 4 * 4.5 * PADDED / 8),
    "random_k:keep=0.01": ("linear", 7 / 4 * 64 * 4),
    "zero_blocks": ("linear", 7 / 4 * (4 * N + N / 256 / 8)),
    "powersgd": ("linear", 7 / 4 * 4 * 2 * (100 + 64)),
    "error_feedback(powersgd:rank=1)": ("linear", 7 / 4 * 4 * (100 + 64)),
    "error_feedback(qsgd)": ("gather", 7 * (N / 2 + 4 * 13)),
}


@pytest.mark.parametrize("spec", OWN)
def test_reductions_of_their_own_by_formula(trace, spec):
    topology, sent = OWN[spec]
    found = volumes(trace, spec)
    assert set(found) == {"exact", topology}
    assert found[topology][0] == pytest.approx(sent / (7 / 4 * 4 * N), rel=1e-12) and math.isnan(
        found[topology][1]
    )


def test_birder_in_nodes_sends_bits_between_them_and_numbers_inside(trace):
    (between, inside) = volumes(trace, "birder:group=4")["own:two_phase"]
    fp32 = 7 / 4 * 4 * N
    assert between == pytest.approx(1 / 2 * 2 * N / 8 / 4 / fp32, rel=1e-12)
    assert inside == pytest.approx(3 / 4 * (4 * N + N / 8) / fp32, rel=1e-12)


@pytest.mark.parametrize("group", [8, 100])
def test_a_single_node_has_the_volume_of_its_own_links(trace, group):
    """With one node the volume is not near 0: it is the traffic of a ring inside the node."""
    inside = {"none:fp32": 1.0, "none:bf16": 0.5, "aps:e4m3": 0.25}
    for spec, volume in inside.items():
        (found, intra) = volumes(trace, spec, f"hierarchical:{group}")[f"hierarchical:{group}"]
        assert intra == pytest.approx(volume, rel=1e-12)
        assert found == pytest.approx(volumes(trace, spec)["ring"][0], rel=1e-12)
    found, intra = volumes(trace, f"birder:group={group}")["own:two_phase"]
    assert found == intra > 0.5


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_what_is_gathered_grows_with_the_workers(tmp_path, workers):
    """docs/schemes.md, mx: W/2 times the 8.25 bits of a value, over 32."""
    found = volumes(record(tmp_path / "t", workers), "mx")["gather"][0]
    assert found == pytest.approx(workers / 2 * 8.25 / 32, rel=1e-12)


def test_side_information_does_not_change_the_class_of_a_volume(request):
    found = apscope.replay(
        request.config.rootpath / "notebooks/data/digits",
        ["aps:e4m3", "mx", "none:bf16"],
        steps="0:1",
        topology="ring",
    ).summary()
    volume = found[found.topology != "exact"].set_index("scheme").volume
    assert 0.25 < volume["aps:e4m3"] < 0.251
    assert at_most(volume, 0.25).to_dict() == {"aps:e4m3": True, "mx": False, "none:bf16": False}
    assert at_most(0.5, 0.5) and not at_most(0.502, 0.5) and not at_most(math.nan, 0.5)


def test_what_nobody_runs_and_one_worker_have_no_volume(trace, tmp_path):
    for spec in ("aps:e4m3", "cpd:e4m3", "aps:e4m3,accumulate=exact"):
        found = volumes(trace, spec, ["sequential", "sequential+kahan"])
        assert all(math.isnan(v) for pair in found.values() for v in pair)
    assert math.isnan(volumes(trace, "aps:e4m3,accumulate=exact")["ring"][0])
    one = volumes(record(tmp_path / "one", 1, 64), "aps:e4m3", ["ring", "tree", "hierarchical:2"])
    assert len(one) == 4 and all(math.isnan(v) for pair in one.values() for v in pair)


def test_a_scheme_of_the_users_sends_what_its_parts_say(trace):
    """Compensated, the base's sums; encoded anew, its own bits in a gather."""
    memory = apscope.schemes.define(
        "volume_memory", "aps:e4m3,accumulate=fp16", compensate=lambda step, state, x: x / 2
    )
    assert volumes(trace, memory)["ring"][0] == pytest.approx(0.5 + 1 / (4 * N), rel=1e-12)
    signs = apscope.schemes.define(
        "volume_signs",
        "terngrad",
        encode=lambda step, theta, x, worker: np.sign(x),
        reduce=lambda step, state, theta, v: v.sum(axis=0),
        bits=2,
    )
    assert volumes(trace, signs)["code_sum"][0] == pytest.approx(2 / 32, rel=1e-12)


def test_step_time_and_volume_speak_of_the_same_bytes(trace):
    """Where bandwidth is all, the modelled seconds are the volume's bytes; a tree's critical path
    alone is longer."""
    free = cost.Network(latency=0.0, bandwidth=1e9, pass_cost=0.0)
    specs = [s for s in (*RING, *OWN, "birder:group=4") if not s.startswith("hybrid")]
    results = apscope.replay(trace, specs, topology=["ring", "hierarchical:4"])
    frame, modelled = results.frame, cost.step_time(results, free).set_index(["scheme", "topology"])
    for row in frame[frame.volume.notna()].itertuples():
        seconds = modelled.loc[row.scheme, row.topology]
        bytes_ = row.volume * 7 / 4 * 4 * N
        assert seconds.payload_bytes + seconds.side_bytes == pytest.approx(bytes_, rel=1e-9), (
            row.scheme,
            row.topology,
        )


def test_a_tensor_without_elements_leaves_the_volume_of_the_others(tmp_path):
    trace = recorded.record(tmp_path / "t", [{"w": np.ones((2, 64)), "empty": np.zeros((2, 0))}])
    found = apscope.replay(trace, "none:bf16", topology="ring").summary().set_index("topology")
    assert found.volume["ring"] == 0.5


#: Schemes whose messages have one width a value, and others.
WIDTHS = {
    "aps:e3m4": 8, "aps:e2m1": 4, "current_scaling:e4m3,agree=local": 8, "stochastic:e5m2": 8,
    "natural": 9, "qsgd:levels=7": 4, "error_feedback(qsgd:levels=7)": 4, "zipml:levels=4": 2,
    "sign": 1, "mx:block_format=mxfp4": 4, "nvfp4": 4, "qsgd:levels=7,code=elias": None,
    "top_k": None, "fft_sparse": None, "residual(aps:e3m4)": None, "multipoint": None,
}  # fmt: skip


@pytest.mark.parametrize("spec", WIDTHS)
def test_the_second_phase_of_another_scheme_has_its_width(trace, spec):
    """Half of the bytes in each phase; scales are less than an eighth of them."""
    for second, bits in ("aps:e5m2", 8), ("none:bf16", 16), ("residual(aps:e5m2)", None):
        topology = f"two_phase,phase2=({second})"
        volume, _ = volumes(trace, spec, topology)[topology]
        if WIDTHS[spec] is None or bits is None:
            assert math.isnan(volume)
        else:
            assert volume == pytest.approx((WIDTHS[spec] + bits) / 64, rel=0.125)
