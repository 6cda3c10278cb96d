"""The report in a browser: its content, its interaction, and numbers equal to those of
`Results.summary`."""

import html
import itertools
import math
import time

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._page.numbers import percent
from apscope._report import page
from apscope._results.figures import columns_of
from tests.python.altered import altered
from tests.python.browser import busy
from tests.python.labels import SHEET

SCHEMES = ["none:fp32", "none:bf16", "none:e4m3", "loss_scaling:e4m3,scale=largest", "aps:e4m3",
           "aps:e4m3,rounding=stochastic", "stochastic:e4m3",
           "loss_scaling:e3m4,scale=largest", "aps:e3m4", "dynamic_loss_scaling:e4m3", "qsgd",
           "hybrid(last=qsgd;else=aps:e4m3)"]  # fmt: skip


@pytest.fixture(scope="module")
def results(request):
    data = request.config.rootpath / "notebooks/data"
    parts = [apscope.replay(data / name, SCHEMES, steps=steps, topology=["ring", "tree"]) for name, steps in
             (("digits", [0, 1, 8, 9, 34, 240, 480, 1500]), ("characters", None))]  # fmt: skip
    return apscope.merge(parts)


def shown(browser, text, folder, **about):
    """Opens a page, which must neither write to the console nor request anything."""
    browser.prefer("light")
    browser.resize(about.get("width", 1400), about.get("height", 1000))
    took = browser.show(text, folder)
    browser.run("apscopePage.drawAll()")
    assert browser.messages == []
    assert [r for r in browser.requests if not r.startswith(("file:", "blob:", "data:"))] == []
    assert [r for r in browser.requests if r.startswith("file:")] == [
        (folder / "page.html").as_uri()
    ]
    return took


@pytest.fixture(scope="module")
def text(results):
    return page(results)


@pytest.fixture
def opened(browser, text, tmp_path):
    shown(browser, text, tmp_path)
    return browser


def assert_equal(found, wanted, what):
    if wanted is None or wanted is pd.NA or (isinstance(wanted, float) and math.isnan(wanted)):
        assert found is None, what
    elif isinstance(wanted, float) and math.isinf(wanted):
        assert found is None, what  # JSON has no infinity
    elif isinstance(wanted, str):
        assert found == wanted, what
    else:
        assert found == pytest.approx(float(wanted), rel=1e-5, abs=1e-12), what


def test_the_aggregation_gives_the_numbers_of_summary(opened, results):
    summary = results.summary()
    columns = [*columns_of(page="part"), *columns_of(page="whole")]
    compared = 0
    for trace, own in summary.groupby("trace", sort=False):
        opened.run(f"apscopePage.state.trace = {trace!r}; apscopePage.update()")
        records = opened.run("apscopePage.view().everyTopology")
        by_place = {(r["scheme"], r["topology"]): r for r in records}
        assert set(by_place) == set(zip(own["scheme"], own["topology"]))
        for row in own.to_dict("records"):
            found = by_place[row["scheme"], row["topology"]]
            assert found["family"] == row["family"]
            for column in columns:
                assert_equal(
                    found[column], row[column], (trace, row["scheme"], row["topology"], column)
                )
                compared += 1
    assert compared > 500


def test_wins_of_the_page_are_those_of_compare(browser, request, tmp_path):
    """Also near ties, which fp32 cannot distinguish."""
    specs = ["none:e5m2", "aps:e5m2", "loss_scaling:e5m2,scale=largest"]
    results = apscope.replay(
        request.config.rootpath / "notebooks/data/digits", specs, topology="ring"
    )
    shown(browser, page(results), tmp_path)
    narrow = 0
    for a, b in itertools.combinations(specs, 2):
        browser.select(a=a, b=b)
        layers = results.compare(a, b, topology="ring").query("not whole")
        sums = layers[["steps", "wins", "losses", "ties"]].sum()
        told = browser.run("document.querySelector('#versus .said').textContent")
        wanted = (
            f"of {sums.steps} pairs of a layer and a step A loses less in {sums.wins}, more "
            f"in {sums.losses}, as much in {sums.ties}."
        )
        assert told.endswith(wanted), (a, b, told, wanted)
        rows = (
            results.frame.query("topology == 'ring'")
            .set_index(["tensor", "step", "scheme"])
            .sum_squared_error.unstack()
            .astype(np.float32)
        )
        narrow += int((rows[a] == rows[b]).sum() - sums.ties)
    assert narrow > 50


