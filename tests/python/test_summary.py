"""Summaries and comparisons against plain loops over the rows, and against the gradients themselves."""

import math
import time

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope import comparison, cost, pooling, summary
from apscope.results import Results

TOPOLOGIES = ("exact", "sequential", "ring")
MIXED = "hybrid(last=qsgd;else=aps:e4m3)"
OWN_ONLY = "hybrid(last=sign_vote;else=qsgd)"
SCHEMES = ("none:fp32", "aps:e4m3", "loss_scaling:e4m3,scale=best", "dynamic_loss_scaling:e4m3", "qsgd", MIXED, OWN_ONLY, "mine(1)")
LAYERS = ("conv", "norm", "all", "head")
STEPS = (0, 3, 7, 20)


def row(random, trace, step, tensor, scheme, stage, topology, **given):
    """One row with random numbers, whose sums belong together."""
    n = int(random.integers(4, 40))
    reference = float(10.0 ** random.uniform(-8, 2))
    found = {
        "trace": trace, "step": step, "tensor": tensor, "role": "", "scheme": scheme, "format": "e4m3", "topology": topology, "workers": 4,
        "stage": stage, "count": n * (4 if stage == "wire" else 1), "counted": n, "nonzero": n - 1, "underflow": int(random.integers(0, n - 1)),
        "subnormal": pd.NA, "saturated": pd.NA, "overflow": 0, "nan": 0, "infinite": 0, "sum_error": random.normal(),
        "sum_signed_error": random.normal(), "sum_squared_error": reference * 10.0 ** random.uniform(-6, 0.5), "sum_absolute_reference": 1 + random.random(),
        "sum_squared_reference": reference, "cosine": random.uniform(-1, 1), "expected_variance": random.random(),
        "volume": np.nan if stage == "wire" or topology == "exact" else random.random(),
        "wire_bits": 8 * n, "side_bits": 8, "skipped": False, "note": "",
    }  # fmt: skip
    return found | given


SKIPPED = {"underflow": pd.NA, "overflow": pd.NA, "sum_error": np.nan, "sum_signed_error": np.nan, "sum_squared_error": np.nan,
           "cosine": np.nan, "expected_variance": np.nan, "skipped": True}  # fmt: skip
ZERO = {"counted": 5, "nonzero": 0, "underflow": 0, "sum_error": 0.0, "sum_signed_error": 0.0, "sum_squared_error": 0.0,
        "sum_absolute_reference": 0.0, "sum_squared_reference": 0.0, "cosine": np.nan, "expected_variance": 0.0}  # fmt: skip
UNMEASURED = dict.fromkeys(("counted", "nonzero", "underflow", "overflow", "nan", "infinite"), pd.NA) | dict.fromkeys(
    ("sum_error", "sum_signed_error", "sum_squared_error", "sum_absolute_reference", "sum_squared_reference", "cosine", "expected_variance", "volume"), np.nan
) | {"note": "not measurable on this trace: needs weights"}  # fmt: skip
LOST = {"cosine": np.nan, "underflow": 3}  # y = 0 everywhere


