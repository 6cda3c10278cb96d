"""`apscope.allreduce` against the reference: every topology, rounding and accumulator, bit for
bit."""

import numpy as np
import pytest

import apscope
from apscope import _core
from tests.reference.allreduce import allreduce
from tests.reference.casts import Rounding
from tests.reference.compare import equal
from tests.reference.formats import FORMATS

MODES = """
    ties_to_even ties_to_away toward_zero toward_positive toward_negative to_odd stochastic
""".split()
TOPOLOGIES = [
    *(name.replace(":G", ":3") for name in _core.orders()),
    "hierarchical:1",
    "hierarchical:2",
    "hierarchical:8",
]
MAX = np.finfo(np.float32).max


def inputs(workers, n=61, seed=1):
    """Magnitudes from below the smallest subnormal of fp8 formats to above their largest value."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((workers, n)) * 2.0 ** rng.integers(-18, 10, n)
    x[:, ::7] = x[0, ::7]  # equal values, whose sums stagnate
    x[:, 5] = (-1.0) ** np.arange(workers)
    x[:, 6] = -0.0
    x[workers // 2, 8] = np.inf
    x[0, 9] = np.nan
    x[:, 10] = 2.0**-149
    x[:, 11] = MAX
    x[:, 12] = np.where(np.arange(workers) % 2, -MAX, MAX)
    x[0, 13], x[-1, 13] = np.inf, -np.inf
    x[:, 14] = 2.0 ** -np.arange(workers)
    return x.astype(np.float32)


def check(x, name, topology, rounding=Rounding(), seed=0, **more):
    got = apscope.allreduce(
        x,
        name,
        topology=topology,
        rounding=rounding.mode,
        overflow=rounding.overflow,
        random_bits=rounding.bits,
        seed=seed,
        **more,
    )
    assert got.shape == x.shape[1:] and got.dtype == (
        np.float64 if topology == "exact" else np.float32
    )
    if "accumulate" in more:
        more["accumulate"] = FORMATS[more["accumulate"]]
    if "hop_rounding" in more:
        more["hop_mode"] = more.pop("hop_rounding")
    expected = allreduce(x, FORMATS[name], topology, rounding, seed=seed, **more)
    wrong = np.flatnonzero(~equal(got, expected))
    assert not wrong.size, (
        f"element {wrong[0]}: {x[:, wrong[0]]} gives {got[wrong[0]]!r}, expected "
        f"{expected[wrong[0]]!r}"
    )


@pytest.mark.parametrize("workers", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_topology_at_several_numbers_of_workers(topology, workers):
    for name in ("e4m3", "bf16"):
        check(inputs(workers), name, topology)


@pytest.mark.parametrize(
    "topology", ["sequential", "ring", "tree", "hierarchical:3", "sequential+kahan"]
)
@pytest.mark.parametrize("mode", MODES)
def test_every_rounding(mode, topology):
    for name in ("e5m2", "e4m3fn", "e3m0", "e4m3fnuz", "e2m1fn", "binary8p3se", "fp32"):
        check(inputs(7), name, topology, Rounding(mode), seed=12345678901234567890)


@pytest.mark.parametrize("bits", [1, 8, 16, 17, 32, 33, 64])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_random_bits_of_every_width(topology, bits):
    check(inputs(5), "e4m3", topology, Rounding("stochastic", "saturate", bits), seed=7)


@pytest.mark.parametrize("overflow", ["ieee", "saturate", "infinity", "nan"])
@pytest.mark.parametrize("mode", MODES)
def test_every_overflow_rule(mode, overflow):
    for topology in ("ring", "hierarchical:2+kahan"):
        check(inputs(6), "e4m3", topology, Rounding(mode, overflow), seed=1)


@pytest.mark.parametrize("topology", [t for t in TOPOLOGIES if t != "exact"])
@pytest.mark.parametrize("accumulate", ["fp32", "bf16", "e2m1fn", "fp16"])
def test_an_accumulator_of_another_format(accumulate, topology):
    check(inputs(6), "e5m2", topology, accumulate=accumulate)
    check(
        inputs(6), "fp16", topology, Rounding("stochastic", bits=20), seed=3, accumulate=accumulate
    )


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("accumulate", ["e4m3", "e4m3fnuz", "binary8p4se", "fp16", "fp32"])
def test_the_codes_of_one_worker_pass_as_they_are(topology, accumulate):
    """A zero's sign too, where the accumulator has one zero: nothing is added."""
    x = inputs(1)
    expected = apscope.quantize(x[0], "e4m3")
    assert np.signbit(expected[6]) and expected[6] == 0
    got = apscope.allreduce(x, "e4m3", topology=topology, accumulate=accumulate)
    assert got.astype(np.float32).view(np.uint32).tolist() == expected.view(np.uint32).tolist()


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_inputs_that_enter_as_they_are(topology):
    check(inputs(6), "e4m3", topology, input_cast=False)
    check(inputs(6), "e4m3", topology, Rounding("stochastic"), seed=5, input_cast=False)
    check(inputs(1), "e4m3", topology, input_cast=False)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_sums_rounded_in_another_way_than_the_inputs(topology):
    check(inputs(6), "e4m3", topology, hop_rounding="stochastic", seed=9)
    check(inputs(6), "e4m3", topology, Rounding("stochastic"), hop_rounding="toward_zero", seed=9)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 9, 4095, 4097])
