"""The first screen: a verdict of at most 34 words per trace, its command, three charts; nothing of
it needs a script."""

import re
import shlex

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._charts.front import front_chart
from apscope._report import answer, first, page
from apscope._report.text import figure
from apscope.cli import main
from tests.python.browser import CHROMIUM, Browser

TRACES = ["digits", "digits_w64", "characters", "resnet18", "transformer"]
SCHEMES = ["none:fp32", "none:fp16", "none:e4m3", "loss_scaling:e3m4,scale=largest,rule=tight",
           "loss_scaling:e3m4,scale=best,overflow=saturate",
           "aps:e3m4,rule=tight,unit=model", "aps:e3m4,rule=tight",
           "loss_scaling:e4m3fn,scale=largest,rule=tight", "aps:e4m3fn,rule=tight",
               "stochastic:e4m3"]  # fmt: skip


@pytest.fixture(scope="module")
def results(request):
    data = request.config.rootpath / "notebooks/data"
    return apscope.merge([apscope.replay(data / name, SCHEMES, topology="ring") for name in TRACES])


@pytest.fixture(scope="module")
def text(results):
    return page(results)


def words_of(markup):
    """The text that a person reads: no pictures, commands or tooltips."""
    return re.sub(
        r"<[^>]+>",
        " ",
        re.sub(
            r"<(svg|code|style|script|title|noscript|button)\b.*?</\1>",
            " ",
            markup,
            flags=re.DOTALL,
        ),
    ).split()


def test_a_verdict_has_at_most_34_words_and_all_before_the_first_table_220(text):
    found = re.findall(r'<p class="verdict">(.*?)</p>', text, re.DOTALL)
    assert len(found) == 5 and all(
        8 <= len(words_of(v.replace("<wbr>", ""))) <= 34 for v in found
    ), [words_of(v) for v in found]
    before = text[text.index("<body>") : text.index("<table")].replace("<wbr>", "")
    assert len(words_of(before[: before.index('<section id="numbers"')])) <= 220


def test_the_verdict_is_that_of_the_summary(results):
    table = results.summary()
    for trace in TRACES:
        rows = answer.headline(table[table["trace"] == trace], "ring")
        said = first.verdict(rows, answer.bits_of(results.frame))
        sound = rows[
            (rows[["overflowed", "skipped", "gaps"]] == 0).all(axis=1) & (rows["volume"] <= 0.251)
        ].set_index("scheme")
        own = sound.loc[said["scheme"]]
        assert (
            own["error_over_noise"] <= 1.01 * sound["error_over_noise"].min()
            and said["share"] == "¼"
        )
        low, shown, high = (own[f"error_over_noise_{n}"] for n in ("low", "corrected", "high"))
        assert low < shown < high and said["error"] == first.fraction(shown)
        assert said["interval"] == f"{first.fraction(low)}–{first.fraction(high)}"
        assert said["nmse"] == figure(own["step_nmse"], 2)
        least = sound["step_nmse"].min()
        if own["step_nmse"] > 1.01 * least:
            other = sound.loc[said["other_scheme"]]
            assert other["step_nmse"] <= 1.01 * least
            assert said["other_nmse"] == figure(other["step_nmse"], 2)
            assert said["other_error"] == first.fraction(other["error_over_noise"])
        else:
            assert "other" not in said


def test_the_chart_of_error_against_bytes_names_the_scheme_of_the_verdict(results):
    table = results.summary()
    for trace in TRACES:
        rows = answer.headline(table[table["trace"] == trace], "ring")
        said = first.verdict(rows, answer.bits_of(results.frame))
        chart = front_chart(rows, prefer=said["scheme"])
        assert said["scheme"] in [p.label for p in chart.points]


def test_the_worst_layer_has_the_largest_error_over_the_noise_at_a_step(results, text):
    said = re.findall(
        r'<p class="verdict"><b class="spec" title="(.*?)">.*?worst: '
        r"<b>(.*?)</b>, (.*?) at step (\d+)</p>",
        text,
    )
    assert len(said) == 5
    for trace, (scheme, layer, error, step) in zip(TRACES, said):
        rows = results.frame.query("trace == @trace and scheme == @scheme and topology == 'ring'")
        worst = rows.loc[rows["error_over_noise"].idxmax()]
        assert (layer.replace("<wbr>", ""), error, int(step)) == (
            worst["tensor"],
            first.fraction(worst["error_over_noise"]),
            worst["step"],
        )


