"""The record of `make exhaustive`: resumed, renewed when the folders of a proof change, without
gaps; and its page, which says what was proved when."""

import dataclasses
import fcntl
import json
import operator
import os
import re
import subprocess

import pytest

pytest.importorskip(
    "apscope._oracle", reason="what a row rests on is what the oracle's module is asked for"
)

from apscope import FloatFormat, _core, _oracle
from apscope.machine import Verification
from docs.tools.page import DOCS, read
from tests.exhaustive import __main__ as command
from tests.exhaustive import jobs, page, proved, record
from tests.exhaustive.proved import ARITHMETIC, CASTS, PATHS, ROOT, Repository
from tests.exhaustive.record import Key, Record, Row, standings

COUNTS = operator.attrgetter("expected", "recorded", "standing", "behind", "missing", "wrong")
RENEW = "`python -m tests.exhaustive --minutes 0` writes the page"
try:
    NOW = Repository().head()
except (subprocess.CalledProcessError, FileNotFoundError):
    pytest.skip(
        "a record is of commits: this is not a clone that git reads", allow_module_level=True
    )


@dataclasses.dataclass(frozen=True)
class Counted(jobs.Job):
    """A job that proves nothing and says when it ran."""

    runs: list[str] = dataclasses.field(default_factory=list)
    mismatches: int = 0

    def run(self) -> list[Verification]:
        self.runs.append(f"{self.name} {_core.simd_level()}")
        return [
            Verification(
                "e4m3",
                "quantize",
                "to_odd",
                7,
                self.mismatches,
                True,
                "mpfr",
                0.5,
                "input ..." if self.mismatches else None,
            )
        ]


def job(
    name: str, runs: list[str] | None = None, mismatches: int = 0, part: str = "rule"
) -> jobs.Job:
    return Counted(part, name, "e4m3", {"samples": 1}, [] if runs is None else runs, mismatches)


BEST = _core.best_simd_level()


def on(*some: jobs.Job, simd: str = BEST) -> list[tuple[jobs.Job, str]]:
    return [(each, simd) for each in some]


def forget(path, name: str) -> None:
    """As if a row had been found at a commit that does not exist."""
    rows = record.read(path)
    rows |= {
        key: dataclasses.replace(row, commit="0" * 8)
        for key, row in rows.items()
        if key.name == name
    }
    record.write(path, rows)


def test_what_was_done_is_not_done_again_until_the_sources_change(tmp_path):
    runs: list[str] = []
    a, b, c = (job(name, runs) for name in "abc")
    file = tmp_path / "record.json"
    assert Record(file).run(on(a, b)) == 0
    assert Record(file).run(on(a, b, c)) == 0
    assert runs == [f"{name} {BEST}" for name in "abc"]
    forget(file, "b")
    assert Record(file).run(on(a, b)) == 0
    assert runs[3:] == [f"b {BEST}"]


@pytest.mark.skipif(BEST == "portable", reason="this machine has one set of instructions")
def test_every_instruction_set_has_a_row_of_its_own_and_the_one_in_use_comes_back(tmp_path):
    runs: list[str] = []
    file = tmp_path / "record.json"
    before = _core.simd_level()
    assert Record(file).run(on(job("e4m3", runs)) + on(job("e4m3", runs), simd="portable")) == 0
    assert runs == [f"e4m3 {BEST}", "e4m3 portable"] and _core.simd_level() == before
    assert set(record.read(file)) == {Key("rule", BEST, "e4m3"), Key("rule", "portable", "e4m3")}


def test_after_the_time_given_no_job_starts_and_the_next_run_goes_on(tmp_path, capsys):
    runs: list[str] = []
    file = tmp_path / "record.json"
    assert Record(file).run(on(job("a", runs), job("b", runs)), minutes=0) == 0
    assert runs == [] and "2 jobs are left" in capsys.readouterr().out
    assert Record(file).run(on(job("a", runs), job("b", runs)), minutes=1) == 0
    assert len(runs) == 2 and "left" not in capsys.readouterr().out


