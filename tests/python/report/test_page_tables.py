"""The tables in the page: what is kept of rows, and figures of filtered layers as the summary of
these layers has them."""

import gzip
import json
import math
import re

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._report import page
from apscope._report.page_size import fitted
from apscope._report.payload import base64_of, pack
from apscope._report.tables import ROWS, histograms_of, tables_of
from apscope._results.figures import columns_of
from apscope._results.pooling import PARTS, coded
from tests.python.altered import altered

SCHEMES = ["none:fp32", "none:bf16", "none:e4m3", "loss_scaling:e4m3,scale=largest", "aps:e4m3",
           "loss_scaling:e5m2,scale=largest", "aps:e5m2", "none:e5m2",
           "aps:e4m3,rounding=stochastic", "stochastic:e4m3", "loss_scaling:e3m4,scale=largest",
           "aps:e3m4", "dynamic_loss_scaling:e4m3", "qsgd", "error_feedback(aps:e4m3)",
           "hybrid(last=qsgd;else=aps:e4m3)"]  # fmt: skip


@pytest.fixture(scope="module")
def results(request):
    return apscope.replay(
        request.config.rootpath / "notebooks/data/digits", SCHEMES,
        steps=[0, 1, 8, 9, 34, 240, 480, 1500], topology=["ring", "tree", "two_phase"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def opened(browser, results, tmp_path_factory):
    browser.show(page(results), tmp_path_factory.mktemp("page"))
    return browser


def assert_digits(found, wanted, what):
    """Equal to a hundredth of a percent: three digits are printed."""
    if found is None:
        assert wanted is None or wanted is pd.NA or not np.isfinite(wanted), what
    else:
        assert found == pytest.approx(float(wanted), rel=1e-4, abs=1e-9), what


@pytest.mark.parametrize(
    "kept", ["role norm", "role conv", "layer norm.bias", "layer conv1.weight"]
)
def test_filtered_figures_are_those_of_a_summary_of_these_layers(opened, results, kept):
    kind, _, name = kept.partition(" ")
    frame = results.frame
    frame = frame[frame[{"role": "role", "layer": "tensor"}[kind]] == name].reset_index(drop=True)
    assert 0 < frame["tensor"].nunique() < results.frame["tensor"].nunique()
    summary = altered(results, frame).summary()
    opened.choose("#filters select[aria-label=layers]", kept)
    records = {
        (r["scheme"], r["topology"]): r for r in opened.run("apscopePage.view().everyTopology")
    }
    assert set(records) == set(zip(summary["scheme"], summary["topology"]))
    for row in summary.to_dict("records"):
        found = records[row["scheme"], row["topology"]]
        others = ("worst_layer", "worst_step", "layer_cosine", "relative_bias")
        for column in set(columns_of(page="part")) - set(others):
            assert_digits(found[column], row[column], (row["scheme"], row["topology"], column))
        assert [found[c] for c in others[:2]] == [row[c] for c in others[:2]]
        distance = 1 - found["layer_cosine"]
        assert distance == pytest.approx(1 - row["layer_cosine"], rel=1e-3, abs=1e-4)
        assert found["relative_bias"] == pytest.approx(row["relative_bias"], rel=1e-3, abs=1e-5)


def test_the_columns_that_the_page_reads_are_there_though_they_are_empty(request):
    trace = request.config.rootpath / "notebooks/data/digits"
    skipped = apscope.replay(trace, "dynamic_loss_scaling:fp16,init=1073741824", steps="0:2")
    assert skipped.frame["skipped"].all()
    for results in (skipped, apscope.replay(trace, "qsgd", steps="0:2")):
        tables = tables_of(coded(results.frame), results.summary())
        assert set(ROWS) <= set(tables["rows"]) and {"mse", *PARTS} <= set(tables["figures"])
        assert {*columns_of(page="part"), "filter", "mse", *PARTS} <= set(tables["filtered"])


def large(layers=400, steps=50, schemes=25, seed=0):
    """Rows as a replay of a large model gives them, of random numbers: a wire row, exact and four
    topologies a cell."""
    random = np.random.default_rng(seed)
    topologies = ["", "exact", "sequential", "ring", "tree", "hierarchical:4"]
    count = steps * layers * schemes * len(topologies)
    step, layer, scheme, topology = (
        a.ravel()
        for a in np.meshgrid(
            np.arange(steps),
            np.arange(layers),
            np.arange(schemes),
            np.arange(len(topologies)),
            indexing="ij",
        )
    )

    def text(codes, names):
        return pd.Categorical.from_codes(codes, names)

    reference = np.exp(random.normal(size=(steps, layers)))[step, layer]
    frame = pd.DataFrame({
        "trace": text(np.zeros(count, int), ["large"]), "step": step,
        "tensor": text(layer, [f"layers.{i}.weight" for i in range(layers)]),
        "role": text(np.zeros(count, int), ["linear"]),
        "scheme": text(scheme, [f"aps:e4m3,delay={i}" for i in range(schemes)]),
        "format": text(np.zeros(count, int), ["e4m3"]), "topology": text(topology, topologies),
        "stage": text((topology > 0) * 1, ["wire", "reduced"]),
        "workers": 8, "skipped": False, "count": 1_000_000, "counted": 1_000_000,
        "nonzero": random.integers(900_000, 1_000_000, count),
        "underflow": random.integers(0, 100_000, count), "overflow": 0,
        "sum_squared_reference": reference, "sum_absolute_reference": np.sqrt(reference),
        "scale_exponent": random.integers(-8, 8, count), "wire_bits": 8_000_000, "side_bits": 8,
    })  # fmt: skip
    for name in """
        nmse sum_signed_error expected_variance expected_bias cosine max_ulp
        sum_error rescaled_nmse
    """.split():
        frame[name] = random.normal(size=count) * reference
    histograms = pd.DataFrame(
        {
            "trace": "large",
            "step": np.repeat(np.arange(steps), layers * 20),
            "tensor": np.tile(np.repeat([f"layers.{i}.weight" for i in range(layers)], 20), steps),
            "kind": "finite",
            "exponent": np.tile(np.arange(-20, 0), steps * layers),
            "count": 5,
        }
    )
    return frame, histograms


def test_three_million_rows_fit_into_15_mb_and_what_does_not_is_said():
    frame, histograms = large()
    assert len(frame) == 400 * 50 * 25 * 6
    frame = frame[[column for column in frame if column in ROWS]]
    filtered = frame[["trace", "scheme", "topology", "tensor"]].drop_duplicates(ignore_index=True)
    tables = {"rows": frame, "filtered": filtered, "histograms": histograms}
    tables, left_out = fitted(tables, "ring")
    # The library and the static part take less than 0.6 MB.
    assert len(base64_of(pack(tables))) < 14_300_000
    said = " ".join(left_out)
    assert "sequential, tree, hierarchical:4" in said
    held = int(re.search(r"evenly chosen: (\d+) of 50 of large", said)[1])
    assert held == tables["rows"]["step"].nunique() >= 8
    assert (
        {0, 49} <= set(tables["rows"]["step"])
        and tables["rows"]["tensor"].nunique() == 400
        and set(tables["rows"]["topology"]) == {"", "exact", "ring"}
        and set(tables["filtered"]["topology"]) == {"", "exact", "ring"}
    )


def test_what_fits_is_left_alone(results):
    whole = tables_of(coded(results.frame), results.summary())
    whole["histograms"] = histograms_of(results.histograms)
    tables, left_out = fitted(whole, "ring")
    assert left_out == [] and all(tables[name] is whole[name] for name in whole)


def test_rows_have_four_digits_and_order_errors_as_the_results_do(results):
    keys = ["trace", "stage", "scheme", "topology", "tensor", "step"]
    frame = results.frame[~results.frame["scheme"].str.startswith("hybrid")]
    rows = tables_of(coded(frame.reset_index(drop=True)), results.summary())["rows"]
    both = frame.merge(rows, on=keys, suffixes=("", "_kept"))
    assert len(both) == len(rows) == len(frame)
    lost = both["skipped"] & (both["sum_squared_reference"] > 0)
    both["nmse"] = both["nmse"].astype(float).mask(lost, 1.0)  # as in every figure
    for column in ("nmse", "sum_squared_reference", "sum_absolute_reference"):
        kept = both[f"{column}_kept"].to_numpy()
        assert kept == pytest.approx(both[column].to_numpy(), rel=2.0**-13, nan_ok=True)
        fp32 = kept.astype(np.float32).astype(float)
        assert ((fp32 == kept) | np.isnan(kept)).all()  # the payload loses nothing more
    near = 0
    for _, cell in both.groupby(["stage", "tensor", "step"]):
        exact, kept = (cell[c].to_numpy() for c in ("nmse", "nmse_kept"))
        told = np.sign(exact[:, None] - exact) == np.sign(kept[:, None] - kept)
        assert (told | np.isnan(exact[:, None] - exact)).all()
        distance = np.abs(exact[:, None] - exact)
        near += int(((distance > 0) & (distance < 2.0**-14 * exact)).sum())
    assert near > 50  # whose order a rounded number alone would not tell


def test_numbers_beyond_fp32_keep_their_digits():
    numbers = pd.Series([1e-60, 3e-55, 0.0, np.nan, 7e-48])
    data = gzip.decompress(pack({"t": pd.DataFrame({"x": numbers})}))
    length = int.from_bytes(data[:4], "little")
    (column,) = json.loads(data[4 : 4 + length])["tables"]["t"]["columns"]
    stored = np.frombuffer(
        np.frombuffer(data[4 + length :], np.uint8).reshape(4, 5).T.tobytes(), "<f4"
    ).astype(float)
    back = np.ldexp(stored, -column["shift"])
    assert back == pytest.approx(numbers.to_numpy(), rel=1e-7, nan_ok=True) and math.isnan(back[3])
