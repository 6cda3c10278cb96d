"""Every label of the report and of README's picture can be read: inside its frame, uncut, over no
other, in light and dark, on a phone, a screen and paper; and no point leaves a frame unmarked."""

import shutil
import subprocess
from xml.etree import ElementTree

import pytest

import apscope
from apscope._charts.front import FLOOR, MEASURES, front_chart
from apscope._charts.svg import chart_svg, symbol_path
from apscope._report import page, shown_schemes
from docs.tools import picture
from tests.python.altered import altered
from tests.python.browser import CHROMIUM
from tests.python.labels import FIND, faults, lines

TRACES = ["digits", "digits_w64", "characters", "resnet18", "gpt"]
SCHEMES = ["none:fp32", "none:fp16", "none:e4m3", "loss_scaling:e3m4,scale=largest,rule=tight",
           "loss_scaling:e3m4,scale=best,overflow=saturate", "aps:e3m4,rule=tight,unit=model",
           "aps:e3m4,rule=tight", "aps:e4m3fn,rule=tight,unit=32", "aps:e2m1fn,rule=tight,unit=16",
           "mx:block_format=mxfp4", "stochastic:e4m3", "qsgd",
           "hybrid(first=none:bf16;last=loss_scaling:e4m3fn,scale=largest,rule=tight;"
           "else=aps:e3m4,rule=tight,unit=32,rounding=stochastic)"]  # fmt: skip


