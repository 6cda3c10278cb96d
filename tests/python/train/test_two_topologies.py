"""An experiment whose schemes have topologies of their own: runs, tables, page; and a folder that was
written when they had one."""

import json
import shutil
from dataclasses import replace

import pandas as pd
import pytest

pytest.importorskip("torch")

from apscope._replay.replay import replay
from apscope._training.experiment import TASKS
from apscope._training.folder import read
from apscope._training.relation import combinations
from apscope.cli import main
from apscope.train._run import Run, train
from tests.python.train.jobs import trained

TOML = """
gate = 0.01
seeds = 2
record_steps = 2
schemes = [
    "aps:e3m0",
    {scheme = "aps:e3m0", topology = "two_phase"},
    "mx",
    {scheme = "mx", topology = "two_phase"},
    {scheme = "none:bf16", topology = "two_phase"},
]

[[task]]
name = "digits"
steps = 20
"""
PAIRS = [
    ("none:fp32", "ring"), ("none:bf16", "ring"), ("aps:e3m0", "ring"), ("aps:e3m0", "two_phase"),
    ("mx", "ring"), ("mx", "two_phase"), ("none:bf16", "two_phase"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("topologies"), TOML)


def test_every_run_has_the_topology_of_its_scheme(folder):
    rows = pd.read_parquet(folder / "results.parquet")
    assert list(rows[["scheme", "topology"]].drop_duplicates().itertuples(False, None)) == PAIRS
    task = replace(TASKS["digits"]["convolutional"], steps=20)
    for topology in ("ring", "two_phase"):
        held = rows[(rows["scheme"] == "aps:e3m0") & (rows["topology"] == topology)]
        own = held[held["seed"] == 1]
        assert list(own["loss"]) == train(Run(task, "aps:e3m0", 1, 8, topology))["loss"]
    last = rows[(rows["step"] == 19) & (rows["seed"] == 0)].set_index(["scheme", "topology"])
    assert last.loc[("aps:e3m0", "ring"), "loss"] != last.loc[("aps:e3m0", "two_phase"), "loss"]


def test_a_verdict_names_the_reduction_and_has_its_volume_and_error(folder):
    table = pd.read_csv(folder / "verdicts.csv").set_index(["scheme", "topology"])
    assert list(table.index) == PAIRS
    reductions = dict(table["reduction"])
    assert reductions.pop(("mx", "ring")) == "gather"  # no ring adds blocks with their own scales
    assert all(reduction == topology for (_, topology), reduction in reductions.items())
    trace = folder / "traces/digits-convolutional"
    summary = replay(trace, ["aps:e3m0", "mx"], topology=["ring", "two_phase"]).summary()
    summary = summary.set_index(["scheme", "topology"])
    for (scheme, topology), reduction in (
        (("aps:e3m0", "ring"), "ring"), (("aps:e3m0", "two_phase"), "two_phase"),
        (("mx", "ring"), "gather"), (("mx", "two_phase"), "two_phase"),
    ):  # fmt: skip
        for figure in ("volume", "error_over_noise"):
            told = table.loc[(scheme, topology), figure]
            assert told == pytest.approx(summary.loc[(scheme, reduction), figure], rel=1e-12)
    assert table.loc[("none:bf16", "two_phase"), "verdict"] != "baseline"


def test_statistics_and_combinations_tell_topologies_apart(folder):
    found = combinations(folder)
    assert list(found[["scheme", "topology"]].itertuples(False, None)) == PAIRS[2:]
    assert not found[["excess", "typical_32", "own_typical_32", "volume"]].isna().to_numpy().any()
    by = found.set_index(["scheme", "topology"])["typical_32"]
    assert by["aps:e3m0", "ring"] > 3 * by["aps:e3m0", "two_phase"]


def test_the_page_names_both(folder, tmp_path):
    assert main(["report", str(folder), "-o", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert page.count("<tr class=") == len(PAIRS)
    assert '>APS e3m0</span></th><td class="text">ring</td>' in page
    assert '>APS e3m0, two_phase</span></th><td class="text">two_phase</td>' in page
    assert '</span></th><td class="text">gather</td>' in page


def test_a_folder_with_one_topology_for_all_is_read(folder, tmp_path):
    """As the command before wrote it: no column of the topology, and the schemes as specs."""
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    told = json.loads((old / "training.json").read_text())
    held = [
        scheme for scheme, topology in told["experiment"].pop("exchanges") if topology == "ring"
    ]
    told["experiment"]["specs"] = held
    (old / "training.json").write_text(json.dumps(told))
    for name, opened, write in (
        ("results.parquet", pd.read_parquet, pd.DataFrame.to_parquet),
        ("verdicts.csv", pd.read_csv, pd.DataFrame.to_csv),
        ("statistics.csv", pd.read_csv, pd.DataFrame.to_csv),
    ):
        frame = opened(old / name)
        kept = frame[frame["topology"] == "ring"]
        kept = kept.drop(columns=["topology", "reduction"], errors="ignore")
        write(kept, old / name, index=False)
    experiment, rows, _ = read(old)
    assert experiment.exchanges == tuple((scheme, "ring") for scheme in held)
    assert set(rows["topology"]) == {"ring"}
    whole = combinations(folder)
    expected = whole[whole["topology"] == "ring"].reset_index(drop=True)
    pd.testing.assert_frame_equal(combinations(old), expected)
    assert main(["report", str(old), "-o", str(tmp_path / "page.html")]) == 0


def test_levels_of_a_hierarchy_are_trained_under_their_name(tmp_path):
    topology = "hierarchical:4(nccl:ring@e5m2,two_phase@e4m3,sum=bf16)"
    own = f"""
gate = 0.01
seeds = 1
schemes = [{{scheme = "aps:e4m3", topology = "{topology}"}}]

[[task]]
name = "digits"
steps = 3
"""
    rows = pd.read_parquet(trained(tmp_path, own) / "results.parquet")
    task = replace(TASKS["digits"]["convolutional"], steps=3)
    own = rows[rows["topology"] == topology]
    assert list(own["loss"]) == train(Run(task, "aps:e4m3", 0, 8, topology))["loss"]
    assert list(own["loss"]) != train(Run(task, "aps:e4m3", 0, 8, "two_phase"))["loss"]
