"""The report over schemes of every kind: costs in the table, reductions of their own, policies, long names."""

import math
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.text import Text

import apscope
from apscope import cost, plots
from apscope.plots.style import _spread
from apscope.pooling import OWN_REDUCTIONS, headline_rows, pool, whole_sums
from apscope.report import words
from apscope.report.measure import LARGE, measure
from apscope.report.table import table

MIXED = "hybrid(last=qsgd;else=aps:e4m3)"
LONG = "hybrid(first&name:weight=none:fp32;last=none:fp16;steps:0:10=none:bf16;else=aps:e3m0)"
SPECS = [
    "none:fp32", "none:e4m3", "aps:e4m3", "aps:e3m0", "aps:e4m3,accumulate=fp32", "aps:e5m2,rounding=stochastic,random_bits=8,hop_rounding=ties_to_even",
    "loss_scaling:e4m3,scale=best", "dynamic_loss_scaling:fp16", "stochastic:e4m3", "qsgd", "qsgd:levels=1", "error_feedback(aps:e3m0)",
    "error_feedback(aps:e3m0),decay=0.5", "error_feedback(aps:e3m0,accumulate=fp32)", "sign_vote", "onebit_adam", "birder", "powersgd:rank=1",
    "terngrad", "hybrid(last=none:fp16;else=aps:e4m3)", MIXED, LONG, "report_own",
]  # fmt: skip


@pytest.fixture(scope="module")
def results(request):
    apscope.schemes.define("report_own", "none:e4m3", encode=lambda step, theta, x, worker: np.sign(x) * np.abs(x).mean(), bits=1)
    return apscope.replay(request.config.rootpath / "notebooks/data/digits", SPECS, steps="0:12", topology=["ring", "tree"])


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    return apscope.report(results, tmp_path_factory.mktemp("report") / "report.html")


class Cells(HTMLParser):
    """Rows of data-key by head, and the heads' titles."""

    def __init__(self, text):
        super().__init__()
        self.titles, self.rows = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag == "th":
            self.titles.append(found["title"])
        elif tag == "tr":
            self.rows.append([])
        elif tag == "td":
            self.rows[-1].append(found)


@pytest.fixture(scope="module")
def cells(results, page):
    heads = [h["text"] for h in table([measure(results.frame)])["heads"]]
    parsed = Cells(page.read_text())
    return {row[0]["title"]: dict(zip(heads, row, strict=True)) for row in parsed.rows if row}


def test_every_scheme_has_a_row_with_all_numbers(cells):
    assert set(cells) == set(SPECS)
    for spec, row in cells.items():
        for head in ("NMSE", "NMSE wire", "Bias", "Bias wire", "Variance", "Variance wire", "Underflow", "Bits a value", "Total bits", "Time", "Time, 26M"):
            assert math.isfinite(float(row[head]["data-key"])), (spec, head)


def test_total_bits_and_times_are_those_of_the_rows_and_the_model(results, cells, page):
    frame = results.frame
    wire = frame[frame.stage == "wire"]
    small, large = cost.step_time(results), cost.step_time(results, elements=LARGE)
    for spec, row in cells.items():
        own = wire[wire.scheme == spec]
        assert float(row["Total bits"]["data-key"]) == (own.wire_bits + own.side_bits).sum() / 12
        for head, model in (("Time", small), ("Time, 26M", large)):
            mine = model[(model.scheme == spec) & (model.topology != "exact")].set_index("topology").seconds
            assert float(row[head]["data-key"]) == pytest.approx(mine["ring"] if "ring" in mine else mine.iloc[0], rel=1e-12)
    titles = " ".join(Cells(page.read_text()).titles)
    assert "10 GB/s and 5 µs a message" in titles and "not measured" in titles
    assert cells["aps:e4m3"]["Time, 26M"]["data-key"] < cells["none:fp32"]["Time, 26M"]["data-key"]


def test_the_wires_columns_are_pooled_over_the_wires_rows(results, cells):
    pooled = pool(results.frame[results.frame.stage == "wire"], ["scheme"]).set_index("scheme")
    for spec, row in cells.items():
        for head, column in (("NMSE wire", "nmse"), ("Bias wire", "bias"), ("Variance wire", "variance")):
            assert float(row[head]["data-key"]) == pooled.at[spec, column]


