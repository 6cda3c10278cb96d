"""The files of a dump that are opened, and their format: recognised by content, through links, only
if selected."""

import errno
import json
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import apscope
from apscope._traces.sources import Source
from apscope.record import convert
from tests.python.converted import converted, refused
from tests.python.torch_process import one_process_with_torch  # noqa: F401  # a fixture for all


def header_of(path, length):
    """A safetensors file whose header has this length."""
    text = (
        json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})
        .encode()
        .ljust(length)
    )
    path.write_bytes(length.to_bytes(8, "little") + text + np.float32([length, 1]).tobytes())


def test_safetensors_are_known_whatever_the_length_of_their_header(tmp_path):
    lengths = [
        *range(0x80, 0x4B50, 0x100),
        0x4B50,
        0x14B50,
        0x93,
        0x4E93,
        0x4889,
    ]  # as pickles, archives, npy and HDF5 begin
    for length in lengths:
        header_of(tmp_path / f"step_{length}.safetensors", length)
    trace = converted(tmp_path, tmp_path / "run", workers=1)
    assert trace.steps == tuple(sorted(lengths)) and all(
        trace.read(length, "w").tolist() == [length, 1] for length in lengths
    )


def test_pickles_and_archives_are_no_safetensors(tmp_path):
    begin = pickle.dumps("\0{", 2)  # its first 8 bytes are a header's length, and a brace follows
    assert begin[8:9] == b"{" and 2 <= int.from_bytes(begin[:8], "little") < 100_000_000
    for name, data, sentence in (
        ("step_0.pt", begin, "step_0.pt is a pickle that torch.save did not write"),
        (
            "step_0.npz",
            b"PK\x03\x04" + bytes(4) + b"{" + bytes(50),
            "step_0.npz is a damaged npz or torch file",
        ),
        (
            "step_0.npz",
            b"PK" + bytes(60),
            "step_0.npz is not a valid npz file: it begins with b'PK",
        ),
    ):
        (tmp_path / name).write_bytes(data)
        refused(re.escape(sentence), tmp_path)
        (tmp_path / name).unlink()


def test_links_to_folders_are_followed_and_loops_are_not(tmp_path):
    for place in ("dump/rank_0", "elsewhere/of_1", "elsewhere/of_2"):
        (tmp_path / place).mkdir(parents=True)
        np.savez(
            tmp_path / place / "step_0.npz", w=np.full(3, len(place) + int(place[-1]), np.float32)
        )
    for i in (1, 2):
        (tmp_path / "dump" / f"rank_{i}").symlink_to(tmp_path / "elsewhere" / f"of_{i}")
    (tmp_path / "dump" / "rank_0" / "up").symlink_to("..")
    (tmp_path / "elsewhere" / "of_1" / "next").symlink_to("../of_2")
    (tmp_path / "elsewhere" / "of_2" / "next").symlink_to("../of_1")
    files = [file.name for file in Source(tmp_path / "dump", tmp_path / "staging").files]
    assert len(files) == 5 and {
        "rank_0/step_0.npz",
        "rank_1/step_0.npz",
        "rank_2/step_0.npz",
    } < set(files)
    for i in (1, 2):
        (tmp_path / "elsewhere" / f"of_{i}" / "next").unlink()
    trace = converted(tmp_path / "dump", tmp_path / "run")
    assert trace.workers == 3 and [trace.read(0, "w", i)[0] for i in range(3)] == [11, 15, 16]


def test_a_folder_that_cannot_be_listed_is_refused(tmp_path, monkeypatch):
    for worker in range(2):
        (tmp_path / "dump" / f"rank_{worker}").mkdir(parents=True)
        np.savez(
            tmp_path / "dump" / f"rank_{worker}" / "step_0.npz", w=np.full(3, worker, np.float32)
        )
    listed = os.scandir

    def scandir(place):
        if str(place).endswith("rank_1"):
            raise PermissionError(errno.EACCES, "Permission denied", str(place))
        return listed(place)

    monkeypatch.setattr(os, "scandir", scandir)
    refused(
        "dump/rank_1 cannot be listed: permission denied; allow it, or remove the folder",
        tmp_path / "dump",
    )


def unreadable(folder):
    """Files that no conversion can read."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "core.npz").write_bytes(b"")
    (folder / "config.pkl").write_bytes(pickle.dumps({"lr": 0.1}))
    (folder / "latest.npz").symlink_to("/nowhere/step_9.npz")
    save_file({"m": np.ones(3, np.float32)}, folder / "optimizer-00001-of-00002.safetensors")
    (folder / "state").mkdir()
    (folder / "state" / ".metadata").write_bytes(pickle.dumps({}))
    return ["config.pkl", "core", "latest", "optimizer", "state"]


@pytest.mark.parametrize("pattern", [r"step_(?P<step>\d+)", r"step_(?P<step>\d+)/(?P<tensor>[wb])"])
def test_what_the_pattern_excludes_need_not_be_readable(tmp_path, pattern):
    pytest.importorskip("torch")
    names = unreadable(tmp_path / "dump")
    for step in range(2):
        np.savez(
            tmp_path / "dump" / f"step_{step}.npz",
            w=np.ones(3, np.float32),
            b=np.ones(2, np.float32),
        )
    refused("cannot be read|is one of 2 parts|is a link|is a pickle|is empty", tmp_path / "dump")
    result = convert(tmp_path / "dump", tmp_path / "run", reduction="mean", pattern=pattern)
    assert result.trace.steps == (0, 1) and sorted(result.ignored) == names
    assert any(
        re.match(
            "5 files that (the pattern does not match|cannot be read) left out, the first ", note
        )
        for note in result.notes
    )
    (tmp_path / "dump" / "step_2.npz").write_bytes(b"")
    refused("step_2.npz is empty", tmp_path / "dump", pattern=pattern)


def test_what_tensors_exclude_need_not_be_readable(tmp_path):
    torch = pytest.importorskip("torch")
    names = unreadable(tmp_path / "dump")
    folder = tmp_path / "dump" / "tensor_dumps" / "rank_0"
    folder.mkdir(parents=True)
    for step in (0, 5):
        torch.save(
            {"high_precision": torch.full((3,), 1.0 + step)},
            folder / f"fc1_wgrad_iter_{step:06d}.pt",
        )
        torch.save(
            {"quantized": Path("x"), "high_precision": torch.ones(3)},
            folder / f"fc1_activation_iter_{step:06d}.pt",
        )
    refused(
        "cannot be read|is one of 2 parts|is a link|is a pickle|is empty",
        tmp_path / "dump",
        workers=1,
    )
    result = convert(
        tmp_path / "dump", tmp_path / "run", reduction="mean", tensors="wgrad", workers=1
    )
    assert (
        result.trace.tensors == ("fc1_wgrad",)
        and result.trace.read(5, "fc1_wgrad").tolist() == [6] * 3
    )
    assert sorted(result.ignored) == [
        *names,
        *(f"tensor_dumps/rank_0/fc1_activation_iter_{step:06d}" for step in (0, 5)),
    ]
    refused(
        "fc1_activation_iter_000000.pt cannot be read: it contains a pickled ",
        tmp_path / "dump",
        tensors="wgrad|activation",
        workers=1,
    )


def test_the_largest_step_is_read_back(tmp_path):
    np.savez(tmp_path / f"step_{2**63 - 1}.npz", w=np.ones(3, np.float32))
    convert(tmp_path, tmp_path / "run", reduction="mean", workers=1)
    assert apscope.open_trace(tmp_path / "run").steps == (2**63 - 1,)
