"""Dumps behind addresses that fsspec opens: the same traces, and no more fetched than is needed."""

import io

import numpy as np
import pytest

from apscope.record import convert
from tests.python.converted import converted, refused
from tests.python.dumps.test_dumps import FOUR, KINDS
from tests.python.torch_process import one_process_with_torch  # noqa: F401  # a fixture for all

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    system.rm("/", recursive=True) if system.ls("/") else None
    system.put(str(FOUR), "/dump", recursive=True)
    yield system
    system.rm("/dump", recursive=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_remote_dump_becomes_the_same_trace(tmp_path, memory, kind):
    options, _, libraries, _ = KINDS[kind]
    for library in libraries:
        pytest.importorskip(library)
    local = convert(FOUR / kind, tmp_path / "local", reduction="mean", name="x", **options)
    remote = convert(
        f"memory://dump/{kind}", tmp_path / "remote", reduction="mean", name="x", **options
    )
    assert remote.understood == local.understood
    assert remote.trace.hash == local.trace.hash
    assert sorted(p.name for p in tmp_path.iterdir()) == ["local", "remote"]


def test_a_remote_distributed_checkpoint(tmp_path, memory):
    pytest.importorskip("torch")
    memory.put(str(FOUR.parent / "two_processes" / "dcp"), "/dump/dcp", recursive=True)
    trace = converted("memory://dump/dcp", tmp_path / "run", trust_pickle=True)
    assert trace.workers == 2 and trace.steps == (0, 1)


def test_what_is_not_there_is_said(memory):
    for address, sentence in (
        ("memory://dump/none", "memory://dump/none does not exist"),
        ("nosuch://dump", "nosuch://dump cannot be opened: Protocol not known: nosuch"),
    ):
        refused(sentence, address)
    with pytest.raises(
        ValueError, match="destination is 'memory://x'; it must be a folder on a local disk"
    ):
        convert("memory://dump/npz", "memory://x", reduction="mean")


def test_a_broken_remote_file_is_named_by_its_address(tmp_path, memory):
    memory.pipe("/dump/bad/step_0.npz", b"PK\x03\x04 nothing")
    refused(r"memory://dump/bad/step_0.npz is a damaged npz or torch file", "memory://dump/bad")


def test_only_the_bytes_that_are_asked_for_are_read(tmp_path, monkeypatch, memory):
    values = np.random.default_rng(0).standard_normal((50, 2, 10_000)).astype(np.float32)
    np.savez(tmp_path / "big.npz", w=values)
    memory.put(str(tmp_path / "big.npz"), "/dump/big.npz")
    read = []

    class Counting(io.BytesIO):
        def read(self, size=-1):
            read.append(len(data := super().read(size)))
            return data

    monkeypatch.setattr(memory, "open", lambda path, mode: Counting(memory.cat_file(path)))
    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda address: (memory, "/dump/big.npz"))
    trace = converted(
        "memory://dump/big.npz", tmp_path / "run", step_axis=0, worker_axis=1, steps="7:9"
    )
    assert np.array_equal(trace.read(7, "w", 1), values[7, 1])
    assert sum(read) < values.nbytes / 5
