""".ci/gpu.sh without a GPU: its arguments, its parts and their limits with tools that only seem to
build and prove, the JSON and the table."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from docs.tools import gpu

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / ".ci/gpu.sh"

PROOFS = (
    '{"device": "Card", "proofs": 12, "values": 3000, "wrong_proofs": WRONG, '
    '"first_wrong": "NAME", "timings": []}'
)
TIMES = (
    '{"device": "Card", "proofs": 0, "values": 0, "wrong_proofs": 0, "first_wrong": "", '
    '"timings": ['
    '{"job": "quantize e4m3, ties_to_even", "ms": 0.39, "of_floor": 1.054, "floor": "device copy", '
    '"rate": 2750.1, "unit": "GB/s"},'
    '{"job": "matmul 2048^3, fp16, kahan, product exact", "ms": 251.7, "of_floor": 923.4, '
    '"floor": "fp32 multiply-adds", "rate": 0.0341, "unit": "10^12 steps a second"},'
    '{"job": "replay of 8 workers", "ms": 216.0, "of_floor": 0, "floor": "", "rate": 932.1, '
    '"unit": "10^6 values and schemes a second"}]}'
)
REPLAY = {
    "values": 187032192, "workers": 8, "steps": 2, "schemes": ["none:fp16", "aps:e4m3"],
    "topologies": 4, "processors": 16, "rows": 1240, "device": "cuda", "differing_columns": [],
    "cpu_seconds": 4.0, "device_seconds": 0.5,
}  # fmt: skip

TRAINING = {
    "device": "cuda", "runs": 57, "wrong": [],
    "times": [{"job": "recipe mxfp8", "ms": 6.5, "plain_ms": 5.0, "of_plain": 1.3}],
}  # fmt: skip

# A cmake that "builds" a cuda_test which writes what it would find, and empty modules.
CMAKE = """
case " $* " in
    *" --target cuda_test "* | *" -DAPSCOPE_ANALYSIS=OFF "*) ;;
    *) [[ ! ${NO_MODULES:-} ]] || exit 1 ;;
esac
while (($#)); do case $1 in -B) folder=$2 ;; --build) folder=$2; build=1 ;; esac; shift; done
[[ ${build:-} ]] || exit 0
mkdir -p "$folder/tests/cuda" "$folder/bindings"
cp "$TOOLS/cuda_test" "$folder/tests/cuda/"
touch "$folder/bindings/_core.so" "$folder/bindings/_cuda.so"
"""
CUDA_TEST = """
for a; do [[ $last == --json ]] && file=$a; last=$a; done
[[ " $* " != *" --no-proofs "* ]] || { echo "$TIMES" >"$file"; exit; }
[[ ! $file ]] || echo "$PROOFS" >"$file"
[[ " $* " != *" --small "* || ! ${SLOW:-} ]] || sleep 60
exit ${RESULT:-0}
"""
ARRAYS = json.dumps(
    {"calls": 1342, "wrong": [], "small_calls": [{"call": "quantize", "us": 17.25}]}
)
PYTHON = """
case $1 in
    tests/cuda/replay.py) echo "$REPLAY" >"$OUT/replay.json" ;;
    tests/cuda/arrays.py) echo "$ARRAYS" >"$OUT/arrays.json" ;;
    tests/cuda/training.py) echo "$TRAINING" >"$OUT/training.json" ;;
    *) exec "$REAL" "$@" ;;
