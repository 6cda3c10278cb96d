"""The record of `make exhaustive`: resumed, renewed when sources change, split without gaps, rendered."""

import json
import re
from pathlib import Path

import pytest

from apscope import FloatFormat, _core
from apscope.machine import Verification
from tests.exhaustive import jobs, page
from tests.exhaustive.record import ROOT, Record, digest_of_sources, sources_of

RECORDED = ROOT / "tests" / "exhaustive" / "recorded.json"


@pytest.mark.parametrize("part", page.PARTS)
def test_the_digest_covers_whatever_its_sources_include(part):
    covered = {path for pattern in sources_of(part) for path in ROOT.glob(pattern)}
    for path in covered:
        for header in re.findall(r'#include "([^"]+)"', path.read_text()):
            # A header with the sources that belong to it.
            left_out = set(ROOT.glob(str(Path(header).with_suffix(".*")))) - covered
            assert not left_out, f"{path.relative_to(ROOT)} includes {header}"


def job(name: str, runs: list, mismatches: int = 0) -> jobs.Job:
    def run() -> list[Verification]:
        runs.append(name)
        return [Verification("e4m3", "quantize", "to_odd", 7, mismatches, True, "mpfr", 0.5, "input ..." if mismatches else None)]

    return jobs.Job("rule", name, run)


def test_what_was_done_is_not_done_again_until_the_sources_change(tmp_path):
    runs: list[str] = []
    file = tmp_path / "record.json"
    assert Record(file).run([job("a", runs), job("b", runs)]) == 0
    assert Record(file).run([job("a", runs), job("b", runs), job("c", runs)]) == 0
    assert runs == ["a", "b", "c"]
    changed = json.loads(file.read_text())
    changed["jobs"]["rule: b"]["sources"] = "other"
    file.write_text(json.dumps(changed))
    assert Record(file).run([job("a", runs), job("b", runs)]) == 0
    assert runs == ["a", "b", "c", "b"]


def test_every_instruction_set_has_a_row_of_its_own(tmp_path, monkeypatch):
    runs: list[str] = []
    file, text = tmp_path / "record.json", tmp_path / "page.md"
    for simd in ("avx512", "sse4", "avx512", "sse4"):
        monkeypatch.setattr(_core, "simd_level", lambda simd=simd: simd)
        assert Record(file).run([job("e4m3", runs)], once=True) == 0
    assert runs == ["e4m3", "e4m3"]
    rows = json.loads(file.read_text())["jobs"]
    assert {key: row["simd"] for key, row in rows.items()} == {"rule: e4m3": "avx512", "rule: e4m3 on sse4": "sse4"}
    text.write_text(f"{page.BEGIN}\n{page.END}\n")
    page.write(file, text)
    (row,) = [line for line in text.read_text().splitlines() if line.startswith(f"| {page.PARTS['rule']}")]
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[2:5] == ["1 of 192", "1", "14"] and cells[8] == "avx512: 1, sse4: 1"


def test_the_committed_record_is_read_and_its_rows_stay_done():
    record = Record(RECORDED)
    assert len(record.jobs) > 1000
    assert all(row["simd"] in ("portable", "sse4", "avx2", "avx512") for row in record.jobs.values())


def test_a_mismatch_is_counted_and_kept(tmp_path):
    file = tmp_path / "record.json"
    assert Record(file).run([job("a", [], 2), job("b", [])]) == 1
    assert json.loads(file.read_text())["jobs"]["rule: a"]["first"] == "input ..."
    assert Record(file).run([job("a", [])]) == 1  # done, and still wrong


def test_the_page_has_a_row_for_every_part(tmp_path):
    file, text = tmp_path / "record.json", tmp_path / "page.md"
    Record(file).run([job("e4m3", []), job("e5m2", [])])
    text.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    page.write(file, text)
    lines = text.read_text().splitlines()
    (row,) = [line for line in lines if line.startswith(f"| {page.PARTS['rule']}")]
    assert [cell.strip() for cell in row.split("|")[2:6]] == ["2 of 192", "2", "14", "0"]
    assert lines[0] == "before" and lines[-1] == "after" and "old" not in lines
    text.write_text("no marks")
    with pytest.raises(ValueError, match="0 places"):
        page.write(file, text)


def test_jobs_have_names_of_their_own_and_parts_on_the_page():
    everything = jobs.main_jobs() + jobs.p3109_jobs(0, 1)
    assert len({j.key for j in everything}) == len(everything) > 3000
    assert {j.part for j in everything} == set(page.PARTS)


def test_shards_leave_nothing_out():
    whole = {j.key for j in jobs.p3109_jobs(0, 1)}
    parts = [{j.key for j in jobs.p3109_jobs(i, 5)} for i in range(5)]
    assert set().union(*parts) == whole and sum(map(len, parts)) == len(whole)
    assert {FloatFormat(name).storage_bits for name in jobs.p3109_formats()} == set(range(3, 17))


def test_every_width_that_fp32_holds_is_among_the_rule_s_formats():
    widths = {(f.exponent_bits, f.mantissa_bits) for f in map(FloatFormat, jobs.rule_formats())}
    assert widths == {(e, m) for e in range(1, 9) for m in range(24)}
    assert not any(FloatFormat(name).fits_fp32 for name in jobs.fp64_formats())


def test_the_table_has_more_than_forty_formats_and_none_twice():
    formats = [FloatFormat(name) for name in jobs.table_formats()]
    assert len(set(formats)) == len(formats) > 40 and all(f.storage_bits <= 16 and f.fits_fp32 for f in formats)


def test_stochastic_rounding_and_arithmetic_depend_on_more_sources_than_casts():
    parts = ("all inputs", "rule", "arithmetic")
    assert len({digest_of_sources(part) for part in parts}) == 3
    assert set(sources_of("all inputs")) == set(sources_of("rule")) & set(sources_of("arithmetic"))
