"""`apscope.limit` of traces: the groups and errors of its definition by a second implementation,
schemes that treat all elements alike above the line, and traces with little or nothing in them."""

import json
import math

import numpy as np
import pytest

import apscope
from apscope._charts.limit import limit_chart
from apscope._charts.svg import chart_svg
from apscope._rate_limit import blocks
from apscope._rate_limit.limit import ENTROPY_CODED, SCHEMES
from apscope.cli import main
from tests.python.recorded import record
from tests.reference import rate_limit as reference


def random_steps(seed: int, workers: int = 3, specials: bool = True) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    steps = []
    for _ in range(2):
        level = 2.0 ** rng.integers(-30, 10, (1, 700 // 50 + 1)).repeat(50, axis=1)[:, :700]
        a = rng.standard_normal((workers, 700)) * level * (rng.random((workers, 700)) < 0.9)
        a[:, 128:192] = 0
        if specials:
            a[0, 5], a[1, 300], a[2, 301] = np.inf, np.nan, -np.inf
        steps.append({"a": a, "b": rng.laplace(size=(workers, 37)), "zero": np.zeros((workers, 5))})
    return steps


def normalized(trace: apscope.Trace, block: int) -> np.ndarray:
    return np.concatenate(
        [
            reference.normalized(trace.read(step, tensor, worker).ravel(), block)
            for step in trace.steps
            for tensor in trace.tensors
            for worker in range(trace.workers)
        ]
    )


@pytest.mark.parametrize("seed, block", [(0, 32), (1, 16), (2, 1), (3, 1000)])
def test_limit_is_that_of_the_reference(tmp_path, seed, block):
    trace = record(tmp_path / "trace", random_steps(seed))
    found = apscope.limit(trace, [], bits=[1, 2.5], block=block)
    z = normalized(trace, block)
    rows = [
        trace.read(s, t, w).ravel().astype(float) for s in trace.steps for t in trace.tensors
        for w in range(trace.workers)
    ]  # fmt: skip
    runs = [r[i : i + block] for r in rows for i in range(0, len(r), block)]
    finite = [run[np.isfinite(run)] for run in runs]
    kept = [run for run in finite if run.any()]
    assert found.nonfinite == 6
    assert (found.blocks, found.zero_blocks) == (len(kept), len(runs) - len(kept))
    assert (found.values, found.elements) == (len(z), sum(map(len, kept)))
    assert len(found.widths) == len(found.entropies)
    for bits, least in found.curve[["bits", "limit"]].itertuples(index=False):
        share = len(z) / found.elements
        assert least == pytest.approx(share * reference.rate_limit(z, bits / share), rel=1e-8)
        assert found.at(bits) == least
    assert np.array_equal(found.at([1, 2.5]), found.curve["limit"])


def test_errors_of_schemes_are_those_of_the_messages(tmp_path):
    """By casts of the array: blocks of MX without a scheme's help."""
    trace = record(tmp_path / "trace", random_steps(4, specials=False))
    found = apscope.limit(trace, ["mx:block_format=mxfp4", "none:e4m3fn"], bits=[])
    squares, size = {"mx": 0.0, "none": 0.0}, 0
    for step in trace.steps:
        for tensor in trace.tensors:
            for worker in range(trace.workers):
                x = trace.read(step, tensor, worker).ravel()
                sent = {
                    "mx": apscope.quantize_blocks(x, "mxfp4"),
                    "none": apscope.quantize(x, "e4m3fn", overflow="saturate"),
                }
                for i in range(0, len(x), 32):
                    part = x[i : i + 32].astype(float)
                    if not part.any():
                        continue
                    unit = 4.0 ** math.floor(math.log2(math.fsum(part**2) / len(part)) / 2)
                    size += len(part)
                    for name, y in sent.items():
                        squares[name] += math.fsum((y[i : i + 32] - part) ** 2) / unit
    table = found.schemes.set_index("scheme")
    assert found.elements == size
    mx, none = table.iloc[0], table.iloc[1]
    assert mx["error"] == pytest.approx(squares["mx"] / size, rel=1e-12)
    blocks_of_all = sum(-(-n // 32) for n in (700, 37, 5))
    assert mx["bits"] == pytest.approx(4 + 8 * blocks_of_all / 742, rel=1e-12)
    assert none["bits"] == 8
    if not none["overflow"]:
        assert none["error"] == pytest.approx(squares["none"] / size, rel=1e-12)
    wanted = 0.5 * math.log2(mx["error"] / found.at(mx["bits"]))
    assert mx["bits_above_limit"] == pytest.approx(wanted, rel=1e-12)
    assert found.bits_above(mx["error"], mx["bits"]) == mx["bits_above_limit"]


#: Maps that treat all elements alike, given the block's scale or the tensor's.
ALIKE = [
    *SCHEMES, "aps:e2m1,rule=tight,unit=32", "aps:e2m5,rule=tight,unit=32", "stochastic:e4m3fn",
    "mx:rounding=stochastic", "qsgd", "sign", "terngrad", "zipml", "quickreduce:codec=int4",
]  # fmt: skip


@pytest.mark.parametrize("name, steps", [("characters", "0:400"), ("digits", "0:8")])
def test_no_scheme_that_treats_elements_alike_is_below_the_limit(request, name, steps):
    trace = request.config.rootpath / "notebooks/data" / name
    found = apscope.limit(trace, ALIKE, bits=[2, 4, 6, 8], steps=steps)
    for table in (found.grids, found.schemes):
        above = table["bits_above_limit"].dropna()
        assert len(above) >= len(table) - 2 and (above > 0.25).all()
    # A scale for 32 elements leaves an E4M3 gradient three bits above the limit, int8 1.1 to 1.4
    # where the elements of a block are alike.
    if name == "characters":
        table = found.schemes.set_index("scheme")["bits_above_limit"]
        assert 2.9 < table["mx"] < 3.4 and 1.1 < table["mx:block_format=mxint8"] < 1.4


def test_limit_over_the_noise_of_a_gaussian_trace(tmp_path):
    """Independent workers around a mean that is as large as its noise: messages to the sum lose
    4^-R of the workers' variance, the message with the sum 4^-R of the mean's and the noise's."""
    rng = np.random.default_rng(6)
    workers, size, signal = 8, 20_000, 3.0
    mean = signal * rng.standard_normal(size)
    steps = [{"a": mean + math.sqrt(workers) * rng.standard_normal((workers, size))}]
    found = apscope.limit(record(tmp_path / "trace", steps), [], bits=[3, 5])
    for row in found.curve.itertuples():
        # in the typical block of 32: the geometric means of squares and noises differ by percents
        assert row.up_over_noise == pytest.approx(4.0**-row.bits, rel=0.12)
        assert row.down_over_noise == pytest.approx((signal**2 + 1) * 4.0**-row.bits, rel=0.12)
        assert row.limit_over_noise == row.down_over_noise == found.over_noise(row.bits)
    error = 4 * found.over_noise(3)
    assert found.bits_above(error, 3, over_noise=True) == pytest.approx(1, abs=1e-12)


def test_two_phases_are_above_the_limit_over_the_noise(request):
    trace = request.config.rootpath / "notebooks/data/characters"
    found = apscope.limit(trace, [], bits=[])
    schemes = ["mx:block_format=mxint8", "mx:block_format=mxfp4", "mx:rule=ceil"]
    table = apscope.replay(trace, schemes, topology="two_phase").summary()
    table = table[table["topology"] == "two_phase"]
    above = found.bits_above(table["error_over_noise"], 32 * table["volume"], over_noise=True)
    assert len(above) == 3 and (above > 1).all() and (above < 4).all()


def test_one_worker_or_reduced_gradients_have_no_noise(tmp_path):
    steps = random_steps(5, specials=False)
    alone = apscope.limit(record(tmp_path / "trace", steps), [], bits=[2], workers=1)
    assert alone.curve["limit"].notna().all()
    assert (
        alone.curve[["up_over_noise", "down_over_noise", "limit_over_noise"]]
        .isna()
        .to_numpy()
        .all()
    )
    assert math.isnan(alone.over_noise(2))


def test_few_values_have_no_limit(tmp_path):
    steps = [{"a": np.random.default_rng(0).standard_normal((1, 64))}]
    found = apscope.limit(record(tmp_path / "trace", steps), ["none:e4m3fn"], bits=[2, 2.5, 8])
    assert list(found.curve["limit"].notna()) == [True, False, False]
    assert found.schemes["bits_above_limit"].isna().all()


def test_overflow_is_an_infinite_error(tmp_path):
    x = np.random.default_rng(0).standard_normal((1, 4096))
    x[0, 0] = 1e4
    found = apscope.limit(record(tmp_path / "trace", [{"a": x}]), ["none:e4m3,overflow=ieee"])
    row = found.schemes.iloc[0]
    assert row["overflow"] == 1
    assert math.isinf(row["error"]) and math.isinf(row["bits_above_limit"])


def test_equal_magnitudes_are_described_by_their_signs(tmp_path):
    """One bit per value is enough, so that there is no limit there."""
    x = np.random.default_rng(0).choice([-0.75, 0.75], (1, 4096))
    found = apscope.limit(record(tmp_path / "trace", [{"a": x}]), ["sign"], bits=[1, 2])
    assert found.curve["limit"].isna().all()
    assert found.grids["error"].tolist() == [0, 0]
    assert found.schemes["error"].iloc[0] == 0 and found.schemes["bits_above_limit"].isna().all()


def test_zeros_and_nothing_are_refused(tmp_path):
    trace = record(tmp_path / "zero", [{"a": np.zeros((2, 40))}])
    with pytest.raises(ValueError, match="zero wherever they are finite"):
        apscope.limit(trace)
    trace = record(tmp_path / "nan", [{"a": np.full((2, 40), np.nan)}])
    with pytest.raises(ValueError, match="zero wherever they are finite"):
        apscope.limit(trace, [])


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        ({"bits": [33]}, "bits=33 is not between 0 and 32"),
        ({"schemes": ["apz"]}, "apz"),
        ({"bits": [math.nan]}, "bits=nan"),
        ({"bits": "4"}, "must be a list"),
        ({"block": 0}, "block=0 is not between 1 and 4096"),
        ({"steps": "7"}, "steps '7'"),
        ({"tensors": "nothing"}, "nothing"),
        ({"workers": 9}, "workers=9 is not between 1 and 8"),
        ({"schemes": ["hybrid(last=none:fp16;else=sign)"]}, "hybrid"),
    ],
)
def test_errors_name_the_value(request, wrong, sentence):
    trace = request.config.rootpath / "notebooks/data/digits"
    with pytest.raises((ValueError, TypeError), match=sentence.replace("(", r"\(")):
        apscope.limit(trace, **({"schemes": [], "steps": "0:1"} | wrong))


def test_a_sample_is_every_nth_block_and_errors_are_its(tmp_path, monkeypatch):
    trace = record(tmp_path / "trace", random_steps(8, specials=False))
    whole = apscope.limit(trace, ["mx"], bits=[1])
    monkeypatch.setattr(blocks, "MOST", whole.values // 3)
    found = apscope.limit(trace, ["mx"], bits=[1])
    assert found.every == 4 and found.blocks == whole.blocks
    kept, squares, size = 0, 0.0, 0
    values = []
    for step in trace.steps:
        for tensor in trace.tensors:
            for worker in range(trace.workers):
                x = trace.read(step, tensor, worker).ravel()
                y = apscope.quantize_blocks(x, "mxfp8_e4m3")
                for i in range(0, len(x), 32):
                    part = x[i : i + 32].astype(float)
                    if not part.any():
                        continue
                    if kept % 4 == 0:
                        z = reference.normalized(part, 32)
                        unit = np.abs(part[part != 0]).max() / np.abs(z).max()
                        values.append(z)
                        squares += math.fsum(((y[i : i + 32] - part) / unit) ** 2)
                        size += len(part)
                    kept += 1
    z = np.concatenate(values)
    assert (found.values, found.elements) == (len(z), size)
    assert found.schemes["error"].iloc[0] == pytest.approx(squares / size, rel=1e-12)
    share = len(z) / size
    assert found.at(1) == pytest.approx(share * reference.rate_limit(z, 1 / share), rel=1e-8)
    assert found.bits_above(1, 1) == pytest.approx(0.5 * math.log2(1 / found.at(1)), rel=1e-12)


def test_memory_of_a_scheme_lasts_over_the_steps(tmp_path):
    """Error feedback sends with the second message what the first lost."""
    x = np.random.default_rng(1).standard_normal((1, 512)).astype(np.float32)
    trace = record(tmp_path / "trace", [{"a": x}, {"a": x}])
    spec = "error_feedback(none:e3m0)"
    found = apscope.limit(trace, [spec], bits=[])
    first = apscope.exchange(spec, x, topology="exact")
    second = apscope.exchange(spec, x, topology="exact", state=first.state, step=1)
    errors = []
    for sent in (first.sent, second.sent):
        for i in range(0, 512, 32):
            part = x[0, i : i + 32].astype(float)
            unit = 4.0 ** math.floor(math.log2(math.fsum(part**2) / 32) / 2)
            errors.append(math.fsum((sent[0, i : i + 32] - part) ** 2) / unit)
    assert found.schemes["error"].iloc[0] == pytest.approx(math.fsum(errors) / 1024, rel=1e-12)


# ---- The command and the chart ----------------------------------------------------------------


def test_command_prints_the_tables(request, capsys, tmp_path):
    trace = record(tmp_path / "trace", random_steps(10))
    words = ["limit", str(trace.path), "--scheme", "mx", "--scheme", "mx:block_format=mxfp4"]
    assert main([*words, "--bits", "1,2", "--bits", "9"]) == 0
    text = capsys.readouterr().out
    assert "left out: " in text and "6 elements not finite" in text
    assert "values have a limit up to" in text and "bits_above_limit" in text
    assert main([*words, "--bits", "1,2,9", "--json"]) == 0
    found, wanted = (
        json.loads(capsys.readouterr().out),
        apscope.limit(trace, ["mx", "mx:block_format=mxfp4"], bits=[1, 2, 9]),
    )
    assert found["values"] == wanted.values and found["nonfinite"] == 6
    assert [row["limit"] for row in found["curve"]] == [*wanted.curve["limit"][:2], None]
    assert [row["overflow"] for row in found["schemes"]] == list(wanted.schemes["overflow"])
    assert found["schemes"][0]["error"] == wanted.schemes["error"][0]
    assert found["schemes"][1]["error"] is None and math.isinf(wanted.schemes["error"][1])


def test_command_names_what_is_wrong(request, capsys):
    trace = request.config.rootpath / "notebooks/data/digits"
    for words, sentence in (("--bits x", "--bits 'x' must be numbers"), ("--block 0", "block=0")):
        assert main(["limit", str(trace), "--steps", "0:1", *words.split()]) == 2
        assert sentence in capsys.readouterr().err


def test_chart_draws_the_numbers(tmp_path):
    trace = record(tmp_path / "trace", random_steps(11, specials=False))
    found = apscope.limit(trace, ["mx:block_format=mxfp4", "mx", "none:e3m0"], bits=[2, 3])
    chart = limit_chart(found)
    line, coded = chart.lines
    assert line.points and not line.dashed and coded.dashed
    for (x, y), (_, above) in zip(line.points, coded.points):
        assert y == found.at(x) and 0.5 * math.log2(above / y) == pytest.approx(ENTROPY_CODED)
    drawn = {(p.x, p.y) for p in chart.points}
    for table in (found.grids, found.schemes):
        for row in table.itertuples():
            assert (row.bits, row.error) in drawn or not math.isfinite(row.error)
    assert chart.x.low <= min(x for x, _ in drawn) and max(x for x, _ in drawn) <= chart.x.high
    assert "line dashed" in chart_svg(chart, 600, 400)
    ax = apscope.plots.limit(found)
    solid, dotted = ax.lines[:2]
    assert (solid.get_linestyle(), dotted.get_linestyle()) == ("-", "--")
    assert ax.get_xscale() == "linear" and ax.get_yscale() == "log"
    with pytest.raises(TypeError, match="found is"):
        apscope.plots.limit(found.curve)
