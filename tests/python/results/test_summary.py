"""Summaries against plain loops over the rows, and against the gradients themselves."""

import re

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope import cost
from apscope._results import summary
from apscope._results.figures import FIGURES
from tests.python.altered import altered
from tests.python.summary_tables import (
    LAYERS,
    MIXED,
    OWN_ONLY,
    SCHEMES,
    TOPOLOGIES,
    random_results,
    table,
)
from tests.reference.summaries import (
    pooled,
    rows_of,
    same,
    summed_up,
)


@pytest.fixture(scope="module")
def results():
    return random_results()


def test_every_number_of_a_summary_is_that_of_plain_loops(results):
    found = results.summary()
    assert tuple(found.columns) == summary.COLUMNS
    wanted = [
        (t, s, p)
        for t in ("first", "second")
        for s in SCHEMES
        for p in TOPOLOGIES
        if not (s == "qsgd" or s == OWN_ONLY)
    ]
    wanted += [
        ("first", "qsgd", "exact"),
        ("first", "qsgd", "gather"),
        *((t, OWN_ONLY, p) for t in ("first", "second") for p in ("exact", "gather+vote")),
    ]
    wanted += [("wire only", s, "") for s in SCHEMES]
    assert sorted(zip(found.trace, found.scheme, found.topology)) == sorted(wanted)
    for one in found.to_dict("records"):
        by_hand = summed_up(results.frame, one["trace"], one["scheme"], one["topology"])
        for column, value in by_hand.items():
            assert same(one[column], value), (
                one["trace"],
                one["scheme"],
                one["topology"],
                column,
                one[column],
                value,
            )


#: Of a summary of rows alone: no noise by worker, no windows of steps.
WITHOUT_REFERENCE = {
    f"{name}{end}"
    for name in ("error_over_noise", "pooled_error_over_noise")
    for end in ("_corrected", "_low", "_high")
}


def test_every_figure_is_defined_and_has_a_reference(results, request):
    first = results.summary().iloc[0]
    reference = summed_up(results.frame, first["trace"], first["scheme"], first["topology"])
    of_rows = {f.name for f in FIGURES if f.columns == (f.name,) and not f.modelled}
    assert of_rows - set(reference) == WITHOUT_REFERENCE and set(reference) <= of_rows
    text = (request.config.rootpath / "docs/definitions.md").read_text()
    assert all(f"\n## {f.section}. " in text for f in FIGURES) and FIGURES[-1].says
    described = re.sub(r"\s+", " ", summary.summary.__doc__)
    assert all(f.says in described and f"``{f.name}" in described for f in FIGURES)
    assert "{figures}" not in described


def test_the_table_holds_what_the_rules_are_about(results):
    """Otherwise the comparison with the loops would show little."""
    found = results.summary().set_index(["trace", "scheme", "topology"])
    assert (
        found.loc[("first", "none:fp32", "ring"), "overflowed"] == 1
        and found.loc[("first", "dynamic_loss_scaling:e4m3", "ring"), "skipped"] == 3
    )
    assert found.loc[("second", "none:fp32", "ring"), "worst_nmse"] == np.inf
    assert np.isnan(
        found.loc[
            ("first", "mine(1)", "ring"), ["step_nmse", "nmse", "layer_cosine", "volume"]
        ].astype(float)
    ).all()
    assert found.loc[("first", "mine(1)", "ring"), "worst_layer"] != "conv"


def test_a_step_without_gradients_counts_for_nothing_and_a_skipped_one_as_lost(results):
    frame = results.frame[
        (results.frame.trace == "first") & (results.frame.scheme == "dynamic_loss_scaling:e4m3")
    ]
    only = summary.summary(frame[frame.step.isin([0, 20])])  # one skipped, one without a gradient
    assert (
        (only.step_nmse == 1).all()
        and (only.layer_cosine == 0).all()
        and (only.relative_bias == -1).all()
        and (only.worst_nmse == 1).all()
    )
    assert (
        (only.expected_variance == 0).all()
        and only.underflow_wire.isna().all()
        and only.worst_layer.tolist() == ["conv"] * 3
    )


