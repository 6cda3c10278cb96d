"""TraceWriter: its errors, and what it writes."""

import ml_dtypes
import numpy as np
import pytest

from apscope import open_trace, replay
from apscope._traces.manifest import merged_files
from apscope.cli import main
from apscope.record import TraceWriter, guess_role


def test_the_recorded_array_is_copied(tmp_path):
    values = np.ones(3, np.float32)
    with TraceWriter(tmp_path / "run", workers=1) as writer:
        writer.add(0, 0, "w", values)
        values[:] = 2
        writer.end_step(0)
    assert open_trace(tmp_path / "run").read(0, "w").tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int64]
)
def test_values_survive_bit_for_bit(tmp_path, dtype):
    values = np.array([[0, 1, 2], [-3, 0, 96]]).astype(dtype)
    with TraceWriter(tmp_path / "run", workers=1) as writer:
        writer.add(0, 0, "w", values.T)  # not C-ordered
        writer.add(0, 0, "empty", np.zeros((0, 4), dtype))
        writer.add(0, 0, "scalar", np.asarray(values[0, 1]))
        writer.end_step(0)
    trace = open_trace(tmp_path / "run")
    assert np.array_equal(trace.read(0, "w"), values.T.astype(np.float32))
    assert trace.read(0, "empty").shape == (0, 4)
    assert trace.read(0, "scalar").shape == () and trace.read(0, "scalar") == 1


def test_special_values_and_losses_survive(tmp_path):
    bits = np.array([0x80000000, 0x7F800000, 0xFF800000, 0x7FC00001, 1, 0x7F7FFFFF], np.uint32)
    with TraceWriter(tmp_path / "run", workers=1) as writer:
        for step, loss in enumerate([float("nan"), float("inf"), float("-inf"), 0.1]):
            writer.add(step, 0, "w", bits.view(np.float32))
            writer.end_step(step, loss=loss, loss_scale=1024)
    trace = open_trace(tmp_path / "run")
    assert np.array_equal(trace.read(0, "w").view(np.uint32), bits)
    losses = [step.loss for step in trace.manifest.steps]
    assert np.isnan(losses[0]) and losses[1:] == [float("inf"), float("-inf"), 0.1]
    assert trace.manifest.steps[0].loss_scale == 1024


@pytest.mark.parametrize("values", [[0.1], [1e300], [2.0**-150]])
def test_float64_that_is_no_fp32_is_refused(tmp_path, values):
    writer = TraceWriter(tmp_path / "run", workers=1)
    with pytest.raises(ValueError, match="float64 and its element 0"):
        writer.add(0, 0, "w", np.array(values))


def refused(words, call):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(("key", "value", "error"), [
    ("step", 2**63, r"step=9223372036854775808 is not between 0 and 2\^63 - 1"),
    ("step", -1, "step=-1 is not between 0 and"),
    ("step", 1.5, r"step=1\.5 must be an integer"),
    ("step", True, "step=True must be an integer, not a bool"),
    ("worker", 0.5, r"worker=0\.5 must be an integer"),
])  # fmt: skip
def test_steps_and_workers_are_integers(tmp_path, key, value, error):
    writer = TraceWriter(tmp_path / "run", workers=2)
    with pytest.raises((ValueError, TypeError), match=error):
        writer.add(
            **{"step": 0, "worker": 0, "name": "w", "array": np.ones(2, np.float32), key: value}
        )
    assert not list((tmp_path / "run").iterdir())


def test_the_largest_step_is_recorded_and_replayed(tmp_path):
    with TraceWriter(tmp_path / "run", workers=1) as writer:
        writer.add(np.int64(2**63 - 1), 0, "w", np.ones(2, np.float32))
        writer.end_step(2**63 - 1)
    results = replay(open_trace(tmp_path / "run"), schemes=["aps:e4m3"])
    assert set(results.frame["step"]) == {2**63 - 1}


