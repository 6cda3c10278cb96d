"""Dumps with one array per micro-batch: --accumulate adds them as training does."""

import ml_dtypes
import numpy as np
import pytest

from apscope.record import convert
from tests.python.converted import converted, pattern_of, refused

NAMES = (
    "step{s}_rank{w}_micro{m}",
    "step_{s}/rank_{w}/microbatch_{m}",
    "micro_{m}/step_{s}/rank_{w}",
    "step{s}_mb{m}_rank{w}",
    "rank{w}/step{s}/micro_step_{m}/grads",
)


def arrays(s, w, m, dtype=np.float32):
    random = np.random.default_rng([s, w, m])
    return {
        "fc.weight": random.normal(0, 1, (3, 4)).astype(np.float32).astype(dtype),
        "fc.bias": random.normal(0, 1, 5).astype(np.float32).astype(dtype),
    }


def dump(folder, name=NAMES[0], dtype=np.float32, micro=4):
    for s in (0, 3):
        for w in range(2):
            for m in range(micro):
                path = folder / f"{name.format(s=s, w=w, m=m)}.npz"
                path.parent.mkdir(parents=True, exist_ok=True)
                np.savez(path, **arrays(s, w, m, dtype))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_micro_batches_are_added_in_fp32_in_ascending_order(tmp_path, name):
    result = convert(
        dump(tmp_path / "dump", name), tmp_path / "run", reduction="mean", accumulate="fp32"
    )
    trace = result.trace
    assert (
        trace.tensors == ("fc.weight", "fc.bias") and trace.steps == (0, 3) and trace.workers == 2
    )
    assert "16 files: 2 steps x 2 workers x 4 micro-batches, 2 tensors" in result.understood
    for s, w in ((0, 0), (3, 1)):
        for key in trace.tensors:
            expected = np.float32(0)
            for m in range(4):
                expected = expected + arrays(s, w, m)[key]
            assert np.array_equal(trace.read(s, key, w), expected)
    assert trace.manifest.metadata["micro_batches_added"] == "4, ascending, in fp32"
    assert trace.manifest.metadata["accumulation"] == "4"
    assert not any("one backward pass" in note for note in result.notes)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_own_is_what_autograd_leaves_in_grad(tmp_path, dtype):
    torch = pytest.importorskip("torch")
    for m in range(5):
        parts = {
            key: torch.tensor(value).to(getattr(torch, dtype))
            for key, value in arrays(0, 0, m).items()
        }
        torch.save(parts, tmp_path / f"step0_micro{m}.pt")
    trace = converted(tmp_path, tmp_path / "run", accumulate="own", round_to_fp32=True)
    for key in trace.tensors:
        p = torch.nn.Parameter(torch.zeros(arrays(0, 0, 0)[key].shape, dtype=getattr(torch, dtype)))
        for m in range(5):
            (p * torch.tensor(arrays(0, 0, m)[key]).to(p.dtype)).sum().backward()
        assert np.array_equal(trace.read(0, key), p.grad.float().numpy())


def test_bfloat16_in_fp32_is_not_bfloat16(tmp_path):
    folder = dump(tmp_path / "dump", dtype=ml_dtypes.bfloat16)
    traces = [
        converted(folder, tmp_path / kind, accumulate=kind, raw_dtype="bfloat16").read(
            0, "fc.weight", 0
        )
        for kind in ("fp32", "own")
    ]
    assert not np.array_equal(*traces)
    expected = np.float32(0)
    for m in range(4):
        expected = expected + arrays(0, 0, m, ml_dtypes.bfloat16)["fc.weight"].astype(np.float32)
    assert np.array_equal(traces[0], expected)


