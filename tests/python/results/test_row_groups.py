"""Rows are written as they come, in groups: a large table is never in memory as a whole, and its
files are the same."""

import gc
import json
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import apscope
from apscope._results import row_groups
from apscope._results.codes import coded_of
from apscope._results.joined import Joined, in_order
from apscope._results.stored import Stored
from apscope.cli import main
from docs.tools.report_cost import SCHEMES
from docs.tools.results_size import main as measure
from docs.tools.results_size import write_trace
from tests.python.altered import altered
from tests.python.argv import peak
from tests.python.summary_tables import random_results

DIGITS = "notebooks/data/digits"
FEW = ["aps:e4m3", "qsgd", "error_feedback(sign)"]
WORDS = [DIGITS, *(w for s in FEW for w in ("--scheme", s)), "--steps", "0:6", "--topology", "ring"]


@pytest.fixture
def small_groups(monkeypatch):
    """Groups of 100 rows."""
    for module in ("row_groups", "joined"):
        monkeypatch.setattr(f"apscope._results.{module}.ROWS", 100)


def rows_in(folder):
    return json.loads((folder / "provenance.json").read_text())["files"]["results.parquet"]["rows"]


def groups_of(path):
    metadata = pq.read_metadata(path)
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


def test_memory_hardly_grows_with_the_rows(tmp_path):
    write_trace(tmp_path / "trace", 30, 2)
    schemes = " ".join(f"--scheme {scheme}" for scheme in SCHEMES)
    peaks, rows = {}, {}
    for steps in (8, 30):
        out = tmp_path / f"out{steps}"
        line = f"replay {{}} {schemes} --steps 0:{steps} -o {{}}"
        peaks["replay", steps] = peak(line, tmp_path / "trace", out)
        peaks["summary", steps] = peak("summary {}", out)
        rows[steps] = rows_in(out)
    more = rows[30] - rows[8]
    assert more > 400_000
    # A row of the table has 500 bytes; a replay took 1500 for each, a summary 1300.
    assert peaks["replay", 30] - peaks["replay", 8] < 250 * more
    assert peaks["summary", 30] - peaks["summary", 8] < 650 * more


def test_the_script_that_measures_writes_its_tables(tmp_path, request):
    page = tmp_path / "performance.md"
    page.write_text((request.config.rootpath / "docs/performance.md").read_text())
    measure([str(tmp_path / "before.txt"), "--steps", "1", "--label", "Before"])
    measure([str(page), "--steps", "1", "--also", str(tmp_path / "before.txt")])
    text = page.read_text()
    for label in ("Before", "This version"):
        assert f"{label}: 25 schemes, 19803 rows; histograms.parquet 0 MB, noise.parquet " in text
    assert text.count("| `apscope merge` | ") == 2


def test_a_command_says_that_csv_was_left_out_and_all_else_works_without(
    tmp_path, monkeypatch, capsys
):
    with_csv, without = tmp_path / "with", tmp_path / "without"
    assert main(["replay", *WORDS, "-o", str(with_csv)]) == 0
    assert "left out" not in capsys.readouterr().out
    rows = rows_in(with_csv)
    monkeypatch.setattr("apscope._results.saving.CSV_ROWS", rows - 1)
    assert main(["replay", *WORDS, "-o", str(without)]) == 0
    assert capsys.readouterr().out.endswith(
        f"results.csv was left out because the table has more than {rows - 1} rows; "
        "results.parquet has all of it, and --csv writes both\n"
    )
    assert not (without / "results.csv").exists()
    assert {path.name for path in with_csv.iterdir()} - {"results.csv"} == {
        path.name for path in without.iterdir()
    }
    assert main(["replay", *WORDS, "-o", str(tmp_path / "asked"), "--csv"]) == 0
    assert "left out" not in capsys.readouterr().out
    assert (tmp_path / "asked/results.csv").read_bytes() == (with_csv / "results.csv").read_bytes()
    told = []
    for folder in (with_csv, without):
        for words in (
            ["summary", "--csv"], ["summary", "--by", "layer"], ["compare", *FEW[:2]], ["ladder"],
            ["check"], ["recommend", "--max-volume", "1"],
        ):  # fmt: skip
            main([words[0], str(folder), *words[1:]])
        captured = capsys.readouterr()
        told.append((captured.out + captured.err).replace(str(folder), "FOLDER"))
    assert told[0] == told[1] and "whole" in told[0]
    pages = []
    for folder in (with_csv, without):
        assert main(["report", str(folder)]) == 0
        pages.append((folder / "report.html").read_bytes())
    assert pages[0] == pages[1]
    assert main(["merge", str(without), "-o", str(tmp_path / "merged")]) == 0
    assert "results.csv was left out" in capsys.readouterr().out
    assert (tmp_path / "merged/results.parquet").read_bytes() == (
        without / "results.parquet"
    ).read_bytes()
    assert main(["merge", str(without), "-o", str(tmp_path / "csv"), "--csv"]) == 0
    assert (tmp_path / "csv/results.csv").read_bytes() == (with_csv / "results.csv").read_bytes()


