"""Comparisons of two schemes against plain loops over the rows."""

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._results import against, comparison
from tests.python.altered import altered
from tests.python.summary_tables import (
    LAYERS,
    LOSS_SCALING,
    MIXED,
    OWN_ONLY,
    random_results,
    table,
)
from tests.reference.summaries import compared, same


@pytest.fixture(scope="module")
def results():
    return random_results()


@pytest.mark.parametrize(("a", "b", "topology", "used"), [
    ("aps:e4m3", LOSS_SCALING, None, ("ring", "ring")),
    ("aps:e4m3", "dynamic_loss_scaling:e4m3", "sequential", ("sequential", "sequential")),
    ("aps:e4m3", "qsgd", "ring", ("ring", "gather")),
    ("qsgd", "aps:e4m3", None, ("gather", "ring")),
    ("qsgd", OWN_ONLY, None, ("gather", "gather+vote")),
    (MIXED, "none:fp32", "ring", ("ring", "ring")),
    ("aps:e4m3", "mine(1)", "ring", ("ring", "ring")),
    ("aps:e4m3", "dynamic_loss_scaling:e4m3", "exact", ("exact", "exact")),
    (OWN_ONLY, "none:fp32", "wire", ("wire", "wire")),
    ("aps:e4m3", "aps:e4m3", None, ("ring", "ring")),
    # Each side with a reduction of its own.
    ("aps:e4m3@sequential", "aps:e4m3@ring", None, ("sequential", "ring")),
    ("aps:e4m3@sequential", "none:fp32", None, ("sequential", "sequential")),
    ("none:fp32", "aps:e4m3@sequential", "ring", ("ring", "sequential")),
    ("aps:e4m3@exact", "aps:e4m3", "ring", ("exact", "ring")),
    ("aps:e4m3@ring", "qsgd", None, ("ring", "gather")),
    ("qsgd@gather", f"{LOSS_SCALING}@exact", None, ("gather", "exact")),
    ("aps:e4m3@sequential", "qsgd@exact", None, ("sequential", "exact")),
    ("aps:e4m3@wire", "none:fp32@wire", None, ("wire", "wire")),
    ("mine(1)@sequential", f"{MIXED}@ring", None, ("sequential", "ring")),
])  # fmt: skip
def test_every_number_of_a_comparison_is_that_of_plain_loops(results, a, b, topology, used):
    found = results.compare(a, b, topology)
    specs = [text.partition("@")[0] for text in (a, b)]
    assert set(zip(found.scheme_a, found.scheme_b)) == {tuple(specs)}
    assert tuple(found.columns) == comparison.COLUMNS
    assert list(found.trace.unique()) == [
        t for t in ("first", "second", "wire only") if not (t == "second" and "qsgd" in specs)
    ]
    for trace, part in found.groupby("trace"):
        unknown = ("head",) if "mine(1)" in specs and trace != "first" else ()
        assert part.layer.tolist() == ["all", *(layer for layer in LAYERS if layer not in unknown)]
        names = ("wire", "wire") if trace == "wire only" else used
        assert set(zip(part.topology_a, part.topology_b)) == {names}
        for i, one in enumerate(part.to_dict("records")):
            layer = one["layer"] if i else None
            for column, value in compared(results.frame, trace, *specs, names, layer).items():
                assert same(one[column], value), (trace, layer, column, one[column], value)
    assert results.compare(a, b, topology, layers=False).equals(
        found[~found.duplicated("trace")].reset_index(drop=True)
    )
    cells = comparison.ratios(results, a, b, topology)
    assert set(zip(cells.topology_a, cells.topology_b)) == {used, ("wire", "wire")}


@pytest.mark.parametrize(("a", "b", "says"), [
    ("aps:e4m3@rnig", "aps:e4m3@ring",
     "'aps:e4m3' has no topology 'rnig' in the results; use one of exact, ring, sequential, wire"),
    ("asp:e4m3@ring", "aps:e4m3", "no scheme 'asp:e4m3'; did you mean 'aps:e4m3'"),
    ("qsgd@ring", "aps:e4m3", "'qsgd' has no topology 'ring' in the results; use one of"),
    ("aps:e4m3@wire", "aps:e4m3@ring", "'aps:e4m3@wire' is what is sent, before any sum; give"),
    ("aps:e4m3@ring", "none:fp32@wire", "'none:fp32@wire' is what is sent, before any sum; give"),
])  # fmt: skip
def test_a_reduction_that_a_side_does_not_have_is_refused(results, a, b, says):
    with pytest.raises(ValueError, match=says):
        results.compare(a, b)


