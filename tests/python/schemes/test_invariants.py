"""Invariants of every scheme that rounds to a float grid or to levels block by block, in every
topology."""

from statistics import NormalDist

import numpy as np
import pytest

import apscope
from apscope.record import TraceWriter

TOPOLOGIES = ["sequential", "ring", "tree", "hierarchical:2", "sequential+kahan"]
#: at least one spec per scheme of the registry
SPECS = {
    "none": ["none:e4m3", "none:fp16,rounding=stochastic"],
    "loss_scaling": [
        "loss_scaling:e5m2",
        "loss_scaling:e4m3,scale=3",
        "loss_scaling:e4m3,scale=largest,headroom=sqrt_workers",
    ],
    "dynamic_loss_scaling": ["dynamic_loss_scaling:fp16,init=256"],
    "aps": [
        "aps:e4m3",
        "aps:e3m0,headroom=one",
        "aps:e5m2,rounding=stochastic,random_bits=3",
        "aps:e4m3fn,accumulate=fp32",
    ],
    "stochastic": ["stochastic:e4m3", "stochastic:e5m2,random_bits=3"],
    "qsgd": ["qsgd", "qsgd:levels=1,bucket=20,random_bits=4"],
}
ALL = [spec for specs in SPECS.values() for spec in specs]
DRAWN = [spec for spec in ALL if "stochastic" in spec or "qsgd" in spec]
#: schemes that take their scale from the gradients
SCALED = ["loss_scaling:e4m3,scale=largest", *SPECS["aps"], *SPECS["stochastic"], *SPECS["qsgd"]]
PER_PAIR = """
    counted nonzero underflow overflow nan infinite cosine nmse sqnr_db relative_bias max_ulp
""".split()
ERRORS = [
    *PER_PAIR,
    "sum_error",
    "sum_squared_error",
    "sum_squared_reference",
    "bias",
    "mse",
    "variance",
]


def record(folder, g, reduction="mean"):
    with TraceWriter(folder, workers=len(g), reduction=reduction) as writer:
        for worker, row in enumerate(g):
            writer.add(0, worker, "g", row)
        writer.end_step(0)
    return apscope.open_trace(folder)


def replay(trace, spec, **options):
    return apscope.replay(trace, spec, topology=TOPOLOGIES, **options).frame


def gradients(workers=4, n=50, seed=0):
    """Multiples of 2^-20 below 1: sums of a few are exact in fp32 and fp64, in every order."""
    rng = np.random.default_rng(seed)
    return (rng.integers(-(2**20), 2**20, (workers, n)) >> rng.integers(0, 16, n)).astype(
        np.float32
    ) * np.float32(2.0**-20)


@pytest.mark.parametrize("spec", ALL)
def test_zeros_stay_zeros(tmp_path, spec):
    frame = replay(record(tmp_path / "t", np.zeros((3, 30), np.float32)), spec)
    assert (frame.counted == frame["count"]).all() and (frame.sum_squared_error == 0).all()


@pytest.mark.parametrize("spec", ALL)
def test_one_workers_sum_is_what_it_sent(tmp_path, spec):
    frame = replay(record(tmp_path / "t", gradients(1)), spec)
    wire = frame.iloc[0]
    for _, row in frame[1:].iterrows():
        if row.topology == "gather" and row.format.startswith("uniform"):
            continue  # levels times a norm are narrowed to fp32
        assert row[ERRORS].equals(wire[ERRORS]), row.topology


@pytest.mark.parametrize(
    "spec", [spec for spec in ALL if spec not in DRAWN and "scale=3" not in spec]
)
def test_the_order_of_the_workers_does_not_matter_to_exact_sums(tmp_path, spec):
    """Sums of a few decoded 8-bit codes are exact in fp64 at a power-of-two scale; so are the
    reference's here."""
    g = gradients(5)
    one = replay(record(tmp_path / "one", g), spec)
    two = replay(record(tmp_path / "two", g[[3, 0, 4, 1, 2]]), spec)
    assert one.loc[1, ERRORS].equals(two.loc[1, ERRORS])
    assert one.loc[0, PER_PAIR[:6]].equals(two.loc[0, PER_PAIR[:6]])
    for name in ("e4m3", "e5m2", "e3m0", "e4m3fn"):
        x = np.random.default_rng(2).standard_normal((9, 400)).astype(np.float32)
        total = apscope.allreduce(x, name, topology="exact")
        assert np.array_equal(apscope.allreduce(x[::-1], name, topology="exact"), total)


