"""The column ``bits_above_limit`` of a summary, and the table that results keep for it: only of
reductions whose error the limit bounds, and the same bytes wherever it was computed."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import apscope
from apscope._rate_limit import measure
from apscope._rate_limit.bound import Bound, OfSum
from apscope._rate_limit.known import known_limits
from apscope._results.limits import bits_above_limit
from apscope.cli import main
from tests.python.folders.test_check import replace_table
from tests.python.recorded import record

ROOT = Path(__file__).parents[3]
CHARACTERS = str(ROOT / "notebooks/data/characters")
SCHEMES = ["mx:block_format=mxint8", "aps:e4m3fn,rule=tight", "qsgd", "none:fp16"]
TOPOLOGIES = [
    "ring", "two_phase", "tree", "hierarchical:4", "reduce_scatter", "two_phase,own=exact",
    "two_phase,phase2=(none:bf16)", "sequential",
]  # fmt: skip


@pytest.fixture(scope="module")
def results():
    return apscope.replay(CHARACTERS, SCHEMES, topology=TOPOLOGIES, limit=True)


@pytest.fixture(scope="module")
def limit():
    return apscope.limit(CHARACTERS, [], bits=[])


def of(table: pd.DataFrame, spec: str, topology: str) -> pd.Series:
    return table[(table["scheme"] == spec) & (table["topology"] == topology)].iloc[0]


def log2_above(error: float, least: float) -> float:
    return 0.5 * math.log2(error / least)


def test_column_is_the_distance_from_the_limit_where_it_is_one(results, limit):
    table, (spec, aps, _, half) = results.summary(), SCHEMES
    for name, topology in ((aps, "ring"), (aps, "two_phase"), (spec, "two_phase")):
        row = of(table, name, topology)
        least = limit.over_noise(32 * row["volume"])
        wanted = log2_above(row["error_over_noise"], least)
        assert wanted > 1 and row["bits_above_limit"] == pytest.approx(wanted, rel=1e-12)
    up, down = limit._of_sum.up, limit._of_sum.down
    row = of(table, spec, "two_phase,own=exact")  # the owner's own row is no message
    assert row["bits_above_limit"] == pytest.approx(
        log2_above(row["error_over_noise"], down.at(32 * row["volume"])), rel=1e-12
    )
    row = of(table, spec, "reduce_scatter")  # nothing is sent back
    assert row["bits_above_limit"] == pytest.approx(
        log2_above(row["error_over_noise"], up.at(64 * row["volume"])), rel=1e-12
    )
    # of 16 bits and more there is no limit with this number of values
    assert math.isnan(of(table, half, "two_phase")["bits_above_limit"])
    row = of(table, spec, "two_phase,phase2=(none:bf16)")
    least = limit._of_sum.divided(32 * row["volume"])[0]
    assert row["bits_above_limit"] == pytest.approx(
        log2_above(row["error_over_noise"], least), rel=1e-12
    )
    # no limit of these: they send values more often, to others, or nothing
    for topology in ("gather", "exact", "tree", "hierarchical:4", "sequential"):
        held = table.loc[table["topology"] == topology, "bits_above_limit"]
        assert len(held) and held.isna().all()


def test_no_row_is_below_the_best_division_of_its_bits():
    """`divided` against all divisions of the bits in steps of a thousandth."""
    rng = np.random.default_rng(3)
    up = Bound.of(rng.laplace(size=50_000), 50_000, 0.4, 0)
    down = Bound.of(rng.standard_normal(20_000), 25_000, 2.5, 0)
    both = OfSum(up, down)
    for bits in (1.0, 2.5, 4.0, 6.0):
        taken = np.linspace(-bits, bits, 1 + int(2000 * bits))
        limits = [np.nan_to_num(b.at(r)) for b, r in ((up, bits - taken), (down, bits + taken))]
        least = np.maximum(*limits).min()
        found = both.divided(bits)[0]
        assert found <= least * (1 + 1e-9) and found == pytest.approx(least, rel=2e-3)
        assert found < both.at(bits)
    assert np.isnan(both.divided(math.nan)).all() and math.isnan(both.at(math.nan))


def test_which_limit_a_reduction_has():
    known = apscope.limit(CHARACTERS, [], bits=[])
    fake = {"t": type("Known", (), {"of_sum": known._of_sum})}
    cases = {
        ("aps:e4m3fn", "nccl:ring"): known.over_noise(4.0),
        ("aps:e4m3fn", "fp32_accumulate"): known.over_noise(4.0),
        ("fp8_two_shot:e4m3fn", "own:two_phase"): known.over_noise(4.0),
        ("aps:e4m3fn,accumulate=fp32", "two_phase"): known.over_noise(4.0),
        ("terngrad", "code_sum"): known._of_sum.divided(4.0)[0],
        ("mx", "two_phase,phase2=(mx:block_format=mxfp4)"): known._of_sum.divided(4.0)[0],
        ("mx", "two_phase,sum=bf16,own=exact"): known._of_sum.down.at(4.0),
        ("mx", "reduce_scatter"): known._of_sum.up.at(8.0),
        ("mx", "reduce_scatter,own=exact"): math.nan,
        ("mx", "two_phase,own=exact,phase2=(mx:block_format=mxfp4)"): math.nan,
        ("aps:e4m3fn,accumulate=fp32", "ring"): math.nan,
        ("birder:group=2", "own:two_phase"): math.nan,
        # chosen elements: all bits are those of the 80 % of the blocks with noise
        ("top_k", "two_phase"): known.over_noise(5.0),
        ("error_feedback(top_k)", "reduce_scatter"): known._of_sum.up.at(10.0),
        ("ok_topk", "own:two_phase"): known._of_sum.divided(5.0)[0],
        ("sparcml", "streams"): math.nan,
        ("dynamiq", "own:ring"): known.over_noise(4.0),
        ("dynamiq:topology=butterfly", "own:butterfly"): known.over_noise(4.0),
        ("aps:e4m3fn", "double_tree"): math.nan,
        ("powersgd", "linear"): math.nan,
        ("mx", "gather"): math.nan,
        ("mx", "exact"): math.nan,
        ("mx", ""): math.nan,
    }
    table = pd.DataFrame(
        [("t", *key, 0.25, 4 / 32) for key in cases],
        columns=["trace", "scheme", "topology", "error_over_noise", "volume"],
    )
    found = bits_above_limit(table, fake, 1.0, {"t": 0.8})
    for key, above, least in zip(cases, found, cases.values(), strict=True):
        wanted = math.nan if math.isnan(least) else log2_above(0.25, least)
        assert above == pytest.approx(wanted, rel=1e-12, nan_ok=True), key
    # twice the noise halves the error over it, and its limit
    assert bits_above_limit(
        table.assign(error_over_noise=0.5), fake, 2.0, {"t": 0.8}
    ) == pytest.approx(found, nan_ok=True)
    others = table.assign(volume=math.nan), table.assign(trace="u")
    assert all(np.isnan(bits_above_limit(other, fake, 1.0, {})).all() for other in others)


def test_overflow_is_infinitely_far_and_a_batch_factor_changes_nothing(results, tmp_path):
    one, four = results.summary(), results.summary(batch_factor=4)
    key = ["scheme", "topology"]
    both = one.merge(four, on=key)
    assert (both["error_over_noise_y"] == 4 * both["error_over_noise_x"]).all()
    assert both["bits_above_limit_x"].to_numpy() == pytest.approx(
        both["bits_above_limit_y"].to_numpy(), nan_ok=True
    )
    x = np.random.default_rng(0).standard_normal((2, 40_000))
    x[0, 0] = 1e6
    trace = record(tmp_path / "trace", [{"a": x}])
    table = apscope.replay(trace, "none:e4m3,overflow=ieee", topology="two_phase", limit=True)
    assert of(table.summary(), "none:e4m3", "two_phase")["bits_above_limit"] == math.inf


def test_no_scheme_is_below_the_limit_of_independent_elements(tmp_path):
    rng = np.random.default_rng(1)
    mean = rng.laplace(size=16_384)
    noisy = [{"a": mean + rng.standard_normal((4, 16_384))} for _ in range(2)]
    schemes = ["mx:block_format=mxint8", "mx:block_format=mxfp4", "aps:e3m4,rule=tight",
               "qsgd", "sign", "terngrad", "fft_sparse", "top_k"]  # fmt: skip
    topology = ["ring", "two_phase", "reduce_scatter", "two_phase,own=exact"]
    trace = record(tmp_path / "noisy", noisy)
    above = apscope.replay(trace, schemes, topology=topology, limit=True).summary()
    above = above["bits_above_limit"].dropna()
    assert len(above) > 2 * len(schemes) and (above > 0.25).all()


def test_a_scheme_that_chooses_places_is_below_the_limit_of_a_smooth_gradient(tmp_path):
    """A Fourier transform is; blocks are above, as of independent elements."""
    rng = np.random.default_rng(1)
    at = 2 * np.pi * np.arange(16_384) / 16_384
    waves = np.sin(np.outer((3, 700, 1501), at))
    smooth = [{"a": (1 + 0.1 * rng.standard_normal((4, 3))) @ waves} for _ in range(2)]
    found = apscope.replay(
        record(tmp_path / "smooth", smooth),
        ["fft_sparse", "mx:block_format=mxfp4"],
        topology="two_phase",
        limit=True,
    ).summary()
    assert of(found, "fft_sparse", "two_phase")["bits_above_limit"] < -1
    assert of(found, "mx:block_format=mxfp4", "two_phase")["bits_above_limit"] > 0.25


def test_blocks_of_zeros_bring_no_scheme_that_chooses_elements_below_the_limit(tmp_path):
    """With 15 of 16 blocks zero, as of rows of an embedding that no sample uses."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((16384, 32)) + rng.standard_normal((4, 16384, 32))
    x[:, np.arange(16384) % 16 != 0] = 0
    trace = record(tmp_path / "trace", [{"a": x.reshape(4, -1)}])
    found = apscope.replay(
        trace,
        ["top_k:keep=0.01,index=packed", "top_k:keep=0.005"],
        topology="two_phase",
        limit=True,
    )
    above = found.summary()["bits_above_limit"].dropna()
    assert len(above) == 2 and (above > 0.25).all()


