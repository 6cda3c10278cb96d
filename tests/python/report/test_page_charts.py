"""The page's live charts are those of notebooks: the same bands, colours, marks and numbers, described once."""

from __future__ import annotations

import json
import math
import re

import matplotlib.colors
import numpy as np
import pandas as pd
import pytest

import apscope
from apscope import plots
from apscope._charts.front import FLOOR, step_front
from apscope._charts.kinds import KINDS
from apscope._report import page
from apscope._results.pooling import pool, whole_sums
from apscope._results.volume import SIDE
from tests.python.browser import CHROMIUM, Browser

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed (Debian: chromium)"
)

SCHEMES = ["none:fp32", "none:bf16", "none:e4m3", "loss_scaling:e4m3,scale=best", "aps:e4m3", "stochastic:e4m3",
           "loss_scaling:e3m4,scale=best", "aps:e3m4", "dynamic_loss_scaling:e4m3", "qsgd"]  # fmt: skip


@pytest.fixture(scope="module")
def results(request):
    return apscope.replay(
        request.config.rootpath / "notebooks/data/digits",
        SCHEMES,
        steps=[0, 1, 8, 9, 34, 240, 480, 1500],
        topology=["ring", "tree"],
    )


@pytest.fixture(scope="module")
def opened(results, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page(results), encoding="utf-8")
    browser = Browser()
    browser.prefer("light")
    browser.resize(1400, 1000)
    browser.open(path.as_uri(), "document.documentElement?.classList.contains('ready')")
    yield browser
    browser.close()


def draw(browser, **state):
    """What the page shows when these are chosen."""
    browser.run(
        f"Object.assign(apscopePage.state, {json.dumps(state)}); apscopePage.update(); apscopePage.drawAll()"
    )


def colours(browser, place):
    """How many cells of a map have which colour."""
    fills = browser.run(
        f"[...document.querySelectorAll('{place} g[aria-label=cell] rect')].map((r) => r.getAttribute('fill'))"
    )
    return pd.Series([fill for fill in fills if fill != "none"]).value_counts().to_dict()


def test_maps_have_the_bands_that_notebooks_draw(opened, results):
    a, b = "aps:e3m4", "loss_scaling:e3m4,scale=best"
    draw(opened, a=a, b=b)
    drawn = {
        "ratio": plots.nmse_ratio(results, a, b, topology="ring"),
        "underflow": plots.underflow_heat_map(results, a),
    }
    for kind, place in (
        ("ratio", "#versus"),
        ("underflow", "#underflow .pair > figure:first-child"),
    ):
        image, bands = drawn[kind].collections[0], KINDS[kind].bands
        values = image.get_array().compressed() / (100 if bands.percent else 1)
        places = np.searchsorted(bands.edges, values, side="right")
        wanted = pd.Series([bands.light[i] for i in places]).value_counts().to_dict()
        assert len(wanted) > 2 and colours(opened, place) == wanted, kind
        shown = [matplotlib.colors.to_hex(c) for c in image.to_rgba(image.get_array().compressed())]
        assert pd.Series(shown).value_counts().to_dict() == wanted, kind


def test_the_order_of_additions_is_drawn_as_in_notebooks(opened, results):
    draw(opened, topology="ring")
    specs = opened.run("apscopePage.view().records.map((r) => r.scheme)")
    frame = results.frame[
        (results.frame["trace"] == "digits") & results.frame["scheme"].isin(specs)
    ]
    pooled = pool(
        whole_sums(frame[frame["stage"] == "reduced"].reset_index(drop=True)),
        ["scheme", "topology"],
    ).set_index(["scheme", "topology"])["nmse"]
    wanted = sorted(
        abs(value - pooled[s, "exact"])
        for (s, t), value in pooled.items()
        if t != "exact" and (s, "exact") in pooled.index
    )
    ax = plots.accumulation_error(results)
    low, drawn = (
        ax.get_xlim()[0],
        sorted(float(line.get_xdata()[0]) for line in ax.lines if line.get_marker() != "x"),
    )
    assert drawn == pytest.approx([max(w, low) for w in wanted if w > 0 and math.isfinite(w)])
    text = opened.run("document.querySelector('#order svg[role=img]').getAttribute('aria-label')")
    assert all(t in text for t in ("ring", "tree")) and opened.run(
        "document.querySelectorAll('#order svg g[aria-label=dot] path').length"
    ) == len(drawn)
    assert KINDS["order"].caption in opened.run("document.querySelector('#order').textContent")


def test_the_front_of_the_page_is_that_of_the_charts(opened, results):
    draw(opened, topology="ring", measure="step_nmse")
    records = opened.run(
        "apscopePage.view().records.map((r) => [r.scheme, r.volume, r.step_nmse, r.overflowed + r.skipped])"
    )
    sound = {
        (volume, max(error, FLOOR)): spec
        for spec, volume, error, flaws in records
        if volume and error is not None and not flaws
    }
    front = [sound[point] for point in step_front(sound, SIDE)]
    assert len(front) < len(
        {volume for volume, _ in sound}
    )  # side information makes no point of its own
    label = opened.run(
        "document.querySelector('#frontier svg[role=img]').getAttribute('aria-label')"
    )
    assert label.endswith(f"Pareto front: {'; '.join(front)}.")


def test_the_series_of_a_layer_are_those_of_notebooks(opened, results):
    a, layer = "aps:e3m4", results.frame["tensor"].iloc[0]
    draw(opened, a=a, b="none:e4m3", topology="ring", picked={"layer": layer, "step": None})
    kinds = {kind: KINDS[kind].caption for kind in ("exponents", "scale", "bias", "origin")}
    boxes = opened.run(
        "[...document.querySelectorAll('#versus figure')].map((f) => f.querySelector('figcaption')?.textContent)"
    )
    at = {kind: boxes.index(caption) for kind, caption in kinds.items()}

    def drawn(kind, marks, what):
        return opened.run(
            f"[...document.querySelectorAll('#versus figure')[{at[kind]}].querySelectorAll('{marks}')].map((m) => {what})"
        )

    bars = dict(
        title.split(": ")
        for title in drawn("exponents", "svg rect title", "m.textContent")
        if title.startswith("2^")
    )
    ax = plots.exponent_histogram(results, "e3m4", layer=layer)
    heights, edges, _ = ax.patches[-1].get_data()
    shares = {f"2^{int(e)}": h for e, h in zip(edges, heights, strict=False) if h > 0}
    assert shares.keys() <= bars.keys() and len(bars) >= len(shares) > 5
    for exponent, share in shares.items():
        assert float(bars[exponent].rstrip(" %")) == pytest.approx(share, rel=0.05, abs=0.006), (
            exponent
        )

    rows = results.frame.query("stage == 'wire' and scheme == @a and tensor == @layer")
    path = drawn("scale", "svg g[aria-label=line] path", "m.getAttribute('d')")
    levels = {y for d in path for y in re.findall(r"(?<=,)[\d.]+|(?<=V)[\d.]+", d)}
    assert len(levels) == rows["scale_exponent"].nunique() > 1
    says = drawn("bias", "svg[role=img]", "m.getAttribute('aria-label')")
    assert "Relative bias of A and B" in says[0]
    assert drawn("origin", "svg g[aria-label=dot] circle", "1")
