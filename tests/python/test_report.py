"""The report: one file, whose words and table say what the numbers say."""

import json
import math
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope.cli import main
from apscope.report import glossary, words
from apscope.report.measure import measure
from apscope.report.table import table

SCHEMES = ["none:e4m3", "loss_scaling:e4m3,scale=best,headroom=one", "dynamic_loss_scaling:e4m3", "aps:e4m3", "stochastic:e4m3", "qsgd"]
NUMBERS = ["underflow_rate", "bias", "relative_bias", "variance", "mse", "nmse", "sqnr_db", "cosine", "sum_error",
           "sum_squared_error", "sum_squared_reference"]
COUNTS = ["counted", "nonzero", "underflow", "overflow", "nan", "infinite"]


@pytest.fixture(scope="module")
def results(request):
    trace = request.config.rootpath / "notebooks/data/digits"
    return apscope.replay(trace, SCHEMES, steps=[0, 8, 9, 10, 1500], topology=["ring", "tree"])


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    return apscope.report(results, tmp_path_factory.mktemp("report") / "report.html")


class Page(HTMLParser):
    """Ids, addresses, tags and the table of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.addresses, self.tags, self.rows, self.open = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in ("meta", "br", "link", "img", "path", "use", "rect", "image"):
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "srcset", "action", "data"):
                self.addresses.append(value)
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append(dict(attributes) | {"text": ""})

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.rows[-1][-1]["text"] += data


def edited(results, where, values):
    frame = results.frame.copy()
    for column, value in values.items():
        frame.loc[where(frame), column] = value
    return apscope.Results(frame, results.histograms, results.provenance)


def test_the_page_needs_nothing_from_outside(page):
    text = page.read_text()
    parsed = Page(text)
    assert all(a.startswith(("#", "data:")) for a in parsed.addresses)
    assert "://" not in text and "@import" not in text and "link" not in parsed.tags
    assert all(found == "#" or found.startswith("data:") for found in re.findall(r"url\(['\"]?(#|[^)#]*)", text))


def test_ids_are_unique_and_every_reference_has_its_target(page):
    text = page.read_text()
    parsed = Page(text)
    assert len(parsed.ids) == len(set(parsed.ids))
    wanted = {a[1:] for a in parsed.addresses if a.startswith("#")} | set(re.findall(r"url\(#([^)]+)\)", text))
    assert wanted <= set(parsed.ids)
    assert parsed.tags.count("svg") > 15


def test_how_to_repeat_it_is_there(page, results):
    text = page.read_text()
    trace = results.provenance["traces"][0]
    assert trace["hash"] in text and results.provenance["version"] in text
    assert "apscope replay" in text and "--seed 0" in text


def pooled(results, scheme, topology):
    """NMSE from the table, summed in another way than the report's."""
    rows = results.frame[(results.frame["scheme"] == scheme) & (results.frame["topology"] == topology) & ~results.frame["skipped"]]
    return math.fsum(rows["sum_squared_error"]) / math.fsum(rows["sum_squared_reference"])


def cells(page, results):
    """Scheme -> head -> cell, from the HTML."""
    heads = [h["text"] for h in table([measure(results.frame)])["heads"]]
    return {row[0]["title"]: dict(zip(heads, row, strict=True)) for row in Page(page.read_text()).rows if row}


def test_the_tables_numbers_are_those_of_the_frame(page, results):
    found = cells(page, results)
    specs = list(dict.fromkeys(results.frame["scheme"]))
    assert list(found) and set(found) == set(specs)
    for spec in specs:
        own = "gather" if (spec, "gather") in set(zip(results.frame["scheme"], results.frame["topology"])) else "ring"
        assert float(found[spec]["NMSE"]["data-key"]) == pytest.approx(pooled(results, spec, own), rel=1e-12)
        for head, topology in (("SQNR wire", ""), ("SQNR exact", "exact"), (f"SQNR {own}", own)):
            sqnr = -10 * math.log10(pooled(results, spec, topology))
            assert float(found[spec][head]["data-key"]) == pytest.approx(sqnr, rel=1e-12)
            assert found[spec][head]["text"].rstrip("†").replace("−", "-") == f"{sqnr:.1f}"
        wire = results.frame[(results.frame["scheme"] == spec) & (results.frame["stage"] == "wire") & ~results.frame["skipped"]]
        assert float(found[spec]["Underflow"]["data-key"]) == wire["underflow"].sum() / wire["nonzero"].sum()
        head = results.frame[(results.frame["scheme"] == spec) & (results.frame["topology"] == own) & ~results.frame["skipped"]]
        bias = math.fsum(head["sum_error"]) / head["counted"].sum()
        assert float(found[spec]["Bias"]["data-key"]) == pytest.approx(bias, rel=1e-9)
        variance = math.fsum(head["sum_squared_error"]) / head["counted"].sum() - bias**2
        assert float(found[spec]["Variance"]["data-key"]) == pytest.approx(variance, rel=1e-9)
        skipped = results.frame.loc[(results.frame["scheme"] == spec) & results.frame["skipped"], "step"].nunique()
        assert int(found[spec]["Skipped"]["data-key"]) == skipped
        assert float(found[spec]["Bits a value"]["data-key"]) == pytest.approx(
            (wire["wire_bits"].sum() + wire["side_bits"].sum()) / (wire["count"].sum() / 8))


