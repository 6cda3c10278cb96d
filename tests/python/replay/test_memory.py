"""A replay's memory is bounded by the largest tensor times the workers, never by the trace.

The limit is a tenth of the trace beyond what Python, NumPy, pandas and the results' tables take
before anything large is read; a small replay in the same process measures that baseline.
"""

import re
import subprocess
import sys

import numpy as np
import pytest

import apscope
from apscope._arrays.memory import memory_bytes
from apscope.cli import main
from apscope.record import TraceWriter
from tests.python.argv import argv, command

# 128 MiB; one tensor of all workers is 512 KiB.
STEPS, WORKERS, TENSORS, ELEMENTS = (2, 4, 128, 32768)
BYTES = STEPS * WORKERS * TENSORS * ELEMENTS * 4

# Arguments: small trace, trace, limit in bytes (0: none), threads, memory (0: not given), schemes.
# Prints by how much the largest resident set (anonymous pages and pages of files) grew, in bytes.
CHILD = """
import resource, sys
import apscope

def status(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))

small, trace, limit, threads, memory, *schemes = sys.argv[1:]
options = {"threads": int(threads), "memory": int(memory) or None, "topology": "ring"}
len(apscope.replay(small, schemes, **options).frame)  # pandas is there from here on
before = status("VmHWM")
if int(limit):
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    stacks = 2 * int(threads) * (stack if stack > 0 else 2**21)  # of threads: not in use, but counted
    most = status("VmData") + int(limit) + stacks
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
results = apscope.replay(trace, schemes, **options)
assert len(results.frame) > 0
print(status("VmHWM") - before)
"""


def write(folder, tensors, elements, dtype=np.float32):
    values = np.random.default_rng(1).standard_normal(elements).astype(np.float32) * np.float32(
        1e-3
    )
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


