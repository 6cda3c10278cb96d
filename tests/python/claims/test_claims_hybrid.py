"""Hybrid precision: H1 to H3, the presets and the greedy choice."""

import numpy as np
import pytest

import apscope
from apscope import hybrid
from tests.python.one_bit_claims import DATA
from tests.python.recorded import record

LOW, HIGH = "aps:e3m0", "aps:e5m2"


@pytest.fixture(scope="module")
def trace():
    return apscope.open_trace(DATA / "digits")


@pytest.fixture(scope="module")
def results(trace):
    return apscope.replay(trace, [LOW, HIGH], topology=["ring"])


def totals(frame):
    f = frame[frame.topology == "exact"]
    bits = (f.wire_bits.astype(float) + f.side_bits.astype(float)).sum() / f["count"].astype(
        float
    ).sum()
    return bits, f.sum_squared_error.sum() / f.sum_squared_reference.sum()


@pytest.mark.parametrize("spec", ["aps:e4m3", "aps:e4m3,unit=64", "qsgd:levels=3", "sign"])
def test_H1_a_hybrid_of_one_scheme_is_that_scheme_bit_for_bit(trace, spec):
    plain = apscope.replay(trace, spec, topology=["ring"]).frame
    for made in (
        hybrid.last_layer(spec, spec),
        hybrid.first_and_last(spec, spec),
        hybrid.warmup(2, spec, spec),
    ):
        mixed = apscope.replay(trace, made, topology=["ring"]).frame
        assert mixed.drop(columns=["scheme", "format", "keys"], errors="ignore").equals(
            plain.drop(columns=["scheme", "format", "keys"], errors="ignore")
        )


def test_the_presets_serve_whom_they_say(trace):
    assert hybrid.last_layer("none:fp16", LOW).spec == "hybrid(last=none:fp16;else=aps:e3m0)"
    assert hybrid.warmup(3, "none:fp32", LOW).branches == [
        ("steps:0:3", "none:fp32"),
        ("else", LOW),
    ]
    names = [t.name for t in trace.manifest.tensors]
    frame = apscope.replay(trace, hybrid.first_and_last("none:fp32", LOW), topology=["ring"]).frame
    wire = frame[frame.stage == "wire"]
    exact = set(wire[wire.sum_squared_error == 0].tensor)
    layer = lambda name: name.rsplit(".", 1)[0]
    assert {n for n in names if layer(n) == layer(names[0])} <= exact and len(exact) < len(names)


def test_H2_the_greedy_front_falls_and_is_convex(results):
    """Among promotions that reduce the error."""
    front = hybrid.greedy(results, LOW, HIGH, bits=9).front
    assert len(front) > 3
    bits, error = front.bits.to_numpy(), front.nmse.to_numpy()
    assert (np.diff(bits) > 0).all() and (np.diff(error) < 0).all()
    slope = -np.diff(error) / np.diff(bits)
    assert (np.diff(slope) <= 1e-12 * slope[0]).all()


def test_H2_a_promotion_that_harms_is_not_made(tmp_path):
    """Values of the 1 + k/4 kind lose nothing in e5m2; e4m3 with W = 1 flushes what e5m2 keeps."""
    tensors = {"wide": [[1, 2.0**-20, 2.0**-25]], "fine": [[1, 1.125, 1.375]]}
    both = apscope.replay(
        record(tmp_path / "t", [tensors], "sum"), ["aps:e5m2", "aps:e4m3"], topology=["ring"]
    )
    found = hybrid.greedy(both, "aps:e5m2", "aps:e4m3", bits=99)
    scheme, front = found.scheme, found.front
    assert front.promoted.tolist() == ["", "fine"] and scheme.branches[0] == (
        "name:^fine$",
        "aps:e4m3",
    )


@pytest.mark.parametrize("budget", [4.1, 5, 6.5, 9])
def test_H3_what_the_front_predicts_is_what_the_hybrid_measures(trace, results, budget):
    """Costs add up exactly; so do squared errors, tensors being independent."""
    found = hybrid.greedy(results, LOW, HIGH, bits=budget)
    scheme, front = found.scheme, found.front
    chosen = front[front.chosen].iloc[-1]
    assert chosen.bits <= budget and not (front.bits[~front.chosen] <= budget).any()
    bits, error = totals(apscope.replay(trace, scheme, topology=["ring"]).frame)
    assert bits == pytest.approx(chosen.bits, rel=1e-14) and error == pytest.approx(
        chosen.nmse, rel=1e-12
    )
    sizes = {t.name: t.size for t in trace.manifest.tensors}
    promoted = set(front.promoted[front.chosen]) - {""}
    by_hand = sum(n * (8 if name in promoted else 4) + 8 for name, n in sizes.items()) / sum(
        sizes.values()
    )
    assert chosen.bits == pytest.approx(by_hand, rel=1e-14)


