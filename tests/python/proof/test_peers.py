"""Other implementations of casts differ from apscope's exactly where docs/conformance.md lists it,
and MPFR agrees with apscope.

On a sample: every point of the format with its neighbours, one in 65537 of all inputs, the ends of
the recorded intervals. `python -m tests.peers walk` is the same comparison on all inputs.
"""

import dataclasses
import functools
import os
import shutil

import numpy as np
import pytest

import apscope
from docs.tools.page import DOCS, read
from tests.peers import __main__, compiled, dtypes, everyone, nvidia, page, record, walk
from tests.peers.compare import (
    EDGES,
    MOST,
    Found,
    Interval,
    apscope_codes,
    compare,
    differing,
    intervals_of,
    values_of,
)
from tests.peers.peer import Missing, Peer
from tests.peers.reasons import REASONS, reason
from tests.peers.sample import NANS, float32_sample, float64_sample

RECORD = record.read()
FLOAT32 = {e["name"]: e for e in RECORD["float32"]}
FLOAT64 = {e["name"]: e for e in RECORD["float64"]}


def peer_or_skip(name):
    peers, missing = everyone.everyone()
    if name not in peers:
        pytest.skip(
            "; ".join(f"{g}: {why}" for g, why in missing.items())
            or f"{name} is not in the packages here"
        )
    return peers[name]


@functools.cache
def inputs_for(name):
    """The sample of the cast's format, with the ends of its recorded intervals."""
    entry = FLOAT32[name]
    ends = np.array([b for i in record.intervals(entry) for b in (i.first, i.last)], np.int64)
    near = (ends[:, None] + np.arange(-2, 3)).ravel()
    return np.union1d(
        float32_sample(entry["format"]), near[(near >= 0) & (near < 2**32)].astype(np.uint32)
    )


def same_version_or_skip(peer, entry, found):
    """A difference from the record is the peer's, not ours, where the peer is another version."""
    if found and peer.version != entry["version"]:
        pytest.skip(
            f"{peer.name} {peer.version} is not as the recorded version {entry['version']}: {found}"
        )


@pytest.mark.parametrize("name", FLOAT32)
def test_a_cast_differs_exactly_where_the_record_says(name):
    peer, entry = peer_or_skip(name), FLOAT32[name]
    bits = inputs_for(name)
    where, theirs, ours = differing(peer, bits.view(np.float32))
    got = np.zeros(len(bits), bool)
    got[where] = True
    listed = np.zeros(len(bits), bool)
    for i in record.intervals(entry):
        listed |= (i.first <= bits) & (bits <= i.last)
    wrong = np.flatnonzero(got != listed)
    found = [f"{bits[i]:#x} gives code {theirs[i]:#x}, apscope {ours[i]:#x}" for i in wrong[:3]]
    same_version_or_skip(peer, entry, found)
    assert not found, f"{len(wrong)} inputs"