def test_every_way_to_write_gives_the_same_groups(tmp_path, small_groups):
    folders = [
        tmp_path / name for name in ("command", "saved", "columns", "frame", "opened", "merged")
    ]
    assert main(["replay", *WORDS, "-o", str(folders[0])]) == 0
    results = apscope.Results.open(folders[0])
    results.save(folders[1])  # of what is in the file
    options = {"topology": "ring", "steps": "0:6"}
    apscope.replay(DIGITS, FEW, **options).save(folders[2])
    framed = apscope.replay(DIGITS, FEW, **options)
    assert len(framed.frame) == len(framed)
    framed.save(folders[3])
    assert len(results.frame) == len(results)
    results.save(folders[4])
    shards = []
    for i in range(3):
        shards.append(tmp_path / f"shard{i}")
        assert main(["replay", *WORDS, "-o", str(shards[-1]), "--shard", f"{i}/3"]) == 0
    assert main(["merge", *map(str, shards), "-o", str(folders[5])]) == 0
    count = len(results)
    assert count > 300 and groups_of(folders[0] / "results.parquet") == [100] * (count // 100) + (
        [count % 100] if count % 100 else []
    )
    for folder in folders[1:]:
        for path in folders[0].iterdir():
            if path.name != "provenance.json" or folder != folders[5]:
                assert (folder / path.name).read_bytes() == path.read_bytes(), path


def test_csv_of_groups_is_csv_of_the_whole(tmp_path, monkeypatch):
    whole = apscope.replay(DIGITS, FEW, topology="ring", steps="0:6")
    text = (whole.save(tmp_path / "whole") / "results.csv").read_bytes()
    for module in ("row_groups", "joined"):
        monkeypatch.setattr(f"apscope._results.{module}.ROWS", 7)
    assert (whole.save(tmp_path / "groups") / "results.csv").read_bytes() == text
    assert main(["check", str(tmp_path / "groups")]) == 0


@pytest.fixture
def shards(tmp_path):
    return [
        apscope.Results.open(
            apscope.replay(DIGITS, FEW, topology="ring", steps="0:6", shard=(i, 3)).save(
                tmp_path / f"part{i}"
            )
        )
        for i in (2, 0, 1)
    ]


