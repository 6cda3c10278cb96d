"""A trace of samples of tensors: a replay's counts and sums are those of the whole."""

import numpy as np
import pandas as pd
import pytest

from apscope import replay, schemes, search
from tests.python.recorded import record

SCHEMES = ["aps:e3m4", "qsgd", "none:bf16"]
#: Columns of numbers that a sample multiplies, beside the counts of elements and bits.
SUMS = (
    "counted", "nonzero", "underflow", "sum_error", "sum_squared_error", "sum_squared_reference",
    "sum_signed_error", "sum_absolute_reference", "sum_product", "sum_noise", "noise_blocks",
    "sum_log2_error_over_noise", "split_rounding",
)  # fmt: skip
RATIOS = ("nmse", "cosine", "gain", "mse", "bias", "underflow_rate", "error_over_noise",
          "pooled_error_over_noise")  # fmt: skip


def written(path, sampled_from=None):
    random = np.random.default_rng(3)
    steps = [
        {
            "a": random.normal(0, 1, (4, 8, 64)).astype(np.float32),
            "b": random.normal(0, 1e-3, (4, 160)).astype(np.float32),
        }
        for _ in range(3)
    ]
    return record(path, steps, sampled_from=sampled_from)


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


#: Schemes of every way to count side information: none, a tensor's, blocks', or both; of these
#: sizes all messages of a scheme have one length.
SCALED = [
    "none:e4m3", "aps:e3m4", "aps:e3m4,unit=row", "aps:e3m4,unit=16", "aps:e3m4,delay=1",
    "cpd:e5m2", "loss_scaling:e4m3,scale=best", "dynamic_loss_scaling:e5m2",
    "current_scaling:e4m3", "current_scaling:e4m3,agree=local",
    "current_scaling:e4m3,agree=local,pow2=true", "current_scaling:e4m3,block=16",
    "delayed_scaling:e4m3", "fp8_allreduce:e4m3", "fp8_two_shot:e4m3", "fp8_two_shot:e4m3,group=32",
    "mx", "mx:block_format=mxfp4,along=row", "nvfp4", "nvfp4:tensor_scale=false",
    "nvfp4:agree=local,rht=false", "quickreduce", "qsgd:bucket=64", "terngrad", "zipml:levels=4",
    "zipml:levels=4,bucket=64", "fractrain", "natural", "stochastic:e4m3", "bit_centering",
    "integer_allreduce:chunk=64", "sign", "sign_vote", "birder", "onebit_adam:warmup=0",
    "multipoint", "residual(sign)", "residual(aps:e3m4)", "error_feedback(sign)",
    "error_feedback(qsgd:bucket=64)", "random_k", "top_k",
]  # fmt: skip


#: The length of a message with these depends on the values or is not proportional to the elements.
VARIES = ["fft_sparse", "fft_sparse:bucket=64"]


@pytest.mark.parametrize("spec", SCALED + VARIES)
def test_the_bits_are_those_of_the_whole(tmp_path, spec):
    """Not five times the scale of a tensor that has one."""
    topologies = ["ring", "two_phase", "hierarchical:2(two_phase,two_phase)"]
    random, found = np.random.default_rng(5), []
    for rows_of_a, whole in ((8, {"a": 5 * 512}), (40, None)):
        a = random.normal(0, 1, (4, rows_of_a, 64)).astype(np.float32)
        trace = record(tmp_path / str(rows_of_a), [{"a": a}], loss=1.0, sampled_from=whole)
        # Beside a scheme that every topology reduces.
        frame = replay(trace, [spec, "none:fp32"], topology=topologies).frame
        frame = frame[frame["scheme"] != "none:fp32"].set_index(["topology", "stage"])
        found.append(frame[["side_bits"] if spec in VARIES else ["wire_bits", "side_bits"]])
    pd.testing.assert_frame_equal(*found)
    assert len(found[0]) > 1


def test_the_volume_is_that_of_the_whole(tmp_path):
    """A scale's byte is a smaller part of it."""
    frames = []
    for rows_of_a, whole in ((8, {"a": 5 * 512}), (40, None)):
        a = np.full((4, rows_of_a, 64), 1.5, np.float32)
        trace = record(tmp_path / str(rows_of_a), [{"a": a}], sampled_from=whole)
        frame = replay(trace, ["aps:e3m4", "nvfp4"], topology=["ring", "two_phase"]).frame
        frames.append(frame.set_index(["scheme", "topology", "stage"])["volume"])
    pd.testing.assert_series_equal(*frames)


def test_the_one_row_of_a_vector_has_one_scale(tmp_path):
    v = np.tile(np.arange(1, 33, dtype=np.float32), (2, 1))
    trace = record(tmp_path / "t", [{"v": v}], sampled_from={"v": 320})
    frame = replay(trace, "aps:e3m4,unit=row", topology="ring").frame
    assert set(frame["side_bits"]) == {8} and set(frame["wire_bits"]) == {8 * 320}