def table():
    """Three traces: two with reduced rows, one with the wire's only; every odd thing that rows can hold."""
    random = np.random.default_rng(5)
    rows = []
    for trace in ("first", "second", "wire only"):
        for step in STEPS:
            for tensor in LAYERS:
                for scheme in SCHEMES:
                    if trace == "second" and scheme == "qsgd":
                        continue
                    given = {}
                    if scheme.startswith("dynamic") and step in (0, 7):
                        given = SKIPPED
                    elif scheme.startswith("dynamic") and step == 3 and tensor == "norm":
                        given = SKIPPED  # a policy may skip a part of a step
                    elif step == 20 and trace == "first":
                        given = ZERO | ({"sum_squared_error": 1e-3} if tensor == "conv" else {})
                    elif tensor == "all" and step == 3:
                        given = ZERO
                    elif scheme == "mine(1)":
                        given = UNMEASURED if trace == "first" or tensor == "head" else {}
                    elif scheme.startswith("aps") and tensor == "norm":
                        given = LOST
                    elif scheme.startswith("none") and step == 7 and tensor == "head" and trace != "wire only":
                        given = {"overflow": 2} | ({"sum_squared_reference": 0.0, "sum_squared_error": 0.0, "cosine": np.nan} if trace == "second" else {})
                    rows.append(row(random, trace, step, tensor, scheme, "wire", "", **given))
                    if trace == "wire only":
                        continue
                    mine = TOPOLOGIES
                    if scheme == "qsgd" or (scheme == MIXED and tensor == "head"):
                        mine = ("exact", "gather")
                    elif scheme == OWN_ONLY:
                        mine = ("exact", "vote" if tensor == "head" else "gather")
                    rows += [row(random, trace, step, tensor, scheme, "reduced", t, **given) for t in mine]
    frame = pd.DataFrame(rows)
    integers = ["step", "workers", "count", "counted", "nonzero", "underflow", "subnormal", "saturated", "overflow", "nan", "infinite", "wire_bits", "side_bits"]
    return frame.astype(dict.fromkeys(integers, "Int64"))


@pytest.fixture(scope="module")
def results():
    return Results(table(), pd.DataFrame(), {"traces": [{"name": n} for n in ("first", "second", "wire only")]})


def held(value):
    return not pd.isna(value)


def rows_of(frame, trace, scheme, topology):
    """What a topology of a scheme covers: its rows, and those of tensors with a reduction of their own."""
    mine = frame[(frame.trace == trace) & (frame.scheme == scheme)].to_dict("records")
    if not any(r["stage"] == "reduced" for r in mine):
        return mine
    wanted = topology.split("+") if topology != "exact" else ["exact"]
    own = [] if topology == "exact" else list(pooling.OWN_REDUCTIONS)
    return [r for r in mine if r["stage"] == "reduced" and r["topology"] in [*wanted, *own]]


def loss(rows):
    """The NMSE of these rows together; None where there is nothing to lose."""
    error = math.fsum(r["sum_squared_reference"] if r["skipped"] else r["sum_squared_error"] for r in rows)
    reference = math.fsum(r["sum_squared_reference"] for r in rows)
    over = any(held(r["overflow"]) and r["overflow"] > 0 for r in rows)
    if reference == 0:
        return 1.0 if over else None
    return max(1.0, error / reference) if over else error / reference


def cosine(one):
    """The cosine of one row; None where there is nothing to lose."""
    if loss([one]) is None:
        return None
    if math.isnan(loss([one])):
        return math.nan
    return one["cosine"] if held(one["cosine"]) and not one["skipped"] else 0.0


def mean(values):
    values = [v for v in values if v is not None]
    return math.fsum(values) / len(values) if values else math.nan


def ratio_of(numerator, denominator):
    return numerator / denominator if denominator else math.nan


def underflow(rows):
    sent = [r for r in rows if not r["skipped"] and held(r["underflow"])]
    return ratio_of(sum(r["underflow"] for r in sent), sum(r["nonzero"] for r in sent))


