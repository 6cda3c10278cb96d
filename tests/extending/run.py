"""An example executed: a copy of the tree, the patch, the build, the commands, the tests."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .examples import FOLDER, ROOT, Example

MODULES = ("_core", "_oracle")  # _oracle exists where MPFR does


def copy(folder: Path) -> None:
    """The files of the working tree that git lists, as a repository with one commit."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--no-verify", "--message", "The tree")


def git(folder: Path, *arguments: str) -> str:
    """A command in the copy, whatever its user has configured."""
    who = ["-c", "user.name=apscope", "-c", "user.email=apscope@localhost"]
    off = ["-c", "commit.gpgsign=false", "-c", "core.autocrlf=false"]
    return subprocess.run(
        ["git", *who, *off, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def changed(folder: Path) -> list[str]:
    """The files that differ from the commit."""
    git(folder, "add", "--all")
    return sorted(git(folder, "diff", "--cached", "--name-only").splitlines())


def environment(folder: Path) -> dict[str, str]:
    """That of Python programs which take the package from the copy, and of a build that ccache
    knows."""
    env = os.environ | {"APSCOPE_TREE": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(FOLDER / "site"), str(folder)])
    if shutil.which("ccache"):  # paths below the copy are as good as those of the tree itself
        env = {
            "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
            "CCACHE_DIR": str(ROOT / "build/ccache"),
            "CCACHE_BASEDIR": str(folder),
            "CCACHE_NOHASHDIR": "1",
        } | env
    return env


def sources(pattern: str, folder: Path) -> list[str]:
    """The C++ sources with a suite of tests, SUITE.NAME or PREFIX/SUITE.NAME, that match."""
    suites = re.compile(
        r"^(?:TEST(?:_[PF])?\(|INSTANTIATE_TEST_SUITE_P\((?P<prefix>\w+),\s*)(?P<suite>\w+),",
        re.MULTILINE,
    )

    def asked(file: Path) -> bool:
        names = (
            "/".join(filter(None, found.groups())) for found in suites.finditer(file.read_text())
        )
        return any(re.search(pattern, f"{name}.") for name in names)

    return [
        str(file.relative_to(folder))
        for file in sorted((folder / "tests").rglob("*.cpp"))
        if asked(file)
    ]


def build(example: Example, folder: Path) -> None:
    """The extension modules, and the C++ tests where the example names some; the modules into the
    package."""
    out, env = folder / "build/release", environment(folder)
    interpreter = Path(sys.executable)
    if Path(sys.prefix) == ROOT / ".venv":  # headers of packages below the copy, for ccache
        (folder / ".venv").symlink_to(sys.prefix)
        interpreter = folder / ".venv/bin/python"
    settings = {
        "CMAKE_BUILD_TYPE": "Release",
        "APSCOPE_TESTS": "ON" if example.ctest else "OFF",
        "APSCOPE_BENCHMARKS": "OFF",
        "APSCOPE_CPP": "ON" if example.ctest else "OFF",
        "APSCOPE_FETCH": "ON",
        "Python_EXECUTABLE": str(interpreter),
    }
    if example.ctest:
        chosen = map(re.escape, sources(example.ctest, folder))
        settings["APSCOPE_TEST_SOURCES"] = "|".join(chosen)
    defines = [f"-D{name}={value}" for name, value in settings.items()]
    configure = ["cmake", "-S", folder, "-B", out, "-G", "Ninja", "--log-level=WARNING", *defines]
    subprocess.run(configure, check=True, env=env)
    targets = ["python_modules", *(["apscope_tests"] if example.ctest else [])]
    jobs = os.environ.get("JOBS", str(os.cpu_count()))
    subprocess.run(
        ["cmake", "--build", out, "--parallel", jobs, "--target", *targets], check=True, env=env
    )
    for module in (out / "bindings").glob("_*.so"):
        shutil.copy2(module, folder / "bindings/apscope")


def take_modules(folder: Path) -> None:
    """The installed extension modules, for an example without C++."""
    for name in MODULES:
        spec = importlib.util.find_spec(f"apscope.{name}")
        if spec is not None and spec.origin is not None:
            shutil.copy2(spec.origin, folder / "bindings/apscope")


def python(folder: Path, *arguments: str) -> None:
    """A Python program in the copy, with the copy's package."""
    subprocess.run([sys.executable, *arguments], cwd=folder, check=True, env=environment(folder))


def execute(example: Example, folder: Path) -> None:
    """Everything, in an empty folder.

    Raises
    ------
    subprocess.CalledProcessError
        A step that failed.
    AssertionError
        The commands touch other files than the example says.
    """
    copy(folder)
    git(folder, "apply", str(example.patch))
    if example.builds:
        build(example, folder)
    else:
        take_modules(folder)
    for command in example.commands:
        python(folder, *command)
    found = changed(folder)
    assert found == example.files(), f"{example.name} touches {found}, not {example.files()}"
    if example.ctest:
        ctest = ["ctest", "--test-dir", folder / "build/release", "--no-tests=error"]
        subprocess.run([*ctest, "--output-on-failure", "--tests-regex", example.ctest], check=True)
    if example.verify and importlib.util.find_spec("apscope._oracle"):
        python(folder, "-m", "apscope", "verify", *example.verify)
    if example.tests:
        python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", *example.tests)


def in_a_new_folder(example: Example, keep: bool = False) -> None:
    """`execute`, in a folder that goes again unless it is to be kept."""
    folder = Path(tempfile.mkdtemp(prefix=f"apscope-{example.name}-"))
    try:
        execute(example, folder)
    finally:
        if keep:
            print(f"{example.name} is in {folder}")
        else:
            shutil.rmtree(folder)
