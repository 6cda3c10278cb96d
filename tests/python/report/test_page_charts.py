"""The page's live charts are those of notebooks: the same bands, colours, marks and numbers,
described once.

The numbers that the page itself computes, because a reader filters, are in page/fill.js; each of
its functions is compared here with that of _charts/fill.py.
"""

import json
import math
import re
from pathlib import Path

import matplotlib.colors
import numpy as np
import pandas as pd
import pytest

import apscope
from apscope import plots
from apscope._charts import fill
from apscope._charts.fill import step_front
from apscope._charts.front import FLOOR
from apscope._charts.kinds import KINDS
from apscope._report import page
from apscope._results.pooling import pool, whole_sums
from apscope._results.volume import SIDE

SCHEMES = ["none:fp32", "none:bf16", "none:e4m3", "loss_scaling:e4m3,scale=largest", "aps:e4m3",
           "stochastic:e4m3",
           "loss_scaling:e3m4,scale=largest", "loss_scaling:e4m3", "aps:e3m4",
               "dynamic_loss_scaling:e4m3", "qsgd"]  # fmt: skip


@pytest.fixture(scope="module")
def results(request):
    return apscope.replay(
        request.config.rootpath / "notebooks/data/digits",
        SCHEMES,
        steps=[0, 1, 8, 9, 34, 240, 480, 1500],
        topology=["ring", "tree"],
    )


@pytest.fixture(scope="module")
def opened(browser, results, tmp_path_factory):
    browser.prefer("light")
    browser.resize(1400, 1000)
    browser.show(page(results), tmp_path_factory.mktemp("page"))
    return browser


def colours(browser, place):
    """The number of cells of each colour in a map."""
    fills = browser.run(
        f"[...document.querySelectorAll('{place} g[aria-label=cell] rect')].map((r) => "
        "r.getAttribute('fill'))"
    )
    return pd.Series([fill for fill in fills if fill != "none"]).value_counts().to_dict()


def test_maps_have_the_bands_that_notebooks_draw(opened, results):
    a, b = "aps:e3m4", "loss_scaling:e3m4,scale=largest"
    opened.select(a=a, b=b)
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


FILL = Path(apscope.__file__).parent / "_report/page/fill.js"


def filled(browser, call):
    """The output of page/fill.js; NaN is null."""
    found = browser.run(f"apscopePage.fill.{call}")
    return pd.DataFrame(found) if isinstance(found, list) else found


def test_every_function_that_fills_the_page_is_held_to_pythons_here():
    names = set(re.findall(r"^export function (\w+)", FILL.read_text(), re.MULTILINE))
    assert {re.sub("[A-Z]", lambda m: f"_{m[0].lower()}", name) for name in names} == set(
        fill.__all__
    )
    own = Path(__file__).read_text()
    assert all(re.search(rf"(filled\(.*?\b|fill\.){name}\(", own, re.DOTALL) for name in names)


@pytest.mark.parametrize("step", [None, 8])
@pytest.mark.parametrize("layer", ["conv2.weight", "norm.bias"])
def test_shares_of_exponents_are_pythons(opened, results, layer, step):
    table = results.histograms.query("kind == 'finite' and tensor == @layer")
    if step is not None and "step" in opened.run("Object.keys(apscopePage.view().histograms)"):
        table = table[table["step"] == step]
    wanted = fill.shares(table["exponent"].astype(int), table["count"].astype(float))
    place = f"{layer!r}, {'null' if step is None else step}"
    found = filled(opened, f"shares(apscopePage.view().histograms, 'digits', {place})")
    assert found["exponent"].tolist() == wanted.index.tolist() and len(wanted) > 5
    assert found["share"].to_numpy() == pytest.approx(wanted.to_numpy(), rel=1e-12)
    if step is None:
        ax = plots.exponent_histogram(results, "e4m3", layer=layer)
        drawn = ax.patches[-1].get_data()
        heights = dict(zip(drawn.edges[:-1].astype(int), drawn.values))
        assert all(heights[e] == pytest.approx(100 * wanted.get(e, 0.0)) for e in heights)


@pytest.mark.parametrize("spec", ["aps:e3m4", "dynamic_loss_scaling:e4m3", "loss_scaling:e4m3"])
def test_the_bias_of_a_layer_is_pythons(opened, results, spec):
    """With skipped steps and overflow among them."""
    rows = results.frame.query("scheme == @spec and stage == 'reduced' and topology == 'ring'")
    rows = rows.sort_values("step").set_index("tensor").loc[rows["tensor"].unique()].reset_index()
    wanted = fill.bias(pool(rows.reset_index(drop=True), ["tensor", "step"])).to_numpy(float)
    found = pd.DataFrame(
        opened.run(
            f"apscopePage.view().rowsOf({spec!r}, 'ring')"
            ".map((i) => apscopePage.fill.bias(apscopePage.view().rows, i))"
        )
    )
    got = found[["y", "low", "high"]].astype(float).to_numpy()
    # A 16th of the root of the squared error, of which the band has two on either side.
    root = np.sqrt(rows["sum_squared_error"]) / rows["sum_absolute_reference"]
    near = 1e-3 * np.nan_to_num(np.abs(wanted)).max(axis=1) + np.nan_to_num(root) / 16
    near = near[:, np.newaxis]
    assert (np.isnan(got) == np.isnan(wanted)).all()
    assert (np.nan_to_num(np.abs(got - wanted)) <= near).all()
    skipped, overflow = (
        rows["skipped"].to_numpy(bool),
        (rows["overflow"].fillna(0) > 0).to_numpy(bool),
    )
    assert (np.isnan(got[:, 0]) == skipped).all()
    assert (np.isnan(got[:, 1]) == (skipped | overflow)).all()
    if spec != "aps:e3m4":
        assert overflow.any() or skipped.any()
    ax = plots.bias_over_steps(results, spec, layer="conv2.weight")
    line = next(one for one in ax.lines if one.get_marker() == ".").get_ydata()
    own = rows["tensor"].to_numpy() == "conv2.weight"
    assert line == pytest.approx(100 * wanted[own, 0], nan_ok=True)


