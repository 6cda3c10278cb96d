"""apscope check: whole folders pass, and everything that can be wrong with one is said."""

import json
import shutil

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import apscope
from apscope._results.opening import opened
from apscope.cli import main

DIGITS = "notebooks/data/digits"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("check") / "out"
    apscope.replay(DIGITS, ["aps:e4m3", "sign"], topology="ring", steps="0:2", tensors="bias").save(
        folder
    )
    return folder


@pytest.fixture
def results(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "out")
    return tmp_path / "out"


def checked(capsys, folder):
    """Exit code, lines on standard output, what is on standard error."""
    code = main(["check", str(folder)])
    captured = capsys.readouterr()
    return code, captured.out.splitlines(), captured.err


def rewrite(folder, **changes):
    """Changes provenance.json; one that is not JSON is written as it is."""
    path = folder / "provenance.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def replace_table(folder, name, table, **options):
    """Writes a table and the digest that belongs to it."""
    from apscope._folders.durable import digest_of

    pq.write_table(table, folder / name, **options)
    files = json.loads((folder / "provenance.json").read_text())["files"]
    rewrite(folder, files=files | {name: digest_of(folder / name) | {"rows": table.num_rows}})


def test_bundled_traces_results_and_packs_are_whole(capsys, results, tmp_path):
    assert checked(capsys, DIGITS) == (0, [f"{DIGITS}: a trace, whole"], "")
    assert checked(capsys, results) == (0, [f"{results}: results, whole"], "")
    apscope.conformance.write(tmp_path / "pack", ["e2m1fn"])
    assert checked(capsys, tmp_path / "pack") == (
        0,
        [f"{tmp_path / 'pack'}: a conformance pack, whole"],
        "",
    )
    (tmp_path / "pack" / "e2m1fn.table.bin").unlink()
    code, lines, _ = checked(capsys, tmp_path / "pack")
    assert code == 1 and lines[-1] == f"{tmp_path / 'pack'}: a conformance pack, 1 problem"