def test_without_accumulate_the_advice_adds_them_and_works(tmp_path):
    folder = dump(tmp_path / "dump")
    error = refused(r"under 'micro0', 'micro1', .*--accumulate", folder)
    assert "--tensors" not in error
    pattern = pattern_of(error)
    trace = converted(folder, tmp_path / "run", pattern=pattern, accumulate="fp32")
    other = converted(folder, tmp_path / "two", accumulate="fp32")
    assert (trace.steps, trace.workers, trace.tensors) == (other.steps, 2, other.tensors)
    assert np.array_equal(trace.read(3, "fc.bias", 1), other.read(3, "fc.bias", 1))


def test_division_comes_after_the_sum(tmp_path):
    for m, value in enumerate((1.0, 2.0**24, 1.0)):  # in this order the ones are lost
        np.savez(
            tmp_path / f"step0_micro{m}.npz",
            w=np.array([value, 0], np.float32),
            loss_scale=np.float32(4),
        )
    trace = converted(
        tmp_path, tmp_path / "run", accumulate="fp32", loss_scale="recorded", workers=1
    )
    assert trace.read(0, "w").tolist() == [2.0**22, 0]


def test_a_lost_micro_batch_is_refused(tmp_path):
    folder = dump(tmp_path / "dump")
    (folder / "step3_rank1_micro2.npz").unlink()
    refused(
        "of step 3, worker 1: not every worker and step has the micro-batch 2; find the",
        folder,
        accumulate="fp32",
    )


def test_a_tensor_that_a_micro_batch_lacks_adds_nothing_by_request(tmp_path):
    np.savez(tmp_path / "step0_micro0.npz", w=np.ones(3, np.float32), b=np.ones(2, np.float32))
    np.savez(tmp_path / "step0_micro1.npz", w=np.ones(3, np.float32))
    refused("'b' of step 0, .*micro-batch 1; pass --missing zeros", tmp_path, accumulate="fp32")
    trace = converted(tmp_path, tmp_path / "run", accumulate="fp32", missing="zeros")
    assert trace.read(0, "w").tolist() == [2] * 3 and trace.read(0, "b").tolist() == [1] * 2


@pytest.mark.parametrize(
    "options, words",
    [
        ({"accumulate": "bf16"}, "accumulate is 'bf16'; it must be 'fp32' or 'own'"),
        (
            {"pattern": r"step(?P<step>\d+)_.*micro(?P<micro>\d+)"},
            "has the group 'micro'; pass --accumulate fp32 or own",
        ),
        (
            {"pattern": r"step(?P<step>\d+)_.*", "accumulate": "own"},
            r"has no group 'micro'; add \(\?P<micro>",
        ),
    ],
)
def test_a_pattern_and_accumulate_belong_together(tmp_path, options, words):
    refused(words, dump(tmp_path / "dump"), **options)


def test_names_without_micro_batches_are_not_added(tmp_path):
    np.savez(tmp_path / "step0_rank0.npz", w=np.ones(3, np.float32), b=np.ones(2, np.float32))
    refused("no name has a micro-batch such as micro_0", tmp_path, accumulate="fp32")


def test_fp8_has_no_sum_of_its_own(tmp_path):
    for m in range(2):
        np.savez(tmp_path / f"step0_micro{m}.npz", w=np.ones(3, ml_dtypes.float8_e4m3fn))
    options = {"reduction": "mean", "raw_dtype": "float8_e4m3fn", "workers": 1}
    refused(
        "float8_e4m3fn, in which no training adds micro-batches",
        tmp_path,
        accumulate="own",
        **options,
    )
    assert converted(tmp_path, tmp_path / "run", accumulate="fp32", **options).read(
        0, "w"
    ).tolist() == [2, 2, 2]


def test_another_number_of_passes_than_of_micro_batches_is_refused(tmp_path):
    options = {"reduction": "mean", "accumulate": "fp32"}
    refused(
        "accumulation is 2, but 3 micro-batches are added; leave out --accumulation$",
        dump(tmp_path / "dump", micro=3),
        accumulation=2,
        **options,
    )
    trace = converted(tmp_path / "dump", tmp_path / "run", accumulation=3, **options)
    assert trace.manifest.metadata["accumulation"] == "3"
