"""A row with overflow has no finite error: in the table, drawn and on the page.

Pooled and compared: test_replay_summaries.py.
"""

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope import plots
from apscope._report import page
from apscope._results.overflow import tight_overflows
from apscope._results.summary import front
from apscope.cli import main
from tests.python.altered import altered

#: A constant loss scale that is too large for three layers in some of these steps.
SCHEMES = ["aps:e4m3", "loss_scaling:e4m3,scale=128"]
A, B = SCHEMES


@pytest.fixture(scope="module")
def results(request):
    return apscope.replay(
        request.config.rootpath / "notebooks/data/digits",
        SCHEMES,
        steps=[0, 8, 9, 34, 240],
        topology="ring",
    )


@pytest.fixture(scope="module")
def flawed(results):
    """Layers and steps that overflowed after the ring."""
    frame = results.frame
    over = frame[(frame.scheme == B) & (frame.topology == "ring") & (frame.overflow > 0)]
    assert (
        0 < over.tensor.nunique() < frame.tensor.nunique()
        and 0 < over.step.nunique() < frame.step.nunique()
    )
    return over


def test_the_columns_of_a_row_with_overflow(results):
    frame = results.frame
    over = frame.overflow > 0
    for column, value in (
        ("nmse", np.inf),
        ("mse", np.inf),
        ("variance", np.inf),
        ("sqnr_db", -np.inf),
        ("cosine", 0.0),
        ("rescaled_nmse", 1.0),
        ("gain", 0.0),
    ):
        assert (frame.loc[over, column] == value).all(), column
    assert np.isfinite(
        frame.loc[over, ["sum_squared_error", "bias", "relative_bias"]].astype(float)
    ).all(axis=None)
    assert np.isfinite(frame.loc[~over, ["nmse", "mse", "variance", "cosine"]].astype(float)).all(
        axis=None
    )


def test_the_command_says_it(results, tmp_path, capsys):
    results.save(tmp_path / "out")
    assert main(["compare", str(tmp_path / "out"), A, B]) == 0
    table = capsys.readouterr().out
    assert "overflowed_b" in table and "overflowed_a" not in table and " inf" in table


def test_the_page_gives_overflow_as_the_cause_and_no_other(results, flawed):
    text = page(results)
    steps = flawed.step.nunique()
    assert (
        f'<small class="mark">overflow in {steps} steps</small>' in text
        and '<td data-label="error over noise">' in text
    )
    assert (
        "∞" in text[: text.index("<script")] and "because" not in text[: text.index('id="words"')]
    )


def test_pictures_mark_overflow(results, flawed):
    layers = list(dict.fromkeys(results.frame.tensor))
    ax = plots.nmse_by_layer(results)
    hollow = [
        line for line in ax.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())
    ]
    assert [len(line.get_xdata()) for line in hollow] == [
        flawed.tensor.nunique()
    ] and "hollow: a step overflowed" in ax.get_xlabel()
    ax = plots.nmse_ratio(results, A, B)
    (crosses,) = [line for line in ax.lines if line.get_marker() == "x"]
    found = {(layers[int(y)], int(x)) for x, y in zip(crosses.get_xdata(), crosses.get_ydata())}
    steps = sorted(set(results.frame.step))
    assert (
        found == {(r.tensor, steps.index(r.step)) for r in flawed.itertuples()}
        and "× overflow" in ax.get_xlabel()
    )
    for ax in (plots.bias_over_steps(results, B), plots.variance_over_steps(results)):
        (crosses,) = [line for line in ax.lines if line.get_marker() == "x"]
        assert (
            sorted(int(x) for x in crosses.get_xdata())
            == sorted({steps.index(s) for s in flawed.step})
            and "× overflow" in ax.get_xlabel()
        )
    assert "1 scheme with overflow" in plots.sqnr_against_bits(results).get_title(loc="left")
    for ax in (plots.accumulation_error(results), plots.accumulation_by_layer(results, B)):
        assert [line for line in ax.lines if line.get_marker() == "x"] and all(
            np.isfinite(bar.get_width()) for bar in ax.patches
        )
        ax.figure.canvas.draw()


def test_results_without_overflow_say_nothing_of_it(results):
    one = altered(results, results.frame[results.frame.scheme == A])
    assert (
        "overflow"
        not in plots.nmse_by_layer(one).get_xlabel() + plots.bias_over_steps(one, A).get_xlabel()
    )
    assert pd.isna(one.compare(A, A).share_rounding_a).sum() == 0


def test_a_tight_scale_that_overflows_in_a_ring_ranks_last_and_is_told_why(
    request, capsys, tmp_path
):
    trace = request.config.rootpath / "notebooks/data/gpt"
    specs = ["aps:e4m3fn,rule=tight,unit=32", "aps:e5m2,rule=tight", "none:e4m3fn"]
    results = apscope.replay(trace, specs, topology=["ring", "two_phase"])
    table = front(results.summary(), "ring")
    last = table.iloc[-1]
    assert (last["scheme"], last["topology"], last["overflowed"]) == (specs[0], "ring", 6)
    why = (
        "overflow, so ranked last: aps:e4m3fn,rule=tight,unit=32 in ring (6 steps); rule=tight fits "
        "the largest sum but leaves no room for partial sums that are rounded up; rule=ceil mostly "
        "leaves some, two_phase needs none"
    )
    assert main(["summary", str(results.save(tmp_path / "r"))]) == 0
    assert f"What overflowed or skipped steps:\n{why}\n" in capsys.readouterr().out
    assert f'<p class="lead">Marked with {why}.</p>' in page(results)
    assert tight_overflows(table[table["topology"] == "two_phase"]) == ""
    assert tight_overflows(table.assign(scheme="none:e4m3fn")) == ""
    assert tight_overflows(table.assign(scheme="mine(1)")) == ""
    many = pd.concat([table.tail(1).assign(scheme=f"aps:e{n}m3,rule=tight") for n in range(3, 9)])
    assert " and 2 more; rule=tight" in tight_overflows(many)
    traces = pd.concat([table.assign(trace=name) for name in ("a", "b")])
    assert f"{specs[0]} in ring of b (6 steps); rule=tight" in tight_overflows(traces)