@pytest.mark.parametrize("name", ["characters", "digits", "digits_w64"])
def test_no_row_of_main_is_below_the_limit_of_a_bundled_trace(name):
    trace = str(ROOT / "notebooks/data" / name)
    schemes = ["mx:block_format=mxfp4", "mx:block_format=bfp:4:32", "mx:block_format=mxint8",
               "aps:e2m5,rule=tight,unit=32", "aps:e4m3fn,rule=tight"]  # fmt: skip
    found = apscope.replay(trace, schemes, topology=["ring", "two_phase"], limit=True).summary()
    above = found["bits_above_limit"].dropna()
    assert len(above) >= 2 and (above > 1.3).all() and (above < 15).all()


# ---- The table --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limit") / "r"
    saved(folder)
    return folder


def saved(folder, **options) -> bytes:
    apscope.replay(CHARACTERS, ["mx", "qsgd"], topology="ring", limit=True, **options).save(folder)
    return (folder / "limit.parquet").read_bytes()


def test_results_keep_it_and_an_opened_folder_has_the_same_column(results, tmp_path, capsys):
    results.save(tmp_path / "r")
    opened = apscope.Results.open(tmp_path / "r")
    assert opened.limit.equals(results.limit) and len(opened.limit) > 60
    column = results.summary()["bits_above_limit"]
    assert opened.summary()["bits_above_limit"].equals(column) and column.notna().any()
    assert main(["check", str(tmp_path / "r")]) == 0
    capsys.readouterr()
    assert main(["summary", str(tmp_path / "r"), "--json"]) == 0
    told = [row["bits_above_limit"] for row in json.loads(capsys.readouterr().out)]
    assert told == [None if math.isnan(x) else x for x in column]
    assert main(["summary", str(tmp_path / "r")]) == 0
    assert "bits_above_limit" in capsys.readouterr().out
    assert opened.provenance["command"].endswith(" --limit")
    assert pd.isna(apscope.Results(results.frame, results.histograms, results.provenance)
                   .summary()["bits_above_limit"]).all()  # fmt: skip


