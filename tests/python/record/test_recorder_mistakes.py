"""Mistakes of a script's own are raised at the first step that shows them; once a step is recorded
they end the recording alone."""

import collections

import numpy as np
import pytest

from apscope import open_trace
from apscope.record import Recorder

ONE = np.ones(2, np.float32)


def test_a_trace_that_is_there_and_a_wrong_first_step_raise_and_leave_nothing(tmp_path):
    cases = [
        (
            {"tensors": "kernel"},
            {"weight": ONE, "bias": ONE},
            "no array to record: 2 were given, the first is 'weight'; choose others by tensors=",
        ),
        ({}, {}, "no array to record: 0 were given, give the step's gradients"),
        (
            {"workers": 3},
            {"w": ONE},
            r"gradient 'w' has shape \(2,\); its first axis must be the 3 workers",
        ),
        (
            {},
            {"w": np.array([0.1])},
            "gradient 'w' of step 0 has dtype float64 and its "
            "element 0 .* round it to float32 first",
        ),
        (
            {},
            {"w": np.array(["1", "2"])},
            "gradient 'w' of step 0 has dtype <U1; a trace has real numbers",
        ),
        (
            {},
            {"a.b": ONE, "a": {"b": ONE}},
            "two arrays have the name 'a.b', their keys joined by dots; rename a key of one of "
            "them",
        ),
    ]
    for i, (keys, tree, sentence) in enumerate(cases):
        with (
            pytest.raises(ValueError, match=sentence),
            Recorder(tmp_path / str(i), every=1, quiet=True, **keys) as rec,
        ):
            rec.record_pytree(tree)
        assert not list((tmp_path / str(i)).iterdir())
        rec.record_pytree(tree)  # a loop that goes on all the same is not told again
    with Recorder(tmp_path / "run", every=1, quiet=True) as rec:
        rec.record_pytree({"w": ONE})
    with (
        pytest.raises(ValueError, match="already has a trace; record into a new folder"),
        Recorder(tmp_path / "run", quiet=True) as rec,
    ):
        rec.record_pytree({"w": ONE})
    assert open_trace(tmp_path / "run").steps == (0,)


def test_the_same_mistakes_at_a_later_step_are_one_warning(tmp_path, caplog):
    for i, (tree, words) in enumerate(
        [
            ({"w": np.array([0.1, 0.1])}, "has dtype float64"),
            ({"w": ONE, "a.b": ONE, "a": {"b": ONE}}, "two arrays have the name 'a.b'"),
            ({"w": np.ones((3, 2), np.float32)}, "'w' has shape (3, 2), but had (2,) before"),
        ]
    ):
        caplog.clear()
        with Recorder(tmp_path / str(i), every=1, quiet=True) as rec:
            for step in range(5):
                rec.record_pytree(tree if step == 2 else {"w": ONE})
        assert len(caplog.records) == 1 and rec.stopped in caplog.text and words in rec.stopped
        assert open_trace(tmp_path / str(i)).steps == (0, 1) and rec.number == 5


def test_a_recorder_that_is_given_nothing_says_so_at_the_end(tmp_path, caplog):
    """No step is affected: the program continues after the with-block."""
    with Recorder(tmp_path / "run", every=1):
        pass
    Recorder(tmp_path / "run").close()
    Recorder(tmp_path / "run").close(whole=False)  # an exception says enough
    assert [r.getMessage() for r in caplog.records] == [
        f"apscope: nothing was recorded into {tmp_path / 'run'}: neither attach(model) nor "
        "record_pytree(gradients) was called"
    ] * 2


torch = pytest.importorskip("torch")
from tests.python.recorder_cases import batches, loss_of, network, recording, train_step  # noqa: E402

FORGOTTEN = (
    r"nothing is recorded into \S+ because no model is attached: call rec.attach\(model\) "
    r"before the first step, or begin the with-block where"
)


def test_a_forgotten_attach_is_raised_at_the_second_step_or_at_the_end_of_the_first(tmp_path):
    model, data, done = network(), batches(9), 0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=FORGOTTEN), Recorder(tmp_path / "run", every=1):
        for batch in data:
            train_step(model, optimizer, batch)
            done += 1
    assert done == 1 and not (tmp_path / "run").exists()
    train_step(model, optimizer, data[0])  # the hook is gone
    with pytest.raises(ValueError, match=FORGOTTEN), Recorder(tmp_path / "run", every=1):
        train_step(model, optimizer, data[0])


def test_attach_and_record_pytree_behind_the_first_step_are_in_time(tmp_path):
    """Behind one of each optimizer, as a loop has them that gives its gradients at its end."""
    model, data = network(), batches(3)
    optimizers = [torch.optim.SGD([p], lr=0.1) for p in model.parameters()]
    for name in ("attach", "pytree"):
        with Recorder(tmp_path / name, every=1, quiet=True) as rec:
            for i, batch in enumerate(data):
                for p in model.parameters():
                    p.grad = None
                loss_of(model, batch).backward()
                for optimizer in optimizers:
                    optimizer.step()
                if name == "pytree":
                    rec.record_pytree({n: p.grad for n, p in model.named_parameters()})
                elif i == 0:
                    rec.attach(model)
        assert open_trace(tmp_path / name).steps == ((0, 1, 2) if name == "pytree" else (0, 1))


