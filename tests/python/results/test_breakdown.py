"""Summaries by layer, role and step: each is the summary of the rows of that part, and one column
of them is a table."""

import numpy as np
import pandas as pd
import pytest

from apscope._results.breakdown import BY, across, by
from apscope._results.summary import COLUMNS, of_topology, ranked, summary
from tests.python.summary_tables import LAYERS, MIXED, OWN_ONLY, STEPS, random_results


@pytest.fixture(scope="module")
def results():
    found = random_results()
    found.frame["role"] = found.frame["tensor"].map(
        {"conv": "linear", "head": "linear", "norm": "norm", "all": ""}
    )
    return found


@pytest.mark.parametrize("part", BY)
def test_every_number_is_that_of_a_summary_of_the_part_alone(results, part):
    found = by(results.frame, part)
    gone = {"trace", "family", "time", "speedup", "bits_above_limit", f"worst_{part}"}
    assert list(found.columns) == ["trace", part, *(c for c in COLUMNS if c not in gone)]
    places = {"layer": LAYERS, "role": ("linear", "norm", ""), "step": STEPS}[part]
    assert not found.duplicated(["trace", "scheme", part]).any() and set(found[part]) == set(places)
    for place in places:
        # One row per scheme; the layer of a policy that has a reduction of its own stands by itself
        # under that one's name.
        alone = of_topology(
            summary(results.frame[results.frame[BY[part]] == place]), "ring"
        ).set_index(["trace", "scheme"])
        mine = (
            found[found[part] == place]
            .set_index(["trace", "scheme"])
            .drop(columns=[part, "topology"])
        )
        assert set(mine.index) == set(alone.index) and (
            alone.loc[("first", "aps:e4m3"), "topology"] == "ring"
        )
        pd.testing.assert_frame_equal(
            mine, alone.loc[mine.index, mine.columns], check_dtype=False, rtol=1e-12
        )


def test_schemes_stand_as_they_rank_layers_in_the_traces_order_and_steps_ascend(results):
    ranks = {trace: list(rows["scheme"]) for trace, rows in ranked(results).groupby("trace")}
    for part, places in (("layer", list(LAYERS)), ("step", list(STEPS))):
        for trace, rows in results.by(part).groupby("trace"):
            assert list(rows["scheme"].unique()) == ranks[trace]
            assert all(list(one[part]) == places for _, one in rows.groupby("scheme"))


def test_a_topology_is_that_of_schemes_without_their_own(results):
    default, sequential, exact = (
        results.by("layer", topology=name) for name in (None, "sequential", "exact")
    )
    own = ["gather", "gather+vote", ""]
    assert (
        set(default["topology"]) == {"ring", *own}
        and set(sequential["topology"]) == {"sequential", *own}
        and set(exact["topology"]) == {"exact"}
    )
    assert set(default.loc[default["scheme"] == OWN_ONLY, "topology"]) == {"gather+vote", ""}
    assert set(default.loc[default["scheme"] == MIXED, "topology"]) == {"ring", ""}


def test_one_column_is_a_table_with_schemes_across(results):
    chosen = ["none:fp32", "aps:e4m3", "qsgd"]
    table = results.by("layer", "step_nmse", chosen)
    whole = results.by("layer").set_index(["trace", "layer", "scheme"])["step_nmse"]
    assert table.index.names == ["trace", "layer"] and set(table.columns) == set(chosen)
    assert list(table.loc["first"].index) == list(LAYERS)
    for (trace, layer), row in table.iterrows():
        for scheme, value in row.items():
            missing = trace == "second" and scheme == "qsgd"  # which that trace lacks
            assert (
                np.isnan(value)
                if missing
                else (value == whole[trace, layer, scheme] or np.isnan(whole[trace, layer, scheme]))
            )
    assert (
        across(by(results, "step", ["aps:e4m3"]), "step", "worst_layer")
        .loc["first", "aps:e4m3"]
        .notna()
        .any()
    )


def test_schemes_are_known_by_any_spelling(results):
    assert list(results.by("step", schemes=["aps:e4m3,headroom=workers"])["scheme"].unique()) == [
        "aps:e4m3"
    ]
    assert list(results.by("step", schemes="aps:e4m3")["scheme"].unique()) == ["aps:e4m3"]


@pytest.mark.parametrize(("arguments", "sentence"), [
    (("tensor",), "by='tensor' is not one of layer, role, step"),
    (("layer", "nmse_"), "no column 'nmse_' by layer; did you mean 'nmse'?"),
    (("layer", "worst_layer"), "no column 'worst_layer' by layer"),
    (("layer", None, ["aps:e4m4"]), "no scheme 'aps:e4m4'; did you mean 'aps:e4m3'?"),
])  # fmt: skip
def test_what_there_is_not_is_told(results, arguments, sentence):
    with pytest.raises(ValueError, match=sentence.replace("?", r"\?")):
        results.by(*arguments)
    with pytest.raises(ValueError, match="batch_factor=0 is not a positive number"):
        results.by("layer", batch_factor=0)
    with pytest.raises(ValueError, match="no topology 'tree'; use one of exact, ring, sequential"):
        results.by("layer", topology="tree")


def test_without_rows_there_is_an_empty_table(results):
    empty = by(results.frame.iloc[:0], "layer")
    assert (
        len(empty) == 0
        and "error_over_noise" in empty
        and across(empty, "layer", "error_over_noise").empty
    )