def test_without_it_the_folder_and_the_summary_are_as_before(tmp_path, capsys):
    found = apscope.replay(CHARACTERS, ["mx"], topology="two_phase", steps="0:1")
    saved(tmp_path / "r", steps="0:1")
    found.save(tmp_path / "r", force=True)  # replaces one that had a limit
    names = sorted(p.name for p in (tmp_path / "r").iterdir())
    assert names == [
        "histograms.parquet", "noise.parquet", "provenance.json", "results.csv", "results.parquet",
    ]  # fmt: skip
    told = (tmp_path / "r/provenance.json").read_text()
    assert "--limit" not in told and "limit.parquet" not in told
    opened = apscope.Results.open(tmp_path / "r")
    assert len(opened.limit) == 0 and opened.summary()["bits_above_limit"].isna().all()
    assert main(["summary", str(tmp_path / "r")]) == 0
    assert "bits_above_limit" not in capsys.readouterr().out


def test_threads_and_shards_change_no_byte(tmp_path):
    whole = saved(tmp_path / "whole", threads=1)
    assert saved(tmp_path / "threads", threads=3) == whole
    for i in range(3):
        rest = apscope.replay(CHARACTERS, ["mx", "qsgd"], topology="ring", limit=True, shard=(i, 3))
        rest.save(tmp_path / f"shard{i}")
        assert (tmp_path / f"shard{i}/limit.parquet").exists() == (i == 0)
    apscope.merge([tmp_path / f"shard{i}" for i in (2, 0, 1)]).save(tmp_path / "merged")
    assert (tmp_path / "merged/limit.parquet").read_bytes() == whole
    files = [json.loads((tmp_path / name / "provenance.json").read_text()) for name in
             ("whole", "merged")]  # fmt: skip
    assert files[0] == files[1]