def test_the_headline_of_a_policy_covers_all_its_tensors(results):
    frame = results.frame
    head = headline_rows(frame)
    assert not head.duplicated(["scheme", "tensor", "step"]).any()
    assert len(head) == len(SPECS) * 6 * 12
    mine = head[head.scheme == MIXED]
    assert {t: set(rows.topology) for t, rows in mine.groupby("tensor")} == {
        t: {"gather"} if t.startswith("head") else {"ring"} for t in set(frame.tensor)
    }
    entry = next(e for e in measure(frame)["schemes"] if e["scheme"] == MIXED)
    by_hand = math.fsum(mine.sum_squared_error) / math.fsum(mine.sum_squared_reference)
    assert entry["headline"]["nmse"] == pytest.approx(by_hand, rel=1e-12)
    assert set(entry["topologies"]) == {"ring", "gather"} and entry["own_reduction"] and not entry["gathered"]


def test_a_policys_topologies_are_compared_over_all_its_tensors(results):
    reduced = results.frame[results.frame.stage == "reduced"]
    whole = whole_sums(reduced)
    mine = whole[whole.scheme == MIXED]
    assert set(mine.topology) == {"exact", "ring", "tree"} and (mine.groupby("topology").tensor.nunique() == 6).all()
    others = reduced[reduced.scheme != MIXED]
    assert whole[whole.scheme != MIXED].equals(others)
    qsgd = reduced[(reduced.scheme == MIXED) & (reduced.topology == "gather")].sum_squared_error.sum()
    ring = reduced[(reduced.scheme == MIXED) & (reduced.topology == "ring")].sum_squared_error.sum()
    assert mine[mine.topology == "ring"].sum_squared_error.sum() == pytest.approx(qsgd + ring, rel=1e-12)


def test_words_tell_reductions_of_their_own_from_gathering(results):
    m = measure(results.frame)
    own = {e["scheme"]: e for e in m["schemes"] if e["own_reduction"]}
    assert {e["topology"] for e in own.values()} >= set(OWN_REDUCTIONS)
    assert {s for s, e in own.items() if e["gathered"]} == {"stochastic:e4m3", "qsgd", "qsgd:levels=1", "report_own"}
    assert not any(e["adds_in_format"] for e in own.values())
    why = {line["label"]: line["text"] for line in words.why(results.frame, m)}
    assert "reduction (vote)" in why["sign_vote"] and "additions" not in why["sign_vote"]
    text = " ".join(words.caveats(results.frame, [m]))
    assert "`birder`" in text.split("Schemes with a state (")[1].split(") take the recorded")[0] and "Times are a model's" in text


def test_labels_stay_inside_where_they_fit():
    heights = [0.1] * 8
    free = _spread([0.0] * 4 + [1.0] * 4, heights)
    kept = _spread([0.0] * 4 + [1.0] * 4, heights, -0.02, 1.02)
    assert free[0] < -0.1 and kept[0] == pytest.approx(0.03) and kept[-1] == pytest.approx(0.97)
    assert all(b - a >= 0.1 - 1e-12 for a, b in zip(kept, kept[1:]))
    crowd = _spread([0.5] * 20, heights * 3, -0.02, 1.02)  # no room: none over another is what counts
    assert all(b - a >= 0.1 - 1e-12 for a, b in zip(crowd, crowd[1:]))


def test_plots_of_a_crowd_have_room_for_every_name(results):
    for plot in (plots.variance_over_steps, plots.sqnr_against_bits):
        ax = plot(results)
        ax.figure.canvas.draw()
        boxes = [Text.get_window_extent(t) for t in ax.texts]  # without the line to its point
        assert len(boxes) >= len(SPECS) - 1
        boxes.sort(key=lambda b: b.y0)
        assert all(b.y0 >= a.y1 - 2 for a, b in zip(boxes, boxes[1:])), plot.__name__
        assert ax.get_position().width * ax.figure.get_size_inches()[0] > 1.2, "the names push the axes away"
