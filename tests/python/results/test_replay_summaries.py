"""Summaries, breakdowns, comparisons and pools of replays of the committed traces, whole and merged
from shards, against plain loops over their rows (tests/reference/summaries.py)."""

import math

import pandas as pd
import pytest

import apscope
from tests.reference.noise import pooled_interval, typical_interval
from tests.reference.summaries import compared, overflowed, pooled, rows_of, same, summed_up

SCHEMES = (
    "none:e4m3",
    "aps:e4m3,headroom=one",
    "aps:e4m3",
    "aps:e3m0,unit=32",
    "dynamic_loss_scaling:fp16,init=16777216",
    "qsgd",
    "hybrid(last=sign_vote;else=aps:e4m3)",
    "error_feedback(sign)",
)
TRACES = {"digits": "0:6", "characters": "0:3"}
#: Sums in another order, and a logarithm's steps.
CLOSE = 1e-9


@pytest.fixture(scope="module", params=["whole", "merged"])
def results(request):
    def replayed(**shard):
        return apscope.replay(
            [request.config.rootpath / "notebooks/data" / name for name in TRACES],
            list(SCHEMES),
            topology=["ring", "tree"],
            steps="0:4",
            **shard,
        )

    if request.param == "whole":
        return replayed()
    return apscope.merge([replayed(shard=(i, 3)) for i in range(3)])


def expect(found, wanted, names):
    for column, value in wanted.items():
        assert same(found[column], value, CLOSE), (names, column, found[column], value)


def noise_rows(results, **at):
    noise = results.noise
    for column, value in at.items():
        noise = noise[noise[column] == value]
    rows = noise.to_dict("records")
    return [r | {"without": None if pd.isna(r["without"]) else r["without"]} for r in rows]


def intervals(results, one, rows, **part):
    """The ends of both intervals of a row of a summary over these rows."""
    noise = noise_rows(results, trace=one["trace"], **part)
    low, high = (one["error_over_noise"] * factor for factor in typical_interval(noise))
    out = {"error_over_noise_low": low, "error_over_noise_high": high}
    if not overflowed(rows):
        error = {}
        for r in rows:
            lost = r["sum_squared_reference"] if r["skipped"] else r["sum_squared_error"]
            error[r["step"]] = error.get(r["step"], 0.0) + lost
        low, high = pooled_interval(noise, error)
        out |= {"pooled_error_over_noise_low": low, "pooled_error_over_noise_high": high}
    return out


def test_the_replays_have_what_the_rules_are_about(results):
    rows = results.frame
    assert set(rows["trace"]) == set(TRACES) and rows["skipped"].any()
    assert (rows["overflow"] > 0).any() and rows["sum_squared_error"].isna().any()
    assert {"gather", "vote", "ring", "tree", "exact"} <= set(rows["topology"])


def test_every_row_of_a_summary(results):
    found = results.summary().to_dict("records")
    assert len({(r["trace"], r["scheme"], r["topology"]) for r in found}) == len(found)
    for one in found:
        names = one["trace"], one["scheme"], one["topology"]
        expect(one, summed_up(results.frame, *names), names)
        known = math.isfinite(one["error_over_noise"])
        if known:
            for column, value in intervals(results, one, rows_of(results.frame, *names)).items():
                # Student's quantile is an expansion, within 5e-4 from 5 degrees of freedom on.
                assert one[column] == pytest.approx(value, rel=1e-3), (names, column)


@pytest.mark.parametrize(
    ("part", "column"), [("layer", "tensor"), ("role", "role"), ("step", "step")]
)
def test_every_row_of_a_breakdown(results, part, column):
    frame, chosen = results.frame, ("aps:e4m3", "dynamic_loss_scaling:fp16,init=16777216", "qsgd")
    places = {place: rows for place, rows in frame.groupby(column)}
    found = results.by(part, schemes=chosen).to_dict("records")
    there = frame[frame["scheme"].isin(chosen)]
    assert len(found) == len(there[["trace", "scheme", column]].drop_duplicates())
    for one in found:
        rows = places[one[part]]
        names = one["trace"], one["scheme"], one["topology"]
        wanted = summed_up(rows, *names)
        wanted.pop(f"worst_{part}", None)
        expect(one, wanted, (*names, one[part]))
        wanted = intervals(results, one, rows_of(rows, *names), **{column: one[part]})
        for end, value in wanted.items():
            assert one[end] == pytest.approx(value, rel=1e-3), (names, one[part], end)


@pytest.mark.parametrize(("a", "b"), [
    ("aps:e4m3", "none:e4m3"),
    ("aps:e4m3", "dynamic_loss_scaling:fp16,init=16777216"),
    ("qsgd", "aps:e3m0,unit=32"),
    ("hybrid(last=sign_vote;else=aps:e4m3)", "error_feedback(sign)"),
])  # fmt: skip
def test_every_row_of_a_comparison(results, a, b):
    found = results.compare(a, b)
    for trace, part in found.groupby("trace"):
        for one in part.to_dict("records"):
            used = "+".join(dict.fromkeys((one["topology_a"], one["topology_b"])))
            spec_a, spec_b = one["scheme_a"], one["scheme_b"]
            layer = None if one["whole"] else one["layer"]
            wanted = compared(results.frame, trace, spec_a, spec_b, used, layer)
            expect(one, wanted, (trace, a, b, layer))


@pytest.mark.parametrize("by", [
    ["trace", "scheme", "topology"],
    ["trace", "scheme", "tensor", "topology"],
    ["scheme", "step", "topology"],
])  # fmt: skip
def test_every_row_of_a_pool(results, by):
    frame = results.frame
    pairs = {(trace, scheme): None for trace, scheme in zip(frame["trace"], frame["scheme"])}
    groups = {}
    found = results.pool(by)
    for trace, scheme in pairs:
        for topology in found.loc[found["scheme"] == scheme, "topology"].unique():
            here = (
                rows_of(frame, trace, scheme, topology)
                if topology
                else frame[
                    (frame["trace"] == trace)
                    & (frame["scheme"] == scheme)
                    & (frame["stage"] == "wire")
                    & frame["topology"].isin(["", "ring"])  # of the headline's reduction
                ].to_dict("records")
            )
            for row in here:
                key = tuple((row | {"topology": topology})[name] for name in by)
                groups.setdefault(key, []).append(row)
    assert len(found) == len(groups)
    for one in found.to_dict("records"):
        key = tuple(one[name] for name in by)
        expect(one, pooled(groups[key]), key)