def test_a_run_that_is_stopped_keeps_what_it_found(tmp_path):
    class Stopped(Counted):
        def run(self):
            raise KeyboardInterrupt

    file = tmp_path / "record.json"
    with pytest.raises(KeyboardInterrupt):
        Record(file).run(on(job("a"), job("b"), Stopped("rule", "c", "e4m3")))
    assert {key.name for key in record.read(file)} == {"a", "b"}


def test_the_record_is_json_with_a_line_a_row_and_comes_back_as_it_was(tmp_path):
    rows = {
        Key("rule", "avx512", "e10m2"): Row(5, 0, 1.5, "abc", "2026-11-24", 2),
        Key("rule", "avx512", "e4m3"): Row(7, 1, 0.5, "def", "2026-11-24", 64, 'input "0x1"'),
        Key("arithmetic", "sse4", "e4m3 add"): Row(1, 0, 0.0, "abc", "2026-11-24", 2),
    }
    file = tmp_path / "record.json"
    record.write(file, rows)
    lines = file.read_text().splitlines()
    assert record.read(file) == rows and json.loads(file.read_text())["columns"] == [
        f.name for f in dataclasses.fields(Row)
    ]
    assert [line.strip(",") for line in lines if "abc" in line or "def" in line] == [
        '"e4m3 add": [1, 0, 0.0, "abc", "2026-11-24", 2]',
        '"e4m3": [7, 1, 0.5, "def", "2026-11-24", 64, "input \\"0x1\\""]',
        '"e10m2": [5, 0, 1.5, "abc", "2026-11-24", 2]',
    ]


def test_a_mismatch_is_counted_and_kept_and_does_not_stand(tmp_path):
    file = tmp_path / "record.json"
    asked = on(job("a", mismatches=2), job("b"))
    assert Record(file).run(asked) == 1
    assert record.read(file)["rule", BEST, "a"].first == "input ..."
    assert Record(file).run(asked[:1]) == 1  # done, and still wrong
    (found,) = standings(Record(file), asked)
    assert COUNTS(found) == (2, 2, 1, 0, 0, 1)


def test_what_is_behind_is_told_from_what_is_missing(tmp_path):
    file = tmp_path / "record.json"
    asked = on(job("a"), job("b"), job("c"))
    Record(file).run(asked[:2])
    forget(file, "b")
    (found,) = standings(Record(file), asked)
    assert COUNTS(found) == (3, 2, 1, 1, 1, 0)
    Record(file).run(asked)
    assert record.table(standings(Record(file), asked)).splitlines()[1].split()[:8] == [
        "rule",
        BEST,
        "3",
        "3",
        "3",
        "0",
        "0",
        "0",
    ]


def test_the_page_names_the_commits_and_their_days():
    one, other = (
        Row(1, 0, 0.0, commit, day, 2)
        for commit, day in (("abc", "2026-11-24"), ("def", "2026-12-01"))
    )
    assert page.proved_at([one, one], 2) == "`abc`, 2026-11-24"
    assert page.proved_at([other, one], 2) == "2 commits, 2026-11-24 to 2026-12-01"
    assert page.proved_at([one], 3) == "`abc`, 2026-11-24; 2 of 3 not run"
    assert page.proved_at([], 3) == "not run"


SECTION = "before\n<!-- exhaustive: written by it -->\nold\n<!-- end of exhaustive -->\nafter\n"


def test_the_page_is_what_the_record_says():
    assert read(DOCS / "conformance.md", "exhaustive") == page.render(Record()), RENEW


def test_the_page_is_written_between_its_marks(tmp_path):
    text, empty = tmp_path / "page.md", Record(tmp_path / "record.json")
    text.write_text(SECTION)
    page.write(empty, text)
    lines = text.read_text().splitlines()
    assert lines[0] == "before" and lines[-1] == "after" and "old" not in lines
    assert (
        read(text, "exhaustive") == page.render(empty)
        and "| avx512 | not run | 0 of 192 |" in text.read_text()
    )
    text.write_text("no marks")
    with pytest.raises(ValueError, match="0 sections"):
        page.write(empty, text)