def test_maps_frame_the_cells_that_notebooks_frame(opened, results):
    opened.select(a="aps:e3m4", b="none:e4m3")
    ax = plots.underflow_heat_map(results, "aps:e3m4")
    layers = list(dict.fromkeys(results.frame["tensor"]))
    steps = sorted(set(results.frame["step"]))
    framed = [
        f"{layers[round(p.get_y() + 0.5)]}, step {steps[round(p.get_x() + 0.5)]}:"
        for p in ax.patches
    ]
    label = opened.run(
        "document.querySelector('#underflow .pair svg[role=img]').getAttribute('aria-label')"
    )
    assert len(framed) == 5 and label.count(": ") == 1 + 5
    assert all(cell in label for cell in framed), (label, framed)


def test_the_order_of_additions_is_drawn_as_in_notebooks(opened, results):
    opened.select(topology="ring")
    specs = opened.run("apscopePage.view().records.map((r) => r.scheme)")
    frame = results.frame[
        (results.frame["trace"] == "digits") & results.frame["scheme"].isin(specs)
    ]
    pooled = pool(
        whole_sums(frame[frame["stage"] == "reduced"].reset_index(drop=True)),
        ["scheme", "topology"],
    )
    wanted = fill.additions(pooled, "scheme").set_index(["scheme", "topology"])
    found = filled(opened, "additions(apscopePage.view().everyTopology)")
    marks = pd.DataFrame(found["marks"]).set_index(["scheme", "topology"])
    added = wanted["added"].drop("exact", level="topology")
    assert set(marks.index) == set(added.index) and len(marks) > 8
    finite = np.isfinite(added[marks.index].to_numpy())
    scale = wanted["exact"][marks.index].to_numpy()
    assert marks["added"].to_numpy(float)[finite] == pytest.approx(
        added[marks.index].to_numpy()[finite], abs=1e-5 * scale[finite].max()
    )
    bars = {bar["scheme"]: bar["exact"] for bar in found["bars"]}
    exact = wanted["exact"].groupby(level=0).first()
    assert bars == pytest.approx(exact[exact.between(0, 9e99, "neither")].to_dict(), rel=1e-5)
    ax = plots.accumulation_error(results)
    low, drawn = (
        ax.get_xlim()[0],
        sorted(float(line.get_xdata()[0]) for line in ax.lines if line.get_marker() != "x"),
    )
    shown = sorted(abs(v) for v in added if math.isfinite(v) and v != 0)
    assert drawn == pytest.approx([max(v, low) for v in shown])
    text = opened.run("document.querySelector('#order svg[role=img]').getAttribute('aria-label')")
    assert all(t in text for t in ("ring", "tree")) and opened.run(
        "document.querySelectorAll('#order svg g[aria-label=dot] path, "
        "#order svg g[aria-label=vector] path').length"
    ) == len(drawn)
    assert KINDS["order"].caption in opened.run("document.querySelector('#order').textContent")


def test_the_front_of_the_page_is_that_of_the_charts(opened, results):
    opened.select(topology="ring", measure="step_nmse")
    records = opened.run(
        "apscopePage.view().records.map((r) => [r.scheme, r.volume, r.step_nmse, r.overflowed + "
        "r.skipped])"
    )
    sound = {
        (volume, max(error, FLOOR)): spec
        for spec, volume, error, flaws in records
        if volume and error is not None and not flaws
    }
    places = step_front(sound, SIDE)
    front = [sound[point] for point in places]
    points = json.dumps([{"x": x, "y": y} for x, y in sound])
    page = filled(opened, f"stepFront({points}, {SIDE})")
    assert list(page.itertuples(index=False, name=None)) == places
    # Side information makes no point of its own.
    assert len(front) < len({volume for volume, _ in sound})
    label = opened.run(
        "document.querySelector('#frontier svg[role=img]').getAttribute('aria-label')"
    )
    assert label.endswith(f"Pareto front: {'; '.join(front)}.")


def test_the_series_of_a_layer_are_those_of_notebooks(opened, results):
    a, layer = "aps:e3m4", results.frame["tensor"].iloc[0]
    opened.select(a=a, b="none:e4m3", topology="ring", picked={"layer": layer, "step": None})
    kinds = {kind: KINDS[kind].caption for kind in ("exponents", "scale", "bias", "origin")}
    boxes = opened.run(
        "[...document.querySelectorAll('#versus figure')].map((f) => "
        "f.querySelector('figcaption')?.textContent)"
    )
    at = {kind: boxes.index(caption) for kind, caption in kinds.items()}

    def drawn(kind, marks, what):
        return opened.run(
            "[...document.querySelectorAll('#versus "
            f"figure')[{at[kind]}].querySelectorAll('{marks}')].map((m) => {what})"
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
