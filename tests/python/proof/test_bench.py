"""`apscope bench`: the jobs that it times, and its output. The times depend on the machine."""

import json
import math
import sys
import types

import pytest

import apscope
from apscope.cli import main
from tests.python.argv import argv


@pytest.fixture(scope="module")
def found():
    return apscope.machine.bench(rounds=2, visit_seconds=0.0001, elements=2**14, threads=2)


def test_every_job_has_a_time_and_a_floor_of_the_same_run(found):
    rows = found.rows
    keys = [(r["name"], r["where"], r["threads"]) for r in rows]
    assert len(set(keys)) == len(keys) > 30
    for r in rows:
        assert r["ns"] > 0 and math.isfinite(r["ns"]) and r["elements"] > 0 and r["spread"] >= 0
        assert (r["gb_per_s"] is None) == (r["ns_per_operation"] is not None)
        if r["floor"]:
            assert (r["floor"], r["where"], r["threads"]) in keys and r["ratio"] > 0
        else:
            assert r["ratio"] is None
    floors = {(r["name"], r["where"]) for r in rows if not r["floor"]}
    assert {("memcpy", "L2"), ("memcpy", "DRAM"), ("fp32 multiply-add peak", "CPU")} <= floors
    assert found.machine["simd"] == apscope._core.simd_level() and found.created.endswith("+00:00")


def test_casts_of_others_are_timed_where_they_are_installed(monkeypatch):
    """Stand-ins for two packages that the tests do not install."""
    given = []
    gfloat, formats, pychop = (
        types.ModuleType(name) for name in ("gfloat", "gfloat.formats", "pychop")
    )
    formats.format_info_ocp_e4m3 = "its e4m3"
    gfloat.round_ndarray = lambda info, x: given.append((info, x.size))
    pychop.backend = lambda name: given.append(name)
    pychop.Chop = lambda exp_bits, sig_bits, rmode: (
        lambda x: given.append((exp_bits, sig_bits, rmode, x.size))
    )
    for module in (gfloat, formats, pychop):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr("apscope._proof.bench.version", lambda package: "7.0")
    rows = apscope.machine.bench("e4m3", rounds=1, visit_seconds=0.0001, elements=2**14).rows
    names = {r["name"] for r in rows if r["where"] == "peer"}
    assert {"gfloat.round_ndarray e4m3fn 7.0", "pychop.Chop e4m3 7.0"} <= names
    assert {"numpy", ("its e4m3", 2**16), (4, 3, 1, 2**16)} <= set(given)


def test_a_ratio_is_the_floors_time_a_byte_over_the_jobs():
    rows = apscope.machine.bench(
        "encode e4m3", rounds=1, visit_seconds=0.0001, elements=2**12, threads=1, peers=False
    ).rows
    by_key = {(r["name"], r["where"]): r for r in rows}
    job, floor = by_key["encode e4m3", "L2"], by_key["memcpy", "L2"]
    # Five bytes against eight.
    assert math.isclose(job["ratio"], (floor["ns"] / 8) / (job["ns"] / 5), rel_tol=1e-9)
    assert math.isclose(job["gb_per_s"], 5 / job["ns"], rel_tol=1e-9)


def test_the_command_prints_a_table_or_an_object(capsys):
    line = "bench {} --rounds 1 --elements 4096 --threads 1 --no-peers"
    words = argv(line, "quantize bf16")
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "quantize bf16 ties_to_even" in printed and "memcpy" in printed and "fp16" not in printed
    assert main([*words, "--json"]) == 0
    assert {r["name"] for r in json.loads(capsys.readouterr().out)["rows"]} == {
        "memcpy", "quantize bf16 ties_to_even", "quantize bf16 stochastic 16 bits"}  # fmt: skip


def test_a_name_that_no_job_has_is_one_sentence(capsys):
    assert main(["bench", "quantise", "--no-peers", "--elements", "4096"]) == 2
    error = capsys.readouterr().err
    assert "no job's name contains 'quantise'" in error and len(error.strip().splitlines()) == 1


def test_a_wrong_number_is_refused():
    with pytest.raises(ValueError, match="rounds=0 is not between"):
        apscope.machine.bench(rounds=0)
