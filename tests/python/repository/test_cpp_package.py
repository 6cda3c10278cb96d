"""How CMake projects of others find libapscope: components of its package, and its sources as a part
of theirs."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.python.argv import argv
from tests.python.repository import test_cpp_library
from tests.python.repository.test_cpp_library import BUILD, CONSUMERS, ROOT, run


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the library is installed."""
    folder = tmp_path_factory.mktemp("package")
    run("cmake", "--install", BUILD, "--prefix", folder, "--component", "cpp")
    return folder


@test_cpp_library.pytestmark
@pytest.mark.parametrize(
    "asked, absent, said",
    [
        ("", "xtensor", "found: apscope;"),
        ("COMPONENTS xtensor", "Boost", "found: apscope xtensor;"),
        ("REQUIRED COMPONENTS multiprecision", "xtensor", "found: apscope multiprecision;"),
        ("OPTIONAL_COMPONENTS xtensor multiprecision", "xtensor", "found: apscope multiprecision;"),
        (
            "REQUIRED COMPONENTS xtensor",
            "xtensor",
            "apscope is found, but its component xtensor needs xtensor (Debian: libxtensor-dev), "
            "which is not found: install it, or name its prefix in CMAKE_PREFIX_PATH.",
        ),
        (
            "COMPONENTS xtensor multiprecision",
            "Boost",
            "its component multiprecision needs Boost (Debian: libboost-dev), which is not found",
        ),
        ("COMPONENTS python", "Boost", "it has no component python: its components are xtensor"),
    ],
)
def test_components(asked, absent, said, prefix, tmp_path):
    """A header that needs another library is a component, and a message names what is missing."""
    (tmp_path / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.16)
project(components LANGUAGES CXX)
find_package(apscope {asked})
foreach(library apscope xtensor multiprecision)
  if(apscope_FOUND AND TARGET apscope::${{library}})
    string(APPEND found " ${{library}}")
  endif()
endforeach()
message(STATUS "found:${{found}};")
""")
    without = f"-DCMAKE_DISABLE_FIND_PACKAGE_{absent}=ON"
    done = subprocess.run(
        ["cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}", without],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said in " ".join(f"{done.stdout} {done.stderr}".split())


@pytest.mark.skipif(not shutil.which("cmake"), reason="there is no CMake")
@pytest.mark.parametrize("shared", ["", "-DBUILD_SHARED_LIBS=OFF"])
def test_as_a_part_of_another_project(shared, tmp_path):
    """Users of apscope's target see its public headers alone; it decides nothing of theirs."""
    build = tmp_path / "build"
    configure = argv("cmake -G Ninja -S {} -B {}", CONSUMERS / "part", build)
    run(*configure, f"-DAPSCOPE={ROOT}", *shared.split())
    run(*argv("cmake --build {} --target CMakeFiles/part.dir/part.cpp.o", build))
    cache = (build / "CMakeCache.txt").read_text()
    assert "APSCOPE_PYTHON:BOOL=OFF" in cache
    assert ("BUILD_SHARED_LIBS" in cache) == bool(shared)
