"""The first screen: a verdict of at most 38 words per trace, with the best of 4 bits, its command, three charts; nothing of
it needs a script."""

import re
import shlex
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._charts.describe import number
from apscope._charts.front import front_chart, kind_of
from apscope._page.numbers import figure, over_noise
from apscope._report import first, page, shown_schemes
from apscope._results import ranking
from apscope._results.winners import winner
from apscope._schemes.titles import reduction
from apscope.cli import main
from tests.python.altered import altered

TRACES = ["digits", "digits_w64", "characters", "resnet18", "gpt"]
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
    """The words that a person reads: no pictures, commands, tooltips or signs between tags."""
    text = re.sub(
        r"<[^>]+>",
        " ",
        re.sub(
            r"<(svg|code|style|script|title|noscript|button)\b.*?</\1>",
            " ",
            markup,
            flags=re.DOTALL,
        ),
    )
    return [word for word in text.split() if any(map(str.isalnum, word))]


def test_a_verdict_has_at_most_38_words_and_one_trace_120_before_the_first_table(results, text):
    found = re.findall(r'<p class="verdict">(.*?)</p>', text, re.DOTALL)
    assert len(found) == 5 and all(
        8 <= len(words_of(v.replace("<wbr>", ""))) <= 38 for v in found
    ), [words_of(v) for v in found]
    frame = results.frame
    one = frame[frame["trace"] == "digits"].reset_index(drop=True)
    facts = results.provenance | {"traces": results.provenance["traces"][:1]}
    for page_of, traces in (
        (page(altered(results, one, provenance=facts)), 1),
        (text, 5),
    ):
        before = page_of[page_of.index("<body>") : page_of.index("<table")].replace("<wbr>", "")
        assert before.count('class="verdict"') == traces
        assert len(words_of(before)) <= 120 + 30 * (traces - 1)


def test_the_verdict_is_that_of_the_summary(results):
    table = results.summary()
    for trace in TRACES:
        rows = shown_schemes.headline(table[table["trace"] == trace], "ring")
        said = first.verdict(rows, shown_schemes.bits_of(results.frame))
        sound = rows[ranking.sound(rows) & (rows["volume"] <= 0.251)].set_index("scheme")
        own = sound.loc[said["scheme"]]
        assert own["step_nmse"] <= 1.01 * sound["step_nmse"].min() and said["share"] == "¼"
        low, shown, high = (own[f"error_over_noise_{n}"] for n in ("low", "corrected", "high"))
        assert low < shown < high and said["corrected"] == first.fraction(shown)
        assert said["error"] == first.fraction(own["error_over_noise"])  # as in the tables
        assert said["interval"] == f"{first.fraction(low)}–{first.fraction(high)}"
        assert said["nmse"] == figure(own["step_nmse"], 2)
        least = sound["error_over_noise"].min()
        if own["error_over_noise"] > 1.05 * least:
            (other,) = said["seconds"]
            assert sound.loc[other["scheme"], "error_over_noise"] == least
            assert other["times"] == figure(own["error_over_noise"] / least, 2)
            assert other["figure"] == "error over noise"
        else:
            assert said["seconds"] == []


def test_the_chart_of_error_against_bytes_names_the_scheme_of_the_verdict(results):
    table = results.summary()
    for trace in TRACES:
        rows = shown_schemes.headline(table[table["trace"] == trace], "ring")
        said = first.verdict(rows, shown_schemes.bits_of(results.frame))
        chart = front_chart(rows, prefer=said["scheme"])
        assert said["scheme"] in [p.label for p in chart.points]


#: A verdict's scheme, and its worst layer with the error and the step.
WORST = re.compile(
    r'<p class="verdict"><b class="chosen" title="(.*?)">.*?worst: '
    r"<b title=.*?>(.*?)</b>, (.*?) at step (\d+)</p>"
)


