"""README.md's picture, and the tables of docs/scales.md and docs/schemes.md, are those that their
commands write."""

import dataclasses
import re
from xml.etree import ElementTree

import pytest

import apscope
from apscope import _core
from apscope._results.ranking import RANKS
from docs.tools import page, picture, tables, what_holds
from docs.tools.page import DOCS, ROOT
from tests.python.browser import CHROMIUM


@pytest.fixture(scope="module")
def replayed():
    return tables.replay()


def test_the_table_of_scales_is_of_its_schemes():
    rows = page.read(DOCS / "scales.md", "answer")
    specs = [re.findall(r"^\| `([^`]+)`", row)[0] for row in rows[2:]]
    assert (
        specs[:3] == ["none:fp32", "none:fp16", "none:bf16"]
        and specs[-1] == "stochastic:e3m4"
        and len(specs) == 24
    )


def test_a_best_constant_that_clips_no_gradient_is_not_said_to_clip(replayed):
    best = tables.WORDS.index("best constant, which may clip")
    for name in tables.FORMATS:
        spec = apscope.schemes.as_scheme(tables.SCHEMES[best].format(name)).spec
        rows = replayed.frame.query("trace == 'digits' and scheme == @spec and stage == 'wire'")
        rows = rows[rows["topology"] == "ring"]
        assert len(rows) and (rows["saturated"] == 0).all(), spec


def test_every_numeric_column_is_defined_and_in_the_tables_order():
    """analysis/statistics/result_columns.h is the only list: pages and types follow from it."""
    text = (ROOT / "docs/definitions.md").read_text()
    rows = re.findall(r"^\| (`[a-z0-9_`, ]+) \| ", text.split("<!-- columns")[0], re.MULTILINE)
    defined = {name for row in rows for name in re.findall(r"`([a-z0-9_]+)`", row)}
    names = [name for name, *_ in _core.COLUMNS]
    assert set(names) <= defined
    sections = set(re.findall(r"^## (\d+)\.", text, re.MULTILINE))
    assert {str(section) for _, _, section, _ in _core.COLUMNS} <= sections
    kept = [f.name for f in dataclasses.fields(apscope.types.CastStatistics)]
    assert kept == [name for name in names[: names.index("split_underflow")] if name in kept]
    assert set(names[: names.index("split_underflow")]) - set(kept) == {
        "expected_bias_error",
        "expected_variance_error",
        "gain",
        "sum_product",
    }


def test_what_the_page_says_of_scales(replayed):
    """Two rows that it sets beside each other differ in what it says, and every figure is on its
    side of the thresholds of the noise."""
    from apscope._results.differences import differences

    def aspects(a, b):
        return [name for name, *_ in differences(a, b)]

    assert aspects("aps:e3m4", "aps:e3m4,rounding=stochastic") == ["rounding"] and aspects(
        "aps:e3m4", "aps:e3m4,rule=tight"
    ) == ["rule"]
    assert aspects("aps:e3m4,rounding=stochastic", "stochastic:e3m4") == ["headroom", "sums"]
    constant, step, layer, best = (scheme.format("e3m4") for scheme in tables.SCHEMES[:4])
    assert aspects(constant, step) == aspects(step, layer) == ["scale"]
    assert aspects(best, constant) == ["rule", "scale", "overflow"]
    ladder = tables.ladder_of(replayed)
    error, noise = (ladder[figure].unstack() for figure in (RANKS, "error_over_noise"))
    wide = error.drop("e3m4", level="format")
    assert (wide["largest constant"] / wide["layer"]).max() < 1.1
    error, noise = (table.xs("e3m4", level="format") for table in (error, noise))
    small = noise[list(tables.RUNGS)].loc[["digits", "characters"]]
    assert (small < 0.1).all(axis=None)
    assert (noise.loc[["digits_w64", "resnet18", "gpt"], "largest constant"] > 0.1).all()
    # The best constant is not worse than the largest that never saturates.
    assert (error[tables.CLIPPING] <= error[tables.RUNGS[0]] * (1 + 1e-9)).all()
    won = error[tables.CLIPPING] < error["layer"]
    said = f"less than with APS on {tables.names([t for t in tables.TRACES if won[t]])}."
    assert won.any() and tables.clipping(ladder).endswith(said)
    table = tables.chosen(replayed).set_index("scheme")
    assert not table[["skipped", "overflowed"]].any(axis=None)
    assert table.loc[layer, "volume"] == pytest.approx(0.25, abs=0.001) and table.loc[
        "stochastic:e3m4", "volume"
    ] == pytest.approx(1, abs=0.001)
    assert table.loc[layer, "speedup"] < table.loc[constant, "speedup"]


def test_every_scheme_has_a_spec_that_runs():
    rows = page.read(DOCS / "schemes.md", "schemes")
    specs = {d.name: spec for d, spec in tables.examples().items()}
    assert (
        list(specs)
        == [d.name for d in apscope.schemes.definitions()]
        == [re.findall(r"\(#(\w+)\)", row)[0] for row in rows[2:]]
    )
    assert all(
        apscope.schemes.Scheme(spec).name == name and (":" in spec or "(" in spec)
        for name, spec in specs.items()
    )
    found = apscope.replay(
        tables.TRACE, list(specs.values()), steps="0:2", tensors="head", topology="ring"
    )
    assert found.summary()["scheme"].nunique() == len(specs)