def test_schemes_with_overflow_rank_last_and_those_without_numbers_after_the_others(results):
    found = results.summary()
    assert found.trace.tolist() == sorted(found.trace)
    for _, part in found.groupby(["trace", found.topology == "exact"]):
        whole = part[part.overflowed == 0]
        sound, losing = whole[whole.lost_layers == 0], whole[whole.lost_layers > 0]
        over = part[part.overflowed > 0]
        assert part.index.tolist() == [*sound.index, *losing.index, *over.index]
        known = sound.step_nmse.dropna()
        assert (
            known.is_monotonic_increasing
            and known.index.tolist() == sound.index[: len(known)].tolist()
        )


def test_what_nobody_can_run_stands_behind_what_can_be_run(results):
    """`exact` loses least of all topologies, and is none."""
    for _, part in results.summary().groupby("trace"):
        places = (part.topology == "exact").tolist()
        assert places == sorted(places)


@pytest.mark.parametrize("topology", ["ring", "sequential", "exact", "tree"])
def test_one_row_stands_for_a_scheme(results, topology):
    table = results.summary()
    found = summary.headline(table, topology)
    assert not found.duplicated(["trace", "scheme"]).any() and len(found) == len(
        table[["trace", "scheme"]].drop_duplicates()
    )
    assert found.index.is_monotonic_increasing
    for one in found.itertuples():
        own = {"qsgd": "gather", OWN_ONLY: "gather+vote"}.get(one.scheme)
        wanted = "" if one.trace == "wire only" else own or topology
        assert (
            one.topology == wanted
            if topology in ("ring", "sequential") or own
            else one.topology in ("", "ring", "sequential", topology)
        )


def test_the_front_has_every_reduction_that_ranks():
    """The headline, two phases and a scheme's own, side by side; other orders of the same sums, and
    the ideal, only where there is nothing else."""
    reductions = {
        "aps:e4m3": ["ring", "two_phase", "two_phase,sum=exact", "tree", "exact"],
        "qsgd": ["gather", "two_phase", "exact"],
        "onebit_adam": ["own:two_phase", "exact"],
        "none:e5m2": ["tree", "exact"],
        "mine": ["exact"],
        "wire": [""],
    }
    table = pd.DataFrame(
        [("t", scheme, name) for scheme, names in reductions.items() for name in names],
        columns=["trace", "scheme", "topology"],
        index=range(100, 114),
    )
    found = summary.front(table, "ring")
    assert found.groupby("scheme", sort=False)["topology"].apply(list).to_dict() == {
        "aps:e4m3": ["ring", "two_phase", "two_phase,sum=exact"],
        "qsgd": ["gather", "two_phase"],
        "onebit_adam": ["own:two_phase"],
        "none:e5m2": ["tree"],
        "mine": ["exact"],
        "wire": [""],
    }
    assert found.index.is_monotonic_increasing and found.index.isin(table.index).all()
    # Asked for by name, two phases stand for a scheme that also gathers.
    asked = summary.headline(table, "two_phase").set_index("scheme")["topology"]
    assert asked["qsgd"] == asked["aps:e4m3"] == "two_phase" and asked["none:e5m2"] == "tree"


def test_the_ranking_across_reductions_is_by_error(request):
    """Two phases beside ring: one scheme has both rows, and the order is that of the errors."""
    results = apscope.replay(
        request.config.rootpath / "notebooks/data/digits_w64",
        ["aps:e4m3fn,rule=tight", "mx", "none:bf16"],
        topology=["two_phase", "ring", "tree"],
    )
    found = summary.ranked(results)
    assert sorted(zip(found.scheme, found.topology)) == [
        ("aps:e4m3fn,rule=tight", "ring"), ("aps:e4m3fn,rule=tight", "two_phase"),
        ("mx", "gather"), ("mx", "two_phase"),
        ("none:bf16", "ring"), ("none:bf16", "two_phase"),
    ]  # fmt: skip
    assert found.error_over_noise.is_monotonic_increasing
    errors = found.set_index(["scheme", "topology"]).error_over_noise
    assert (
        errors["aps:e4m3fn,rule=tight", "ring"] > 5 * errors["aps:e4m3fn,rule=tight", "two_phase"]
    )


