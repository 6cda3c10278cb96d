"""Traces on file systems of fsspec: the same results as from a folder, files that are fetched on
request, and one sentence for every error."""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import apscope
from apscope._traces.opening import is_url
from apscope.cli import main
from apscope.record import TraceWriter

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed (apscope[remote])")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("remote") / "run"
    rng = np.random.default_rng(4)
    with TraceWriter(place, workers=3) as writer:
        for step in range(4):
            for rank in range(3):
                for name, n in (("a", 5000), ("b", 30_000)):
                    writer.add(step, rank, name, rng.standard_normal(n).astype(np.float32))
            for name, n in (("a", 5000), ("b", 30_000)):
                writer.add(step, 0, name, np.ones(n, np.float32), kind="weights")
            writer.end_step(step, loss=1.0)
    return place


@pytest.fixture
def url(folder):
    memory = fsspec.filesystem("memory")
    memory.put(str(folder), "/bucket/run", recursive=True)
    yield "memory://bucket/run"
    memory.rm("/bucket", recursive=True)


def files_of(trace):
    return sorted(str(p.relative_to(trace.path)) for p in trace.path.rglob("*.safetensors"))


def test_results_are_those_of_the_folder(folder, url, tmp_path):
    schemes = ["aps:e4m3", "error_feedback(sign)", "fractrain"]
    apscope.replay(folder, schemes).save(tmp_path / "here")
    apscope.replay(url, schemes).save(tmp_path / "there")
    for name in ("results.csv", "results.parquet", "histograms.parquet"):
        assert (tmp_path / "there" / name).read_bytes() == (
            tmp_path / "here" / name
        ).read_bytes(), name
    assert url in (tmp_path / "there" / "provenance.json").read_text()
    assert apscope.open_trace(url).hash == apscope.open_trace(folder).hash


def test_files_come_when_they_are_asked_for(url):
    trace = apscope.open_trace(url)
    assert trace.steps == (0, 1, 2, 3) and files_of(trace) == []
    assert trace.read(2, "a", 1).shape == (5000,)
    assert files_of(trace) == ["step_00000002/worker_0001.safetensors"]
    apscope.replay(trace, "aps:e4m3", steps="1:3", workers=2)
    assert files_of(trace) == [
        f"step_0000000{s}/worker_000{w}.safetensors" for s in (1, 2) for w in (0, 1)
    ]
    assert float(trace.read(0, "b", kind="weights")[0]) == 1.0
    assert "step_00000000/weights.safetensors" in files_of(trace)


def test_the_temporary_folder_goes_with_the_trace(url):
    trace = apscope.open_trace(url)
    trace.read(0, "a")
    place = trace.path
    assert place.is_dir() and place.name == trace.name == "run"
    del trace
    gc.collect()
    assert not place.parent.exists()


def test_a_cache_of_fsspec_serves_too(folder, url, tmp_path):
    cached = "filecache::" + url
    options = {"filecache": {"cache_storage": str(tmp_path / "cache")}}
    fsspec.config.conf.update(options)
    try:
        found = apscope.replay(cached, "aps:e4m3")
    finally:
        fsspec.config.conf.pop("filecache")
    assert found.frame.equals(apscope.replay(folder, "aps:e4m3").frame)
    assert (tmp_path / "cache").is_dir()


def test_the_command_line_takes_urls(url, tmp_path, capsys):
    assert main(["info", url, "--check"]) == 0
    assert "16 files agree with the manifest" in capsys.readouterr().out
    assert main(["replay", url, "-o", str(tmp_path / "r"), "--scheme", "none:e4m3"]) == 0
    assert main(["report", url, "-o", str(tmp_path / "r.html")]) == 0


def refused(source):
    with pytest.raises((ValueError, OSError)) as e:
        apscope.replay(source, "none:e4m3")
    assert "\n" not in str(e.value)
    return str(e.value)


def test_what_is_wrong_is_one_sentence(url):
    memory = fsspec.filesystem("memory")
    assert (
        refused("memory://bucket/other")
        == "memory://bucket/other is not a trace: it has no manifest.json"
    )
    assert refused("nonsense://x/y").startswith(
        "nonsense://x/y is not a URL of a trace: Protocol not known: nonsense"
    )
    whole = memory.cat_file("/bucket/run/step_00000001/worker_0002.safetensors")
    memory.pipe_file(
        "/bucket/run/step_00000001/worker_0002.safetensors", whole[:-1] + bytes([whole[-1] ^ 1])
    )
    assert refused(url).startswith(f"{url}/step_00000001/worker_0002.safetensors: its SHA-256 is ")
    memory.pipe_file("/bucket/run/step_00000001/worker_0002.safetensors", b"short")
    size = next(
        f.bytes
        for f in apscope.open_trace(url).manifest.steps[1].files
        if f.name == "worker_0002.safetensors"
    )
    assert (
        refused(url)
        == f"{url}/step_00000001/worker_0002.safetensors has 5 bytes, but the manifest says {size}"
    )
    memory.rm("/bucket/run/step_00000001/worker_0002.safetensors")
    assert refused(url).startswith(f"{url}: a file is missing that the manifest lists: ")
    memory.pipe_file("/bucket/run/manifest.json", b"{")
    assert refused(url).startswith(f"{url}/manifest.json")


def test_without_fsspec_it_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    assert (
        refused("s3://bucket/run")
        == "s3://bucket/run needs fsspec; install it with: pip install 'apscope[remote]'"
    )


def test_fsspec_is_never_imported_unasked(folder):
    code = (
        "import sys, apscope; apscope.replay(sys.argv[1], 'none:e4m3'); assert 'fsspec' not in "
        "sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)


def test_what_is_a_url():
    assert all(
        is_url(u) for u in ("s3://bucket/run", "memory://x", "filecache::gs://b/r", "file:///tmp/x")
    )
    assert not any(is_url(p) for p in ("run", "/data/run", "./a:b/c", Path("s3://bucket/run")))