def test_status_says_what_is_behind_and_exits_by_it(tmp_path, capsys):
    file = tmp_path / "record.json"
    words = ["--status", "--record", str(file), "--only", "^rule: e4m3$"]
    assert command.main(words) == 1
    assert re.search(r"^rule +avx512 +1 +0 +0 +0 +1 +0 ", capsys.readouterr().out, re.MULTILINE)
    record.write(
        file,
        {
            Key(job.part, simd, job.name): Row(1, 0, 3600, *NOW, 2)
            for job, simd in jobs.expected()
            if job.key == "rule: e4m3"
        },
    )
    assert command.main(words) == 0
    assert re.search(
        r"^rule +avx512 +1 +1 +1 +0 +0 +0 +0\.0$", capsys.readouterr().out, re.MULTILINE
    )
    forget(file, "e4m3")
    assert command.main(words) == 1
    assert re.search(r"^all +1 +1 +0 +1 +0 +0 +1\.0$", capsys.readouterr().out, re.MULTILINE)
    said = "--simd sse4 leaves no job"
    assert said in refused(tmp_path, capsys, "--status", "--simd", "sse4")


def test_a_run_proves_what_does_not_stand_and_writes_the_page(tmp_path, capsys):
    file, text = tmp_path / "record.json", tmp_path / "page.md"
    text.write_text(SECTION)
    words = ["--record", str(file), "--page", str(text), "--only", "^arithmetic: e4m3 (add|sqrt)$"]
    if (
        command.newer_than_the_module(ARITHMETIC) is not None
        or Repository().changed(ARITHMETIC)
        or BEST != "avx512"
    ):
        pytest.skip("needs committed sources, a module built after them, and AVX-512")
    commit, day = Repository().head()  # not NOW: somebody may commit while the tests run
    assert command.main(words) == 0
    rows = record.read(file)
    assert {key.name for key in rows} == {"e4m3 add", "e4m3 sqrt"} and all(
        row.cases > 256 and row.mismatches == 0 for row in rows.values()
    )
    assert (
        f"`{commit}`, {day}; 154 of 156 not run" in text.read_text()
        and "No mismatch" in capsys.readouterr().out
    )
    assert command.main([*words, "--status"]) == 0


def refused(tmp_path, capsys, *words: str) -> str:
    """What the command says where it does not run a job."""
    with pytest.raises(SystemExit) as ended:
        command.main([*words, "--record", str(tmp_path / "record.json"), "--only", "^rule: e4m3$"])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_two_runs_do_not_write_one_record(tmp_path, capsys):
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        assert "another run writes" in refused(tmp_path, capsys, "--minutes", "0")
    finally:
        os.close(folder)


def test_sources_newer_than_the_module_are_not_proved(tmp_path, capsys, monkeypatch):
    module = tmp_path / "_oracle.so"
    module.touch()
    os.utime(module, (0, 0))
    monkeypatch.setattr(_oracle, "__file__", str(module))
    monkeypatch.setattr(Repository, "changed", lambda self, paths: [])
    assert "is newer than _oracle.so; build it first" in refused(tmp_path, capsys)


def test_what_is_not_committed_is_not_proved(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        Repository, "changed", lambda self, paths: ["core/rounding.h"] if "core" in paths else []
    )
    said = "core/rounding.h is not as the last commit has it; a proof is of a commit: commit first"
    assert said in refused(tmp_path, capsys)


@pytest.fixture
def history(tmp_path):
    """A repository with every folder of a proof, and a function that changes a file and commits."""
    root = tmp_path / "repository"
    root.mkdir()

    def git(*words):
        settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(root), *settings, *words], check=True, capture_output=True)

    def commit(*names):
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            with (root / name).open("a") as file:
                file.write("more\n")
        git("add", "--all")
        git("commit", "--quiet", "-m", "more")
        return Repository(root).head()[0]

    git("init", "--quiet")
    commit(*(path if "." in path else f"{path}/a.h" for path in {*CASTS, *ARITHMETIC}))
    return root, commit