def test_overflow_is_told_wherever_such_a_row_appears(browser, request, tmp_path):
    a, b = "aps:e4m3", "loss_scaling:e4m3,scale=128"
    data = request.config.rootpath / "notebooks/data/digits"
    results = apscope.replay(data, [a, b], steps=[0, 8, 9, 34, 240], topology="ring")
    shown(browser, page(results), tmp_path)
    browser.select(a=a, b=b)
    table = results.compare(a, b).set_index("layer").drop("all")
    assert (table.nmse_b == np.inf).any() and not (table.nmse_b == np.inf).all()
    cells = browser.versus()
    assert {row[0]: row[6] == "overflow" for row in cells} == (
        table.nmse_b == np.inf
    ).to_dict() and not any(row[5] == "overflow" for row in cells)
    assert browser.texts("#versus .plot svg text").count("×") == table.overflowed_b.sum()
    assert "B overflowed here, so its error is not finite and has no parts." in browser.run(
        "document.querySelector('#versus').textContent"
    )
    browser.select(measure="nmse")
    assert "Not drawn, because values overflowed and no finite error is left: 1." in browser.run(
        "document.querySelector('#frontier').textContent"
    )
    worst = table.index[table.nmse_b == np.inf][0]
    browser.select(picked={"layer": worst, "step": None})
    assert "×" in browser.texts("#versus .detail svg text")
    assert browser.messages == []


def test_a_click_on_a_layer_and_on_a_cell_opens_it(opened):
    opened.run("document.querySelector('#versus tbody button').scrollIntoView()")
    opened.run("document.querySelector('#versus tbody button').click()")
    opened.wait("document.querySelectorAll('#versus .detail .plot svg[role=img]').length == 4")
    name = opened.run("document.querySelector('#versus tbody button').textContent")
    assert name in opened.run("document.querySelector('#versus .detail h4').textContent")
    assert (
        opened.run("document.querySelector('#versus tbody button').getAttribute('aria-pressed')")
        == "true"
    )
    opened.run("document.querySelector('#versus .detail button').click()")
    opened.wait("document.querySelector('#versus .detail').children.length == 0")
    # With the mouse, in the middle of a cell of the map.
    opened.run("document.querySelector('#versus .plot').scrollIntoView({block: 'center'})")
    place = opened.run(
        "(() => { const r = document.querySelectorAll('#versus .plot svg:last-of-type "
        "g[aria-label=cell] rect')[3].getBoundingClientRect(); return [r.x + r.width / 2, r.y + "
        "r.height / 2]; })()"
    )
    opened.click(*place)
    opened.wait("document.querySelector('#versus .detail h4')")
    assert ", step " in opened.run("document.querySelector('#versus .detail h4').textContent")


def test_the_keyboard_reaches_a_layer(opened):
    opened.run("document.querySelector('#versus tbody button').scrollIntoView()")
    opened.run("document.querySelector('#versus tbody button').focus()")
    opened.press("Enter", 13)
    opened.wait("document.querySelector('#versus .detail h4')")


def test_a_filter_changes_every_part_within_50_ms(opened):
    before = opened.run("apscopePage.view().records.length")
    took = []
    for _ in range(4):
        opened.run("document.querySelector('#filters input[value=\"loss scaling\"]').click()")
        took.append(opened.run("apscopePage.took"))
    opened.run(
        "document.querySelector('#filters input[value=\"loss scaling\"]').click(); "
        "apscopePage.drawAll()"
    )
    after = opened.run("apscopePage.view().records.map((r) => r.family)")
    assert 0 < len(after) < before and "loss scaling" not in after
    assert opened.run("document.querySelectorAll('#schemes tbody tr').length") == len(after)
    assert min(took) <= 50 * min(2.0, busy())


def test_a_click_on_a_head_sorts_and_says_so(opened):
    numbers = "apscopePage.view().records.map((r) => r.underflow_wire)"
    head = "document.querySelector('#schemes th[data-key=underflow_wire]')"
    opened.run(f"{head}.querySelector('button').click()")
    assert opened.run(f"{head}.getAttribute('aria-sort')") == "ascending"
    order = "[...document.querySelectorAll('#schemes tbody th')].map((th) => th.textContent)"
    up = opened.run(order)
    opened.run(f"{head}.querySelector('button').click()")
    down = opened.run(order)
    rates = dict(
        zip(opened.run("apscopePage.view().records.map((r) => r.scheme)"), opened.run(numbers))
    )
    assert [rates[s] for s in up] == sorted(rates.values()) and [rates[s] for s in down] == sorted(
        rates.values(), reverse=True
    )