def test_side_information_does_not_change_a_budgets_class(trace):
    """aps:e4m3 sends 8 bits per value and 8 per tensor, less than 0.1 % of fp32's."""
    both = apscope.replay(trace, ["aps:e4m3", "none:fp16"], steps="0:3", topology=["ring"])
    found = hybrid.greedy(both, "aps:e4m3", "none:fp16", bits=8)
    assert (
        found.scheme.spec == "aps:e4m3"
        and 8 < found.front.bits[0] < 8.032
        and found.front.chosen[0]
    )
    with pytest.raises(ValueError, match="bits=7.9 is below the 8.02"):
        hybrid.greedy(both, "aps:e4m3", "none:fp16", bits=7.9)


def test_the_wire_can_be_what_is_compared(results):
    front = hybrid.greedy(results, LOW, HIGH, bits=9, topology="").front
    assert front.bits.iloc[0] == pytest.approx(
        hybrid.greedy(results, LOW, HIGH, bits=9).front.bits.iloc[0]
    )


@pytest.mark.parametrize("low", ["dynamic_loss_scaling:e4m3", "loss_scaling:e4m3,scale=best"])
def test_a_scheme_with_rows_at_the_wire_for_every_topology_is_counted_once(trace, low):
    results = apscope.replay(trace, [low, "none:fp16"], steps="0:3", topology=["ring", "tree"])
    frame = results.frame[results.frame.scheme == low]
    assert set(frame[frame.stage == "wire"].topology) == {"exact", "ring", "tree"}
    for topology, stage, own in (
        ("exact", "reduced", "exact"), ("tree", "reduced", "tree"), ("", "wire", "ring"),
    ):  # fmt: skip
        rows = frame[(frame.stage == stage) & (frame.topology == own)]
        error = rows.sum_squared_error.where(~rows.skipped, rows.sum_squared_reference)
        front = hybrid.greedy(results, low, "none:fp16", bits=12, topology=topology).front
        assert front.bits[0] == 8 and len(front) > 3
        assert front.nmse[0] == pytest.approx(
            error.sum() / rows.sum_squared_reference.sum(), rel=1e-12
        )


def test_names_are_taken_as_they_are(tmp_path):
    names = ["a.b", "axb", "a(1)", "a;b=c&d", "a+b", "a.b.c", "ä/[x]"]
    trace = record(tmp_path / "t", [{name: [[1.1]] for name in names}], "sum")
    for some in [[n] for n in names] + [names[:1] + names[2:4]]:
        scheme = f"hybrid({hybrid.exactly(some)}=none:fp32;else=none:e5m2)"
        frame = apscope.replay(trace, scheme, topology=["ring"]).frame
        wire = frame[frame.stage == "wire"]
        assert set(wire[wire.sum_squared_error == 0].tensor) == set(some)


def test_errors_name_what_is_wrong(results):
    with pytest.raises(ValueError, match="bits=3 is below"):
        hybrid.greedy(results, LOW, HIGH, bits=3)
    with pytest.raises(ValueError, match="no rows of 'aps:fp16'"):
        hybrid.greedy(results, LOW, "aps:fp16", bits=9)
    with pytest.raises(ValueError, match="steps"):
        hybrid.warmup(-1, LOW, HIGH)


def test_a_skipped_step_is_a_lost_gradient_to_the_greedy_choice():
    low, high = "dynamic_loss_scaling:e4m3,init=65536", "none:fp32"
    results = apscope.replay(DATA / "digits", [low, high], topology="ring")
    front = hybrid.greedy(results, low, high, bits=32.0).front
    f = results.frame.query(f"scheme == '{low}' and stage == 'reduced' and topology == 'exact'")
    lost = f.sum_squared_reference[f.skipped].sum()
    assert lost > 0.1 * f.sum_squared_reference.sum()
    assert front.nmse[0] == pytest.approx(
        (lost + f.sum_squared_error[~f.skipped].sum()) / f.sum_squared_reference.sum(), rel=1e-12
    )


def test_a_branch_remembers_apart_from_the_same_scheme_by_itself():
    spec = "error_feedback(sign)"
    policy = f"hybrid(last=none:fp16;else={spec})"
    alone = [
        apscope.replay(DATA / "digits", s, topology="ring", keep_states=True)
        for s in (spec, policy)
    ]
    both = apscope.replay(DATA / "digits", [spec, policy], topology="ring", keep_states=True)
    for one, name in zip(alone, (spec, policy)):
        assert both.frame[both.frame.scheme == name].reset_index(drop=True).equals(one.frame)
    assert set(both.states["digits"]) == {key for one in alone for key in one.states["digits"]}
    assert all(
        key.startswith((spec + "|", policy + "/" + spec + "|")) for key in both.states["digits"]
    )


def test_a_tensor_that_overflowed_is_promoted_first():
    """Its sums omit values that are not finite, so the remaining error means nothing."""
    low, high = "loss_scaling:e4m3,scale=64", "none:fp16"
    results = apscope.replay(DATA / "digits", [low, high], topology="ring")
    frame = results.frame
    over = set(
        frame.tensor[(frame.scheme == low) & (frame.topology == "ring") & (frame.overflow > 0)]
    )
    front = hybrid.greedy(results, low, high, bits=32.0, topology="ring").front
    assert over and set(front.promoted[1 : len(over) + 1]) == over
    assert (front.nmse[: len(over)] == np.inf).all() and np.isfinite(front.nmse[len(over) :]).all()