def summed_up(frame, trace, scheme, topology):
    """One row of the summary, in loops."""
    rows = rows_of(frame, trace, scheme, topology)
    wire = frame[(frame.trace == trace) & (frame.scheme == scheme) & (frame.stage == "wire")].to_dict("records")
    by_step = [[r for r in rows if r["step"] == step] for step in sorted({r["step"] for r in rows})]
    cells = [(loss([r]), r["tensor"], r["step"]) for r in rows if loss([r]) is not None]
    unknown = any(math.isnan(value) for value, *_ in cells)
    worst = (math.nan, None, None) if unknown or not cells else max(cells, key=lambda cell: cell[0])
    squares = math.fsum(r["sum_squared_reference"] for r in rows)
    signed = math.fsum(-r["sum_absolute_reference"] if r["skipped"] else r["sum_signed_error"] for r in rows)
    spread = math.fsum(r["expected_variance"] * r["counted"] for r in rows if not r["skipped"] and not (held(r["counted"]) and r["counted"] == 0) and held(r["counted"]))
    return {
        "step_nmse": mean(loss(part) for part in by_step),
        "layer_cosine": mean(cosine(r) for r in rows),
        "worst_nmse": worst[0], "worst_layer": worst[1], "worst_step": worst[2],
        "nmse": ratio_of(math.fsum(r["sum_squared_reference"] if r["skipped"] else r["sum_squared_error"] for r in rows), squares),
        "relative_bias": ratio_of(signed, math.fsum(r["sum_absolute_reference"] for r in rows)),
        "expected_variance": math.nan if math.isnan(squares) else ratio_of(spread, squares),
        "underflow_wire": underflow(wire),
        "underflow_reduced": underflow(rows) if topology else math.nan,
        "volume": math.fsum(r["volume"] * r["count"] for r in rows) / sum(r["count"] for r in rows),
        "skipped": sum(any(r["skipped"] for r in part) for part in by_step),
        "overflowed": sum(any(held(r["overflow"]) and r["overflow"] > 0 for r in part) for part in by_step),
    }  # fmt: skip


def same(found, wanted):
    if wanted is None or (isinstance(wanted, float) and math.isnan(wanted)):
        return pd.isna(found)
    return found == (wanted if isinstance(wanted, str) else pytest.approx(wanted, rel=1e-12))


def test_every_number_of_a_summary_is_that_of_plain_loops(results):
    found = results.summary()
    assert tuple(found.columns) == summary.COLUMNS
    wanted = [(t, s, p) for t in ("first", "second") for s in SCHEMES for p in TOPOLOGIES if not (s == "qsgd" or s == OWN_ONLY)]
    wanted += [("first", "qsgd", "exact"), ("first", "qsgd", "gather"), *((t, OWN_ONLY, p) for t in ("first", "second") for p in ("exact", "gather+vote"))]
    wanted += [("wire only", s, "") for s in SCHEMES]
    assert sorted(zip(found.trace, found.scheme, found.topology)) == sorted(wanted)
    for one in found.to_dict("records"):
        by_hand = summed_up(results.frame, one["trace"], one["scheme"], one["topology"])
        for column, value in by_hand.items():
            assert same(one[column], value), (one["trace"], one["scheme"], one["topology"], column, one[column], value)


def test_the_table_holds_what_the_rules_are_about(results):
    """Else the comparison with the loops would show little."""
    found = results.summary().set_index(["trace", "scheme", "topology"])
    assert found.loc[("first", "none:fp32", "ring"), "overflowed"] == 1 and found.loc[("first", "dynamic_loss_scaling:e4m3", "ring"), "skipped"] == 3
    assert found.loc[("second", "none:fp32", "ring"), "worst_nmse"] >= 1
    assert np.isnan(found.loc[("first", "mine(1)", "ring"), ["step_nmse", "nmse", "layer_cosine", "volume"]].astype(float)).all()
    assert found.loc[("first", "mine(1)", "ring"), "worst_layer"] != "conv"


def test_a_step_without_gradients_counts_for_nothing_and_a_skipped_one_as_lost(results):
    frame = results.frame[(results.frame.trace == "first") & (results.frame.scheme == "dynamic_loss_scaling:e4m3")]
    only = summary.summary(frame[frame.step.isin([0, 20])])  # one skipped, one without a gradient
    assert (only.step_nmse == 1).all() and (only.layer_cosine == 0).all() and (only.relative_bias == -1).all() and (only.worst_nmse == 1).all()
    assert (only.expected_variance == 0).all() and only.underflow_wire.isna().all() and only.worst_layer.tolist() == ["conv"] * 3


