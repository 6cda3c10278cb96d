"""What has no rank: schemes with memory on steps with gaps, and layers that are numerically zero."""

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._report import page
from apscope.cli import main
from tests.python.altered import altered
from tests.python.recorded import record
from tests.python.summary_tables import random_results
from tests.reference.summaries import same, summed_up, zero_layers

MEMORY = [
    "error_feedback(aps:e3m0)",
    "aps:e3m4,rule=tight,unit=model,delay=1",
    "dynamic_loss_scaling:e4m3",
]
NOTE = "memory of an earlier step"


@pytest.fixture(scope="module")
def digits(request):
    return request.config.rootpath / "notebooks/data/digits"


def test_a_row_after_a_gap_has_a_note(digits):
    frame = apscope.replay(digits, [*MEMORY, "aps:e3m4"], topology="ring").frame
    steps = sorted(set(frame["step"]))
    after = {b for a, b in zip(steps, steps[1:]) if b != a + 1}
    assert after and steps[0] not in after
    noted = frame["note"].str.contains(NOTE)
    assert (noted == (frame["scheme"] != "aps:e3m4") & frame["step"].isin(after)).all()
    assert "lower bound; " + NOTE in set(frame["note"])


def test_consecutive_steps_have_no_note_and_a_rank(digits):
    results = apscope.replay(digits, [*MEMORY, "aps:e3m4"], topology="ring", steps="3:9")
    assert not results.frame["note"].str.contains(NOTE).any() and results.without_rank == ""
    assert (results.summary()["gaps"] == 0).all()


def test_a_scheme_on_steps_with_gaps_ranks_behind_all_others(digits, capsys):
    specs = [*MEMORY, "none:e3m0", "none:e4m3,overflow=infinity"]
    results = apscope.replay(digits, specs, topology="ring", steps=[0, 1, 34, 240])
    table = results.summary()
    ring = table[table["topology"] == "ring"]
    last = ring["scheme"].tolist()[-3:]
    assert set(last) == {apscope.schemes.as_scheme(s).spec for s in MEMORY}
    assert ring["gaps"].tolist() == [0, 0, 2, 2, 2]
    assert all(spec in results.without_rank for spec in last)
    assert results.without_rank in repr(results)


def test_only_a_ranking_says_what_has_no_rank(digits, capsys, tmp_path):
    results = apscope.replay(digits, [*MEMORY[-1:], "aps:e3m4"], topology="ring", steps=[0, 34])
    assert results.without_rank == (
        "These schemes have no rank, as their memory needs consecutive steps and some are "
        "missing: dynamic_loss_scaling:e4m3"
    )
    folder = str(results.save(tmp_path / "r"))
    for words, code, said in (
        (["summary"], 0, True),
        (["compare", "aps:e3m4", MEMORY[-1]], 0, False),
        (["summary", "--by", "layer", "--column", "typo"], 2, False),
        (["summary", "--column", "typo"], 2, False),
    ):
        assert main([words[0], folder, *words[1:]]) == code
        assert (results.without_rank in capsys.readouterr().err) == said, words


def test_a_column_of_whole_schemes_and_a_typo_of_it_are_told_by_layer(digits, capsys, tmp_path):
    results = apscope.replay(digits, "aps:e3m4", topology="ring", steps="0:2", limit=True)
    folder = str(results.save(tmp_path / "r"))
    for column, why in (
        ("bits_above_limit", "only the summary of whole schemes has it"),
        ("bits_above_limi", "did you mean 'bits_above_limit'?"),
        ("worst_layer", "only the summary of whole schemes has it"),
        ("eror_over_noise", "did you mean 'error_over_noise'?"),
    ):
        assert main(["summary", folder, "--by", "layer", "--column", column]) == 2
        assert why in capsys.readouterr().err, column


def test_the_ladder_has_no_factor_of_a_rung_on_steps_with_gaps(digits, capsys):
    table = apscope.ladder(apscope.open_trace(digits), ["e3m4"], topology="ring").set_index("rung")
    assert table.at["step, delayed", "gaps"] > 0 and np.isnan(table.at["step, delayed", "factor"])
    assert table.at["layer", "factor"] > 1
    assert main(["ladder", str(digits), "--formats", "e3m4", "--steps", "0:9"]) == 0
    assert "no rank" not in "".join(capsys.readouterr())
    assert main(["ladder", str(digits), "--formats", "e3m4"]) == 0
    out, err = capsys.readouterr()
    assert "*" in out and "no rank" in out and "aps:e3m4,rule=tight,unit=model,delay=1" in err