esac
"""


def tools(place, **scripts):
    """Programs of bash by their names, on the PATH before all others."""
    folder = place / "tools"
    folder.mkdir()
    for name, text in scripts.items():
        path = folder / (name if name == "cuda_test" else name.replace("_", "-"))
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder


def run(place, *arguments, folder=None, **environment):
    folder = folder or tools(place, nvidia_smi="exit 9")
    env = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", **environment}
    return subprocess.run(
        [SCRIPT, *arguments], env=env, capture_output=True, text=True, timeout=300, check=False
    )


def on_a_card(place, *arguments, wrong=0, **environment):
    """The script where every tool is one of these, and nvidia-smi lists a card."""
    folder = tools(
        place,
        nvidia_smi="case $1 in\n*compute_cap*) echo 9.0 ;;\n*driver*) echo 580.1 ;;\n"
        "*) echo A Card ;;\nesac",
        nvcc="echo Build 13",
        cmake=CMAKE,
        cuda_test=CUDA_TEST,
        compute_sanitizer='while [[ $1 == --* ]]; do shift 2; done; exec "$@"',
        python=PYTHON,
    )
    proofs = PROOFS.replace("WRONG", str(wrong)).replace("NAME", "encode e4m3" if wrong else "")
    out = place / "out"
    return out, run(
        place, "--out", str(out), *arguments, folder=folder, TOOLS=str(folder), PROOFS=proofs,
        TIMES=TIMES, ARRAYS=ARRAYS, REPLAY=json.dumps(REPLAY), TRAINING=json.dumps(TRAINING), OUT=str(out), REAL=sys.executable,
        PYTHON=str(folder / "python"), JOBS="1", **environment,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dry"], "there is no argument '--dry'"),
        (["--seconds", "7m"], "'7m' is not a number from 1 to 99999"),
        (["--seconds"], "'' is not a number from 1 to 99999"),
        (["--out"], "--out needs a folder"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(tmp_path, arguments, words):
    refused = run(tmp_path, *arguments)
    assert refused.returncode == 2 and refused.stdout == ""
    assert words in refused.stderr and refused.stderr.count("\n") == 1


def test_without_a_gpu_one_sentence_and_77(tmp_path):
    out = tmp_path / "out"
    skipped = run(tmp_path, "--out", str(out))
    assert skipped.returncode == 77 and skipped.stdout.count("\n") == 1
    assert "no GPU" in skipped.stdout and skipped.stderr == "" and not out.exists()


def test_every_part_runs_and_the_json_has_its_results(tmp_path):
    out, done = on_a_card(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((out / "gpu.json").read_text())
    assert [part["name"] for part in found["parts"]] == [
        "build_kernels", "proofs", "kernel_times", "build_modules", "replay", "arrays",
        "training", "memcheck", "racecheck", "all_inputs",
    ]  # fmt: skip
    assert {part["how"] for part in found["parts"]} == {"passed"}
    assert (found["gpu"], found["driver"], found["nvcc"]) == ("A Card", "580.1", "Build 13")
    assert found["replay"] == REPLAY and len(found["timings"]) == 3
    assert found["proofs"]["proofs"]["proofs"] == 12
    assert all(5 <= part["limit"] <= 420 for part in found["parts"])
    assert "\n".join(gpu.lines_of(found)) in done.stdout


def test_a_part_that_fails_does_not_stop_the_later_ones(tmp_path):
    out, done = on_a_card(tmp_path, wrong=2, RESULT="1")
    assert done.returncode == 1
    found = json.loads((out / "gpu.json").read_text())
    how = {part["name"]: part["how"] for part in found["parts"]}
    assert how["proofs"] == how["memcheck"] == how["all_inputs"] == "failed"
    assert how["kernel_times"] == how["replay"] == "passed"
    table = "\n".join(gpu.lines_of(found))
    assert "12 proofs (3,000 values), 2 of them wrong: encode e4m3" in table
    assert "Parts that did not pass: `proofs` failed, `memcheck` failed" in table


def test_without_the_sources_of_the_modules_the_kernels_are_tried(tmp_path):
    out, done = on_a_card(tmp_path, NO_MODULES="1")
    assert done.returncode == 1
    how = {p["name"]: p["how"] for p in json.loads((out / "gpu.json").read_text())["parts"]}
    assert how.pop("build_modules") == "failed"
    how = {name: word for name, word in how.items() if name not in ("replay", "arrays", "training")}
    assert set(how.values()) == {"passed"}
    assert ".ci/gpu.sh --sources" in (out / "build_kernels.log").read_text()


def test_a_part_beyond_its_limit_is_ended_and_what_has_no_time_left_is_not_started(tmp_path):
    # The sanitizers' program sleeps for a minute; 8 seconds are left for everything.
    out, done = on_a_card(tmp_path, "--seconds", "8", SLOW="1")
    assert done.returncode == 1
    found = json.loads((out / "gpu.json").read_text())
    parts = {part["name"]: part for part in found["parts"]}
    assert all(part["seconds"] < 30 for part in parts.values())
    assert parts["memcheck"]["how"] in ("out of time", "not started")
    assert parts["all_inputs"]["how"] == "not started"
    assert parts["all_inputs"]["limit"] == 0


def sample(**changes):
    return {
        "kind": "apscope on a GPU", "version": 1, "date": "2027-01-02", "commit": "abc1234",
        "gpu": "A Card", "driver": "580.1", "nvcc": "Build 13", "processors": 16,
        "python": "3.12.3", "parts": [{"name": "proofs", "how": "passed"}],
        "proofs": {"proofs": json.loads(PROOFS.replace("WRONG", "0").replace("NAME", ""))},
        "timings": json.loads(TIMES)["timings"], "replay": REPLAY,
        "arrays": json.loads(ARRAYS), "training": TRAINING, **changes,
    }  # fmt: skip


def test_the_table_of_a_sample():
    lines = gpu.lines_of(sample())
    assert lines[0] == (
        "A Card, driver 580.1, 16 processors, Build 13, 2027-01-02, commit abc1234. 12 proofs "
        "(3,000 values), 0 of them wrong; 1,342 calls of the package on tensors, 0 differ; 57 runs "
        "of training and its casts, 0 differ. Parts that did not pass: none."
    )
    assert "| quantize e4m3, ties_to_even | 0.390 | 2750 GB/s | device copy | 1.05 |" in lines
    assert (
        "| matmul 2048^3, fp16, kahan, product exact | 251.700 | 0.0341 10^12 steps a second "
        "| fp32 multiply-adds | 923 |" in lines
    )
    assert "| recipe mxfp8 | 6.50 | 5.00 | 1.30 |" in lines
    assert lines[lines.index("| quantize | 17.2 |") - 2] == "| call | microseconds |"
    assert lines[-2:] == ["| CPU, 16 processors | 4.00 | 94 |", "| GPU | 0.50 | 748 |"]
    # Every row has as many cells as its header.
    for line in lines:
        assert line[:1] != "|" or len(re.findall(r"\|", line)) in (6, 5, 4, 3)


def test_the_table_goes_into_the_page_and_a_dry_run_does_not(tmp_path):
    page, file = tmp_path / "page.md", tmp_path / "gpu.json"
    page.write_text("before\n<!-- gpu: written by it -->\nold\n<!-- end of gpu -->\nafter\n")
    file.write_text(json.dumps(sample()))
    gpu.main([str(page), str(file)])
    text = page.read_text()
    assert text.startswith("before\n<!-- gpu: written by it -->\n\nA Card, ")
    assert text.endswith("<!-- end of gpu -->\nafter\n") and "old" not in text
    for wrong, words in ((sample(gpu="dry run, no GPU"), "dry run"), ({"kind": "else"}, "is not")):
        file.write_text(json.dumps(wrong))
        with pytest.raises(SystemExit, match=words):
            gpu.main([str(page), str(file)])
        assert page.read_text() == text
    # The page of the repository has the place.
    assert (ROOT / "docs/performance.md").read_text().count("<!-- gpu: ") == 1
