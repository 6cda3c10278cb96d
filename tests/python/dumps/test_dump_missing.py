"""Ranks with different parameters: experts, unused parameters, None; --missing zeros fills them."""

import numpy as np
import pytest

from apscope.record import convert
from tests.python.argv import command
from tests.python.converted import converted, refused

ONES = np.ones((2, 3), np.float32)


def experts(folder, lost=()):
    """Two experts on each of two ranks, one shared tensor; rank 1 skips `shared` at step 1."""
    folder.mkdir()
    for s in range(3):
        for w in range(2):
            found = {f"expert.{2 * w + i}.w": ONES * (1 + w) for i in range(2)}
            if (s, w) != (1, 1):
                found["shared"] = ONES
            if (s, w) not in lost:
                np.savez(folder / f"step{s}_rank{w}.npz", **found)
    return folder


def test_experts_of_other_ranks_are_zeros_by_request(tmp_path, capsys):
    dump = experts(tmp_path / "dump")
    refused("13 of 30 .*pass --missing zeros if they got no gradient", dump, reduction="sum")
    assert command("convert {} {} --reduction sum --missing zeros", dump, tmp_path / "run") == 0
    assert (
        "13 of 30 gradients are missing and become zeros, the first expert.2.w of step 0, worker 0"
        in capsys.readouterr().out
    )
    from apscope import open_trace

    trace = open_trace(tmp_path / "run")
    assert len(trace.tensors) == 5 and trace.workers == 2
    for s in range(3):
        for w in range(2):
            for i in range(4):
                own = i // 2 == w
                assert np.array_equal(
                    trace.read(s, f"expert.{i}.w", w), ONES * (1 + w) if own else 0 * ONES
                )
            assert trace.read(s, "shared", w).any() == ((s, w) != (1, 1))
    about = trace.manifest.metadata
    assert about["no_gradient_so_zeros: expert.0.w of worker 1"] == "0-2"
    assert about["no_gradient_so_zeros: shared of worker 1"] == "1"
    assert command("info {} --no-values", tmp_path / "run") == 0
    out = capsys.readouterr().out
    assert "absent     13 of 30 gradients, recorded as zeros\n" in out
    assert "no_gradient_so_zeros: shared of worker 1 step 1\n" in out
    assert "no_gradient_so_zeros: expert.0.w of worker 1 steps 0-2\n" in out


def test_tensors_of_other_ranks_keep_their_layer(tmp_path):
    for w in range(2):
        names = ["stem", f"expert{w}", "middle", f"gate{w}", "head"]
        np.savez(
            tmp_path / f"step0_rank{w}.npz",
            **{name: np.full(2 + i, w + 1, np.float32) for i, name in enumerate(names)},
        )
    trace = convert(tmp_path, tmp_path / "run", reduction="sum", missing="zeros").trace
    assert trace.tensors == ("stem", "expert1", "expert0", "middle", "gate1", "gate0", "head")
    assert trace.manifest.metadata["tensor_order"] == "the files"


def test_a_lost_file_is_not_zeros(tmp_path):
    dump = experts(tmp_path / "dump", lost=[(1, 1)])
    words = "worker 1 has no array at all at step 1, so its file may be lost"
    refused(words, dump, reduction="sum", missing="zeros")


def test_a_none_on_one_rank_is_zeros_by_request(tmp_path):
    torch = pytest.importorskip("torch")
    for w in range(2):
        torch.save(
            [torch.ones(2), torch.ones(3) if w else None, torch.ones(4)],
            tmp_path / f"step0_rank{w}.pt",
        )
    refused(r"1 of 6 .*\(step 0, worker 0, 1\).*--missing zeros", tmp_path)
    trace = converted(tmp_path, tmp_path / "run", missing="zeros")
    assert trace.read(0, "1", 0).tolist() == [0] * 3 and trace.read(0, "1", 1).tolist() == [1] * 3


def test_a_none_of_all_steps_is_left_out_with_a_word(tmp_path):
    """The finding: it was left out without a word."""
    torch = pytest.importorskip("torch")
    (tmp_path / "dump").mkdir()
    for s in range(2):
        torch.save(
            {"a": torch.ones(2), "frozen": None, "b": torch.ones(3), "loss": None},
            tmp_path / "dump" / f"step{s}.pt",
        )
        (tmp_path / "lists").mkdir(exist_ok=True)
        torch.save([torch.ones(2), None, torch.ones(3)], tmp_path / "lists" / f"step{s}.pt")
    result = convert(tmp_path / "dump", tmp_path / "run", reduction="mean", workers=1)
    assert result.trace.tensors == ("a", "b")
    assert (
        "2 tensors without a value anywhere (None) left out, the first step0/frozen" in result.notes
    )
    result = convert(tmp_path / "lists", tmp_path / "two", reduction="mean", workers=1)
    assert "2 tensors without a value anywhere (None) left out, the first step0/1" in result.notes


@pytest.mark.parametrize("count", [1, 9])
def test_info_lists_a_few_tensors_and_counts_all(tmp_path, capsys, count):
    random = np.random.default_rng(3)
    for w in range(2):
        names = [f"e{i}.w" for i in range(count) if w == 0] + ["shared.w"]
        np.savez(
            tmp_path / f"step0_rank{w}.npz",
            **{
                name: random.normal(size=2 + i).astype(np.float32)
                for i, name in enumerate(names[::-1])
            },
        )
    convert(tmp_path, tmp_path / "run", reduction="sum", missing="zeros")
    capsys.readouterr()
    command("info {} --no-values", tmp_path / "run")
    out = capsys.readouterr().out
    assert f"absent     {count} of {2 * (count + 1)} gradients" in out
    assert out.count("no_gradient_so_zeros: ") == min(count, 6)
    assert ("... and 3 more tensors with zeros" in out) == (count == 9)


def test_zeros_with_a_sample_and_with_workers_that_must_differ(tmp_path):
    for w in range(2):
        np.savez(
            tmp_path / f"step0_rank{w}.npz",
            shared=np.full(9000, w + 1, np.float32),
            **({"own": np.ones(9001, np.float32)} if w else {}),
        )
    trace = convert(tmp_path, tmp_path / "run", reduction="sum", missing="zeros", sample=0.4).trace
    assert trace.shapes["own"] == (8192,) or trace.shapes["own"] == (4905,)
    assert not trace.read(0, "own", 0).any() and trace.read(0, "own", 1).all()


def test_workers_must_differ_after_a_first_step_of_zeros(tmp_path):
    dump = tmp_path / "dump"
    dump.mkdir()
    for s in range(3):
        for w in range(2):
            np.savez(dump / f"step{s}_rank{w}.npz", w=0 * ONES if s < 2 else ONES)
    refused("all 2 workers have the same gradients at step 2, as", dump)