def test_schemes_with_overflow_rank_last_and_those_without_numbers_after_the_others(results):
    found = results.summary()
    assert found.trace.tolist() == sorted(found.trace)
    for _, part in found.groupby("trace"):
        sound = part[part.overflowed == 0]
        assert part.index.tolist() == [*sound.index, *part[part.overflowed > 0].index]
        known = sound.step_nmse.dropna()
        assert known.is_monotonic_increasing and known.index.tolist() == sound.index[: len(known)].tolist()


@pytest.mark.parametrize("topology", ["ring", "sequential", "exact", "tree"])
def test_one_row_stands_for_a_scheme(results, topology):
    table = results.summary()
    found = summary.headline(table, topology)
    assert not found.duplicated(["trace", "scheme"]).any() and len(found) == len(table[["trace", "scheme"]].drop_duplicates())
    assert found.index.is_monotonic_increasing
    for one in found.itertuples():
        own = {"qsgd": "gather", OWN_ONLY: "gather+vote"}.get(one.scheme)
        wanted = "" if one.trace == "wire only" else own or topology
        assert one.topology == wanted if topology in ("ring", "sequential") or own else one.topology in ("", "ring", "sequential", topology)


def test_families_formats_and_times(results):
    found = results.summary(elements=1e6)
    family = dict(zip(found.scheme, found.family))
    assert family["none:fp32"] == "baseline" and family["aps:e4m3"] == "APS" and family["mine(1)"] == "other"
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
    with pytest.raises(ValueError, match="no column 'sum_signed_error': an older apscope wrote them; replay the trace again"):
        summary.summary(old)


def test_one_step_and_no_rows():
    frame = table()
    one = frame[(frame.step == 0) & (frame.trace == "first")]
    found = summary.summary(one)
    assert (found.step_nmse.fillna(-1) == found.nmse.fillna(-1)).all()
    assert list(summary.summary(frame[:0]).columns) == list(summary.COLUMNS) and summary.summary(frame[:0]).empty


def ratio(one, other):
    return 1.0 if one == other else one / other if other else math.inf


def compared(frame, trace, a, b, topology, layer):
    """One row of a comparison, in loops; `layer` None is all of them."""

    def stage(scheme, topology):
        mine = frame[(frame.trace == trace) & (frame.scheme == scheme) & (frame.stage == "wire")].to_dict("records")
        return mine if topology == "wire" else rows_of(frame, trace, scheme, topology)

    both = [{(r["tensor"], r["step"]): r for r in stage(s, topology) if layer in (None, r["tensor"])} for s in (a, b)]
    known = [cell for cell in both[0] if not any(math.isnan(loss([rows[cell]]) or 0) for rows in both)]
    steps = [[[rows[cell] for cell in known if cell[1] == step] for rows in both] for step in sorted({step for _, step in known})]
    pairs = [(loss(one), loss(other)) for one, other in steps]
    pairs = [p for p in pairs if None not in p]
    cells = [tuple(loss([rows[cell]]) for rows in both) for cell in known]
    ratios = [ratio(*p) for p in pairs]
    logs = [math.log(ratio(*c)) for c in cells if None not in c]
    out = {
        "steps": len(pairs), "wins": sum(x < y for x, y in pairs), "losses": sum(x > y for x, y in pairs), "ties": sum(x == y for x, y in pairs),
        "median_ratio": float(np.median(ratios)) if ratios else math.nan, "worst_ratio": max(ratios, default=math.nan),
        "geometric_ratio": math.exp(math.fsum(logs) / len(logs)) if logs else math.nan,
    }  # fmt: skip
    for name, scheme, rows, at in (("a", a, both[0], 0), ("b", b, both[1], 1)):
        wire = {(r["tensor"], r["step"]): r for r in stage(scheme, "wire")}
        exact = {(r["tensor"], r["step"]): r for r in stage(scheme, "exact")}
        mine = [rows[cell] for cell in known]
        sent = [cell for cell in known if not rows[cell]["skipped"]]
        error = math.fsum(rows[cell]["sum_squared_error"] for cell in sent)
        added = error - math.fsum(exact[cell]["sum_squared_error"] for cell in sent) if topology != "wire" else math.nan
        out |= {
            f"step_nmse_{name}": mean(p[at] for p in pairs),
            f"nmse_{name}": ratio_of(math.fsum(r["sum_squared_reference"] if r["skipped"] else r["sum_squared_error"] for r in mine),
                                     math.fsum(r["sum_squared_reference"] for r in mine)),
            f"cosine_{name}": mean(cosine(r) for r in mine),
            f"underflow_wire_{name}": underflow(wire[cell] for cell in known),
            f"underflow_reduced_{name}": underflow(mine) if topology != "wire" else math.nan,
            f"accumulation_{name}": ratio_of(added, error),
        }  # fmt: skip
    return out


