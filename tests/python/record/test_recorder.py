"""Recorder under PyTorch in one process: what it records equals, bit for bit, gradients computed
apart from it."""

import copy

import numpy as np
import pytest

from apscope import open_trace

torch = pytest.importorskip("torch")
from apscope.record import Recorder  # noqa: E402
from tests.python.recorder_cases import (  # noqa: E402
    all_same,
    apart,
    batches,
    bits,
    loss_of,
    network,
    recording,
    same,
    train_step,
)


def test_plain_training_every_third_step_before_the_clip(tmp_path, caplog):
    model, data, want, losses = network(), batches(8), {}, {}
    plain = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.9)
    other = torch.optim.SGD(plain.parameters(), lr=0.25, momentum=0.9)
    with recording(tmp_path, model, caplog, every=3) as rec:
        for step, batch in enumerate(data):
            want[step] = apart(model, batch)
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            rec.log(loss=loss)
            losses[step] = loss.item()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            optimizer.step()
    trace = open_trace(tmp_path / "run")
    assert trace.steps == (0, 3, 6) and trace.workers == 1 and trace.manifest.stage == "local"
    assert [s.loss for s in trace.manifest.steps] == [losses[s] for s in trace.steps]
    assert {s.learning_rate for s in trace.manifest.steps} == {0.25}
    assert trace.roles["0.weight"] == "linear" and trace.roles["2.weight"] == "norm"
    assert (
        trace.manifest.model.startswith("Sequential, ")
        and "PyTorch" in trace.manifest.metadata["recorded_from"]
    )
    for step in trace.steps:
        same(trace, step, want[step])
        assert not np.array_equal(trace.read(step, "0.weight"), np.zeros((20, 4)))
    # Recording changes nothing of the training, and leaves nothing behind.
    for batch in data:
        other.zero_grad()
        loss_of(plain, batch).backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.01)
        other.step()
    assert all(
        torch.equal(p, q) for p, q in zip(model.parameters(), plain.parameters(), strict=True)
    )
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())
    assert 0 < rec.overhead.seconds < rec.overhead.total and 0 < rec.overhead.share < 1


def test_gradient_accumulation_records_the_sum(tmp_path, caplog):
    model, data, want = network(), batches(6), []
    optimizer = torch.optim.AdamW(model.parameters())
    with recording(tmp_path, model, caplog):
        for step in range(2):
            micro = data[3 * step : 3 * step + 3]
            want.append(apart(model, *micro, scale=1 / 3))
            for batch in micro:
                (loss_of(model, batch) * (1 / 3)).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=step == 0)
    trace = open_trace(tmp_path / "run")
    assert trace.steps == (0, 1) and trace.manifest.metadata["accumulation"] == "3"
    all_same(trace, want)