def test_overflow_ranks_last_and_a_skipped_step_before_it(results):
    m = measure(results.frame)
    by_rank = sorted(m["schemes"], key=lambda e: e["rank"])
    over = [bool((e["wire"]["overflow"] or 0) + (e["headline"]["overflow"] or 0)) for e in by_rank]
    assert any(over) and over == sorted(over)
    kept = [e for e, o in zip(by_rank, over) if not o]
    assert [bool(e["skipped"]) for e in kept] == sorted(bool(e["skipped"]) for e in kept)
    whole = [e["headline"]["nmse"] for e in kept if not e["skipped"]]
    assert whole == sorted(whole)


def test_the_words_name_the_scheme_the_numbers_name(results, page):
    heads = {e["scheme"]: e for e in measure(results.frame)["schemes"]}
    sound = {s: e["headline"]["nmse"] for s, e in heads.items() if not e["skipped"] and not e["headline"]["overflow"]}
    best = min(sound, key=sound.get)
    sentence = words.which(measure(results.frame))[0]
    assert sentence.startswith(f"`{heads[best]['label']}` lost least") and words.figure(sound[best]) in sentence
    assert f"<code>{heads[best]['label']}</code> lost least" in page.read_text()


@pytest.mark.parametrize("winner", ["none:e4m3", "aps:e4m3", "qsgd"])
def test_other_numbers_give_other_words(results, winner):
    winner = next(s for s in results.frame["scheme"].unique() if s.startswith(winner))
    better = edited(results, lambda f: (f["scheme"] == winner) & (f["stage"] == "reduced"), {"sum_squared_error": 1e-30})
    m = measure(better.frame)
    label = next(e["label"] for e in m["schemes"] if e["scheme"] == winner)
    assert words.which(m)[0].startswith(f"`{label}` lost least")
    assert words.why(better.frame, m)[0]["label"] == label
    assert ("gathered" in " ".join(words.which(m))) == (label == "qsgd")


def test_equal_schemes_are_called_level(results):
    frame = results.frame
    twin = frame[frame["scheme"] == "aps:e4m3"].assign(scheme="aps:e4m3,accumulate=fp32")
    both = pd.concat([frame[frame["scheme"] == "aps:e4m3"], twin], ignore_index=True)
    assert "are level, and lost least" in words.which(measure(both))[0]
    # A difference of more than one percent is a difference.
    both.loc[both["scheme"] == "aps:e4m3", "sum_squared_error"] *= 1.02
    assert "level" not in words.which(measure(both))[0]


def test_narrower_schemes_are_named_with_their_bits(results):
    sentences = words.which(measure(results.frame))
    qsgd = pooled(results, results.frame["scheme"].iloc[-1], "gather")
    assert f"With 5 bits a value or fewer `qsgd` loses least: NMSE {words.figure(qsgd)}" in " ".join(sentences)
    same_width = results.frame[results.frame["scheme"] != results.frame["scheme"].iloc[-1]]
    assert "or fewer" not in " ".join(words.which(measure(same_width)))


def test_wins_are_counted_among_schemes_that_kept_every_step_without_overflow(results):
    schemes = measure(results.frame)["schemes"]
    sound = [e for e in schemes if e["status"] == "complete"]
    frame = results.frame[results.frame["scheme"].isin([e["scheme"] for e in sound]) & results.frame["topology"].isin(["ring", "gather"])]
    wide = frame.pivot(index=["tensor", "step"], columns="scheme", values="nmse")
    for e in schemes:
        won = (wide[e["scheme"]] * 0.99 <= wide.min(axis=1)).sum() if e in sound else 0
        assert e["least_in"] == won, e["label"]


