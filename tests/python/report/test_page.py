"""The report without a browser: its first screen, its size limits, its destinations."""

import re
import shutil

import numpy as np
import pytest

import apscope
from apscope._core import topologies
from apscope._page.numbers import figure
from apscope._report import glossary, page, shown_schemes
from apscope._report.against import changes
from apscope._report.script import script
from apscope._report.shown_schemes import LEVEL
from apscope._results import differences
from apscope.cli import main
from tests.python.altered import altered
from tests.python.argv import command
from tests.python.recorded import record

SCHEMES = ["none:fp32", "none:bf16", "none:fp16", "none:e4m3", "loss_scaling:e4m3,scale=largest",
           "aps:e4m3", "loss_scaling:e3m4,scale=largest", "aps:e3m4",
           "loss_scaling:e3m4,scale=largest,rule=tight", "aps:e3m4,rule=tight",
           "loss_scaling:e5m2,scale=largest", "aps:e5m2", "stochastic:e3m4",
           "dynamic_loss_scaling:e4m3", "qsgd", "zero_blocks"]  # fmt: skip


@pytest.fixture(scope="module")
def trace(request):
    return request.config.rootpath / "notebooks/data/digits"


@pytest.fixture(scope="module")
def results(trace):
    return apscope.replay(trace, SCHEMES, topology=["ring"])


def told(results):
    frame = results.frame
    bits, rows = shown_schemes.bits_of(frame), shown_schemes.front(results.summary(), "ring")
    pairs = shown_schemes.pairs(list(dict.fromkeys(frame["scheme"])), rows, bits)
    duels = shown_schemes.duels(frame, shown_schemes.sided(pairs, rows, "ring", []), rows)
    return shown_schemes.best_of_families(rows, bits), duels


def test_the_ladder_stands_in_a_table_with_its_factors(results):
    text = page(results)
    ladder = apscope.ladder(results).set_index(["rung", "format"])
    table = text[text.index("The gain of finer scales") :]
    row = re.search(r'class="text">e3m4, 3 exponent bits</th>(.*?)</tr>', table)[1]
    layer = ladder.loc[("layer", "e3m4")]
    assert f"<b>{figure(layer['step_nmse'], 2)}</b>" in row
    assert (
        text.index('<svg class="chart xy"')
        < text.index("Baselines, and the best of each family")
        < text.index("The gain of finer scales")
    )


def test_the_ladder_is_that_of_the_answer_with_a_factor_from_the_column_to_the_left(trace):
    """Also where the next coarser scale, 1,024 elements, was not replayed."""
    specs = ["loss_scaling:e3m4,scale=best,overflow=saturate", "aps:e3m4,rule=tight,unit=model",
             "aps:e3m4,rule=tight", "aps:e3m4,rule=tight,unit=32"]  # fmt: skip
    results = apscope.replay(trace, specs, topology=["ring", "two_phase"])
    text = page(results)
    assert "two phases, e3m4, a scale for 32 elements</b> (" in text
    table = text[text.index("The gain of finer scales, two phases") :]
    assert "in two phases, in its room" in table
    cells = re.findall(r"<td data-label.*?</td>", re.search(r">e3m4, 3 .*?</tr>", table)[0])
    errors = results.summary().query("topology == 'two_phase'").set_index("scheme")["step_nmse"]
    factors = [re.search(r"÷ (\S+) \[", cell) for cell in cells]
    assert [bool(f) for f in factors] == [False, False, True, True]  # the best constant may clip
    assert [f[1] for f in factors[2:]] == [
        figure(errors[coarse] / errors[fine], 2) for coarse, fine in zip(specs[1:], specs[2:])
    ]
    layer = apscope.ladder(results).set_index(["rung", "topology"]).loc[("layer", "two_phase")]
    low, high = (figure(layer[f"factor_{end}"], 2) for end in ("low", "high"))
    assert f"÷ {figure(layer['factor'], 2)} [{low}, {high}]" in cells[2]


def test_comparisons_say_in_what_two_schemes_differ_and_have_one_rule(results):
    _, duels = told(results)
    row = duels[
        (duels["a"] == "aps:e3m4,rule=tight")
        & (duels["b"] == "loss_scaling:e3m4,scale=largest,rule=tight")
    ].iloc[0]
    assert row["differ"] == [
        ("scale", "one per layer and step", "one for all steps, the largest that never saturates")
    ]
    assert row["ratio"] == pytest.approx(row["step_nmse_a"] / row["step_nmse_b"])
    one_scale = duels[duels["b"].map(shown_schemes.one_scale)]
    assert all(
        apscope.schemes.as_scheme(a).keys["rule"] == apscope.schemes.as_scheme(b).keys["rule"]
        for a, b in zip(one_scale["a"], one_scale["b"])
    )
    text = page(results)
    first = text[: text.index('id="repeat"')]
    assert "because" not in first and "dominate" not in first
    assert (
        "<b>scale</b>: one per layer and step / one for all steps, the largest that never saturates"
        in text
    )


