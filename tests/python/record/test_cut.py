"""apscope.record.cut: which elements of a trace stay, that they are the trace's bits, and that the
size holds."""

import hashlib
import json
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from apscope import open_trace, replay
from apscope._traces.trace_info import check
from apscope.record import TraceWriter, cut
from apscope.record._cut_choice import Pieces
from tests.python.recorded import record

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
        f"runs of at most 64 elements at random and the largest magnitudes, {elements} of 17758 "
        "elements"
    )
    with pytest.warns(UserWarning, match="multiplied by a loss scale, 1024 at step 3"):
        assert not replay(small, "aps:e4m3").frame.empty


@pytest.mark.parametrize("longest, size", [(1024, 250_000), (64, 200_000), (5, 80_000)])
def test_pieces_are_the_traces_bits_at_their_places(trace, tmp_path, longest, size):
    small = cut(trace, tmp_path / "cut", longest=longest, size=size)
    pieces = pieces_of(small)
    assert "flat" in pieces
    for kind, steps in KINDS:
        assert small.recorded()[kind] == steps
        for step in steps:
            for worker in range(3):
                for name, shape in SHAPES.items():
                    before, after = (t.read(step, name, worker, kind) for t in (trace, small))
                    if name in pieces:
                        piece, flat = pieces[name], before.reshape(-1)
                        run, numbers = piece["elements"], piece["numbers"]
                        assert numbers == sorted(set(numbers))
                        begins = [min(i * run, flat.size - run) for i in numbers]
                        runs = [flat[i : i + run] for i in begins]
                        before = np.concatenate([*runs, flat[piece["singles"]]])
                        rows = len(shape) > 1 and run == np.prod(shape[1:])
                        kept = (-1, *shape[1:]) if rows else (-1, run) if len(shape) > 1 else (-1,)
                        before = before.reshape(kept)
                    assert after.shape == before.shape
                    assert after.tobytes() == before.tobytes()


def test_the_largest_magnitude_of_every_step_stays(trace, tmp_path):
    small = cut(trace, tmp_path / "cut", size=100_000)
    for name, piece in pieces_of(small).items():
        loud = set()
        for step in trace.steps:
            values = [np.abs(trace.read(step, name, w)).reshape(-1) for w in range(3)]
            loud.add(int(np.max(values, axis=0).argmax()))
        assert piece["singles"][: len(loud)] == sorted(loud)
        more = len(piece["singles"]) - len(loud)
        assert more == (-len(loud) % piece["elements"] if len(SHAPES[name]) > 1 else 0)
    assert set(LOUD.values()) <= set(pieces_of(small)["embedding.weight"]["singles"])


def words(text, count):
    """Random words of 64 bits, as the module draws them."""
    digest = hashlib.shake_128(text.encode()).digest(8 * count)
    return [int.from_bytes(digest[8 * i : 8 * i + 8], "little") for i in range(count)]