@pytest.mark.parametrize("name", FLOAT32)
def test_where_a_cast_differs_MPFR_agrees_with_apscope(name):
    oracle = pytest.importorskip("apscope._oracle", reason="this build has no MPFR oracle")
    peer = peer_or_skip(name)
    bits = inputs_for(name)
    where = differing(peer, bits.view(np.float32))[0]
    x = bits[where[:: max(1, len(where) // 500)]].view(np.float32)
    ours = apscope.quantize(x, peer.format, rounding=peer.rounding, overflow=peer.overflow)
    right = [
        oracle.project(float(v), peer.format, rounding=peer.rounding, overflow=peer.overflow)
        for v in x
    ]
    assert np.array_equal(ours, np.array(right, np.float32), equal_nan=True)


@pytest.mark.parametrize("name", FLOAT32)
def test_NaN_results_are_as_recorded(name):
    peer, entry = peer_or_skip(name), FLOAT32[name]
    bits = np.array(sorted({n | s for n in NANS for s in (0, 2**31)}), np.uint32)
    nans, recorded, found = compare(peer, bits).nans, entry["nan_inputs"], []
    for what in ("sign", "quiet", "payload"):
        if recorded["inputs"] and recorded[what] in (0, recorded["inputs"]):
            if getattr(nans, what) != (len(bits) if recorded[what] else 0):
                found.append(f"{what} of NaN: {getattr(nans, what)} of {len(bits)}")
    known = recorded["codes"]
    if known["different"] <= len(known["first"]) and not {f"{c:#x}" for c in nans.codes} <= set(
        known["first"]
    ):
        found.append(f"NaN codes {nans.codes}")
    same_version_or_skip(peer, entry, found)
    assert not found


@pytest.mark.parametrize("name", [n for n, e in FLOAT32.items() if e["intervals"]])
def test_the_examples_give_what_is_recorded(name):
    pytest.importorskip("apscope._oracle", reason="this build has no MPFR oracle")
    peer, entry, found = peer_or_skip(name), FLOAT32[name], []
    for i, interval in zip(entry["intervals"], record.intervals(entry)):
        if (now := record.example(peer, interval)) != i["example"]:
            found.append(f"example {now}")
    same_version_or_skip(peer, entry, found)
    assert not found


def test_what_torch_makes_of_a_NaN_in_bfloat16_depends_on_the_layout():
    torch = pytest.importorskip("torch")
    peer, entry = peer_or_skip("torch.bfloat16"), FLOAT32["torch.bfloat16"]
    x = torch.full((64,), float("nan"))
    codes = {int(c) for c in x[::2].to(torch.bfloat16).view(torch.uint16)}
    same_version_or_skip(peer, entry, codes - {0x7FC0})
    assert codes == {0x7FC0} and entry["nan_inputs"]["codes"]["first"] == ["0xffff"]


@pytest.mark.parametrize("name", FLOAT64)
def test_casts_from_double_differ_only_where_E8M0_has_neither_zero_nor_sign(name):
    peer, entry = peer_or_skip(name), FLOAT64[name]
    now = record.float64_entry(peer)
    found = [
        k for k in ("inputs", "differing", "zeros", "negative", "others") if now[k] != entry[k]
    ]
    same_version_or_skip(peer, entry, found)
    assert not found and now["others"] == 0 and (now["differing"] == 0 or peer.format == "e8m0fnu")


def test_the_double_sample_catches_a_cast_by_way_of_float32():
    twice = Peer(
        "twice",
        "",
        "fp16",
        lambda x: apscope.encode(x.astype(np.float32), "fp16"),
        source="float64",
    )
    once = Peer("once", "", "fp16", lambda x: apscope.encode(x, "fp16"), source="float64")
    with np.errstate(over="ignore"):
        assert len(differing(twice, float64_sample("fp16"))[0]) > 1000
    assert len(differing(once, float64_sample("fp16"))[0]) == 0


def test_every_peer_here_is_in_the_record():
    peers, missing = everyone.everyone()
    recorded = {"float32": FLOAT32, "float64": FLOAT64}
    # A package of another version may have other casts.
    versions = {e["version"] for e in RECORD["float32"]}
    left_out = [
        n for n, p in peers.items() if n not in recorded[p.source] and p.version in versions
    ]
    assert left_out == [], "run python -m tests.peers walk"
    assert set(missing) <= set(everyone.GROUPS) - {"numpy"}


def test_the_record_is_of_all_inputs_and_every_difference_has_a_reason():
    assert len(FLOAT32) > 40 and RECORD["missing"] == {}
    used = set()
    for name, entry in FLOAT32.items():
        intervals = record.intervals(entry)
        assert entry["inputs"] == 2**32 and entry["intervals_left_out"] == 0
        assert sum(i.last - i.first + 1 for i in intervals) == entry["differing"]
        for i in intervals:
            assert reason(name, i), (name, i)
            used.add(reason(name, i))
        assert all(i["example"]["mpfr"] == i["example"]["apscope"] for i in entry["intervals"])
    assert used == {row[-1] for row in REASONS}


def test_the_page_is_made_from_the_record():
    assert read(DOCS / "conformance.md", "all inputs") == page.render(RECORD).splitlines()


def test_a_later_walk_of_some_peers_replaces_their_entries():
    one = {
        **RECORD,
        "float32": [{**RECORD["float32"][3], "version": "9"}],
        "float64": [],
        "missing": {"torch": "gone"},
    }
    merged = record.update(RECORD, one)
    assert [e["name"] for e in merged["float32"]] == list(FLOAT32) and merged["float64"] == RECORD[
        "float64"
    ]
    assert [
        e["version"] for e in merged["float32"] if e["version"] != FLOAT32[e["name"]]["version"]
    ] == ["9"]
    with pytest.raises(ValueError, match="has apscope '0.0'"):
        record.update({**RECORD, "apscope": "0.0"}, one)


# ---- Wrong casts are caught -------------------------------------------------------------------


def planted(codes, format="e4m3fn", **settings):
    return Peer("planted", "0", format, codes, **settings)


def right(x):
    return apscope.encode(x, "e4m3fn")


def changed_at(bits, code):
    def codes(x):
        y = right(x)
        y[x.view(np.uint32) == bits] = code
        return y

    return codes


def test_a_right_cast_is_found_right():
    found = compare(planted(right), float32_sample("e4m3fn"))
    assert (
        found.differing == 0
        and found.intervals == []
        and found.nans.other_code == 0
        and found.inputs > 65000
    )


@pytest.mark.parametrize(
    "bits", [0x3F800000, 0x3F880000, 0x3F880001, 0xC3E80000, 0x7F7FFFFF, 0xFF800000, 0x80000000]
)
def test_one_wrong_input_is_found_and_named(bits):
    found = compare(planted(changed_at(bits, 0x15)), float32_sample("e4m3fn"))
    assert found.differing == 1 and found.intervals == [Interval(bits, bits)]


@pytest.mark.parametrize(
    "codes",
    [
        lambda x: apscope.encode(x, "e4m3fn", rounding="ties_to_away"),
        lambda x: apscope.encode(x, "e4m3fn", rounding="to_odd"),
        lambda x: apscope.encode(x, "e4m3fn", overflow="saturate"),
        lambda x: apscope.encode(x.astype(np.float16).astype(np.float32), "e4m3fn"),
        lambda x: apscope.encode(apscope.quantize(x, "bf16"), "e4m3fn"),
        lambda x: apscope.encode(np.where(x == 0, np.float32(0), x), "e4m3fn"),
        lambda x: apscope.encode(np.where(np.isnan(x), np.float32(0), x), "e4m3fn"),
        lambda x: apscope.encode(np.where(np.abs(x) < 2**-6, np.float32(0), x), "e4m3fn"),
        lambda x: right(x).astype(np.uint16) | 0x100,
    ],
    ids="ties_away to_odd saturating by_fp16 by_bf16 no_negative_zero NaN_to_0 flushing "
    "bit_too_many".split(),
)
def test_wrong_casts_are_found(codes):
    with np.errstate(over="ignore"):
        found = compare(planted(codes), float32_sample("e4m3fn"))
    assert found.differing > 0 and found.intervals
    assert all(reason("planted", i) is None for i in found.intervals)


def test_NaN_of_a_format_without_it_differs_unless_a_code_is_documented():
    def encode(x):
        return apscope.encode(x, "e2m1fn", nan=7)

    bits = float32_sample("e2m1fn")
    nans = int(np.isnan(bits.view(np.float32)).sum())
    assert compare(planted(encode, "e2m1fn", nan=7), bits).differing == 0
    for nan in (None, 3):
        assert compare(planted(encode, "e2m1fn", nan=nan), bits).differing == nans > 20


def test_what_becomes_of_NaN_is_counted():
    bits = np.array([0x7F800001, 0x7FA00000, 0x7FC00000, 0xFFC00001, 0xFFFFE000], np.uint32)
    exact = planted(lambda x: x.view(np.uint32) >> 16 | 0x40, "bf16")
    dropped = planted(lambda x: np.full(x.shape, 0x7FC1, np.uint16), "bf16")
    kept, lost = compare(exact, bits).nans, compare(dropped, bits).nans
    assert (kept.inputs, kept.sign, kept.quiet, kept.payload, kept.other_code) == (5, 5, 5, 5, 3)
    assert kept.codes == {0x7FC0, 0x7FE0, 0xFFC0, 0xFFFF}
    assert (lost.inputs, lost.sign, lost.quiet, lost.payload, lost.other_code) == (5, 3, 5, 0, 5)
    nonan = compare(planted(lambda x: np.zeros(x.shape, np.uint16), "bf16"), bits)
    assert nonan.differing == 5 and nonan.nans.inputs == 0


# ---- Intervals --------------------------------------------------------------------------------


def test_intervals_have_no_gaps_and_end_where_the_kind_of_input_changes():
    assert intervals_of(np.array([], np.uint32)) == []
    assert intervals_of(np.array([5, 6, 7, 9, 10], np.uint32)) == [Interval(5, 7), Interval(9, 10)]
    around = np.arange(0x7F7FFFFE, 0x7F800004, dtype=np.uint32)
    assert intervals_of(around) == [
        Interval(0x7F7FFFFE, 0x7F7FFFFF), Interval(0x7F800000, 0x7F800000),
        Interval(0x7F800001, 0x7F800003)
    ]  # fmt: skip
    assert [Interval(int(e), int(e)).kind for e in EDGES] == 2 * [
        "zero",
        "finite",
        "infinity",
        "NaN",
    ]
    assert Interval(2**32 - 1, 2**32 - 1).kind == "NaN" and Interval(2**31, 2**31).is_negative


@pytest.mark.parametrize("middle", [0x00000001, 0x005FFFFF, 0x7F800000, 0x80000000, 0xFF800000])
def test_the_chunks_do_not_show_in_what_is_found(middle):
    away = planted(
        lambda x: apscope.encode(np.where(x > 1, x, np.float32(2)), "e8m0fnu"), "e8m0fnu"
    )
    begin, end = max(middle - 5000, 0), middle + 5000
    whole = walk.stretch(away, begin, end, 2**20)
    assert whole.inputs == end - begin and whole.intervals
    for chunk in (1000, 4096, 9999):
        assert walk.stretch(away, begin, end, chunk) == whole


def test_too_many_intervals_are_counted():
    every_other = planted(lambda x: right(x) ^ (x.view(np.uint32) & 1).astype(np.uint8))
    found = walk.stretch(every_other, 0x3F800000, 0x3F800000 + 10000, 700)
    assert found.differing == 5000 and len(found.intervals) == MOST and found.dropped == 4000
    entry = record.entry(every_other, dataclasses.replace(found, intervals=[]), 1.0)
    assert entry["intervals_left_out"] == 4000


def test_the_walk_in_processes_finds_what_one_process_finds():
    ((name, found, _),) = walk.walk(["numpy.float16"], processes=1, end=2**21, task=2**19)
    assert name == "numpy.float16" and found == walk.stretch(everyone.find(name), 0, 2**21)
    assert isinstance(found, Found) and found.inputs == 2**21


# ---- What is missing is said ------------------------------------------------------------------


def test_missing_headers_packages_and_compilers_are_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(nvidia, "NEEDED", ("no_such_header.h",))
    with pytest.raises(Missing, match="install CUDA 13, or the wheels"):
        nvidia.include_folder()
    with pytest.raises(Missing, match="no_such_package is not installed"):
        dtypes._import("no_such_package")
    monkeypatch.setenv("CXX", str(tmp_path / "no_compiler"))
    with pytest.raises(Missing, match="no C\\+\\+ compiler"):
        compiled.library("x86.cpp")


@pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
def test_a_file_that_does_not_compile_is_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(compiled, "HERE", tmp_path)
    monkeypatch.setattr(compiled, "BUILD", tmp_path / "build")
    (tmp_path / "wrong.cpp").write_text("this is no C++")
    (tmp_path / "fine.cpp").write_text('extern "C" int seven() { return 7; }')
    with pytest.raises(Missing, match="wrong.cpp does not compile"):
        compiled.library("wrong.cpp")
    assert compiled.library("fine.cpp").seven() == 7
    (tmp_path / "fine.cpp").write_text('extern "C" int seven() { return 8; }')
    assert compiled.library("fine.cpp").seven() == 8  # made again


def test_a_folder_with_all_headers_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr(nvidia.importlib.util, "find_spec", lambda name: None)
    for name in nvidia.NEEDED:
        (tmp_path / "include" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "include" / name).write_text("")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert nvidia.include_folder() == tmp_path / "include"


def test_the_command_line_names_the_peers_and_writes_the_page(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("sys.argv", ["tests.peers", "walk", "no_such_peer"])
    assert __main__.main() == 2 and "numpy.float16" in capsys.readouterr().err
    document = tmp_path / "page.md"
    document.write_text(
        "before\n<!-- all inputs: written by it -->\nold\n<!-- end of all inputs -->\nafter\n"
    )
    monkeypatch.setattr("sys.argv", ["tests.peers", "page", "--into", str(document)])
    assert __main__.main() == 0
    text = document.read_text()
    assert (
        page.render(RECORD) in text
        and "\nold\n" not in text
        and text.startswith("before\n")
        and text.endswith("after\n")
    )


def test_the_tables_of_values_are_the_formats():
    assert values_of("e2m1fn")[:8].tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert len(apscope_codes(planted(right), np.float32([1, np.nan]))) == 2
