"""A dump with a loss scale in its gradients becomes the trace of the same gradients without it."""

import ml_dtypes
import numpy as np
import pytest

import apscope
from apscope.record import TraceWriter, convert
from tests.python.argv import command
from tests.python.converted import converted, refused

SCALES = (65536.0, 65536.0, 32768.0)  # a GradScaler that has backed off


def dump(folder, scaled, dtype=np.float32, values=None, scales=SCALES):
    """Three steps, two workers; `scaled`: before unscale_, with the scale beside them."""
    random = np.random.default_rng(7)
    for step, scale in enumerate(scales):
        for worker in range(2):
            grads = {
                "w": random.normal(0, 1e-5, (8, 6)) if values is None else values,
                "b": random.normal(0, 1e-7, 5),
            }
            # A power of two, so that the scaled and the unscaled value have the same digits.
            grads = {name: g.astype(np.float32).astype(dtype) for name, g in grads.items()}
            if scaled:
                grads = {
                    name: (g.astype(np.float32) * np.float32(scale)).astype(dtype)
                    for name, g in grads.items()
                }
                grads["loss_scale"] = np.float32(scale)
            folder.mkdir(exist_ok=True)
            np.savez(folder / f"step{step}_rank{worker}.npz", **grads)
    return folder


def values(trace):
    return {
        (step, worker, name): trace.read(step, name, worker)
        for step in trace.steps
        for worker in range(trace.workers)
        for name in trace.tensors
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_the_same_gradients_dumped_both_ways_are_the_same_trace(tmp_path, dtype):
    raw = {"raw_dtype": "bfloat16"} if dtype is ml_dtypes.bfloat16 else {}
    with_scale = convert(
        dump(tmp_path / "scaled", True, dtype),
        tmp_path / "one",
        reduction="mean",
        loss_scale="recorded",
        **raw,
    )
    without = convert(
        dump(tmp_path / "plain", False, dtype), tmp_path / "two", reduction="mean", **raw
    )
    one, two = values(with_scale.trace), values(without.trace)
    assert all(np.array_equal(one[key], two[key]) for key in two) and len(one) == len(two) == 12
    for step in range(3):
        name = f"step_{step:08d}/worker_0001.safetensors"
        digests = [(result.trace.path / name).stat().st_size for result in (with_scale, without)]
        assert digests[0] == digests[1]  # the same dtypes
    about = with_scale.trace.manifest
    assert about.metadata["divided_by_loss_scale"] == "65536 from step 0, 32768 from step 2"
    assert [step.loss_scale for step in about.steps] == [None] * 3
    assert "gradients are divided by their loss scale, 65536 first" in with_scale.notes


def test_a_dump_before_unscale_is_what_the_recorder_records(tmp_path):
    torch = pytest.importorskip("torch")
    from apscope.record import Recorder

    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**15, growth_interval=2)
    (tmp_path / "dump").mkdir()
    with Recorder(tmp_path / "recorded", every=1, quiet=True) as rec:
        rec.attach(model)
        for step in range(5):
            optimizer.zero_grad()
            scaler.scale(model(torch.randn(4, 6)).square().mean()).backward()
            grads = {name: p.grad.clone() for name, p in model.named_parameters()}
            torch.save(
                {"grads": grads, "scaler": scaler.state_dict()}, tmp_path / f"dump/step_{step}.pt"
            )
            scaler.step(optimizer)
            scaler.update()
    from_dump = converted(tmp_path / "dump", tmp_path / "run", workers=1, loss_scale="recorded")
    recorded = apscope.open_trace(tmp_path / "recorded")
    one, two = values(from_dump), values(recorded)
    assert all(np.array_equal(one[key], two[key]) for key in two) and len(one) == len(two) == 20
    key = "divided_by_loss_scale"
    assert from_dump.manifest.metadata[key] == recorded.manifest.metadata[key]
    assert from_dump.manifest.metadata[key].startswith("32768 from step 0, 65536 from step 2")