def test_a_joined_table_is_the_frames_in_order(shards, small_groups):
    merged = apscope.merge(shards)
    joined = merged._tables["frame"]
    assert isinstance(joined, Joined)
    want = in_order(
        pd.concat([part._tables["frame"].whole() for part in shards], ignore_index=True),
        merged.provenance,
    )
    some = ["scheme", "step", "topology", "nmse", "counted", "skipped", "block_count"]
    coded = joined.frame(some)
    for name in some:
        numbers = want[name].dtype != object
        assert coded[name].dtype == "category" or numbers
        left, right = (
            (
                table[name].to_numpy(float, na_value=np.nan)
                if numbers
                else table[name].to_numpy(object)
            )
            for table in (coded, want)
        )
        np.testing.assert_array_equal(left, right)
    assert [len(group) for group in joined.groups()][:-1] == [100] * ((len(want) - 1) // 100)
    summary = merged.summary()  # of what is in the files
    pd.testing.assert_frame_equal(merged.frame, want)
    pd.testing.assert_frame_equal(merged.summary(), summary)
    assert len(merged) == len(want) and merged.noise_facts() is not None


def test_a_part_in_another_order_is_sorted(shards, tmp_path, small_groups):
    want = apscope.merge(shards)
    mixed = (
        shards[0]
        .frame.sample(frac=1.0, random_state=1)
        .sort_values(["topology", "stage"], kind="stable")
    )
    turned = shards[0].frame.iloc[::-1].sort_values("stage", ascending=False, kind="stable")
    for i, frame in enumerate((mixed, turned)):
        part = altered(shards[0], frame)
        again = apscope.merge([part.save(tmp_path / f"odd{i}"), *shards[1:]])
        key = ["step", "tensor", "scheme", "stage", "topology"]
        pd.testing.assert_frame_equal(
            again.frame.sort_values(key, ignore_index=True),
            want.frame.sort_values(key, ignore_index=True),
        )
        places = again.frame[["step"]].to_numpy()
        assert (np.diff(places.ravel().astype(int)) >= 0).all()
        saved = apscope.Results.open(again.save(tmp_path / f"saved{i}"))
        pd.testing.assert_frame_equal(saved.frame, again.frame)


def test_a_failure_in_the_middle_of_the_rows_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("apscope._results.row_groups.ROWS", 50)
    calls = []

    def fails(self, table, **_):
        calls.append(len(table))
        if len(calls) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fails)
    assert main(["replay", *WORDS, "-o", str(tmp_path / "out")]) == 2
    assert (
        capsys.readouterr().err
        == f"apscope: {tmp_path / 'out'} cannot be written: No space left on device\n"
    )
    assert len(calls) == 3 and list(tmp_path.iterdir()) == []


def test_an_interrupted_table_says_nothing_when_it_is_dropped(tmp_path, monkeypatch):
    """pyarrow's own writer closes itself late and tells of a file that is closed by then."""
    heard = []
    monkeypatch.setattr(sys, "unraisablehook", heard.append)

    def interrupted(table):
        yield row_groups.arrow(table)
        raise KeyboardInterrupt

    monkeypatch.setattr(row_groups, "pieces", interrupted)
    with pytest.raises(KeyboardInterrupt):
        row_groups.store(tmp_path / "noise.parquet", {"step": np.arange(5)})
    gc.collect()
    assert not heard


def test_integers_of_a_file_are_as_narrow_as_they_fit_and_give_the_same_sums(
    tmp_path, small_groups
):
    """Counts grow from group to group and have empty cells, so every width occurs."""
    frame = random_results().frame.assign(nmse=0.0)
    place = np.arange(len(frame))
    frame["wire_bits"] = frame["wire_bits"].astype("int64") * 10 ** (place // 100)
    frame.loc[[150, 250], "side_bits"] = [-(2**7), 2**15 - 1]
    path = tmp_path / "results.parquet"
    row_groups.store(path, frame)
    file = Stored(path.read_bytes(), path)
    assert groups_of(path)[:4] == [100] * 4
    found, wanted = file.coded(list(frame)), coded_of(frame, list(frame))
    kinds = {
        name: found[name].dtype.name
        for name in ("workers", "step", "side_bits", "wire_bits", "counted")
    }
    assert kinds == {
        "workers": "int8", "step": "int8", "side_bits": "int16", "wire_bits": "int64",
        "counted": "float64",
    }  # fmt: skip
    for name, values in wanted.items():
        if isinstance(values, np.ndarray):
            np.testing.assert_array_equal(found[name], values, name)
    assert file.frame(["workers"])["workers"].dtype == np.int64
    stored, held = (apscope.Results(rows, rows, {"traces": []}) for rows in (file, frame))
    pd.testing.assert_frame_equal(stored.summary(), held.summary(), check_exact=True)
    pd.testing.assert_frame_equal(
        stored.compare("aps:e4m3", "qsgd"), held.compare("aps:e4m3", "qsgd")
    )