def test_the_tags_of_claims_are_names_of_tests():
    """The claim MX1 of docs/schemes.md is found by pytest -k MX1."""
    text = (DOCS / "schemes.md").read_text()
    tags = {
        tag
        for line in re.findall(r"^- ([A-Z]{1,3}\d(?:, [A-Z]{1,3}\d)*): ", text, re.MULTILINE)
        for tag in line.split(", ")
    }
    names = {
        tag
        for path in (ROOT / "tests/python/claims").glob("*.py")
        for tag in re.findall(r"def test_([A-Z]{1,3}\d)_", path.read_text())
    }
    assert len(tags) > 50 and tags <= names
    tests = set(re.findall(r"`(tests/[\w/.]+)`", text))
    assert len(tests) > 15 and all((ROOT / path).is_file() for path in tests)


def test_the_table_of_all_schemes_is_of_the_list():
    """Its numbers are not compared: that takes a replay of every scheme."""
    header, _, *rows = page.read(DOCS / "schemes.md", "all schemes")
    assert [cell.strip() for cell in header.strip("|").split("|")] == [
        "scheme",
        *tables.COLUMNS.values(),
    ]
    listed = [re.findall(r"^\| `([^`]+)`", row)[0] for row in rows]
    assert len(set(listed)) == len(listed) >= 50 and set(listed) <= {
        s.spec for s in apscope.schemes.all_schemes()
    }
    assert {row.count("|") for row in rows} == {len(tables.COLUMNS) + 2}


def test_a_table_is_best_first_and_tells_what_was_skipped():
    specs = [
        "none:e4m3",
        "dynamic_loss_scaling:e4m3,init=65536",
        "stochastic:e4m3",
        "loss_scaling:e4m3,scale=1e9",
        "none:fp32",
    ]
    rows = tables.rows_of(apscope.replay(tables.TRACE, specs, steps="0:3", topology=["ring"]))
    lines = tables.markdown(rows)
    assert len(lines) == 2 + len(specs)
    assert lines[2].startswith("| `none:fp32` |") and lines[2].rstrip(" |").endswith("1.00 | 1.00")
    assert "`dynamic_loss_scaling:e4m3,init=65536` (3 steps skipped, loses 6 layers)" in lines[-2]
    assert "`loss_scaling:e4m3,scale=1e9` (3 steps overflowed, loses 6 layers)" in lines[
        -1
    ].replace("1000000000", "1e9")
    assert all(line.count("|") == lines[0].count("|") for line in lines)


def test_the_picture_shows_what_each_choice_is_worth(tmp_path):
    specs = [
        f"aps:{f},rule=tight{u}" for f in ("e3m4", "e2m5finite", "e4m3fn") for u in ("", ",unit=32")
    ]
    results = apscope.replay(
        [ROOT / "notebooks/data" / name for name in picture.TRACES],
        specs,
        steps="10:21",
        topology=["ring", "two_phase"],
    )
    results.save(tmp_path / "results")
    picture.main([str(tmp_path / "results"), str(tmp_path / "picture.svg")])
    root = ElementTree.parse(tmp_path / "picture.svg").getroot()
    texts = [e.text for e in root.iter() if e.tag.endswith("text")]
    error = results.summary().set_index(["trace", "scheme", "topology"])[RANKS]
    for name in picture.TRACES:
        bars = picture.bars_of(results, name)
        best = min((v, k) for k, v in error[name].items() if k[1] == "two_phase")
        ((_, held),) = bars.groups
        assert held[0].name == "ring, room for W, not two phases"
        assert held[0].factor == pytest.approx(error[name, best[1][0], "ring"] / best[0])
        assert {b.name for b in held} <= set(texts)
    # Whole at 400 pixels: no line of words is wider than the picture, in a wide font.
    width = float(root.get("viewBox").split()[2])
    assert all(6.0 * len(line) < width - 10 for line in picture.WORDS)
    assert set(picture.WORDS) < set(texts)
    assert "prefers-color-scheme: dark" in (tmp_path / "picture.svg").read_text()


def test_the_picture_of_the_readme_is_todays():
    drawn = ElementTree.parse(ROOT / "docs/picture.svg").getroot()
    texts = {e.text for e in drawn.iter() if e.tag.endswith("text")}
    assert set(picture.WORDS) < texts and picture.HEAD in texts


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: chromium)")
def test_the_pictures_of_the_report_are_todays(tmp_path):
    """Not to the pixel: other versions of the browser draw letters differently."""
    pytest.importorskip("PIL")
    from PIL import Image, ImageChops, ImageStat

    from docs.tools import report_picture

    def apart(one, other):
        small = [
            each.convert("L").resize((each.width // 4, each.height // 4)) for each in (one, other)
        ]
        return ImageStat.Stat(ImageChops.difference(*small)).mean[0]

    traces = ["digits", "digits_w64", "characters", "resnet18", "gpt"]
    results = apscope.replay(
        [ROOT / "notebooks/data" / name for name in traces], "main", limit=True
    )
    results.provenance["command"] = " ".join(
        ["apscope replay", *(f"notebooks/data/{name}" for name in traces)]
    )
    made = apscope.report(results, tmp_path / "report.html")
    browser = report_picture.Browser()
    try:
        now = {
            width: report_picture.drawn(browser, made.as_uri(), width)
            for width in report_picture.SIZES
        }
    finally:
        browser.close()
    stored = {
        width: Image.open(ROOT / f"docs/report_{width}.png") for width in report_picture.SIZES
    }
    for width, drawn in now.items():
        assert drawn.size == stored[width].size
        assert apart(drawn, stored[width].convert("RGB")) < 2, "run make picture"
        # What another page would be apart.
        assert apart(drawn, ImageChops.offset(drawn, 0, 100)) > 6


def test_promises_name_their_tests_and_count_their_cases():
    pytest.importorskip("torch", reason="the cases that need torch are not collected without")
    text = what_holds.PAGE.read_text(encoding="utf-8")
    assert len(what_holds.ROW.findall(text)) > 20
    assert what_holds.page(text) == text, "run python -m docs.tools.what_holds"
