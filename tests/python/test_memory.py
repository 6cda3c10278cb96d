"""A replay's memory is bounded by the largest tensor times the workers, never by the trace.

The limit is a tenth of the trace beyond what Python, NumPy, pandas and the results' tables take before
anything large is read; a small replay in the same process measures that baseline.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from apscope.record import TraceWriter

STEPS, WORKERS, TENSORS, ELEMENTS = 2, 4, 128, 32768  # 128 MiB; one tensor of all workers is 512 KiB
BYTES = STEPS * WORKERS * TENSORS * ELEMENTS * 4

# Arguments: small trace, trace, limit in bytes (0: none), threads, schemes. Prints by how much the largest
# resident set (anonymous pages and pages of files) grew, in bytes.
CHILD = """
import resource, sys
import apscope

def status(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))

small, trace, limit, threads, *schemes = sys.argv[1:]
apscope.replay(small, schemes, threads=int(threads))
before = status("VmHWM")
if int(limit):
    most = status("VmData") + int(limit)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
results = apscope.replay(trace, schemes, threads=int(threads))
assert len(results.frame) > 0
print(status("VmHWM") - before)
"""


def write(folder, tensors, elements, dtype=np.float32):
    values = np.random.default_rng(1).standard_normal(elements).astype(np.float32) * np.float32(1e-3)
    with TraceWriter(folder, workers=WORKERS) as writer:
        for step in range(STEPS):
            for worker in range(WORKERS):
                for tensor in range(tensors):
                    writer.add(step, worker, f"{tensor}.weight", values.astype(dtype))
            writer.end_step(step, loss=1.0)
    return folder


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    if not sys.platform.startswith("linux"):
        pytest.skip("resident sets are read from Linux's /proc")
    folder = tmp_path_factory.mktemp("memory")
    return write(folder / "small", 4, 1000), write(folder / "large", TENSORS, ELEMENTS)


def replay(traces, limit, threads, *schemes):
    words = [str(w) for w in (*traces, limit, threads, *schemes)]
    return subprocess.run([sys.executable, "-c", CHILD, *words], capture_output=True, text=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_trace_replays_under_a_limit_of_a_tenth_of_its_size(traces, threads):
    done = replay(traces, BYTES // 10, threads, "aps:e4m3", "stochastic:e4m3")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < BYTES // 10


# What runs block by block and remembers nothing as long as a tensor.
POINT_WISE = ["sign", "sign_vote", "qsgd", "qsgd:norm=max,code=elias", "terngrad", "integer_allreduce", "zero_blocks",
              "fractrain", "aps:e4m3,unit=1024", "current_scaling:e4m3,block=128", "current_scaling:e4m3,agree=local",
              "mx", "mx:block_format=mxfp4,block=48,rounding=stochastic", "nvfp4", "nvfp4:rht=false,agree=local"]  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
def test_schemes_on_whole_tensors_too(traces, threads):
    done = replay(traces, BYTES // 10, threads, "sign", "top_k", "qsgd")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < BYTES // 10


@pytest.fixture(scope="module")
def one_tensor(tmp_path_factory):
    # As large as the whole trace.
    return write(tmp_path_factory.mktemp("one") / "large", 1, TENSORS * ELEMENTS)


def test_point_wise_schemes_hold_no_copy_of_a_tensor(traces, one_tensor):
    # What is resident includes the mapped files, which the limit on data does not.
    done = replay((traces[0], one_tensor), BYTES // 10, 2, *POINT_WISE)
    assert done.returncode == 0, done.stderr


def test_the_limit_bites(traces, one_tensor):
    # Schemes on whole tensors hold several copies of it.
    done = replay((traces[0], one_tensor), BYTES // 10, 1, "top_k")
    assert done.returncode != 0 and "MemoryError" in done.stderr


def test_half_precision_is_widened_a_tensor_at_a_time(traces, tmp_path):
    half = write(tmp_path / "half", TENSORS, ELEMENTS, np.float16)
    done = replay((traces[0], half), BYTES // 10, 1, "aps:e4m3")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < BYTES // 10