def test_where_nothing_was_reduced_there_is_no_reduction_to_name(results):
    wire = results.frame[results.frame.trace == "wire only"]
    with pytest.raises(ValueError, match="nothing was reduced in the results, .* 'ring'; leave it"):
        comparison.compare(wire, "aps:e4m3@ring", "none:fp32")
    table = comparison.compare(wire, "aps:e4m3@wire", "none:fp32")
    assert set(table.topology_a) == set(table.topology_b) == {"wire"}


def test_a_name_with_an_at_is_no_reduction(results):
    frame = results.frame.assign(scheme=results.frame["scheme"].replace({"qsgd": "mail(a)@home"}))
    table = comparison.compare(frame, "mail(a)@home", "mail(a)@home@exact")
    assert set(table.scheme_a) == set(table.scheme_b) == {"mail(a)@home"}
    assert set(table[table.trace == "first"].topology_b) == {"exact"}
    assert set(table[table.trace == "first"].topology_a) == {"exact"}  # beside the other


def test_one_scheme_against_several_is_one_comparison_after_another(results):
    rivals = ["qsgd", MIXED, "none:fp32"]
    found = results.compare("aps:e4m3", rivals, "ring")
    one_by_one = pd.concat(
        [results.compare("aps:e4m3", b, "ring") for b in rivals], ignore_index=True
    )
    pd.testing.assert_frame_equal(found, one_by_one)
    assert list(found["scheme_b"].unique()) == rivals and set(found["scheme_a"]) == {"aps:e4m3"}
    with pytest.raises(ValueError, match="b is empty; give a scheme to compare 'aps:e4m3' with"):
        results.compare("aps:e4m3", [])


def other_results(results):
    """The same traces without a layer and a step, with a step and a scheme of its own; every error
    twice as large."""
    frame = results.frame[(results.frame.tensor != "norm") & (results.frame.step != 3)].copy()
    frame["sum_squared_error"] *= 2
    frame = frame.assign(step=frame["step"].where(frame["step"] != 7, 8))
    frame["scheme"] = frame["scheme"].replace({"qsgd": "aps:e5m2"})
    return altered(results, frame)


@pytest.mark.parametrize(
    ("a", "b"), [("aps:e4m3", "aps:e4m3"), ("none:fp32", MIXED), (OWN_ONLY, OWN_ONLY)]
)
def test_a_scheme_of_other_results_is_compared_as_if_it_were_among_these(results, a, b):
    other = other_results(results)
    guest = other.frame[other.frame.scheme == b].assign(scheme="guest")
    wanted = comparison.compare(pd.concat([results.frame, guest], ignore_index=True), a, "guest")
    found = results.compare(a, b, against=other)
    pd.testing.assert_frame_equal(found, wanted.assign(scheme_b=b))
    assert (
        set(found["layer"]) == {"all", "conv", "head"}
        and (found.loc[found.trace != "first", "steps"] == 2).all()
    )  # 0 and 20


def test_two_results_beside_each_other(results):
    other = other_results(results)
    table = results.against(other)
    assert (
        tuple(table.columns) == against.COLUMNS and not table.duplicated(["trace", "scheme"]).any()
    )
    held = table.groupby("held_by")["scheme"].unique()
    assert (
        set(held["first"]) == {"qsgd"}
        and set(held["second"]) == {"aps:e5m2"}
        and table.loc[table.held_by != "both", "steps"].isna().all()
    )
    for row in table[table.held_by == "both"].to_dict("records"):
        alone = (
            results.compare(row["scheme"], row["scheme"], layers=False, against=other)
            .set_index("trace")
            .loc[row["trace"]]
        )
        assert all(same(row[c], alone[c]) for c in against.COLUMNS[3:])
    assert against.only(results, other) == [
        ("first", "layer", ["norm"]), ("first", "step", [3, 7]), ("first", "scheme", ["qsgd"]),
        ("second", "step", [8]), ("second", "scheme", ["aps:e5m2"]),
    ]  # fmt: skip
    itself = results.against(results)
    assert (
        (itself.held_by == "both").all()
        and (itself.wins == 0).all()
        and (itself.losses == 0).all()
        and against.only(results, results) == []
    )