def test_the_worst_layer_has_the_largest_error_over_the_noise_at_a_step(results, text):
    said = WORST.findall(text)
    assert len(said) == 5
    for trace, (scheme, layer, error, step) in zip(TRACES, said):
        rows = results.frame.query("trace == @trace and scheme == @scheme and topology == 'ring'")
        worst = rows.loc[rows["error_over_noise"].idxmax()]
        assert (layer.replace("<wbr>", ""), error, int(step)) == (
            worst["tensor"],
            first.fraction(worst["error_over_noise"]),
            worst["step"],
        )


def test_the_table_names_the_worst_layer_that_the_verdict_names(text):
    """One figure: the largest error over noise at a step, so the two have the same layer."""
    assert "worst layer, its error over noise" in text and "worst layer, its NMSE" not in text
    verdicts = WORST.findall(text)
    parts = text.split('<details class="numbers"')[1:]
    assert len(verdicts) == len(parts) == 5
    for part, (scheme, layer, _, step) in zip(parts, verdicts):
        row = part[part.index(f'<code title="{scheme}">') :].split("</tr>")[0]
        told = re.search(r'class="text worst" title="(.*?), step (\d+): error over noise ', row)
        assert told is not None and told.groups() == (layer.replace("<wbr>", ""), step)


def test_what_charts_and_figures_mean_is_among_the_definitions(page_of_both):
    words = page_of_both[page_of_both.index('id="words"') :]
    for term in ("error over noise", "corrected", "charts of the first screen", "speed-up, time"):
        assert f"<dt>{term}</dt>" in words
    assert "10 GB/s and 5 µs per message" in words


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
        "step_nmse": [0.5, 0.004, 1e-4],
        "volume": [0.125, 0.25, 0.5],
        "overflowed": [0, 0, 0],
        "skipped": [0, 0, 0],
        "gaps": [0, 0, 0],
        "lost_layers": [0, 0, 0],
    } | columns
    names = ["none:e3m0", "aps:e4m3", "none:fp16"]
    return pd.DataFrame(
        {
            "scheme": names,
            "format": ["e3m0", "e4m3", "fp16"],
            "topology": "ring",
            "error_over_noise": [0.4, 0.002, 1e-6],
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
    assert first.chosen(rows(lost_layers=[0, 1, 0]), {})[0]["scheme"] == "none:e3m0"
    best, share = first.chosen(rows(overflowed=[1, 0, 0], skipped=[0, 2, 0]), {})
    assert best["scheme"] == "none:fp16" and share == "½"
    # Of equal errors the least over the noise, as a ranking sorts them; of equal ones of these the
    # first of the request; else the least error, as everywhere.
    close = rows(step_nmse=[0.5, 0.00402, 0.004], volume=[0.125, 0.25, 0.25])
    assert first.chosen(close, dict.fromkeys(["aps:e4m3", "none:fp16"], 8))[0]["scheme"] == (
        "none:fp16"
    )
    level = rows(step_nmse=[0.5, 0.004, 0.004], volume=[0.125, 0.25, 0.25])
    assert first.chosen(level, {})[0]["scheme"] == "none:fp16"
    level["error_over_noise"] = 0.002
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
    assert (said["scheme"], said["what"], said["noisy"], said["nmse"], said["error"]) == (
        "aps:e4m3",
        "bits",
        False,
        "0.0040",
        "",
    )


@pytest.mark.parametrize("values", [(0.0, 0.0), (np.nan, np.nan), (0.0, np.nan)])
def test_gradients_without_a_number_are_told_and_no_scheme_is_blamed(values):
    zeros = {f"w{i}": np.full((4, 40), v, np.float32) for i, v in enumerate(values)}
    (said,) = re.findall(r'<p class="verdict">(.*?)</p>', page(zeros))
    assert said == (
        "The gradients, added over the workers, are 0 or not finite everywhere, so no scheme has "
        "an error to compare."
    )


def test_schemes_that_all_overflow_are_told():
    large = {"w": np.full((4, 40), 1e5, np.float32)}
    (said,) = re.findall(r'<p class="verdict">(.*?)</p>', page(apscope.replay(large, "none:e4m3")))
    assert said == "Every scheme here overflowed, skipped a step, lost a layer or has no rank."


def test_one_worker_has_choices_without_bytes_and_remedies():
    x = np.random.default_rng(3).standard_normal((1, 4096)).astype(np.float32)
    text = page(apscope.replay({"w": x}, ["mx", "mx:block_format=mxint8", "none:bf16"]))
    assert "or, without any, the best of those that differ from another in one choice" in text
    assert "at nan" not in text
    assert re.search(r'class="text remedy"><code>none:bf16: [^<]+ times the bytes</code>', text)


# ---- Across reductions ------------------------------------------------------------------------

BOTH = ["none:fp32", "none:bf16", "aps:e4m3fn,rule=tight", "aps:e4m3fn,rule=tight,unit=32",
        "aps:e3m4,rule=tight", "aps:e3m4,rule=tight,unit=32", "mx:block_format=mxint8",
        "aps:e2m1fn,rule=tight", "aps:e2m1fn,rule=tight,unit=16",
        "aps:e3m0noinf,rule=tight,unit=16", "qsgd:levels=127"]  # fmt: skip


@pytest.fixture(scope="module")
def both(request):
    data = request.config.rootpath / "notebooks/data"
    return apscope.merge(
        [apscope.replay(data / name, BOTH, topology=["ring", "two_phase"]) for name in TRACES]
    )


@pytest.fixture(scope="module")
def page_of_both(both):
    return page(both)


def test_the_verdict_names_the_reduction_and_its_command_repeats_it(both, page_of_both):
    """Ranked across reductions: the least error of all rows with about as many bytes."""
    table = both.summary()
    verdicts = re.findall(r'<p class="verdict">(.*?)</p>', page_of_both, re.DOTALL)
    commands = re.findall(r'<p class="command"><code[^>]*>(.*?)</code>', page_of_both)
    for trace, verdict, command in zip(TRACES, verdicts, commands):
        rows = shown_schemes.front(table[table["trace"] == trace], "ring")
        said = first.verdict(rows, shown_schemes.bits_of(both.frame))
        held = rows[(rows["volume"] <= 0.2823) & (rows["gaps"] == 0)]
        own = held[held["scheme"].eq(said["scheme"]) & held["topology"].eq(said["topology"])]
        assert own["error_over_noise"].iloc[0] == held["error_over_noise"].min()
        assert said["topology"] == "two_phase"
        scale = "a scale (for 32 elements|per layer)"
        grid = own["format"].iloc[0]
        choices = f"two phases, {grid}, {scale}</b>, at [^ ]+ of fp32.{{1,5}}s bytes"
        assert re.search(choices, verdict), verdict
        assert f"--scheme {said['scheme']} --topology two_phase" in command
        assert len(words_of(verdict.replace("<wbr>", ""))) <= 38
        narrow = winner(rows, shown_schemes.bits_of(both.frame), 4)
        assert said["narrow"]["scheme"] == narrow.scheme
        assert said["narrow"]["nmse"] == figure(narrow.error, 2)
        assert said["narrow"]["choices"].startswith("two phases, ")
    before = page_of_both[page_of_both.index("<body>") : page_of_both.index("<table")]
    shown = words_of(before[: before.index('<section id="numbers"')].replace("<wbr>", ""))
    assert len(shown) <= 240 and "An unbiased" not in before


def test_the_first_chart_says_what_each_choice_is_worth(both, page_of_both):
    """The reduction first, then the format, then the scale: factors of the table of numbers."""
    table = both.summary()
    pictures = re.findall(r'<svg class="chart bars".*?</svg>', page_of_both, re.DOTALL)
    assert len(pictures) == 5
    for trace, picture in zip(TRACES, pictures):
        rows = table[table["trace"] == trace].set_index(["scheme", "topology"])
        texts = [e for e in ElementTree.fromstring(picture) if e.tag == "text"]
        names = [e.text for e in texts if e.get("class") == "tick"]
        ring = "ring, room for W, not two phases"
        assert names.count(ring) == 2 and len(names) >= 5
        heads = [e.text for e in texts if e.get("class") == "name"]
        assert [head.split(":")[0] for head in heads] == ["8 bits a ring can add", "4 bits"]
        assert heads[0].startswith("8 bits a ring can add: e3m4, ")  # MXINT8 errs less
        assert names[1:3] == ["e4m3fn, not e3m4", names[2]] and "elements" in names[2]
        scheme = "aps:e3m4,rule=tight" + (",unit=32" if heads[0].endswith("elements") else "")
        factor = (
            rows.at[(scheme, "ring"), "step_nmse"] / rows.at[(scheme, "two_phase"), "step_nmse"]
        )
        told = [e.text for e in texts if not e.get("class")]
        assert factor > 2 and told[0] == number(factor)
    # The table below has both sides of each with their errors and bytes.
    part = page_of_both[page_of_both.index('id="numbers-1"') :].split("</details>")[0]
    worth = part[part.index("What each choice is worth") :].split("</table>")[0]
    for choice in ("reduction", "format", "scale"):
        assert f'<th scope="row" class="text">{choice}</th>' in worth
    assert "instead" in worth and "two phases" in worth and "ring" in worth


def test_the_family_table_names_the_reduction_of_each_winner(both, page_of_both):
    table = both.summary()
    part = page_of_both[page_of_both.index('id="numbers-3"') :].split("</details>")[0]
    rows = re.findall(
        r'<tr id="row-2-\d+".*?<code title="(.*?)">.*?data-label="reduction"[^>]* title="(.*?)">'
        r"(.*?)</td><td data-label=\"error over noise\"><b>(.*?)</b>",
        part,
        re.DOTALL,
    )
    own = table[table["trace"] == TRACES[2]].set_index(["scheme", "topology"])
    assert len(rows) >= 6 and {"two phases", "ring"} <= {r[2] for r in rows}
    for scheme, topology, _, error in rows:
        assert error == over_noise(own.at[(scheme, topology), "error_over_noise"])
    widest = [r for r in rows if r[0].startswith("aps:")]
    assert {r[1] for r in widest} == {"two_phase"}


def test_the_front_tells_two_phases_and_ring_apart(both):
    rows = both.summary()
    rows = shown_schemes.front(rows[rows["trace"] == "gpt"], "ring")
    chart = front_chart(rows)
    symbols = {
        (kind_of(row.topology), p.symbol)
        for row in rows.itertuples()
        for p in chart.points
        if p.says.startswith(f"{row.scheme}, {reduction(row.topology)}\n")
    }
    assert symbols == {("two phases", "diamond"), ("rounded sums", "circle"), ("own", "square")}
    assert {name for name, _, _ in chart.legend} >= {"two phases", "ring", "scheme's own"}
    whole, ring = chart.lines
    assert not whole.dashed and ring.dashed
    sound = rows[rows["topology"].eq("ring") & rows["volume"].notna()]
    assert set(ring.points[::2]) <= set(zip(sound["volume"], sound["step_nmse"].clip(1e-7)))
    named = [p.label for p in chart.points if p.label]
    assert any(label.endswith(", two phases") for label in named)
    alone = front_chart(rows[rows["topology"] == "ring"])
    assert {p.symbol for p in alone.points} == {"square", "circle"}  # of the families
    assert len(alone.lines) == 1 and not any("ring" in p.label for p in alone.points)


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
        assert command[:5] == ["apscope", "recommend", "RESULTS", "--max-volume", "0.28"]
        plan = apscope.recommend(results, max_volume=0.28, trace=trace)
        assert plan.verdict().replace("'", "&#39;")[:100] in part
        shown = re.findall(
            r'<td class="text"><span class="dot" style="[^"]*" aria-hidden="true"></span><span class="spec" '
            r'title="(.*?)">',
            part,
        )
        assert shown == list(plan.layers["scheme"][:80])


def test_results_of_which_no_plan_can_be_made_say_why(results):
    frame = results.frame[
        (results.frame["trace"] == "digits") & (results.frame["scheme"] == "none:fp32")
    ].reset_index(drop=True)
    text = page(altered(results, frame))
    assert "at all of fp32&#39;s bytes" in text or (
        "at all of fp32's bytes" in text and "What to use, layer by layer" in text
    )


# ---- In a browser -----------------------------------------------------------------------------


@pytest.fixture
def opened(browser, text, tmp_path):
    browser.resize(1400, 1000)
    browser.show(text, tmp_path)
    return browser


def test_five_traces_are_one_screen_and_two_of_a_phone(opened):
    bottom = (
        "document.querySelector('article.first:last-of-type').getBoundingClientRect().bottom "
        "+ scrollY"
    )
    assert opened.run(bottom) <= 1000
    assert opened.run("document.querySelectorAll('article.first svg.chart').length") == 15
    opened.resize(420, 900)
    assert opened.run(bottom) <= 1800 and opened.run("document.documentElement.scrollWidth") <= 420


def test_with_both_reductions_five_traces_are_one_screen(browser, page_of_both, tmp_path):
    browser.show(page_of_both, tmp_path)
    browser.resize(1400, 1000)
    bottom = "document.querySelector('article.first:last-of-type').getBoundingClientRect().bottom"
    assert browser.run(f"{bottom} + scrollY") <= 1000
    browser.resize(420, 900)
    assert browser.run("document.documentElement.scrollWidth") <= 420
    # The page's own rows rank across reductions as well.
    found = browser.run("apscopePage.view().records.map((r) => [r.scheme, r.topology])")
    assert ["aps:e3m4,rule=tight", "ring"] in found
    assert ["aps:e3m4,rule=tight", "two_phase"] in found and [
        "qsgd:levels=127",
        "gather",
    ] in found
    assert not [t for _, t in found if t == "exact"]
    browser.run("apscopePage.state.topology = 'exact'; apscopePage.update()")
    alone = browser.run("apscopePage.view().records.map((r) => r.topology)")
    assert set(alone) == {"exact"} and len(alone) == len(BOTH)
    assert browser.messages == []


def test_the_charts_are_alive(opened):
    assert opened.messages == []
    place = "[...document.querySelectorAll('.chart.cells')[2].querySelectorAll('g[data-layer]')].map((g) => g.getBoundingClientRect().y)"
    worst = opened.run(place)
    assert worst == sorted(worst)
    opened.run("document.getElementById('layer-order').click()")
    names = opened.run(
        "[...document.querySelectorAll('.chart.cells')[2].querySelectorAll('g[data-layer]')].sort((a, b) => a.getBoundingClientRect().y - b.getBoundingClientRect().y).map((g) => g.dataset.layer)"
    )
    assert names == opened.run("apscopePage.traces.get('characters').layers")
    opened.run("document.getElementById('layer-order').click()")
    assert opened.run(place) == worst
    # A row of the map opens its layer below, a mark of the front its row in a table.
    opened.run(
        "document.querySelectorAll('.chart.cells')[2].querySelector('g[data-layer]').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    state = opened.run(
        "[apscopePage.state.trace, apscopePage.state.a, apscopePage.state.picked.layer]"
    )
    told = "document.querySelectorAll('.verdict .chosen')[2].title"
    assert state[1] == opened.run(told) and state[1] in opened.run(
        "[...apscopePage.view().schemes.keys()]"
    )
    assert state[0] == "characters" and state[2] == opened.run(
        "document.querySelectorAll('.chart.cells')[2].querySelector('g[data-layer]').dataset.layer"
    )
    link = opened.run("document.querySelector('.chart a').getAttribute('href')")
    opened.run(f"location.hash = {link!r}")
    opened.wait(f"document.querySelector({link!r}).closest('details').open")


def test_a_name_is_copied_as_its_spec(opened):
    copied = opened.run(
        "(() => { const spec = document.querySelector('#use .spec[title]'); "
        "getSelection().selectAllChildren(spec); const data = new DataTransfer(); "
        "spec.dispatchEvent(new ClipboardEvent('copy', {clipboardData: data, bubbles: true, "
        "cancelable: true})); return [spec.textContent, spec.title, data.getData('text/plain')]; "
        "})()"
    )
    assert copied[2] == copied[1] and copied[0] != copied[1]
