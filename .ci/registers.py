"""Registers and local memory of the compiled GPU kernels: registers.py LOG

LOG has what nvcc printed with -Xptxas=-v. Prints a line for each kernel; exits with 1 if a kernel of
`FAST` uses local memory, which a thread pays for at every access.
"""

import re
import subprocess
import sys
from pathlib import Path

#: Kernels of the fast paths, as the beginning of their step's name, and the bytes of local memory
#: that they may use.
FAST = {
    "QuantizeStep<AdditionRounding": 0,
    "QuantizeStep<SplitRounding, 4": 0,
    "EncodeStep<AdditionRounding": 0,
    "EncodeStep<SplitRounding, 4": 0,
    "DecodeStep": 0,
    "DecodeBlocksStep": 0,
    "ErrorLaneStep<AdditionRounding": 0,
    "ErrorLaneStep<SplitRounding, false": 0,
    "WireStep<AdditionRounding": 0,
    "ReducedStep<StepAdder": 0,
    "DrawStep<StepAdder": 0,
    "MatmulStep<true, false": 0,
    "UnitStep<true": 8,
}


def kernels(log: str) -> dict[str, tuple[int, int, int]]:
    """By name: registers, bytes of local memory, bytes of spilled registers."""
    found: dict[str, tuple[int, int, int]] = {}
    for entry in re.split("Compiling entry function '", log)[1:]:
        memory = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", entry)
        registers = re.search(r"Used (\d+) registers", entry)
        if memory and registers:
            found[entry.partition("'")[0]] = (int(registers[1]), int(memory[1]), int(memory[2]))
    names = subprocess.run(
        ["c++filt"], input="\n".join(found), capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {
        re.sub(
            r"^void .*run_steps<(.*?) ?>\(.*$", r"\1", name.replace("apscope::detail::", "")
        ): row
        for name, row in sorted(zip(names, found.values(), strict=True))
    }


def main(path: str) -> int:
    found = kernels(Path(path).read_text())
    for name, (registers, local, spilled) in found.items():
        print(f"{registers:4} registers {local:4} bytes local {spilled:4} spilled  {name}")
    status = 0
    for start, limit in FAST.items():
        for name, (_, local, _) in found.items():
            if name.startswith(start) and local > limit:
                print(f"{name} uses {local} bytes of local memory; it must use at most {limit}")
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