REDUCED = ["aps:e4m3", "loss_scaling:e4m3,scale=largest", "stochastic:e4m3", "aps:e3m4"]


@pytest.fixture(scope="module")
def reduced(trace):
    return apscope.replay(trace, REDUCED, steps=[0, 8, 240], topology=["ring", "two_phase"])


def test_reductions_are_compared_and_whatever_differs_is_named(reduced):
    _, duels = told(reduced)
    sides = ["a", "topology_a", "b", "topology_b"]
    found = {tuple(row[s] for s in sides): row for row in duels.to_dict("records")}
    both = found["aps:e4m3", "two_phase", "aps:e4m3", "ring"]
    assert both["cause"] == "reduction" and both["differ"][0] == (
        "reduction",
        "two phases (headroom one)",
        "ring (headroom workers)",
    )
    error = reduced.summary().set_index(["scheme", "topology"])["step_nmse"]
    assert both["ratio"] == pytest.approx(
        error["aps:e4m3", "two_phase"] / error["aps:e4m3", "ring"], rel=1e-12
    )
    assert duels["cause"].iloc[0] == "reduction"
    for name, cause in (("ring", "scale"), ("two_phase", "")):  # there the room differs, too
        pair = found["aps:e4m3", name, "loss_scaling:e4m3,scale=largest", name]
        assert pair["cause"] == cause and ("headroom" in [d[0] for d in pair["differ"]]) == (
            not cause
        )
        one, other = (error[spec, name] for spec in (pair["a"], pair["b"]))
        assert pair["ratio"] == pytest.approx(one / other, rel=1e-12)
    # In two phases a message is encoded alone: nothing reads headroom, and sums are fp32's.
    assert found["aps:e4m3", "two_phase", "stochastic:e4m3", "two_phase"]["cause"] == "rounding"
    text = page(reduced)
    assert "<b>reduction</b>: two phases (headroom one) / ring (headroom workers)" in text


def test_a_pair_with_several_differences_has_none_in_bold(reduced):
    table = page(reduced).split('<details class="duels">')[1].split("</table>")[0]
    assert "where none is in bold, to all that are named together" in table
    cells = re.findall(r'<td data-label="they differ in: A / B" class="text">(.*?)</td>', table)
    named = [re.findall(r"(?:^|; )(<b>)?(\w+)", cell) for cell in cells]
    others = [[aspect for _, aspect in found if aspect != "volume"] for found in named]
    assert {1, 2} <= {len(aspects) for aspects in others}
    assert [cell.count("<b>") for cell in cells] == [len(aspects) == 1 for aspects in others]


def test_a_cause_is_named_only_where_one_thing_differs():
    ring, phases = (
        differences.Sent("aps:e4m3", name, volume)
        for name, volume in (("ring", 0.25), ("two_phase", 0.2525))
    )
    found = differences.sides_differ(phases, ring)
    assert found == [
        ("reduction", "two phases (headroom one)", "ring (headroom workers)"),
        ("volume", "0.253", "0.25"),
    ]
    assert differences.cause(found) == "reduction"
    other = differences.Sent("aps:e5m2", "ring", 0.25)
    two = differences.sides_differ(phases, other)
    assert [aspect for aspect, _, _ in two] == ["reduction", "format", "volume"]
    assert differences.cause(two) == ""
    assert differences.sides_differ(ring, ring) == []
    fp32 = differences.Sent("aps:e4m3,accumulate=fp32", "ring", 0.25)
    assert differences.cause(differences.sides_differ(fp32, ring)) == "sums"
    assert differences.sides_differ(fp32._replace(topology="two_phase"), phases) == [
        ("volume", "0.25", "0.253")
    ]


def test_a_lossless_wide_scheme_is_no_winner_and_a_baseline_no_rival(results):
    table, _ = told(results)
    assert "zero_blocks" not in set(table["scheme"])
    assert list(table["scheme"][:3]) == ["none:fp32", "none:fp16", "none:bf16"]
    # A gather of 8 workers sends as much as fp32, so its smaller error is not a gain.
    stochastic = table.set_index("scheme").loc["stochastic:e3m4"]
    assert (
        stochastic["beaten_by"] in ("none:fp16", "none:bf16")
        and stochastic["step_nmse"]
        < table.set_index("scheme").loc["aps:e3m4,rule=tight", "step_nmse"]
    )