def test_the_command_repeats_the_row(results, text, tmp_path, monkeypatch, request):
    command = re.search(r'<p class="command"><code[^>]*>(.*?)</code>', text)[1].replace(
        "&#39;", "'"
    )
    words = shlex.split(command)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").symlink_to(request.config.rootpath / "notebooks/data/digits")
    assert words[:2] == ["apscope", "replay"] and main(words[1:]) == 0
    again = apscope.Results.open(tmp_path / "again").summary()
    spec = words[words.index("--scheme") + 1]
    both = [
        t[(t["trace"] == "digits") & (t["scheme"] == spec) & (t["topology"] == "ring")][
            "error_over_noise"
        ].iloc[0]
        for t in (again, results.summary())
    ]
    assert both[0] == both[1]


def test_the_path_in_the_command_is_that_of_the_results():
    said = first.command(
        "digits",
        "aps:e4m3,rule=tight",
        "ring",
        {"command": "apscope replay 'my data/digits' other --scheme main -o out", "seed": 3},
    )
    assert (
        said == "apscope replay 'my data/digits' --scheme aps:e4m3,rule=tight "
        "--topology ring --seed 3 -o again"
    )
    assert (
        first.command("digits", "sign", "vote", {"command": "a 'broken", "seed": 0})
        == "apscope replay digits --scheme sign -o again"
    )


def rows(**columns):
    about = {
        "error_over_noise": [0.5, 0.004, 1e-4],
        "volume": [0.125, 0.25, 0.5],
        "overflowed": [0, 0, 0],
        "skipped": [0, 0, 0],
        "gaps": [0, 0, 0],
    } | columns
    names = ["none:e3m0", "aps:e4m3", "none:fp16"]
    return pd.DataFrame(
        {
            "scheme": names,
            "topology": "ring",
            "step_nmse": [0.4, 0.002, 1e-6],
            "error_over_noise_corrected": np.nan,
            "error_over_noise_low": np.nan,
            "error_over_noise_high": np.nan,
            **about,
        }
    )


def test_what_is_chosen():
    assert (
        first.chosen(rows(), {})[0]["scheme"] == "aps:e4m3" and first.chosen(rows(), {})[1] == "¼"
    )
    # Side information does not change the class; what overflowed or skipped a step does not stand
    # for it.
    assert first.chosen(rows(volume=[0.13, 0.2508, 0.5]), {})[0]["scheme"] == "aps:e4m3"
    assert first.chosen(rows(overflowed=[0, 1, 0]), {})[0]["scheme"] == "none:e3m0"
    assert first.chosen(rows(gaps=[0, 1, 0]), {})[0]["scheme"] == "none:e3m0"
    best, share = first.chosen(rows(overflowed=[1, 0, 0], skipped=[0, 2, 0]), {})
    assert best["scheme"] == "none:fp16" and share == "½"
    # Among equal schemes the first of the request.
    level = rows(error_over_noise=[0.5, 0.00402, 0.004], volume=[0.125, 0.25, 0.25])
    assert [
        first.chosen(level, dict.fromkeys(order, 8))[0]["scheme"]
        for order in (["aps:e4m3", "none:fp16"], ["none:fp16", "aps:e4m3"])
    ] == [
        "aps:e4m3",
        "none:fp16",
    ]
    assert (
        first.chosen(rows(overflowed=[1, 1, 1]), {}) == (None, "")
        and first.verdict(rows(overflowed=[1, 1, 1]), {}) == {}
    )
    # Without a reduction it is the bits on the wire, without the noise the step NMSE.
    wire = rows(volume=[np.nan] * 3, error_over_noise=[np.nan] * 3)
    said = first.verdict(wire, {"none:e3m0": 4, "aps:e4m3": 8, "none:fp16": 16})
    assert (said["scheme"], said["what"], said["noisy"], said["error"]) == (
        "aps:e4m3",
        "bits",
        False,
        "0.0020",
    )


@pytest.mark.parametrize(
    "value, said",
    [
        (1 / 190, "1/190"),
        (0.0999, "1/10"),
        (0.1, "0.10"),
        (3.0, "3.0"),
        (0.0, "0"),
        (1 / 12345, "1/12,000"),
        (1e-9, "1.0 × 10⁻⁹"),
    ],
)
def test_an_error_reads_as_a_fraction_of_the_noise(value, said):
    assert first.fraction(value).replace("\u00a0", " ") == said


