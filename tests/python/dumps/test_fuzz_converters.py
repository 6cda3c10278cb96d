"""The corpus of the fuzz target of ``apscope convert``, without atheris: what it begins with
converts."""

from pathlib import Path

from tests.fuzz import fuzz_converters as target

CORPUS = Path(target.__file__).with_name("corpus") / "converters"


def test_the_corpus_of_the_converters_reaches_every_option_and_layout(tmp_path):
    """All combinations except ranks in the names if one worker is given: 33 of 35."""
    done = set()
    for path in sorted(CORPUS.iterdir()):
        data = path.read_bytes()
        if target.converts(data, tmp_path):
            done.add((data[0] % len(target.NAMES), data[0] // len(target.NAMES)))
    assert len(done) >= 33
    assert {option for _, option in done} == set(range(len(target.OPTIONS)))


def test_a_broken_file_is_refused_and_leaves_nothing(tmp_path):
    whole = (CORPUS / "00_npz").read_bytes()
    assert target.converts(whole, tmp_path)
    assert not target.converts(whole[:-30], tmp_path) and not (tmp_path / "trace").exists()
    assert not target.converts(b"", tmp_path)
