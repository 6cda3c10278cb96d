"""APS against the best single loss scale on the bundled traces: what was found, and how much the
summary decides it.

The rival is one hindsight scale for all layers and steps by the tight rule, with room for the sum
of all workers, so that the two differ only in one scale per layer and step. A ratio is APS over
loss scaling: below 1 APS loses less. The figures were measured by a program that shares nothing
with this package; they are compared to their last printed digit.
"""

import numpy as np
import pytest

import apscope
from apscope._results.comparison import ratios

FORMATS = ("e5m2", "e4m3", "e3m4", "e2m5", "e3m0")
TOPOLOGIES = ["ring", "sequential", "tree", "hierarchical:8", "sequential+kahan"]


def aps(f):
    return f"aps:{f}"


def loss_scaling(f):
    return f"loss_scaling:{f},scale=largest,rule=tight"


@pytest.fixture(scope="module")
def results(request):
    data = request.config.rootpath / "notebooks/data"
    formats = {"digits": FORMATS, "digits_w64": ("e5m2", "e4m3"), "characters": FORMATS}
    return {
        name: apscope.replay(
            data / name,
            [scheme(f) for f in chosen for scheme in (aps, loss_scaling)],
            topology=TOPOLOGIES if name == "digits_w64" else ["ring"],
            steps=[10, 500] if name == "digits_w64" else None,
        )
        for name, chosen in formats.items()
    }


def printed(value, text):
    """Whether a number rounds to these digits, give or take a unit in the last of them where it
    lies between two."""
    digits = len(text.split(".")[1])
    return abs(value - float(text)) <= 0.51 * 10.0**-digits


# Trace, format; at the wire: pooled, geometric mean over layers and steps; of the ring: the same
# two.
RATIOS = [
    ("digits", "e4m3", "1.000", ".936", "1.000", ".968"),
    ("digits_w64", "e4m3", "1.003", ".630", ".997", ".852"),
    ("characters", "e4m3", "1.000", "1.000", "1.000", "1.000"),
    ("digits", "e5m2", "1.000", "1.000", "1.000", "1.000"),
    ("digits_w64", "e5m2", "1.000", "1.000", "1.000", "1.000"),
    ("characters", "e5m2", "1.000", "1.000", "1.000", "1.000"),
    ("digits", "e3m4", "1.22", ".167", "1.15", ".263"),
    ("digits", "e2m5", "1.31", ".281", "1.44", ".272"),
    ("digits", "e3m0", ".611", ".239", ".662", ".335"),
]


@pytest.mark.parametrize(("trace", "format", "wire", "wire_mean", "ring", "ring_mean"), RATIOS)
def test_ratios_pooled_and_over_layers_and_steps(
    results, trace, format, wire, wire_mean, ring, ring_mean
):
    for topology, pooled, mean in (("wire", wire, wire_mean), ("ring", ring, ring_mean)):
        one = (
            results[trace]
            .compare(aps(format), loss_scaling(format), topology, layers=False)
            .iloc[0]
        )
        assert printed(one.nmse_a / one.nmse_b, pooled) and printed(one.geometric_ratio, mean)


@pytest.mark.parametrize("format", ["e3m4", "e2m5"])
def test_pooling_over_everything_turns_the_answer_round(results, format):
    """APS loses less in most layers and steps, and in the mean over steps; pooled it seems to lose
    more."""
    whole = results["digits"].compare(aps(format), loss_scaling(format), "ring")
    one = whole.iloc[0]
    assert one.nmse_a > 1.1 * one.nmse_b and one.step_nmse_a < 0.5 * one.step_nmse_b
    layers = whole.iloc[1:]
    assert layers.wins.sum() > 2 * layers.losses.sum() and (layers.geometric_ratio < 1.01).all()


# The largest NMSE of a layer at a step as sent, of APS and of loss scaling; the share of nonzero
# values sent as 0, in percent.
WORST = [("digits", "e4m3", ".0012", ".0041", "8.6", "14.3"),
         ("digits_w64", "e4m3", ".0008", ".0026", "52.", "55."),
         ("characters", "e4m3", ".0011", ".0011", ".77", ".76"),
         ("digits", "e5m2", ".0048", ".0048", ".05", ".15"),
         ("digits", "e3m4", ".014", "1.", "48.", "55."),
             ("digits", "e2m5", ".31", "1.", "83.", "86."),
                 ("digits", "e3m0", ".63", "1.", "92.", "98.")]  # fmt: skip


@pytest.mark.parametrize(
    ("trace", "format", "worst", "rivals_worst", "underflow", "rivals_underflow"), WORST
)
def test_worst_layer_and_underflow(
    results, trace, format, worst, rivals_worst, underflow, rivals_underflow
):
    one = results[trace].compare(aps(format), loss_scaling(format), "wire", layers=False).iloc[0]
    assert printed(100 * one.underflow_wire_a, underflow) and printed(
        100 * one.underflow_wire_b, rivals_underflow
    )
    cells = ratios(results[trace], aps(format), loss_scaling(format), "wire")
    assert printed(cells.nmse_a.max(), worst) and printed(cells.nmse_b.max(), rivals_worst)


def test_at_e3m4_the_mean_over_steps_says_what_pooling_hides(results):
    found = results["digits"].summary().set_index(["scheme", "topology"])
    one, rival = found.loc[(aps("e3m4"), "ring")], found.loc[(loss_scaling("e3m4"), "ring")]
    assert printed(one.nmse, ".00201") and printed(rival.nmse, ".00175")
    assert printed(one.step_nmse, ".0027") and printed(rival.step_nmse, ".109")
    # Loss scaling sends some layers whole as 0. They have no cosine; the summary counts them as 0.
    cosine = (
        results["digits"]
        .frame.query("topology == 'ring' and stage == 'reduced'")
        .groupby("scheme")
        .cosine.agg(["mean", "size", "count"])
    )
    assert printed(cosine.loc[aps("e3m4"), "mean"], ".9991") and printed(
        cosine.loc[loss_scaling("e3m4"), "mean"], ".9645"
    )
    whole = cosine["mean"] * cosine["count"] / cosine["size"]
    assert (
        printed(one.layer_cosine, ".9991")
        and rival.layer_cosine == pytest.approx(whole[loss_scaling("e3m4")], rel=1e-12)
        and rival.layer_cosine < 0.92
    )
    assert found.index.get_loc((aps("e3m4"), "ring")) < found.index.get_loc(
        (loss_scaling("e3m4"), "ring")
    )
    assert rival.worst_nmse > 1


def test_the_order_of_the_additions_costs_more_than_the_scale(results):
    of_order = (
        results["digits_w64"]
        .pool(["scheme", "topology"])
        .set_index(["scheme", "topology"])
        .nmse[aps("e4m3")]
    )
    for topology, text in (
        ("ring", ".0256"),
        ("sequential", ".0167"),
        ("hierarchical:8", ".0037"),
        ("tree", ".0022"),
        ("sequential+kahan", ".0011"),
    ):
        assert printed(of_order[topology], text)
    between = (
        results["digits_w64"]
        .compare(aps("e4m3"), loss_scaling("e4m3"), "ring", layers=False)
        .iloc[0]
    )
    assert (
        of_order["ring"] / of_order["tree"] > 10
        and abs(np.log(between.nmse_a / between.nmse_b)) < 0.01
    )
    assert between.accumulation_a > 0.98