def test_fp16_whose_quotient_is_below_fp16_is_stored_as_fp32(tmp_path):
    np.savez(tmp_path / "step0.npz", w=np.array([2**-10, 1.0, np.inf, -0.0], np.float16))
    trace = converted(tmp_path, tmp_path / "run", loss_scale=2.0**16, workers=1)
    found = trace.read(0, "w")
    assert found.dtype == np.float32 and found.tolist() == [2.0**-26, 2.0**-16, np.inf, 0.0]
    assert np.signbit(found[3])


@pytest.mark.parametrize(
    "value, scale",
    [(1.0, 3.0), (2.0**-149, 2.0), (3 * 2.0**-140, 2.0**10), (3e38, 0.5), (1.0, 1 + 2.0**-40)],
)
def test_a_quotient_that_is_no_fp32_value_is_refused_or_rounded_by_request(tmp_path, value, scale):
    np.savez(tmp_path / "step0.npz", w=np.array([0.0, value], np.float32))
    options = {"loss_scale": scale, "workers": 1}
    refused(
        r"step0.npz: array 'w': its element 1 \(.*\) divided by the loss scale .* is not an "
        r"fp32 value; pass --round-to-fp32 to round it as torch.amp.GradScaler does$",
        tmp_path,
        **options,
    )
    trace = converted(tmp_path, tmp_path / "run", round_to_fp32=True, **options)
    with np.errstate(all="ignore"):
        product = np.float32(value) * np.float32(1 / scale)
    assert trace.read(0, "w").tolist() == [0.0, float(product)]
    assert trace.manifest.metadata["rounding_to_fp32"] == "allowed"


def test_rounding_is_that_of_grad_scaler(tmp_path):
    torch = pytest.importorskip("torch")
    scaled = np.random.default_rng(1).normal(0, 1, 1000).astype(np.float32)
    np.savez(tmp_path / "step0.npz", w=scaled)
    p = torch.nn.Parameter(torch.zeros(1000))
    p.grad = torch.tensor(scaled)
    optimizer = torch.optim.SGD([p], lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=3000.0)
    scaler.scale(torch.ones(1))  # makes the scale's tensor
    scaler.unscale_(optimizer)
    trace = converted(tmp_path, tmp_path / "run", loss_scale=3000, workers=1, round_to_fp32=True)
    assert np.array_equal(trace.read(0, "w"), p.grad.numpy())


def test_exact_quotients_by_any_scale_are_stored(tmp_path):
    np.savez(tmp_path / "step0.npz", w=np.array([3.0, -1.5, np.nan, np.inf, 0.0], np.float32))
    trace = converted(tmp_path, tmp_path / "run", loss_scale=3, workers=1)
    assert np.array_equal(trace.read(0, "w"), [1, -0.5, np.nan, np.inf, 0], equal_nan=True)


@pytest.mark.parametrize("scale", [0.0, -2.0, np.inf, np.nan])
def test_a_recorded_scale_that_divides_nothing_is_refused(tmp_path, scale):
    np.savez(tmp_path / "step4.npz", w=np.ones(3, np.float32), loss_scale=np.float32(scale))
    refused(
        "the files of step 4 have the loss scale .*; leave the ",
        tmp_path,
        loss_scale="recorded",
        workers=1,
    )


def test_a_trace_that_includes_a_scale_says_so_in_info_and_replay(tmp_path, capsys):
    with TraceWriter(tmp_path / "run", workers=1) as writer:
        for step in (2, 3):
            writer.add(step, 0, "w", np.ones((2, 3), np.float32))
            writer.end_step(step, loss_scale=512.0)
    with pytest.warns(UserWarning, match="multiplied by a loss scale, 512 at step 2, so .*convert"):
        apscope.replay(tmp_path / "run", "none:fp16")
    assert command("info {}", tmp_path / "run") == 0
    assert "scale      512 at first, 512 at last, still in the gradients" in capsys.readouterr().out
