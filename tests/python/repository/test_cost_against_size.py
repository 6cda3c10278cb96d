"""The scripts that measure replays and write docs/performance.md, at tiny sizes."""

import importlib
import json
import shutil
from pathlib import Path

import pytest

import apscope
from docs.tools import cost_against_size, page, replay_cost, scheme_cost
from tests.python.argv import argv


@pytest.fixture
def performance(tmp_path):
    """A copy of the page that they write."""
    return Path(shutil.copy(page.DOCS / "performance.md", tmp_path))


def written(script, performance, section, line="", *places):
    """The section and the cells of its tables, after a run with these options."""
    before = performance.read_text()
    importlib.import_module(f"docs.tools.{script}").main(argv(f"{{}} {line}", performance, *places))
    after = performance.read_text()
    assert page.replaced(before, section, []) == page.replaced(after, section, []) != before
    return "\n".join(page.read(performance, section)), page.rows(performance, section)


def test_cost_against_size_measures_draws_and_writes(performance, tmp_path):
    before = performance.read_text()
    small = """
        --largest 10000 --schemes 2 --workers 4 --values 8000 --elements 100 --seconds 0.01
    """.split()
    cost_against_size.main([str(tmp_path), *small])
    found = json.loads((tmp_path / "cost_against_size.json").read_text())
    assert [p["values"] for p in found["points"]["elements"]] == [1000, 10000]
    assert [p["schemes"] for p in found["points"]["schemes"]] == [1, 2]
    assert [p["workers"] for p in found["points"]["workers"]] == [2, 4]
    assert all(
        p["seconds"] > 0 and p["memory"] >= 0 for rows in found["points"].values() for p in rows
    )
    assert (tmp_path / "cost_against_size.png").read_bytes().startswith(b"\x89PNG")
    after = performance.read_text()
    assert page.replaced(before, "cost", []) == page.replaced(after, "cost", [])
    assert "| schemes | 1 | 2 |" in after


def test_a_peak_read_lower_than_before_is_no_memory(tmp_path, monkeypatch):
    """Linux's count of resident pages is true to some batches of them, so that its peak can be read
    lower later."""
    readings = iter([9_000_000, 8_900_000])
    monkeypatch.setattr(cost_against_size, "largest_resident_set", lambda: next(readings))
    cost_against_size.write_trace(tmp_path / "t", 1, 2, 10)
    assert cost_against_size.measure(tmp_path / "t", ["aps:e4m3"], 0.0)["memory"] == 0


@pytest.mark.parametrize("name", ["performance", "picture", "report_picture"])
def test_help_does_no_work(name, capsys):
    if name == "report_picture":
        pytest.importorskip("PIL")
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"docs.tools.{name}").main(["--help"])
    assert ended.value.code == 0 and "usage:" in capsys.readouterr().out


def test_the_table_of_the_bench_is_written(performance):
    _, rows = written("performance", performance, "bench", "--rounds 1 --elements 4096")
    assert ["memcpy", "L2", "1"] in [row[:3] for row in rows] and len(rows) > 100
    assert all(float(row[3]) >= 0 for row in rows)


def test_its_traces_are_what_they_say(tmp_path):
    cost_against_size.write_trace(tmp_path / "t", 3, 2, 10)
    trace = apscope.open_trace(tmp_path / "t")
    assert (len(trace.steps), trace.workers, trace.shapes) == (3, 2, {"g": (10,)})
    for path, size, digest in trace.files():
        assert path.stat().st_size == size
    trace.check()
    assert len(set(cost_against_size.FORMATS)) == 32


def test_replay_cost_measures_and_writes(performance):
    text, rows = written(
        "replay_cost", performance, "replay",
        "--runs 1 --traces {} --elements 1000 --schemes aps:e4m3 sign", page.DATA / "digits_w64",
    )  # fmt: skip
    for words in ("2 schemes, 5 topologies, 731904 values", "one tensor of 1000 elements",
                  "Two threads are ", "Two processes at once"):  # fmt: skip
        assert words in text
    assert [row[0] for row in rows[:2]] == ["1", "2"]


def test_perf_reports_are_read():
    report = "\n    55.61%  _core.so     \n     7.60%  [kernel.kallsyms]\n"
    assert replay_cost.parse_shares(report) == [("_core.so", 55.61), ("[kernel.kallsyms]", 7.6)]
    assert replay_cost.parse_shares("    28.82%  [.] apscope::fill   \n") == [
        ("apscope::fill", 28.82)
    ]


