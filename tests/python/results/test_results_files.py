"""The files of a RESULTS folder: every value of the table reads back with every reader."""

import csv
import io
import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import apscope
from apscope._results.columns import arrow_table, frame_of
from apscope._results.csv_table import write_csv
from apscope.cli import main
from tests.python.altered import altered

SCHEMES = [
    "aps:e4m3",
    "loss_scaling:e4m3,scale=1024",
    "dynamic_loss_scaling:fp16",
    "sign",
    "hybrid(last=none:fp16;else=aps:e4m3)",
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "out"
    results = apscope.replay(
        "notebooks/data/characters", SCHEMES, topology=["ring"], workers=2, tensors="norm|token"
    )
    # Values that a table can have and that this replay does not give.
    for row, (column, value) in enumerate(
        [
            ("sqnr_db", np.inf),
            ("nmse", np.inf),
            ("sqnr_db", -np.inf),
            ("cosine", 0.0),
            ("nmse", 5e-324),
            ("mse", 1.7976931348623157e308),
            ("note", 'a "quoted", note'),
            ("skipped", True),
        ]
    ):
        results.frame.loc[row, column] = value
    results.save(folder)
    return results, folder


def test_csv_gives_every_value_back(saved):
    results, folder = saved
    with (folder / "results.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    frame = results.frame
    assert list(rows[0]) == list(frame.columns) and len(rows) == len(frame)
    for name in frame.columns:
        for text, value in zip((row[name] for row in rows), frame[name], strict=True):
            if pd.isna(value) or (isinstance(value, str) and value == ""):
                assert text == ""
            elif isinstance(value, (bool, np.bool_)):
                assert text == str(bool(value))
            elif isinstance(value, str):
                assert text == value
            else:
                assert float(text) == float(value) and math.copysign(
                    1, float(text)
                ) == math.copysign(1, float(value))


def test_csv_writes_the_fewest_digits(saved):
    _, folder = saved
    with (folder / "results.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for name in ("mse", "nmse", "sqnr_db", "bias"):
                digits = row[name].split("e")[0].replace(".", "").strip("-0")
                shortest = (
                    repr(float(row[name] or "nan")).split("e")[0].replace(".", "").strip("-0")
                )
                assert row[name] == "" or digits == shortest


def test_missing_numbers_and_empty_texts_are_bare(saved):
    _, folder = saved
    lines = (folder / "results.csv").read_text().splitlines()
    assert '""' not in lines[1] and ",," in lines[1]
    assert lines[0].startswith("trace,step,tensor,")


def test_parquet_and_csv_hold_the_same(saved):
    results, folder = saved
    assert pq.read_table(folder / "results.parquet").num_rows == len(results.frame)
    pd.testing.assert_frame_equal(apscope.Results.open(folder).frame, results.frame)
    csv = apscope.Results.read_csv(folder / "results.csv")
    for name in ("nmse", "sqnr_db", "cosine"):
        np.testing.assert_array_equal(
            csv[name].to_numpy(float), results.frame[name].to_numpy(float)
        )
    read = pd.read_csv(folder / "results.csv")
    assert list(read.columns) == list(results.frame.columns)
    assert read["skipped"].dtype == bool and read["skipped"].sum() == results.frame["skipped"].sum()
    assert (read["count"] == results.frame["count"]).all()


def test_results_of_an_older_version_are_not_opened(saved, tmp_path):
    results, _ = saved
    altered(results, results.frame.drop(columns="sum_signed_error")).save(tmp_path / "old")
    with pytest.raises(
        ValueError,
        match="old was written by an older apscope, without the column sum_signed_error; replay "
        "the trace again",
    ):
        apscope.Results.open(tmp_path / "old")


def columns():
    """Columns as C++ returns them, with every kind of cell."""
    texts = np.array(["", "a", "=1+1", "'@b", "−β", "a"], dtype=object)
    numbers = np.array([1.5, np.nan, np.inf, -0.0, 5e-324, 1e300])
    empty = np.array([False, True, False, False, True, False])
    return {
        "text": texts, "plain": np.array(["ab", "", "c", "", "", "ab"], dtype=object),
        "number": numbers, "whole": (np.arange(6) - 3, empty),
        "full": (np.arange(6), np.zeros(6, bool)), "integer": np.arange(6), "flag": numbers > 1,
        "none": np.full(6, np.nan),
    }  # fmt: skip


def test_columns_become_the_table_that_pandas_makes_of_the_frame():
    made, pandas = (
        arrow_table(columns()),
        pa.Table.from_pandas(frame_of(columns()), preserve_index=False),
    )
    told = json.loads(pandas.schema.metadata[b"pandas"])
    # Which no reader asks for, and which takes longer to find out than a small replay.
    del told["pandas_version"]
    assert made.schema.equals(pandas.schema) and json.loads(made.schema.metadata[b"pandas"]) == told
    assert made.equals(pandas)
    made.validate(full=True)
    pd.testing.assert_frame_equal(made.to_pandas(), pandas.to_pandas())


@pytest.mark.parametrize(
    "rows", [slice(0, 6), slice(1, 5), slice(2, 2)], ids=["whole", "sliced", "empty"]
)
def test_csv_of_a_table_from_columns_and_of_a_part_of_one(rows):
    written = io.BytesIO()
    write_csv(arrow_table(columns())[rows], written)
    lines = list(csv.reader(io.StringIO(written.getvalue().decode(), newline="")))
    harmless = ["", "a", "'=1+1", "''@b", "−β", "a"]
    want = [
        harmless, ["ab", "", "c", "", "", "ab"], ["1.5", "", "inf", "-0", "5e-324", "1e+300"],
        ["-3", "", "-1", "0", "", "2"],
        [*"012345"], [*"012345"], ["True", "False", "True", "False", "False", "True"], [""] * 6,
    ]  # fmt: skip
    assert lines[0] == list(columns()) and lines[1:] == [list(row) for row in zip(*want)][rows]


@pytest.mark.parametrize(
    "shard, rows", [((0, 1), 2 * 6 * 3 * 2), ((50, 51), 0)], ids=["whole", "empty"]
)
def test_results_of_a_replay_are_saved_alike_before_and_after_their_frame_was_looked_at(
    tmp_path, shard, rows
):
    results = apscope.replay(
        "notebooks/data/digits", ["aps:e4m3", "qsgd"], topology="ring", steps="0:2", shard=shard
    )
    first = {path.name: path.read_bytes() for path in results.save(tmp_path / "first").iterdir()}
    assert len(results) == len(results.frame) == rows and results.histograms is not None
    assert {
        path.name: path.read_bytes() for path in results.save(tmp_path / "second").iterdir()
    } == first


def test_a_large_table_has_csv_where_it_is_asked_for(tmp_path, monkeypatch, capsys):
    results = apscope.replay(
        "notebooks/data/digits", ["aps:e4m3", "qsgd"], topology="ring", steps="0:2"
    )
    with_csv = results.save(tmp_path / "out")
    monkeypatch.setattr("apscope._results.saving.CSV_ROWS", len(results))
    assert (results.save(tmp_path / "as many") / "results.csv").exists()
    monkeypatch.setattr("apscope._results.saving.CSV_ROWS", len(results) - 1)
    text = (with_csv / "results.csv").read_bytes()
    results.save(with_csv, force=True)  # the earlier results.csv goes
    names = ["histograms.parquet", "noise.parquet", "provenance.json", "results.parquet"]
    assert sorted(path.name for path in with_csv.iterdir()) == names
    assert apscope.Results.open(with_csv).frame.equals(results.frame)
    assert main(["check", str(with_csv)]) == 0
    assert main(["merge", str(with_csv), "-o", str(tmp_path / "merged"), "--csv"]) == 0
    assert (tmp_path / "merged" / "results.csv").read_bytes() == text
    (with_csv / "results.csv").write_bytes(text)
    assert main(["check", str(with_csv)]) == 1
    assert "results.csv is not a file of these results" in capsys.readouterr().out
    (results.save(tmp_path / "asked", csv=True) / "results.csv").unlink()
    with pytest.raises(ValueError, match=r"its results\.csv is missing"):
        apscope.Results.open(tmp_path / "asked")