def test_an_optimizer_of_another_copy_of_the_model_is_told_at_its_second_step(tmp_path):
    """With gradients that arrive in the attached one, and without."""
    data = batches(2)
    for name in ("copy is trained", "copy has an optimizer"):
        model, copy = network(), network()
        optimizer = torch.optim.SGD(copy.parameters(), lr=0.1)
        sentence = (
            "no optimizer has a parameter of the attached model, and SGD steps with 6 "
            "others; attach the model whose parameters the optimizer has"
        )
        with (
            pytest.raises(ValueError, match=sentence),
            Recorder(tmp_path / name, every=1, quiet=True) as rec,
        ):
            rec.attach(model)
            train_step(model if name == "copy has an optimizer" else copy, optimizer, data[0])
            train_step(model if name == "copy has an optimizer" else copy, optimizer, data[1])
        assert rec.number == 0 and not list((tmp_path / name).iterdir())


def test_another_models_optimizer_may_step_first_and_often(tmp_path, caplog):
    model, other, data = network(), network(), batches(3)
    critic, optimizer = (
        torch.optim.SGD(other.parameters(), lr=0.1),
        torch.optim.SGD(model.parameters(), lr=0.1),
    )
    with recording(tmp_path, model, caplog) as rec:
        for batch in data:
            for _ in range(3):
                train_step(other, critic, batch)
            train_step(model, optimizer, batch)
    assert rec.number == 3


def test_gradients_that_hooks_cannot_see_are_told_at_the_second_step(tmp_path, caplog):
    """Some programs create an optimizer's state by a first step without gradients."""
    model, data = network(), batches(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording(tmp_path, model, caplog):
        optimizer.step()
        train_step(model, optimizer, data[0])
    assert open_trace(tmp_path / "run").steps == (0,)
    with pytest.raises(
        ValueError, match=r"were not computed by backward\(\); pass them to record_pytree"
    ):
        with Recorder(tmp_path / "a", every=1, quiet=True) as rec:
            rec.attach(model)
            for batch in data:
                for p, g in zip(
                    model.parameters(),
                    torch.autograd.grad(loss_of(model, batch), list(model.parameters())),
                    strict=True,
                ):
                    p.grad = g
                optimizer.step()


def test_a_hook_that_takes_gradients_away_and_float64_are_raised_at_the_first_recorded_step(
    tmp_path, caplog
):
    Case = collections.namedtuple("Case", "name dtype take sentence")
    for case in (
        Case(
            "hook",
            torch.float32,
            True,
            "another hook removes the gradient of '.*'; attach the "
            "recorder before that hook is registered",
        ),
        Case(
            "dtype",
            torch.float64,
            False,
            "has dtype float64 and its element .* is not an fp32 value; pass round_to_fp32=True, or leave "
            "it out with tensors=",
        ),
    ):
        model, (batch,) = network(case.dtype), batches(1, case.dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if case.take:
            for p in model.parameters():
                p.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
        with (
            pytest.raises(ValueError, match=case.sentence),
            Recorder(tmp_path / case.name, every=1, quiet=True) as rec,
        ):
            rec.attach(model)
            train_step(model, optimizer, batch)
        assert not caplog.records and not list((tmp_path / case.name).iterdir())
        train_step(model, optimizer, batch)


def test_what_attach_cannot_record_is_said_at_once(tmp_path):
    for keys, sentence in (
        ({"workers": 3}, r"workers is 3, but attach\(\) records 1 worker here"),
        ({"tensors": ["0.weight", "0.wieght"]},
         "tensors has '0.wieght', which is not a parameter of the model; did you mean '0.weight'"),
    ):  # fmt: skip
        rec = Recorder(tmp_path / "run", every=1, quiet=True, **keys)
        with pytest.raises(ValueError, match=sentence):
            rec.attach(network())
        assert not (tmp_path / "run").exists()
    tied = network()
    tied.register_module("again", tied[0])
    tied.register_buffer("count", torch.zeros(1))
    with Recorder(tmp_path / "tied", every=1, tensors=list(tied.state_dict()), quiet=True) as rec:
        rec.attach(tied)
    with pytest.raises(ValueError, match="steps has 1.5; it must have integers alone"):
        Recorder(tmp_path / "run", steps=[0, 1.5])
    Recorder(tmp_path / "run", steps=np.arange(3))


def test_a_dtype_that_changes_at_a_later_step_is_one_warning(tmp_path, caplog):
    model, data = network(), batches(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", every=1, quiet=True) as rec:
        rec.attach(model)
        for i, (x, y) in enumerate(data):
            if i == 2:
                model.double()
            train_step(model, optimizer, (x.to(model[0].weight.dtype), y))
    assert "has dtype float64 and its element" in rec.stopped and len(caplog.records) == 1
    assert open_trace(tmp_path / "run").steps == (0, 1)
