"""A topology that a summary or comparison is asked for, in any spelling, and schemes without it."""

import csv

import numpy as np
import pytest

from apscope import replay
from apscope.cli import main
from tests.python.recorded import record

LEVELS = "hierarchical:2(two_phase,two_phase)"
SPELLED = "hierarchical:2(two_phase,two_phase,sum=fp32)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    random = np.random.default_rng(6)
    root = tmp_path_factory.mktemp("asked")
    steps = [{"a": random.normal(0, 1, (4, 9, 7)).astype("f4")} for _ in range(2)]
    trace = record(root / "trace", steps)
    schemes = ["aps:e4m3", "qsgd:levels=15"]  # the second has a reduction of its own
    replay(trace, schemes, topology=["ring", LEVELS]).save(root / "results")
    return root / "results"


def said(capsys, *words):
    code = main([str(word) for word in words])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.parametrize(
    "words",
    [("summary",), ("summary", "--by", "layer"), ("compare", "aps:e4m3", "qsgd")],
    ids=lambda words: "-".join(words),
)
def test_any_spelling_is_taken(folder, capsys, words):
    command, *rest = words
    called = (command, folder, *(word.replace("qsgd", "qsgd:levels=15") for word in rest))
    right = said(capsys, *called, "--topology", LEVELS)
    assert right[0] == 0 and right[2] == ""
    assert said(capsys, *called, "--topology", SPELLED) == right


@pytest.mark.parametrize("topology", ["rnig", "tree"])
def test_one_that_the_results_lack_is_a_sentence(folder, capsys, topology):
    code, _, error = said(capsys, "summary", folder, "--topology", topology)
    assert code == 2
    assert f"have no topology '{topology}'; use one of " in error
    code, _, error = said(
        capsys, "compare", folder, "aps:e4m3", "qsgd:levels=15", "--topology", topology
    )
    assert code == 2 and f"has no topology '{topology}' in the results; use one of" in error


def test_a_scheme_without_the_order_has_its_own_reduction(folder, capsys):
    code, out, _ = said(capsys, "compare", folder, folder, "--topology", "ring", "--csv")
    assert code == 0
    rows = list(csv.reader(out.splitlines()))
    names = [rows[0].index(name) for name in ("scheme", "topology_a", "topology_b")]
    assert [[row[i] for i in names] for row in rows[1:]] == [
        ["aps:e4m3", "ring", "ring"],
        ["qsgd:levels=15", "gather", "gather"],
    ]
