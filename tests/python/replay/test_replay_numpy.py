"""The replay against the same work written in NumPy with ml_dtypes
(docs/tools/replay_numpy.py)."""

import shutil

import pandas as pd
import pytest

from docs.tools import replay_numpy
from docs.tools.page import rows


@pytest.fixture(scope="module")
def traces(request):
    return [str(request.config.rootpath / t) for t in replay_numpy.TRACES]


def test_every_column_agrees_on_the_bundled_traces(traces):
    assert (
        replay_numpy.disagreements(
            replay_numpy.apscope_job(traces), replay_numpy.numpy_job(traces)[0]
        )
        == []
    )


def test_a_large_tensor_is_taken_in_parts_and_some_tensors_alone(traces, monkeypatch):
    # Three steps of conv1.weight, one of conv2.weight.
    monkeypatch.setattr(replay_numpy, "AT_ONCE", 3 * 8 * 72)
    theirs = replay_numpy.numpy_job(traces[:1], "^conv")[0]
    assert set(theirs["tensor"]) == {"conv1.weight", "conv2.weight"}
    assert (
        replay_numpy.disagreements(replay_numpy.apscope_job(traces[:1], 1, "^conv"), theirs) == []
    )


def test_a_difference_is_found(traces):
    ours, theirs = replay_numpy.apscope_job(traces[1:2]), replay_numpy.numpy_job(traces[1:2])[0]
    for column, change in (("underflow", 1), ("nmse", 1e-9), ("sum_error", 1e-9), ("max_ulp", 0.5)):
        changed = theirs.copy()
        changed.loc[7, column] += change * (1 if column != "nmse" else changed.loc[7, column])
        (line,) = replay_numpy.disagreements(ours, changed)
        assert line.startswith(f"{column}: ") and "1 rows" in line
    assert "rows here" in replay_numpy.disagreements(ours, pd.concat([theirs.iloc[1:]]))[0]


def test_the_script_writes_its_figures(traces, tmp_path, capsys, request):
    page = shutil.copy(request.config.rootpath / "docs/performance.md", tmp_path)
    assert replay_numpy.main(["--runs", "1", "--page", page, traces[1]]) == 0
    assert "Numbers agree." in capsys.readouterr().out
    found = rows(tmp_path / "performance.md", "numpy")
    assert found and all(row[:3] == ["digits_w64", "6", "4"] for row in found)
    assert min(float(row[-1]) for row in found) > 0
