"""What is wrong with an argument is said before a folder is looked at, by every verb."""

import numpy as np
import pytest

import apscope
from apscope.record import TraceWriter
from tests.python.cli.conftest import refused

NOWHERE = "nowhere"


@pytest.mark.parametrize(("words", "said"), [
    ("replay nowhere -o o --scheme nosuch", "unknown scheme 'nosuch'"),
    ("replay nowhere -o o --topology nosuch", "unknown topology 'nosuch'"),
    ("replay nowhere -o o --steps x:y", "steps 'x:y' is not a range"),
    ("replay nowhere -o o --memory lots", "memory 'lots' is not a number of bytes"),
    ("replay nowhere -o o --shard 5/4", "shard"),
    ("ladder nowhere --formats nosuch", "unknown format 'nosuch'"),
    ("ladder nowhere --topology nosuch", "unknown topology 'nosuch'"),
    ("ladder nowhere --steps x:y", "steps 'x:y' is not a range"),
    ("ladder nowhere --batch-factor 0", "batch_factor=0.0 is not a positive number"),
    ("search nowhere --bits 99", "bits=99 is not between 3 and 16"),
    ("search nowhere --bits 4 --scheme nosuch", "the scheme 'nosuch' must have {format}"),
    ("search nowhere --bits 4 --topology nosuch", "unknown topology 'nosuch'"),
    ("search nowhere --bits 4 --specials nosuch", "unknown special values 'nosuch'"),
    ("search nowhere --bits 4 --steps x:y", "steps 'x:y' is not a range"),
    ("limit nowhere --scheme nosuch", "unknown scheme 'nosuch'"),
    ("limit nowhere --bits 99", "bits=99.0 is not between 0 and 32"),
    ("limit nowhere --steps x:y", "steps 'x:y' is not a range"),
    ("limit nowhere --block 0", "block=0 is not between 1 and 4096"),
    ("recommend nowhere -o p.json --candidates nosuch", "unknown scheme 'nosuch'"),
    ("recommend nowhere -o p.json --fix nosuch", "--fix nosuch is not REGEX=SPEC"),
    ("recommend nowhere -o p.json --max-volume -1", "max_volume=-1.0 must be"),
    ("summary nowhere --batch-factor 0", "batch_factor=0.0 is not a positive number"),
    ("summary nowhere --nodes 0", "nodes=0 is not between"),
    ("summary nowhere --column nosuch", "unknown --column nosuch"),
    ("compare nowhere aps:e4m3", "'aps:e4m3' alone is neither a second RESULTS folder nor two"),
    ("report nowhere --memory lots", "memory 'lots' is not a number of bytes"),
    ("report nowhere --gained -1", "gained=-1.0 must be at least 0"),
    ("cut nowhere out --size lots", "size 'lots' is not a number of bytes"),
    ("cut nowhere out --size 10 --longest 0", "longest=0 is not between"),
    ("convert nowhere out --reduction mean --pattern (", "pattern '(' is not a regular expression"),
    ("convert nowhere out --reduction mean --steps x:y", "steps 'x:y' is not a range"),
    ("convert nowhere out --reduction mean --role x", "--role 'x' is not of the form REGEX=ROLE"),
    ("formats nosuch", "unknown format 'nosuch'"),
])  # fmt: skip
def test_an_argument_is_looked_at_before_the_source(capsys, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, *words.split())
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def trace(tmp_path):
    with TraceWriter(tmp_path / "trace", workers=2) as writer:
        for worker in range(2):
            writer.add(0, worker, "w", np.float32([1, 2, 3 + worker]))
        writer.end_step(0)
    return apscope.open_trace(tmp_path / "trace")


@pytest.mark.parametrize(("words", "said"), [
    ("replay T -o O --scheme nosuch", "unknown scheme 'nosuch'"),
    ("replay T -o O --scheme none:nosuch", "unknown format 'nosuch'"),
    ("replay none -o O", "none is not a trace"),
    ("merge none -o O", "none is not a RESULTS folder"),
    ("cut none O --size 9MB", "none is not a trace"),
    ("cut T O --size lots", "size 'lots' is not a number of bytes"),
    ("convert none O --reduction mean", "none does not exist"),
    ("convert none O --reduction mean --tensors (", "tensors '(' is not a regular expression"),
    ("recommend none -o O/plan.json", "none is neither a trace nor a RESULTS folder"),
    ("recommend T -o O/plan.json --candidates nosuch", "unknown scheme 'nosuch'"),
    ("report none -o none.txt", "none is neither a trace nor a RESULTS folder"),
    ("report none -o O/report.html", "none is neither a trace nor a RESULTS folder"),
    ("train none -o O", "none"),
    ("replay page.md -o O", "page.md is a file; give a folder"),
    ("replay T -o O --scheme bf16", "unknown scheme 'bf16'; bf16 is a format: none:bf16 rounds to it, "
     "aps:bf16 scales every tensor first"),
    ("replay T -o O --shard 1", "shard '1' is not I/N, such as 0/4"),
    ("merge page.md -o O", "page.md is a file; give a folder"),
    ("cut page.md O --size 10", "page.md is a file; give a folder"),
    ("convert page.md O --reduction mean", "has no array in a torch"),
    ("recommend page.md -o missing/plan.json", "page.md is a file; give a folder"),
    ("replay T -o O --scheme sign", "has results that would be replaced"),
])  # fmt: skip
def test_an_output_that_is_there_is_said_last(capsys, tmp_path, monkeypatch, trace, words, said):
    """`replay README.md -o r0` said only that r0 has results."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text("# no trace")
    apscope.replay(trace, "none:fp16", topology="ring").save(tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    given = [
        {"T": "trace"}.get(word, word).replace("O/", "out/") if word != "O" else "out"
        for word in words.split()
    ]
    assert said in refused(capsys, *given)
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize(
    "call",
    [
        lambda: apscope.replay(NOWHERE, "nosuch"),
        lambda: apscope.replay({"a": "not an array"}, "nosuch"),
        lambda: apscope.recommend(NOWHERE, ["nosuch"]),
        lambda: apscope.limit(NOWHERE, ["nosuch"]),
    ],
)
def test_so_it_is_in_python(call):
    with pytest.raises(ValueError, match="unknown scheme 'nosuch'"):
        call()
