"""Advice keeps the data: ranks, micro-batches, steps in lists, pairs of names and gradients."""

import numpy as np
import pytest

from apscope.record import convert
from tests.python.argv import command
from tests.python.converted import converted, pattern_of, refused

ARRAYS = {"fc.weight": np.ones((3, 4), np.float32), "fc.bias": np.ones(5, np.float32)}


def test_ranks_of_deepspeed_names_get_a_pattern_with_a_worker(tmp_path):
    """The finding: --tensors '^dp_rank_03_grads/' was proposed, one rank of four."""
    for rank in range(4):
        np.savez(
            tmp_path / f"mp_rank_00_dp_rank_{rank:02d}_grads.npz",
            **{name: rank * values for name, values in ARRAYS.items()},
        )
    error = refused("are under 'dp_rank_00_grads', .*pass --pattern", tmp_path)
    assert "--tensors" not in error
    trace = converted(tmp_path, tmp_path / "run", pattern=pattern_of(error))
    assert trace.workers == 4 and set(trace.tensors) == set(ARRAYS)
    assert [trace.read(0, "fc.bias", rank)[0] for rank in range(4)] == [0, 1, 2, 3]


def test_parts_of_a_model_become_a_trace_each(tmp_path):
    for part in range(2):
        for rank in range(3):
            np.savez(
                tmp_path / f"step_7_mp_rank_{part:02d}_dp_rank_{rank:02d}.npz",
                **{name: (10 * part + rank) * values for name, values in ARRAYS.items()},
            )
    error = refused("pass --pattern", tmp_path)
    pattern = pattern_of(error)
    assert "for the part mp_rank_00 of the model alone" in error.replace("_mp", "mp")
    for part in range(2):
        trace = converted(
            tmp_path,
            tmp_path / f"run{part}",
            pattern=pattern.replace("mp_rank_00", f"mp_rank_0{part}"),
        )
        assert trace.steps == (7,) and trace.workers == 3
        assert trace.read(7, "fc.bias", 2)[0] == 10 * part + 2


def test_ranks_with_other_names_each_are_ranks_too(tmp_path):
    for rank in range(2):
        np.savez(
            tmp_path / f"mp_rank_00_dp_rank_{rank:02d}.npz",
            **{f"expert{rank}": np.ones(3, np.float32)},
            **ARRAYS,
        )
    error = refused("tensors are under 'dp_rank_00', 'dp_rank_01'", tmp_path)
    trace = converted(tmp_path, tmp_path / "run", pattern=pattern_of(error), missing="zeros")
    assert trace.workers == 2 and len(trace.tensors) == 4


@pytest.mark.parametrize("names", [("w",), ("w", "b")])
def test_steps_in_a_list_under_every_name(tmp_path, names):
    """The finding: {"w": [step 0, step 1]} became two tensors, or one name of several."""
    torch = pytest.importorskip("torch")
    made = {name: [torch.full((2 + i,), s + 1.0) for s in range(3)] for i, name in enumerate(names)}
    torch.save(made, tmp_path / "all.pt")
    error = refused(
        "is one of 3 arrays of the same shape under 'w'; if they are steps, pass",
        tmp_path / "all.pt",
    )
    options = {"reduction": "mean", "pattern": pattern_of(error), "workers": 1}
    trace = converted(tmp_path / "all.pt", tmp_path / "run", **options)
    assert trace.steps == (0, 1, 2) and trace.tensors == names
    assert [trace.read(s, "w")[0] for s in range(3)] == [1, 2, 3]
    options["pattern"] = options["pattern"].replace("<step>", "<worker>")
    trace = converted(
        tmp_path / "all.pt", tmp_path / "ranks", **options | {"workers": None, "step_axis": "none"}
    )
    assert trace.workers == 3


@pytest.mark.parametrize("key", ["grads", "gradients", "params_grad"])
def test_a_list_of_gradients_is_a_list_of_tensors(tmp_path, key):
    torch = pytest.importorskip("torch")
    torch.save({key: [torch.ones(2, 3), torch.ones(2, 3)]}, tmp_path / "step_0.pt")
    options = {"reduction": "mean", "workers": 1, "pattern": r"step_(?P<step>\d+)/(?P<tensor>.+)"}
    assert converted(tmp_path, tmp_path / "run", **options).tensors == ("0", "1")


@pytest.mark.parametrize("make", [list, tuple, lambda pairs: [list(pair) for pair in pairs]])
def test_pairs_of_names_and_gradients(tmp_path, make):
    """The finding: [(name, grad), ...] lost its names."""
    torch = pytest.importorskip("torch")
    for rank in range(2):
        pairs = [(name, torch.tensor(values) * rank) for name, values in ARRAYS.items()]
        torch.save(make(pairs), tmp_path / f"step3_rank{rank}.pt")
    trace = converted(tmp_path, tmp_path / "run")
    assert trace.tensors == ("fc.weight", "fc.bias") and trace.read(3, "fc.bias", 1)[0] == 1


def test_two_pairs_of_one_name_are_refused(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save([("w", torch.ones(2)), ("w", torch.ones(2))], tmp_path / "step_0.pt")
    refused("it has two arrays with the name 'w'", tmp_path)


def test_layers_that_are_called_w_and_s_stay_layers(tmp_path):
    layers = {
        f"{name}.{kind}": np.ones(2 + i, np.float32)
        for i, name in enumerate(("w0", "s1", "w2"))
        for kind in ("weight", "bias")
    }
    np.savez(tmp_path / "step_3.npz", **layers)
    trace = converted(tmp_path, tmp_path / "run", workers=1)
    assert trace.tensors == tuple(layers) and trace.steps == (3,)


def test_a_name_with_a_newline_is_a_name(tmp_path):
    """The finding: no default pattern matched it."""
    np.savez(
        tmp_path / "step_0.npz", **{"a\nb": np.ones(3, np.float32), "c": np.ones(2, np.float32)}
    )
    trace = converted(tmp_path, tmp_path / "run", workers=1)
    assert trace.tensors == ("a\nb", "c") and trace.read(0, "a\nb").tolist() == [1, 1, 1]


def test_a_state_of_weights_is_not_taken_for_gradients_without_a_word(tmp_path):
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    torch.save(net.state_dict(), tmp_path / "model.pt")
    refused(
        "'1.running_mean' is a buffer of a model, as in a state of weights, and",
        tmp_path,
        workers=1,
    )
    torch.save(net[0].state_dict(), tmp_path / "model.pt")
    options = {"reduction": "mean", "workers": 1, "step_axis": "none", "dry_run": True}
    result = convert(tmp_path, tmp_path / "run", **options)
    assert any("gradients, not weights" in note for note in result.notes)
    (tmp_path / "model.pt").rename(tmp_path / "grads.pt")
    result = convert(tmp_path, tmp_path / "run", **options)
    assert not any("gradients, not weights" in note for note in result.notes)


def test_reduction_is_explained_where_it_is_not_given(tmp_path, capsys):
    np.savez(tmp_path / "step_0.npz", **ARRAYS)
    assert command("convert {} {}", tmp_path, tmp_path / "run") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pass --reduction mean if their sum was divided by the number of workers" in error
