"""Plots: they draw the table's numbers, also of unusual tables."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import apscope
from apscope import plots
from apscope._charts.spread import spread
from apscope._results.pooling import headline_rows, headline_topology, pool
from apscope._results.summary import ranked
from tests.python.altered import altered
from tests.python.drawn_labels import OF_MANY, OF_ONE

SCHEMES = [
    "none:e4m3",
    "loss_scaling:e4m3,scale=largest,headroom=one",
    "dynamic_loss_scaling:e4m3",
    "aps:e4m3",
    "aps:e5m2",
    "qsgd",
]


@pytest.fixture(scope="module")
def results(request):
    return apscope.replay(
        request.config.rootpath / "notebooks/data/digits", SCHEMES, steps=[0, 8, 9, 10, 1500]
    )


@pytest.fixture(scope="module")
def few(results):
    """Of a scheme that skips steps, one with a scale of each layer and one without a format."""
    specs = ["dynamic_loss_scaling:e4m3", "aps:e4m3", "qsgd"]
    return altered(results, results.frame[results.frame["scheme"].isin(specs)])


def every_plot(results):
    """(name, Axes) of every plot of every scheme."""
    for scheme in dict.fromkeys(results.frame["scheme"]):
        for plot in OF_ONE:
            yield plot.__name__, plot(results, scheme)
        if "scale_exponent" in results.frame:
            yield "exponent_histogram", plots.exponent_histogram(results, "e4m3", scheme=scheme)
            yield "exponents_by_layer", plots.exponents_by_layer(results, "e4m3", scheme=scheme)
    for plot in OF_MANY:
        yield plot.__name__, plot(results)
    first, last = results.frame["scheme"].iloc[[0, -1]]
    yield "nmse_ratio", plots.nmse_ratio(results, first, last)


def draws(results):
    """Draws every plot and returns their number."""
    count = 0
    for _, ax in every_plot(results):
        ax.figure.canvas.draw()
        count += 1
    return count


def changed(results, **changes):
    """Results with another frame: mask -> {column: value} pairs through `where`, columns left out
    through `drop`."""
    frame = results.frame.copy()
    for column, value in changes.get("values", {}).items():
        frame.loc[changes["where"](frame), column] = value
    return altered(results, frame.drop(columns=changes.get("drop", [])))


ERRORS = """
    underflow_rate bias relative_bias variance mse nmse sqnr_db cosine sum_error
    sum_squared_error sum_squared_reference
