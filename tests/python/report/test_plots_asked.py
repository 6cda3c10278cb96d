"""Plots accept all documented arguments, report missing data in one sentence, and accept any
name."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import apscope
from apscope import plots
from apscope._results.families import FAMILIES
from apscope.plots._names import shown, wrapped
from apscope.plots._style import looks
from apscope.schemes import APS, LossScaling
from tests.python.altered import altered
from tests.python.drawn_labels import OF_MANY, OF_ONE

SPECS = ["none:bf16", "aps:e3m4", "loss_scaling:e3m4,scale=largest", "qsgd"]
STEPS = [0, 8, 10, 1500]
WITH_LAYER = [
    plots.scale_series,
    plots.bias_over_steps,
    plots.variance_over_steps,
    plots.sqnr_against_bits,
    plots.accumulation_error,
]


@pytest.fixture(scope="module")
def results(request):
    return apscope.replay(
        request.config.rootpath / "notebooks/data/digits",
        SPECS,
        steps=STEPS,
        topology=["ring", "tree"],
    )


def texts(ax):
    """All text in the figure."""
    ax.figure.canvas.draw()
    return "\n".join(t.get_text() for t in ax.figure.findobj(lambda a: hasattr(a, "get_text")))


def png(ax):
    ax.figure.set_dpi(30)
    ax.figure.canvas.draw()
    return np.asarray(ax.figure.canvas.buffer_rgba()).tobytes()


#: Those that take one.
WITH_SCHEME = [name for name in plots.__all__ if name not in ("ladder", "limit")]


def calls(results):
    """(name, a call with some scheme) of every plot that takes one."""
    for plot in OF_ONE:
        yield plot.__name__, lambda s, plot=plot: plot(results, s)
    for plot in OF_MANY:
        yield plot.__name__, lambda s, plot=plot: plot(results, [s])
    yield "nmse_ratio", lambda s: plots.nmse_ratio(results, s, "none:bf16")
    yield "exponent_histogram", lambda s: plots.exponent_histogram(results, scheme=s)
    yield "exponents_by_layer", lambda s: plots.exponents_by_layer(results, scheme=s)


def test_every_plot_of_the_package_is_tried_here():
    tried = {name for name, _ in calls(None)}
    assert tried == {*plots.__all__} - {"ladder", "limit"}  # which take no scheme


@pytest.mark.parametrize("plot", WITH_SCHEME)
def test_a_scheme_is_taken_in_any_spelling(results, plot):
    call = dict(calls(results))[plot]
    expected = png(call("aps:e3m4"))
    assert png(call(APS("e3m4"))) == expected
    assert png(call("aps:e3m4,headroom=workers,rule=ceil")) == expected
    assert png(call("loss_scaling:e3m4,scale=largest")) != expected or plot == "sqnr_against_bits"


@pytest.mark.parametrize("plot", WITH_SCHEME)
@pytest.mark.parametrize("scheme", ["aps", "loss_scaling headroom=workers", "aps:e5m2", "x", ""])
def test_a_scheme_that_is_not_there_is_one_sentence(results, plot, scheme):
    with pytest.raises(
        ValueError,
        match=f"^the results have no scheme '{re.escape(scheme)}'; (did you mean '|they have "
        "none:bf16, aps:e3m4, )",
    ):
        dict(calls(results))[plot](scheme)
    with pytest.raises(ValueError, match="no scheme 'aps'; did you mean 'aps:e3m4'"):
        dict(calls(results))[plot]("aps")
    with pytest.raises(TypeError, match="scheme is int; give a Scheme or a spec"):
        dict(calls(results))[plot](5)


def test_the_ladder_draws_a_line_a_format_in_step_nmse(request, results):
    table = apscope.ladder(
        apscope.open_trace(request.config.rootpath / "notebooks/data/digits"), ["e4m3", "e3m4"]
    )
    ax = plots.ladder(table)
    lines = {
        tuple(np.round(np.log10(line.get_ydata()), 6))
        for line in ax.lines
        if len(line.get_ydata()) > 2
    }
    for name in ("e4m3", "e3m4"):
        for reduction in ("ring", "two_phase"):
            errors = table[
                (table["format"] == name)
                & (table["topology"] == reduction)
                & table["rung"].isin(["largest constant", "step", "layer", "1024", "32"])
            ]["step_nmse"]
            assert tuple(np.round(np.log10(errors.to_numpy()), 6)) in lines
    assert {line.get_linestyle() for line in ax.lines if len(line.get_ydata()) > 2} == {"-", "--"}
    # The noise of the batch has no rule: the figure is not in its units.
    assert {1.0, 0.1}.isdisjoint(line.get_ydata()[0] for line in ax.lines if len(line.get_ydata()))
    assert "the batch's noise" not in texts(ax) and ax.get_ylabel() == "step NMSE"
    assert png(plots.ladder(table, trace="digits")) == png(plots.ladder(table))
    with pytest.raises(ValueError, match="no trace 'other' in the results; they have digits"):
        plots.ladder(table, trace="other")
    with pytest.raises(ValueError, match="the results do not have two rungs of the ladder"):
        plots.ladder(results)
    for wrong in (5, {}, "out/", None):
        with pytest.raises(TypeError, match="results is of type .*; give Results"):
            plots.ladder(wrong)
    with pytest.raises(ValueError, match="the table has no column trace"):
        plots.ladder(pd.DataFrame({"x": [1]}))


@pytest.mark.parametrize("plot", WITH_SCHEME)
def test_what_is_no_results_is_one_sentence(results, plot):
    for wrong, word in ((5, "int"), ({}, "dict"), ("out/", "str"), (None, "NoneType")):
        with pytest.raises(TypeError, match=f"results is of type {word}; give Results"):
            dict(calls(wrong))[plot]("aps:e3m4")
    with pytest.raises(
        (ValueError, TypeError),
        match="the results have no rows|the table has no column trace|has no exponent histograms",
    ):
        dict(calls(pd.DataFrame({"x": [1]})))[plot]("aps:e3m4")


def test_every_plot_takes_the_frame_but_those_of_histograms(results):
    for name, call in calls(results.frame):
        if name.startswith("exponent"):
            with pytest.raises(
                TypeError,
                match="a table, which has no exponent histograms; give the Results",
            ):
                call("aps:e3m4")
        else:
            assert png(call("aps:e3m4")) == png(dict(calls(results))[name]("aps:e3m4"))


def test_nothing_is_drawn_before_it_is_known_that_all_is_there(results):
    figure = Figure()
    ax = figure.add_subplot()
    for plot in OF_ONE:
        with pytest.raises(ValueError):
            plot(results, "aps", ax=ax)
    assert not ax.has_data() and not ax.texts and figure.axes == [ax]


@pytest.mark.parametrize("plot", WITH_LAYER)
def test_one_layer_is_what_its_rows_alone_give(results, plot):
    alone = results.frame[results.frame["tensor"] == "head.bias"]
    arguments = ["aps:e3m4"] if plot in OF_ONE else []
    lines = [[tuple(map(float, ln.get_ydata())) for ln in p.lines if len(ln.get_ydata())] for p in (
        plot(results, *arguments, layer="head.bias"), plot(alone, *arguments))]  # fmt: skip
    assert lines[0] == lines[1] and lines[0]
    with pytest.raises(
        ValueError, match="the results have no layer 'head.bia'; did you mean 'head.bias'"
    ):
        plot(results, *arguments, layer="head.bia")


def test_a_scheme_in_the_formats_place_is_told_where_it_belongs(results):
    for plot in (plots.exponent_histogram, plots.exponents_by_layer):
        with pytest.raises(
            ValueError,
            match="^'aps:e4m3' is a scheme and not a format; give scheme='aps:e4m3' to draw",
        ):
            plot(results, "aps:e4m3")
        with pytest.raises(
            TypeError, match="^format is the scheme 'aps:e4m3'; give scheme='aps:e4m3' to draw"
        ):
            plot(results, APS("e4m3"))
        with pytest.raises(ValueError, match="^unknown format 'e4n3'"):
            plot(results, "e4n3")


def test_histogram_of_one_layer_is_that_layers(results):
    ax = plots.exponent_histogram(results, "e4m3", layer="norm.bias")
    h = (
        results.histograms.query("kind == 'finite' and tensor == 'norm.bias'")
        .groupby("exponent")["count"]
        .sum()
    )
    steps = next(p.get_data() for p in ax.patches if hasattr(p, "get_data"))
    assert dict(zip(steps.edges, steps.values))[-6] == pytest.approx(
        100 * h[-6] / h.sum(), rel=1e-12
    )


def test_cells_of_exponents_by_layer_are_the_layers_shares(results):
    ax = plots.exponents_by_layer(results, "e4m3")
    shown_cells = ax.collections[-1].get_array()
    low = ax.get_xlim()[0]
    h = (
        results.histograms.query("kind == 'finite' and tensor == 'conv2.weight'")
        .groupby("exponent")["count"]
        .sum()
    )
    assert shown_cells[1][int(-5 - low)] == pytest.approx(100 * h[-5] / h.sum(), rel=1e-12)


def nmse(rows):
    return rows["sum_squared_error"].sum() / rows["sum_squared_reference"].sum()


def test_nmse_by_layer_is_the_mean_over_the_steps(results):
    ax = plots.nmse_by_layer(results, ["aps:e3m4", "qsgd"])
    rows = results.frame.query(
        "scheme == 'aps:e3m4' and topology == 'ring' and tensor == 'norm.bias'"
    )
    assert len(rows) == len(STEPS)
    by_hand = np.mean([nmse(rows[rows["step"] == s]) for s in STEPS])
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert ax.lines[0].get_xdata()[labels.index("norm.bias")] == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("against", ["volume", "time"])
def test_points_of_costs_are_the_summarys_and_the_front_has_no_better_one(results, against):
    ax = plots.nmse_against_cost(results, against=against)
    front, *points = ax.lines
    summary = results.summary()
    summary = summary[summary["topology"].isin(["ring", "gather"])]
    drawn = {(float(p.get_xdata()[0]), float(p.get_ydata()[0])) for p in points}
    assert drawn == set(zip(summary[against], summary["step_nmse"]))
    side = 0.001 if against == "volume" else 0.0  # side information does not make another volume
    best = {
        (x, y)
        for x, y in drawn
        if not any(a <= x + side and b <= y and (a, b) != (x, y) for a, b in drawn)
    }
    corners = list(zip(front.get_xdata(), front.get_ydata()))
    assert best <= set(corners)
    # The error stays until the next point is paid for, and then falls: no corner promises less than
    # was measured.
    for x, y in corners:
        assert min(b for a, b in best if a <= x) <= y
    with pytest.raises(ValueError, match="against='bits' is neither"):
        plots.nmse_against_cost(results, against="bits")


def test_nmse_ratio_is_of_the_two_schemes_in_every_cell(results):
    ax = plots.nmse_ratio(results, "aps:e3m4", "loss_scaling:e3m4,scale=largest", topology="tree")
    cells, labels = ax.collections[0].get_array(), [t.get_text() for t in ax.get_yticklabels()]
    for step in STEPS:
        pair = [
            nmse(
                results.frame.query(
                    f"scheme == '{s}' and topology == 'tree' and tensor "
                    f"== 'head.bias' and step == {step}"
                )
            )
            for s in SPECS[1:3]
        ]
        assert cells[labels.index("head.bias"), STEPS.index(step)] == pytest.approx(
            pair[0] / pair[1], rel=1e-6
        )


def test_underflow_bands_show_one_percent_beside_forty(results):
    ax = plots.underflow_heat_map(results, "aps:e3m4")
    image = ax.collections[0]
    colours = [image.to_rgba(x) for x in (0.2, 1.0, 3.0, 7.0, 40.0, 90.0)]
    assert len(set(colours)) == len(colours)
    assert [t.get_text() for t in ax.figure.axes[1].get_yticklabels()][:4] == [
        "0.5",
        "2",
        "4",
        "10",
    ]


def test_the_worst_cell_of_each_of_the_worst_five_layers_is_framed(results):
    ax = plots.underflow_heat_map(results, "aps:e3m4")
    rows = results.frame.query("scheme == 'aps:e3m4' and stage == 'wire'").reset_index(drop=True)
    worst = rows.loc[rows.groupby("tensor")["underflow_rate"].idxmax()].nlargest(
        5, "underflow_rate"
    )
    labels = [t.get_text() for t in ax.get_yticklabels()]
    framed = {(round(p.get_y() + 0.5), round(p.get_x() + 0.5)) for p in ax.patches}
    assert framed == {
        (labels.index(t), STEPS.index(s)) for t, s in zip(worst["tensor"], worst["step"])
    }
    assert len({row for row, _ in framed}) == 5 < len(labels)


def test_bias_by_layer_is_the_tables(results):
    ax = plots.bias_by_layer(results, "aps:e3m4")
    row = results.frame.query(
        "scheme == 'aps:e3m4' and topology == 'ring' and tensor == 'conv2.weight' and step == 10"
    ).iloc[0]
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert (
        ax.collections[0].get_array()[labels.index("conv2.weight"), 2] == 100 * row["relative_bias"]
    )


def test_accumulation_by_layer_is_reduced_minus_exact(results):
    rows = results.frame.query("scheme == 'aps:e3m4' and tensor == 'norm.weight'")
    difference = nmse(rows[rows["topology"] == "tree"]) - nmse(rows[rows["topology"] == "exact"])
    drawn = [
        abs(float(ln.get_xdata()[0]))
        for ln in plots.accumulation_by_layer(results, "aps:e3m4").lines
    ]
    assert any(x == pytest.approx(abs(difference), rel=1e-9) for x in drawn)


NAMES = {
    "conv1.weight": r"$\w{$",
    "conv2.weight": "层.重み",
    "norm.weight": "n" * 3000,
    "norm.bias": "<b>&a\n\tb",
    "head.weight": "\u0e01\U000e0001",
    "head.bias": "=cmd|1",
}


def test_names_of_any_kind_are_drawn_without_a_warning(results, recwarn):
    frame = results.frame.assign(tensor=results.frame["tensor"].map(NAMES), trace="$t_{")
    frame["scheme"] = frame["scheme"].replace({"qsgd": r"mine:$\alpha{$," + "k" * 3000})
    odd = altered(
        results,
        frame,
        histograms=results.histograms.assign(
            tensor=results.histograms["tensor"].map(NAMES), trace="$t_{"
        ),
    )
    warnings.simplefilter("error")
    mine = frame["scheme"].iloc[-1]
    for name, call in calls(odd):
        for scheme in ("aps:e3m4", mine):
            if name.startswith("exponent") and scheme == mine:
                continue
            ax = call(scheme)
            written = texts(ax)
            assert max(map(len, written.split("\n"))) < 140, name
            width, height = ax.figure.get_size_inches()
            assert width < 9 and height < 12, name
            if "by_layer" in name or name in ("underflow_heat_map", "nmse_ratio"):
                assert r"$\w{$" in written, name
                assert "n…n" in written and "=cmd|1" in written, name
    assert not recwarn.list


def test_names_are_shortened_in_the_middle_and_keep_their_ends():
    assert (
        shown("blocks.0." + "x" * 3000 + ".weight", 20).startswith("blocks.0.")
        and len(shown("x" * 3000, 20)) == 20
    )
    assert shown("blocks.0." + "x" * 3000 + ".weight", 20).endswith(".weight")
    assert shown("a\nb") == "a\\nb"
    assert (
        wrapped("loss_scaling:e4m3,scale=largest,headroom=one,rounding=stochastic")
        == "loss_scaling:e4m3,\nscale=largest,headroom=one,\nrounding=stochastic"
    )


def test_colours_mean_families(results):
    assert set(FAMILIES) == {d.family for d in apscope.schemes.definitions() if d.family} | {
        "baseline",
        "mixed",
        "other",
    }
    drawn = looks([*SPECS, "aps:e4m3", "hybrid(last=none:fp16;else=aps:e4m3)", "made elsewhere"])
    for spec, family in zip(drawn, ("baseline", "APS", "loss scaling", "stochastic")):
        assert drawn[spec].colour == FAMILIES[family].colour
    assert (
        drawn["aps:e4m3"].colour != drawn["aps:e3m4"].colour
        and drawn["aps:e4m3"].marker == drawn["aps:e3m4"].marker
    )
    assert drawn["made elsewhere"].colour == FAMILIES["other"].colour
    many = looks([f"aps:e{e}m{m}" for e in range(2, 8) for m in range(1, 7)])
    assert len(set(many.values())) >= 32
    line = plots.bias_over_steps(results, LossScaling("e3m4", scale="largest")).lines[-1]
    assert line.get_color() == FAMILIES["loss scaling"].colour


def test_labels_are_specs(results):
    for plot in (
        plots.nmse_by_layer,
        plots.variance_over_steps,
        plots.sqnr_against_bits,
        plots.accumulation_error,
    ):
        written = texts(plot(results)).replace("\n", "")
        assert all(
            spec in written
            for spec in SPECS
            if spec != "none:bf16" or plot is not plots.sqnr_against_bits
        ), plot.__name__
    assert texts(plots.underflow_heat_map(results, "aps:e3m4")).startswith(
        "aps:e3m4"
    ) or "aps:e3m4" in texts(plots.underflow_heat_map(results, "aps:e3m4"))


def test_a_trace_of_reduced_gradients_is_drawn_from_the_wire(results):
    wire = results.frame[results.frame["stage"] == "wire"]
    rows = wire.query("scheme == 'aps:e3m4' and tensor == 'head.bias'")
    ax = plots.nmse_by_layer(wire, "aps:e3m4")
    assert ax.lines[0].get_xdata()[-1] == pytest.approx(
        np.mean([nmse(rows[rows["step"] == s]) for s in STEPS]), rel=1e-12
    )
    with pytest.raises(ValueError, match="no reduced rows"):
        plots.accumulation_error(wire)


@pytest.mark.parametrize(
    "plot", [plots.nmse_against_cost, plots.nmse_by_layer, plots.accumulation_error]
)
def test_legends_in_a_grid_of_axes_stand_apart(results, plot):
    figure = Figure(figsize=(9, 8), layout="constrained")
    for ax in figure.subplots(2, 1):
        plot(results, ax=ax)
    figure.canvas.draw()
    assert not figure.legends
    boxes = [ax.get_legend().get_window_extent() for ax in figure.axes]
    assert not boxes[0].overlaps(boxes[1])
    one = plot(results)
    assert len(one.figure.legends) == 1 and one.get_legend() is None