LOSS_SCALING = "loss_scaling:e4m3,scale=best"


@pytest.mark.parametrize(("a", "b", "topology", "used"), [
    ("aps:e4m3", LOSS_SCALING, None, ("sequential", "sequential")), ("aps:e4m3", "dynamic_loss_scaling:e4m3", "ring", ("ring", "ring")),
    ("aps:e4m3", "qsgd", "ring", ("ring", "gather")), ("qsgd", "aps:e4m3", None, ("gather", "sequential")), ("qsgd", OWN_ONLY, None, ("gather", "gather+vote")),
    (MIXED, "none:fp32", "ring", ("ring", "ring")), ("aps:e4m3", "mine(1)", "ring", ("ring", "ring")),
    ("aps:e4m3", "dynamic_loss_scaling:e4m3", "exact", ("exact", "exact")), (OWN_ONLY, "none:fp32", "wire", ("wire", "wire")),
    ("aps:e4m3", "aps:e4m3", None, ("sequential", "sequential")),
])  # fmt: skip
def test_every_number_of_a_comparison_is_that_of_plain_loops(results, a, b, topology, used):
    found = results.compare(a, b, topology)
    assert tuple(found.columns) == comparison.COLUMNS
    assert list(found.trace.unique()) == [t for t in ("first", "second", "wire only") if not (t == "second" and "qsgd" in (a, b))]
    for trace, part in found.groupby("trace"):
        unknown = ("head",) if "mine(1)" in (a, b) and trace != "first" else ()
        assert part.layer.tolist() == ["all", *(layer for layer in LAYERS if layer not in unknown)]
        names = ("wire", "wire") if trace == "wire only" else used
        assert set(zip(part.topology_a, part.topology_b)) == {names}
        for i, one in enumerate(part.to_dict("records")):
            by_hand = compared(results.frame, trace, a, b, "wire" if trace == "wire only" else "+".join(dict.fromkeys(names)), one["layer"] if i else None)
            for column, value in by_hand.items():
                assert same(one[column], value), (trace, one["layer"], column, one[column], value)
    assert results.compare(a, b, topology, layers=False).equals(found[~found.duplicated("trace")].reset_index(drop=True))