def test_families_formats_and_times(results):
    found = results.summary(elements=1e6)
    family = dict(zip(found.scheme, found.family))
    assert (
        family["none:fp32"] == "baseline"
        and family["aps:e4m3"] == "APS"
        and family["mine(1)"] == "other"
    )
    model = cost.step_time(results, elements=1e6).set_index(["trace", "scheme", "topology"])
    reduced = found[found.topology != ""]
    assert len(reduced) and reduced.speedup.notna().any()
    for one in reduced.to_dict("records"):
        wanted = model.loc[(one["trace"], one["scheme"], one["topology"])]
        assert same(one["time"], wanted.seconds) and same(one["speedup"], wanted.speedup)
    assert found[found.topology == ""].time.isna().all()
    slow = results.summary(network=cost.Network(bandwidth=1e8))
    assert slow.time.sum() > 10 * results.summary().time.sum()


def test_results_of_an_older_version_are_refused_in_a_sentence(results):
    old = results.frame.drop(columns="sum_signed_error")
    with pytest.raises(
        ValueError,
        match="no column 'sum_signed_error': an older apscope wrote them; replay the trace again",
    ):
        summary.summary(old)


def test_one_step_and_no_rows():
    frame = table()
    one = frame[(frame.step == 0) & (frame.trace == "first")]
    found = summary.summary(one)
    assert (found.step_nmse.fillna(-1) == found.nmse.fillna(-1)).all()
    assert (
        list(summary.summary(frame[:0]).columns) == list(summary.COLUMNS)
        and summary.summary(frame[:0]).empty
    )


def test_every_number_of_a_pool_is_that_of_plain_loops(results):
    by = ["trace", "scheme", "tensor"]
    found = results.pool(by).set_index(by)
    for (trace, scheme, tensor), one in found.iterrows():
        own = {"qsgd": "gather", OWN_ONLY: "gather+vote"}
        topology = "" if trace == "wire only" else own.get(scheme, "ring")
        rows = [r for r in rows_of(results.frame, trace, scheme, topology) if r["tensor"] == tensor]
        wanted = pooled(rows)
        for column in (
            "nmse",
            "mse",
            "variance",
            "sqnr_db",
            "underflow_rate",
            "skipped_steps",
            "steps",
        ):
            assert same(one[column], wanted[column]), (trace, scheme, tensor, column)


def test_pooling_takes_the_rows_that_rank_unless_told_otherwise(results):
    frame = results.frame
    by_stage = results.pool(["stage", "trace", "scheme"])
    assert set(zip(by_stage.stage, by_stage.trace)) == {
        ("wire", "first"),
        ("wire", "second"),
        ("wire", "wire only"),
        ("reduced", "first"),
        ("reduced", "second"),
    }
    reduced = by_stage[by_stage.stage == "reduced"].drop(columns="stage").reset_index(drop=True)
    assert reduced.equals(
        results.pool(["trace", "scheme"])
        .pipe(lambda t: t[t.trace != "wire only"])
        .reset_index(drop=True)
    )
    with_topology = results.pool(["scheme", "topology", "trace"])
    assert set(with_topology.loc[with_topology.scheme == MIXED, "topology"]) == {"", *TOPOLOGIES}
    assert results.pool("scheme").equals(results.pool(["scheme"]))
    with pytest.raises(ValueError, match="no column 'layer' to pool by; they have trace, step"):
        results.pool(["scheme", "layer"])
    with pytest.raises(ValueError, match="pools 8 schemes into one meaningless number"):
        results.pool(["tensor"])
    one = altered(results, frame[frame.scheme == "aps:e4m3"], histograms=pd.DataFrame())
    assert one.pool(["tensor"]).tensor.tolist() == list(LAYERS)