def test_up_to_15_schemes_are_all_in_the_table_and_more_by_family(results, trace):
    frame = results.frame
    assert frame["scheme"].nunique() == 16
    for kept in (SCHEMES[:15], [*SCHEMES[:9], "zero_blocks", "dynamic_loss_scaling:e4m3"]):
        held = frame[frame["scheme"].isin(kept)].reset_index(drop=True)
        some = altered(results, held)
        table = told(some)[0]
        assert sorted(table["scheme"]) == sorted(held["scheme"].unique())
        text = page(some)
        numbers = text[text.index("Every scheme, in its best reduction") :].split("</table>")[0]
        specs = set(re.findall(r'<code title="(.*?)">', numbers))
        assert specs == set(held["scheme"]) and 'class="mark"' in numbers
        for spec in specs:  # whole, between places to break
            assert f">{spec}</code>" in numbers.replace("<wbr>", "")
    assert len(told(results)[0]) < 16 and "Every scheme, in" not in page(results)
    mx = page(apscope.replay(trace, ["mx", "qsgd"], steps=[0, 8]))
    assert '<code title="mx">mx</code> <small>mxfp8_e4m3</small>' in mx.replace(
        " <small>others</small>", ""
    ).replace(" <small>recipe</small>", "")


def test_long_specs_are_whole_in_every_table(trace):
    long = ("hybrid(name:^(conv1\\.weight|norm\\.weight)$=none:fp16;last=none:bf16;"
            "else=loss_scaling:e4m3fn,scale=largest,rule=tight)")  # fmt: skip
    results = apscope.replay(trace, [long, "aps:e4m3fn,rule=tight"], steps=[0, 8, 9])
    text = page(results).replace("<wbr>", "")
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert markup.count(f">{long}</code>") >= 1 and "…" not in " ".join(
        re.findall(r"<code[^>]*>(.*?)</code>", markup)
    )


def test_level_schemes_are_called_level(results):
    _, duels = told(results)
    row = duels[
        (duels["a"] == "aps:e5m2") & (duels["b"] == "loss_scaling:e5m2,scale=largest")
    ].iloc[0]
    assert row["verdict"] == "level" and row["ratio"] == pytest.approx(1, abs=LEVEL)


def test_each_comparison_is_like_with_like(results):
    _, duels = told(results)
    met = set(zip(duels["a"], duels["b"]))
    assert ("aps:e3m4", "loss_scaling:e3m4,scale=largest") in met and (
        "aps:e3m4",
        "stochastic:e3m4",
    ) in met
    assert all(
        apscope.schemes.as_scheme(a).format == apscope.schemes.as_scheme(b).format for a, b in met
    )
    assert ("aps:e3m4", "loss_scaling:e4m3,scale=largest") not in met


def test_without_aps_the_best_meets_the_best_of_other_families(trace):
    results = apscope.replay(
        trace,
        ["none:e4m3", "stochastic:e4m3", "loss_scaling:e4m3,scale=largest"],
        steps=[0, 8],
        topology=["ring"],
    )
    _, duels = told(results)
    assert set(duels["a"]) == {"stochastic:e4m3"} and set(duels["b"]) == {
        "none:e4m3",
        "loss_scaling:e4m3,scale=largest",
    }
    said = page(results).split('<p class="verdict">')[1].split("</p>")[0]
    assert 'title="loss_scaling:e4m3,scale=largest"' in said and "at ¼ of fp32's bytes" in said


def test_a_trace_without_local_gradients_has_a_page(results):
    frame = results.frame[results.frame["stage"] == "wire"].reset_index(drop=True)
    text = page(altered(results, frame))
    assert "at the wire: nothing was reduced" in text and "at ¼ of fp32's bits" in text
    narrow = text.split('<p class="narrow">')[1].split("</p>")[0]
    assert re.fullmatch(
        r'4 bits: <b>uniform:7</b> \(<span class="spec">qsgd</span>\): NMSE <b>[\d.]+</b>', narrow
    )


def test_the_definitions_name_every_topology_once():
    named = [name for term in glossary.WORDS for name in term.split(", ")]
    for topology in topologies():
        assert named.count(topology) == ("+" not in topology), topology


