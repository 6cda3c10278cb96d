"""Compiler options that would change bits are refused: by the headers if there is a macro, else
when the program starts."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.python.argv import argv

ROOT = Path(__file__).parents[3]
COMPILER = shutil.which("c++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")


def compiled(*words: str, source: str = "") -> subprocess.CompletedProcess:
    return subprocess.run(
        [COMPILER, "-std=c++20", f"-I{ROOT}", *words],
        input=source,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )


@pytest.mark.parametrize(
    "option",
    """
        -ffast-math -freciprocal-math -ffinite-math-only -fno-signed-zeros
        -funsafe-math-optimizations
    """.split(),
)
def test_options_that_give_up_ieee_754_do_not_compile(option):
    done = compiled(
        option, "-O2", "-fsyntax-only", "-x", "c++", "-", source='#include "core/rounding.h"\n'
    )
    assert done.returncode != 0
    assert "apscope rounds by IEEE 754, but this compiler option does not" in done.stderr


def test_the_projects_own_options_compile():
    options = "-O3 -ffp-contract=off -fno-trapping-math -fno-math-errno -fsyntax-only -x c++ -"
    done = compiled(
        *argv(options),
        source='#include "core/rounding.h"\n',
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(
    " fma " not in Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else True,
    reason="no fused multiply-add here",
)
def test_fused_operations_are_found_when_the_program_starts(tmp_path):
    program = tmp_path / "main.cpp"
    program.write_text(
        '#include <cstdio>\n#include <exception>\n#include "emulation/machine/simd.h"\n'
        "int main() {\n  try { apscope::detail::simd_level(); } catch (const std::exception& e) { "
        "std::puts(e.what()); return 1; }\n  return 0;\n}\n"
    )
    sources = [str(program), "emulation/machine/simd.cpp", "core/float_environment.cpp"]
    for contract, status in (("fast", 1), ("off", 0)):
        done = compiled(
            "-O2", "-mfma", f"-ffp-contract={contract}", *sources, "-o", str(tmp_path / contract)
        )
        assert done.returncode == 0, done.stderr
        ran = subprocess.run([tmp_path / contract], capture_output=True, text=True)
        assert ran.returncode == status, contract
        assert ("fuses multiplications with additions" in ran.stdout) == (contract == "fast")
