"""Which sources each kind of proof rests on: all that it runs through, found by themselves, and no others."""

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.exhaustive.page import PARTS as PAGE_PARTS
from tests.exhaustive.sources import ALL_CASTS, ARITHMETIC, CASTS, FOLDERS, NUMBER_TYPES, PARTS, ROOT, Tree

REACHES = {"casts": CASTS, "all casts": ALL_CASTS, "arithmetic": ARITHMETIC}
OBJECTS = ROOT / "build" / "release"


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree()


def stems(tree: Tree, reach) -> set[str]:
    return {path.stem for path in tree.reached(reach)}


@pytest.fixture
def copy(tree, tmp_path):
    """The C++ that proofs run through, to change it."""
    for path in [*tree.files, tree.glue(), ROOT / "CMakeLists.txt", *ROOT.glob("core/**/CMakeLists.txt"), *ROOT.glob("emulation/**/CMakeLists.txt")]:
        to = tmp_path / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
    return tmp_path


def digests(root) -> dict[str, str]:
    tree = Tree(root)
    return {name: tree.digest(reach) for name, reach in REACHES.items()}


def edit(root, name: str, what=lambda text: text + "\nint more;\n") -> None:
    (path,) = [p for folder in (*FOLDERS, "bindings") for p in (root / folder).rglob(name)]
    path.write_text(what(path.read_text()))


def test_every_kind_of_proof_has_its_sources():
    assert set(PARTS) == set(PAGE_PARTS)


def test_every_kind_rests_on_the_rule_the_loops_and_the_oracle(tree):
    shared = {"rounding", "bits", "projection", "float_format", "float_environment", "simd", "mpfr_oracle", "cases"}
    assert shared <= stems(tree, CASTS) & stems(tree, ARITHMETIC)
    assert {"quantize_fp32", "quantize_fp64", "quantize_addition", "code_kernels", "codec", "rational_oracle", "steps"} <= stems(tree, CASTS) - stems(
        tree, ARITHMETIC
    )
    assert {"arithmetic", "register_arithmetic", "wide_number", "operands"} <= stems(tree, ARITHMETIC) - stems(tree, ALL_CASTS)
    assert {"stochastic_fp32", "stochastic_loops", "random_words"} <= stems(tree, ALL_CASTS) - stems(tree, CASTS)
    assert not {"scheme", "reduce", "blocks", "named_formats", "nearest_names"} & set().union(*(stems(tree, reach) for reach in REACHES.values()))


def test_what_is_left_out_is_there_to_be_left_out(tree):
    for reach in REACHES.values():
        names = {name for path in tree.files for name in (path.stem, path.name)}
        assert set(reach.cut) <= names and all(reach.cut.values())


def test_no_source_is_without_a_header_but_those_that_a_proof_begins_in(tree):
    """A .cpp that no header brings would be left out of every digest, whatever it does to bits."""
    headers = [path for path in tree.files if path.suffix == ".h"]
    brought = {source for header in headers for source in tree.implementations(header)}
    alone = {path for path in tree.files if path.suffix == ".cpp" and "schemes" not in path.parts} - brought
    assert alone == {path for path in alone if path.stem in {*ALL_CASTS.roots, *ALL_CASTS.cut}}


def objects() -> list[str]:
    return [str(p) for folder in FOLDERS for p in (OBJECTS / folder).rglob("*.cpp.o")]


@pytest.mark.skipif(shutil.which("nm") is None or not objects(), reason="needs nm and a build in build/release")
@pytest.mark.parametrize("name", REACHES)
def test_what_the_linker_needs_is_among_the_sources(tree, name):
    """From the objects that a proof begins in, every undefined symbol is followed to the objects that define it."""
    reach, files = REACHES[name], {path.name: path for path in tree.files}
    defines, needs = defaultdict(set), defaultdict(set)
    for line in subprocess.run(["nm", "-A", "--no-sort", *objects()], capture_output=True, text=True, check=True).stdout.splitlines():
        place, (*_, kind, symbol) = line.split(":", 1)[0], line.split(":", 1)[1].split()
        source = place.rsplit("/", 1)[1].removesuffix(".o")
        if source in files:
            (needs if kind == "U" else defines)[symbol if kind != "U" else source].add(source if kind != "U" else symbol)
    # Deterministic modes do not enter the stochastic loops; what else is left out says why itself.
    left_out = {f"{stem}.cpp" for stem in {*reach.cut, *ALL_CASTS.roots} - set(reach.roots)} | set(reach.cut)
    left, linked = [tree.find(root).name for root in reach.roots], set()
    while left:
        source = left.pop()
        if source in linked or source in left_out:
            continue
        linked.add(source)
        left += {other for symbol in needs[source] if source not in defines[symbol] for other in defines[symbol]}
    assert len(linked) > 10
    assert {files[source] for source in linked} <= tree.reached(reach)


