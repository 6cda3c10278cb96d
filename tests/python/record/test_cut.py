"""apscope.record.cut: which rows of a trace stay, that they are the trace's bits, and that the size
holds."""

import hashlib
import json

import ml_dtypes
import numpy as np
import pytest

from apscope import open_trace, replay
from apscope._traces.trace_info import check
from apscope.record import TraceWriter, cut

SHAPES = {"conv.weight": (40, 10, 3, 3), "embedding.weight": (50, 33), "flat": (5000,),
          "wide": (3, 2500), "head.bias": (7,), "scale": (), "none": (0, 4)}  # fmt: skip
# Step -> the element of embedding.weight that holds the largest magnitude, at worker 1.
LOUD = {3: 4 * 33 + 5, 8: 47 * 33}
KINDS = (("gradient", (3, 8)), ("weights", (8,)))


@pytest.fixture
def trace(tmp_path):
    random = np.random.default_rng(1)
    with TraceWriter(
        tmp_path / "whole", workers=3, model="two layers", stage="local", reduction="sum",
        loss_divided_by_workers=True, roles={"scale": "norm"}, metadata={"seed": "1"},
    ) as writer:  # fmt: skip
        for step in (3, 8):
            for worker in range(3):
                for name, shape in SHAPES.items():
                    values = random.normal(0, 1, shape).astype(np.float32)
                    if name == "embedding.weight" and worker == 1:
                        values.reshape(-1)[LOUD[step]] = -100
                    if name == "conv.weight":
                        values = values.astype(ml_dtypes.bfloat16).astype(np.float32)
                    writer.add(step, worker, name, values)
            if step == 8:
                for name, shape in SHAPES.items():
                    values = random.normal(0, 1, shape).astype(np.float32)
                    writer.add(step, 0, name, values, kind="weights")
            writer.end_step(step, loss=1 / step, learning_rate=0.5, loss_scale=1024)
    return open_trace(tmp_path / "whole")


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def pieces_of(trace):
    return json.loads(trace.manifest.metadata["cut_pieces"])


def test_a_cut_is_a_trace_that_says_what_it_was_cut_from(trace, tmp_path):
    small = cut(trace, tmp_path / "cut", size=200_000)
    assert check(small) > 0 and size_of(small.path) <= 200_000
    assert small.steps == trace.steps and small.roles == trace.roles and small.name == "whole"
    for key in ("workers", "model", "stage", "reduction", "loss_divided_by_workers"):
        assert getattr(small.manifest, key) == getattr(trace.manifest, key)
    for a, b in zip(small.manifest.steps, trace.manifest.steps, strict=True):
        assert (a.loss, a.learning_rate, a.loss_scale) == (b.loss, b.learning_rate, b.loss_scale)
    about = small.manifest.metadata
    assert about["seed"] == "1" and about["cut_from"] == trace.hash
    assert json.loads(about["cut_shapes"]) == {
        name: list(SHAPES[name]) for name in ("conv.weight", "embedding.weight", "flat", "wide")
    }
    elements = sum(tensor.size for tensor in small.manifest.tensors)
    assert about["cut"] == (
        f"rows at random and those with the largest magnitudes, {elements} of 17758 elements; runs "
        "of 1024 elements of 2 tensors with longer rows"
    )
    with pytest.warns(UserWarning, match="multiplied by a loss scale, 1024 at step 3"):
        assert not replay(small, "aps:e4m3").frame.empty


@pytest.mark.parametrize("longest, size", [(1024, 200_000), (1024, 250_000), (64, 80_000)])
def test_pieces_are_the_traces_bits_at_their_places(trace, tmp_path, longest, size):
    small = cut(trace, tmp_path / "cut", longest=longest, size=size)
    pieces = pieces_of(small)
    for kind, steps in KINDS:
        assert small.recorded()[kind] == steps
        for step in steps:
            for worker in range(3):
                for name, shape in SHAPES.items():
                    before, after = (t.read(step, name, worker, kind) for t in (trace, small))
                    if name in pieces:
                        row, numbers = pieces[name]["elements"], pieces[name]["numbers"]
                        starts = [min(i * row, before.size - row) for i in numbers]
                        before = np.stack([before.reshape(-1)[i : i + row] for i in starts])
                        rows = len(shape) > 1 and row == before[0].size == np.prod(shape[1:])
                        kept = (-1, *shape[1:]) if rows else (-1, row) if len(shape) > 1 else (-1,)
                        before = before.reshape(kept)
                    assert after.shape == before.shape
                    assert after.tobytes() == before.tobytes()


