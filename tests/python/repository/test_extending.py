"""The worked examples of docs/extending.md: patches that apply to the tree, are shown unchanged,
and touch at most the stated number of files."""

import subprocess

import pytest

from tests.extending import page
from tests.extending.examples import EXAMPLES, FOLDER, ROOT
from tests.extending.run import execute, sources

by_name = pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)


@by_name
def test_its_patch_applies_to_the_tree(example):
    # From a folder that is not part of a repository git applies nothing and says nothing.
    run = subprocess.run(
        ["git", "apply", "--check", "--verbose", example.patch],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("Checking patch ") == example.patch.read_text().count("\n+++ b/")


@by_name
def test_it_touches_no_more_files_than_it_should(example):
    assert 0 < len(example.files()) <= example.most, example.files()


def test_the_page_shows_the_patches():
    text = page.PAGE.read_text()
    assert page.written(text) == text, "run python -m tests.extending --page"


def test_every_patch_is_an_example():
    assert sorted(p.stem for p in FOLDER.glob("*.patch")) == sorted(e.name for e in EXAMPLES)


def test_of_the_tests_in_cpp_those_that_are_asked_for_are_built():
    assert sources("^Topology", ROOT) == ["tests/emulation/allreduce/test_topology.cpp"]
    assert sources("^Schemes/BlockRows", ROOT) == ["tests/analysis/replay/test_block_rows.cpp"]
    assert all(sources(e.ctest, ROOT) for e in EXAMPLES if e.ctest)
    assert sources("^Nothing", ROOT) == []


@pytest.mark.long
@pytest.mark.parametrize("example", [e for e in EXAMPLES if not e.builds], ids=lambda e: e.name)
def test_what_needs_no_compiler_is_executed(example, tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("a copy has the files that git lists, but this is not a clone")
    execute(example, tmp_path)
