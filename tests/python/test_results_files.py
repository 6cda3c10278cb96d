"""The files of a RESULTS folder: every value of the table reads back, whoever reads it."""

import csv
import math

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import apscope

SCHEMES = ["aps:e4m3", "loss_scaling:e4m3,scale=1024", "dynamic_loss_scaling:fp16", "sign", "hybrid(last=none:fp16;else=aps:e4m3)"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "out"
    results = apscope.replay("notebooks/data/characters", SCHEMES, topology=["ring"], workers=2, tensors="norm|token")
    # What a table can hold beside what this replay gives.
    for row, (column, value) in enumerate(
        [("sqnr_db", np.inf), ("nmse", 5e-324), ("mse", 1.7976931348623157e308), ("note", 'a "quoted", note'), ("skipped", True)]
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
                assert float(text) == float(value) and math.copysign(1, float(text)) == math.copysign(1, float(value))


def test_csv_writes_the_fewest_digits(saved):
    _, folder = saved
    with (folder / "results.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for name in ("mse", "nmse", "sqnr_db", "bias"):
                digits = row[name].split("e")[0].replace(".", "").strip("-0")
                shortest = repr(float(row[name] or "nan")).split("e")[0].replace(".", "").strip("-0")
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
    read = pd.read_csv(folder / "results.csv")
    assert list(read.columns) == list(results.frame.columns)
    assert read["skipped"].dtype == bool and read["skipped"].sum() == results.frame["skipped"].sum()
    assert (read["count"] == results.frame["count"]).all()


def test_results_of_an_older_version_are_not_opened(saved, tmp_path):
    results, _ = saved
    apscope.Results(results.frame.drop(columns="sum_signed_error"), results.histograms, results.provenance).save(tmp_path / "old")
    with pytest.raises(ValueError, match="old was written by an older apscope, without the column sum_signed_error; replay the trace again"):
        apscope.Results.open(tmp_path / "old")
