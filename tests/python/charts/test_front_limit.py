"""The limit in the picture of the front: drawn where the results have it, at its numbers, with a
name; not where the axes are others."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import apscope
from apscope._charts.front import front_chart
from apscope._charts.limit import limit_chart
from apscope._charts.reference import LEGEND, SAYS, reference_of
from apscope._charts.svg import chart_svg
from apscope._rate_limit.bound import ENTROPY_CODED
from apscope._rate_limit.limit import SCHEMES
from apscope._results.limits import limits_of
from apscope._results.summary import front
from apscope._schemes.lists import schemes_of
from apscope._schemes.titles import title

TRACE = str(Path(__file__).parents[3] / "notebooks/data/characters")
#: Of an axis in the units of the limit.
NOISE = "error_over_noise"


@pytest.fixture(scope="module")
def results():
    return apscope.replay(
        TRACE, ["mx:block_format=mxint8", "mx:block_format=mxfp4", "aps:e4m3fn", "none:fp16"],
        topology=["ring", "two_phase"], limit=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def known(results):
    return limits_of(results)["characters"]


def marks(chart):
    """Lines of the limit, and points of grids."""
    return [line for line in chart.lines if line.inside], [
        p for p in chart.points if p.says.startswith("best grid")
    ]


def test_lines_are_the_limit_and_a_quarter_of_a_bit_above_it(results, known):
    chart = front_chart(front(results.summary(), "ring"), error=NOISE, limit=known)
    (solid, dashed), grids = marks(chart)
    assert (solid.label, solid.dashed, dashed.label, dashed.dashed) == ("limit", False, "", True)
    for line, factor in ((solid, 1.0), (dashed, 4**ENTROPY_CODED)):
        assert len(line.points) > 20
        ends = set(line.points[:1]) | set(line.points[-1:])
        for x, y in line.points:
            assert chart.x.low * 0.999 <= x <= chart.x.high * 1.001
            assert chart.y.low * 0.999 <= y <= chart.y.high * 1.001
            close = 0.05 if (x, y) in ends else 1e-9  # an end may be between two places
            assert y == pytest.approx(factor * known.of_sum.at(32 * x), rel=close)
    assert {(p.x, p.y) for p in grids} <= {(bits / 32, error) for bits, error in known.grids}
    assert len(grids) >= 2 and all(p.y > known.of_sum.at(32 * p.x) for p in grids)
    assert chart.legend[-3:] == list(LEGEND) and SAYS in chart.says
    # no scheme of these is below the line
    for point in chart.points:
        least = known.of_sum.at(32 * point.x)
        assert point in grids or math.isnan(least) or point.y > least


def test_grids_are_what_a_code_with_them_would_lose(known, results):
    """A grid of 2^8 levels with a free scale for 32 loses less than MXINT8 with its own in two
    phases, and more than the limit."""
    table = results.summary().set_index(["scheme", "topology"])
    for spec, bits in (("mx:block_format=mxint8", 8), ("mx:block_format=mxfp4", 4)):
        error, grid = table.loc[(spec, "two_phase"), "error_over_noise"], dict(known.grids)[bits]
        assert known.of_sum.at(bits) < grid < error < 8 * grid


def test_other_axes_and_other_results_have_no_limit(results, known):
    rows = front(results.summary(), "ring")
    for chart in (
        front_chart(rows, error=NOISE),
        front_chart(rows, limit=known),
        front_chart(rows, limit=known, error=NOISE, against="time"),
        front_chart(rows.assign(error_over_noise=np.nan), error=NOISE, limit=known),
    ):
        assert marks(chart) == ([], []) and SAYS not in chart.says
        assert not {name for name, *_ in LEGEND} & {name for name, *_ in chart.legend}
    # below and above what is drawn, and where there are too few values
    for box in ((0.1, 0.2, 1e-12, 1e-11), (0.1, 0.2, 10.0, 100.0), (0.6, 1.0, 1e-9, 1.0)):
        assert reference_of(known, *box).legend == []


def test_lines_end_where_they_cross_the_edges(known):
    drawn = reference_of(known, 0.02, 1.0, 1e-4, 1e-2)
    for line in drawn.lines:
        assert line.points[0][1] == 1e-2 and line.points[-1][1] == 1e-4
        assert (np.diff([x for x, _ in line.points]) > 0).all()
    assert len(drawn.points) == sum(1e-4 <= error <= 1e-2 for _, error in known.grids)


@pytest.mark.parametrize("size", [(350.0, 158.0), (440.0, 300.0), (600.0, 400.0)])
def test_the_lines_name_stands_inside_and_under_the_line(results, known, size):
    chart = front_chart(front(results.summary(), "ring"), error=NOISE, limit=known)
    svg = chart_svg(chart, *size)
    (name,) = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>limit</text>', svg)
    right, base = map(float, name)
    way = re.search(r'<path d="M([^"]+)" fill="none" class="line" stroke="#c2417f"', svg)
    assert way is not None
    points = [tuple(map(float, p.split())) for p in way[1].split("L")]
    left, top = right - 6.7 * len("limit"), base - 8
    assert 34 < left
    assert all(y < top + 3 for x, y in points if left <= x <= right)  # smaller y: above the name


def test_the_report_says_what_the_line_bounds(results, tmp_path):
    apscope.report(results, tmp_path / "with.html")
    page = (tmp_path / "with.html").read_text()
    assert SAYS in page and "bits above the limit" in page and ">limit</text>" in page
    bare = apscope.Results(results.frame, results.histograms, results.provenance, results.noise)
    apscope.report(bare, tmp_path / "without.html")
    page = (tmp_path / "without.html").read_text()
    assert SAYS not in page and ">limit</text>" not in page
    assert "bits above the limit</th>" not in page


def test_the_plot_draws_the_same(results):
    ax = apscope.plots.nmse_against_cost(results, error="error_over_noise")
    assert ax.get_ylabel() == "error over noise"
    assert "limit" in [text.get_text() for text in ax.texts]
    names = {text.get_text() for text in (ax.figure.legends or [ax.get_legend()])[0].get_texts()}
    assert {name for name, *_ in LEGEND} <= names
    plain = apscope.plots.nmse_against_cost(results)
    assert plain.get_ylabel() == "step NMSE"
    assert "limit" not in [text.get_text() for text in plain.texts]
    with pytest.raises(ValueError, match="error='nmse' is neither"):
        apscope.plots.nmse_against_cost(results, error="nmse")


# ---- Labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [*SCHEMES, *(s.spec for s in schemes_of(["all"]))])
def test_a_name_says_what_is_true(spec):
    """A key that is switched on or off is named: of the value alone nobody knows what is true."""
    assert not {"true", "false"} & set(re.split(r"[ ,=]+", title(spec)))


def test_names_of_switched_keys():
    assert title("nvfp4:rounding=ties_to_even,rht=false") == "NVFP4, ties to even, no rht"
    assert title("birder:amsgrad=true") == "birder, amsgrad"
    assert title("nvfp4:tensor_scale=false") == "NVFP4, no tensor scale"


def test_the_limits_chart_has_these_names():
    found = apscope.limit(TRACE, SCHEMES, bits=[], steps="0:1")
    labels = [p.label for p in limit_chart(found).points]
    assert len(labels) == len(set(labels)) == len(SCHEMES)
    assert not any("false" in label or "true" in label for label in labels)


def test_rows_without_a_limit_have_none_in_the_picture(results, known):
    rows = front(results.summary(), "ring").assign(bits_above_limit=math.nan)
    assert not any(marks(front_chart(rows, error=NOISE, limit=known)))
