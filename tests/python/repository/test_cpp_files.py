"""Traces and results that the page's C++ program writes: the bytes of Python's, and read by every
command."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._traces.safetensors import BFLOAT16
from apscope.cli import main
from apscope.record import TraceWriter
from tests.python.repository import test_cpp_library
from tests.python.repository.test_cpp_library import SAMPLES, build_samples, outside, place

__all__ = ["outside", "place"]  # fixtures

pytestmark = test_cpp_library.pytestmark


@pytest.fixture(scope="module")
def program(outside) -> Path:
    (sample,) = [(name, text) for name, text in SAMPLES if "TraceWriter writer" in text]
    return build_samples(outside, [sample, ("resumed", RESUMED)]) / sample[0]


RESUMED = """#include <apscope/apscope.h>
#include <cstdint>
#include <vector>
const std::vector<std::uint16_t> codes = {0x3c00, 0xc100, 0x0001};
const std::vector<float> values = {1, -2.5f, 1e-30f};
{
    apscope::TraceWriter writer("run", {.model = "first", .metadata = {{"a", "1"}, {"z", "\\xc3\\xa9"}}, .sampled_from = {{"w", 30}}});
    writer.add(0, 0, "w", codes, apscope::format("fp16"), {3});
    writer.add(0, 0, "b", codes, apscope::format("bf16"), {1, 3});
    writer.end_step(0, {.loss = 0.1, .learning_rate = 1e-7});
}
apscope::TraceWriter writer("run", {.model = "later", .roles = {{"w", "head"}}, .metadata = {{"a", "2"}, {"b", "3"}}, .resume = true});
writer.add(4, 0, "b", codes, apscope::format("bf16"), {1, 3});
writer.add(4, 0, "w", values, {3});
writer.end_step(4, {.loss_scale = 65536.0});
"""


@pytest.fixture
def written(program, outside, tmp_path, monkeypatch) -> Path:
    """A folder in which the program wrote run/, a trace, and results/; the working directory."""
    outside(program, cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_trace_of_a_program_has_the_bytes_of_pythons(written):
    trace = apscope.open_trace("run")
    assert main(["info", "run", "--check"]) == 0
    with TraceWriter("again", workers=2, model="ten classes") as writer:
        for step in trace.steps:
            for worker in range(2):
                for name in trace.shapes:
                    writer.add(step, worker, name, np.array(trace.read(step, name, worker)))
            writer.end_step(step, loss=2.3, learning_rate=0.1)
    files = [p.relative_to("run") for p in Path("run").rglob("*") if p.is_file()]
    assert len(files) == 1 + 2 * len(trace.steps)
    for file in files:
        assert Path("run", file).read_bytes() == Path("again", file).read_bytes(), file


def test_a_continued_trace_of_a_program_has_the_bytes_of_pythons(
    program, outside, tmp_path, monkeypatch
):
    outside(program.with_name("resumed"), cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    codes = np.array([0x3C00, 0xC100, 0x0001], "<u2")
    half, brain = codes.view(np.float16), codes.view(BFLOAT16).reshape(1, 3)
    with TraceWriter(
        "again", workers=1, model="first", metadata={"a": "1", "z": "é"}, sampled_from={"w": 30}
    ) as writer:
        writer.add(0, 0, "w", half)
        writer.add(0, 0, "b", brain)
        writer.end_step(0, loss=0.1, learning_rate=1e-7)
    with TraceWriter(
        "again",
        workers=1,
        model="later",
        roles={"w": "head"},
        metadata={"a": "2", "b": "3"},
        resume=True,
    ) as writer:
        writer.add(4, 0, "b", brain)
        writer.add(4, 0, "w", np.array([1, -2.5, 1e-30], np.float32))
        writer.end_step(4, loss_scale=65536.0)
    files = sorted(p.relative_to("run") for p in Path("run").rglob("*") if p.is_file())
    assert len(files) == 3
    for file in files:
        assert Path("run", file).read_bytes() == Path("again", file).read_bytes(), file


def mean_sign(step, theta, row, worker):
    mean = 0.0
    for x in row:
        mean += abs(x) / len(row)
    return np.copysign(mean, row)


def test_results_of_a_program_are_pythons(written):
    """results.csv byte for byte, and everything else that the folder has, of a program with a
    scheme of its own."""
    opened = apscope.Results.open("results")
    apscope.schemes.define(
        "mean_sign", "none:fp32", encode=mean_sign, bits=1, side_bits=32, grid="sign"
    )
    specs = opened.provenance["schemes"]
    assert len(specs) == 11 and specs[-1] == "error_feedback(mean_sign)"
    results = apscope.replay("run", specs, topology=["ring", "two_phase"])
    assert opened.provenance == results.provenance
    results.save("pythons")
    assert Path("results/results.csv").read_bytes() == Path("pythons/results.csv").read_bytes()
    for table in ("frame", "histograms", "noise"):
        ours, theirs = getattr(opened, table), getattr(results, table)
        pd.testing.assert_frame_equal(ours, theirs, check_exact=True)
    pd.testing.assert_frame_equal(opened.summary(), results.summary(), check_exact=True)


def test_commands_read_results_of_a_program(written, capsys):
    assert main(["check", "results"]) == 0
    assert main(["summary", "results"]) == 0
    assert "mean_sign" in capsys.readouterr().out
    assert main(["report", "results", "-o", "report.html"]) == 0
    assert "mean_sign" in Path("report.html").read_text()
    assert main(["merge", "results", "-o", "merged"]) == 0
    assert Path("merged/results.csv").read_bytes() == Path("results/results.csv").read_bytes()