@pytest.mark.parametrize("passes, between, said", [
    ((2, 2), "nothing", "2"), ((1, 1), "nothing", None), ((2, 3), "nothing", None),
    ((3, 3), "none", None), ((3, 3), "zeros", None),
])  # fmt: skip
def test_the_number_of_backward_passes_is_said_where_every_step_adds_as_many(
    tmp_path, caplog, passes, between, said
):
    """Not if the training removes the gradients between two of them."""
    model, data = network(), batches(6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording(tmp_path, model, caplog):
        for count in passes:
            for batch in data[:count]:
                if between != "nothing":
                    optimizer.zero_grad(set_to_none=between == "none")
                loss_of(model, batch).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    assert open_trace(tmp_path / "run").manifest.metadata.get("accumulation") == said


def test_what_is_known_of_accumulation_lasts_over_a_resumed_recording(tmp_path):
    model, data = network(), batches(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for first, (count, said) in enumerate([(2, "2"), (2, "2"), (3, None), (3, None)]):
        with Recorder(tmp_path / "run", every=1, first_step=first, resume=True, quiet=True) as rec:
            rec.attach(model)
            for batch in data[:count]:
                loss_of(model, batch).backward()
            optimizer.step()
            optimizer.zero_grad()
        trace = open_trace(tmp_path / "run")
        assert len(trace.steps) == first + 1 and trace.manifest.metadata.get("accumulation") == said


@pytest.mark.parametrize("unscale", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_amp_is_unscaled_and_a_step_with_inf_left_out(tmp_path, caplog, unscale, fused):
    """The scale, 2^20 and then a half of it, is in the metadata; the step that the scaler skipped
    is not in the trace."""
    model, data, want = network(), batches(5), {}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=1000)
    with recording(tmp_path, model, caplog, every=2):
        for step, (x, y) in enumerate(data):
            x = x * torch.inf if step == 2 else x
            with torch.autocast("cpu", dtype=torch.bfloat16):
                twin = copy.deepcopy(model)
                (loss_of(twin, (x, y)) * scaler.get_scale()).backward()
                loss = loss_of(model, (x, y))
            want[step] = {n: p.grad * (1 / scaler.get_scale()) for n, p in twin.named_parameters()}
            scaler.scale(loss).backward()
            if unscale:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    trace = open_trace(tmp_path / "run")
    assert trace.steps == (0, 3, 4)  # 3 in place of 2
    about = trace.manifest.metadata
    assert about["divided_by_loss_scale"] == "1048576 from step 0, 524288 from step 3"
    assert about["left_out_for_inf_or_nan"] == "2"
    # The recorded gradients carry none.
    assert all(step.loss_scale is None for step in trace.manifest.steps)
    all_same(trace, want)
    assert torch.amp.GradScaler.step.__name__ == "step" and not hasattr(
        torch.amp.GradScaler.step, "__wrapped__"
    )


def test_a_disabled_scaler_is_none(tmp_path, caplog):
    model, data = network(), batches(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    with recording(tmp_path, model, caplog):
        want = apart(model, data[0])
        scaler.scale(loss_of(model, data[0])).backward()
        scaler.step(optimizer)
    trace = open_trace(tmp_path / "run")
    same(trace, 0, want)
    assert set(trace.manifest.metadata) == {"recorded_from"}


def test_a_loss_scaled_by_hand(tmp_path):
    model, data = network(), batches(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    want, scale = [], 64.0
    with Recorder(tmp_path / "run", every=1, quiet=True) as rec:
        rec.attach(model, loss_scale=lambda: scale)
        for batch in data:
            want.append(apart(model, batch, scale=scale))
            (loss_of(model, batch) * scale).backward()
            for p in model.parameters():
                p.grad /= scale
            optimizer.step()
            optimizer.zero_grad()
            scale *= 2
    trace = open_trace(tmp_path / "run")
    for step in trace.steps:
        same(trace, step, {name: g / (64 * 2**step) for name, g in want[step].items()})


def test_freezing_and_unfreezing_in_mid_run(tmp_path, caplog):
    """The first layer frozen at steps 0, 1 and 4: zeros there, and the metadata says where."""
    model, data, want = network(), batches(5), {}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording(tmp_path, model, caplog, tensors=".*"):
        for step, batch in enumerate(data):
            model[0].requires_grad_(step in (2, 3))
            optimizer.zero_grad(set_to_none=False)  # what is frozen keeps a .grad
            want[step] = apart(model, batch)
            loss_of(model, batch).backward()
            optimizer.step()
    trace = open_trace(tmp_path / "run")
    assert trace.steps == (0, 1, 2, 3, 4)
    for step in trace.steps:
        same(trace, step, want[step])
        assert trace.read(step, "0.weight").any() == (step in (2, 3))
    assert trace.manifest.metadata["no_gradient_so_zeros: 0.bias"] == "0-1, 4"
    assert not any(p.requires_grad for p in model[0].parameters())


def test_what_is_frozen_at_first_is_not_recorded_and_that_is_said(tmp_path, caplog):
    model, data = network(), batches(2)
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", every=1, quiet=True) as rec:
        rec.attach(model)
        for i, batch in enumerate(data):
            model[0].requires_grad_(i == 1)
            train_step(model, optimizer, batch)
    trace = open_trace(tmp_path / "run")
    assert trace.steps == (0, 1) and trace.tensors == ("2.weight", "2.bias", "3.weight", "3.bias")
    assert [r.getMessage() for r in caplog.records] == [
        "apscope: 2 tensors unfrozen after attach() are not recorded; the first is '0.weight'; "
        "Recorder(tensors='.*') records all"
    ]


def test_a_parameter_added_after_attach_is_not_recorded_and_that_is_said_once(tmp_path, caplog):
    model, data = network(), batches(3)
    with Recorder(tmp_path / "run", every=1, quiet=True) as rec:
        rec.attach(model)
        for i, batch in enumerate(data):
            if i == 1:
                model.append(torch.nn.Linear(3, 3))
            train_step(model, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    assert open_trace(tmp_path / "run").steps == (0, 1, 2)
    assert [r.getMessage() for r in caplog.records] == [
        "apscope: 2 tensors added after attach() are not recorded; the first is '4.weight'; attach "
        "a recorder to the whole model"
    ]


def test_a_parameter_that_no_step_uses_is_zeros(tmp_path, caplog):
    model, data = network(), batches(2)
    model.register_parameter("spare", torch.nn.Parameter(torch.ones(5)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording(tmp_path, model, caplog):
        for batch in data:
            loss_of(model, batch).backward()
            optimizer.step()
    trace = open_trace(tmp_path / "run")
    assert not trace.read(1, "spare").any() and trace.shapes["spare"] == (5,)
    assert trace.manifest.metadata["no_gradient_so_zeros: spare"] == "0-1"


def test_bfloat16_gradients_are_stored_as_they_are(tmp_path, caplog):
    model, data = network(torch.bfloat16), batches(1, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording(tmp_path, model, caplog):
        want = apart(model, data[0])
        loss_of(model, data[0]).backward()
        optimizer.step()
    same(open_trace(tmp_path / "run"), 0, want)
    assert (
        b'"dtype":"BF16"' in (tmp_path / "run/step_00000000/worker_0000.safetensors").read_bytes()
    )


def test_a_choice_of_tensors_and_of_steps(tmp_path, caplog):
    for keys in (
        dict(tensors=r"\.weight$"),
        dict(tensors=["0.weight", "2.weight", "3.weight"]),
        dict(tensors=lambda name: "weight" in name),
    ):
        model, data = network(), batches(5)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        with recording(folder, model, caplog, steps={101, 104}, first_step=100, **keys):
            for batch in data:
                loss_of(model, batch).backward()
                optimizer.step()
        trace = open_trace(folder / "run")
        assert trace.steps == (101, 104) and trace.tensors == ("0.weight", "2.weight", "3.weight")


@pytest.mark.parametrize(
    "keys, steps",
    [
        (dict(every=5, consecutive=2), (0, 1, 5, 6)),
        (dict(steps={1, 4}, consecutive=2), (1, 2, 4, 5)),
        (dict(steps=[0, 1], consecutive=3), (0, 1, 2, 3)),
        (dict(every=3, consecutive=3), (0, 1, 2, 3, 4, 5, 6)),
    ],
)
def test_runs_of_consecutive_steps(tmp_path, caplog, keys, steps):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording(tmp_path, model, caplog, **keys):
        for batch in batches(7):
            loss_of(model, batch).backward()
            optimizer.step()
    assert open_trace(tmp_path / "run").steps == steps


def test_weights_layer_inputs_and_activation_gradients(tmp_path, caplog):
    """Records of the step's last micro-batch, without AMP's scale; a step in evaluation mode in
    between is ignored."""
    model, data, want = network(), batches(6), {}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**9)
    with recording(
        tmp_path, model, caplog, every=2, what=["weights", "layer_input", "activation_gradient"]
    ):
        for step in range(3):
            before = {name: p.detach().clone() for name, p in model.named_parameters()}
            for batch in data[2 * step : 2 * step + 2]:
                x, outputs = batch[0], []
                inputs = []
                twin = copy.deepcopy(model)
                for layer in twin:
                    inputs.append(x)
                    x = layer(x)
                    outputs.append(x)
                slopes = torch.autograd.grad(
                    torch.nn.functional.cross_entropy(x, batch[1]) * 512.0, outputs
                )
                scaler.scale(loss_of(model, batch)).backward()
                with torch.no_grad():
                    model(batch[0] + 1)
            want[step] = before, [x.detach() for x in inputs], [g / 512 for g in slopes]
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    trace = open_trace(tmp_path / "run")
    assert trace.steps == (0, 2) and trace.recorded()["weights"] == (0, 2)
    for step in trace.steps:
        weights, inputs, slopes = want[step]
        for name in trace.tensors:
            assert np.array_equal(trace.read(step, name, kind="weights"), weights[name].numpy())
        assert (
            trace.names(step, "layer_input")
            == trace.names(step, "activation_gradient")
            == ["0", "2", "3"]
        )
        for layer in (0, 2, 3):
            assert np.array_equal(
                bits(trace.read(step, str(layer), kind="layer_input")), bits(inputs[layer].numpy())
            )
            assert np.array_equal(
                bits(trace.read(step, str(layer), kind="activation_gradient")),
                bits(slopes[layer].numpy()),
            )
    assert not any(module._forward_hooks for module in model.modules())


def test_sparse_gradients_become_dense(tmp_path, caplog):
    model = torch.nn.Embedding(50, 3, sparse=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording(tmp_path, model, caplog):
        model(torch.tensor([4, 7, 4])).square().sum().backward()
        want = model.weight.grad.to_dense().clone()
        optimizer.step()
    assert np.array_equal(open_trace(tmp_path / "run").read(0, "weight"), want.numpy())


def test_a_loop_without_an_optimizer_ends_its_steps_itself(tmp_path, caplog):
    model, data, want = network(), batches(3), []
    with recording(tmp_path, model, caplog) as rec:
        for batch in data:
            want.append(apart(model, batch))
            loss_of(model, batch).backward()
            rec.log(learning_rate=0.5)
            rec.step()
            rec.step()  # nothing has arrived since: no step
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.5 * p.grad
                    p.grad = None
    trace = open_trace(tmp_path / "run")
    assert trace.steps == (0, 1, 2) and {s.learning_rate for s in trace.manifest.steps} == {0.5}
    all_same(trace, want)


def test_a_loop_without_an_optimizer_that_does_not_end_its_steps_is_told(tmp_path, caplog):
    model, data = network(), batches(1)
    with Recorder(tmp_path / "b", every=1, quiet=True) as rec:
        rec.attach(model)
        loss_of(model, data[0]).backward()
    assert rec.stopped is None and "end each step with step()" in caplog.text


@pytest.mark.parametrize(("keys", "words"), [
    ({"every": 0}, "every is 0; it must be an integer, 1 or more"),
    ({"consecutive": 0}, "consecutive is 0; it must be an integer, 1 or more"),
    ({"every": 3, "consecutive": 4}, "consecutive is 4; it must be at most every, 3"),
    ({"workers": 0}, "workers is 0"),
    ({"workers": 2.5}, "workers is 2.5; it must be an integer"),
    ({"process": 3, "processes": 2}, "process 3 of 2"),
    ({"what": "weights"}, "what is 'weights'; it must be a list of"),
    ({"steps": 3}, "steps is 3; it must be a list or a set of step numbers"),
    ({"steps": "3"}, "steps is '3'; it must be a list or a set of step numbers"),
    *(({"patience": p}, "patience is .*; it must be a number of seconds above 0")
      for p in (-1, 0, float("nan"), float("inf"), "3")),
    ({"every": 2, "steps": [1]}, "every=2 and steps= both select the recorded steps; give one"),
    ({"name": 3}, "name is 3; it must be a string"),
    ({"tensors": 5}, "tensors is 5; it must be a regular expression, a list of names or"),
    ({"tensors": "("}, "is not a regular expression"),
])  # fmt: skip
def test_options_that_cannot_be_are_refused_before_the_training(tmp_path, keys, words):
    with pytest.raises(ValueError, match=words):
        Recorder(tmp_path / "x", **keys)
    assert not (tmp_path / "x").exists()


def test_models_that_cannot_be_recorded_are_refused_before_the_training(tmp_path):
    for keys, model, words in (
        ({}, {}, "takes a torch.nn.Module, not dict"),
        ({"tensors": "nothing"}, network(), "none of the model's 6 parameters is selected by tensors="),
        ({}, network().requires_grad_(False), "none of the model's 6 parameters requires a gradient"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            Recorder(tmp_path / "x", **keys).attach(model)
    assert not (tmp_path / "x").exists()
    with Recorder(tmp_path / "x", quiet=True) as rec:
        rec.attach(network())
        with pytest.raises(ValueError, match="is already recording"):
            rec.attach(network())
