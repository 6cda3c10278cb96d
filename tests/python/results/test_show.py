"""Displays in notebooks: rulers of formats, summaries of results, traces and schemes; names are
escaped."""

import os
import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._formats.ruler import ranges_of, ruler
from apscope._html import MAX_ROWS
from apscope._results.summary import ranked
from apscope.schemes import APS, Hybrid, Scheme, definitions
from tests.python.altered import altered

SPECS = ["none:bf16", "aps:e3m4", "loss_scaling:e3m4,scale=largest", "qsgd"]
EVIL = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    r"$\w{$",
    "n" * 3000,
    "层.重み",
    "=cmd|x",
    "&amp;\n<b>",
]


@pytest.fixture(scope="module")
def results(request):
    return apscope.replay(
        request.config.rootpath / "notebooks/data/digits",
        SPECS,
        steps=[0, 8, 1500],
        topology=["ring", "tree"],
    )


class Page(HTMLParser):
    """Tags must nest and close; texts and attributes are kept."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts, self.codes = [], set(), [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [key for key, _ in attrs]
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [key for key, _ in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if "code" in self.open:
            self.codes.append(data)


HARMLESS = set("div b code table thead tbody tr th td svg title rect text path".split())


def harmless(text):
    page = Page(text)
    assert page.tags <= HARMLESS
    assert not [a for a in page.attributes if a.startswith("on") or a in ("href", "src")]
    return page


@pytest.mark.parametrize(
    "name",
    [
        *apscope.named_formats(),
        "e0m3finite",
        "e11m4",
        "e2m0",
        "e8m0fnu",
        "e5m2fnuz",
        "e1m1",
        "e3m0finite",
    ],
)
def test_every_format_has_a_ruler(name):
    f = apscope.FloatFormat(name)
    page = harmless(f._repr_html_())
    text = " ".join(page.texts)
    assert f.name in page.codes and f"{f.storage_bits} bits" in text and f"{f.largest:.4g}" in text
    numbers = [float(n) for n in re.findall(r'(?:x|width|y)="([-\d.]+)"', ruler(f))]
    assert min(numbers) >= 0 and max(numbers) <= 640


@pytest.mark.parametrize(
    "name",
    "e4m3 e4m3fn e5m2 fp16 e2m1fn e3m0 e0m3finite e8m0fnu binary8p3se e4m3fnuz".split(),
)
def test_ranges_are_what_rounding_does(name):
    f = apscope.FloatFormat(name)
    ranges = ranges_of(f)
    assert (
        all(a.high == b.low for a, b in zip(ranges, ranges[1:])) and ranges[-1].kind == "overflow"
    )
    for kind, low, high in ranges:
        for x in np.exp2(
            np.linspace(
                max(low, high - 4 if np.isfinite(high) else low),
                min(high, low + 4 if np.isfinite(low) else high),
                9,
            )[1:-1]
        ):
            y = apscope.quantize(float(x), f)
            if kind == "underflow":
                assert y == 0
            elif kind == "subnormal":
                assert 0 < y <= (f.smallest_normal or f.largest)
            elif kind == "normal":
                assert f.smallest_normal <= y <= f.largest or y == f.smallest_positive
    if f.has_infinity:
        assert apscope.quantize(float(np.exp2(ranges[-1].low + 1)), f) == np.inf


@pytest.mark.parametrize("name", apscope.named_formats())
def test_no_line_of_a_limit_crosses_the_text_of_another(name):
    limits = [
        (float(x), float(end), float(left), float(y), len(text) * 6.1)
        for x, end, left, y, text in re.findall(
            r'<path d="M([-\d.]+) 43V(\d+)"[^>]*/><text x="([-\d.]+)" y="(\d+)">([^<]*)',
            ruler(apscope.FloatFormat(name)),
        )
    ]
    assert len(limits) >= 2
    for x, end, *_ in limits:
        assert not [left for _, _, left, y, width in limits if y <= end and left < x < left + width]


def test_a_ruler_says_where_the_ranges_end_and_what_overflow_gives():
    text = Page(ruler(apscope.FloatFormat("e4m3"))).texts
    assert (
        "smallest 0.001953 = 2⁻⁹" in text
        and "smallest normal 0.01562 = 2⁻⁶" in text
        and "largest 240 = 1.875×2⁷" in text
    )
    assert [
        t for t in text if t in ("0", "inf", "underflow", "subnormal", "normal", "overflow")
    ].count("inf") == 1
    assert "NaN" in Page(ruler(apscope.FloatFormat("e4m3fn"))).texts
    assert "largest 3.403e+38 = (2−2⁻²³)×2¹²⁷" in Page(ruler(apscope.FloatFormat("fp32"))).texts
    # As many long and short ticks as positive values.
    assert len(re.findall(r"v-(12|7)", ruler(apscope.FloatFormat("e4m3")))) == 119


def test_a_ruler_takes_its_colours_from_the_page():
    picture = ruler(apscope.FloatFormat("e5m2"))
    assert 'fill="currentColor"' in picture and set(re.findall(r'stroke="(\w+)"', picture)) == {
        "currentColor"
    }
    assert not re.search(r'fill="(#000|black|white|#fff)', picture)


def test_repr_of_formats_and_schemes_can_be_typed_in():
    for thing in (apscope.FloatFormat("e4m3fn"), Scheme("aps:e4m3,headroom=one")):
        assert eval(repr(thing), {"FloatFormat": apscope.FloatFormat, "Scheme": Scheme}) == thing


def test_results_show_the_summary(results):
    page = harmless(results._repr_html_())
    assert "1 trace, 4 schemes, 6 layers, 3 steps, " in "".join(page.texts)
    summary = results.summary()
    kept = summary[summary["topology"].isin(["ring", "gather"])]
    assert [c for c in page.codes if c in SPECS] == list(kept["scheme"])
    for value in kept["step_nmse"]:
        assert f"{value:.3g}" in page.texts
    assert "digits" not in page.codes  # one trace alone is not repeated in every row


def test_results_are_a_table_at_a_prompt(results, monkeypatch):
    """Columns without values or problems are left out, and so are the last rows if there is no
    room."""
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((200, 24)))
    first, _, trace, heads, *rows, _, last = repr(results).split("\n")
    assert (
        first == f"<Results: 1 trace, 4 schemes, 6 layers, 3 steps, {len(results.frame)} rows>"
        and trace == "digits"
    )
    table = ranked(results)
    assert (
        re.split("  +", heads)[:5]
        == ["scheme", "topology", "NMSE of a step", "volume", "error over noise"]
        and "overflowed" not in heads
    )
    assert [row.split()[:5] for row in rows] == [
        [r.scheme, r.topology, *(f"{v:.3g}" for v in (r.step_nmse, r.volume, r.error_over_noise))]
        for r in table.itertuples()
    ]
    assert last.startswith("summary() has every scheme and column")
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((60, 24)))
    assert max(map(len, repr(results).split("\n")[2:-2])) <= 60


def test_of_many_schemes_and_traces_the_best_are_shown(results):
    copies = [results.frame.assign(scheme=results.frame["scheme"] + f"#{i}") for i in range(4)]
    many = altered(results, pd.concat(copies, ignore_index=True))
    assert "and 6 more rows with larger errors" in repr(many)
    two = altered(results, pd.concat([many.frame, many.frame.assign(trace="b")], ignore_index=True))
    assert repr(two).count("and 11 more rows with larger errors") == 2


def test_the_ranking_that_notebooks_show_says_by_what(results):
    page = harmless(results._repr_html_())
    said = "Ranked by the NMSE of a step"
    assert "error over noise" in page.texts and any(said in text for text in page.texts)
    table = ranked(results)
    assert table["step_nmse"].is_monotonic_increasing
    assert [f"{v:.3g}" for v in table["step_nmse"]] == [
        t for t in page.texts if t in {f"{v:.3g}" for v in table["step_nmse"]}
    ]
    unknown = results.frame.assign(sum_noise=np.nan, sum_log2_error_over_noise=np.nan)
    page = harmless(altered(results, unknown)._repr_html_())
    assert "error over noise" not in page.texts and any(said in text for text in page.texts)


def test_statistics_of_a_cast_are_a_line_and_a_table():
    x = np.float32([1e-4, 0.0, 0.3, 300.0, np.nan, 1.1])
    lost = apscope.cast_statistics(x, "e4m3")
    assert (
        repr(lost).startswith(
            "<CastStatistics: 6 numbers, underflow 1 of 4 nonzero, overflow 1, nan 1, nmse inf"
        )
        and len(repr(lost)) < 160
    )
    lines = {line.split()[0]: line.split(maxsplit=1)[1:] for line in str(lost).split("\n")[1:]}
    assert (
        list(lines) == list(lost.to_dict())
        and lines["underflow"] == ["1  25 % of nonzero"]
        and lines["max_ulp"] == ["0.4"]
    )
    page = harmless(lost._repr_html_())
    assert set(lost.to_dict()) <= set(page.codes) and "25 % of nonzero" in page.texts
    nothing = apscope.cast_statistics(x[:0], "e4m3")
    assert repr(nothing) == "<CastStatistics: 0 numbers, underflow 0 of 0 nonzero>" and re.search(
        r"^nmse +-$", str(nothing), re.MULTILINE
    )


def test_a_shard_and_empty_results_say_so(results):
    part = altered(results, provenance=results.provenance | {"shard": [1, 3]})
    assert (
        "shard 1 of 3, merge it with the others" in repr(part)
        and "shard 1 of 3" in part._repr_html_()
    )
    empty = altered(results, results.frame.iloc[:0])
    assert repr(empty) == "<Results: 1 trace, 0 schemes, 0 layers, 0 steps, 0 rows>"
    harmless(empty._repr_html_())


@pytest.mark.parametrize("evil", EVIL)
def test_names_inject_nothing(results, evil):
    frame = results.frame.assign(trace=evil, tensor=evil)
    frame["scheme"] = frame["scheme"].replace({"qsgd": evil})
    page = harmless(altered(results, frame)._repr_html_())
    if len(evil) < 40:
        assert evil in page.codes  # as code: typesetters of formulas leave it alone
    assert max(map(len, page.texts)) < 200


def test_a_trace_shows_what_was_recorded(request):
    trace = apscope.open_trace(request.config.rootpath / "notebooks/data/digits")
    page = harmless(trace._repr_html_())
    assert set(trace.tensors) <= set(page.codes)
    text = " ".join(page.texts)
    assert (
        "workers: 8" in text
        and "steps: 52, 0 to 2000" in text
        and "16 × 8 × 3 × 3" in text
        and "gradient (52 steps)" in text
    )


def test_a_trace_of_many_layers_and_evil_names_is_shown_in_part(tmp_path):
    from apscope.record import TraceWriter

    with TraceWriter(tmp_path / "run", workers=1, name=EVIL[0], model=EVIL[1]) as writer:
        for i in range(MAX_ROWS + 7):
            writer.add(0, 0, f"{EVIL[i % len(EVIL)]}.{i}", np.float32([1.0]))
        writer.end_step(0)
    page = harmless(apscope.open_trace(tmp_path / "run")._repr_html_())
    assert "and 7 more rows" in page.texts and EVIL[0] in page.codes


def test_a_scheme_shows_its_keys_with_values(results):
    page = harmless(APS("e4m3", headroom="one")._repr_html_())
    keys = {key for d in definitions() if d.name == "aps" for key in (k.name for k in d.keys)}
    assert (
        keys <= set(page.codes)
        and "aps:e4m3,headroom=one" in page.codes
        and {"one", "workers"} <= set(page.codes)
    )
    page = harmless(Hybrid({"last": "none:fp16", "else": "aps:e4m3"})._repr_html_())
    assert {"last", "none:fp16", "else", "aps:e4m3"} <= set(page.codes)
    assert (
        "Needs gradients, " in " ".join(harmless(Scheme("birder")._repr_html_()).texts)
        or not Scheme("birder").needs
    )


@pytest.mark.parametrize(
    "spec",
    [f"{d.name}:e4m3" if d.takes_format else d.name for d in definitions() if not d.body],
)
def test_every_scheme_can_be_shown(spec):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Scheme(spec).spec in harmless(Scheme(spec)._repr_html_()).codes


def test_tables_of_pandas_stay_as_they_are(results):
    before = results.frame.copy()
    results._repr_html_()
    pd.testing.assert_frame_equal(results.frame, before)