def test_results_without_a_place_in_common_are_refused(results):
    frame = results.frame
    renamed = altered(results, frame.assign(trace=frame["trace"] + "'"))
    with pytest.raises(ValueError, match="different traces .*; there is nothing to compare"):
        results.against(renamed)
    assert against.only(results, renamed)[0] == ("first", "trace", ["first", "second", "wire only"])
    one, elsewhere = (
        frame[frame.trace == "first"],
        frame[frame.trace == "second"].assign(step=frame["step"] + 100),
    )
    with pytest.raises(ValueError, match="has a layer and step in common"):
        comparison.compare(one, "aps:e4m3", "aps:e4m3", against=elsewhere)
    assert len(
        comparison.compare(one, "aps:e4m3", "aps:e4m3", against=frame[frame.trace == "second"])
    )  # the only one of each


@pytest.mark.parametrize(
    ("a", "b"),
    [("aps:e4m3", "dynamic_loss_scaling:e4m3"), ("none:fp32", MIXED), ("mine(1)", "aps:e4m3")],
)
def test_ratios_of_layers_and_steps_are_what_a_comparison_sums_up(results, a, b):
    whole, cells = results.compare(a, b, "ring"), comparison.ratios(results, a, b, "ring")
    for trace, part in whole.groupby("trace"):
        mine = cells[cells.trace == trace]
        assert mine.layer.unique().tolist() == part.layer.tolist()[1:]
        for one in part.to_dict("records")[1:]:
            ratio = mine[mine.layer == one["layer"]].ratio.dropna()
            assert (
                len(ratio) == one["steps"]
                and (ratio < 1).sum() == one["wins"]
                and same(one["worst_ratio"], ratio.max())
            )


def test_any_spelling_of_a_scheme_is_taken_and_an_absent_one_told(results):
    assert results.compare(
        "aps:e4m3,headroom=workers", apscope.schemes.LossScaling("e4m3", scale="largest")
    ).equals(results.compare("aps:e4m3", LOSS_SCALING))
    assert len(results.compare("mine(1)", "aps:e4m3"))  # no scheme of this process
    with pytest.raises(
        ValueError, match="the results have no scheme 'aps:e4m2'; did you mean 'aps:e4m3'"
    ):
        results.compare("aps:e4m2", "aps:e4m3")
    with pytest.raises(
        ValueError, match=r"no scheme 'thc'; they have none:fp32, aps:e4m3, .* and 2 more"
    ):
        results.compare("thc", "aps:e4m3")
    with pytest.raises(ValueError, match="no scheme 'aps'; did you mean 'aps:e4m3'"):
        results.compare("aps", "aps:e4m3")
    with pytest.raises(ValueError, match="no trace of the results has both"):
        comparison.compare(
            results.frame[(results.frame.trace == "first") == (results.frame.scheme == "qsgd")],
            "aps:e4m3",
            "qsgd",
        )


def test_a_step_of_no_error_is_a_tie_or_a_ratio_without_bound():
    frame = table()
    frame = frame[frame.trace == "wire only"].copy()
    frame.loc[(frame.scheme == "none:fp32") & (frame.step == 7), "sum_squared_error"] = 0.0
    frame.loc[
        (frame.scheme == "aps:e4m3") & (frame.step == 7) & (frame.tensor == "conv"),
        "sum_squared_error",
    ] = 0.0
    whole, conv, norm, *_ = comparison.compare(frame, "none:fp32", "aps:e4m3").to_dict("records")
    assert conv["ties"] == 1 and 0 < conv["geometric_ratio"] < np.inf
    assert norm["geometric_ratio"] == 0 and whole["geometric_ratio"] == 0
    whole, _, norm, *_ = comparison.compare(frame, "aps:e4m3", "none:fp32").to_dict("records")
    assert norm["worst_ratio"] == np.inf and whole["geometric_ratio"] == np.inf
