"""Other content of dumps than gradients: numbers of a step, the state of an optimizer, numbers as
keys."""

import re
import sys
import warnings

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.python.converted import converted, pattern_of, refused
from tests.python.torch_process import one_process_with_torch  # noqa: F401  # a fixture for all

# ---- numbers beside the tensors ----------------------------------------------------------------


def save_h5(arrays, path):
    with pytest.importorskip("h5py").File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values


def save_zarr(arrays, path):
    group = pytest.importorskip("zarr").open_group(path, mode="w")
    for name, values in arrays.items():
        group.create_array(name, data=np.asarray(values))


def save_pt(arrays, path):
    torch = pytest.importorskip("torch")
    torch.save({name: torch.tensor(values) for name, values in arrays.items()}, path)


def divisors(trace):
    """Step -> the loss scale that its gradients were divided by."""
    found = trace.manifest.metadata.get("divided_by_loss_scale", "")
    begun = {int(step): float(scale) for scale, step in re.findall(r"(\S+) from step (\d+)", found)}
    assert all(step.loss_scale is None for step in trace.manifest.steps)
    return [
        next((begun[s] for s in sorted(begun, reverse=True) if s <= step), None)
        for step in trace.steps
    ]


SAVE = {
    "npz": lambda arrays, path: np.savez(path, **arrays),
    "safetensors": lambda arrays, path: save_file(
        {name: np.asarray(values) for name, values in arrays.items()}, path
    ),
    "h5": save_h5,
    "zarr": save_zarr,
    "pt": save_pt,
}


def save_safetensors_told(arrays, numbers, path):
    save_file(
        arrays,
        path,
        metadata={"format": "pt", **{name: str(value) for name, value in numbers.items()}},
    )


def save_shards_told(arrays, numbers, path):
    for part, (name, values) in enumerate(arrays.items(), 1):
        save_safetensors_told(
            {name: values},
            numbers,
            path.with_name(f"{path.stem}-{part:05d}-of-{len(arrays):05d}.safetensors"),
        )


def save_h5_told(arrays, numbers, path):
    save_h5(arrays, path)
    with pytest.importorskip("h5py").File(path, "a") as file:
        file.attrs.update(
            {**numbers, "by": "a script", "betas": np.array([0.9, 0.99]), "empty": ""}
        )


def save_zarr_told(arrays, numbers, path):
    save_zarr(arrays, path)
    pytest.importorskip("zarr").open_group(path, mode="a").attrs.update(
        {**numbers, "by": "a script", "betas": [0.9, 0.99], "none": None}
    )


TOLD = {
    "safetensors": save_safetensors_told,
    "shards": save_shards_told,
    "h5": save_h5_told,
    "zarr": save_zarr_told,
}


def among_the_arrays(kind, arrays, numbers, path):
    named = {f"grads/{name}": values for name, values in arrays.items()}
    SAVE[kind](named | numbers | {"lr": np.array([numbers["lr"]])}, path)


def among_the_attributes(kind, arrays, numbers, path):
    TOLD[kind](arrays, {name: float(value) for name, value in numbers.items()}, path)


KEYS = ["loss_scale", "scale", "scaler/scale", "amp.grad_scale"]


@pytest.mark.parametrize(("save", "kind", "key"), [
    *((among_the_arrays, kind, key) for kind in SAVE for key in KEYS),
    *((among_the_attributes, kind, "loss_scale") for kind in TOLD),
])  # fmt: skip
def test_a_loss_scale_beside_the_arrays_is_seen_in_every_kind_of_file(tmp_path, save, kind, key):
    (tmp_path / "dump").mkdir()
    for step in range(2):
        arrays = {"w": np.full((2, 3), step, np.float32), "b": np.ones(4, np.float32)}
        scale = np.float32(1024 * 2**step)
        numbers = {key: scale, "loss": np.float32(0.5), "lr": np.float64(0.25)}
        save(kind, arrays, numbers, tmp_path / "dump" / f"step_{step}.{kind}")
    refused(
        r"step_0\S* has the loss scale 1024, .*; pass --loss-scale recorded if they do",
        tmp_path / "dump",
    )
    trace = converted(tmp_path / "dump", tmp_path / "run", loss_scale="recorded")
    assert set(trace.tensors) == {"w", "b"}
    assert [(step.loss, step.learning_rate) for step in trace.manifest.steps] == [(0.5, 0.25)] * 2
    assert divisors(trace) == [1024, 2048] and trace.read(1, "w")[0, 0] == 2**-11
    trace = converted(tmp_path / "dump", tmp_path / "unscaled", loss_scale=1)
    assert divisors(trace) == [None, None] and trace.read(1, "w")[0, 0] == 1