def test_blocks_of_the_noise_are_those_of_the_rows(tmp_path):
    """40 elements are two blocks, of which the second is short; 200 are seven."""
    a = np.random.default_rng(0).normal(0, 1, (4, 5, 8)).astype(np.float32)
    trace = record(tmp_path / "t", [{"a": a}], sampled_from={"a": 200})
    results = replay(trace, "aps:e3m4", topology="ring")
    rows = results.frame[results.frame["stage"] == "reduced"]
    assert set(rows["noise_blocks"]) == set(results.noise["noise_blocks"]) == {10}
    assert set(results.noise["blocks"]) == {10}


def test_buckets_are_filled_by_the_whole_sizes(tmp_path):
    """From the last tensor on, until a bucket has 1 KiB or more: c alone, then b and a."""

    def units(sampled_from):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        step = {name: np.full((2, 160), 128.0**i, np.float32) for i, name in enumerate("abc")}
        trace = record(folder, [step], sampled_from=sampled_from)
        frame = replay(trace, "aps:e3m4,unit=bucket:1KB", topology="ring").frame
        rows = frame[frame["stage"] == "wire"].set_index("tensor")
        return rows["side_bits"].to_dict(), rows["scale_exponent"].to_dict()

    bits, exponents = units(None)
    assert bits == {"a": 8, "b": 0, "c": 8} and exponents["b"] == exponents["c"] < exponents["a"]
    bits, exponents = units({"c": 5 * 160})
    assert bits == {"a": 0, "b": 8, "c": 8} and exponents["a"] == exponents["b"] > exponents["c"]


@pytest.mark.parametrize("spec", ["mx:bucket=25MB", "aps:e3m4,unit=16,bucket=1KB"])
def test_blocks_that_cross_tensors_are_refused(traces, spec):
    words = "has blocks that cross tensors, but 'a' is a sample of a tensor in this trace; leave"
    with pytest.raises(ValueError, match=words):
        replay(traces[1], spec, topology="ring")
    assert len(replay(traces[0], spec, topology="ring"))


#: Whether a scheme mixes elements, of every family: factors, rotations, transforms, the largest.
MIXES = {
    "powersgd:rank=1": True, "error_feedback(powersgd:rank=1)": True, "thc": True, "top_k": True,
    "fft_sparse": True, "fft_sparse:bucket=64": False, "residual(fft_sparse)": True,
    "error_feedback(top_k)": True, "hybrid(name:a=top_k;else=aps:e3m4)": True,
    "hybrid(name:b=top_k;else=aps:e3m4)": False, "random_k": False, "zero_blocks": False,
    "none:bf16": False, "aps:e3m4": False, "aps:e3m4,unit=row": False, "mx": False, "nvfp4": False,
    "qsgd": False, "zipml": False, "sign": False, "integer_allreduce": False, "terngrad": False,
}  # fmt: skip


@pytest.mark.parametrize("spec", MIXES)
def test_rows_of_what_mixes_elements_say_that_they_are_of_a_sample(traces, spec):
    for trace, sampled in zip(traces, (set(), {"a"})):
        topologies = ["ring", "two_phase,phase2=(aps:e3m4)"]
        frame = replay(trace, spec, topology=topologies).frame
        noted = frame["note"].fillna("") == "of a sample of the tensor"
        assert set(frame.loc[noted, "tensor"]) == (sampled if MIXES[spec] else set())
        assert noted[frame["tensor"].isin(sampled)].all() == (MIXES[spec] or not sampled)


def test_parts_of_a_callers_own_may_mix(traces):
    made = schemes.define(
        "turned_around", "none:bf16", forward=lambda step, state, x: x[:, ::-1],
        inverse=lambda step, state, row: row[::-1],
    )  # fmt: skip
    frame = replay(traces[1], made, topology="ring").frame
    noted = frame["note"].fillna("") == "of a sample of the tensor"
    assert set(frame.loc[noted, "tensor"]) == {"a"} and noted[frame["tensor"] == "a"].all()


def test_what_finishes_in_two_phases_may_mix(traces):
    """And what levels are made of."""
    for spec, topology in (
        ("aps:e3m4", "two_phase,phase2=(top_k)"), ("top_k", "hierarchical:2(two_phase,two_phase)"),
    ):  # fmt: skip
        frame = replay(traces[1], spec, topology=[topology, "exact"]).frame
        noted = frame[frame["note"].fillna("") == "of a sample of the tensor"]
        assert topology in set(noted["topology"]) and set(noted["tensor"]) == {"a"}


@pytest.mark.parametrize("minimize", ["error_over_noise", "step_nmse", "layer_cosine"])
def test_a_search_that_stops_early_finds_the_same_winner(traces, minimize):
    stopped, whole = (
        search(traces[1], bits=6, minimize=minimize, stop=stop) for stop in (True, False)
    )
    assert stopped.iloc[0]["scheme"] == whole.iloc[0]["scheme"]


@pytest.mark.parametrize(
    "given, said",
    [
        (100, r"sampled_from of 'a' is 100, but a sample of 512 elements was added"),
        (-1, r"sampled_from of 'a' is -1, but a sample of 512 elements was added"),
    ],
)
def test_a_sample_larger_than_its_whole_is_refused(tmp_path, given, said):
    with pytest.raises(ValueError, match=said):
        written(tmp_path / "t", {"a": given})