def test_an_incomplete_shard_is_said_first(trace):
    part = apscope.replay(trace, ["aps:e4m3"], steps=[0, 8], topology=["ring"], shard=(0, 2))
    text = page(part)
    assert text.index("This is shard 0 of 2") < text.index("<main>")
    whole = page(apscope.replay(trace, ["aps:e4m3"], steps=[0, 8], topology=["ring"]))
    assert "This is shard" not in whole


def test_the_page_is_one_file_and_the_same_results_give_the_same(results):
    text = page(results)
    assert text == page(results)
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r'(src|href)="(?!#|data:)', markup) and "@import" not in markup
    ids = re.findall(r'\sid="([^"]+)"', markup)
    assert len(ids) == len(set(ids))
    for column in (
        "error over noise",
        "step NMSE",
        "worst layer, its error over noise",
        "volume, of fp32",
    ):
        assert f">{column}</th>" in text


def test_labels_are_specs(results):
    table, duels = told(results)
    for spec in [*table["scheme"], *duels["a"], *duels["b"]]:
        assert apscope.schemes.as_scheme(spec).spec == spec


def test_modules_know_each_other_by_names_that_exist():
    text = script()
    assert "import " not in re.sub(
        r'"[^"]*"|//.*|await import\(address\)', "", text
    ) and not re.search(r"^export ", text, re.MULTILINE)
    exports = {}
    for module, body in re.findall(
        r'^modules\["(.*?)"\] = \(\(\) => \{\n(.*?)^\}\)\(\);$', text, re.DOTALL | re.MULTILINE
    ):
        exports[module] = set(re.findall(r"\w+", body.splitlines()[-1])) - {"return"}
    used = re.findall(r'^const \{([^}]*)\} = modules\["(.*)"\];', text, re.MULTILINE)
    assert len(exports) > 12 and len(used) > 20
    for names, module in used:
        assert {n.strip() for n in names.split(",") if n.strip()} <= exports[module], module


def test_traces_of_different_names_are_both_named_where_they_are_compared(trace, tmp_path):
    shutil.copytree(trace, tmp_path / "another run")
    manifest = tmp_path / "another run" / "manifest.json"
    manifest.write_text(
        manifest.read_text().replace('"name": "digits"', '"name": "another run"', 1)
    )
    one, other = (
        apscope.replay(t, "aps:e4m3", steps=[0], topology="ring")
        for t in (trace, tmp_path / "another run")
    )
    (row,) = changes(one, other)["rows"]
    assert (row["trace"], row["other_trace"]) == (one.frame.trace.iloc[0], "another run")
    assert f"{row['trace']} → another run" in page(one, other) and "→ another run" not in page(
        other, other
    )


def test_what_changed_between_two_replays(trace, tmp_path):
    one = apscope.replay(
        trace, ["aps:e4m3", "stochastic:e4m3", "qsgd"], steps=[0, 8], topology=["ring"], seed=0
    )
    other = apscope.replay(
        trace, ["aps:e5m2", "stochastic:e4m3"], steps=[0, 8], topology=["ring"], seed=5
    )
    found = changes(one, other)
    assert ("seed", "0", "5") in found["settings"]
    rows = {r["scheme"]: r for r in found["rows"]}
    assert rows["aps:e4m3"]["other"] == "aps:e5m2" and rows["aps:e4m3"]["ratio"] < 0.5
    summary = other.summary().set_index(["scheme", "topology"])["step_nmse"]
    assert rows["stochastic:e4m3"]["step_nmse"][1] == summary["stochastic:e4m3", "gather"]
    assert found["alone"] == [("here", ["qsgd"])]
    one.save(tmp_path / "one")
    other.save(tmp_path / "other")
    assert (
        command(
            "report {} -o {} --against {}",
            tmp_path / "one",
            tmp_path / "r.html",
            tmp_path / "other",
        )
        == 0
    )
    text = (tmp_path / "r.html").read_text()
    assert "Changes from the other results" in text and "Settings that differ" in text


def test_changes_are_those_of_every_reduction(trace, reduced):
    other = apscope.replay(trace, REDUCED, steps=[0, 8], topology=["two_phase", "ring"], seed=5)
    found = changes(reduced, other)
    met = {(r["scheme"], r["topology"]): r for r in found["rows"]}
    every = {(s, t) for s in REDUCED for t in ("ring", "two_phase")}
    gathers = {("stochastic:e4m3", "gather"), ("stochastic:e4m3", "two_phase")}
    assert set(met) == {side for side in every if side[0] != "stochastic:e4m3"} | gathers
    assert found["alone"] == []
    for row in met.values():
        assert row["topology"] == row["other_topology"] and row["differ"] == []
    there = other.summary().set_index(["scheme", "topology"])["step_nmse"]
    here = reduced.summary().set_index(["scheme", "topology"])["step_nmse"]
    at = ("aps:e3m4", "two_phase")
    assert met[at]["step_nmse"] == (here[at], there[at])
    assert met[at]["ratio"] == here[at] / there[at]


