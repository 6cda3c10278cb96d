"""The callbacks for Hugging Face's and Lightning's trainers.

Where the package is not installed, a loop calls the callback in the order, and with the arguments,
in which its trainer does, over a base class of the same name.
"""

import importlib
import importlib.util
import sys
import types

import numpy as np
import pytest

from apscope import open_trace

torch = pytest.importorskip("torch")
from apscope.record import Recorder  # noqa: E402
from tests.python.recorder_cases import all_same, apart, batches, loss_of, network  # noqa: E402


def adapter(name, module, monkeypatch, **offers):
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        for part in {module.partition(".")[0], module}:
            stand_in = types.ModuleType(part)
            stand_in.__dict__.update(offers)
            monkeypatch.setitem(sys.modules, part, stand_in)
    monkeypatch.delitem(sys.modules, f"apscope.record.{name}", raising=False)
    return importlib.import_module(f"apscope.record.{name}").RecorderCallback


def test_hugging_face_trainer_from_a_checkpoint(tmp_path, monkeypatch):
    """Accumulating two batches per step, from step 40 on; on_step_end and the like are the base
    class's."""
    base = type(
        "TrainerCallback",
        (),
        {
            f"on_{event}": lambda self, *a, **k: None
            for event in "train_begin step_begin substep_end step_end log train_end".split()
        },
    )
    callback_class = adapter("torch_huggingface", "transformers", monkeypatch, TrainerCallback=base)
    model, data, want = network(), batches(8), {}
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    args, control = types.SimpleNamespace(gradient_accumulation_steps=2), types.SimpleNamespace()
    state = types.SimpleNamespace(global_step=40)
    callback = callback_class(Recorder(tmp_path / "run", every=2, quiet=True))

    def event(name, **more):
        everything = dict(
            model=model,
            processing_class=None,
            optimizer=optimizer,
            lr_scheduler=schedule,
            train_dataloader=data,
            eval_dataloader=None,
        )
        result = getattr(callback, name)(args, state, control, **everything, **more)
        assert result is None or result is control

    event("on_train_begin")
    for first in range(0, len(data), 2):
        event("on_step_begin")
        want[state.global_step] = apart(model, data[first], data[first + 1], scale=1 / 2)
        for batch in data[first : first + 2]:
            (loss_of(model, batch) * (1 / 2)).backward()
            event("on_substep_end")
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        optimizer.step()
        schedule.step()
        model.zero_grad()
        state.global_step += 1
        event("on_step_end")
        event("on_log", logs={"loss": 1.0})
    event("on_train_end")
    trace = open_trace(tmp_path / "run")
    assert trace.steps == (40, 42)
    all_same(trace, want)


def test_lightning_trainer(tmp_path, monkeypatch):
    """Automatic optimization: the whole step is the optimizer's closure."""
    base = type(
        "Callback",
        (),
        {
            f"on_{hook}": lambda self, *a, **k: None
            for hook in """
                train_start before_zero_grad before_backward after_backward train_batch_end
                train_end exception
            """.split()
        },
    )
    module = (
        "lightning.pytorch"
        if importlib.util.find_spec("pytorch_lightning") is None
        else "pytorch_lightning"
    )
    callback = adapter("torch_lightning", module, monkeypatch, Callback=base)(
        Recorder(tmp_path / "run", every=2, quiet=True)
    )
    model, data, want = network(), batches(5), {}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = types.SimpleNamespace(global_step=0)
    callback.on_train_start(trainer, model)
    for index, batch in enumerate(data):

        def closure(batch=batch):
            callback.recorder.log(loss=(loss := loss_of(model, batch)))  # in training_step
            callback.on_before_zero_grad(trainer, model, optimizer)
            optimizer.zero_grad()
            callback.on_before_backward(trainer, model, loss)
            loss.backward()
            callback.on_after_backward(trainer, model)
            return loss

        want[index] = apart(model, batch)
        loss = optimizer.step(closure)
        trainer.global_step += 1
        callback.on_train_batch_end(trainer, model, {"loss": loss}, batch, index)
    callback.on_exception(trainer, model, KeyboardInterrupt())
    callback.on_train_end(trainer, model)
    trace = open_trace(tmp_path / "run")
    assert trace.steps == (0, 2, 4) and all(np.isfinite(step.loss) for step in trace.manifest.steps)
    all_same(trace, want)