def test_what_to_use_is_the_plan_of_recommend(results, text):
    for trace, part in zip(
        TRACES, text[text.index('id="use"') :].split('<details class="use"')[1:]
    ):
        command = shlex.split(re.search(r'<p class="command"><code>(.*?)</code>', part)[1])
        assert command[:5] == ["apscope", "recommend", "RESULTS", "--max-volume", "0.25"]
        plan = apscope.recommend(results, max_volume=0.25, trace=trace, topology="ring")
        assert plan.verdict().replace("'", "&#39;")[:100] in part
        shown = re.findall(
            r'<td class="text"><span class="dot" aria-hidden="true"></span><span class="spec" '
            r'title="(.*?)">',
            part,
        )
        assert shown == list(plan.layers["scheme"][:80])


def test_results_of_which_no_plan_can_be_made_say_why(results):
    frame = results.frame[
        (results.frame["trace"] == "digits") & (results.frame["scheme"] == "none:fp32")
    ].reset_index(drop=True)
    text = page(apscope.Results(frame, results.histograms, results.provenance, results.noise))
    assert "at all of the bytes" in text and "What to use, layer by layer" in text


# ---- In a browser -----------------------------------------------------------------------------

in_a_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed (Debian: chromium)"
)


@pytest.fixture(scope="module")
def browser(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(text, encoding="utf-8")
    made = Browser()
    made.open(path.as_uri(), "document.documentElement?.classList.contains('ready')")
    yield made
    made.close()


@in_a_browser
def test_five_traces_are_one_screen_and_two_of_a_phone(browser):
    bottom = (
        "document.querySelector('article.first:last-of-type').getBoundingClientRect().bottom "
        "+ scrollY"
    )
    browser.resize(1400, 1000)
    assert browser.run(bottom) <= 1000
    assert browser.run("document.querySelectorAll('article.first svg.chart').length") == 15
    browser.resize(420, 900)
    assert (
        browser.run(bottom) <= 1800 and browser.run("document.documentElement.scrollWidth") <= 420
    )
    browser.resize(1400, 1000)


@in_a_browser
def test_the_charts_are_alive(browser):
    assert browser.messages == []
    place = "[...document.querySelectorAll('.chart.cells')[2].querySelectorAll('g[data-layer]')].map((g) => g.getBoundingClientRect().y)"
    worst = browser.run(place)
    assert worst == sorted(worst)
    browser.run("document.getElementById('layer-order').click()")
    names = browser.run(
        "[...document.querySelectorAll('.chart.cells')[2].querySelectorAll('g[data-layer]')].sort((a, b) => a.getBoundingClientRect().y - b.getBoundingClientRect().y).map((g) => g.dataset.layer)"
    )
    assert names == browser.run("apscopePage.traces.get('characters').layers")
    browser.run("document.getElementById('layer-order').click()")
    assert browser.run(place) == worst
    # A row of the map opens its layer below, a mark of the front its row in a table.
    browser.run(
        "document.querySelectorAll('.chart.cells')[2].querySelector('g[data-layer]').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    state = browser.run(
        "[apscopePage.state.trace, apscopePage.state.a, apscopePage.state.picked.layer]"
    )
    assert state[0] == "characters" and state[2] == browser.run(
        "document.querySelectorAll('.chart.cells')[2].querySelector('g[data-layer]').dataset.layer"
    )
    link = browser.run("document.querySelector('.chart a').getAttribute('href')")
    browser.run(f"location.hash = {link!r}")
    browser.wait(f"document.querySelector({link!r}).closest('details').open")


@in_a_browser
def test_a_name_is_copied_as_its_spec(browser):
    copied = browser.run(
        "(() => { const spec = document.querySelector('.verdict .spec'); "
        "getSelection().selectAllChildren(spec); const data = new DataTransfer(); "
        "spec.dispatchEvent(new ClipboardEvent('copy', {clipboardData: data, bubbles: true, "
        "cancelable: true})); return [spec.textContent, spec.title, data.getData('text/plain')]; "
        "})()"
    )
    assert copied[2] == copied[1] and copied[0] != copied[1]