def test_startup_measures_and_writes(performance):
    _, rows = written("startup", performance, "startup", "--rounds 1")
    times = {row[0].strip("`"): [float(cell) for cell in row[1:]] for row in rows}
    assert len(times) == 7 and any(name.startswith("apscope replay") for name in times)
    assert all(wall == shortest for wall, shortest, _ in times.values())  # of one round
    assert times["import apscope"][1] > 0


def test_check_cost_measures_and_writes(performance):
    text, rows = written("check_cost", performance, "check", "--rounds 1 --elements 1000")
    assert "0.2 MB of gradients, 5 steps of 8 workers" in text and "The check takes" in text
    assert [row[0] for row in rows] == ["with the check", "`--no-check`"]


def test_scheme_cost_measures_draws_and_writes(performance, tmp_path):
    scheme_cost.main(
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
    table = "\n".join(page.read(performance, "schemes"))
    assert (
        "| scheme | ns at 1e+03 | ns at 1e+05 | bytes at 1e+05 |\n|---|---|---|---|\n| `sign` |"
        in table
    )


def test_a_scheme_too_large_for_the_memory_is_left_out(tmp_path):
    before = {"sign": {"ns": 1.0, "bytes": 24.0}}
    assert scheme_cost.costs(tmp_path, ["sign"], 10**12, 10**12, before, 1.0) == {}
    found = {
        1000: {"sign": {"ns": 5.0, "bytes": 4.0}, "top_k": {"ns": 50.0, "bytes": 20.0}},
        10**6: {"sign": {"ns": 3.0, "bytes": 4.0}},
    }
    lines = scheme_cost.lines_of(found, 4, "a machine", 0.0)
    assert (
        "| `top_k` | 50.0 | too large | too large |" in lines
        and lines[-1] == "Above 40 ns a value at 1e+06 elements: none."
    )


def test_model_cost_measures_and_writes(performance):
    text, rows = written(
        "model_cost", performance, "model", "{} --schemes sign aps:e4m3 --memory 200M",
        page.DATA / "digits",
    )  # fmt: skip
    assert "digits: 1906 parameters, 8 workers, 52 steps, 792896 values" in text
    assert "| 2 schemes, four topologies | budget |" in text
    for budget in ("`--memory 200M`", "half of the machine, the default"):
        assert ["1 thread", budget] in [row[:2] for row in rows]
    with pytest.raises(SystemExit):
        written("model_cost", performance, "model")


@pytest.mark.filterwarnings("ignore")  # of Dask's own
def test_cluster_cost_measures_and_writes(performance):
    for module in ("distributed", "fsspec"):
        pytest.importorskip(module)
    text, rows = written(
        "cluster_cost", performance, "cluster",
        "--rounds 1 --steps 3 --elements 10000 --schemes sign aps:e4m3",
    )  # fmt: skip
    assert "1.0 MB of gradients, 3 steps of 8 workers; 2 schemes, four topologies" in text
    assert "All gave the same rows." in text
    from docs.tools.cluster_cost import A_TASK_A_STEP

    by_dask = f", {A_TASK_A_STEP}"
    assert [row[:2] for row in rows] == [["here", "folder"]] + [
        [name + own, by]
        for name in ("1 Dask worker", "2 Dask workers")
        for own, by in (("", "folder"), ("", "URL"), (by_dask, "folder"))
    ]
    # A trace by URL: one Dask worker fetches all three steps, of two workers the fuller one two of
    # the three.
    assert [float(row[-1]) for row in rows] == [0.0, 0.0, 1.0, 0.0, 0.0, 0.6, 0.0]


def test_recording_cost_measures_and_writes(performance):
    for module in ("torch", "sklearn"):
        pytest.importorskip(module)
    text, rows = written(
        "recording_cost", performance, "recording", "--pairs 1 --steps 1 --batch 2 --threads 1"
    )
    assert "44.7 MB of gradients a recorded step, batches of 2 images; 1 pairs of 1 steps" in text
    assert "according to the recorder" in text
    assert [row[0] for row in rows] == ["wall time", "processor time"]
    assert all(float(cell) > 0 for row in rows for cell in row[1:3])
    assert all(row[3].endswith(" %") for row in rows)