def test_the_writer_refuses_what_would_not_be_a_trace(tmp_path):
    writer = TraceWriter(tmp_path / "run", workers=2)
    one = np.ones(2, np.float32)
    refused("worker=2 is not between 0 and 1", lambda: writer.add(0, 2, "w", one))
    refused("unknown kind 'moments'", lambda: writer.add(0, 0, "w", one, kind="moments"))
    writer.add(0, 0, "w", one)
    refused("added twice", lambda: writer.add(0, 0, "w", one))
    refused("step 0 must be ended before step 1 begins", lambda: writer.add(1, 0, "w", one))
    refused("step 0 lacks the gradients of worker 1 of 2", lambda: writer.end_step(0))
    writer.add(0, 1, "w", np.ones(3, np.float32))
    refused(
        r"worker 1 at step 0: tensor 'w' has shape \(3,\), but had \(2,\)",
        lambda: writer.end_step(0),
    )
    # But its lock.
    assert not [path for path in (tmp_path / "run").iterdir() if not path.name.startswith(".")]
    writer.close()

    for worker in range(2):
        writer.add(0, worker, "w", one)
    writer.end_step(0)
    refused("step 0 must be 1 or more", lambda: writer.add(0, 0, "w", one))
    for worker in range(2):
        writer.add(1, worker, "v", one)
    refused("worker 0 at step 1 lacks the tensor 'w'", lambda: writer.end_step(1))
    refused("already has a trace", lambda: TraceWriter(tmp_path / "run", workers=2))
    refused("workers is 0", lambda: TraceWriter(tmp_path / "x", workers=0))
    refused("workers is 1000001", lambda: TraceWriter(tmp_path / "x", workers=1_000_001))
    refused("stage is 'global'", lambda: TraceWriter(tmp_path / "x", workers=1, stage="global"))
    refused(
        "reduction is 'average'",
        lambda: TraceWriter(tmp_path / "x", workers=1, reduction="average"),
    )
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").touch()
    refused("file is not a folder", lambda: TraceWriter(tmp_path / "file", workers=1))


@pytest.mark.parametrize(("name", "array"), [("__metadata__", [1.0]), ("sample", [])])
def test_the_writer_refuses_tensors_that_no_file_can_have(tmp_path, name, array):
    writer = TraceWriter(tmp_path / "run", workers=1, sampled_from={"sample": 4})
    refused(
        "is reserved in safetensors files|a sample of 0 elements was added",
        lambda: writer.add(0, 0, name, np.array(array, np.float32)),
    )


def test_a_commit_lists_only_files_of_the_trace(tmp_path):
    writer = TraceWriter(tmp_path / "run", workers=1)
    writer.add(0, 0, "w", np.ones(2, np.float32))
    files = writer.write_files(0)
    (tmp_path / "run" / "x").touch()
    stray = {"../x": {"bytes": 0, "sha256": "0" * 64}}
    refused(
        r"'\.\./x' is not a file of a trace with workers=1",
        lambda: writer.commit(0, files | stray),
    )
    writer.commit(0, files)
    assert open_trace(tmp_path / "run").steps == (0,)


def test_a_commit_needs_the_shapes(tmp_path):
    writer = TraceWriter(tmp_path / "run", workers=1)
    files = {"worker_0000.safetensors": {"bytes": 8, "sha256": "0" * 64}}
    refused("this process wrote no gradients into", lambda: writer.commit(0, files))
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_two_processes_may_write_one_file_if_it_is_the_same():
    first, second = ({"weights.safetensors": {"bytes": 8, "sha256": c * 64}} for c in "ab")
    assert merged_files(3, [first, dict(first)]) == first
    refused(
        "two processes wrote different 'weights.safetensors' of step 3",
        lambda: merged_files(3, [first, second]),
    )


def test_roles_are_given_or_guessed(tmp_path):
    with TraceWriter(tmp_path / "run", workers=1, roles={"w": "special"}) as writer:
        writer.add(0, 0, "w", np.zeros((2, 2), np.float32))
        writer.add(0, 0, "v", np.zeros((2, 2), np.float32))
        writer.end_step(0)
    trace = open_trace(tmp_path / "run")
    assert trace.roles == {"w": "special", "v": "linear"}
    assert trace.manifest.metadata == {"roles_guessed_by_name_and_shape": "1 of 2: v"}