@pytest.mark.parametrize(
    "beside",
    [
        lambda grads, state: {**grads, **state},
        lambda grads, state: {"grads": grads, "scaler": state},
    ],
)
def test_the_state_of_a_grad_scaler_is_a_loss_scale(tmp_path, beside):
    torch = pytest.importorskip("torch")
    state = {
        "scale": 65536.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2000,
        "_growth_tracker": 0,
    }
    grads = {"w": torch.ones(2, 3), "b": torch.ones(4)}
    for kind, numbers in (
        ("numbers", state),
        ("tensors", {key: torch.tensor(value) for key, value in state.items()}),
    ):
        (tmp_path / kind).mkdir()
        torch.save(beside(grads, numbers), tmp_path / kind / "step_7.pt")
        refused("has the loss scale 65536", tmp_path / kind)
        trace = converted(tmp_path / kind, tmp_path / f"run-{kind}", loss_scale="recorded")
        assert trace.tensors == ("w", "b") and divisors(trace) == [65536]


@pytest.mark.parametrize("nested", [False, True])
def test_numbers_of_a_distributed_checkpoint_are_seen(tmp_path, monkeypatch, nested):
    torch = pytest.importorskip("torch")
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    # A class that cannot be imported again disturbs nothing.
    unknown = type("Unknown", (), {"__module__": __name__})
    monkeypatch.setattr(sys.modules[__name__], "Unknown", unknown, raising=False)
    numbers = {
        "loss_scale": 1024.0,
        "loss": 0.5,
        "lr": 0.25,
        "note": "a text",
        "flag": True,
        "state": unknown(),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one process, no group
        grads = {"w": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4)}
        dcp.save(
            {"grads": grads, **({"scaler": numbers} if nested else numbers)},
            checkpoint_id=tmp_path / "dump" / "step_3",
        )
    refused(
        "step_3 has the loss scale 1024, .*; pass --loss-scale recorded if they do",
        tmp_path / "dump",
        trust_pickle=True,
    )
    trace = converted(tmp_path / "dump", tmp_path / "run", trust_pickle=True, loss_scale="recorded")
    assert [(step.loss, step.learning_rate) for step in trace.manifest.steps] == [(0.5, 0.25)]
    assert divisors(trace) == [1024]
    assert set(trace.tensors) == {"w", "b"}
    assert (1024 * trace.read(3, "w", 0)).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_torch_file_without_checksums_is_read(tmp_path):
    torch = pytest.importorskip("torch")
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"w": torch.ones(3), "b": torch.ones(2)}, tmp_path / "step_0.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert converted(tmp_path / "step_0.pt", tmp_path / "run").read(0, "w", 0).tolist() == [1, 1, 1]