def test_a_plan_and_a_search_never_choose_it(digits):
    best = "error_feedback(stochastic:fp16)"
    steps = [0, 1, 8, 34, 240, 1500]
    plan = apscope.recommend(digits, [best, "aps:e3m4"], max_volume=4.0, steps=steps)
    assert set(plan.layers["scheme"]) == {"aps:e3m4"} and plan.single == "aps:e3m4"
    with pytest.raises(ValueError, match="and on consecutive steps if it has memory"):
        apscope.recommend(digits, [best], max_volume=4.0, steps=steps)
    table = apscope.search(
        digits, 6, schemes=["error_feedback(none:{format})", "none:{format}"], steps=steps
    )
    known = table[~table["stopped"]]
    assert (known["gaps"] > 0).any() and known["gaps"].iloc[0] == 0
    assert known["gaps"].gt(0).is_monotonic_increasing


@pytest.fixture(scope="module")
def normed(tmp_path_factory):
    """`shift` has a gradient of rounding errors; `small` as little, but with a mean; `calm` and
    `weight` are those of any layer."""
    path, random = tmp_path_factory.mktemp("normed") / "t", np.random.default_rng(5)
    layers = (
        ("weight", (40, 30), 1e-2, 0.0),
        ("shift", (16,), 1e-8, 0.0),
        ("small", (16,), 1e-8, 1e-6),
        ("calm", (16,), 1e-5, 0.0),
    )
    steps = [
        [{name: random.normal(mean, scale, shape).astype(np.float32)
          for name, shape, scale, mean in layers} for _ in range(6)]
        for _ in range(4)
    ]  # fmt: skip
    record(path, [{name: [row[name] for row in rows] for name, *_ in layers} for rows in steps])
    return path


def test_a_layer_of_rounding_errors_is_not_the_worst(normed):
    results = apscope.replay(normed, ["none:e4m3", "none:e5m2"], topology="ring")
    whole = results.frame
    assert zero_layers(whole, "t") == {"shift"}
    assert "shift" in results.numerically_zero and "small" not in results.numerically_zero
    for row in results.summary().itertuples():
        assert row.worst_layer != "shift"
        own = whole[(whole["scheme"] == row.scheme) & (whole["topology"] == row.topology)]
        kept = own[own["tensor"] != "shift"]["cosine"].fillna(0.0)
        assert row.layer_cosine == pytest.approx(kept.mean(), rel=1e-12)
    # By itself the layer has its own figures.
    by_layer = results.by("layer", "layer_cosine")
    assert by_layer.notna().all(axis=None) and (by_layer.loc[("t", "shift")] == 0).all()


def test_a_step_of_large_gradients_makes_no_other_layer_zero(tmp_path):
    draw = np.random.default_rng(1)
    steps = [{name: draw.normal(0, 1e-2, (4, 16, 16)).astype(np.float32) for name in "abc"}
             for _ in range(6)]  # fmt: skip
    steps[4]["b"] *= 1e6
    results = apscope.replay(record(tmp_path / "t", steps), "none:e4m3", topology="ring")
    assert results.numerically_zero == "" and zero_layers(results.frame, "t") == set()
    assert main(["info", str(tmp_path / "t")]) == 0


@pytest.fixture(scope="module")
def rare(tmp_path_factory):
    """Of `rare` one gradient is large and the same in all workers, the others are tiny; `shift` has
    only tiny ones."""
    path, random = tmp_path_factory.mktemp("rare") / "t", np.random.default_rng(6)
    layers = ("weight", (6, 40, 30), 1e-2), ("rare", (6, 64), 1e-8), ("shift", (6, 64), 1e-8)
    steps = [{name: random.normal(0.0, scale, shape).astype(np.float32)
              for name, shape, scale in layers} for _ in range(4)]  # fmt: skip
    for step in steps:
        step["rare"][:, 5] = 1000.0
    record(path, steps)
    return path


def test_a_layer_whose_large_gradients_overflow_is_judged_and_not_named(rare):
    specs = ["none:e4m3,overflow=infinity", "none:fp32"]
    alone, both = (apscope.replay(rare, some, topology="ring") for some in (specs[:1], specs))
    # The reference of rows with overflow lacks what overflowed: rounding errors alone are left.
    rows = alone.frame[(alone.frame["tensor"] == "rare") & (alone.frame["stage"] == "reduced")]
    assert (rows["overflow"] > 0).all()
    assert (rows["sum_squared_reference"] <= 4 * rows["sum_noise"]).all()
    for results in (alone, both):
        assert "rounding errors alone: shift;" in results.numerically_zero
        table = results.summary().set_index(["scheme", "topology"])
        assert table.loc[(specs[0], "ring"), ["worst_layer", "worst_nmse"]].tolist() == [
            "rare",
            np.inf,
        ]


