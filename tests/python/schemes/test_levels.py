"""Hierarchies of two levels (docs/definitions.md, section 1): bit for bit against an independent
implementation, the same by every way to them, and what the cost model says of them."""

import itertools
import math

import numpy as np
import pytest

import apscope
from apscope.cli import main
from tests.python.recorded import record
from tests.python.schemes.test_two_phase import inputs
from tests.reference import levels as reference
from tests.reference import traffic
from tests.reference.allreduce import Adder
from tests.reference.compare import same
from tests.reference.random_words import philox, replay_key
from tests.reference.schemes import Scheme, codes_of
from tests.reference.topologies import reduce as in_topology

#: Workers and groups: in groups that are equal, that are not, of one, and of all.
SIZES = [(1, 4, 9), (2, 1, 10), (2, 2, 7), (5, 2, 64), (8, 4, 100), (12, 8, 33), (64, 8, 70), (64, 24, 130), (6, 9, 50), (3, 2, 0)]  # fmt: skip

#: The levels of a topology, by the formats that the scheme itself has.
LEVELS = {
    "ring,ring": ("ring", "", "ring", ""),
    "two_phase,two_phase@e4m3": ("two_phase", "", "two_phase", "e4m3"),
    "nccl:ring@e5m2,two_phase@e4m3": ("nccl:ring", "e5m2", "two_phase", "e4m3"),
    "reduce_scatter,two_phase": ("reduce_scatter", "", "two_phase", ""),
    "fp32_accumulate@bf16,nccl:tree@e5m2": ("fp32_accumulate", "bf16", "nccl:tree", "e5m2"),
    "torch:one_shot@bf16,butterfly": ("torch:one_shot", "bf16", "butterfly", ""),
    "tree@fp16,reduce_scatter@e3m4": ("tree", "fp16", "reduce_scatter", "e3m4"),
}


@pytest.mark.parametrize("kind", ["random", "subnormal", "overflow", "special", "zeros"])
@pytest.mark.parametrize(("name", "scaled"), [("e4m3fn", False), ("e5m2", True), ("bf16", False)])
@pytest.mark.parametrize("levels", LEVELS)
def test_sums_are_those_of_the_definition(levels, name, scaled, kind):
    inner, inner_format, outer, outer_format = LEVELS[levels]
    spec = f"aps:{name},rule=tight" if scaled else f"none:{name}"
    for workers, group, n in SIZES:
        x = inputs(kind, workers, n)
        topology = f"hierarchical:{group}({levels})"
        found = apscope.exchange(spec, x, topology=topology)
        assert found.reduction == topology
        wanted = reference.reduce(
            x, group, (inner, inner_format or name, scaled), (outer, outer_format or name, scaled)
        )
        assert same(found.reduced, wanted), (workers, group, n)


@pytest.mark.parametrize("spec", ["aps:e3m4,rule=tight,unit=32", "mx", "qsgd:levels=7,bucket=64"])
def test_a_level_is_an_exchange_of_its_own(spec):
    """The composition of two reductions that each exist alone, for any scheme of one tensor."""
    x = inputs("random", 7, 200)
    inside, over = ("two_phase", "reduce_scatter") if "aps" not in spec else ("two_phase", "ring")
    found = apscope.exchange(spec, x, topology=f"hierarchical:3({inside},{over})")
    if found.variance is not None:  # draws with keys of its own
        assert np.isfinite(found.reduced).all()
        return
    sums = []
    for rows in (x[:3], x[3:6], x[6:]):
        alone = apscope.exchange(spec, rows, topology=inside)
        assert same(found.sent[3 * len(sums) : 3 * len(sums) + len(rows)], alone.sent)
        sums.append(alone.reduced.astype(np.float32))
    assert same(found.reduced, apscope.exchange(spec, np.array(sums), topology=over).reduced)


def test_constant_scales_make_it_the_order_of_a_hierarchy():
    for spec, (workers, group, n) in itertools.product(
        ["none:e5m2", "none:bf16", "loss_scaling:e4m3,scale=16"], SIZES
    ):
        x = inputs("random", workers, n)
        plain = apscope.exchange(spec, x, topology=f"hierarchical:{group}")
        levels = apscope.exchange(spec, x, topology=f"hierarchical:{group}(sequential,sequential)")
        assert same(plain.sent, levels.sent) and same(plain.reduced, levels.reduced)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    rng = np.random.default_rng(2)
    x = {name: rng.standard_normal((4, *shape)).astype(np.float32)
         for name, shape in {"a": (3700,), "b": (50, 130), "c": (4100,)}.items()}  # fmt: skip
    return record(tmp_path_factory.mktemp("three") / "t", [x])


