"""Observations of a quantized model: statistics per use, results, operands as a trace,
debug_step."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

import apscope  # noqa: E402
from apscope.train import Cast, Recipe  # noqa: E402
from tests.python.train.quantized_cases import EVERYTHING, FP8, batch, net, quantized_of, train  # noqa: E402


def test_statistics_of_every_use_are_those_of_cast_statistics():
    model = net(norm=False)
    quantized = quantized_of(model, FP8)
    quantized.observe(2)
    weight = model[0].weight.detach().clone()
    train(quantized, 0, 3)
    table = quantized.statistics
    assert sorted(set(table.step)) == [0, 2] and len(table) == 12
    row = table[(table.step == 0) & (table.part == "0") & (table.role == "weight")].iloc[0]
    told = apscope.cast_statistics(weight, "e4m3fn", overflow="saturate")
    for column in ("count", "nonzero", "underflow_rate", "saturated"):
        assert row[column] == getattr(told, column), column
    for column in ("sqnr_db", "nmse", "cosine", "relative_bias"):
        assert row[column] == pytest.approx(getattr(told, column), rel=1e-9), column


def test_blocks_saturate_by_their_own_scale():
    from apscope.train._quantized.observe import _measured

    x = torch.zeros(2, 32)
    x[0, :3] = torch.tensor([500.0, 449.0, 1.0])  # the floor rule: scale 1, largest 448
    x[1, 0] = 2.0**-140
    cast = Cast("mxfp8_e4m3")
    y = torch.as_tensor(apscope.quantize_blocks(x, "mxfp8_e4m3"))
    found = _measured(cast, x, y, -1, (0, -1))
    assert found["saturated"] == 2 and found["scale_largest"] == 1.0
    assert found["wire_bits"] == 64 * 8 and found["side_bits"] == 2 * 8
    tile = Cast("mxfp8_e4m3", tile=(2, 16))
    assert _measured(tile, x, y, -1, (0, -1))["saturated"] == 2


def test_results_are_summarized_compared_and_reported(tmp_path):
    def observed(recipe):
        model = net(norm=False)
        quantized = quantized_of(model, recipe)
        quantized.observe(1)
        train(quantized, 0, 3)
        return quantized.results()

    fine, coarse = observed(FP8), observed(Recipe(input="e3m0", weight="e3m0", grad_output="e3m0"))
    one, other = fine.summary().iloc[0], coarse.summary().iloc[0]
    assert 0 < one.step_nmse < other.step_nmse
    for results, name in ((fine, "fine"), (coarse, "coarse")):
        results.save(tmp_path / name)
    for words in (
        ["report", "fine", "-o", "page.html"],
        ["compare", "fine", "coarse", "--topology", "wire"],
        ["check", "fine"],
    ):
        run = subprocess.run([sys.executable, "-m", "apscope", *words], cwd=tmp_path,
                             capture_output=True, text=True)  # fmt: skip
        assert run.returncode == 0, run.stderr
    assert "3.grad_output" in (tmp_path / "page.html").read_text()
    layers = fine.by("layer")
    assert set(layers.tensor if "tensor" in layers else layers.layer) == {
        f"{n}.{r}" for n in "03" for r in ("input", "weight", "grad_output")
    }


def test_operands_are_recorded_as_a_trace_that_replays(tmp_path):
    model = net(norm=False)
    quantized = quantized_of(model, FP8)
    quantized.observe(1)
    with quantized.record(tmp_path / "operands", every=2):
        train(quantized, 0, 4)
    trace = apscope.open_trace(tmp_path / "operands")
    assert trace.steps == (0, 2) and "0.input" in trace.tensors
    assert np.array_equal(trace.read(2, "0.input"), batch(2)[0].numpy())
    replayed = apscope.replay(trace, ["none:e4m3fn", "none:e5m2"], topology=["exact"]).frame
    row = replayed[
        (replayed.step == 2)
        & (replayed.tensor == "3.weight")
        & (replayed.scheme == "none:e4m3fn")
        & (replayed.stage == "wire")
    ].iloc[0]
    live = quantized.statistics
    mine = live[(live.step == 2) & (live.part == "3") & (live.role == "weight")].iloc[0]
    assert row.sqnr_db == pytest.approx(mine.sqnr_db, rel=1e-9)
    plan = apscope.recommend(trace, ["none:e4m3fn", "none:e5m2", "none:bf16"], max_volume=0.3)
    assert plan.scheme


def test_operands_of_two_shapes_are_two_tensors(tmp_path):
    model = net(norm=False)
    quantized = quantized_of(model, Recipe(grad_weight="e5m2", input="e4m3fn"))
    gradients = []
    model[0].bias.register_post_accumulate_grad_hook(lambda p: gradients.append(p.grad.clone()))
    with quantized.record(tmp_path / "operands"):
        train(quantized, 0, 2)
    trace = apscope.open_trace(tmp_path / "operands")
    shapes = {name: trace.read(1, name).shape for name in trace.tensors}
    outputs = len(model[0].bias)
    assert shapes["0.grad_weight"] == tuple(model[0].weight.shape)
    assert shapes[f"0.grad_weight[{outputs}]"] == (outputs,)
    # The bias has the recorded gradient, rounded.
    for step in (0, 1):
        rounded = apscope.quantize(trace.read(step, f"0.grad_weight[{outputs}]"), "e5m2")
        assert np.array_equal(rounded, gradients[step].numpy())


def test_debug_step_prints_the_worst_and_changes_nothing(capsys):
    def run(debug):
        model = net()
        quantized = quantized_of(model, EVERYTHING["schedule"])
        for step in range(5):
            x, y = batch(step)
            if debug:
                found = quantized.debug_step(lambda: F.cross_entropy(model(x), y), worst=4)
                assert list(found.sqnr_db) == sorted(found.sqnr_db)
            quantized.step(F.cross_entropy(model(x), y))
        return model.state_dict()

    plain = run(False)
    assert capsys.readouterr().out == ""
    watched = run(True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("scaled loss ") and "the worst 4 of 6 uses by SQNR" in lines[0]
    assert "delayed_scaling:e5m2" in "\n".join(lines[:7])
    assert all(torch.equal(a, b) for a, b in zip(plain.values(), watched.values()))
