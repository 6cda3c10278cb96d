"""A trace of samples of tensors: a replay's counts and sums are those of the whole."""

import numpy as np
import pandas as pd
import pytest

from apscope import open_trace, replay, search
from apscope.record import TraceWriter

SCHEMES = ["aps:e3m4", "qsgd", "none:bf16"]
#: Columns of numbers that a sample multiplies, beside the counts of elements and bits.
SUMS = (
    "counted", "nonzero", "underflow", "sum_error", "sum_squared_error", "sum_squared_reference",
    "sum_signed_error", "sum_absolute_reference", "sum_product", "sum_noise", "noise_blocks",
    "sum_log2_error_over_noise", "split_rounding",
)  # fmt: skip
RATIOS = ("nmse", "cosine", "gain", "mse", "bias", "underflow_rate", "error_over_noise", "volume",
          "pooled_error_over_noise")  # fmt: skip


def written(path, sampled_from=None):
    random = np.random.default_rng(3)
    with TraceWriter(path, workers=4, sampled_from=sampled_from) as writer:
        for step in range(3):
            for worker in range(4):
                writer.add(step, worker, "a", random.normal(0, 1, (8, 64)).astype(np.float32))
                writer.add(step, worker, "b", random.normal(0, 1e-3, 160).astype(np.float32))
            writer.end_step(step)
    return open_trace(path)


@pytest.fixture
def traces(tmp_path):
    return written(tmp_path / "plain"), written(tmp_path / "sampled", {"a": 5 * 512})


def rows(trace, tensor):
    frame = replay(trace, SCHEMES, topology="ring").frame
    return frame[frame.tensor == tensor].reset_index(drop=True)


def test_counts_and_sums_are_multiplied_and_ratios_stay(traces):
    plain, sampled = (rows(trace, "a") for trace in traces)
    assert (sampled["count"] == 5 * plain["count"]).all()
    assert (sampled["wire_bits"] == 5 * plain["wire_bits"]).all()
    for column in SUMS:
        pd.testing.assert_series_equal(
            sampled[column].astype(float), 5.0 * plain[column].astype(float), rtol=1e-14
        )
    for column in RATIOS:
        pd.testing.assert_series_equal(sampled[column], plain[column])


def test_a_whole_tensor_beside_it_stays_what_it_is(traces):
    pd.testing.assert_frame_equal(*(rows(trace, "b").drop(columns="trace") for trace in traces))


def test_a_summary_weighs_a_sample_as_the_whole(traces):
    """The typical block: the mean of log2 over the blocks, 80 of a instead of 16, and 5 of b."""
    sampled = replay(traces[1], "aps:e3m4", topology="ring")
    a, b = (
        sampled.frame.query("tensor == @name and topology == 'ring'")["error_over_noise"]
        for name in ("a", "b")
    )
    mean = (80 * np.log2(a).mean() + 5 * np.log2(b).mean()) / 85
    found = sampled.summary().reset_index().query("topology == 'ring'")["error_over_noise"]
    assert found.item() == pytest.approx(2.0**mean, rel=1e-12)


def test_the_noise_is_that_of_the_whole(traces):
    plain, sampled = (replay(trace, "aps:e3m4", topology="ring").noise for trace in traces)
    times = np.where(plain["tensor"] == "a", 5, 1)
    for column in ("elements", "blocks", "noise_blocks", "sum_squared_reference", "sum_noise"):
        np.testing.assert_allclose(sampled[column], times * plain[column], rtol=1e-14)


def test_the_interval_of_the_noise_is_that_of_the_sample(traces):
    """More copies of the same blocks tell no more about the workers."""
    plain, sampled = (
        replay(trace, "aps:e3m4", topology="ring", tensors="a").noise_facts() for trace in traces
    )
    numbers = plain.select_dtypes(float).columns
    pd.testing.assert_frame_equal(plain[numbers], sampled[numbers], rtol=1e-9)


@pytest.mark.parametrize("minimize", ["error_over_noise", "step_nmse", "layer_cosine"])
def test_a_search_that_stops_early_finds_the_same_winner(traces, minimize):
    stopped, whole = (
        search(traces[1], bits=6, minimize=minimize, stop=stop) for stop in (True, False)
    )
    assert stopped.iloc[0]["scheme"] == whole.iloc[0]["scheme"]


@pytest.mark.parametrize(
    "given, said",
    [
        (100, r"has sampled_from 100; a sample of it has 512 elements"),
        (-1, r"has sampled_from -1; it must be an integer of at least 0"),
    ],
)
def test_a_sample_larger_than_its_whole_is_refused(tmp_path, given, said):
    with pytest.raises(ValueError, match=said):
        written(tmp_path / "t", {"a": given})