@pytest.mark.parametrize("topology", ["hierarchical:2(ring,ring)", "hierarchical:2(ring@e5m2,tree)",
                                      "hierarchical:2(two_phase,two_phase)"])  # fmt: skip
def test_a_summary_of_a_policy_has_the_levels_of_some_branches(three, topology):
    """A branch that has a reduction of its own only takes part with it."""
    spec = "hybrid(last=current_scaling:e4m3,agree=local;else=aps:e4m3)"
    results = apscope.replay(three, spec, topology=[topology, "ring"])
    rows = results.frame[results.frame["stage"] == "reduced"].set_index(["tensor", "topology"])
    last = ("c", topology if ("c", topology) in rows.index else "gather")
    assert (last[1] == "gather") == topology.startswith("hierarchical:2(ring")
    part = rows.loc[[("a", topology), ("b", topology), last]]
    mean = part["sum_log2_error_over_noise"].sum() / part["noise_blocks"].sum()
    found = results.summary().reset_index().set_index("topology").loc[topology]
    assert found["error_over_noise"] == pytest.approx(2.0**mean, rel=1e-12)


def test_the_time_of_a_policy_is_that_of_the_levels_formats(three):
    """A level's format replaces those of all branches: bytes and time are then of one scheme."""
    network = apscope.cost.Network.of("nvlink4", "ethernet_25", nodes=2)
    topology = "hierarchical:2(ring@e5m2,two_phase@e5m2)"
    policy, alone = (
        apscope.cost.step_time(apscope.replay(three, spec, topology=topology), network)
        .set_index("topology").loc[topology]
        for spec in ("hybrid(last=none:fp16;else=none:e4m3)", "none:e4m3")
    )  # fmt: skip
    for column in ("payload_bytes", "node_bytes", "intra_bytes"):
        assert policy[column] == alone[column] > 0
    assert math.isfinite(policy["seconds"])


def level_key(key, number):
    return tuple(map(int, philox([number, 0, 0, 4 << 28], key)[:2]))


def test_every_group_and_the_groups_sums_draw_words_of_their_own():
    spec = "none:e5m2,rounding=stochastic"
    scheme, x = Scheme.parse(spec), inputs("random", 5, 40)
    found = apscope.exchange(spec, x, topology="hierarchical:2(ring,tree)", seed=3, step=7)
    key, sums = replay_key(3, "x", 7), []
    r = scheme.hop_rounding

    def exchanged(rows, order, number):
        own = level_key(key, number)
        codes = codes_of(rows, 1.0, scheme, own)
        if len(rows) == 1:
            return codes, codes[0]
        return codes, in_topology(codes, order, Adder(scheme.f, r, own, rows.shape[1]))

    for g in range(3):
        rows = x[2 * g : 2 * g + 2]
        codes, total = exchanged(rows, "ring", g)
        assert same(found.sent[2 * g : 2 * g + 2], codes)
        sums.append(total.astype(np.float32))
    assert same(found.reduced, exchanged(np.array(sums), "tree", 3)[1])


def test_either_level_alone_may_draw(tmp_path):
    """The variance over draws is that of errors: hops inside, encodings, or hops between groups."""
    trace = record(tmp_path / "t", [{"g": inputs("random", 6, 400)}], "sum")
    for spec, topology in (
        ("aps:e4m3,rounding=stochastic", "hierarchical:2(ring,ring)"),
        ("aps:e4m3,hop_rounding=stochastic", "hierarchical:6(ring,ring)"),
        ("aps:e4m3,hop_rounding=stochastic", "hierarchical:1(ring,tree)"),
        ("stochastic:e4m3fn", "hierarchical:4(two_phase,reduce_scatter)"),
    ):
        frame = apscope.replay(trace, spec, topology=topology, draws=32).frame
        row = frame[(frame.stage == "reduced") & (frame.topology == topology)].iloc[0]
        expected = row["expected_variance"] + row["expected_bias"] ** 2
        assert row["expected_variance"] > 0
        assert expected == pytest.approx(row["sum_squared_error"] / 400, rel=0.5)


TOPOLOGY = "hierarchical:3(nccl:ring@e5m2,two_phase@e4m3,sum=bf16)"


