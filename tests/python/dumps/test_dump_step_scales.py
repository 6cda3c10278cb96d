"""The step that a recorded loss scale is of, and which number the command line accepts for it."""

import re

import numpy as np
import pytest

from apscope import open_trace
from apscope.record import TraceWriter, convert
from tests.python.argv import command
from tests.python.converted import converted, refused
from tests.python.dumps.test_dump_contents import TOLD
from tests.python.torch_process import one_process_with_torch  # noqa: F401  # a fixture for all

#: Above six digits; the second is not a power of two.
LARGE = (2.0**20, 2.0**20 + 1, 2.0**24)


def save(path, **arrays):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)


def gradients(folder, scales, ranks=2, name="step_{s}/rank_{w}"):
    """A step for every scale, with the gradient 3 times the scale at every worker but the first."""
    for s, scale in enumerate(scales):
        for w in range(ranks):
            save(
                folder / f"{name.format(s=s, w=w)}.npz",
                w=np.full((2, 3), (1 + 2 * w) * scale, np.float32),
                b=np.full(4, scale, np.float32),
            )
    return folder


def unscaled(trace):
    return all(
        (trace.read(s, "w", w) == 1 + 2 * w).all() and (trace.read(s, "b", w) == 1).all()
        for s in trace.steps
        for w in range(trace.workers)
    )


#: Names of steps and workers, and the pattern that tells them apart.
NAMED = {
    "files": ("step_{s}/rank_{w}", None),
    "pattern": ("t{s}/gpu{w}", r"t(?P<step>\d+)/gpu(?P<worker>\d+)/(?P<tensor>.+)"),
    "numbers alone": ("{s}/{w}", r"(?P<step>\d+)/(?P<worker>\d+)/(?P<tensor>.+)"),
}


def scaled_dump(folder, where):
    """Two steps with the scales 1024 and 512, which are beside all workers of a step."""
    if where in NAMED:
        name, pattern = NAMED[where]
        gradients(folder, (1024, 512), name=name)
        for s, scale in enumerate((1024, 512)):
            step = name.partition("/")[0].format(s=s)
            save(folder / step / "meta.npz", loss_scale=np.float32(scale))
        return {"pattern": pattern}
    torch = pytest.importorskip("torch")
    folder.mkdir()
    steps = {
        f"step_{s}": {
            f"rank_{w}": {"w": torch.full((2, 3), (1 + 2 * w) * k), "b": torch.full((4,), k)}
            for w in range(2)
        }
        for s, k in enumerate((1024.0, 512.0))
    }
    if where == "keys":
        for s, scale in enumerate((1024.0, 512.0)):
            steps[f"step_{s}"]["loss_scale"] = scale
    else:
        steps["loss_scale"] = {"step_0": 1024.0, "step_1": 512.0}
    torch.save(steps, folder / "all.pt")
    return {}


@pytest.mark.parametrize("where", ["files", "pattern", "numbers alone", "keys", "a dict of steps"])
def test_a_number_of_a_whole_step_is_of_that_step(tmp_path, where):
    options = scaled_dump(tmp_path / "dump", where)
    refused("has the loss scale 1024, .*pass --loss-scale recorded ", tmp_path / "dump", **options)
    trace = converted(tmp_path / "dump", tmp_path / "run", loss_scale="recorded", **options)
    assert trace.manifest.metadata["divided_by_loss_scale"] == "1024 from step 0, 512 from step 1"
    assert unscaled(trace)
    trace = converted(
        tmp_path / "dump", tmp_path / "one", loss_scale="recorded", steps="1:2", **options
    )
    assert trace.manifest.metadata["divided_by_loss_scale"] == "512 from step 1"


def test_the_loss_of_a_whole_step_is_of_that_step(tmp_path):
    gradients(tmp_path / "dump", (1, 1))
    for s in range(2):
        save(tmp_path / f"dump/step_{s}/meta.npz", loss=0.5 + s, lr=0.25 / (1 + s))
    steps = converted(tmp_path / "dump", tmp_path / "run").manifest.steps
    assert [(step.loss, step.learning_rate) for step in steps] == [(0.5, 0.25), (1.5, 0.125)]


def test_a_number_of_all_steps_is_of_each_that_has_none_of_its_own(tmp_path):
    gradients(tmp_path / "dump", (64, 64, 64))
    save(tmp_path / "dump/meta.npz", loss_scale=np.float32(64))
    refused("meta.npz has the loss scale 64, .*-scale recorded if ", tmp_path / "dump")
    trace = converted(tmp_path / "dump", tmp_path / "run", loss_scale="recorded")
    assert trace.manifest.metadata["divided_by_loss_scale"] == "64 from step 0" and unscaled(trace)
    trace = converted(tmp_path / "dump", tmp_path / "given", loss_scale=64)
    assert trace.manifest.metadata["divided_by_loss_scale"] == "64 from step 0" and unscaled(trace)
    gradients(tmp_path / "two", (64, 32))
    save(tmp_path / "two/meta.npz", loss_scale=np.float32(64))
    save(tmp_path / "two/step_1/meta.npz", loss_scale=np.float32(32))
    for steps in (None, "1:2"):
        out = tmp_path / f"run-{steps}"
        assert unscaled(converted(tmp_path / "two", out, loss_scale="recorded", steps=steps))