def test_pieces_of_a_tensor_are_those_of_the_whole(monkeypatch):
    """But for the order of a sum of logarithms."""
    options = {"topology": "ring", "limit": True, "steps": "0:1"}
    whole = apscope.replay(CHARACTERS, "none:e4m3fn", **options).limit
    monkeypatch.setattr(measure, "PIECE", 100)
    pieces = apscope.replay(CHARACTERS, "none:e4m3fn", **options).limit
    exact = ["trace", "kind", "elements", "values", "width", "entropy", "bits"]
    assert pieces[exact].equals(whole[exact])
    for name in ("unit", "error"):
        assert pieces[name].to_numpy() == pytest.approx(
            whole[name].to_numpy(), rel=1e-12, nan_ok=True
        )


def test_dask_gives_the_same_table(tmp_path):
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 1, "threads_per_worker": 1, "processes": False,
                "dashboard_address": None}  # fmt: skip
    whole = saved(tmp_path / "here", steps="0:1")
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        assert saved(tmp_path / "dask", steps="0:1", client=client) == whole


def test_replays_of_other_schemes_and_traces_merge(tmp_path):
    digits = str(ROOT / "notebooks/data/digits")
    options = {"topology": "two_phase", "steps": "0:1"}
    parts = [
        apscope.replay(CHARACTERS, "mx", **options),
        apscope.replay(CHARACTERS, "qsgd", limit=True, **options),
        apscope.replay(digits, ["mx", "qsgd"], limit=True, **options),
    ]
    both = apscope.merge([apscope.merge(parts[:2]), parts[2]])
    wanted = pd.concat([parts[1].limit, parts[2].limit], ignore_index=True)
    assert both.limit.equals(wanted)
    for trace in ("characters", "digits"):
        table = both.summary()
        rows = table[(table["trace"] == trace) & (table["topology"] == "two_phase")]
        assert len(rows) == 2 and rows["bits_above_limit"].notna().all()