def test_a_replay_has_the_errors_of_exchange(tmp_path):
    rng = np.random.default_rng(1)
    x = {name: rng.standard_normal((4, *shape)).astype(np.float32)
         for name, shape in {"a.weight": (20, 30), "a.bias": (20,)}.items()}  # fmt: skip
    trace = record(tmp_path / "t", [x], "sum")
    specs = ["aps:e3m4,rule=tight", "none:fp32", "sign_vote",
             "hybrid(role:bias=none:bf16;else=aps:e4m3)"]  # fmt: skip
    topologies = [TOPOLOGY, "hierarchical:2(two_phase@bf16,two_phase)",
                  "hierarchical:3(two_phase,reduce_scatter)"]  # fmt: skip
    frame = apscope.replay(trace, specs, topology=["ring", *topologies]).frame
    for spec, topology, (name, rows) in itertools.product(specs[:2], topologies, x.items()):
        found = apscope.exchange(spec, rows, tensor=name, topology=topology)
        row = frame.query(
            "scheme == @spec and tensor == @name and stage == 'reduced' and topology == @topology"
        )
        error = found.reduced - rows.astype(np.float64).sum(0)
        assert len(row) == 1
        assert row["sum_squared_error"].iloc[0] == pytest.approx((error**2).sum(), rel=1e-12)
    assert set(frame.loc[frame.scheme == "sign_vote", "topology"]) == {"", "exact", "vote"}
    of_policy = frame[(frame.scheme == specs[3]) & (frame.topology == TOPOLOGY)]
    assert set(of_policy.loc[of_policy.stage == "reduced", "tensor"]) == set(x)
    # The ring's rows are what they are without the hierarchy.
    kept = frame[~frame["topology"].isin(topologies)].reset_index(drop=True)
    alone = apscope.replay(trace, specs, topology="ring").frame
    assert kept.equals(alone.astype(kept.dtypes.to_dict()))


def test_its_name_passes_through_tables_and_the_command_line(tmp_path, capsys, request):
    trace, folder = request.config.rootpath / "notebooks/data/digits", str(tmp_path / "r")
    words = ["replay", str(trace), "--scheme", "aps:e4m3", "--topology", TOPOLOGY, "-o", folder]
    assert main([*words, "--topology", "ring"]) == 0
    results = apscope.Results.open(folder)
    assert set(results.frame["topology"]) == {"", "exact", "ring", TOPOLOGY}
    table = apscope.Results.read_csv(tmp_path / "r" / "results.csv")
    assert table["topology"].isin([TOPOLOGY]).any()
    capsys.readouterr()
    assert main(["summary", folder, "--topology", TOPOLOGY]) == 0
    assert TOPOLOGY in capsys.readouterr().out


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ("hierarchical:8(ring)", "has 1 level in its parentheses; give two"),
        ("hierarchical:8(ring,tree,ring)", "has 3 levels"),
        ("hierarchical:8(ring,rings)", "has the level 'rings'; a level is sequential"),
        ("hierarchical:8(exact,ring)", "has the level 'exact'"),
        ("hierarchical:8(ring,sequential[+]kahan)", "has the level 'sequential"),
        ("hierarchical:8(hierarchical:2,ring)", "has the level 'hierarchical:2'"),
        ("hierarchical(ring,ring)", "needs a group size"),
        ("hierarchicalX4(ring,ring)", "unknown topology"),
        ("hierarchical:0(ring,ring)", "needs a group size"),
        ("hierarchical:8(ring@e9,ring)", "e9"),
        ("hierarchical:8(ring@,ring)", "has no format after 'ring@'"),
        ("hierarchical:8(ring,two_phase,sum=exact,sum=fp32)", "has the key 'sum' twice"),
        ("hierarchical:8(ring,two_phase,sums=bf16)", "its keys are sum="),
        ("hierarchical:8(ring,ring", "does not end with a parenthesis"),
    ],
)
def test_refusals_of_names(topology, words):
    with pytest.raises(ValueError, match=words) as error:
        apscope.exchange(
            "aps:e4m3", np.ones((2, 3), np.float32), topology=topology.replace("[+]", "+")
        )
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("spec", "levels", "words"),
    [
        ("mx", "ring,two_phase", "scales of their own, so level 'ring' cannot add its codes"),
        ("qsgd", "two_phase@e4m3,two_phase", "has no format that level 'two_phase@e4m3'"),
        ("error_feedback(aps:e4m3)", "ring,ring", "does more to a tensor than scale and round"),
        ("mx", "two_phase,two_phase@e5m2", "e5m2"),
        ("mx:bucket=25MB", "two_phase,two_phase", "has blocks that cross tensors, but a level"),
        ("aps:e4m3,unit=model", "ring,ring", "has one scale for several tensors"),
        ("aps:e4m3,unit=model", "two_phase,ring", "does not encode a tensor by itself"),
    ],
)  # fmt: skip
def test_a_scheme_that_levels_cannot_reduce_is_refused(tmp_path, spec, levels, words):
    x, topology = np.ones((4, 3), np.float32), f"hierarchical:2({levels})"
    with pytest.raises(ValueError, match=words):
        apscope.exchange(spec, x, topology=topology)
    trace = record(tmp_path / "t", [{"g": x}], "sum")
    with pytest.raises(ValueError, match=words):
        apscope.replay(trace, spec, topology=topology)
    # Beside a scheme that they reduce, it has its other rows.
    frame = apscope.replay(trace, [spec, "none:bf16"], topology=topology).frame
    rows = frame[frame["topology"] == topology]
    assert set(rows["scheme"]) == {"none:bf16"}


