"""What a build exports, and what it refuses to build."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "build" / "release"


@pytest.mark.parametrize("module", ["_core", "_oracle", "_cuda"])
def test_an_extension_module_shows_its_entry_alone(module):
    built = list(BUILD.glob(f"bindings/{module}.*.so"))
    if not built or not shutil.which("nm"):
        pytest.skip(f"{module} is not built in build/release, or there is no nm")
    command = ["nm", "-D", "--defined-only", built[0]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split()[2::3] == [f"PyInit_{module}"]


@pytest.mark.skipif(not shutil.which("cmake"), reason="there is no cmake")
def test_an_archive_does_not_fetch_re2(tmp_path):
    """Whoever links an archive links RE2, which was then built into a build tree alone."""
    done = subprocess.run(
        ["cmake", "-S", ROOT, "-B", tmp_path, "-DAPSCOPE_PYTHON=OFF", "-DAPSCOPE_FETCH=ON",
         "-DBUILD_SHARED_LIBS=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_re2=ON", "-DRE2_LIBRARY="],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = " ".join(done.stderr.split())
    assert done.returncode != 0 and "libapscope as an archive needs it on the system" in said
