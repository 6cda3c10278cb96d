"""Charts as data and as SVG: they draw the numbers of the tables, at the places of the scales."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apscope
from apscope._charts.choices import choices_chart
from apscope._charts.colours import BANDS
from apscope._charts.describe import (
    Band,
    Cells,
    Chart,
    Line,
    Log,
    Point,
    Row,
    Rule,
    number,
    powers,
)  # fmt: skip
from apscope._charts.fill import step_front
from apscope._charts.front import FLOOR, corners, front_chart
from apscope._charts.ladder import ladder_chart
from apscope._charts.layers import WORST, by_layer, layer_map
from apscope._charts.svg import bars_svg, cells_svg, chart_svg, symbol_path
from apscope._results.families import FAMILIES
from apscope._results.pooling import headline_rows
from apscope._schemes.titles import title, titles
from apscope._text import short_names

SPECS = [
    "none:fp32",
    "none:fp16",
    "none:e4m3",
    "loss_scaling:e3m4,scale=largest,rule=tight",
    "aps:e3m4,rule=tight,unit=model",
    "aps:e3m4,rule=tight",
    "aps:e3m0",
]


@pytest.fixture(scope="module")
def results(request):
    return apscope.replay(
        request.config.rootpath / "notebooks/data/digits",
        SPECS,
        steps=[0, 1, 2, 8, 240, 1500],
        topology="ring",
    )


# ---- The front --------------------------------------------------------------------------------

positive = st.floats(0.01, 100.0)


@given(st.lists(st.tuples(positive, positive), max_size=30))
def test_the_front_is_what_no_other_point_beats(points):
    wanted = {
        (x, y)
        for x, y in points
        if not any((a < x and b <= y) or (a <= x and b < y) for a, b in points)
    }
    front = step_front(points)
    assert set(front) == wanted and front == sorted(front)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=30))
def test_the_steps_promise_no_more_than_was_measured(points):
    front = step_front(points)
    line = corners(front, 200.0)
    assert set(front) <= set(line) and line[-1] == (200.0, front[-1][1])
    for (x1, y1), (x2, y2) in zip(line, line[1:]):
        assert x1 == x2 or y1 == y2, "steps are level or upright"
        assert x1 <= x2 and y1 >= y2
    for x, y in line:  # what a corner shows is to be had for that much
        assert any(a <= x and b <= y for a, b in points)


def test_side_information_makes_no_step_of_its_own():
    assert step_front([(0.25, 0.5), (0.2508, 0.1), (0.5, 0.01)], 0.001) == [
        (0.2508, 0.1),
        (0.5, 0.01),
    ]
    assert step_front([(0.25, 0.5), (0.2508, 0.1)], 0.0) == [(0.25, 0.5), (0.2508, 0.1)]
    # No chain of small differences becomes a large one.
    many = [(0.25 + 0.0009 * k, 1.0 / (k + 1)) for k in range(10)]
    assert len(step_front(many, 0.001)) >= 4


def test_the_front_of_results_has_a_point_a_scheme(results):
    rows = results.summary()
    rows = rows[rows["topology"] == "ring"]
    chart = front_chart(rows, str.upper, lambda spec, topology: f"row-{spec}-{topology}")
    held = {p.says.splitlines()[0]: p for p in chart.points}
    assert set(held) == set(rows["scheme"])
    for row in rows.itertuples():
        point = held[row.scheme]
        assert (point.x, point.y) == (row.volume, max(row.step_nmse, FLOOR))
        assert (
            point.colour == FAMILIES[row.family].colour and point.link == f"row-{row.scheme}-ring"
        )
        assert point.label == ("" if point.faint else row.scheme.upper())
    named = {p.says.splitlines()[0] for p in chart.points if not p.faint}
    assert named == {"aps:e3m0", "aps:e3m4,rule=tight", "none:fp16", "none:fp32"}
    flawed = front_chart(
        rows.assign(overflowed=np.where(rows["scheme"] == "aps:e3m4,rule=tight", 2, 0))
    )
    (one,) = [p for p in flawed.points if p.says.startswith("aps:e3m4,rule=tight\n")]
    assert one.hollow and one.faint and "overflow in 2 steps" in one.says
    assert not front_chart(rows.assign(volume=np.nan)).points


# ---- Bars of the choices ----------------------------------------------------------------------


def test_bars_have_the_lengths_of_their_factors():
    table = pd.DataFrame(
        [
            (8, "reduction", "two_phase", "ring", 20.0), (8, "format", "e2m5", "e3m4", 2.0),
            (8, "format", "e2m5", "e4m3fn", 8.0), (8, "format", "e2m5", "e5m2", 30.0),
            (8, "scale", "32", "tensor", np.inf), (4, "reduction", "two_phase", "ring", 0.5),
            (2, "reduction", "two_phase", "ring", 3.0),
        ],
        columns=["bits", "choice", "of", "other", "factor"],
    ).assign(
        scheme="a<b", topology="two_phase", error=1e-3, volume=0.25, other_scheme="c",
        other_topology="ring", other_volume=0.26, room="", other_room="",
    )  # fmt: skip
    bars = choices_chart(
        table.assign(other_error=table["factor"] * 1e-3, less=False), "error over noise"
    )
    assert [heading for heading, _ in bars.groups] == [
        "8 bits: two phases, e2m5, a scale for 32 elements",
        "4 bits: two phases",
    ]
    # Where a scheme whose codes no ring can add errs less, the heading says what these are.
    less = table.assign(other_error=table["factor"] * 1e-3, less=table["bits"] > 2)
    assert [heading for heading, _ in choices_chart(less, "step NMSE").groups] == [
        "8 bits a ring can add: e2m5, a scale for 32 elements",
        "4 bits a ring can add",
    ]
    assert [b.name for b in bars.groups[0][1]] == [
        "ring, not two phases",
        "e3m4, not e2m5",
        "e4m3fn, not e2m5",  # two of each choice
        "a scale for a layer, not 32 elements",
    ]
    assert [kind for kind, _ in bars.kinds] == ["reduction", "format", "scale"]
    root = ElementTree.fromstring(bars_svg(bars, 350, 158))
    held = [e for e in root if e.get("class") == "bar"]
    wide = [float(e.get("width")) for e in held]
    logs = [math.log(b.factor) for _, group in bars.groups for b in group if b.factor > 1]
    unit = wide[0] / logs[0]
    # Overflow is as long as the axis, a factor below 1 has no length.
    assert wide[:3] == pytest.approx([unit * v for v in logs[:3]], abs=0.11) and wide[4] == 1.0
    assert wide[3] == max(wide)
    assert all(float(e.get("y")) + float(e.get("height")) <= 158 for e in held)
    told = [e.text for e in root if e.tag == "text"]
    assert "overflow" in told and "20" in told and "0.5" in told
    (unit,) = [e for e in root if e.get("class") == "unit"]  # what the colours are
    marks = [(e.text, e.get("fill")) for e in unit]
    assert [text for text, _ in marks] == ["■", "reduction", "■", "format", "■", "scale"]
    assert [colour for _, colour in marks[::2]] == [colour for _, colour in bars.kinds]
    assert {e.get("fill") for e in held} == {colour for _, colour in bars.kinds}
    assert "a<b" in held[0].find("title").text and "overflow" in bars.says
    assert "at 0.26 of fp32's bytes" in bars.groups[0][1][0].says
    # One worker sends nothing; nor has it a choice of the reduction.
    lone = table[1:4].assign(other_error=1.0, less=False, volume=np.nan, other_volume=np.nan)
    bars = choices_chart(lone, "step NMSE")
    assert bars.groups[0][1][0].says == "c, ring\nstep NMSE 1\na<b, two phases\nstep NMSE 0.001"
    assert "The best scheme that was replayed and differs from another in one choice" in bars.says


# ---- The ladder and the map -------------------------------------------------------------------


def test_the_ladder_is_its_table(results):
    table = apscope.ladder(results)
    chart = ladder_chart(table)
    assert chart.x.names == ["all steps", "a step", "a layer"] and [
        line.label.split(" ÷")[0] for line in chart.lines
    ] == ["e3m4"]
    errors = list(table["step_nmse"])
    assert [y for _, y in chart.lines[0].points] == errors
    assert chart.lines[0].label == f"e3m4 ÷{number(errors[0] / errors[-1])}"
    assert chart.y.label == "step NMSE" and not chart.rules
    assert ladder_chart(table.assign(step_nmse=[2e-3, 1.9e-3, 1.5e-3])).lines[0].label == "e3m4"
    # A rung that overflows has a step NMSE, of which a lost step is 1, and is not on the line.
    lost = ladder_chart(table.assign(overflowed=np.where(table["rung"] == "step", 2, 0)))
    assert [p.hollow for p in lost.points] == [False, True, False]
    assert [p.beyond for p in lost.points] == ["", "above", ""]
    assert lost.points[1].y == lost.y.high and "overflow" in lost.points[1].says
    assert [y for _, y in lost.lines[0].points] == [errors[0], errors[-1]]
    # The figure does not need the noise of the batch.
    one = ladder_chart(table.assign(error_over_noise=np.nan))
    assert [y for _, y in one.lines[0].points] == errors


def test_the_errors_of_layers_are_those_of_results_of_one_layer(results):
    rows = headline_rows(results.frame)
    table = by_layer(rows).set_index(["scheme", "layer"])
    for layer, part in results.frame.groupby("tensor"):
        alone = (
            apscope.Results(part.reset_index(drop=True), results.histograms, results.provenance)
            .summary()
            .query("topology == 'ring'")
            .set_index("scheme")
        )
        for spec in SPECS:
            assert table.at[(spec, layer), "error"] == pytest.approx(
                alone.at[spec, "error_over_noise"], rel=1e-12
            )
            assert table.at[(spec, layer), "volume"] == pytest.approx(
                alone.at[spec, "volume"], rel=1e-12
            )
    assert set(table["reason"]) <= {
        "underflow",
        "rounding",
        "saturation",
        "accumulation",
        "interaction",
        "",
    }


def test_the_map_has_a_cell_a_layer_and_step_the_worst_first(results):
    scheme = "aps:e3m4,rule=tight"
    cells = layer_map(headline_rows(results.frame), scheme)
    frame = results.frame.query("scheme == @scheme and topology == 'ring'").set_index(
        ["tensor", "step"]
    )
    for row in cells.rows:
        for step, value in zip(cells.steps, row.values):
            assert value == pytest.approx(frame.at[(row.name, step), "error_over_noise"], rel=1e-12)
    peaks = [row.peak[0] for row in cells.rows]
    assert (
        peaks == sorted(peaks, reverse=True)
        and peaks == [max(row.values) for row in cells.rows]
        and sum(bool(row.reason) for row in cells.rows) == WORST
    )
    layers = list(dict.fromkeys(results.frame["tensor"]))
    assert [cells.rows[here].name for here in cells.order] == layers


def test_a_remedy_loses_less_there_and_sends_as_much_where_one_does(results):
    rows = headline_rows(results.frame)
    table = by_layer(rows).set_index(["scheme", "layer"])
    found = 0
    for scheme in ("loss_scaling:e3m4,scale=largest,rule=tight", "aps:e3m0", "none:e4m3"):
        for row in layer_map(rows, scheme).rows[:WORST]:
            own, others = (
                table.loc[(scheme, row.name)],
                table.xs(row.name, level="layer").drop(scheme),
            )
            better = others[others["error"] * 1.5 <= own["error"]]
            cheap = better[better["volume"] <= own["volume"] + 0.001]
            wanted = (
                cheap["error"].idxmin()
                if len(cheap)
                else better.sort_values(["volume", "error"]).index[0]
                if len(better)
                else ""
            )
            assert row.remedy.partition(": ")[0] == wanted or row.remedy.startswith(wanted)
            assert ("times the bytes" in row.remedy) == (bool(wanted) and not len(cheap))
            found += bool(wanted)
    assert found > 10


def test_without_noise_the_map_is_of_the_nmse(results):
    frame = results.frame.assign(noise_blocks=0, sum_log2_error_over_noise=0.0, sum_noise=np.nan)
    cells = layer_map(headline_rows(frame), "aps:e3m0")
    assert cells.unit == "NMSE" and cells.edges[-1][1] == "1/3"
    own = frame.query("scheme == 'aps:e3m0' and topology == 'ring'").set_index(["tensor", "step"])[
        "nmse"
    ]
    assert all(
        v == pytest.approx(own[row.name, s])
        for row in cells.rows
        for s, v in zip(cells.steps, row.values)
    )


# ---- SVG --------------------------------------------------------------------------------------


def parsed(text):
    return ElementTree.fromstring(text)


def test_marks_stand_where_the_scales_say():
    chart = Chart(
        "t",
        "says",
        Log("x", 0.1, 10, [(1.0, "1")]),
        Log("y", 1e-3, 10, powers(1e-3, 10)),
        [Line([(0.1, 1.0), (10.0, 0.1)], "#123456", "end")],
        [
            Point(x, y, "#abcdef", says=f"at {x}", link="row")
            for x, y in ((0.1, 10), (10, 1e-3), (1.0, 0.1))
        ],
        [Rule(1.0, "limit", limit=True)],
    )
    svg = parsed(chart_svg(chart, 300, 200))
    assert svg.get("aria-label") == "says" and svg.get("viewBox") == "0 0 300 200"
    places = [
        tuple(map(float, re.findall(r"[\d.]+", m.get("transform"))))
        for m in svg.iter("path")
        if "mark" in m.get("class")
    ]
    assert len(places) == 3 and all(a.get("href") == "#row" for a in svg.iter("a"))
    (left, top), (right, bottom), middle = places
    # The middle of both axes, in logarithms.
    assert middle == pytest.approx(((left + right) / 2, (top + bottom) / 2), abs=0.11)
    assert [m.find("title").text for m in svg.iter("path") if "mark" in m.get("class")] == [
        "at 0.1",
        "at 10",
        "at 1.0",
    ]
    (limit,) = [r for r in svg.iter("rect") if r.get("class") == "limit"]
    assert float(limit.get("height")) == pytest.approx((bottom - top) / 4, abs=0.11)
    assert "end" in [t.text for t in svg.iter("text")]


@pytest.mark.parametrize("count", [1, 5, 6, 40, 300])
def test_a_map_has_every_cell_once_in_its_band(count):
    random = np.random.default_rng(count)
    steps = [0, 1, 2, 3, 10, 100]
    rows = [
        Row(
            f"layers.{i}.weight",
            [*np.exp(random.normal(-4, 3, 5)), math.nan],
            reason="rounding; x helps" if i < WORST else "",
        )
        for i in range(count)
    ]
    order = random.permutation(count).tolist()
    cells = Cells(
        "t",
        "says",
        rows,
        steps,
        ((1e-3, "a"), (1e-2, "b"), (0.1, "c"), (1.0, "d")),
        "error over noise",
        order,
    )
    svg = parsed(cells_svg(cells, 350, 158))
    groups = [g for g in svg.iter("g") if g.get("data-layer")]
    assert [g.get("data-layer") for g in groups] == [r.name for r in rows]
    for group, row in zip(groups, rows):
        drawn = {BANDS.index(p.get("fill")): p.get("d").count("M") for p in group.iter("path")}
        wanted = (
            pd.Series(
                [sum(v >= e for e, _ in cells.edges) for v in row.values if not math.isnan(v)]
            )
            .value_counts()
            .to_dict()
        )
        assert drawn == wanted

    def extents(which):
        return [
            tuple(
                map(
                    float,
                    re.findall(r"translate\([\d.]+ ([\d.]+)\) scale\(1 ([\d.]+)\)", g.get(which))[
                        0
                    ],
                )
            )
            for g in groups
        ]

    for which, places in (
        ("data-worst", range(count)),
        ("data-model", [order.index(i) for i in range(count)]),
    ):
        found = extents(which)
        held = [found[i] for i in np.argsort(list(places))]
        for (top, height), (below, _) in zip(held, held[1:]):
            assert top + height == pytest.approx(below, abs=0.02 * count / 10 + 0.02), (
                "no row over another, no gap"
            )
    assert sum(r.get("class") == "box" for r in svg.iter("rect")) == min(count, WORST)


def test_steps_that_are_not_recorded_leave_a_gap():
    def edges(steps):
        cells = Cells(
            "t",
            "s",
            [Row("a", [1.0] * len(steps))],
            steps,
            ((1e-3, "a"), (1e-2, "b"), (0.1, "c"), (1.0, "d")),
            "u",
            [0],
        )
        (path,) = [p for g in parsed(cells_svg(cells, 350, 158)).iter("g") for p in g.iter("path")]
        return [
            (float(a), float(a) + float(b))
            for a, b in re.findall(r"M([\d.]+) 0h([\d.]+)v", path.get("d"))
        ]

    def gaps(steps):
        held = edges(steps)
        return [c - b > 1 for (_, b), (c, _) in zip(held, held[1:])]

    assert gaps([0, 10, 20, 30]) == [False, False, False] and gaps([5]) == []
    assert gaps([0, 1, 2, 60, 61]) == [False, False, True, False]
    assert gaps([0, 1, 2, 60, 120, 500]) == [False, False, True, False, False], (
        "where the dense part ends"
    )


@pytest.mark.parametrize("name", ["<b>&amp;", "a\"b'c", "勾配", "n" * 3000, "$x$", "\ud800"])
def test_names_of_any_kind_are_text(name):
    cells = Cells(
        "t",
        name,
        [Row(name, [1.0], says=name, reason=name)],
        [0],
        ((1e-3, "a"), (1e-2, "b"), (0.1, "c"), (1.0, "d")),
        name,
        [0],
    )
    svg = parsed(cells_svg(cells, 350, 158).encode("utf-8", "replace"))
    assert (
        not list(svg.iter("b"))
        and next(g for g in svg.iter("g")).find("title").text[:5]
        == name.encode("utf-8", "replace").decode()[:5]
    )
    chart = Chart(
        name,
        name,
        Band(name, [name]),
        Log(name, 1, 2, ()),
        [Line([(0.0, 1.5)], "#123456", name)],
        [Point(0.0, 1.5, "#123456", says=name, label=name)],
    )
    assert not list(parsed(chart_svg(chart, 300, 200).encode("utf-8", "replace")).iter("b"))


def test_every_family_has_a_mark():
    assert all(symbol_path(look.symbol).startswith("M") for look in FAMILIES.values()) and len(
        {symbol_path(look.symbol) for look in FAMILIES.values()}
    ) == len(FAMILIES)


@pytest.mark.parametrize(
    "low, high, said",
    [(0.004, 2, ["0.01", "0.1", "1"]), (1e-7, 2, ["10⁻⁶", "10⁻⁴", "10⁻²", "1"]), (2, 5, [])],
)
def test_ticks_are_powers_of_ten(low, high, said):
    assert [text for _, text in powers(low, high)] == said
    assert all(low <= value <= high for value, _ in powers(low, high))


# ---- Names ------------------------------------------------------------------------------------


@given(
    st.lists(st.text("ab._/0", min_size=1, max_size=40), max_size=12, unique=True),
    st.integers(4, 24),
)
def test_short_names_stay_different(names, longest):
    short = short_names(names, longest)
    assert len(set(short)) == len(names)
    assert all(
        s == n
        for s, n in zip(short, names)
        if len(n) <= longest and sum(t == n for t in short) == 1 and s == n
    )


def test_names_are_cut_at_the_front():
    assert short_names(["norm.bias", "encoder.layers.0.mlp.weight"], 14) == [
        "norm.bias",
        "…0.mlp.weight",
    ]
    alike = [f"blocks.{i}.self_attn.out_proj.weight" for i in range(3)]
    assert short_names(alike, 16) == ["…0.…_proj.weight", "…1.…_proj.weight", "…2.…_proj.weight"]
    assert short_names(["same", "same"], 4) == ["same", "same"]


def test_names_that_are_cut_alike_get_a_longer_end_not_the_whole_name():
    trace = apscope.open_trace("notebooks/data/resnet18")
    short = dict(zip(trace.tensors, short_names(trace.tensors, 15), strict=True))
    assert short["layer4.0.downsample.1.weight"] == "layer4.…e.1.weight"
    assert len(set(short.values())) == len(short) and max(map(len, short.values())) <= 21


def test_titles_say_what_differs():
    said = {"aps:e3m4,rule=tight": "APS e3m4, tight", "none:bf16": "bf16",
            "loss_scaling:e5m2,scale=largest": "largest constant e5m2",
            "qsgd:levels=127": "QSGD, levels 127",
            "aps:e3m4,rule=tight,unit=32": "APS e3m4, tight, a scale for 32",
                "of another process": "of another process"}  # fmt: skip
    assert {spec: title(spec) for spec in said} == said
    specs = [s.spec for s in apscope.schemes.all_schemes()]
    named = titles(specs)
    assert len({named(s) for s in specs}) == len(specs)
    assert titles(["a", "b"])("c") == "c"


def test_no_share_of_underflow_has_the_colour_of_a_warning():
    """The schemes that lose least at few bits send most values as 0."""
    from apscope._charts.kinds import KINDS

    bands = KINDS["underflow"].bands
    for colours in (bands.light, bands.dark):
        for colour in colours:
            red, blue = (int(colour[k : k + 2], 16) for k in (1, 5))
            assert red <= blue, colour
    assert "not a fault" in KINDS["underflow"].caption
