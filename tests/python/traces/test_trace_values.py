"""The text of apscope info about recorded gradients."""

import numpy as np
import pytest

from apscope import open_trace
from apscope._replay.values import describe_values, histogram
from apscope.cli import main
from tests.python.argv import command
from tests.python.recorded import record


@pytest.fixture
def path(tmp_path):
    steps = []
    for step in range(5):
        small, none = np.full((2, 2), 2.0**-step, np.float32), np.zeros((2, 0), np.float32)
        odd = [np.nan if step == 2 else 0, np.inf if step == 4 else 4]
        large = np.float32([[0, 1], [-2, 0.75], odd])
        steps.append({"small": small, "large": [large, -large], "none": none})
    record(tmp_path / "t", steps)
    return tmp_path / "t"


def test_of_the_first_the_middle_and_the_last_step(path):
    lines = describe_values(open_trace(path)).split("\n")
    assert lines[0].startswith("gradients of steps 0, 2, 4, all workers")
    table = {line.split()[0]: line.split()[1:] for line in lines[2:6]}
    # large: 36 numbers, 2 NaN, 2 inf; zeros: 4, 2 and 4; squares of 1, 2, 0.75 in all, of 4 in two
    # steps
    rms = np.sqrt((6 * (1 + 4 + 0.5625) + 4 * 16) / 32)
    assert table["large"] == [
        "linear",
        "6",
        "27.78%",
        "2",
        "2",
        f"{rms:.3g}",
        "2^-1",
        "2^2",
        "[3,",
        "2]",
    ]
    assert table["small"][1:7] == [
        "2",
        "0.00%",
        "0",
        "0",
        f"{np.sqrt((1 + 2**-4 + 2**-8) / 3):.3g}",
        "2^-4",
    ]
    assert table["none"] == ["other", "0", "-", "0", "0", "-", "-", "-", "[0]"]
    assert table["all"][:4] == ["8", "20.83%", "2", "2"] and [
        line.split()[0] for line in lines[2:6]
    ] == ["large", "small", "none", "all"]


def test_a_histogram_has_at_most_twenty_bars_of_one_width():
    lines = histogram({-100: 1, 0: 300, 27: 100_000})
    assert len(lines) <= 21 and [line.split()[0] for line in (lines[0], lines[-1])] == [
        "2^-105..-99",
        "2^21..27",
    ]
    assert (
        lines[0].split()[1:] == ["<0.01%", "#"]
        and lines[-1].count("#") == 50
        and histogram({}) == []
    )
    assert histogram({3: 1, 4: 1}) == [
        f"{'2^3':>14}   50.00%  {'#' * 50}",
        f"{'2^4':>14}   50.00%  {'#' * 50}",
    ]


def test_info_shows_the_largest_tensors_or_all_or_none(path, capsys):
    assert main(["info", str(path)]) == 0 and "exponents, of all tensors" in capsys.readouterr().out
    assert (
        command("info {} --no-values", path) == 0 and "gradients of" not in capsys.readouterr().out
    )
    text = describe_values(open_trace(path), 1)
    assert "... and 2 smaller tensors; --all shows them" in text and "small " not in text
    assert (
        main(["info", str(path), "--all"]) == 0 and "smaller tensors" not in capsys.readouterr().out
    )