@pytest.mark.parametrize(
    "steps, options",
    [
        ([{"a": np.ones((1, 64))}], {}),
        ([{"a": np.zeros((2, 64))}], {}),
        ([{"a": np.full((2, 64), np.nan)}], {}),
        ([{"a": np.ones((3, 64))}], {}),  # all workers agree
        ([{"a": np.arange(128.0).reshape(2, 64)}], {"stage": "clipped"}),
        ([{"a": np.zeros((2, 0))}], {}),
    ],
    ids=["one worker", "zeros", "NaN", "no noise", "clipped", "empty"],
)
def test_what_has_no_noise_has_no_limit(tmp_path, steps, options, capsys):
    trace = record(tmp_path / "trace", steps, **options)
    found = apscope.replay(trace, "mx", topology="two_phase", limit=True)
    assert len(found.limit) == 0 and found.summary()["bits_above_limit"].isna().all()
    found.save(tmp_path / "r")
    assert not (tmp_path / "r/limit.parquet").exists()
    assert len(apscope.Results.open(tmp_path / "r")) == len(found)
    words = ["replay", str(trace.path), "--scheme", "mx", "--limit", "-o"]
    assert main([*words, str(tmp_path / "said")]) == 0
    why = "one worker was replayed" if len(steps[0]["a"]) == 1 else "gradients"
    assert (
        "trace has no limit, because the limit is relative to the noise of the batch, which "
        in (out := capsys.readouterr().out)
        and why in out
    )
    assert main([*words, str(tmp_path / "shard"), "--shard", "1/2"]) == 0
    assert "no limit" not in capsys.readouterr().out


def test_selection_is_that_of_the_replay():
    options = {"steps": "0:1", "tensors": "fc1", "workers": 3}
    found = apscope.replay(CHARACTERS, "mx", topology="ring", limit=True, **options)
    wanted = apscope.limit(CHARACTERS, [], bits=[2], **options)
    known = known_limits(found.limit)["characters"]
    assert known.of_sum.at(2.0) == wanted.over_noise(2.0)
    assert [bits for bits, _ in known.grids] == [2, 4, 6, 8]


@pytest.mark.parametrize(
    "column, value, sentence",
    [
        ("entropy", math.inf, "widths that are not of one set of values"),
        ("width", 0.0, "widths that are not of one set of values"),
        ("unit", 0.0, "widths that are not of one set of values"),
        ("values", 10**9, "widths that are not of one set of values"),
        ("kind", "across", "rows of an unknown kind 'across'"),
        ("error", math.nan, "a grid without its bits and its error"),
    ],
)
def test_check_finds_a_table_that_no_trace_gives(
    one_folder, tmp_path, capsys, column, value, sentence
):
    shutil.copytree(one_folder, tmp_path / "r")
    table = pq.read_table(tmp_path / "r/limit.parquet").to_pandas()
    table.loc[len(table) - 1 if column == "error" else 3, column] = value
    made = pq.ParquetFile(tmp_path / "r/limit.parquet").schema_arrow
    replace_table(
        tmp_path / "r", "limit.parquet", pa.Table.from_pandas(table, made, preserve_index=False)
    )
    for verb, code in (("check", 1), ("summary", 2)):
        assert main([verb, str(tmp_path / "r")]) == code
        captured = capsys.readouterr()
        assert sentence in captured.out + captured.err


def test_a_flipped_bit_a_missing_end_and_a_missing_file_are_found(one_folder, tmp_path, capsys):
    shutil.copytree(one_folder, tmp_path / "r")
    data = bytearray((tmp_path / "r/limit.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    for damaged in (data, data[:-1], None):
        path = tmp_path / "r/limit.parquet"
        path.unlink() if damaged is None else path.write_bytes(damaged)
        assert main(["check", str(tmp_path / "r")]) == 1
        assert "limit.parquet" in capsys.readouterr().out
        with pytest.raises(ValueError, match=r"limit\.parquet"):
            apscope.Results.open(tmp_path / "r")


def test_a_sample_has_no_limit_and_says_so(tmp_path, capsys):
    gpt = str(ROOT / "notebooks/data/gpt")
    words = [gpt, "--steps", "20:21", "--tensors", "norm"]
    assert main(["replay", *words, "--scheme", "mx", "--limit", "-o", str(tmp_path / "r")]) == 0
    out = capsys.readouterr().out
    assert "gpt has no limit, because it is a sample, and blocks of the whole are unknown" in out
    assert main(["limit", *words]) == 0
    assert "samples of larger ones; all figures are of the samples alone" in capsys.readouterr().out
    assert apscope.limit(gpt, steps="20:21", tensors="norm").is_sample
