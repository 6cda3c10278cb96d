"""The corpus of the fuzz target of ``apscope convert``, without atheris: what it begins with
converts."""

import runpy
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[2] / "fuzz"


@pytest.fixture(scope="module")
def target():
    return runpy.run_path(str(FUZZ / "fuzz_converters.py"))


def test_the_corpus_of_the_converters_reaches_every_option_and_layout(target, tmp_path):
    """All combinations except ranks in the names if one worker is given: 33 of 35."""
    done = set()
    for path in sorted((FUZZ / "corpus/converters").iterdir()):
        data = path.read_bytes()
        if target["converts"](data, tmp_path):
            done.add((data[0] % len(target["NAMES"]), data[0] // len(target["NAMES"])))
    assert len(done) >= 33
    assert {option for _, option in done} == set(range(len(target["OPTIONS"])))


def test_a_broken_file_is_refused_and_leaves_nothing(target, tmp_path):
    whole = (FUZZ / "corpus/converters/00_npz").read_bytes()
    assert target["converts"](whole, tmp_path)
    assert not target["converts"](whole[:-30], tmp_path) and not (tmp_path / "trace").exists()
    assert not target["converts"](b"", tmp_path)