@pytest.mark.parametrize(("a", "b"), [("aps:e4m3", "dynamic_loss_scaling:e4m3"), ("none:fp32", MIXED), ("mine(1)", "aps:e4m3")])
def test_ratios_of_layers_and_steps_are_what_a_comparison_sums_up(results, a, b):
    whole, cells, steps = results.compare(a, b, "ring"), comparison.ratios(results, a, b, "ring"), comparison.compare_steps(results, a, b, "ring")
    for trace, part in whole.groupby("trace"):
        mine, by_step = cells[cells.trace == trace], steps[steps.trace == trace]
        assert mine.layer.unique().tolist() == part.layer.tolist()[1:] and by_step.step.is_monotonic_increasing
        for one in part.to_dict("records")[1:]:
            ratio = mine[mine.layer == one["layer"]].ratio.dropna()
            assert len(ratio) == one["steps"] and (ratio < 1).sum() == one["wins"] and same(one["worst_ratio"], ratio.max())
        assert len(by_step) == part.steps.iloc[0] and (by_step.nmse_a < by_step.nmse_b).sum() == part.wins.iloc[0]
        kept = mine[mine.step.isin(by_step.step)]
        assert by_step.layers_won.sum() == (kept.nmse_a < kept.nmse_b).sum() and by_step.layers_level.sum() == (kept.nmse_a == kept.nmse_b).sum()
        assert by_step.layers_lost.sum() == (kept.nmse_a > kept.nmse_b).sum()


def test_a_comparison_is_the_reverse_of_its_reverse(results):
    one, other = results.compare("aps:e4m3", LOSS_SCALING, "ring"), results.compare(LOSS_SCALING, "aps:e4m3", "ring")
    assert (one.wins == other.losses).all() and (one.ties == other.ties).all() and (one.nmse_a == other.nmse_b).all()
    assert np.allclose(one.geometric_ratio * other.geometric_ratio, 1, rtol=1e-12, atol=0)


def test_any_spelling_of_a_scheme_is_taken_and_an_absent_one_told(results):
    assert results.compare("aps:e4m3,headroom=workers", apscope.schemes.LossScaling("e4m3", scale="best")).equals(results.compare("aps:e4m3", LOSS_SCALING))
    assert len(results.compare("mine(1)", "aps:e4m3"))  # no scheme of this process
    with pytest.raises(ValueError, match="the results hold no scheme 'aps:e4m2'; did you mean 'aps:e4m3'"):
        results.compare("aps:e4m2", "aps:e4m3")
    with pytest.raises(ValueError, match=r"no scheme 'thc'; they hold none:fp32, aps:e4m3, .* and 2 more"):
        results.compare("thc", "aps:e4m3")
    with pytest.raises(ValueError, match="no scheme 'aps'; did you mean 'aps:e4m3'"):
        results.compare("aps", "aps:e4m3")
    with pytest.raises(ValueError, match="'aps:e4m3' has no topology 'tree' in the results; use one of exact, sequential, ring, wire"):
        results.compare("aps:e4m3", "none:fp32", topology="tree")
    with pytest.raises(ValueError, match="no trace of the results holds both"):
        comparison.compare(results.frame[(results.frame.trace == "first") == (results.frame.scheme == "qsgd")], "aps:e4m3", "qsgd")


def test_a_step_of_no_error_is_a_tie_or_a_ratio_without_bound():
    frame = table()
    frame = frame[frame.trace == "wire only"].copy()
    frame.loc[(frame.scheme == "none:fp32") & (frame.step == 7), "sum_squared_error"] = 0.0
    frame.loc[(frame.scheme == "aps:e4m3") & (frame.step == 7) & (frame.tensor == "conv"), "sum_squared_error"] = 0.0
    whole, conv, norm, *_ = comparison.compare(frame, "none:fp32", "aps:e4m3").to_dict("records")
    assert conv["ties"] == 1 and 0 < conv["geometric_ratio"] < np.inf
    assert norm["geometric_ratio"] == 0 and whole["geometric_ratio"] == 0
    whole, _, norm, *_ = comparison.compare(frame, "aps:e4m3", "none:fp32").to_dict("records")
    assert norm["worst_ratio"] == np.inf and whole["geometric_ratio"] == np.inf