def test_rows_are_at_random_places_and_the_largest_magnitudes_stay(trace, tmp_path):
    small = cut(trace, tmp_path / "cut", size=200_000)
    for name, piece in pieces_of(small).items():
        row, size = piece["elements"], int(np.prod(SHAPES[name]))
        count = -(-size // row)
        loud = set()
        for step in trace.steps:
            rows = [np.abs(trace.read(step, name, w)).reshape(-1) for w in range(3)]
            loud.add(int(np.max(rows, axis=0).argmax()) // row)
        order = sorted(
            range(count),
            key=lambda i: hashlib.blake2b(f"{name}/{i}".encode(), digest_size=8).digest(),
        )
        at_random = [sorted({*order[:n], *loud}) for n in range(1, count + 1)]
        assert piece["numbers"] in at_random
    assert {place // 33 for place in LOUD.values()} <= set(
        pieces_of(small)["embedding.weight"]["numbers"]
    )
    shares = {name: len(p["numbers"]) * p["elements"] / np.prod(SHAPES[name])
              for name, p in pieces_of(small).items()}  # fmt: skip
    assert shares["conv.weight"] == pytest.approx(shares["embedding.weight"], abs=0.1)


def test_a_larger_cut_has_the_rows_of_a_smaller_one(trace, tmp_path):
    small, large = (pieces_of(cut(trace, tmp_path / str(n), size=n)) for n in (200_000, 300_000))
    assert all(set(small[name]["numbers"]) <= set(large[name]["numbers"]) for name in small)
    assert small != large


def test_the_size_is_used_and_a_trace_that_fits_stays_whole(trace, tmp_path):
    for size in (100_000, 150_000, 250_000):
        cut(trace, tmp_path / str(size), size=size, longest=128)
        assert 0.8 * size < size_of(tmp_path / str(size)) <= size
    whole = cut(trace, tmp_path / "all", size="10MB")
    assert whole.shapes == trace.shapes and "cut" not in whole.manifest.metadata
    for name in SHAPES:
        assert whole.read(8, name, 1).tobytes() == trace.read(8, name, 1).tobytes()


def test_bfloat16_numbers_are_stored_as_such(trace, tmp_path):
    small = cut(trace, tmp_path / "cut", size=200_000)
    header = (small.path / "step_00000003/worker_0000.safetensors").read_bytes()
    entries = json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])
    assert entries["conv.weight"]["dtype"] == "BF16" and entries["flat"]["dtype"] == "F32"


@pytest.mark.filterwarnings("ignore:.*loss scale")
def test_a_replay_of_a_cut_weighs_every_layer_as_the_whole(trace, tmp_path):
    small = cut(trace, tmp_path / "cut", size=200_000)
    whole, part = (
        replay(t, "none:fp16", topology="ring").frame.query("stage == 'reduced'")
        for t in (trace, small)
    )
    assert part["count"].tolist() == whole["count"].tolist()
    assert part["sum_squared_reference"].sum() == pytest.approx(
        whole["sum_squared_reference"].sum(), rel=0.5
    )


def test_a_second_cut_writes_the_same_bytes(trace, tmp_path):
    a, b = (cut(trace.path, tmp_path / name, size=200_000, name="cut") for name in ("a", "b"))
    assert a.hash == b.hash and a.name == "cut"


def test_what_cannot_be_cut_is_one_sentence(trace, tmp_path):
    with pytest.raises(ValueError, match=r"^longest=0 is not between 1 and"):
        cut(trace, tmp_path / "cut", longest=0, size=200_000)
    with pytest.raises(
        ValueError,
        match=r"^1000 bytes may be too few for a row of each of the 7 tensors, the longest of which "
        r"has 1024 elements \(flat\); give (\d+) or more, or a smaller longest$",
    ) as caught:
        cut(trace, tmp_path / "cut", size=1000)
    assert not (tmp_path / "cut").exists()
    least = int(caught.value.args[0].split("give ")[1].split()[0])
    small = cut(trace, tmp_path / "cut", size=least)
    assert size_of(tmp_path / "cut") <= least
    with pytest.raises(ValueError, match=r"^name is 3; it must be a string$"):
        cut(trace, tmp_path / "named", size=200_000, name=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut", "whole"]
    with pytest.raises(ValueError, match=r"cut exists; give a folder that does not$"):
        cut(trace, tmp_path / "cut", size=200_000)
    with pytest.raises(ValueError, match=r"cut is a cut already; cut the whole trace again$"):
        cut(small, tmp_path / "again", size=200_000)


def test_a_sample_stays_a_sample(tmp_path):
    values = np.ones((8, 64), np.float32)
    keys = dict(workers=1, sampled_from={"a": 5120})
    with TraceWriter(tmp_path / "sample", **keys) as writer:
        writer.add(0, 0, "a", values)
        writer.end_step(0)
    with TraceWriter(tmp_path / "sample", workers=1, resume=True) as writer:
        writer.add(1, 0, "a", values)
        writer.end_step(1)
    for size in ("1MB", "3KB"):
        small = cut(tmp_path / "sample", tmp_path / size, size=size)
        assert [t.sampled_from for t in small.manifest.tensors] == [5120]
        assert small.manifest.tensors[0].size <= 512