def test_block_formats_change_with_the_level():
    x = inputs("random", 6, 128)
    found = apscope.exchange("mx", x, topology="hierarchical:3(two_phase,two_phase@mxfp4)")
    sums = [apscope.exchange("mx", rows, topology="two_phase").reduced.astype(np.float32)
            for rows in (x[:3], x[3:])]  # fmt: skip
    over = apscope.exchange("mx:block_format=mxfp4", np.array(sums), topology="two_phase")
    assert same(found.reduced, over.reduced)


# Bytes
# ------------------------------------------------------------------------------------------

SENT = {"ring": traffic.ring, "two_phase": traffic.shards, "tree": traffic.tree,
        "butterfly": traffic.halving, "nccl:tree": traffic.double_tree}  # fmt: skip


@pytest.mark.parametrize(("workers", "group"), [(8, 4), (8, 2), (10, 4), (8, 8), (6, 9)])
@pytest.mark.parametrize("inner", ["ring", "two_phase", "butterfly"])
@pytest.mark.parametrize("outer", list(SENT))
def test_volumes_are_those_of_the_played_collectives(tmp_path, workers, group, inner, outer):
    n = 240
    rng = np.random.default_rng(0)
    x = {"g": rng.standard_normal((workers, n)).astype(np.float32)}
    topology = f"hierarchical:{group}({inner}@fp16,{outer}@e5m2)"
    frame = apscope.replay(record(tmp_path / "t", [x], "sum"), "none:bf16", topology=topology).frame
    row = frame[(frame["topology"] == topology) & (frame["stage"] == "reduced")].iloc[0]
    assert row["wire_bits"] == 16 * n
    groups = math.ceil(workers / group)
    fewest, inside = workers - (groups - 1) * group, min(workers, group)
    fp32 = traffic.busiest(traffic.ring(workers), 4 * n, 4 * n)
    result = n if groups > 1 else 2 * n  # bytes of the last encoding
    within = traffic.busiest(SENT[inner](inside), 2 * n, result) / fp32
    between = traffic.busiest(SENT[outer](groups), n / fewest, n / fewest) / fp32
    assert row["intra_volume"] == pytest.approx(within)
    assert row["volume"] == pytest.approx(between if groups > 1 else within)


def test_a_scale_that_only_the_groups_members_agree_on_is_sent_between_the_groups(tmp_path):
    n, x = 240, {"g": inputs("random", 8, 240)}
    found = {}
    for outer in ("ring", "two_phase"):
        topology = f"hierarchical:4(ring,{outer})"
        frame = apscope.replay(
            record(tmp_path / outer, [x], "sum"), "aps:e5m2", topology=topology
        ).frame
        found[outer] = frame[(frame["topology"] == topology) & (frame["stage"] == "reduced")].iloc[
            0
        ]
    fp32 = traffic.busiest(traffic.ring(8), 4 * n, 4 * n)
    agreed = traffic.busiest(traffic.ring(8), 1, 1)
    between = traffic.busiest(traffic.ring(2), n / 4, n / 4)  # the same in two phases
    # Two phases of two groups: one byte with the one message of either phase.
    assert found["ring"]["volume"] == pytest.approx((between + agreed) / fp32)
    assert found["two_phase"]["volume"] == pytest.approx((between + agreed + 2) / fp32)


def test_its_time_is_that_of_both_levels(tmp_path):
    rng = np.random.default_rng(0)
    x = {"g": rng.standard_normal((8, 6400)).astype(np.float32)}
    topologies = ["hierarchical:4(ring,ring)", "hierarchical:4(ring,two_phase@e5m2)",
                  "hierarchical:2(ring,ring)", "hierarchical:4"]  # fmt: skip
    results = apscope.replay(record(tmp_path / "t", [x], "sum"), "none:bf16", topology=topologies)
    network = apscope.cost.Network.of("nvlink4", "ethernet_25", nodes=2)
    times = apscope.cost.step_time(results, network).set_index("topology")
    assert math.isnan(times.loc[topologies[2], "seconds"])  # a group is not a node
    # Decoded twice, by a pass over memory each: not all of the seconds is the same.
    assert times.loc[topologies[0], "seconds"] == pytest.approx(
        times.loc["hierarchical:4", "seconds"], rel=1e-4
    )
    for column in ("node_bytes", "intra_bytes", "messages"):
        assert times.loc[topologies[0], column] == pytest.approx(
            times.loc["hierarchical:4", column]
        )
    assert times.loc[topologies[1], "node_bytes"] == pytest.approx(
        times.loc["hierarchical:4", "node_bytes"] / 2
    )
