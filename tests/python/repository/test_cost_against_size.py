"""The scripts that measure replays and write docs/performance.md, at tiny sizes."""

import json
import re
import runpy
import shutil
import sys

import pytest

from tests.python.argv import argv


def run_module(name):
    """A fresh copy: another script may have imported it."""
    sys.modules.pop(name, None)
    return runpy.run_module(name)


@pytest.fixture
def docs(request, tmp_path, monkeypatch):
    docs = request.config.rootpath / "docs"
    monkeypatch.syspath_prepend(str(docs))
    shutil.copy(docs / "performance.md", tmp_path)
    return docs


def test_cost_against_size_measures_draws_and_writes(docs, tmp_path, capsys):
    script = run_module("tests.benchmarks.cost_against_size")
    before = (tmp_path / "performance.md").read_text()
    small = """
        --largest 10000 --schemes 2 --workers 4 --values 8000 --elements 100 --seconds 0.01
        --tensor 262144
    """.split()
    script["main"]([str(tmp_path), *small])
    found = json.loads((tmp_path / "cost_against_size.json").read_text())
    assert [p["values"] for p in found["points"]["elements"]] == [1000, 10000]
    assert [p["schemes"] for p in found["points"]["schemes"]] == [1, 2]
    assert [p["workers"] for p in found["points"]["workers"]] == [2, 4]
    assert all(
        p["seconds"] > 0 and p["memory"] >= 0 for rows in found["points"].values() for p in rows
    )
    held = {h["scheme"]: h["bytes"] for h in found["memory"]}
    # Block by block, and copies of the whole tensor.
    assert max(held["aps:e4m3"], held["sign"]) < held["powersgd"]
    assert (tmp_path / "cost_against_size.png").read_bytes().startswith(b"\x89PNG")
    after = (tmp_path / "performance.md").read_text()
    begin, end = script["BEGIN"], script["END"]
    assert before[: before.index(begin)] == after[: after.index(begin)]
    assert before[before.index(end) :] == after[after.index(end) :]
    assert "| schemes | 1 | 2 |" in after


def test_a_peak_read_lower_than_before_is_no_memory(docs, tmp_path, monkeypatch):
    """Linux's count of resident pages is true to some batches of them, so that its peak can be read
    lower later."""
    script = run_module("tests.benchmarks.cost_against_size")
    readings = iter([9_000_000, 8_900_000])
    monkeypatch.setitem(
        script["measure"].__globals__, "largest_resident_set", lambda: next(readings)
    )
    script["write_trace"](tmp_path / "t", 1, 2, 10)
    assert script["measure"](tmp_path / "t", ["aps:e4m3"], 0.0)["memory"] == 0


@pytest.mark.parametrize(
    "name", ["tests.benchmarks.performance", "docs.picture", "docs.report_picture", "docs.tables"]
)
def test_help_does_no_work(docs, name, capsys):
    if name == "docs.report_picture":
        pytest.importorskip("PIL")
    with pytest.raises(SystemExit) as ended:
        run_module(name)["main"](["--help"])
    assert ended.value.code == 0 and "usage:" in capsys.readouterr().out


def test_the_table_of_the_bench_is_written(docs, tmp_path):
    script = run_module("tests.benchmarks.performance")
    script["main"]([str(tmp_path / "performance.md"), "--rounds", "1", "--elements", "4096"])
    table = (
        (tmp_path / "performance.md").read_text().split(script["BEGIN"])[1].split(script["END"])[0]
    )
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.splitlines()
        if line.startswith("| ")
    ][1:]
    assert ["memcpy", "L2", "1"] in [row[:3] for row in rows] and len(rows) > 100
    assert all(float(row[3]) >= 0 for row in rows)


