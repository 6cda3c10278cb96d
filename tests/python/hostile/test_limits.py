"""docs/limits.md has the limits of the code, and each error is one sentence."""

import json
import re
import shutil
import zipfile

import numpy as np
import pytest

from apscope import _core, _limits, conformance, open_trace, replay
from apscope._dumps.conversion import convert
from apscope._folders.json import parse_json, read_json
from apscope.cli import main
from apscope.record import TraceWriter


def test_the_page_is_what_the_code_has(request):
    page = (request.config.rootpath / "docs/limits.md").read_text(encoding="utf-8")
    told = {
        name: int(number.replace(",", ""))
        for number, name in re.findall(r"^\|[^|]+\| ([\d,]+) \| `(\w+)` \|", page, re.MULTILINE)
    }
    of_python = {
        name.lower(): value
        for name, value in vars(_limits).items()
        if name.isupper() and not name.startswith("_")
    }
    assert told == of_python
    assert set(_core.LIMITS) <= set(told) and all(
        told[name] == value for name, value in _core.LIMITS.items()
    )


@pytest.mark.parametrize(
    "text, why",
    [
        ("[" * 100_000, "nested more than 64 deep"),
        ("[" * 65 + "]" * 65, "nested more than 64 deep"),
        ('{"a":' * 70 + "1" + "}" * 70, "nested more than 64 deep"),
        ("9" * 10_000, "an integer of more than 4300 digits"),
        ('{"a": 1, "a": 2}', "the key 'a' occurs twice"),
        ("{", "is damaged at line 1, column 2"),
        (b"\xff", "is not UTF-8"),
        (" " * 200, "has 200 bytes; at most 100 are read"),
    ],
)
def test_json_of_others(text, why):
    with pytest.raises(ValueError, match=why) as told:
        parse_json(text, longest=100 if why.startswith("has") else _limits.JSON_LENGTH)
    assert len(str(told.value)) < 200


def test_json_as_deep_as_the_limit_is_read(tmp_path):
    text = "[" * 64 + "]" * 64
    assert json.dumps(parse_json(text)) == text
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(
        ValueError, match=f"{re.escape(str(tmp_path))}/x.json has 128 bytes; at most 10 are read"
    ):
        read_json(tmp_path / "x.json", longest=10)