def replay(traces, limit, threads, *schemes, memory=0):
    words = [str(w) for w in (*traces, limit, threads, memory, *schemes)]
    return subprocess.run([sys.executable, "-c", CHILD, *words], capture_output=True, text=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_trace_replays_under_a_limit_of_a_tenth_of_its_size(traces, threads):
    done = replay(traces, BYTES // 10, threads, "aps:e4m3", "stochastic:e4m3")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < BYTES // 10


# Schemes that run block by block without memory of a tensor's length.
POINT_WISE = ["sign", "sign_vote", "qsgd", "qsgd:norm=max,code=elias", "terngrad",
              "integer_allreduce", "zero_blocks",
              "fractrain", "aps:e4m3,unit=1024", "current_scaling:e4m3,block=128",
              "current_scaling:e4m3,agree=local",
              "top_k", "random_k", "residual(sign)", "mx",
                  "mx:block_format=mxfp4,block=48,rounding=stochastic", "nvfp4",
                      "nvfp4:rht=false,agree=local"]  # fmt: skip


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
    # The resident set includes the mapped files, the limit on data does not.
    done = replay((traces[0], one_tensor), BYTES // 10, 2, *POINT_WISE)
    assert done.returncode == 0, done.stderr


def test_the_limit_bites(traces, one_tensor):
    # A scheme that transforms whole tensors holds several copies of them.
    done = replay((traces[0], one_tensor), BYTES // 10, 1, "thc")
    assert done.returncode != 0 and "MemoryError" in done.stderr


def test_half_precision_is_widened_a_tensor_at_a_time(traces, tmp_path):
    half = write(tmp_path / "half", TENSORS, ELEMENTS, np.float16)
    done = replay((traces[0], half), BYTES // 10, 1, "aps:e4m3")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < BYTES // 10


@pytest.fixture(scope="module")
def four_tensors(tmp_path_factory):
    # 4 Mi values of all workers each: 16 MiB as fp32 numbers.
    return write(tmp_path_factory.mktemp("four") / "large", 4, 2**20)


# At once, of one of these tensors: copies; copies and what is remembered; that alone.
HUNGRY = ["top_k", "thc", "error_feedback(sign)"]


def test_a_budget_bounds_what_runs_at_once(traces, four_tensors):
    """Four threads hold four tensors at once, unless the budget has room for only one."""
    needs = 410 * 2**20  # of a tensor with thc, the hungriest
    # Not half of a small machine's.
    free = replay((traces[0], four_tensors), 0, 4, *HUNGRY, memory=2**40)
    bounded = replay((traces[0], four_tensors), 0, 4, *HUNGRY, memory=needs)
    assert free.returncode == bounded.returncode == 0, free.stderr + bounded.stderr
    assert int(bounded.stdout) < needs < int(free.stdout)


def test_a_budget_that_holds_no_item_is_refused(four_tensors):
    with pytest.raises(
        ValueError,
        match=r"^memory 8M is too little: tensor '0.weight' with scheme 'top_k' takes \d+(\.\d)?M "
        r"at once; give at least \d+",
    ) as e:
        apscope.replay(four_tensors, "top_k", memory="8M")
    least = str(e.value).split("give at least ")[1].split(",")[0]
    assert len(apscope.replay(four_tensors, "top_k", memory=least, topology="ring").frame)


def test_shards_of_a_bucket_count(tmp_path):
    """A tensor of nvfp4 takes the whole shard of its bucket whose sum has its scale: here a quarter
    of 256 Ki elements of four workers, in more than 16 bytes an element."""
    many = write(tmp_path / "many", 16, 2**14)
    spec, of_shards = "nvfp4:bucket=25MB,rounding=ties_to_even", 2**16 * 16 * WORKERS
    options = {"topology": "two_phase", "steps": [0], "memory": of_shards}
    with pytest.raises(ValueError, match="too little: tensor .* takes .* at once") as e:
        apscope.replay(many, spec, **options)
    least = str(e.value).split("give at least ")[1].split(",")[0]
    assert len(apscope.replay(many, spec, **{**options, "memory": least}))
    # Blocks without a scale of the tensor are encoded with what shares them alone.
    assert len(apscope.replay(many, f"{spec},tensor_scale=false", **options))


def test_states_that_are_kept_count(four_tensors):
    kept = 8 * 4 * 2**20 * 4  # errors of all four tensors
    apscope.replay(four_tensors, "error_feedback(sign)", memory=kept, topology="ring", threads=1)
    with pytest.raises(ValueError, match=r"and the states that are kept 128(\.1)?M; give at least"):
        apscope.replay(
            four_tensors,
            "error_feedback(sign)",
            memory=kept,
            topology="ring",
            threads=1,
            keep_states=True,
        )


def test_what_is_remembered_goes_with_the_last_step(traces, four_tensors):
    """One tensor's errors at a time: 8 bytes per value, besides its fp32 numbers, which are
    mapped."""
    done = replay((traces[0], four_tensors), 0, 1, "error_feedback(sign)")
    assert done.returncode == 0, done.stderr
    one = 2**20 * 4 * (8 + 4)
    assert int(done.stdout) < 1.5 * one


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4G", 2**32),
        ("512M", 2**29),
        ("1.5k", 1536),
        ("4GiB", 2**32),
        ("4GB", 4 * 10**9),
        ("7", 7),
        (7, 7),
        ("2 T", 2**41),
        (None, 0),
    ],
)
def test_memory_is_written_as_everywhere(text, number):
    assert memory_bytes(text) == number


NO_AMOUNT = "is not between 1 byte and 4194304T|is not a number of bytes"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("4X", "memory '4X' is not a number of bytes such as"),
        ("-1G", "is not a number"),
        ("0", "memory '0' is not between 1 byte and"),
        ("0.1", "memory '0.1' is not between 1 byte and"),
        ("8000000T", "is not between 1 byte and 4194304T"),
        ("1e400", NO_AMOUNT),
        ("9" * 10_000 + "T", NO_AMOUNT),
        (0, "memory=0"),
    ],
)
def test_other_memory_is_one_sentence(wrong, why):
    with pytest.raises(ValueError, match=why) as told:
        memory_bytes(wrong)
    assert len(str(told.value)) < 300
    assert isinstance(wrong, int) or "2^" not in str(told.value)
    with pytest.raises(TypeError, match="memory=1.5 must be an integer"):
        memory_bytes(1.5)


@pytest.mark.parametrize("memory", ["8000000T", "1e400", "9" * 10_000 + "T", "0.1", "0"])
def test_the_command_line_refuses_memory_that_no_machine_has(digits, tmp_path, capsys, memory):
    assert command("replay {} -o {} --memory {}", digits, tmp_path / "r", memory) == 2
    said = capsys.readouterr().err
    assert re.search(NO_AMOUNT, said) and "2^" not in said and len(said) < 300


def test_the_command_line_takes_memory(four_tensors, tmp_path, capsys):
    words = argv("replay {} -o {} --scheme sign --topology ring", four_tensors, tmp_path / "r")
    assert main([*words, "--memory", "1M"]) == 2
    told = capsys.readouterr().err
    assert (
        told.startswith(
            "apscope: memory 1M is too little: tensor '0.weight' with scheme 'sign' takes "
        )
        and told.count("\n") == 1
    )
    assert main([*words, "--memory", "1G"]) == 0


def test_results_without_states_say_so(traces):
    results = apscope.replay(traces[0], "error_feedback(sign)", topology="ring")
    with pytest.raises(ValueError, match="replay with keep_states=True"):
        results.states
    assert list(
        apscope.replay(traces[0], "error_feedback(sign)", topology="ring", keep_states=True).states
    ) == ["small"]