def test_the_sentence_names_what_the_summary_omits_whatever_rows_are_there(normed):
    """Rows of two folders side by side, such as of a merge; the table of noise is of one."""
    whole = apscope.replay(normed, "none:e4m3", topology="ring")
    other = whole.frame.assign(trace="u")
    frame = pd.concat([whole.frame, other[other["tensor"] != "weight"]], ignore_index=True)
    results = altered(whole, frame)
    # Without `weight` there is nothing beside which `shift` is noise.
    assert "rounding errors alone: shift of t;" in results.numerically_zero
    few = altered(whole, whole.frame[whole.frame["tensor"] != "weight"])
    omitted = few.summary()["layer_cosine"].iloc[0] != pytest.approx(
        few.frame[few.frame["topology"] == "ring"]["cosine"].fillna(0.0).mean(), rel=1e-12
    )
    assert omitted == ("shift" in few.numerically_zero)


def test_info_and_the_ranking_name_it(normed, capsys, tmp_path):
    assert main(["info", str(normed)]) == 0
    assert "numerically zero, so probably rounding errors alone: shift;" in capsys.readouterr().out
    assert main(["replay", str(normed), "--scheme", "none:e4m3", "-o", str(tmp_path / "r")]) == 0
    capsys.readouterr()
    assert main(["summary", str(tmp_path / "r")]) == 0
    assert "numerically zero, so probably rounding errors alone: shift;" in capsys.readouterr().err
    assert "shift" in repr(apscope.Results.open(tmp_path / "r"))


def test_a_search_by_the_worst_layer_leaves_it_out(normed):
    for figure in ("worst_nmse", "layer_cosine"):
        found = apscope.search(normed, 6, minimize=figure)
        whole = apscope.search(normed, 6, minimize=figure, stop=False)
        assert found["scheme"][0] == whole["scheme"][0]
        kept = ~found["stopped"]
        assert np.allclose(found["bound"][kept], found[figure][kept], rtol=1e-9)


def test_summaries_of_such_tables_are_those_of_plain_loops():
    frame = random_results().frame.copy()
    layer = (frame["trace"] == "first") & (frame["tensor"] == "norm") & (frame["stage"] != "wire")
    for name in ("sum_squared_reference", "sum_squared_error", "sum_noise"):
        frame.loc[layer, name] = frame.loc[layer, name] * 2.0**-80
    frame.loc[layer, "sum_squared_reference"] = frame.loc[layer, "sum_noise"].fillna(0.0)
    gap = (frame["scheme"] == "aps:e4m3") & (frame["step"] == 7)
    frame.loc[gap, "note"] = frame.loc[gap, "note"] + f"; {NOTE}"
    assert zero_layers(frame, "first") == {"norm"}
    found = apscope.Results(frame, frame.iloc[:0], {"traces": []}).summary()
    assert found["gaps"].any()
    for one in found[found["trace"] == "first"].to_dict("records"):
        by_hand = summed_up(frame, one["trace"], one["scheme"], one["topology"])
        for column in ("layer_cosine", "worst_nmse", "worst_layer", "gaps"):
            assert same(one[column], by_hand[column]), (one["scheme"], one["topology"], column)


def test_a_number_is_in_its_own_interval(digits):
    results = apscope.replay(digits, ["aps:e3m4", "none:e4m3", "aps:e3m0"], topology="ring")
    table = results.summary()
    for name in ("error_over_noise", "pooled_error_over_noise"):
        rows = table[table[f"{name}_low"].notna() & np.isfinite(table[name])]
        assert len(rows)
        assert (rows[f"{name}_low"] <= rows[f"{name}_corrected"]).all()
        assert (rows[f"{name}_corrected"] <= rows[f"{name}_high"]).all()
    # What is corrected is above the interval here.
    assert (table["error_over_noise"] > table["error_over_noise_high"]).any()
    plan = apscope.recommend(results, max_volume=0.3, minimize="error_over_noise")
    for row in plan.figures.itertuples():
        assert row.error_over_noise_low < row.error_over_noise_corrected < row.error_over_noise_high
        said = f"{row.error_over_noise_corrected:.3g} [{row.error_over_noise_low:.3g}, "
        assert said in str(plan)


def test_a_bare_table_without_notes_still_has_a_summary(digits):
    frame = apscope.replay(digits, "aps:e3m4", topology="ring", steps="0:2").frame
    assert isinstance(apscope.Results(frame, frame.iloc[:0], {}).summary(), pd.DataFrame)


def test_the_page_and_a_plan_name_it_beside_the_worst_layers_and_leave_it_out(normed):
    results = apscope.replay(normed, ["none:e4m3", "none:e5m2", "aps:e4m3"], topology="ring")
    text = page(results)
    worst = text[text.index('aria-label="The worst layers, ') :].split("</table>")[0]
    assert "Without layers that are numerically zero: shift</caption>" in worst
    assert '<th scope="row" class="text">shift</th>' not in worst and ">small</th>" in worst
    plan = apscope.recommend(results, max_volume=0.3)
    (said,) = [line for line in str(plan).splitlines() if "of their noise" in line]
    assert said.startswith(("1 of 3 layers, ", "2 of 3 layers, "))
    assert "(small)" in said and said.endswith("; without shift, numerically zero")