def test_the_manifest_of_a_pack(tmp_path, capsys):
    why = "nested more than 64"
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=why):
        conformance.read_manifest(tmp_path)
    assert main(["conformance", "check", str(tmp_path), "--against", "numpy:float16"]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[" * 100_000, '{"x":' + "9" * 10_000 + "}"])
def test_the_header_of_a_safetensors_dump(tmp_path, text):
    data = text.encode()
    if not text.startswith("{"):
        data = b'{"x":' + data
    (tmp_path / "a.safetensors").write_bytes(len(data).to_bytes(8, "little") + data)
    with pytest.raises(
        ValueError, match=r"a\.safetensors.*its JSON (is nested|has an integer)"
    ) as told:
        convert(tmp_path / "a.safetensors", tmp_path / "out", reduction="mean")
    assert len(str(told.value)) < 400


def test_the_index_of_shards(tmp_path):
    from safetensors.numpy import save_file

    for i in (1, 2):
        save_file(
            {f"t{i}": np.ones(3, np.float32)}, tmp_path / f"model-0000{i}-of-00002.safetensors"
        )
    (tmp_path / "model.safetensors.index.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="nested more than 64 deep"):
        convert(tmp_path, tmp_path / "out", reduction="mean")


def manifest_with(trace, **changes):
    shutil.copytree("notebooks/data/digits", trace)
    told = json.loads((trace / "manifest.json").read_text())
    for key, value in changes.items():
        told[key] = value
    return json.dumps(told)


@pytest.mark.parametrize("what", ["deep", "digits", "name", "role"])
def test_the_manifest_of_a_trace(tmp_path, request, monkeypatch, what):
    monkeypatch.chdir(request.config.rootpath)
    trace = tmp_path / "t"
    text = manifest_with(trace)
    name = open_trace(trace).tensors[0]
    wrong = {
        "deep": text.replace("{", '{"x": ' + "[" * 100_000, 1),
        "digits": re.sub(r'"workers": \d+', '"workers": ' + "9" * 10_000, text),
        "name": text.replace(f'"{name}"', '"' + "n" * 100_000 + '"', 1),
        "role": text.replace('"stage": "local"', '"stage": "' + "s" * 100_000 + '"'),
    }[what]
    (trace / "manifest.json").write_text(wrong)
    with pytest.raises(ValueError) as told:
        open_trace(trace)
    assert str(trace) in str(told.value) and len(str(told.value)) < 500
    assert {
        "deep": "nested",
        "digits": "outside the range",
        "name": "at most 4096",
        "role": "must be one of",
    }[what] in str(told.value)


def test_a_name_that_no_trace_takes(tmp_path):
    writer = TraceWriter(tmp_path / "run", workers=1)
    with pytest.raises(ValueError, match="has 4097 bytes; names in a trace have at most 4096"):
        writer.add(0, 0, "n" * 4097, np.ones(2, np.float32))
    writer.add(0, 0, "n" * 4096, np.ones(2, np.float32))
    writer.end_step(0)
    writer.close()
    assert len(replay(tmp_path / "run", "aps:e4m3", topology=()).frame)


def deep(results, text):
    """Results whose rows name another scheme."""
    import pandas as pd

    from apscope import Results

    frame = results.frame.copy()
    frame["scheme"] = pd.Series([text] * len(frame), dtype=object)
    return Results(
        frame, results.histograms, results.provenance | {"schemes": [text]}, results.noise
    )


def test_results_with_a_scheme_nested_5000_deep(tmp_path, capsys, digits):
    results = replay(digits, "aps:e4m3", steps="0:2", topology="ring")
    text = "error_feedback(" * 5000 + "aps:e4m3" + ")" * 5000
    deep(results, text).save(tmp_path / "r")
    for words in (
        ["summary", str(tmp_path / "r")],
        ["report", str(tmp_path / "r"), "-o", str(tmp_path / "r.html")],
        ["compare", str(tmp_path / "r"), text, text],
    ):
        code = main(words)
        said = capsys.readouterr()
        assert (
            code in (0, 2)
            and "Traceback" not in said.err
            and max(map(len, said.err.splitlines() or [""])) < 1000
        )
        if code == 2:
            assert said.err.count("\n") == 1


def member(shape, size, version=1):
    """An npy file whose header has a shape, and `size` bytes behind it."""
    text = (
        repr({"descr": "<f4", "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    )
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + len(text).to_bytes(2 if version == 1 else 4, "little")
        + text
        + bytes(size)
    )


@pytest.mark.parametrize("shape, size", [((4,), 64_000_000), ((2**40,), 64), ((2**28,), 1024)])
def test_a_member_of_an_archive_that_is_not_as_long_as_its_header_says(tmp_path, shape, size):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("w.npy", member(shape, size))
    with pytest.raises(
        ValueError,
        match=rf"a\.npz.*'w' has {128 + size} bytes, its header's shape .* needs "
        rf"{128 + 4 * shape[0]}",
    ):
        convert(tmp_path / "a.npz", tmp_path / "out", reduction="mean", dry_run=True)


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_a_header_of_four_gigabytes(tmp_path, kind):
    data = b"\x93NUMPY\x02\x00" + b"\xff" * 4 + b"{" * 1000
    if kind == "npy":
        (tmp_path / "a.npy").write_bytes(data)
    else:
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("w.npy", data)
    with pytest.raises(
        ValueError, match="header's length is 4294967295 bytes; at most 100000 are read"
    ):
        convert(tmp_path / f"a.{kind}", tmp_path / "out", reduction="mean")