def test_changes_between_reductions_name_them(trace, reduced):
    ring, phases = (
        apscope.replay(trace, "aps:e4m3", steps=[0, 8], topology=[name])
        for name in ("ring", "two_phase")
    )
    found = changes(ring, phases)
    (row,) = found["rows"]
    assert (row["topology"], row["other_topology"]) == ("ring", "two_phase")
    assert row["cause"] == "reduction" and row["differ"][0] == (
        "reduction",
        "ring (headroom workers)",
        "two phases (headroom one)",
    )
    assert found["alone"] == []
    text = page(ring, phases)
    assert "<b>reduction</b>: ring (headroom workers) → two phases (headroom one)" in text
    # One side has two reductions, so the other's only one meets its like.
    found = changes(reduced, phases)
    assert [(r["scheme"], r["topology"]) for r in found["rows"]] == [("aps:e4m3", "two_phase")]
    ((side, alone),) = found["alone"]
    assert side == "here" and "aps:e4m3, ring" in alone and "aps:e3m4" in alone


def test_results_of_an_entirely_different_trace_are_refused(trace, tmp_path, capsys, monkeypatch):
    other = trace.parent / "characters"
    one, two = (
        apscope.replay(t, "aps:e4m3", steps="0:11", topology="ring") for t in (trace, other)
    )
    sentence = (
        "the other results are of another trace (characters, here digits) and have no tensor in "
        "common with these; give results of the same model"
    )
    with pytest.raises(ValueError, match=re.escape(sentence)):
        apscope.report(one, tmp_path / "r.html", against=two)
    assert not (tmp_path / "r.html").exists()
    two.save(tmp_path / "two")
    monkeypatch.setattr(
        "apscope.cli._report.replay", lambda *_, **__: pytest.fail("the trace was replayed first")
    )
    assert (
        command("report {} -o {} --against {}", trace, tmp_path / "r.html", tmp_path / "two") == 2
    )
    assert capsys.readouterr().err == f"apscope: {sentence}\n"
    two.provenance["traces"][0]["name"] = "digits"  # a name alone is not a trace
    with pytest.raises(ValueError, match="have no tensor in common with these"):
        changes(one, two)
    one.save(tmp_path / "one")
    for words in ([], ["aps:e4m3"]):
        assert main(["compare", str(tmp_path / "one"), str(tmp_path / "two"), *words]) == 2
        assert sentence in capsys.readouterr().err


def test_a_report_takes_the_place_of_a_report_only(results, tmp_path):
    small = altered(results, results.frame[results.frame["scheme"] == "aps:e4m3"])
    foreign = tmp_path / "config.html"
    foreign.write_text("<p>mine</p>")
    with pytest.raises(ValueError, match="is not a report of apscope"):
        apscope.report(small, foreign)
    assert foreign.read_text() == "<p>mine</p>"
    assert apscope.report(small, foreign, force=True) == foreign
    assert apscope.report(small, foreign) == foreign and [p.name for p in tmp_path.iterdir()] == [
        "config.html"
    ]


def test_a_scheme_that_loses_nothing_is_told_so(tmp_path):
    x = np.float32([[1, 2, 4], [1, 2, 4]])
    trace = record(tmp_path / "exact", [{"large": x, "small": 2.0**-30 * x}])
    text = page(apscope.replay(trace, ["aps:e4m3", "loss_scaling:e4m3,scale=largest"]))
    assert "1, 0, 2" in text  # less in one pair, more in none, of two


def test_the_licences_of_the_script_are_in_the_page(results):
    text = page(altered(results, results.frame[results.frame["scheme"] == "aps:e4m3"]))
    for words_of in (
        "Observable, Inc.",
        "Mike Bostock",
        "Julien Barnier",
        "this permission notice appear in all copies",
        "TERMS AND CONDITIONS",
    ):
        assert words_of in text


def test_empty_results_are_refused_in_a_sentence(results, tmp_path):
    nothing = altered(results, results.frame.iloc[:0])
    with pytest.raises(ValueError, match="no row"):
        apscope.report(nothing, tmp_path / "a.html")
    assert not list(tmp_path.iterdir())
