"""Registers and local memory of the compiled GPU kernels: registers.py LOG

LOG has what nvcc printed with -Xptxas=-v. Prints a line for each kernel; exits with 1 if a kernel of
`FAST` keeps an array in local memory, which a thread pays for at every access.
"""

import re
import subprocess
import sys
from pathlib import Path

#: Bytes of local memory: a few spilled registers, whose number depends on the compiler. A thread's
#: arrays are larger.
LIMIT = 32
#: Kernels of the fast paths, as the beginnings of their steps' names.
FAST = (
    "QuantizeStep<AdditionRounding",
    "QuantizeStep<SplitRounding",
    "EncodeStep<AdditionRounding",
    "EncodeStep<SplitRounding",
    "DecodeStep",
    "DecodeBlocksStep",
    "EncodeRowsStep<",
    "DecodeRowsStep",
    "AmaxStep",
    "ErrorBlockStep<AdditionRounding",
    "ErrorBlockStep<SplitRounding",
    "WireStep<AdditionRounding",
    "WireStep<SplitRounding",
    "WireStep<QuantaRounding",
    "HopStep<FloatSum",
    "HopStep<QuantaSum",
    "ReducedStep",
    "ReduceStep<FloatLeaf<StepRounding>, FloatSum<StepRounding>, 4, 1,",
    "ReduceStep<FloatLeaf<StepRounding>, FloatSum<StepRounding>, 4, 2,",
    "ReduceStep<FloatLeaf<StepRounding>, FloatSum<StepRounding>, 4, 3,",
    "ReduceStep<FloatLeaf<StepRounding>, FloatSum<StepRounding>, 4, 4,",
    "MatmulStep<true, false",
    "MatmulTile",
    "UnitStep<true",
)


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
            r"^void .*run_(?:steps|groups)<(.*?) ?>\(.*$",
            r"\1",
            name.replace("apscope::detail::", ""),
        ): row
        for name, row in sorted(zip(names, found.values(), strict=True))
    }


def main(path: str) -> int:
    found = kernels(Path(path).read_text())
    for name, (registers, local, spilled) in found.items():
        print(f"{registers:4} registers {local:4} bytes local {spilled:4} spilled  {name}")
    status = 0
    for name, (_, local, _) in found.items():
        if name.startswith(FAST) and local > LIMIT:
            print(f"{name} uses {local} bytes of local memory; it must use at most {LIMIT}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