def test_a_file_that_moves_takes_its_digest_along(copy):
    before = digests(copy)
    moved = list((copy / "emulation").rglob("quantize*"))
    assert len(moved) > 5
    (copy / "core" / "deep").mkdir()
    for path in moved:
        path.rename(copy / "core" / "deep" / path.name)
    for path in copy.rglob("*.[hc]*"):
        path.write_text(re.sub(r'#include "[^"]*/(quantize\w*\.h)"', r'#include "core/deep/\1"', path.read_text()))
    assert digests(copy) == before


CLANG_FORMAT = shutil.which("clang-format", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.mark.skipif(CLANG_FORMAT is None, reason="needs clang-format")
def test_another_style_of_formatting_leaves_every_digest(copy, tree):
    before = digests(copy)
    files = [str(copy / path.relative_to(ROOT)) for path in set().union(*map(tree.reached, REACHES.values()))]
    style = "{BasedOnStyle: Google, ColumnLimit: 70, IndentWidth: 8, PointerAlignment: Right, SortIncludes: Never}"
    written = [Path(file).read_text() for file in files]
    subprocess.run([CLANG_FORMAT, "-i", f"--style={style}", *files], check=True)
    assert not any(text == Path(file).read_text() for file, text in zip(files, written)), "every file is written otherwise"
    assert digests(copy) == before


@pytest.mark.parametrize(
    "name, which",
    [
        ("rounding.h", {"casts", "all casts", "arithmetic"}),
        ("mpfr_oracle.cpp", {"casts", "all casts", "arithmetic"}),
        ("oracle_module.cpp", {"casts", "all casts", "arithmetic"}),
        ("rational_oracle.cpp", {"casts", "all casts"}),
        ("verify.cpp", {"casts", "all casts"}),
        ("quantize_fp32.cpp", {"casts", "all casts"}),
        ("stochastic_fp64.cpp", {"all casts"}),
        ("stochastic_split.h", {"all casts"}),
        ("register_arithmetic.cpp", {"arithmetic"}),
        ("operations.cpp", {"arithmetic"}),
        ("named_formats.cpp", set()),
        ("nearest_names.cpp", set()),
        ("topology.cpp", set()),
    ],
)
def test_a_change_asks_for_the_proofs_that_run_through_it_and_for_no_others(copy, name, which):
    before = digests(copy)
    edit(copy, name, lambda text: "// Another comment.\n" + text)
    assert digests(copy) == before
    edit(copy, name)
    after = digests(copy)
    assert {kind for kind in REACHES if before[kind] != after[kind]} == which


def test_a_compiler_s_option_that_may_change_a_number_changes_every_digest(copy):
    before = digests(copy)
    edit_lists = copy / "CMakeLists.txt"
    text = edit_lists.read_text()
    edit_lists.write_text(text.replace("-Wextra", "-Wextra;-Wshadow"))
    assert digests(copy) == before
    edit_lists.write_text(text.replace("-ffp-contract=off", "-ffp-contract=fast"))
    assert not set(before.values()) & set(digests(copy).values())


def test_a_name_that_two_files_have_or_none_is_refused(copy):
    shutil.copyfile(next(copy.rglob("rounding.h")), copy / "emulation" / "rounding.h")
    edit(copy, "quantize.h", lambda text: text.replace('"core/rounding.h"', '"rounding.h"'))
    with pytest.raises(ValueError, match=r"rounding\.h.* must be one file"):
        digests(copy)
    edit(copy, "quantize.h", lambda text: text.replace('"rounding.h"', '"core/nowhere.h"'))
    with pytest.raises(ValueError, match=r"nowhere\.h.* is no file"):
        digests(copy)


def test_a_header_brings_the_sources_named_after_it(tree):
    quantize = next(path for path in tree.files if path.name == "quantize.h")
    assert {path.stem for path in tree.implementations(quantize)} == {"quantize", *(f"quantize{real}" for real in NUMBER_TYPES)}
