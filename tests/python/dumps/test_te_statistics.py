"""TransformerEngine's statistics logs: as a table, and beside the numbers of a trace.
tests/dumps/te_debug.py wrote what is read here."""

import math
import shutil
import statistics

import numpy as np
import pytest

import apscope
from apscope.cli import main
from apscope.record import beside_te_statistics, te_statistics
from tests.python.argv import command
from tests.python.recorded import record

LINE = "2026-11-23 03:56:47,618 - INFO - {} \t\t\t\t iteration={:06d} \t\t\t\t value={}\n"
KEY = ["step", "rank", "layer", "tensor", "statistic"]


@pytest.fixture
def dump(request):
    return request.config.rootpath / "tests/dumps/te_debug"


@pytest.fixture
def trace(dump, tmp_path):
    pytest.importorskip("torch")
    assert command("convert {} {} --reduction mean --tensors wgrad", dump, tmp_path / "trace") == 0
    return apscope.open_trace(tmp_path / "trace")


@pytest.fixture
def log(tmp_path):
    """Writes a log of these lines and returns its path."""

    def write(*lines, rank=0):
        path = tmp_path / f"nvdlfw_inspect_globalrank-{rank}.log"
        path.write_text("".join(lines))
        return path

    return write


def test_every_number_of_a_log_is_a_row(dump):
    table = te_statistics(dump)
    assert list(table.columns) == ["rank", "step", "layer", "tensor", "statistic", "value"]
    assert len(table) == 2 * 2 * 2 * 9  # ranks, steps, layers, statistics
    assert table.equals(te_statistics(dump / "nvdlfw_inspect_statistics_logs"))
    alone = te_statistics(dump / "nvdlfw_inspect_statistics_logs/nvdlfw_inspect_globalrank-1.log")
    assert alone.equals(table[table["rank"] == 1].reset_index(drop=True))
    row = table.set_index(KEY).loc[(0, 0, "model.0", "wgrad", "min")]
    assert row["value"] == -4.8936  # the log's first line
    assert set(table["tensor"]) == {"wgrad", "gradient"} and "mxfp8_underflows%" in set(
        table["statistic"]
    )


def test_logged_numbers_stand_beside_the_same_of_the_dumped_tensors(dump, trace):
    torch = pytest.importorskip("torch")
    table = beside_te_statistics(trace, dump)
    assert table[["rank", "step", "layer", "tensor", "statistic", "value"]].equals(
        te_statistics(dump)
    )
    logged = table[table["tensor"] == "wgrad"]
    assert len(logged) == 64 and (table[table["tensor"] == "gradient"]["trace_tensor"] == "").all()
    # Four decimals of a sum of at most 24 fp32 numbers.
    assert (abs(logged["value"] - logged["own"]) <= 0.5e-4 + 30 * 2**-24 * abs(logged["own"])).all()
    for (step, tensor), rows in logged.groupby(["step", "trace_tensor"]):
        both = [
            torch.load(dump / f"tensor_dumps/rank_{r}/{tensor}_iter_{step:06d}.pt")[
                "high_precision"
            ].double()
            for r in range(2)
        ]
        for rank, values in enumerate(both):
            assert trace.read(step, tensor, rank).tolist() == values.tolist()
        x = torch.cat([v.ravel() for v in both]).tolist()
        sizes = [abs(v) for v in x]
        expected = {
            "min": min(x), "max": max(x), "mean": statistics.fmean(x), "std": statistics.stdev(x),
            "l1_norm": math.fsum(sizes),
            "l2_norm": math.hypot(*x), "cur_amax": max(sizes),
            "dynamic_range": math.log2(max(sizes)) - math.log2(min(s for s in sizes if s)),
        }  # fmt: skip
        for statistic, value in zip(rows["statistic"], rows["all_ranks"]):
            assert value == pytest.approx(expected[statistic], rel=1e-14), statistic


@pytest.mark.parametrize(
    "name",
    [
        "fc1.weight",
        "layers.0.fc1.weight",
        "model.layers.0.fc1.weight",
        "module_model_layers_0_fc1_wgrad",
    ],
)
def test_names_agree_apart_from_what_stands_in_front(name, log, tmp_path):
    values = np.float32([[0, -3, 0.5]])
    trace = record(tmp_path / "trace", {7: dict.fromkeys((name, "fc2.weight"), values)})
    path = log(
        *(
            LINE.format(f"model.layers.0.{what}", 7, 1.0)
            for what in (
                "fc1_wgrad_cur_amax",
                "fc1_wgrad_dynamic_range",
                "fc3_wgrad_max",
                "fc1_wgrad_odd",
            )
        )
    )
    table = beside_te_statistics(trace, path).set_index(["layer", "statistic"])
    assert table["own"]["model.layers.0.fc1"].to_dict() == pytest.approx(
        {"cur_amax": 3, "dynamic_range": math.log2(6), "odd": math.nan}, nan_ok=True
    )
    assert table["trace_tensor"]["model.layers.0.fc3"].tolist() == [""]