def test_ring_chunks_of_unequal_length(n):
    x = np.random.default_rng(n).standard_normal((8, n)).astype(np.float32)
    for rounding in (Rounding(), Rounding("stochastic")):
        check(x, "e5m2", "ring", rounding, seed=2)


def test_order_matters_and_is_the_one_that_is_written():
    x = np.array([[16.0], [1.0], [1.0], [-16.0]], np.float32)  # at precision 4, 16 + 1 is 16
    sums = {
        t: apscope.allreduce(x, "e4m3", topology=t).item()
        for t in ("exact", "sequential", "tree", "hierarchical:3", "ring")
    }
    # tree: (16 + 1) + (1 - 16); ring: all elements lie in the last rank's chunk, so the order is 0,
    # 1, 2, 3
    assert sums == {
        "exact": 2.0,
        "sequential": 0.0,
        "tree": 1.0,
        "hierarchical:3": 0.0,
        "ring": 0.0,
    }
    assert apscope.allreduce(x, "e4m3", topology="sequential+kahan").item() == 2.0


def test_other_axes_keep_their_shape():
    x = inputs(4, 60)
    flat = apscope.allreduce(x, "e4m3", topology="ring")
    cube = apscope.allreduce(x.reshape(4, 3, 4, 5), "e4m3", topology="ring")
    assert cube.shape == (3, 4, 5) and equal(cube.ravel(), flat).all()
    assert apscope.allreduce(np.zeros((3, 0), np.float32), "e4m3").shape == (0,)
    assert apscope.allreduce(np.float32([[1], [2], [3]]), "e4m3") == [6.0]


def test_a_vector_says_not_whose_its_values_are():
    for sums in (apscope.allreduce, lambda x, _: apscope.exchange("aps:e4m3", x)):
        with pytest.raises(
            ValueError, match="x has shape \\(8,\\); its first axis must be the workers"
        ) as caught:
            sums(np.ones(8, np.float32), "e4m3")
        assert (
            "x[None] is one worker with 8 values, x[:, None] 8 workers with one value each"
            in str(caught.value)
        )


def test_a_group_beyond_any_machine_is_refused():
    for group in ("0", "2147483648", "99999999999"):
        with pytest.raises(
            ValueError, match=f"'hierarchical:{group}' needs a group size of 1 to 2147483647"
        ):
            apscope.allreduce(inputs(2), "e4m3", topology=f"hierarchical:{group}")


def test_what_cannot_be_is_refused():
    x = inputs(4)
    for topology, word in [
        ("ring+kahan", "kahan"),
        ("tree+kahan", "kahan"),
        ("star", "star"),
        ("hierarchical", "hier"),
    ]:
        with pytest.raises(ValueError, match=word):
            apscope.allreduce(x, "e4m3", topology=topology)
    exact = "stochastic_exact"
    for roundings in (
        {"rounding": exact},
        {"hop_rounding": exact},
        {"rounding": exact, "hop_rounding": "ties_to_even"},
    ):
        with pytest.raises(ValueError, match="is only for quantize and encode"):
            apscope.allreduce(x, "e4m3", **roundings)
        with pytest.raises(ValueError, match="is only for quantize and encode"):
            apscope.schemes.Scheme(
                "loss_scaling:e4m3,"
                + ",".join(f"{key}={value}" for key, value in roundings.items())
            )
    with pytest.raises(ValueError, match="workers"):
        apscope.allreduce(np.zeros((0, 3), np.float32), "e4m3")
    with pytest.raises(TypeError, match="float64"):
        apscope.allreduce(x.astype(np.float64), "e4m3")
