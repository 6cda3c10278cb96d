"""Write the type stubs of the extension modules: python .ci/stubs.py FOLDER."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

MODULES = ("_core", "_oracle")  # _oracle exists where MPFR does


def write_stubs(folder: Path) -> list[Path]:
    """The stubs written, one a module that this installation has."""
    written = []
    with tempfile.TemporaryDirectory() as scratch:
        for module in MODULES:
            if importlib.util.find_spec(f"apscope.{module}") is None:
                continue
            command = [sys.executable, "-m", "pybind11_stubgen", f"apscope.{module}"]
            subprocess.run([*command, "--numpy-array-use-type-var", "--exit-code", "-o", scratch], check=True)
            text = (Path(scratch) / "apscope" / f"{module}.pyi").read_text()
            written.append(folder / f"{module}.pyi")
            written[-1].write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")
    return written


if __name__ == "__main__":
    for path in write_stubs(Path(sys.argv[1])):
        print(path)
