"""The conformance pack: what it holds, that it is read as documented, that it catches wrong
casts."""

import hashlib
import json
import struct

import ml_dtypes
import numpy as np
import pytest

import apscope
from apscope import FloatFormat, conformance
from apscope.cli import main
from tests.python.argv import command


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    directory = tmp_path_factory.mktemp("pack") / "all"
    conformance.write(directory)
    return directory


def test_the_pack_holds_every_named_format_of_at_most_16_bits_below_24_MB(pack):
    manifest = json.loads((pack / "manifest.json").read_text())
    assert list(manifest["formats"]) == [
        n for n, f in apscope.named_formats().items() if f.storage_bits <= 16
    ]
    assert sum(p.stat().st_size for p in pack.iterdir()) < 24e6
    files = {"manifest.json"}
    for name, entry in manifest["formats"].items():
        assert FloatFormat.from_json(json.dumps(entry["descriptor"])) == FloatFormat(name)
        assert len(entry["results"]) == 16
        for file in [entry["inputs"], entry["table"], *entry["results"].values()]:
            data = (pack / file["file"]).read_bytes()
            assert hashlib.sha256(data).hexdigest() == file["sha256"]
            files.add(file["file"])
            assert len(data) == 4 * (
                2 ** FloatFormat(name).storage_bits if file is entry["table"] else entry["count"]
            )
    assert {p.name for p in pack.iterdir()} == files


def test_the_same_formats_give_the_same_bytes(pack, tmp_path):
    conformance.write(tmp_path / "two", ["e4m3", "float8_e5m2"])
    for path in (tmp_path / "two").iterdir():
        if path.name != "manifest.json":
            assert path.read_bytes() == (pack / path.name).read_bytes()
    assert len(list((tmp_path / "two").iterdir())) == 2 * 18 + 1