def test_numbers_belong_to_the_step_that_their_key_or_file_says(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save(
        {
            f"step_{s}": {"w": torch.ones(3), "loss": torch.tensor(0.5 * s), "loss_scale": 2.0**s}
            for s in (1, 2)
        },
        tmp_path / "all.pt",
    )
    trace = converted(tmp_path / "all.pt", tmp_path / "run", workers=1, loss_scale="recorded")
    assert [step.loss for step in trace.manifest.steps] == [0.5, 1]
    assert divisors(trace) == [2, 4] and trace.tensors == ("w",)
    (tmp_path / "npy").mkdir()
    for s in (1, 2):
        for name, values in (
            ("w", np.ones(3, np.float32)),
            ("b", np.ones(2, np.float32)),
            ("loss_scale", np.float32(8 * s)),
        ):
            np.save(tmp_path / "npy" / f"{name}_step{s}.npy", values)
    trace = converted(tmp_path / "npy", tmp_path / "run-npy", workers=1, loss_scale="recorded")
    assert divisors(trace) == [8, 16] and trace.tensors == ("b", "w")
    torch.save(
        {"step_1": {"w": torch.ones(3)}, "step_2": {"w": torch.ones(3)}, "loss_scale": 4.0},
        tmp_path / "one.pt",
    )
    refused("pass --loss-scale recorded if they do", tmp_path / "one.pt", workers=1)
    trace = converted(tmp_path / "one.pt", tmp_path / "run-one", workers=1, loss_scale="recorded")
    assert divisors(trace) == [4, 4]


def test_numbers_of_stacked_arrays_and_of_every_dtype(tmp_path):
    arrays = {"w": np.ones((3, 2, 5), np.float32), "b": np.ones((3, 2, 4), np.float32)}
    np.savez(
        tmp_path / "stacked.npz",
        **arrays,
        loss=np.arange(6.0).reshape(3, 2),
        loss_scale=np.array([2, 4, 8]),
    )
    axes = {"step_axis": 0, "worker_axis": 1, "stage": "reduced"}
    trace = converted(tmp_path / "stacked.npz", tmp_path / "run", loss_scale="recorded", **axes)
    assert trace.tensors == ("w", "b") and divisors(trace) == [2, 4, 8]
    assert [step.loss for step in trace.manifest.steps] == [0.5, 2.5, 4.5]
    torch = pytest.importorskip("torch")
    for dtype in ("bfloat16", "float16", "float64", "int32", "float8_e5m2"):
        torch.save(
            {"w": torch.ones(5), "loss_scale": torch.tensor(1024).to(getattr(torch, dtype))},
            tmp_path / f"{dtype}.pt",
        )
        refused("has the loss scale 1024", tmp_path / f"{dtype}.pt", workers=1, step_axis="none")
    np.savez(
        tmp_path / "raw.npz",
        w=np.ones(5, ml_dtypes.bfloat16),
        loss_scale=np.array(1024, ml_dtypes.bfloat16),
    )
    refused(
        "has the loss scale 1024",
        tmp_path / "raw.npz",
        raw_dtype="bfloat16",
        workers=1,
        step_axis="none",
    )


def test_a_scale_of_the_model_is_a_tensor(tmp_path):
    np.savez(
        tmp_path / "step_0.npz",
        **{
            "attn.scale": np.float32(2),
            "logit_scale": np.float32(3),
            "lr.weight": np.ones(3, np.float32),
        },
    )
    assert converted(tmp_path, tmp_path / "run", workers=1).tensors == (
        "attn.scale",
        "logit_scale",
        "lr.weight",
    )


# ---- what is not a dump of gradients, or numbered
# ---------------------------------------------------


@pytest.mark.parametrize("what", ["checkpoint", "state"])
@pytest.mark.parametrize("optimizer", ["Adam", "SGD"])
def test_the_state_of_an_optimizer_is_refused(tmp_path, what, optimizer):
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(3, 2)
    made = {"Adam": torch.optim.Adam, "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)}[
        optimizer
    ](net.parameters())
    net(torch.ones(1, 3)).sum().backward()
    made.step()
    grads = {name: p.grad for name, p in net.named_parameters()}
    state = made.state_dict()
    torch.save(
        {"grads": grads, "model": net.state_dict(), "optimizer": state, "step": 0}
        if what == "checkpoint"
        else state,
        tmp_path / "step_0.pt",
    )
    refused(
        r"step_0.pt: array '.*' is an optimizer's state, .*; save p.grad of every parameter, "
        r"or, if .*--tensors",
        tmp_path,
        workers=1,
    )
    if what == "checkpoint":
        assert converted(tmp_path, tmp_path / "run", workers=1, tensors="^grads/").tensors == (
            "weight",
            "bias",
        )


@pytest.mark.parametrize(
    "name, make, steps, workers",
    [
        ("all", lambda t: {0: [t(2), t(3)], 100: [t(2), t(3)]}, (0, 100), 1),
        ("all_2", lambda t: {"grads": [[t(2), t(3)], [t(2), t(3)], [t(2), t(3)]]}, (0, 1, 2), 1),
        (
            "all",
            lambda t: {7: [[t(2), t(3)], [t(2), t(3)]], 8: [[t(2), t(3)], [t(2), t(3)]]},
            (7, 8),
            2,
        ),
        ("step_3", lambda t: [[t(2), t(3)], [t(2), t(3)]], (3,), 2),
        (
            "rank_0",
            lambda t: {"grads": {5: {"0.w": t(2), "b": t(3)}, 6: {"0.w": t(2), "b": t(3)}}},
            (5, 6),
            1,
        ),
    ],
)
def test_numbers_as_keys_get_a_pattern_that_works(tmp_path, name, make, steps, workers):
    torch = pytest.importorskip("torch")
    torch.save(make(lambda n: torch.rand(n)), tmp_path / f"{name}.pt")
    source = tmp_path / f"{name}.pt"
    error = refused(
        r"the same tensors are under '\d+', '\d+'.*; if they are "
        r"(steps|workers|steps and workers), ",
        source,
    )
    pattern = pattern_of(error)
    trace = converted(source, tmp_path / "run", pattern=pattern)
    assert (trace.steps, trace.workers, len(trace.tensors)) == (steps, workers, 2)


def test_one_array_a_file_in_numbered_folders_gets_a_pattern_that_works(tmp_path):
    for step in range(2):
        for worker in range(3):
            (tmp_path / f"dump/{step}/{worker}").mkdir(parents=True)
            for i, layer in enumerate(("fc", "conv")):
                np.save(
                    tmp_path / f"dump/{step}/{worker}/{layer}.npy",
                    np.full(2 + i, worker, np.float32),
                )
    error = refused("if they are steps and workers, pass --pattern", tmp_path / "dump")
    pattern = pattern_of(error)
    trace = converted(tmp_path / "dump", tmp_path / "run", pattern=pattern)
    assert (trace.steps, trace.workers, trace.tensors) == ((0, 1), 3, ("conv", "fc"))


@pytest.mark.parametrize("kind", ["external", "virtual"])
def test_a_dataset_that_lies_in_another_file_is_refused(tmp_path, kind):
    """Otherwise a dump from a stranger could copy any file of the reader into a trace."""
    h5py = pytest.importorskip("h5py")
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(64)))
    with h5py.File(tmp_path / "dump.h5", "w") as file:
        if kind == "external":
            file.create_dataset("step_0/worker_0/w", (16,), "f4", external=[(str(secret), 0, 64)])
        else:
            with h5py.File(tmp_path / "other.h5", "w") as other:
                other["x"] = np.ones(16, np.float32)
            layout = h5py.VirtualLayout((16,), "f4")
            layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (16,))
            file.create_virtual_dataset("step_0/worker_0/w", layout)
    refused(
        "its dataset 'step_0/worker_0/w' is stored in other files, which are not read",
        tmp_path / "dump.h5",
    )
