"""The installed C++ library: projects that see neither this repository nor Python use it from a
prefix.

The projects are built and run in a mount namespace in which the repository's and Python's folders
are empty; where the system allows none, a test is skipped that says so. The compiler's list of what
it read is looked at in either case.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import apscope
from tests.python.argv import argv
from tests.python.repository.test_samples import PAGES, samples

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "build" / "release"
EXAMPLES = ROOT / "bindings/cpp/examples"
CONSUMERS = ROOT / "tests/bindings/cpp/consumers"
NAMES = [p.stem for p in sorted(EXAMPLES.glob("*.cpp"))]
SAMPLES = [
    (f"{page.stem}_{line}", text)
    for page in PAGES
    for language, _, text, line in samples(page)
    if language == "cpp"
]
TOOLS = ["cmake", "ninja", "c++", "cc", "as", "ld", "ar", "ranlib", "sh", "pkg-config", "nm"]

pytestmark = pytest.mark.skipif(
    not any(BUILD.glob("bindings/cpp/libapscope.*")) or not shutil.which("cmake"),
    reason="libapscope is not built in build/release",
)


def run(*command: object, **options: object) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library in prefix/, moved there after it was installed elsewhere, and a
    tool's path without Python."""
    folder = tmp_path_factory.mktemp("cpp")
    run("cmake", "--install", BUILD, "--prefix", folder / "first", "--component", "cpp")
    (folder / "first").rename(folder / "prefix")
    (folder / "bin").mkdir()
    for tool in TOOLS:
        if found := shutil.which(tool):
            (folder / "bin" / tool).symlink_to(found)
    return folder


def python_folders() -> list[Path]:
    """The prefixes of this Python and the system's; where tools lie in one, Python's own folders."""
    tools = [Path(found).resolve() for tool in TOOLS if (found := shutil.which(tool))]
    prefixes = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    shared = {
        prefix for prefix in prefixes if any(tool.is_relative_to(prefix) for tool in tools)
    } | {Path("/usr"), Path("/usr/local")}
    inside = [
        path
        for prefix in shared
        for pattern in ("lib*/python*", "include/python*")
        for path in prefix.glob(pattern)
        if path.is_dir()
    ]
    return [*(prefixes - shared), *inside]