def test_two_names_alike_are_none(log, tmp_path):
    names = ("encoder.fc1.weight", "decoder.fc1.weight", "fc2.weight")
    trace = record(tmp_path / "trace", [dict.fromkeys(names, np.float32([[1]]))])
    path = log(LINE.format("fc1_wgrad_max", 0, 1.0), LINE.format("fc2_wgrad_max", 0, 1.0))
    assert beside_te_statistics(trace, path)["trace_tensor"].tolist() == ["", "fc2.weight"]


def test_what_has_no_finite_number_is_nan(log, tmp_path):
    trace = record(tmp_path / "trace", [{"fc.weight": np.float32([[0, 0], [1, np.inf]])}])
    words = [LINE.format(f"fc_wgrad_{name}", 0, "nan") for name in ("max", "dynamic_range")]
    table = beside_te_statistics(trace, log(*words))
    assert table["own"].tolist() == [0, 0]  # of nothing but zeros TransformerEngine says 0, too
    assert table["all_ranks"].isna().all() and table["value"].isna().all()


def test_weights_and_layer_inputs_where_the_trace_has_them(log, tmp_path):
    torch = pytest.importorskip("torch")
    from apscope.record import Recorder

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Recorder(
        tmp_path / "trace", what=["weights", "layer_input", "activation_gradient"]
    ) as recorder:
        recorder.attach(net)
        x = torch.randn(4, 3)
        before = net[0].weight.detach().clone()
        net(x).sum().backward()
        optimizer.step()
    trace = apscope.open_trace(tmp_path / "trace")
    step = trace.steps[0]
    path = log(
        *(
            LINE.format(f"0_{tensor}_cur_amax", step, 0.0)
            for tensor in ("weight", "activation", "gradient", "output")
        )
    )
    own = beside_te_statistics(trace, path).set_index("tensor")["own"]
    assert own["weight"] == float(before.abs().max()) and own["activation"] == float(x.abs().max())
    assert own["gradient"] == 1 and math.isnan(own["output"])


def test_a_restarted_run_and_a_killed_one(log):
    path = log(
        LINE.format("fc_wgrad_max", 1, 2.0),
        LINE.format("fc_wgrad_min", 1, "nan"),
        LINE.format("fc_wgrad_max", 1, 3.0),
        "2026-11-23 03:5",
    )
    assert te_statistics(path).set_index("statistic")["value"].to_dict() == pytest.approx(
        {"max": 3.0, "min": math.nan}, nan_ok=True
    )
    # As its documentation prints them; no tensor in the name.
    old = log(LINE.format("loss", 3, "0.25")[len("2026-11-23 03:56:47,618 - ") :], rank=4)
    assert te_statistics(old).values.tolist() == [[4, 3, "loss", "", "", 0.25]]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["hello\n", "x"], r"log: line 1 is not a statistic of TransformerEngine: 'hello'$"),
        ([], "has no statistics of TransformerEngine$"),
        ([LINE.format("fc_wgrad_max", 1, "many"), "\n"], "line 1 is not a statistic"),
    ],
)
def test_other_files_are_refused_in_one_sentence(lines, why, log):
    with pytest.raises(ValueError, match=why):
        te_statistics(log(*lines))


def test_what_is_no_log_is_refused(dump, tmp_path, trace):
    for path in (
        dump / "nvdlfw_inspect_logs",
        tmp_path / "none",
        dump / "tensor_dumps/rank_0/model_0_wgrad_iter_000000.pt",
    ):
        with pytest.raises(
            ValueError,
            match="neither is nor contains a "
            "nvdlfw_inspect_statistics_logs/nvdlfw_inspect_globalrank-N.log",
        ):
            te_statistics(path)
    other = record(tmp_path / "other", {3: {"conv": np.float32([[1]])}})
    with pytest.raises(
        ValueError,
        match="no number in .* layers such as 'model.0' at step 0, the trace tensors such as "
        "'conv' at step 3$",
    ):
        beside_te_statistics(other, dump)


def test_the_command_line(request, dump, trace, tmp_path, capsys):
    capsys.readouterr()
    assert main(["info", str(trace.path), "--beside", str(dump)]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    page = (request.config.rootpath / "docs/dumps.md").read_text()
    assert "\n".join(lines[:3]) in page
    assert (
        lines[0].split()
        == ["step", "rank", "tensor", "statistic", "TransformerEngine", "trace", "all", "ranks"]
        and len(lines) == 22
    )
    assert (
        lines[1].split()[:5] == ["0", "0", "model_0_wgrad", "min", "-4.8936"]
        and lines[-1] == "... and 44 more; --all shows them"
    )
    assert main(["info", str(trace.path), "--beside", str(dump), "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 65
    assert main(["info", str(trace.path), "--beside", str(tmp_path)]) == 2
    assert "neither is nor contains a nvdlfw_inspect" in capsys.readouterr().err


def test_convert_says_what_such_a_log_is(dump, tmp_path, capsys):
    shutil.copytree(dump / "nvdlfw_inspect_statistics_logs", tmp_path / "logs")
    for source in (tmp_path / "logs", tmp_path / "logs/nvdlfw_inspect_globalrank-0.log"):
        assert main(["convert", str(source), str(tmp_path / "t"), "--reduction", "mean"]) == 2
        assert (
            "has statistics of TransformerEngine and no tensors; compare them with a trace's by "
            "apscope info TRACE --beside LOG" in capsys.readouterr().err
        )
    assert not (tmp_path / "t").exists()