def test_its_traces_are_what_they_say(docs, tmp_path):
    script = run_module("tests.benchmarks.cost_against_size")
    script["write_trace"](tmp_path / "t", 3, 2, 10)
    import apscope

    trace = apscope.open_trace(tmp_path / "t")
    assert (len(trace.steps), trace.workers, trace.shapes) == (3, 2, {"g": (10,)})
    for path, size, digest in trace.files():
        assert path.stat().st_size == size
    trace.check()
    assert len(set(script["FORMATS"])) == 32


def test_replay_cost_measures_and_writes(docs, tmp_path, request):
    script = run_module("tests.benchmarks.replay_cost")
    trace = str(request.config.rootpath / "notebooks/data/digits_w64")
    script["main"](
        argv(
            "{} --runs 1 --traces {} --elements 1000 --schemes aps:e4m3 sign",
            tmp_path / "performance.md",
            trace,
        )
    )
    text = (tmp_path / "performance.md").read_text()
    written = text[text.index(script["BEGIN"]) : text.index(script["END"])]
    assert (
        "2 schemes, 5 topologies, 731904 values" in written
        and "one tensor of 1000 elements" in written
    )
    assert (
        "| `aps:e4m3" in written
        and "| `sign" in written
        and "Two threads are " in written
        and "Two processes at once" in written
    )


def test_perf_reports_are_read(docs):
    script = run_module("tests.benchmarks.replay_cost")
    report = "\n    55.61%  _core.so     \n     7.60%  [kernel.kallsyms]\n"
    assert script["parse_shares"](report) == [("_core.so", 55.61), ("[kernel.kallsyms]", 7.6)]
    assert script["parse_shares"]("    28.82%  [.] apscope::fill   \n") == [
        ("apscope::fill", 28.82)
    ]


def test_startup_measures_and_writes(docs, tmp_path):
    script = run_module("tests.benchmarks.startup")
    script["main"]([str(tmp_path / "performance.md"), "--rounds", "1"])
    table = (
        (tmp_path / "performance.md").read_text().split(script["BEGIN"])[1].split(script["END"])[0]
    )
    rows = {
        line.split("|")[1].strip(" `"): [float(cell) for cell in line.split("|")[2:5]]
        for line in table.splitlines()
        if line.startswith("| `")
    }
    assert len(rows) == 7 and any(name.startswith("apscope replay") for name in rows)
    assert (
        all(wall == shortest for wall, shortest, _ in rows.values())
        and rows["import apscope"][1] > 0
    )  # of one round


def test_check_cost_measures_and_writes(docs, tmp_path):
    script = run_module("tests.benchmarks.check_cost")
    script["main"]([str(tmp_path / "performance.md"), "--rounds", "1", "--elements", "1000"])
    table = (
        (tmp_path / "performance.md").read_text().split(script["BEGIN"])[1].split(script["END"])[0]
    )
    assert "0.2 MB of gradients, 5 steps of 8 workers" in table
    assert (
        "| with the check |" in table and "| `--no-check` |" in table and "The check takes" in table
    )


def test_scheme_cost_measures_draws_and_writes(docs, tmp_path):
    script = run_module("tests.benchmarks.scheme_cost")
    script["main"](
        argv("{} --elements 1000 100000 --schemes sign powersgd --seconds 0.01", tmp_path)
    )
    found = json.loads((tmp_path / "scheme_cost.json").read_text())["elements"]
    assert list(found) == ["1000", "100000"] and all(
        list(costs) == ["sign", "powersgd"] for costs in found.values()
    )
    assert all(cost["ns"] > 0 for costs in found.values() for cost in costs.values())
    # Block by block, and copies of the whole tensor.
    assert found["100000"]["sign"]["bytes"] < found["100000"]["powersgd"]["bytes"]
    assert (tmp_path / "scheme_cost.png").read_bytes().startswith(b"\x89PNG")
    table = (
        (tmp_path / "performance.md").read_text().split(script["BEGIN"])[1].split(script["END"])[0]
    )
    assert (
        "| scheme | ns at 1e+03 | ns at 1e+05 | bytes at 1e+05 |\n|---|---|---|---|\n| `sign` |"
        in table
    )


