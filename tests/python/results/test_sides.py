"""The way from one side of a comparison to the other: the reduction first, then the schemes."""

import math

import pytest

import apscope
from apscope._results.differences import Sent, sides_differ


@pytest.fixture(scope="module")
def results(request):
    return apscope.replay(
        request.config.rootpath / "notebooks/data/digits",
        ["loss_scaling:e3m4,scale=largest", "aps:e3m4,unit=model", "aps:e3m4", "qsgd"],
        steps=[0, 8, 240],
        topology=["ring", "two_phase"],
    )


def test_the_reduction_is_changed_first_and_factors_multiply_to_the_total(results):
    a, b = "aps:e3m4", "loss_scaling:e3m4,scale=largest"
    table = results.decompose(f"{a}@two_phase", f"{b}@ring")
    assert table["change"].tolist() == ["reduction", "scale", "headroom and scale", "all"]
    first = table.iloc[0]
    assert (first["from_scheme"], first["to_scheme"]) == (b, b)
    assert (first["before"], first["after"]) == ("ring", "two phases")
    error = results.summary().set_index(["scheme", "topology"])["step_nmse"]
    factors = [error[b, "ring"] / error[b, "two_phase"]] + [
        error[one, "two_phase"] / error[other, "two_phase"]
        for one, other in ((b, "aps:e3m4,unit=model"), ("aps:e3m4,unit=model", a))
    ]
    assert table["factor"].tolist() == pytest.approx([*factors, math.prod(factors)])
    assert math.prod(table["factor"].iloc[:-1]) == pytest.approx(table["factor"].iloc[-1])


def test_without_names_both_sides_are_in_the_headline(results):
    a, b = "aps:e3m4", "aps:e3m4,unit=model"
    plain = results.decompose(a, b)
    assert plain.equals(results.decompose(a, b, "ring"))
    assert plain.equals(results.decompose(f"{a}@ring", b))
    assert not plain.equals(results.decompose(a, b, "two_phase"))
    assert results.decompose(f"{a}@two_phase", b).equals(results.decompose(a, b, "two_phase"))
    # A scheme without the other's reduction has its own; no chain leads there.
    (total,) = results.decompose("qsgd@gather", f"{a}@ring").to_dict("records")
    error = results.summary().set_index(["scheme", "topology"])["step_nmse"]
    assert total["change"] == "all" and total["factor"] == pytest.approx(
        error[a, "ring"] / error["qsgd", "gather"]
    )


def test_a_side_names_a_reduction_in_any_spelling(results):
    a, b = "aps:e3m4", "aps:e3m4,unit=model"
    plain = results.decompose(f"{a}@two_phase", f"{b}@two_phase")
    assert results.decompose(f"{a}@two_phase,sum=fp32", f"{b}@two_phase").equals(plain)
    compared = results.compare(f"{a}@two_phase", f"{a}@ring")
    assert results.compare(f"{a}@two_phase,sum=fp32", f"{a}@ring").equals(compared)
    with pytest.raises(ValueError, match="has no topology 'two_phase,sum=exact'"):
        results.compare(f"{a}@two_phase,sum=exact", f"{a}@ring")


@pytest.mark.parametrize("sides", [("aps:e3m4@", "qsgd"), ("aps:e3m4", "aps:e3m4@")])
def test_a_side_with_nothing_after_its_mark_is_refused(results, sides):
    words = "^'aps:e3m4@' has no topology after the @, as in aps:e3m4@ring$"
    for method in (results.compare, results.decompose):
        with pytest.raises(ValueError, match=words):
            method(*sides)


def test_levels_of_two_phases_leave_no_room():
    """In all of them each message is decoded before it is added."""
    spec = "aps:e4m3fn,rule=tight"
    for levels, differ in (
        ("two_phase,two_phase@e3m4", True),
        ("nccl:ring@bf16,two_phase@e3m4", False),
    ):
        sides = (Sent(spec, "ring", 0.25), Sent(spec, f"hierarchical:8({levels})", 0.25))
        (reduction,) = sides_differ(*sides)
        assert ("(headroom one)" in reduction[2]) == differ