""".split()
COUNTS = ["counted", "nonzero", "underflow", "overflow", "nan", "infinite"]


def skipping_all(results, scheme):
    return changed(
        results,
        where=lambda f: f["scheme"] == scheme,
        values={"skipped": True} | dict.fromkeys(ERRORS, np.nan) | dict.fromkeys(COUNTS, pd.NA),
    )


def test_the_callers_settings_and_pyplot_are_left_alone(few):
    import matplotlib.pyplot as plt

    before = dict(matplotlib.rcParams)
    for name, ax in every_plot(few):
        assert isinstance(ax.figure, Figure), name
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == []


def test_a_given_axes_is_drawn_into(results):
    figure = Figure()
    ax = figure.add_subplot()
    assert plots.bias_over_steps(results, "aps:e4m3", ax=ax) is ax
    assert ax.lines


def test_a_figure_is_a_picture_in_a_notebook_also_before_pyplot_has_made_one(results):
    """IPython's own formatter for figures begins with pyplot's first."""
    from IPython.core.formatters import DisplayFormatter

    data, _ = DisplayFormatter().format(plots.nmse_against_cost(results).figure)
    assert data["image/png"].startswith(b"\x89PNG")


def test_axes_have_labels_with_units(results):
    """But an axis of layers or of schemes, which are named."""
    named = {*results.frame["tensor"], *results.frame["scheme"]}
    for name, ax in every_plot(results):
        assert ax.get_xlabel(), name
        assert ax.get_ylabel() or named & {t.get_text() for t in ax.get_yticklabels()}, name


def test_histogram_holds_every_finite_value_before_and_the_moved_ones_after(results):
    ax = plots.exponent_histogram(
        results, "e4m3", scheme="loss_scaling:e4m3,scale=largest,headroom=one"
    )
    before, after = (
        [p.get_data() for p in ax.patches if hasattr(p, "get_data")][0],
        [p.get_data() for p in ax.patches if hasattr(p, "get_data")][-1],
    )
    scale = int(
        results.frame.query("scheme == 'loss_scaling:e4m3,scale=largest,headroom=one'")[
            "scale_exponent"
        ].iloc[0]
    )
    h = results.histograms[results.histograms["kind"] == "finite"]
    share = 100 * h.groupby("exponent")["count"].sum() / h["count"].sum()
    for exponent in (-9, -5, -2):
        assert before.values[list(before.edges).index(exponent)] == pytest.approx(
            share[exponent], rel=1e-12
        )
        assert after.values[list(after.edges).index(exponent + scale)] == pytest.approx(
            share[exponent], rel=1e-12
        )


def test_ranges_begin_where_the_format_says(results):
    ax = plots.exponent_histogram(results, "e4m3")
    edges = sorted({round(float(p.get_x()), 6) for p in ax.patches if hasattr(p, "get_x")})[1:]
    # Half the smallest value, the smallest normal, the largest value.
    assert edges == [-10.0, -6.0, round(np.log2(240.0), 6)]


def test_heat_map_cells_are_the_tables(results):
    ax = plots.underflow_heat_map(results, "none:e4m3")
    rows = results.frame.query("scheme == 'none:e4m3' and stage == 'wire'")
    shown = ax.collections[0].get_array()
    assert shown.shape == (rows["tensor"].nunique(), rows["step"].nunique())
    labels = [t.get_text() for t in ax.get_yticklabels()]
    for _, row in rows.iterrows():
        assert (
            shown[labels.index(row["tensor"]), [0, 8, 9, 10, 1500].index(row["step"])]
            == 100 * row["underflow_rate"]
        )


def test_skipped_cells_are_masked(results):
    shown = (
        plots.underflow_heat_map(results, "dynamic_loss_scaling:e4m3").collections[0].get_array()
    )
    skipped = results.frame.query(
        "scheme == 'dynamic_loss_scaling:e4m3' and stage == 'wire' and topology == 'ring'"
    ).pivot(index="tensor", columns="step", values="skipped")
    assert 0 < skipped.to_numpy().sum() == np.ma.getmaskarray(shown).sum()


def test_bias_is_pooled_over_the_layers_and_relative(results):
    ax = plots.bias_over_steps(results, "aps:e4m3")
    line = next(ln for ln in ax.lines if len(ln.get_xdata()) == 5)
    rows = results.frame.query("scheme == 'aps:e4m3' and topology == 'ring' and step == 8")
    absolute, signed = rows["sum_absolute_reference"].sum(), rows["sum_signed_error"].sum()
    assert line.get_ydata()[1] == pytest.approx(100 * signed / absolute, rel=1e-12)
    (band,) = ax.collections
    square = rows["sum_squared_error"].sum() - signed**2 / rows["counted"].sum()
    edges = band.get_paths()[0].vertices
    at = sorted(edges[edges[:, 0] == 1][:, 1])
    assert at[-1] - at[0] == pytest.approx(100 * 4 * np.sqrt(square) / absolute, rel=1e-9)


def test_accumulation_error_is_reduced_minus_exact(results):
    ax = plots.accumulation_error(results)
    nmse = {}
    for topology in ("exact", "tree"):
        rows = results.frame.query(f"scheme == 'aps:e5m2' and topology == '{topology}'")
        nmse[topology] = rows["sum_squared_error"].sum() / rows["sum_squared_reference"].sum()
    drawn = [float(ln.get_xdata()[0]) for ln in ax.lines]
    assert any(x == pytest.approx(nmse["tree"] - nmse["exact"], rel=1e-12) for x in drawn)
    bars = [p.get_x() + p.get_width() for p in ax.patches if hasattr(p, "get_width")]
    assert any(x == pytest.approx(nmse["exact"], rel=1e-12) for x in bars)


def test_scale_series_marks_skipped_steps(results):
    ax = plots.scale_series(results, "dynamic_loss_scaling:e4m3")
    rows = results.frame.query("scheme == 'dynamic_loss_scaling:e4m3' and stage == 'wire'")
    skipped = sorted(rows.loc[rows["skipped"], "step"].unique())
    crosses = [ln for ln in ax.lines if ln.get_marker() == "x"][0]
    assert [[0, 8, 9, 10, 1500][int(x)] for x in crosses.get_xdata()] == skipped


def test_schemes_that_skipped_every_step_are_drawn(results):
    two = altered(results, results.frame[results.frame["scheme"].isin(["aps:e4m3", "qsgd"])])
    assert draws(skipping_all(two, "aps:e4m3")) == 8 * 2 + 6
    assert draws(skipping_all(skipping_all(two, "aps:e4m3"), "qsgd")) == 8 * 2 + 6


def test_tables_without_optional_columns_are_drawn(few):
    assert (
        draws(changed(few, drop=["scale_exponent", "note", "expected_bias", "max_ulp"]))
        == 6 * 3 + 6
    )


def test_a_single_step_and_zero_tensors_are_drawn(few):
    step = changed(few, drop=[])
    step.frame = step.frame[step.frame["step"] == 0].reset_index(drop=True)
    assert draws(step) == 8 * 3 + 6
    nothing = changed(
        step,
        where=lambda f: f["step"] == 0,
        values=dict.fromkeys(ERRORS, 0.0)
        | {"nonzero": 0, "underflow": 0}
        | {"underflow_rate": np.nan, "nmse": np.nan, "sqnr_db": np.nan, "cosine": np.nan},
    )
    assert draws(nothing) == 8 * 3 + 6


def test_several_traces_want_a_name(results):
    two = altered(results, pd.concat([results.frame, results.frame.assign(trace="other")]))
    with pytest.raises(ValueError, match="2 traces; select one with .*digits, other"):
        plots.sqnr_against_bits(two)
    with pytest.raises(ValueError, match="no trace 'x'"):
        plots.sqnr_against_bits(two, trace="x")
    assert plots.sqnr_against_bits(two, trace="other")


def test_headline_is_the_ring_or_a_schemes_own_reduction(results):
    assert headline_topology(results.frame) == "ring"
    rows = headline_rows(results.frame)
    assert set(rows.loc[rows["scheme"].str.startswith("qsgd"), "topology"]) == {"gather"}
    assert set(rows.loc[rows["scheme"] == "aps:e4m3", "topology"]) == {"ring"}


def test_labels_beside_lines_never_overlap():
    random = np.random.default_rng(0)
    for n in range(1, 9):
        places, heights = sorted(random.random(n)), list(random.uniform(0.02, 0.2, n))
        centres = spread(places, heights)
        for i in range(n - 1):
            assert centres[i + 1] - centres[i] >= (heights[i] + heights[i + 1]) / 2 - 1e-12
    assert spread([0.1, 0.9], [0.1, 0.1]) == pytest.approx([0.1, 0.9])


@pytest.fixture(scope="module")
def both(request):
    return apscope.replay(
        request.config.rootpath / "notebooks/data/digits_w64",
        ["none:bf16", "aps:e4m3fn,rule=tight", "mx", "integer_allreduce:bits=8"],
        topology=["ring", "two_phase", "tree"],
    )


def test_a_point_of_the_front_is_named_by_scheme_and_reduction(both):
    ax = plots.nmse_against_cost(both)
    table = ranked(both).set_index(["scheme", "topology"])
    assert len(table) == 7
    points = {(float(ln.get_xdata()[0]), float(ln.get_ydata()[0])) for ln in ax.lines
              if len(ln.get_xdata()) == 1}  # fmt: skip
    assert points == {(r.volume, max(r.step_nmse, 1e-7)) for r in table.itertuples()}
    names = {"".join(text.get_text().split()) for text in ax.texts}
    for scheme in ("none:bf16", "aps:e4m3fn,rule=tight"):
        assert {f"{scheme},ring", f"{scheme},twophases"} <= names, names
    assert {"mx,gathered", "mx,twophases", "integer_allreduce:bits=8"} <= names
    assert [ln.get_linestyle() for ln in ax.lines if len(ln.get_xdata()) > 1] == ["-", "--"]
    told = [text.get_text() for text in ax.figure.legends[0].get_texts()]
    assert {"two phases", "ring", "scheme's own"} <= set(told)


def test_sqnr_has_a_point_of_every_reduction(both):
    ax = plots.sqnr_against_bits(both)
    rows = both.frame[both.frame["topology"].isin(["ring", "two_phase", "gather", "code_sum"])]
    pooled = pool(rows[rows["stage"] == "reduced"], ["scheme", "topology"])
    filled = {
        float(ln.get_ydata()[0]) for ln in ax.lines
        if len(ln.get_xdata()) == 1 and ln.get_markerfacecolor() != "white"
    }  # fmt: skip
    assert filled == set(pooled["sqnr_db"]) and len(filled) == 7
    names = " | ".join(text.get_text().replace("\n", " ") for text in ax.texts)
    assert "mx, gathered" in names and "mx, two phases" in names
    assert "bits=8," not in names