def test_pooled_errors_of_a_skipped_row_are_those_of_a_lost_gradient(results):
    by = ["trace", "scheme", "tensor"]
    found = results.pool(by).set_index(by)
    for (trace, scheme, tensor), one in found.iterrows():
        topology = "" if trace == "wire only" else {"qsgd": "gather", OWN_ONLY: "gather+vote"}.get(scheme, "ring")
        rows = [r for r in rows_of(results.frame, trace, scheme, topology) if r["tensor"] == tensor]
        error = math.fsum(r["sum_squared_reference"] if r["skipped"] else r["sum_squared_error"] for r in rows if held(r["sum_squared_reference"]))
        assert same(one.nmse, ratio_of(error, math.fsum(r["sum_squared_reference"] for r in rows if held(r["sum_squared_reference"]))))
        assert same(one.underflow_rate, underflow(rows)) and one.skipped_steps == sum(r["skipped"] for r in rows) and one.steps == len(STEPS)


def test_pooling_takes_the_rows_that_rank_unless_told_otherwise(results):
    frame = results.frame
    by_stage = results.pool(["stage", "trace", "scheme"])
    assert set(zip(by_stage.stage, by_stage.trace)) == {("wire", "first"), ("wire", "second"), ("wire", "wire only"), ("reduced", "first"), ("reduced", "second")}
    reduced = by_stage[by_stage.stage == "reduced"].drop(columns="stage").reset_index(drop=True)
    assert reduced.equals(results.pool(["trace", "scheme"]).pipe(lambda t: t[t.trace != "wire only"]).reset_index(drop=True))
    with_topology = results.pool(["scheme", "topology", "trace"])
    assert set(with_topology.loc[with_topology.scheme == MIXED, "topology"]) == {"", *TOPOLOGIES}
    assert results.pool("scheme").equals(results.pool(["scheme"]))
    with pytest.raises(ValueError, match="no column 'layer' to pool by; they have trace, step"):
        results.pool(["scheme", "layer"])
    with pytest.raises(ValueError, match="pools 8 schemes into one number"):
        results.pool(["tensor"])
    one = Results(frame[frame.scheme == "aps:e4m3"], pd.DataFrame(), results.provenance)
    assert one.pool(["tensor"]).tensor.tolist() == list(LAYERS)


def test_a_hundred_thousand_rows_take_well_below_a_second(results):
    frame = pd.concat([results.frame.assign(step=results.frame.step + 100 * i) for i in range(97)], ignore_index=True)
    assert len(frame) > 100_000
    many = Results(frame, pd.DataFrame(), results.provenance)
    for job in (many.summary, lambda: many.compare("aps:e4m3", LOSS_SCALING), lambda: many.pool(["trace", "scheme", "tensor"])):
        seconds = min(_seconds(job) for _ in range(3))
        assert seconds < 1


def _seconds(job):
    start = time.process_time()
    job()
    return time.process_time() - start


def test_the_wires_numbers_are_those_of_the_gradients(request):
    """Without any row: a cast of the recorded gradients, and sums over them."""
    trace = apscope.open_trace(request.config.rootpath / "notebooks/data/digits")
    found = apscope.replay(trace, ["none:e4m3", "none:e3m0"], steps="0:4", topology=["ring"]).summary()
    for scheme, format in (("none:e4m3", "e4m3"), ("none:e3m0", "e3m0")):
        nmse, angles = [], []
        for step in range(4):
            error = reference = 0.0
            for tensor in trace.tensors:
                x = [trace.read(step, tensor, worker).astype(float) for worker in range(trace.workers)]
                y = [apscope.quantize(one.astype(np.float32), format).astype(float) for one in x]
                x, y = sum(x), sum(y)
                error, reference = error + np.square(y - x).sum(), reference + np.square(x).sum()
                angles.append((x * y).sum() / math.sqrt(np.square(x).sum() * np.square(y).sum()) if y.any() else 0.0)
            nmse.append(error / reference)
        one = found[(found.scheme == scheme) & (found.topology == "exact")].iloc[0]
        assert one.step_nmse == pytest.approx(np.mean(nmse), rel=1e-9) and one.layer_cosine == pytest.approx(np.mean(angles), rel=1e-9)