def test_why_tells_skipped_steps_and_compares_on_the_kept_ones(results):
    frame = results.frame
    m = measure(frame)
    line = next(w["text"] for w in words.why(frame, m) if w["label"] == "dynamic_loss_scaling")
    kept = frame[~frame["step"].isin(frame.loc[frame["skipped"], "step"]) & (frame["scheme"] == "stochastic:e4m3") & (frame["topology"] == "gather")]
    like = words.figure(kept["sum_squared_error"].sum() / kept["sum_squared_reference"].sum())
    assert re.match(r"skipped \d of 5 steps \(", line) and f"where `stochastic` has {like}" in line


def test_caveats_are_those_that_apply(results):
    every = " ".join(words.caveats(results.frame, [measure(results.frame)]))
    for word in ("lower bound", "consecutive", "W - 1 times", "ranks last", "skipped step loses", "pooled"):
        assert word in every
    aps = results.frame[results.frame["scheme"] == "aps:e4m3"]
    few = " ".join(words.caveats(aps, [measure(aps)]))
    for word in ("lower bound", "consecutive", "W - 1 times", "ranks last", "skipped"):
        assert word not in few
    noted = aps.assign(note="not measurable on this trace: needs weights")
    assert "needs weights" in " ".join(words.caveats(noted, [measure(noted)]))


def test_sort_keys_are_numbers_and_empty_where_nothing_is(page, results):
    for row in cells(page, results).values():
        for head, cell in row.items():
            if head not in ("Scheme", "Trace", "Format"):
                assert cell["data-key"] == "" or math.isfinite(float(cell["data-key"])), head
    assert cells(page, results)["aps:e4m3"]["SQNR gather"]["data-key"] == ""


def test_the_json_beside_it_holds_the_same_numbers(page, results):
    numbers = json.loads(page.with_suffix(".json").read_text())
    assert numbers["provenance"] == results.provenance
    found = {e["scheme"]: e["headline"]["nmse"] for e in numbers["measures"][0]["schemes"]}
    assert found["aps:e4m3"] == pytest.approx(pooled(results, "aps:e4m3", "ring"), rel=1e-12)
    assert words.which(measure(results.frame)) == numbers["summary"][0]["which"]


def test_the_same_results_give_the_same_page(page, results, tmp_path):
    assert apscope.report(results, tmp_path / "again.html").read_bytes() == page.read_bytes()


def small(results, schemes=("none:e4m3", "aps:e4m3"), steps=(0,)):
    frame = results.frame
    kept = frame[frame["scheme"].isin(schemes) & frame["step"].isin(steps) & frame["tensor"].isin(["norm.weight", "norm.bias"])]
    return apscope.Results(kept.reset_index(drop=True), results.histograms, results.provenance)


def test_every_step_skipped(results, tmp_path):
    nothing = edited(small(results), lambda f: f["scheme"] == "none:e4m3",
                     {"skipped": True} | dict.fromkeys(NUMBERS, np.nan) | dict.fromkeys(COUNTS, pd.NA))
    text = apscope.report(nothing, tmp_path / "a.html").read_text()
    assert "skipped all 1 step, so nothing is left" in text
    nothing = edited(nothing, lambda f: f["scheme"] == "aps:e4m3", {"skipped": True} | dict.fromkeys(NUMBERS, np.nan) | dict.fromkeys(COUNTS, pd.NA))
    assert "No scheme left anything to compare" in apscope.report(nothing, tmp_path / "b.html").read_text()


def test_zero_gradients(results, tmp_path):
    zero = edited(small(results), lambda f: f["step"] == 0, dict.fromkeys(NUMBERS, 0.0) | {"nonzero": 0, "underflow": 0})
    zero.frame[["underflow_rate", "nmse", "sqnr_db", "cosine"]] = np.nan
    text = apscope.report(zero, tmp_path / "a.html").read_text()
    assert "no gradient is finite and nonzero" in text and "nan" not in re.sub(r"<svg.*?</svg>|<code>nan</code>", "", text, flags=re.DOTALL).replace("NaN", "")


def test_no_error_at_all_is_infinite_decibels(results, tmp_path):
    exact = edited(small(results), lambda f: f["scheme"] == "aps:e4m3", {"sum_squared_error": 0.0, "sum_error": 0.0})
    path = apscope.report(exact, tmp_path / "a.html")
    assert "NMSE 0 (no error)" in path.read_text()
    assert json.loads(path.with_suffix(".json").read_text())["measures"][0]["schemes"][1]["headline"]["sqnr_db"] == "inf"