def test_the_table_has_eleven_columns_and_more_on_demand(opened):
    assert opened.run("document.querySelectorAll('#schemes thead th').length") == 11
    opened.run("document.querySelector('#schemes .menu input[value=\"pooled NMSE\"]').click()")
    assert opened.run("document.querySelectorAll('#schemes thead th').length") == 12
    opened.run(
        "document.querySelector('#schemes input[type=search]').value = 'aps'; "
        "document.querySelector('#schemes input[type=search]').dispatchEvent(new Event('input'))"
    )
    assert all(
        "aps" in name
        for name in opened.run(
            "[...document.querySelectorAll('#schemes tbody th')].map((th) => th.title || "
            "th.textContent)"
        )
    )


@pytest.mark.parametrize("width", [420, 800, 1400, 1920])
def test_no_width_needs_scrolling_sideways(browser, text, tmp_path, width):
    shown(browser, text, tmp_path, width=width)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert (
        browser.run(
            "document.querySelector('#schemes thead th:nth-child(2)').getBoundingClientRect().right"
        )
        <= width
    )  # the ranking number
    cut = (
        "[...document.querySelectorAll('.plot svg text')].filter((t) => "
        "t.getBoundingClientRect().left < t.closest('.plot').getBoundingClientRect().left - 1)"
    )
    assert browser.run(f"{cut}.map((t) => t.textContent)") == []
    if width >= 1400:
        assert (
            browser.run(
                "[...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > "
                "box.clientWidth).map((box) => box.getAttribute('aria-label'))"
            )
            == []
        )