def test_a_reader_that_knows_only_the_page(pack):
    """docs/conformance.md is enough: little-endian words, results in the order of the inputs."""
    entry = json.loads((pack / "manifest.json").read_text())["formats"]["fp16"]
    half = {}
    for what, file in [
        ("in", entry["inputs"]),
        ("out", entry["results"]["ties_to_even.ieee"]),
        ("table", entry["table"]),
    ]:
        data = (pack / file["file"]).read_bytes()
        half[what] = [struct.unpack_from("<I", data, 4 * i)[0] for i in range(len(data) // 4)]
    assert (
        half["in"] == sorted(set(half["in"]))
        and len(half["in"]) == len(half["out"]) == entry["count"]
    )
    for x, y in list(zip(half["in"], half["out"]))[::7]:
        value = struct.unpack("<f", struct.pack("<I", x))[0]
        try:
            code = struct.unpack("<H", struct.pack("<e", value))[0]
        except OverflowError:
            code = 0x7C00 if value > 0 else 0xFC00
        assert half["table"][code] == y


@pytest.mark.parametrize("name", ["e4m3", "e3m0", "e2m1fn", "e8m0fnu"])
def test_small_formats_have_every_value_midpoint_and_neighbour(name):
    f = FloatFormat(name)
    bits = set(conformance.inputs_of(f).tolist())
    values = apscope.decode(np.arange(2**f.storage_bits, dtype=np.uint8), f)
    values = np.unique(np.abs(values[np.isfinite(values)]))
    for x in [*values, *((values[1:].astype(np.float64) + values[:-1]) / 2).astype(np.float32)]:
        pattern = int(np.float32(x).view(np.uint32))
        around = {pattern, pattern + 1, max(pattern - 1, 0)}
        assert around <= bits and {p | 0x80000000 for p in around} <= bits
    assert set(conformance.EDGES) <= bits


def test_wide_formats_have_the_edges_of_every_binade():
    bits = set(conformance.inputs_of("fp16").tolist())
    for x in [65504, 65520, 65536, 2**-24, 2**-25, 1 + 2**-10, 1 + 2**-11, 2 - 2**-10, 2 - 2**-11]:
        assert int(np.float32(x).view(np.uint32)) in bits
    with pytest.raises(ValueError, match="at most 16"):
        conformance.inputs_of("tf32")


@pytest.mark.parametrize("rounding", conformance.ROUNDINGS)
def test_apscope_passes_its_own_pack_and_no_other_rounding_does(pack, rounding):
    for overflow in conformance.OVERFLOWS:
        found = conformance.check(
            pack,
            lambda x: apscope.quantize(x, "e4m3fn", rounding=rounding, overflow=overflow),
            format="e4m3fn",
            rounding=rounding,
            overflow=overflow,
        )
        assert (found.differing, found.first) == (0, "") and found.inputs > 3000
    other = "toward_zero" if rounding != "toward_zero" else "to_odd"
    wrong = conformance.check(
        pack,
        lambda x: apscope.quantize(x, "e4m3fn", rounding=other),
        format="e4m3fn",
        rounding=rounding,
    )
    assert wrong.differing > 100


def test_a_cast_may_give_codes(pack):
    found = conformance.check(pack, lambda x: apscope.encode(x, "e5m2"), format="e5m2")
    assert found.differing == 0
    with pytest.raises(ValueError, match="integer 300"):
        conformance.check(pack, lambda x: np.full(x.shape, 300), format="e5m2")


PEERS = [n for n in dir(ml_dtypes) if n.startswith(("float", "bfloat"))]
# NaN becomes -0 in ml_dtypes, stays NaN here.
NO_NAN = {"float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"}


@pytest.mark.parametrize("name", PEERS)
def test_ml_dtypes(pack, name):
    found = conformance.check(pack, getattr(ml_dtypes, name))
    if name in NO_NAN:
        assert (
            "(nan)" in found.first
            and found.differing == sum((b & 0x7FFFFFFF) > 0x7F800000 for b in conformance.EDGES) * 2
        )
    elif name == "float8_e8m0fnu":
        assert found.differing <= 2  # fp32 subnormals just above 2^-127
    else:
        assert found.differing == 0, found.first


def test_numpy_and_torch(pack):
    assert conformance.check(pack, np.float16).differing == 0
    torch = pytest.importorskip("torch")
    for dtype in (torch.float16, torch.bfloat16, torch.float8_e5m2):
        assert conformance.check(pack, dtype).differing == 0


def test_the_first_differing_input_is_named(pack):
    def cast(x):
        y = apscope.quantize(x, "e4m3")
        y[x == 0.1015625] = 7
        return y

    found = conformance.check(pack, cast, format="e4m3")
    assert (
        found.differing == 1
        and found.first == "0x3dd00000 (0.1015625) gives 7, correct is 0.1015625"
    )


def test_the_command_line(pack, tmp_path, capsys, monkeypatch):
    (tmp_path / "conformance_casts.py").write_text(
        "import apscope\ndef good(x):\n    return apscope.quantize(x, 'e4m3')\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["conformance", "write", "small", "--format", "e4m3"]) == 0
    good = "conformance check small --against conformance_casts:good --format e4m3"
    assert command(good) == 0
    assert "e4m3 ties_to_even ieee: 0 of" in capsys.readouterr().out
    assert command(f"{good} --rounding to_odd --json") == 1
    assert json.loads(capsys.readouterr().out)["differing"] > 0
    assert command("conformance check small --against ml_dtypes:float8_e4m3") == 0


def test_the_peers_command_says_what_differs_and_why(pack, capsys):
    assert main(["conformance", "peers", str(pack)]) == 0
    rows = [
        line.split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("| `")
    ]
    counts = {r[1]: int(r[6]) for r in rows if len(r) == 8}
    assert sum(name.startswith(" `ml_dtypes.") for name in counts) >= len(PEERS)
    assert {name for name, differing in counts.items() if differing} == {
        r[1] for r in rows if len(r) == 7
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["write", "."], "not an empty folder"),
        (["write", "new", "--format", "tf32"], "at most 16"),
        (["write", "new", "--format", "e99"], "unknown format"),
        (["check", ".", "--against", "numpy:float16"], "no manifest.json"),
        (["check", "PACK", "--against", "numpy.float16"], "not MODULE:CALLABLE"),
        (["check", "PACK", "--against", "no_such_module:f"], "cannot import module"),
        (["check", "PACK", "--against", "numpy:no_such"], "has no 'no_such'"),
        (["check", "PACK", "--against", "numpy:pi"], "is a float"),
        (["check", "PACK", "--against", "numpy:sum", "--format", "e4m3"], "shape"),
        (["check", "PACK", "--against", "numpy:abs"], "name it"),
        (["check", "PACK", "--against", "numpy:abs", "--format", "tf32"], "has no format 'tf32'"),
        (
            ["check", "PACK", "--against", "numpy:float16", "--rounding", "up"],
            "unknown rounding 'up'",
        ),
        (
            ["check", "PACK", "--against", "numpy:float16", "--rounding", "stochastic"],
            "the pack has no rounding 'stochastic'",
        ),
        (
            ["check", "PACK", "--against", "numpy:float16", "--overflow", "wrap"],
            "unknown overflow 'wrap'",
        ),
        (
            ["check", "PACK", "--against", "numpy:float16", "--overflow", "nan"],
            "the pack has no overflow 'nan'",
        ),
    ],
)
def test_errors_are_one_sentence(pack, tmp_path, capsys, monkeypatch, arguments, words):
    (tmp_path / "here").write_text("")
    monkeypatch.chdir(tmp_path)
    assert main(["conformance", *[str(pack) if a == "PACK" else a for a in arguments]]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_pack_that_appears_before_the_lock_is_held_is_not_mixed(tmp_path, monkeypatch):
    out, real = tmp_path / "out", conformance.Writing

    def late(directory, doing):
        monkeypatch.setattr(conformance, "Writing", real)
        conformance.write(directory, ["e2m1"])
        return real(directory, doing)

    monkeypatch.setattr(conformance, "Writing", late)
    with pytest.raises(ValueError, match="out is not an empty folder; give a new one"):
        conformance.write(out, ["e3m2"])
    conformance.write(tmp_path / "alone", ["e2m1"])
    assert {p.name: p.read_bytes() for p in out.iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "alone").iterdir()
    }


def test_a_changed_file_is_refused(tmp_path):
    conformance.write(tmp_path / "pack", ["e2m1fn"])
    path = tmp_path / "pack/e2m1fn.ties_to_even.ieee.bin"
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="SHA-256"):
        conformance.check(tmp_path / "pack", ml_dtypes.float4_e2m1fn)
    # A file that the check does not read says nothing to it; all are read by pack_problems.
    conformance.check(tmp_path / "pack", ml_dtypes.float4_e2m1fn, overflow="saturate")
    assert [path.name in problem for problem in conformance.pack_problems(tmp_path / "pack")] == [
        True
    ]