def test_a_scheme_too_large_for_the_memory_is_left_out(docs, tmp_path):
    script = run_module("tests.benchmarks.scheme_cost")
    assert (
        script["costs"](
            tmp_path, ["sign"], 10**12, 10**12, {"sign": {"ns": 1.0, "bytes": 24.0}}, 1.0
        )
        == {}
    )
    found = {
        1000: {"sign": {"ns": 5.0, "bytes": 4.0}, "top_k": {"ns": 50.0, "bytes": 20.0}},
        10**6: {"sign": {"ns": 3.0, "bytes": 4.0}},
    }
    lines = script["lines_of"](found, 4, "a machine", 0.0)
    assert (
        "| `top_k` | 50.0 | too large | too large |" in lines
        and lines[-1] == "Above 40 ns a value at 1e+06 elements: none."
    )


def test_model_cost_measures_and_writes(docs, tmp_path):
    script = run_module("tests.benchmarks.model_cost")
    trace = docs.parent / "notebooks" / "data" / "digits"
    script["main"](
        argv("{} {} --schemes sign aps:e4m3 --memory 200M", tmp_path / "performance.md", trace)
    )
    table = (
        (tmp_path / "performance.md").read_text().split(script["BEGIN"])[1].split(script["END"])[0]
    )
    assert (
        "digits: 1906 parameters, 8 workers, 52 steps, 792896 values" in table
        and "| 2 schemes, four topologies | budget |" in table
    )
    assert (
        "| 1 thread | `--memory 200M` |" in table
        and "| 1 thread | half of the machine, the default |" in table
        and "| `sign` |" in table
        and "| `aps:e4m3` |" in table
    )
    with pytest.raises(SystemExit):
        script["main"]([str(tmp_path / "performance.md")])


@pytest.mark.filterwarnings("ignore")  # of Dask's own
def test_cluster_cost_measures_and_writes(docs, tmp_path):
    for module in ("distributed", "fsspec"):
        pytest.importorskip(module)
    script = run_module("tests.benchmarks.cluster_cost")
    script["main"](
        argv(
            "{} --rounds 1 --steps 3 --elements 10000 --schemes sign aps:e4m3",
            tmp_path / "performance.md",
        )
    )
    table = (
        (tmp_path / "performance.md").read_text().split(script["BEGIN"])[1].split(script["END"])[0]
    )
    assert (
        "1.0 MB of gradients, 3 steps of 8 workers; 2 schemes, four topologies" in table
        and "All gave the same rows." in table
    )
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.splitlines()
        if line.startswith("|")
    ][2:]
    by_dask = f", {script['A_TASK_A_STEP']}"
    assert [row[:2] for row in rows] == [["here", "folder"]] + [
        [name + own, by]
        for name in ("1 Dask worker", "2 Dask workers")
        for own, by in (("", "folder"), ("", "URL"), (by_dask, "folder"))
    ]
    # A trace by URL: one Dask worker fetches all three steps, of two workers the fuller one two of
    # the three.
    assert [float(row[-1]) for row in rows] == [0.0, 0.0, 1.0, 0.0, 0.0, 0.6, 0.0]


def test_recording_cost_measures_and_writes(docs, tmp_path):
    for module in ("torch", "sklearn"):
        pytest.importorskip(module)
    script = run_module("tests.benchmarks.recording_cost")
    script["main"](
        argv("{} --pairs 1 --steps 1 --batch 2 --threads 1", tmp_path / "performance.md")
    )
    text = (tmp_path / "performance.md").read_text()
    assert "44.7 MB of gradients a recorded step, batches of 2 images; 1 pairs of 1 steps" in text
    assert (
        re.search(r"^\| processor time \| [\d.]+ \| [\d.]+ \| -?[\d.]+ % \|", text, re.MULTILINE)
        and "says the recorder" in text
    )