class Outside:
    """Runs commands where the repository and Python are empty folders, and Python is in no path."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.environment = {
            "PATH": str(place / "bin"),
            "HOME": str(place),
            "LANG": "C",
            "CCACHE_DISABLE": "1",
            "PKG_CONFIG_PATH": str(next(place.glob("prefix/lib*/**/pkgconfig"))),
        }
        folders = {ROOT, *python_folders()}
        outermost = sorted(
            path
            for path in folders
            if not any(path.is_relative_to(other) for other in folders - {path})
        )
        hide = "".join(f'mount -t tmpfs none "{path}" && ' for path in outermost)
        tried = subprocess.run(
            ["unshare", "-rm", "sh", "-c", f"{hide}true"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.hide, self.refused = (
            (hide, "") if tried.returncode == 0 else ("", tried.stderr.strip())
        )

    def __call__(self, *command: object, cwd: Path | None = None) -> str:
        words = [str(word) for word in command]
        if self.hide:
            words = [
                shutil.which("unshare") or "",
                "-rm",
                "/bin/sh",
                "-c",
                f"PATH=/usr/bin:/bin:/usr/sbin:/sbin; {self.hide} "
                f'PATH="{self.place}/bin"; exec "$@"',
                "sh",
                *words,
            ]
        return run(*words, env=self.environment, cwd=cwd or self.place)

    def build(self, source: Path, without: tuple[str, ...] = ("boost", "xtensor")) -> Path:
        """A project copied out of the repository and built, which reads no header of some
        libraries: where its programs lie."""
        project, build = self.place / source.name, self.place / f"{source.name}-build"
        shutil.copytree(source, project)
        cmake, prefix = self.place / "bin/cmake", f"-DCMAKE_PREFIX_PATH={self.place}/prefix"
        self(*argv("{} -G Ninja -S {} -B {} {}", cmake, project, build, prefix))
        self(cmake, "--build", build)
        read = run("ninja", "-C", build, "-t", "deps")
        assert "prefix/include/apscope/quantizer.h" in read
        assert str(ROOT) not in read and "bindings/cpp" not in read
        assert not [
            line for line in read.splitlines() for library in without if f"/{library}/" in line
        ]
        return build


@pytest.fixture(scope="module")
def outside(place: Path) -> Outside:
    return Outside(place)


@pytest.fixture(scope="module")
def examples(outside: Outside) -> Path:
    return outside.build(EXAMPLES)


@pytest.fixture(scope="module")
def dumps(outside: Outside) -> Path:
    return outside.build(CONSUMERS / "dumps")


@pytest.fixture(scope="module")
def trace(place: Path) -> Path:
    shutil.copytree(ROOT / "notebooks/data/digits", place / "digits")
    return place / "digits"


def test_neither_the_repository_nor_python_is_in_reach(outside):
    if not outside.hide:
        pytest.skip(
            "no folder can be hidden here, so projects are built beside the repository and "
            f"Python: {outside.refused}"
        )
    for path in (ROOT / "core", ROOT / "bindings/cpp"):
        outside("sh", "-c", 'test ! -e "$0"', path)
    pythons = {
        sys.executable,
        sys._base_executable,
        *(found for name in ("python", "python3") if (found := shutil.which(name))),
    }
    for python in pythons | {
        str(path) for path in Path("/usr/bin").glob("python3*") if "config" not in path.name
    }:
        outside("sh", "-c", '! "$0" -c ""', python)


@pytest.mark.parametrize("name", NAMES)
def test_examples_print_what_their_pages_show(name, examples, outside, trace):
    printed = outside(examples / name, *([trace] if name == "replay_trace" else []))
    assert printed == (EXAMPLES / f"{name}.txt").read_text()


def build_samples(outside: Outside, samples: list[tuple[str, str]]) -> Path:
    """The folder of the programs that pages print, by name."""
    project = outside.place / "made" / "samples"
    project.mkdir(parents=True)
    lines = ["cmake_minimum_required(VERSION 3.16)", "project(samples LANGUAGES CXX)"]
    lines += [f"find_package({name} REQUIRED)" for name in ("apscope", "xtensor", "Boost")]
    for name, text in samples:
        above = [line for line in text.splitlines() if line.startswith("#include")]
        inside = [line for line in text.splitlines() if not line.startswith("#include")]
        (project / f"{name}.cpp").write_text("\n".join([*above, "int main() {", *inside, "}", ""]))
        lines += [
            f"add_executable({name} {name}.cpp)",
            f"target_link_libraries({name} PRIVATE apscope::apscope xtensor Boost::headers)",
        ]
    (project / "CMakeLists.txt").write_text("\n".join([*lines, ""]))
    return outside.build(project, without=())


@pytest.fixture(scope="module")
def sample_programs(outside: Outside) -> Path:
    return build_samples(outside, SAMPLES)


@pytest.mark.parametrize("name, text", SAMPLES, ids=[name for name, _ in SAMPLES])
def test_samples_print_what_their_comments_say(name, text, sample_programs, outside, tmp_path):
    said = re.findall(r"std::cout.*// (.*)", text)
    assert said and outside(sample_programs / name, cwd=tmp_path).splitlines() == said


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="there is no pkg-config")
def test_a_project_without_cmake(outside, place):
    """Flags by pkg-config; warnings are errors, and flags that change what floating-point code
    means change no result."""
    flags = outside(place / "bin/pkg-config", "--cflags", "--libs", "apscope").split()
    assert f"-I{place}/prefix" in " ".join(
        os.path.normpath(f) if f[0] == "/" else f"{f[:2]}{os.path.normpath(f[2:])}" for f in flags
    )
    source, program = place / "alone.cpp", place / "alone"
    shutil.copy(EXAMPLES / "round_array.cpp", source)
    library = place / "prefix" / next(place.glob("prefix/lib*")).name
    for more in (
        ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"],
        ["-O3", "-ffast-math", "-fvisibility=hidden"],
    ):
        line = argv("{} -std=c++20 {} -o {}", place / "bin/c++", source, program)
        outside(*line, *more, *flags, f"-Wl,-rpath,{library}")
        assert outside(program) == (EXAMPLES / "round_array.txt").read_text()


def test_xtensor_without_boost(outside):
    program = outside.build(CONSUMERS / "xtensor_only", without=("boost",)) / "xtensor_only"
    assert outside(program) == "0.1015625 240 inf\n19 6.1015625\n"


def test_boost_without_xtensor(outside):
    program = outside.build(CONSUMERS / "exact", without=("xtensor",)) / "exact"
    assert outside(program) == "1/512\n1 1.125\n"


def test_nothing_internal_is_seen(place, outside):
    installed = sorted(
        p.relative_to(place / "prefix").as_posix()
        for p in (place / "prefix").rglob("*")
        if p.is_file()
    )
    headers = [p for p in installed if p.endswith(".h")]
    public = {f"include/apscope/{p.name}" for p in (ROOT / "bindings/cpp/apscope").glob("*.h")}
    values = {
        "version.h",
        "core/error.h",
        "core/float_format.h",
        "core/format_syntax.h",
        "core/format_rules.h",
        "core/named_formats.h",
        "core/named_format_table.h",
        "core/block_format.h",
        "core/projection.h",
        "core/rounding_mode.h",
        "core/host_device.h",
    }
    assert set(headers) == public | {f"include/apscope/{name}" for name in values}
    lists = [p for p in installed if p.endswith(".inc")]
    assert lists == ["include/apscope/analysis/summary/summary_figures.inc"]
    assert not [p for p in installed if p.endswith((".py", ".cpp"))]
    library = next(place.glob("prefix/lib*/**/libapscope.*"))
    if library.suffix == ".a":
        pytest.skip("an archive hides nothing")
    shown = outside(place / "bin/nm", "-D", "--defined-only", "-C", library).splitlines()
    shown = [line for line in shown if line.split(" ", 2)[1] != "A"]  # the name of the version
    assert any(re.search(r" T apscope::Quantizer::Quantizer\(", line) for line in shown)
    names = [line.split(" ", 2)[2] for line in shown]
    assert all(re.match(r"(\w+ )*apscope::", name) for name in names), names
    assert not [line for line in shown if line.split(" ", 2)[1] == "u"]  # shared by a process
    inner = {name for name in names if re.match(r"(\w+ )?apscope::detail::", name)}
    # By what is inline in public headers.
    called = ("allreduce_rows(", "refuse_bias(", "refuse_format(", "refuse_p3109(")
    assert all(
        name.startswith(tuple(f"apscope::detail::{one}" for one in called)) for name in inner
    ), sorted(inner)[:10]
    assert len(inner) == len(called)


@pytest.mark.parametrize("specials", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rounding": "toward_zero", "overflow": "saturate"},
        {"rounding": "stochastic", "random_bits": 16, "seed": 7},
        {"rounding": "to_odd"},
    ],
    ids=lambda s: s.get("rounding", "default"),
)
def test_statistics_of_casts_are_pythons(settings, specials, dumps, outside, place):
    random = np.random.default_rng(2)
    x = (
        random.standard_normal(3 * 4096 + 77)
        * 2.0 ** random.integers(-14, 9 if specials else 4, 3 * 4096 + 77)
    ).astype(np.float32)
    if specials:
        x[5], x[4096], x[9000] = np.nan, np.inf, 0.0
    x.tofile(place / "numbers")
    words = [
        settings.get(k, v)
        for k, v in {
            "rounding": "ties_to_even",
            "overflow": "ieee",
            "random_bits": 32,
            "seed": 0,
        }.items()
    ]
    for format in ("e4m3", "e5m2", "e3m0", "bf16", "e4m3fn"):
        printed = dict(
            line.split()
            for line in outside(
                dumps / "dump_statistics", place / "numbers", format, *words
            ).splitlines()
        )
        expected = apscope.cast_statistics(x, format, **settings).to_dict()
        assert list(printed) == list(expected)
        found = {name: float.fromhex(value) for name, value in printed.items()}
        assert found == {
            name: pytest.approx(np.nan if value is None else value, rel=0, abs=0, nan_ok=True)
            for name, value in expected.items()
        }


@pytest.mark.parametrize(
    "spec",
    [
        "aps:e4m3,rounding=stochastic",
        "error_feedback(aps:e3m0)",
        "delayed_scaling:e4m3fn",
        "dynamic_loss_scaling:fp16",
        "onebit_adam:warmup=1",
        "powersgd",
        "birder",
        "sign_vote:momentum=0.9",
        "thc",
        "fractrain",
    ],
)
def test_exchanges_with_memory_are_pythons(spec, dumps, outside, place):
    workers, steps, size = 3, 4, 30
    random = np.random.default_rng(1)
    x = (random.standard_normal((steps, workers, size)) * 2.0**-4).astype(np.float32)
    x.tofile(place / "gradients")
    printed = outside(dumps / "dump_exchange", place / "gradients", workers, steps, spec)
    lines = [line.split() for line in printed.splitlines()]
    ours: list[list[str]] = []

    def numbers(what, row):
        ours.append([*what.split(), *(float(v) for v in np.ravel(row))])

    state = None
    for step in range(steps):
        e = apscope.exchange(
            spec, x[step], topology="ring", state=state, step=step, tensor="fc.weight", seed=5,
            loss=1.5, learning_rate=0.1, weights=x[step, 0], full_batch=x[step, 0],
        )  # fmt: skip
        state = e.state
        numbers("reduced", e.reduced)
        for w in range(workers):
            numbers("intended", e.intended[w])
            numbers("sent", e.sent[w])
            if e.variance is not None:
                numbers("variance", e.variance[w])
            ours.append(["bits", str(e.payload_bits[w]), str(e.side_bits[w])])
            ours.append(["payload", *map(str, e.payload[w])])
        ours.append(["reduction", e.reduction, str(int(e.skipped))])
        for name, row in state.items():
            numbers(f"memory {name}", row)
    assert len(lines) == len(ours)
    for theirs, mine in zip(lines, ours, strict=True):
        read = [
            float.fromhex(t) if isinstance(m, float) else t
            for t, m in zip(theirs, mine, strict=True)
        ]
        assert [repr(v) for v in read] == [repr(v) for v in mine]


def same_numbers(ours, theirs, place):
    """Cells printed by C++ and those of a row of a table, bit for bit."""
    for name, value in ours.items():
        expected = theirs[name]
        if isinstance(value, str) and not value.startswith(("0x", "-0x", "inf", "-inf")):
            assert value == ("" if pd.isna(expected) else str(expected)), (name, place)
        elif value is None:
            assert pd.isna(expected), (name, place)
        elif value != "":
            assert float.fromhex(value) == float(expected), (name, place)


def same_comparison(ours, theirs, place):
    """A printed row of a comparison, and that of a table."""
    same_numbers(ours["both"], theirs, place)
    for end in "ab":
        side = {f"{name}_{end}": value for name, value in ours[end].items()}
        same_numbers(side, theirs, place)


def same_rows(ours, table, same, least=1):
    """Printed rows and those of a table, at least so many."""
    assert len(ours) == len(table) >= least
    for row, (place, theirs) in zip(ours, table.iterrows()):
        same(row, theirs, place)


def test_a_replay_gives_pythons_numbers(dumps, outside, trace):
    """All rows and columns, and all that Results compute of them, bit for bit."""
    schemes = [
        "none:e4m3",
        "none:e3m0",
        "aps:e4m3,rounding=stochastic",
        "loss_scaling:e3m4,scale=largest",
        "qsgd",
        "sign_vote",
        "mx",
        "error_feedback(top_k)",
        "dynamic_loss_scaling:fp16",
        "hybrid(last=qsgd;else=aps:e4m3)",
        "hybrid(last=qsgd;first=sign_vote;else=natural)",
    ]
    topologies = ["ring", "hierarchical:4+kahan"]
    printed = json.loads(outside(dumps / "dump_results", trace, *schemes))
    results = apscope.replay(trace, schemes, topology=topologies, steps="0:4", persistence=True,
                             optimizer="adam")  # fmt: skip

    frame = results.frame
    assert [c["name"] for c in printed["columns"]] == list(frame.columns)
    for column in printed["columns"]:
        name, values = column["name"], column["values"]
        if column["kind"] == "text":
            assert values == frame[name].tolist(), name
        else:
            ours = np.array([np.nan if v is None else float.fromhex(v) for v in values])
            theirs = frame[name].to_numpy(float, na_value=np.nan)
            assert np.array_equal(ours, theirs, equal_nan=True), name

    same_rows(printed["summary"], results.summary(), same_numbers, 21)

    def same_part(ours, theirs, _):
        assert ours["part"] == str(theirs[part])
        kept = {name: value for name, value in ours["summary"].items() if name in theirs}
        same_numbers(kept, theirs, part)

    options = {"topology": "exact", "batch_factor": 3}
    assert results.summary()["update_loss_3"].notna().any()
    parts = [("layer", {"optimizer": "lars"}), ("role", {"optimizer": "sgd"}), ("step", options)]
    for ours, (part, options) in zip(printed["breakdowns"], parts, strict=True):
        same_rows(ours, results.by(part, **options), same_part, len(schemes))

    def same_noise(ours, theirs, place):
        assert ours["group"] == [str(theirs[name]) for name in by] and theirs["high"] > 1
        same_numbers(ours["facts"], theirs, place)

    groups = [(["trace"], 1), (["role", "step"], 3)]
    for ours, (by, factor) in zip(printed["noise"], groups, strict=True):
        same_rows(ours, results.noise_facts(by, factor), same_noise)

    compared = [results.compare(spec, schemes[0]) for spec in results.provenance["schemes"]]
    same_rows(printed["comparisons"], pd.concat(compared), same_comparison, 71)

    other = apscope.replay(
        trace, [schemes[1], "aps:e3m4", schemes[0]], topology="ring", steps="2:6", seed=3
    )
    against = results.against(other)
    assert set(against["held_by"]) == {"both", "first", "second"}

    def same_held(ours, theirs, place):
        same_numbers(ours["names"], theirs, place)
        assert (ours["compared"] is not None) == (theirs["held_by"] == "both")
        if ours["compared"]:
            own = {"scheme_a": theirs["scheme"], "scheme_b": theirs["scheme"]}
            whole = {"layer": "all", "whole": 1, **theirs, **own}
            same_comparison(ours["compared"], whole, place)

    same_rows(printed["against"], against, same_held)
    with_other = results.compare(schemes[0], "aps:e3m4", "ring", against=other)
    same_rows(printed["with_other"], with_other, same_comparison)

    groups = ("scheme", "scheme tensor step", "scheme stage", "scheme topology role")
    for ours, by in zip(printed["pools"], map(str.split, groups), strict=True):
        pooled = results.pool(by)
        assert list(ours[0]) == list(pooled)
        same_rows(ours, pooled, same_numbers)

    options = {"elements": 1e6, "bucket_bytes": 1000, "side": "bucket", "side_collective": "tree"}
    network = apscope.cost.Network(intra_bandwidth=5e10, nodes=2, interfaces=1)
    for ours, table in zip(
        printed["times"],
        [apscope.cost.step_time(results), apscope.cost.step_time(results, network, **options)],
        strict=True,
    ):
        same_rows(ours, table, same_numbers, 21)