def test_roles_are_said_by_name_by_pattern_or_by_a_function(tmp_path, capsys):
    shapes = {"tok.weight": (8, 2), "tok.scale": (2,), "fc.weight": (2, 2)}

    def written(folder, roles):
        with TraceWriter(tmp_path / folder, workers=1, roles=roles) as writer:
            for name, shape in shapes.items():
                writer.add(0, 0, name, np.zeros(shape, np.float32))
            writer.end_step(0)
        trace = open_trace(tmp_path / folder)
        return list(trace.roles.values()), trace.manifest.metadata.get(
            "roles_guessed_by_name_and_shape"
        )

    assert written("none", None) == (["linear", "other", "linear"], "all")
    assert written("names", {"tok*": "embedding", "tok.scale": "norm"}) == (
        ["embedding", "norm", "linear"],
        "1 of 3: fc.weight",
    )
    assert written("function", lambda name, shape: "embedding" if len(shape) == 2 else None) == (
        ["embedding", "other", "embedding"],
        "1 of 3: tok.scale",
    )
    assert written("every", {"*": "linear"}) == (["linear"] * 3, None)
    assert main(["info", str(tmp_path / "names")]) == 0
    assert "roles_guessed_by_name_and_shape 1 of 3: fc.weight" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name, shape, role",
    [
        ("layer1.0.conv2.weight", (64, 64, 3, 3), "conv"),
        ("layer1.0.bn2.weight", (64,), "norm"),
        ("layer1.0.bn2.bias", (64,), "norm"),
        ("encoder.layer_norm1.weight", (64,), "norm"),
        ("transformer.h.0.ln_1.weight", (768,), "norm"),
        ("fc.bias", (10,), "bias"),
        ("transformer.wte.weight", (50257, 768), "embedding"),
        ("model.embed_tokens.weight", (32000, 64), "embedding"),
        ("lm_head.weight", (50257, 768), "head"),
        ("unembed.weight", (64, 50257), "head"),
        ("embeddings.word.weight", (50257, 64), "embedding"),
        ("h.0.attn.c_proj.weight", (768, 768), "attention"),
        ("blocks.3.mlp.fc1.weight", (128, 32), "linear"),
        ("alpha", (), "other"),
    ],
)
def test_guessed_roles(name, shape, role):
    assert guess_role(name, shape) == role


def test_a_name_that_no_file_can_hold_is_refused(tmp_path):
    with (
        TraceWriter(tmp_path / "t", workers=1) as writer,
        pytest.raises(ValueError, match="half a surrogate pair"),
    ):
        writer.add(0, 0, "\ud800", np.zeros(1, np.float32))


FP8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


@pytest.mark.parametrize("name", FP8)
@pytest.mark.parametrize("library", ["ml_dtypes", "torch"])
def test_every_fp8_value_is_widened_exactly(tmp_path, name, library):
    codes = np.arange(256, dtype=np.uint8)
    given = codes.view(getattr(ml_dtypes, name))
    want = given.astype(np.float32)
    if library == "torch":
        torch = pytest.importorskip("torch")
        given = torch.from_numpy(codes).view(getattr(torch, name))
    with TraceWriter(tmp_path / "run", workers=1) as writer:
        writer.add(0, 0, "w", given)
        writer.end_step(0)
    assert np.array_equal(open_trace(tmp_path / "run").read(0, "w"), want, equal_nan=True)
    stored = b'"F32"' if name == "float8_e8m0fnu" else b'"F16"'
    assert stored in (tmp_path / "run/step_00000000/worker_0000.safetensors").read_bytes()


def test_what_numpy_cannot_hold_is_refused_in_one_sentence(tmp_path):
    torch = pytest.importorskip("torch")
    with TraceWriter(tmp_path / "run", workers=1) as writer:
        with pytest.raises(
            ValueError,
            match=r"^gradient 'w' of step 0, worker 0, has dtype torch.float4_e2m1fn_x2; a trace "
            r"has real numbers$",
        ):
            writer.add(0, 0, "w", torch.zeros(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2))
