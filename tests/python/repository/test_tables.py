"""README.md's picture and table, and the table of docs/schemes.md, hold what their commands write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import apscope

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import tables

    return tables


@pytest.fixture
def picture(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import picture

    return picture


def between(tables, page: str, name: str) -> list[str]:
    text = (ROOT / page).read_text()
    begin, end = tables.MARKERS[name]
    return text[text.index(begin) + len(begin) : text.index(end)].strip().splitlines()


def test_the_answer_of_the_readme_is_what_its_command_writes(tables):
    results = apscope.replay(tables.TRACE, "main", topology="ring")
    rows = tables.markdown(tables.chosen(tables.rows_of(results)))
    assert between(tables, "README.md", "answer") == [tables.verdict(results), "", *rows], "run make tables"
    specs = [re.findall(r"^\| `([^`]+)`", row)[0] for row in rows[2:]]
    assert set(specs[:3]) == {"none:fp32", "none:bf16", "none:fp16"} and len(specs) == 12
    assert {apscope.schemes.as_scheme(spec).family for spec in specs[3:]} == set(tables.FAMILIES)


def test_the_table_of_all_schemes_is_of_the_list(tables):
    """Its numbers are not compared: that takes a replay of every scheme."""
    header, _, *rows = between(tables, "docs/schemes.md", "all schemes")
    assert [cell.strip() for cell in header.strip("|").split("|")] == ["scheme", *tables.COLUMNS.values()]
    listed = [re.findall(r"^\| `([^`]+)`", row)[0] for row in rows]
    assert len(set(listed)) == len(listed) >= 50 and set(listed) <= {s.spec for s in apscope.schemes.all_schemes()}
    assert {row.count("|") for row in rows} == {len(tables.COLUMNS) + 2}


def test_a_table_is_best_first_and_tells_what_was_skipped(tables):
    specs = ["none:e4m3", "dynamic_loss_scaling:e4m3,init=65536", "stochastic:e4m3", "loss_scaling:e4m3,scale=1e9", "none:fp32"]
    rows = tables.rows_of(apscope.replay(tables.TRACE, specs, steps="0:3", topology=["ring"]))
    lines = tables.markdown(rows)
    assert len(lines) == 2 + len(specs)
    assert lines[2].startswith("| `none:fp32` |") and lines[2].rstrip(" |").endswith("1.00 | 1.00")
    assert any("`dynamic_loss_scaling:e4m3,init=65536` (3 steps skipped)" in line for line in lines)
    assert "`loss_scaling:e4m3,scale=1e9` (3 steps overflowed)" in lines[-1].replace("1000000000", "1e9")
    assert all(line.count("|") == lines[0].count("|") for line in lines)


def test_the_picture_shows_what_stands_below_it(picture, tmp_path, monkeypatch):
    results = picture.replay()
    table = picture.ratios(results).set_index(["trace", "format"])
    assert len(table) == 12 and table.notna().all(axis=None)
    for trace in picture.TRACES:
        for name in ("e5m2", "e4m3"):  # level, pooled as well as by layer
            assert table.loc[(trace, name), "pooled"] == pytest.approx(1, abs=0.01) and 0.5 < table.loc[(trace, name), "typical"] < 1.01
        assert 0.2 < table.loc[(trace, "e3m4"), "typical"] < 0.3 and 0.7 < table.loc[(trace, "e3m4"), "pooled"]
    # With three exponent bits one scale sends whole layers as zeros.
    sent = results.frame.query("stage == 'wire' and nonzero > 0 and format == 'e3m4'")
    zeros = (sent["underflow"] == sent["nonzero"]).groupby([sent["trace"], sent["scheme"]]).sum()
    for trace in ("digits", "digits_w64"):
        assert zeros[trace, picture.LOSS_SCALING.format("e3m4")] > zeros[trace, picture.APS.format("e3m4")] == 0
    # The order of the additions costs more than the choice of the scale.
    errors = results.summary().query("trace == 'digits_w64'").set_index(["scheme", "topology"])["step_nmse"]
    aps, scaled = (errors[scheme.format("e4m3")] for scheme in (picture.APS, picture.LOSS_SCALING))
    assert aps["ring"] / aps["tree"] > 4 > max(scaled["exact"] / aps["exact"], scaled["tree"] / aps["tree"])
    monkeypatch.setattr(picture, "replay", lambda: results)
    picture.main([str(tmp_path / "picture.png")])
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