def test_pieces_are_drawn_from_groups_of_equal_energy_and_balanced(trace, tmp_path):
    """The same choice by the definition: one piece of each group, the nearest of 500 draws."""
    small = cut(trace, tmp_path / "cut", size=80_000)
    for name in ("embedding.weight", "flat"):
        piece = pieces_of(small)[name]
        run, size, n = piece["elements"], int(np.prod(SHAPES[name])), len(piece["numbers"])
        sums = [
            sum(trace.read(step, name, w).reshape(-1).astype(float) for w in range(3)) ** 2
            for step in trace.steps
        ]
        count = -(-size // run)
        begins = [min(i * run, size - run) for i in range(count)]
        shares = np.array([[s[b : b + run].sum() for b in begins] for s in sums])
        totals = shares.sum(axis=1)
        shares /= totals[:, None]
        order = np.argsort(shares.sum(axis=0), kind="stable")
        alone = np.array([s[piece["singles"]].sum() for s in sums]) / totals
        kept = n * run + len(piece["singles"])
        found = {}
        for trial in range(500):
            groups = [order[j * count // n : (j + 1) * count // n] for j in range(n)]
            drawn = [g[w % len(g)] for g, w in zip(groups, words(f"{name}/{trial}", n))]
            share = (shares[:, drawn].sum(axis=1) + alone) * size / kept
            found[float((np.log2(share) ** 2).sum())] = sorted(drawn)
        assert piece["numbers"] == found[min(found)]


def heavy(path, steps=4, workers=4):
    """A tensor like an embedding: rows from 1 to 2^-18, a few of which have most of the energy."""
    random = np.random.default_rng(4)
    rows = 2.0 ** (-18 * random.random((512, 1)) ** 0.5)
    mean = random.normal(0, 1, (512, 64)) * rows
    noise = random.normal(0, 1, (steps, workers, 512, 64)) * rows
    found = (mean + noise).astype(np.float32)
    return record(path, [{"embedding.weight": g} for g in found])


@pytest.mark.parametrize(
    "spec, topologies",
    [
        ("aps:e4m3fn,rule=tight", ("exact", "ring")),
        ("aps:e3m4,rule=tight", ("exact", "ring")),
        ("aps:e3m0,rule=tight", ("exact", "ring", "two_phase")),
        ("loss_scaling:e3m4,scale=best", ("exact", "ring", "two_phase")),
        ("aps:e3m4,rule=tight,unit=row", ("exact", "ring", "two_phase")),
        ("mx", ("exact", "gather", "two_phase")),
    ],
)
def test_errors_of_a_cut_are_near_those_of_the_whole(tmp_path, spec, topologies):
    whole = heavy(tmp_path / "whole")
    small = cut(whole, tmp_path / "cut", size=250_000)
    assert small.shapes["embedding.weight"] == (56, 64)  # a multiple of the workers
    a, b = (
        replay(t, spec, topology=["ring", "two_phase"])
        .summary()
        .reset_index()
        .set_index("topology")
        for t in (whole, small)
    )
    assert set(topologies) <= set(a.index)
    for topology in topologies:
        for figure in ("error_over_noise", "step_nmse"):
            quotient = b.loc[topology, figure] / a.loc[topology, figure]
            assert 0.8 < quotient < 1.25, (topology, figure)


def test_rows_are_a_multiple_of_the_workers_or_of_whole_blocks():
    """So the shards of two phases, a worker's each, begin with a row or a block of 32."""
    pieces = Pieces.of("a", (100, 64), 64, 1)
    assert [pieces.drawn(64.0 * n, 8, 64) for n in (0, 3, 4, 6, 7, 12, 15, 40)] == (
        [3, 3, 3, 3, 7, 7, 15, 39]
    )
    assert Pieces.of("a", (4000,), 64, 1).drawn(500.0, 8, 7) == 15  # runs of 32


def test_a_cut_needs_little_memory(tmp_path):
    """Of 96 MB, a tensor of which has 8."""
    a = [np.random.default_rng(step).standard_normal((2048, 1024), np.float32) for step in range(3)]
    record(tmp_path / "whole", [{"a": 4 * [values]} for values in a])
    tracemalloc.start()
    try:
        cut(tmp_path / "whole", tmp_path / "cut", size="1MB")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6


def test_gradients_that_are_zero_or_not_finite_are_cut(tmp_path):
    random = np.random.default_rng(2)
    odd = random.normal(0, 1, (2, 2, 300, 40)).astype(np.float32)
    odd[:, :, 17, 3] = [[np.inf], [np.nan]]
    record(tmp_path / "odd", [{"odd": g, "zero": np.zeros_like(g)} for g in odd])
    small = cut(tmp_path / "odd", tmp_path / "cut", size=40_000)
    pieces = pieces_of(small)
    assert pieces["odd"]["singles"][0] == 17 * 40 + 3 and len(pieces["zero"]["numbers"]) >= 3
    assert np.isinf(small.read(0, "odd")).any() and np.isnan(small.read(1, "odd")).any()


def test_the_size_is_used_and_a_trace_that_fits_stays_whole(trace, tmp_path):
    for size in (100_000, 150_000, 250_000):
        cut(trace, tmp_path / str(size), size=size, longest=128)
        assert 0.75 * size < size_of(tmp_path / str(size)) <= size
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
        match=r"^1000 bytes may be too few for 3 rows of each of the 7 tensors, the longest of which "
        r"has 64 elements \(conv.weight\); give (\d+) or more, or a smaller longest$",
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
    values = np.ones((64, 64), np.float32)
    keys = dict(workers=1, sampled_from={"a": 40960})
    with TraceWriter(tmp_path / "sample", **keys) as writer:
        writer.add(0, 0, "a", values)
        writer.end_step(0)
    with TraceWriter(tmp_path / "sample", workers=1, resume=True) as writer:
        writer.add(1, 0, "a", values)
        writer.end_step(1)
    for size, most in (("1MB", 4096), ("8KB", 2048)):
        small = cut(tmp_path / "sample", tmp_path / size, size=size)
        assert [t.sampled_from for t in small.manifest.tensors] == [40960]
        assert small.manifest.tensors[0].size <= most