def test_a_number_given_that_differs_from_a_recorded_one_is_refused(tmp_path):
    for s, scale in enumerate((1024, 512, 512)):
        save(tmp_path / f"dump/step_{s}.npz", w=np.ones((2, 3)), loss_scale=np.float32(scale))
    options = {"workers": 1}
    for given, found in ((1024, "step_1.npz has the loss scale 512"), (512, "step_0.* 1024")):
        refused(
            rf"{found} at step \d, but {given} is given; pass --loss-scale recorded if its "
            "gradients still include it, --loss-scale 1 if they were unscaled$",
            tmp_path / "dump",
            loss_scale=given,
            **options,
        )
    assert converted(tmp_path / "dump", tmp_path / "run", loss_scale=512, steps="1:3", **options)
    trace = converted(tmp_path / "dump", tmp_path / "unscaled", loss_scale=1, **options)
    assert trace.read(0, "w")[0, 0] == 1


def test_the_remedy_for_steps_without_a_scale_serves(tmp_path):
    for s, scale in enumerate((1024, 512, 512, None)):
        numbers = {} if scale is None else {"loss_scale": np.float32(scale)}
        save(tmp_path / f"dump/step_{s}.npz", w=np.ones((2, 3)), **numbers)
    options = {"workers": 1}
    for given, words in (
        (None, "pass --loss-scale recorded --steps 0:3 if they do"),
        ("recorded", "the files of step 3 have no loss_scale; select .* --steps 0:3"),
        (1024, "pass --loss-scale recorded --steps 0:3 if its"),
    ):
        refused(words, tmp_path / "dump", loss_scale=given, **options)
    assert converted(
        tmp_path / "dump", tmp_path / "a", loss_scale="recorded", steps="0:3", **options
    )
    refused("pass --loss-scale 512 if they do", tmp_path / "dump", steps="1:4", **options)
    assert converted(tmp_path / "dump", tmp_path / "b", loss_scale=512, steps="1:4", **options)


def a_list(folder, kind):
    scales = [1024.0, 512.0]
    if kind == "npz":
        gradients(folder, scales)
        save(folder / "meta.npz", loss_scale=np.array(scales))
        return folder
    folder.mkdir()
    for s in range(2):
        w, path = np.ones((2, 3), np.float32), folder / f"step_{s}"
        if kind == "in a step":
            save(path.with_suffix(".npz"), w=w, grad_scale=np.array(scales))
        elif kind in TOLD:
            TOLD[kind]({"w": w}, {"loss_scale": scales}, path.with_suffix(f".{kind}"))
        else:
            torch = pytest.importorskip("torch")
            listed = [torch.tensor(scale) for scale in scales] if kind == "tensors" else scales
            numbers = {"grads": {"w": torch.ones(2, 3)}, "loss_scale": listed}
            torch.save(numbers, path.with_suffix(".pt"))
    return folder


KINDS = ["npz", "in a step", "h5", "safetensors", "zarr", "list", "tensors"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_of_loss_scales_is_refused(tmp_path, kind):
    folder = a_list(tmp_path / "dump", kind)
    options = {} if kind == "npz" else {"workers": 1}
    for given in (None, "recorded", 1024):
        refused(
            r"\S+ has 2 loss scales in \S+, and a step has one; save one number beside the "
            "gradients of each step, or pass --loss-scale 1 if they were unscaled$",
            folder,
            loss_scale=given,
            **options,
        )
    trace = converted(folder, tmp_path / "run", loss_scale=1, **options)
    assert "w" in trace.tensors and not any("scale" in name for name in trace.tensors)


def test_a_list_of_one_loss_scale_is_a_number(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.full((2, 3), 8.0), "loss_scale": [8.0]}, tmp_path / "step_0.pt")
    trace = converted(tmp_path, tmp_path / "run", loss_scale="recorded", workers=1)
    assert (trace.read(0, "w") == 1).all()


def test_every_digit_of_a_loss_scale_is_printed(tmp_path, capsys):
    for s, scale in enumerate(LARGE):
        save(tmp_path / f"dump/step_{s}.npz", w=np.full((2, 3), scale), loss_scale=scale)
    out = tmp_path / "run"
    refused("step_0.npz has the loss scale 1048576, ", tmp_path / "dump", workers=1)
    result = convert(tmp_path / "dump", out, reduction="mean", workers=1, loss_scale="recorded")
    assert "gradients are divided by their loss scale, 1048576 first" in result.notes
    text = "1048576 from step 0, 1048577 from step 1, 16777216 from step 2"
    assert open_trace(out).manifest.metadata["divided_by_loss_scale"] == text
    for s, scale in enumerate((0.1, 3e80)):
        save(tmp_path / f"odd/step_{s}.npz", w=np.zeros((2, 3)), loss_scale=scale)
    metadata = converted(
        tmp_path / "odd", tmp_path / "two", workers=1, loss_scale="recorded"
    ).manifest.metadata
    assert metadata["divided_by_loss_scale"] == "0.1 from step 0, 3e+80 from step 1"
    with TraceWriter(tmp_path / "left", workers=1) as writer:
        writer.add(0, 0, "w", np.ones((2, 3), np.float32))
        writer.end_step(0, loss_scale=LARGE[1])
    capsys.readouterr()
    assert command("info {} --no-values", tmp_path / "left") == 0
    assert "scale      1048577 at first, 1048577 at last, still" in capsys.readouterr().out


def test_the_number_that_a_refusal_proposes_is_accepted(tmp_path):
    save(tmp_path / "dump/step_0.npz", w=np.full((2, 3), 2.0**21), loss_scale=2.0**21)
    save(tmp_path / "dump/step_1.npz", w=np.full((2, 3), 2.0**21))
    said = refused(r"pass --loss-scale \S+ if they do", tmp_path / "dump", workers=1)
    given = float(re.search(r"pass --loss-scale (\S+) if they do", said)[1])
    trace = converted(tmp_path / "dump", tmp_path / "run", workers=1, loss_scale=given)
    assert (trace.read(1, "w") == 1).all()
