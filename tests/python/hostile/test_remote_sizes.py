"""Remote traces: a server is believed up to the manifest's sizes; temporary folders do not stay."""

import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from apscope import _limits, open_trace
from apscope._folders.temporary import TemporaryFolder

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed (apscope[remote])")


class Untrue(fsspec.AbstractFileSystem):
    """Serves a folder; what `how` says of some files: they have no end, or another size."""

    protocol = "untrue"
    cachable = False
    how, sent = {}, {}

    def info(self, path, **_):
        place = Path("/" + self._strip_protocol(path).lstrip("/"))
        return {"name": str(place), "size": place.stat().st_size, "type": "file"}

    def _open(self, path, mode="rb", **_):
        assert mode == "rb"
        return Stream(Path("/" + self._strip_protocol(path).lstrip("/")))


class Stream(io.RawIOBase):
    """The bytes of a file, or others."""

    def __init__(self, path):
        self.how, self.name, self.data = Untrue.how.get(path.name), path.name, path.read_bytes()
        if self.how == "short":
            self.data = self.data[:-8]
        self.size = {"announced": 2**40, "endless": None}.get(self.how, len(self.data))

    def readable(self):
        return True

    def read(self, count=-1):
        found = self.data[:count] if count >= 0 else self.data
        self.data = self.data[len(found) :]
        if not found and self.how == "endless":
            found = bytes(count if count >= 0 else 2**30)
            Untrue.sent[self.name] = Untrue.sent.get(self.name, 0) + len(found)
        return found


def set_up(folder):
    """Also in other processes."""
    fsspec.register_implementation("untrue", Untrue, clobber=True)
    return f"untrue://{folder}/digits"


@pytest.fixture
def served(digits, tmp_path, monkeypatch):
    """The URL of a small trace, and a place for temporary files that is empty."""
    shutil.copytree(digits, tmp_path / "served/digits")
    here = tmp_path / "temporary"
    here.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(here))
    monkeypatch.setenv("TMPDIR", str(here))
    monkeypatch.setattr(Untrue, "how", {})
    monkeypatch.setattr(Untrue, "sent", {})
    return set_up(tmp_path / "served"), here


FILE = "worker_0001.safetensors"


def test_an_honest_server(served, digits):
    url, here = served
    trace = open_trace(url)
    local = open_trace(digits)
    values = trace.read(trace.steps[0], trace.tensors[0], 1)
    assert (values == local.read(trace.steps[0], trace.tensors[0], 1)).all()
    assert len(list(here.iterdir())) == 1
    del trace, values
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    "how, found",
    [("endless", "more than"), ("short", ""), ("announced", str(2**40))],
)
def test_a_file_of_another_size_is_refused_and_not_downloaded(served, how, found):
    url, here = served
    Untrue.how = {FILE: how}
    trace = open_trace(url)
    said = rf"{FILE} has {found}.* bytes, but the manifest says \d+"
    with pytest.raises(ValueError, match=said):
        trace.read(trace.steps[0], trace.tensors[0], 1)
    size = max(size for path, size, _ in trace.files() if path.name == FILE)
    kept = sum(path.stat().st_size for path in here.rglob("*") if path.is_file())
    assert kept < 2 * size + 10**6
    assert Untrue.sent.get(FILE, 0) < 2 * 10**6  # a piece above the size
    assert not [p for p in here.rglob("*") if FILE in p.name]
    assert trace.read(trace.steps[0], trace.tensors[0], 0).size  # other files are read


def test_a_manifest_without_end(served, monkeypatch):
    url, here = served
    Untrue.how = {"manifest.json": "endless"}
    monkeypatch.setattr("apscope._traces.remote.MANIFEST_LENGTH", 10**6)
    with pytest.raises(ValueError, match=r"manifest\.json has .*bytes; at most 1000000 are read"):
        open_trace(url)
    assert not list(here.iterdir())
    assert _limits.MANIFEST_LENGTH == 10**9


def test_files_larger_than_the_disk_are_refused_before_they_come(served, monkeypatch):
    url, _ = served
    trace = open_trace(url)
    few = shutil.disk_usage(".")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: few)
    with pytest.raises(ValueError, match=r"its files need \d+ bytes in .*, which has 1000; select"):
        trace.check()


def test_the_folder_of_a_killed_run_is_removed_by_the_next(served, request):
    url, here = served
    script = f"""
import apscope, signal
from tests.python.hostile.test_remote_sizes import set_up
set_up("")
trace = apscope.open_trace({url!r})
trace.read(trace.steps[0], trace.tensors[0], 1)
print("there", flush=True)
signal.pause()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        cwd=request.config.rootpath,
    )
    assert process.stdout.readline() == "there\n"
    (left,) = here.iterdir()
    open_trace(url)  # does not take what another process uses
    assert left.exists()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert left.exists()
    trace = open_trace(url)
    assert not left.exists() and len(list(here.iterdir())) == 1
    assert trace.workers


def test_folders_of_others_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/file").write_text("x")
    (tmp_path / "apscope-fetched-link").symlink_to(tmp_path / "victim")
    (tmp_path / "apscope-other").mkdir()
    folder = TemporaryFolder()
    folder.remove()
    assert (tmp_path / "victim/file").exists() and (tmp_path / "apscope-other").exists()
    assert not folder.path.exists()


def test_a_child_does_not_remove_the_folder_of_its_parent(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = TemporaryFolder()
    if (child := os.fork()) == 0:
        folder.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.path.exists()
    folder.remove()
    assert not folder.path.exists()