@pytest.mark.parametrize("exponent", [-30, -1, 7, 40])
@pytest.mark.parametrize("spec", SCALED)
def test_a_power_of_two_goes_through_unchanged(tmp_path, spec, exponent):
    """run(2^k g) = 2^k run(g), bit for bit: errors, rates, topologies and draws alike."""
    g = gradients()
    one = replay(record(tmp_path / "one", g), spec)
    two = replay(record(tmp_path / "two", np.ldexp(g, exponent)), spec)
    for column in PER_PAIR:
        assert one[column].equals(two[column]), column
    for column in ("sum_error", "bias", "expected_bias"):
        assert np.array_equal(np.ldexp(one[column], exponent), two[column], equal_nan=True), column
    for column in "sum_squared_error sum_squared_reference mse variance expected_variance".split():
        assert np.array_equal(np.ldexp(one[column], 2 * exponent), two[column], equal_nan=True), (
            column
        )
    if one.scale_exponent.notna().all():
        assert (one.scale_exponent - exponent).equals(two.scale_exponent)


def threshold(tests):
    """|z| that all of so many standard normals exceed with probability below 1e-6."""
    return NormalDist().inv_cdf(1 - 1e-6 / (2 * tests))


@pytest.mark.parametrize("spec", DRAWN)
def test_means_of_drawn_results_are_the_expected_ones(tmp_path, spec):
    """The mean error of a draw varies by expected_variance / count at the wire, whose pairs are
    drawn apart, and so does `exact` with its own; draws of the same seed are the same."""
    draws, g = 80, gradients(3, 150, seed=5)
    trace = record(tmp_path / "t", g)
    frames = [replay(trace, spec, seed=seed).iloc[:2] for seed in range(draws)]
    assert replay(trace, spec, seed=7).iloc[:2].equals(frames[7])
    for row in (0, 1):  # wire, exact
        first = frames[0].iloc[row]
        assert first.expected_variance > 0
        bias = np.array([f.bias.iloc[row] for f in frames])
        z = (bias.mean() - first.expected_bias) / np.sqrt(
            first.expected_variance / first["count"] / draws
        )
        assert abs(z) < threshold(2 * len(DRAWN)), f"z = {z}"


@pytest.mark.parametrize(
    "spec",
    ["stochastic:e4m3", "qsgd", "none:fp16,rounding=stochastic", "aps:e4m3,rounding=stochastic"],
)
def test_variances_of_drawn_results_are_the_expected_ones(tmp_path, spec):
    """With 32 bits an element's bias is below 2^-32 of a quantum, so a draw's mse has the mean
    expected_variance; its spread is taken from the draws."""
    draws, trace = 80, record(tmp_path / "t", gradients(3, 150, seed=6))
    frames = [replay(trace, spec, seed=seed) for seed in range(draws)]
    for row in (0, 1):
        mse = np.array([f.mse.iloc[row] for f in frames])
        z = (mse.mean() - frames[0].expected_variance.iloc[row]) / (
            mse.std(ddof=1) / np.sqrt(draws)
        )
        assert abs(z) < threshold(8), f"z = {z}"


def test_stochastic_hops_add_their_conditional_variances(tmp_path):
    """Along every topology: unbiased, and the estimate's mean over the paths is the variance
    drawn."""
    draws, trace = 80, record(tmp_path / "t", gradients(6, 150, seed=7))
    frames = [replay(trace, "aps:e4m3,rounding=stochastic", seed=seed) for seed in range(draws)]
    for row in range(1, 5):  # exact, sequential, ring, tree
        bias, mse, estimate = (
            np.array([f[c].iloc[row] for f in frames]) for c in ("bias", "mse", "expected_variance")
        )
        assert abs(bias.mean()) / (bias.std(ddof=1) / np.sqrt(draws)) < threshold(8)
        difference = mse - estimate
        assert abs(difference.mean()) / (difference.std(ddof=1) / np.sqrt(draws)) < threshold(8)


@pytest.mark.parametrize("bits", [1, 3, 8, 32, 64])
def test_every_element_goes_up_as_often_as_its_place_between_neighbours_says(bits):
    """quantize, element by element: E = lo + p (hi - lo) with p = floor(eta 2^N) / 2^N."""
    draws = 4000
    lo, hi = 1.0, 1.125  # neighbours in e4m3
    eta = np.array([0.0, 0.03, 0.25, 0.4, 0.5, 0.77, 0.96])
    x = np.repeat((lo + eta * (hi - lo)).astype(np.float32), draws)
    eta = (np.unique(x).astype(np.float64) - lo) / (hi - lo)
    up = (
        (apscope.quantize(x, "e4m3", rounding="stochastic", random_bits=bits, seed=99) == hi)
        .reshape(-1, draws)
        .sum(axis=1)
    )
    p = np.floor(eta * 2.0**bits) / 2.0**bits
    certain = p == 0
    assert (up[certain] == 0).all()
    z = (up - draws * p)[~certain] / np.sqrt(draws * p * (1 - p))[~certain]
    assert (np.abs(z) < threshold(35)).all(), z