def test_a_trace_with_wire_rows_only(results, tmp_path):
    wire = small(results, steps=(0, 8))
    wire.frame = wire.frame[wire.frame["stage"] == "wire"].reset_index(drop=True)
    text = apscope.report(wire, tmp_path / "a.html").read_text()
    assert "lost least at the wire" in text and "Encoding and adding" not in text


def test_missing_optional_columns(results, tmp_path):
    few = small(results)
    few.frame = few.frame.drop(columns=["scale_exponent", "subnormal", "saturated", "note", "max_ulp", "expected_bias", "expected_variance"])
    assert "lost least" in apscope.report(few, tmp_path / "a.html").read_text()


def test_names_are_escaped(results, tmp_path):
    odd = small(results)
    odd.frame = odd.frame.assign(trace="<b>&", tensor="<script>alert(1)</script>")
    text = apscope.report(odd, tmp_path / "a.html").read_text()
    assert "<script>alert" not in text and "<b>&<" not in text and "&lt;b&gt;&amp;" in text
    parsed = Page(text)
    assert parsed.tags.count("script") == 1 and len(parsed.ids) == len(set(parsed.ids))


def test_traces_whose_names_look_alike_keep_their_ids_apart(results, tmp_path):
    one = small(results)
    one.frame = pd.concat([one.frame.assign(trace="a b"), one.frame.assign(trace="a-b")], ignore_index=True)
    parsed = Page(apscope.report(one, tmp_path / "a.html").read_text())
    assert len(parsed.ids) == len(set(parsed.ids))


@pytest.mark.parametrize("name, sentence", [
    ("missing/report.html", "folder .*missing does not exist"),
    ("file/report.html", "folder .*file does not exist or is no folder"),
    ("report.json", "ends in .html"),
])
def test_a_place_that_cannot_be_written_is_refused(results, tmp_path, name, sentence):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ValueError, match=sentence):
        apscope.report(small(results), tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_text() == "kept"


def test_a_failed_write_leaves_nothing_behind(results, tmp_path, monkeypatch):
    (tmp_path / "report.html").write_text("old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="report.html cannot be written: No space left"):
        apscope.report(small(results), tmp_path / "report.html")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"] and (tmp_path / "report.html").read_text() == "old"


def test_no_rows_are_refused(results, tmp_path):
    with pytest.raises(ValueError, match="no row"):
        apscope.report(small(results, schemes=()), tmp_path / "a.html")


def test_the_verb_takes_results_and_traces(results, tmp_path, request, capsys, monkeypatch):
    small(results).save(tmp_path / "out")
    assert main(["report", str(tmp_path / "out"), "-o", str(tmp_path / "a.html")]) == 0
    assert "lost least" in (tmp_path / "a.html").read_text()
    trace = request.config.rootpath / "notebooks/data/digits_w64"
    # The figures of all default schemes take a while; the verb is what is tested here.
    monkeypatch.setattr(sys.modules["apscope.report.figures"], "figures", lambda *a: [])
    assert main(["report", str(trace), "-o", str(tmp_path / "b.html")]) == 0
    text = (tmp_path / "b.html").read_text()
    for scheme in apscope.main_schemes():
        assert f"<code>{scheme.spec}</code>" in text
    assert capsys.readouterr().err == ""


def test_the_verb_refuses_in_one_sentence(tmp_path, capsys):
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "a.html")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "neither a trace" in error and str(tmp_path) in error
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "no" / "a.html")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_the_glossary_is_the_definitions_word_for_word(request):
    text = (request.config.rootpath / "docs/definitions.md").read_text()
    for column, definition in glossary.COLUMNS.items():
        assert f"| `{column}` | {definition} |" in text


@pytest.mark.parametrize("value, text", [
    (0.0, "0"), (None, "–"), (math.inf, "∞"), (0.00310, "0.00310"), (2.84e-5, "2.84\u00a0×\u00a010⁻⁵"), (12.34, "12.3"), (-0.5, "−0.500"), (1234567.0, "1.23\u00a0×\u00a010⁶"),
    (9.999e-5, "1.00\u00a0×\u00a010⁻⁴"), (123456.0, "123456"),
])
def test_numbers_read_well(value, text):
    assert words.figure(value) == text


@pytest.mark.parametrize("rate, text", [(0, "0\u00a0%"), (1e-6, "below 0.01\u00a0%"), (0.004, "0.40\u00a0%"), (0.05, "5.0\u00a0%"), (0.999, "99.90\u00a0%"), (None, "–")])
def test_a_share_that_is_not_zero_never_reads_as_zero(rate, text):
    assert words.percent(rate) == text
