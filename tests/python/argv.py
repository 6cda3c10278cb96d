"""Words of a command, written as on a command line."""

import subprocess
import sys
from typing import Any

PEAK = """
import sys
from apscope.cli import main
assert main(sys.argv[1:]) == 0
[peak] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(peak.split()[1]) * 1024, file=sys.stderr)
"""


def argv(line: str, *places: Any) -> list[str]:
    """The line's words, a place for every ``{}`` in their order; places may have spaces."""
    left = iter(places)
    words = [str(next(left)) if word == "{}" else word for word in line.split()]
    assert next(left, None) is None, (line, places)
    return words


def command(line: str, *places: Any) -> int:
    """The exit status of ``apscope`` with these words, in this process."""
    from apscope.cli import main

    return main(argv(line, *places))


def peak(line: str, *places: Any) -> int:
    """The largest resident set, in bytes, of ``apscope`` with these words."""
    program = [sys.executable, "-c", PEAK, *argv(line, *places)]
    found = subprocess.run(program, capture_output=True, text=True, check=True)
    return int(found.stderr.splitlines()[-1])