@pytest.fixture(scope="module")
def parts(request):
    data = request.config.rootpath / "notebooks/data"
    found = {}
    for name in TRACES:
        steps = apscope.open_trace(data / name).steps
        some = sorted({steps[i] for i in (0, 1, 2, len(steps) // 2, -1)})
        found[name] = apscope.replay(
            data / name, SCHEMES, steps=some, topology=["ring", "two_phase"]
        )
    return found


def told(browser, results, folder, widths=(420, 1400)):
    path = folder / "page.html"
    path.write_text(page(results), encoding="utf-8")
    found = lines(faults(browser, path, widths))
    assert browser.messages == []
    return found


@pytest.mark.parametrize("trace", TRACES)
def test_every_label_of_a_report_can_be_read(browser, parts, trace, tmp_path):
    assert told(browser, parts[trace], tmp_path) == []


@pytest.mark.long
def test_every_label_of_a_report_of_five_traces_can_be_read(browser, parts, tmp_path):
    assert told(browser, apscope.merge([*parts.values()]), tmp_path) == []


def renamed(results, trace):
    """Results with long names of the trace and of all layers: of one word, of a path, of no Latin."""
    frame, histograms = results.frame.copy(), results.histograms.copy()
    kinds = ["encoder.blocks.{}.self_attention.output_projection.weight_orig", "W" * 90 + "{}",
             "勾配・重み・" * 12 + "{}", "model/{}/" + "mixture_of_experts_" * 6 + "bias",
             "{}" + "i" * 80, "{}" + "m.m_" * 40]  # fmt: skip
    names = {
        name: kinds[i % len(kinds)].format(i) for i, name in enumerate(frame["tensor"].unique())
    }
    for table in (frame, histograms):
        table["tensor"] = table["tensor"].map(lambda name: names.get(name, name))
        table["trace"] = trace
    return altered(results, frame, histograms=histograms)


def test_every_label_of_a_report_with_long_names_can_be_read(browser, parts, tmp_path):
    hostile = [renamed(parts["digits"], "run_of_" * 30), renamed(parts["characters"], "W" * 200)]
    assert told(browser, apscope.merge(hostile), tmp_path) == []


def test_every_label_of_readmes_picture_can_be_read(browser, parts, request, tmp_path):
    docs = request.config.rootpath / "docs"
    assert lines(faults(browser, docs / "picture.svg")) == []
    drawn = tmp_path / "picture.svg"
    text = picture.picture(apscope.merge([*parts.values()]), {name: name for name in TRACES})
    drawn.write_text(text, encoding="utf-8")
    assert lines(faults(browser, drawn)) == []


FAULTY = """<!doctype html><style>body {{ margin: 0; font: 16px sans-serif }} p {{ margin: 0 }}</style>
<svg width="200" height="60" aria-label="one"><rect width="200" height="60" fill="{fill}"/>
<text x="{x}" y="20">first label</text><text x="60" y="{y}">second</text></svg>
<div style="overflow: {overflow}; width: 100px"><p style="white-space: nowrap">a sentence that is
longer</p></div><table><td style="max-width: {cell}px; overflow-wrap: anywhere">heading</table>"""
SOUND = {"fill": "#fff", "x": 2, "y": 50, "overflow": "auto", "cell": 200}


@pytest.mark.parametrize(
    "change, kinds",
    [
        ({}, set()),
        ({"x": 160}, {"outside its picture"}),
        ({"y": 25}, {"overlap"}),
        ({"fill": "#400"}, {"faint"}),
        ({"overflow": "hidden"}, {"cut"}),
        ({"cell": 30}, {"broken"}),
        ({"x": -8}, {"outside its picture", "beyond the page"}),
    ],
)
def test_the_check_finds_what_cannot_be_read(browser, tmp_path, change, kinds):
    path = tmp_path / "page.html"
    path.write_text(FAULTY.format(**SOUND | change), encoding="utf-8")
    found = [one for one in faults(browser, path, (420,)) if one.view == "420 light"]
    assert {one.kind for one in found} == kinds, found


def test_a_page_that_is_printed_as_soon_as_it_is_loaded_has_every_part(parts, tmp_path):
    path, paper = tmp_path / "page.html", tmp_path / "page.pdf"
    text = page(parts["digits"])
    sizes = []
    for script in ("module", "text/plain"):  # the second does not run
        path.write_text(text.replace('type="module"', f'type="{script}"'), encoding="utf-8")
        subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}",
             f"--print-to-pdf={paper}", path.as_uri()],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
        sizes.append(paper.stat().st_size)
        shutil.rmtree(tmp_path / "profile", ignore_errors=True)
    assert sizes[0] > 1.5 * sizes[1], sizes  # it is more than half of the page


def test_every_point_beyond_a_frame_is_an_arrow_that_tells_its_value(browser, parts, tmp_path):
    table = parts["digits"].summary()
    rows = shown_schemes.front(table, "ring")
    chart = front_chart(rows, floor=1e-5)
    column = next(name for name, unit in MEASURES.items() if unit == chart.y.label)
    low = {p.says.splitlines()[0]: p for p in chart.points if p.beyond}
    beyond = rows[(rows[column] < 1e-5) & (rows["volume"] > 0)]
    assert len(low) == len(beyond) > 1  # fp32 and fp16
    assert all(p.says.splitlines()[1].endswith("below the axis") for p in low.values())
    picture = ElementTree.fromstring(chart_svg(chart, 350.0, 158.0))
    paths = [path.get("d") for path in picture.iter("path") if "mark" in path.get("class", "")]
    assert paths.count(symbol_path("below")) == len(beyond)
    assert "↓ below the axis" in [text.text for text in picture.iter("text")]
    # The page's own chart has the same floor for all.
    browser.show(page(parts["digits"]), tmp_path)
    browser.run("apscopePage.drawAll()")
    column = browser.run("apscopePage.state.measure")
    wanted = rows[(rows[column] < FLOOR) & (rows["volume"] > 0)]
    arrows = "document.querySelectorAll('#frontier figure')[0].querySelectorAll('g[aria-label=vector] path').length"
    assert browser.run(arrows) == len(wanted) > 0
    told = browser.run("document.querySelector('#frontier .note').textContent")
    assert told == f"Arrows: {MEASURES[column]} below 10⁻⁷; tips have it."


def test_text_on_a_cell_is_black_on_light_ones_and_white_on_dark_ones(browser, parts, tmp_path):
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.show(page(parts["gpt"]), tmp_path)
        # A scheme that overflows against one that does not: crosses on the darkest cells.
        browser.select(a="aps:e4m3fn,rule=tight,unit=32", b="none:fp32", aReduction="ring")
        crosses = browser.texts("#versus g[aria-label=text] text")
        assert crosses and set(crosses) == {"×"}
        assert browser.run(FIND)["found"] == []
    browser.prefer("light")
