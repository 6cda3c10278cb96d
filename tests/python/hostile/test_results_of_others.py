"""RESULTS folders whose files contradict each other in ways that digests do not show."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apscope import Results, replay
from apscope.cli import main

SCHEMES = ["aps:e4m3", "sign", "powersgd"]


@pytest.fixture
def folder(digits, tmp_path):
    return replay(
        digits, SCHEMES, topology=["ring", "tree"], steps="0:2", workers=2, tensors="bias"
    ).save(tmp_path / "results")


def put(folder, table=None, **provenance):
    """Other content, with right digests."""
    told = json.loads((folder / "provenance.json").read_text()) | provenance
    if table is not None:
        pq.write_table(table, folder / "results.parquet")
        (folder / "results.csv").unlink(missing_ok=True)
        told["files"].pop("results.csv", None)
        data = (folder / "results.parquet").read_bytes()
        told["files"]["results.parquet"] |= {
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "rows": table.num_rows,
        }
    (folder / "provenance.json").write_text(json.dumps(told))


def said(words, capsys, code):
    assert main([str(word) for word in words]) == code
    told = capsys.readouterr()
    return told.out + told.err


@pytest.mark.parametrize("column", ["nmse", "step", "scheme", "extra"])
def test_a_column_named_twice(folder, tmp_path, capsys, column):
    table = pq.read_table(folder / "results.parquet")
    if column == "extra":
        table = table.append_column("extra", pa.array([1.0] * table.num_rows))
    table = table.append_column(column, table[column])
    put(folder, table)
    word = f"results.parquet has the column {column} 2 times; replay the trace again"
    with pytest.raises(ValueError, match=word):
        Results.open(folder)
    for words in (
        ["summary", folder],
        ["report", folder, "-o", tmp_path / "page.html"],
        ["compare", folder, "aps:e4m3", "sign"],
    ):
        told = said(words, capsys, 2)
        assert word in told and told.count("\n") == 1
    assert word in said(["check", folder], capsys, 1)


def test_right_results_have_no_problem(folder, capsys):
    said(["check", folder], capsys, 0)


@pytest.mark.parametrize(
    ("topologies", "problem"),
    [
        (
            ["ring", "tree", "halving"],
            "has no rows of the topology 'halving', which provenance.json lists",
        ),
        (["ring"], "has rows of the topology 'tree', which provenance.json does not list"),
    ],
)
def test_topologies_of_rows_and_of_the_provenance_that_differ(folder, capsys, topologies, problem):
    put(folder, topologies=topologies)
    assert problem in said(["check", folder], capsys, 1)


def test_schemes_with_their_own_reduction_have_no_rows_of_a_topology(digits, tmp_path, capsys):
    for i, topology in enumerate((["ring", "tree"], [])):
        own = replay(digits, SCHEMES[1:], topology=topology, steps="0:2", workers=2)
        own.save(tmp_path / f"own{i}")
        said(["check", tmp_path / f"own{i}"], capsys, 0)


def test_a_file_of_another_size_is_not_read(folder):
    with (folder / "results.parquet").open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(ValueError, match=r"its bytes is \d+, but provenance.json says \d+"):
        Results.open(folder)
