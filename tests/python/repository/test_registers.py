""".ci/registers.py: what nvcc says of the GPU kernels, and the kernels that may not use local memory."""

import subprocess
import sys

#: The mangled name of run_steps<QuantizeStep<AdditionRounding, 4>>.
ENTRY = "_ZN7apscope6detail9run_stepsINS0_12QuantizeStepINS0_16AdditionRoundingELi4EEEEEvT_"


def printed(tmp_path, request, local):
    log = tmp_path / "log"
    log.write_text(
        f"[1/2] Building CUDA object cast/quantize.cu.o\n"
        f"ptxas info    : Compiling entry function '{ENTRY}' for 'sm_90'\n"
        f"ptxas info    : Function properties for {ENTRY}\n"
        f"    {local} bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n"
        "ptxas info    : Used 31 registers, used 0 barriers\n"
        "ptxas info    : Compile time = 20.492 ms\n"
    )
    script = request.config.rootpath / ".ci/registers.py"
    return subprocess.run([sys.executable, script, log], capture_output=True, text=True)


def test_kernels_are_listed(tmp_path, request):
    told = printed(tmp_path, request, 0)
    assert told.returncode == 0
    assert told.stdout == (
        "  31 registers    0 bytes local    4 spilled  QuantizeStep<AdditionRounding, 4>\n"
    )


def test_local_memory_of_a_fast_kernel_is_an_error(tmp_path, request):
    told = printed(tmp_path, request, 320)
    assert told.returncode == 1
    assert told.stdout.splitlines()[-1] == (
        "QuantizeStep<AdditionRounding, 4> uses 320 bytes of local memory; it must use at most 32"
    )