def test_dark_is_dark_and_paper_is_white(opened):
    lightness = "getComputedStyle(document.body).backgroundColor"
    light = opened.run(lightness)
    opened.prefer("dark")
    assert opened.run(lightness) != light
    opened.call(
        "Emulation.setEmulatedMedia",
        media="print",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    assert opened.run(lightness) == light
    opened.call("Emulation.setEmulatedMedia", media="")


def test_paper_shows_all_and_cuts_nothing(browser, text, tmp_path):
    shown(browser, text, tmp_path)
    assert browser.paper().startswith(b"%PDF")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    browser.call("Emulation.setEmulatedMedia", media="print")
    browser.resize(SHEET, 1000)
    assert browser.run(
        "[...document.querySelectorAll('main section:not([hidden]) .live')].every((part) => "
        "part.querySelector('svg, table'))"
    )
    assert browser.run("document.documentElement.scrollWidth") <= SHEET
    assert browser.run("document.querySelectorAll('main details:not([open], .menu)').length") == 0
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run("document.querySelectorAll('main details:not([open], .menu)').length") > 0
    browser.call("Emulation.setEmulatedMedia", media="")


def test_without_scripts_tables_and_figures_stand(browser, text, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.call("Page.setLifecycleEventsEnabled", enabled=True)
        loader, end = (
            browser.call("Page.navigate", url=path.as_uri())["loaderId"],
            time.monotonic() + 60,
        )

        def loaded():  # no script of the page can say so
            return any(
                (p := e.get("params", {})).get("loaderId") == loader and p.get("name") == "load"
                for e in browser.events
            )

        while not loaded() and time.monotonic() < end:
            browser.call("Page.getFrameTree")  # events come with answers
            time.sleep(0.02)
        assert loaded()
        root = browser.call("DOM.getDocument")["root"]["nodeId"]
        count = {
            s: len(browser.call("DOM.querySelectorAll", nodeId=root, selector=s)["nodeIds"])
            for s in ("article.first svg.chart", "#numbers table")
        }
        # Two traces; the same scheme in two formats.
        assert count["article.first svg.chart"] == 6 and count["#numbers table"] >= 4
        hidden = [
            browser.call("DOM.getBoxModel", nodeId=n)
            for n in browser.call(
                "DOM.querySelectorAll", nodeId=root, selector="#answer svg.chart"
            )["nodeIds"]
        ]
        assert all(box["model"]["height"] > 40 for box in hidden)
        said = browser.call("DOM.querySelectorAll", nodeId=root, selector=".live > p.empty")[
            "nodeIds"
        ]
        assert len(said) == 6  # what a script would draw there
        for node in said:
            words = browser.call("DOM.getOuterHTML", nodeId=node)["outerHTML"]
            assert words.startswith('<p class="empty">A script draws this part, and has not run: ')
    finally:
        browser.call("Page.setLifecycleEventsEnabled", enabled=False)
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_every_figure_says_what_it_shows(opened):
    labels = opened.run(
        "[...document.querySelectorAll('.plot svg[role=img]')].map((svg) => "
        "svg.getAttribute('aria-label'))"
    )
    assert len(labels) >= 6 and all(len(label) > 30 for label in labels)


HOSTILE = [
    "$\\w{$",
    "<img src=x onerror=document.title='hurt'>",
    "=cmd|' /C calc'!A0",
    "勾配・重み",
    "n" * 3000,
    "a\"b'c`d</script><!--",
]


def test_names_of_any_kind_are_harmless(browser, results, tmp_path):
    frame, histograms, provenance = (
        results.frame.copy(),
        results.histograms.copy(),
        dict(results.provenance),
    )
    frame = frame[frame["trace"] == "digits"].reset_index(drop=True)
    names = dict(zip(dict.fromkeys(frame["tensor"]), HOSTILE))
    for table in (frame, histograms):
        table["tensor"] = table["tensor"].map(lambda n: names.get(n, n))
    frame["trace"] = histograms["trace"] = "<b>$x_{</b>" + "t" * 3000
    hostile = page(apscope.Results(frame, histograms, provenance | {"traces": []}))
    shown(browser, hostile, tmp_path, width=420)
    assert browser.run("document.documentElement.scrollWidth") <= 420
    assert (
        browser.run("document.title") == "apscope: what the gradients lost"
        and browser.run("document.querySelectorAll('img').length") == 0
    )
    assert set(browser.run("apscopePage.view().layers")) == set(HOSTILE)
    browser.run("document.querySelectorAll('#versus tbody button')[0].click()")
    assert browser.messages == []
    browser.run(
        "(() => { const make = URL.createObjectURL; URL.createObjectURL = (blob) => { window.saved "
        "= blob; return make.call(URL, blob); }; })()"
    )
    browser.run(
        "[...document.querySelectorAll('#versus .tools button')].find((b) => "
        "b.textContent.startsWith('CSV')).click()"
    )
    lines = browser.run("saved.text()").lstrip("\ufeff").split("\r\n")
    assert lines[0].startswith("layer,wins,losses,median_ratio") and any(
        line.startswith("'=cmd|") for line in lines
    )
    assert any(line.startswith("n" * 3000 + ",") for line in lines) and any(
        line.startswith("勾配・重み,") for line in lines
    )


def test_per_block_statistics_have_a_place_when_there_are_any(browser, opened, results, tmp_path):
    assert opened.run("document.getElementById('blocks').hidden")
    frame = results.frame.copy()
    frame["block_scale_spread"] = np.where(
        (frame["stage"] == "wire") & (frame["scheme"] == "qsgd"), frame["step"] * 0.5, np.nan
    )
    shown(browser, page(altered(results, frame)), tmp_path)
    assert not browser.run("document.getElementById('blocks').hidden")
    assert (
        browser.run("document.querySelectorAll('#blocks svg g[aria-label=cell] rect').length")
        == 6 * 8
    )


def test_the_page_lives_in_a_frame_of_another(browser, text, tmp_path):
    outer = tmp_path / "outer.html"
    outer.write_text(
        f'<!doctype html><iframe width="900" height="700" srcdoc="{html.escape(text)}"></iframe>',
        encoding="utf-8",
    )
    browser.open(
        outer.as_uri(),
        "document.querySelector('iframe')?.contentDocument?.documentElement?.classList"
        ".contains('ready')",
    )
    assert browser.messages == []


def test_additions_of_steps_that_were_sent_are_those_of_compare(browser, request, tmp_path):
    trace, specs = (
        request.config.rootpath / "notebooks/data/digits",
        ("aps:e4m3", "dynamic_loss_scaling:e4m3,init=131072"),
    )
    results = apscope.replay(trace, specs, steps="0:20", topology="ring")
    assert results.summary()["skipped"].max() > 0
    shown(browser, page(results), tmp_path)
    browser.run("document.querySelector('#versus .menu input[value=\"accumulation B\"]').click()")
    heads = browser.texts("#versus thead th")
    cells = browser.versus()
    place = next(i for i, head in enumerate(heads) if head.startswith("accumulation B"))
    wanted = results.compare(*specs).set_index("layer")["accumulation_b"]
    assert {row[0]: row[place] for row in cells} == {
        layer: percent(wanted[layer]).replace("\u00a0", " ")
        for layer in wanted.index
        if layer != "all"
    }