def test_a_proof_holds_until_a_folder_that_it_runs_through_changes(history):
    root, commit = history
    first = Repository(root).head()[0]
    commit(
        "docs/page.md",
        "emulation/schemes/sign.cpp",
        "bindings/module/module.cpp",
        "tests/test_a.py",
    )
    assert all(Repository(root).holds(first, paths) for paths in (CASTS, ARITHMETIC))
    second = commit("emulation/cast/a.h")
    assert (
        not Repository(root).holds(first, CASTS)
        and Repository(root).holds(first, ARITHMETIC)
        and Repository(root).holds(second, CASTS)
    )
    commit("core/oracle/b.cpp")
    assert not any(Repository(root).holds(second, paths) for paths in (CASTS, ARITHMETIC))
    (root / "core/oracle/b.cpp").unlink()
    commit()
    assert Repository(root).holds(second, CASTS), "as it was"
    assert not Repository(root).holds("0" * 8, CASTS), "of a commit that a shallow clone lacks"


def test_what_differs_from_the_last_commit_is_named(history):
    root, _ = history
    assert Repository(root).changed(CASTS) == []
    (root / "core/a.h").write_text("other\n")
    (root / "core/new.h").write_text("new\n")
    (root / "README.md").write_text("elsewhere\n")
    assert (
        Repository(root).changed(CASTS) == ["core/a.h", "core/new.h"]
        and Repository(root).changed(("emulation/cast",)) == []
    )


def test_every_path_of_a_proof_is_there_and_holds_what_is_linked():
    assert set(PATHS) == set(page.PARTS) and all(
        (ROOT / path).exists() for paths in PATHS.values() for path in paths
    )
    includes = re.compile(r'#include "((?:core|emulation)/[^"]+)"')
    for paths in (CASTS, ARITHMETIC):
        folders = tuple(path for path in paths if (ROOT / path).is_dir())
        files = [
            file
            for folder in folders
            for file in (ROOT / folder).rglob("*")
            if file.suffix in (".h", ".cpp")
        ]
        reached = {found for file in files for found in includes.findall(file.read_text())}
        # verify/'s code for the other kind of proof is not used.
        others = tuple(set(CASTS) ^ set(ARITHMETIC))
        assert {
            path
            for path in reached
            if not path.startswith(
                (*(f"{folder}/" for folder in folders), *(f"{other}/" for other in others))
            )
        } == set()


def test_jobs_have_names_of_their_own_and_parts_on_the_page():
    everything = list(jobs.jobs())
    assert len({j.key for j in everything}) == len(everything) > 3000
    assert {j.part for j in everything} == set(page.PARTS) == set(proved.PATHS)


def test_all_inputs_have_to_stand_on_every_instruction_set_and_the_rest_on_the_best():
    asked: dict[str, dict[str, set[str]]] = {}
    for job, simd in jobs.expected():
        asked.setdefault(job.part, {}).setdefault(simd, set()).add(job.name)
    assert (
        set(asked["all inputs"]) == set(jobs.INSTRUCTION_SETS)
        and len({frozenset(names) for names in asked["all inputs"].values()}) == 1
    )
    assert all(set(sets) == {"avx512"} for part, sets in asked.items() if part != "all inputs")


def test_the_committed_record_has_rows_of_what_is_expected_only():
    """Nothing would be known about a job that has gone."""
    assert set(Record().rows) <= {Key(job.part, simd, job.name) for job, simd in jobs.expected()}


def test_p3109_s_formats_are_all_there():
    names = jobs.p3109_formats()
    assert {FloatFormat(name).storage_bits for name in names} == set(range(3, 17)) and len(
        set(names)
    ) == len(names)
    proved = {job.format for job in jobs.jobs() if job.part.startswith("P3109")}
    assert proved == set(names)


def test_every_width_that_fp32_holds_is_among_the_rule_s_formats():
    widths = {(f.exponent_bits, f.mantissa_bits) for f in map(FloatFormat, jobs.rule_formats())}
    assert widths == {(e, m) for e in range(1, 9) for m in range(24)}
    assert not any(FloatFormat(name).fits_fp32 for name in jobs.fp64_formats())


def test_the_table_has_more_than_forty_formats_and_none_twice():
    formats = [FloatFormat(name) for name in jobs.table_formats()]
    assert len(set(formats)) == len(formats) > 40 and all(
        f.storage_bits <= 16 and f.fits_fp32 for f in formats
    )