@pytest.mark.parametrize(
    "name", ["results.csv", "results.parquet", "histograms.parquet", "noise.parquet"]
)
def test_a_flipped_bit_and_a_missing_end_are_found(capsys, results, name):
    data = bytearray((results / name).read_bytes())
    data[len(data) // 2] ^= 1
    (results / name).write_bytes(data)
    code, lines, _ = checked(capsys, results)
    assert (
        code == 1
        and len(lines) == 2
        and f"{name} is damaged or from another run: its sha256 is " in lines[0]
    )
    if name != "results.csv":
        with pytest.raises(
            ValueError, match=f"{name} is damaged or from another run: its SHA-256 is"
        ):
            apscope.Results.open(results)
    (results / name).write_bytes(data[:-1])
    assert checked(capsys, results)[0] == 1
    with pytest.raises(ValueError, match=f"{name} is damaged or from another run"):
        apscope.Results.open(results)
    (results / name).unlink()
    code, lines, _ = checked(capsys, results)
    assert code == 1 and f"its {name} is missing" in lines[0]
    (results / "provenance.json").unlink()
    if name != "results.parquet":
        assert checked(capsys, results)[1][0].startswith(f"{results} is not a RESULTS folder: it")


def test_every_bit_of_a_file_counts(whole, tmp_path):
    """50 flipped bits, of 50 found."""
    random = np.random.default_rng(0)
    for _ in range(50):
        folder = tmp_path / "out"
        shutil.copytree(whole, folder)
        name = random.choice(
            ["results.parquet", "histograms.parquet", "noise.parquet", "results.csv"]
        )
        data = bytearray((folder / name).read_bytes())
        data[random.integers(len(data))] ^= 1 << random.integers(8)
        (folder / name).write_bytes(data)
        assert main(["check", str(folder)]) == 1
        shutil.rmtree(folder)


def test_tables_of_two_runs_are_told_apart(capsys, results, tmp_path):
    apscope.replay(DIGITS, ["aps:e4m3", "sign"], topology="ring", steps="2:4", tensors="bias").save(
        tmp_path / "other"
    )
    shutil.copy(tmp_path / "other" / "results.parquet", results)
    for verb in ("summary", "check"):
        assert main([verb, str(results)]) == (2 if verb == "summary" else 1)
    captured = capsys.readouterr()
    assert captured.err.startswith(
        f"apscope: {results / 'results.parquet'} is damaged or from another run: its bytes is "
    )


def test_rows_that_lack_or_are_twice_and_csv_of_another_table_are_found(capsys, results):
    table = pq.read_table(results / "results.parquet")
    replace_table(results, "results.parquet", table.slice(0, table.num_rows - 3))
    code, lines, _ = checked(capsys, results)
    assert (
        code == 1
        and "results.csv is not the table of results.parquet" in lines[0]
        and "has rows of 7 of 8 layers, steps and schemes" in lines[1]
    )
    import pyarrow as pa

    replace_table(results, "results.parquet", pa.concat_tables([table, table.slice(0, 1)]))
    _, lines, _ = checked(capsys, results)
    assert any("has 1 row twice" in line for line in lines)


def test_damaged_traces_are_told_whole(capsys, tmp_path):
    trace = tmp_path / "digits"
    shutil.copytree(DIGITS, trace)
    (trace / "step_00000000" / "worker_0000.safetensors.part").write_bytes(b"half")
    code, lines, _ = checked(capsys, trace)
    assert code == 0 and lines == [
        "does not belong to it: step_00000000/worker_0000.safetensors.part",
        f"{trace}: a trace, whole",
    ]
    for step in (0, 5):
        path = trace / f"step_{step:08d}" / "worker_0001.safetensors"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    code, lines, _ = checked(capsys, trace)
    assert (
        code == 1
        and len(lines) == 3
        and all("worker_0001.safetensors: its sha256 is " in line for line in lines[:2])
    )
    assert lines[2] == f"{trace}: a trace, 2 problems"


def test_what_a_kill_left_is_named(capsys, results):
    left = results.parent / ".out.apscope-0123abcd"
    left.mkdir()
    code, lines, _ = checked(capsys, results)
    assert (
        code == 0
        and lines[0] == f"left by an interrupted run: {left}; the next write to out removes it"
    )


HOSTILE = [
    ("null", "it is null; it must be an object"),
    ("[1]", r"it is \[1\]; it must be an object"),
    ("{}", "it has no command"),
    ("[" * 100_000, "its JSON is nested more than 64 deep"),
    ('{"command": ', "its JSON is damaged at line 1, column 13"),
    ("\xff", "its JSON is not UTF-8"),
]


@pytest.mark.parametrize("text, sentence", HOSTILE)
def test_hostile_provenance_is_a_sentence(results, capsys, text, sentence):
    (results / "provenance.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=f"^{results / 'provenance.json'}:? {sentence}"):
        apscope.Results.open(results)
    for verb in (
        ["summary", str(results)],
        ["report", str(results), "-o", str(results / "page.html")],
        ["merge", str(results), "-o", str(results / "m")],
    ):
        assert main(verb) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"traces": [{"name": "x"}]}, r"it has no traces\[0\].hash"),
        (
            {"traces": [{"name": "x", "hash": "y", "model": 5}]},
            r"traces\[0\].model is 5; it must be a text",
        ),
        ({"traces": [1]}, r"traces\[0\] is 1; it must be an object"),
        ({"traces": {}}, "traces is {}; it must be a list"),
        ({"shard": [0, 0]}, r"shard is \[0, 0\]; it must be two integers, I and N, 0 <= I < N"),
        ({"shard": [1]}, r"shard is \[1\]; it must be two integers"),
        ({"shard": None}, "shard is null; it must be a list"),
        ({"schemes": [None]}, r"schemes is \[null\]; it must be a list of texts"),
        ({"seed": "0"}, 'seed is "0"; it must be an integer'),
        ({"files": {}}, "it has no files.results.parquet"),
        (
            {"schemes": ["none:e5m2"]},
            "has rows of scheme 'aps:e4m3', which provenance.json does not list",
        ),
    ],
)
def test_provenance_that_says_what_none_says_is_a_sentence(results, capsys, changes, sentence):
    rewrite(results, **changes)
    with pytest.raises(ValueError, match=sentence):
        apscope.Results.open(results)
    assert (
        main(["merge", str(results), "-o", str(results.parent / "m")]) == 2
        and not (results.parent / "m").exists()
    )
    assert checked(capsys, results)[0] == 1


def test_tables_that_are_none_of_ours_are_a_sentence(results):
    table = pq.read_table(results / "results.parquet")
    frame = table.to_pandas()
    for changed, sentence in (
        (frame.drop(columns="step"), "without the column step"),
        (frame.assign(scheme=None), "the column scheme has values that are not texts"),
        (frame.assign(nmse="x"), "the column nmse has type "),
        (frame.assign(trace=1), "the column trace has values that are not texts"),
        (
            frame.assign(trace=[["x"]] * len(frame)),
            "the column trace has values that are not texts",
        ),
        (frame.assign(nmse=[[1.0]] * len(frame)), "the column nmse has type list<"),
    ):
        import pyarrow as pa

        replace_table(
            results, "results.parquet", pa.Table.from_pandas(changed, preserve_index=False)
        )
        with pytest.raises(ValueError, match=sentence):
            apscope.Results.open(results)


def test_an_opened_table_is_the_one_that_was_written(whole):
    tables, provenance = opened(whole)
    again = apscope.replay(
        DIGITS, ["aps:e4m3", "sign"], topology="ring", steps="0:2", tensors="bias"
    )
    pd.testing.assert_frame_equal(tables["frame"].whole(), again.frame)
    assert provenance == again.provenance and "files" not in provenance


def test_a_table_that_does_not_fit_into_memory_is_refused_before_it_is_read(whole, monkeypatch):
    monkeypatch.setattr("apscope._limits._SMALL", 0)
    monkeypatch.setattr("apscope._limits.available_memory", lambda: 1000)
    for name in ("read", "read_row_group"):
        monkeypatch.setattr(pq.ParquetFile, name, lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(
        ValueError,
        match=r"an array of shape \[\d+, 8\] needs .* of memory, and this machine has 0.0 MiB; "
        r"replay the trace again, or a part",
    ):
        apscope.Results.open(whole)
