"""`apscope verify` and `apscope.verify`."""

import json
import re

import numpy as np
import pytest

from apscope import _core
from apscope._proof import verify as module
from apscope.cli import main
from tests.python.argv import argv

needs_oracle = pytest.mark.skipif(not module.has_oracle(), reason="built without MPFR")


@needs_oracle
def test_verify_proves_a_format_in_every_mode(capsys):
    assert main(["verify", "e4m3", "--rounding", "all", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["rounding"] for row in rows] == list(module.ROUNDINGS)
    for row in rows:
        assert row["format"] == "e4m3" and row["oracle"] == "mpfr+rational"
        assert row["mismatches"] == 0 and row["first"] is None
        assert row["cases"] > 10_000


@needs_oracle
def test_verify_prints_a_row_per_mode(capsys):
    assert main(["verify", "float8_e5m2", "--rounding", "to_odd"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == [
        "format",
        "operation",
        "rounding",
        "cases",
        "mismatches",
        "oracle",
        "seconds",
    ]
    assert row.split()[:3] == ["e5m2", "quantize", "to_odd"] and row.split()[4] == "0"


@needs_oracle
def test_operations_are_proved_and_the_certificate_says_what(tmp_path, capsys):
    file = tmp_path / "certificate.json"
    words = argv("verify e3m0 --operation all --samples 1000 --certificate {}", file)
    assert main(words) == 0
    document = json.loads(file.read_text())
    rows = document["results"]
    without = len(module.ROUNDINGS) - 1  # arithmetic has no stochastic_exact
    assert [r["operation"] for r in rows] == ["quantize"] * (without + 1) + [
        op for op in module.OPERATIONS[1:] for _ in range(without)
    ]
    assert document["kind"] == "apscope certificate" and document["proved"] is True
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", document["machine"]["mpfr"])
    assert (
        document["cases"] == sum(r["cases"] for r in rows) > 1_000_000
        and document["mismatches"] == 0
    )
    assert (
        document["command"] == ["apscope", *words]
        and document["formats"]["e3m0"]["exponent_bits"] == 3
    )
    assert len(capsys.readouterr().out.splitlines()) == len(rows) + 1
    assert [p.name for p in tmp_path.iterdir()] == ["certificate.json"]


@needs_oracle
@pytest.mark.parametrize("name", ["e9m2", "e9m30", "fp64"])
def test_formats_beyond_fp32_are_proved_in_fp64(name):
    for mode in ("ties_to_even", "stochastic_c"):
        (result,) = module.verify(name, mode, samples=200)
        assert result.mismatches == 0 and result.cases > 20_000


def test_a_mismatch_is_no_proof():
    from apscope._proof.certificate import certificate

    row = module.Verification("e4m3", "add", "ties_to_even", 5, 1, False, "mpfr", 0.1, "input ...")
    assert certificate([row])["proved"] is False and certificate([])["proved"] is False


@needs_oracle
def test_the_counts_do_not_depend_on_the_threads():
    one, three = (module.verify("e3m4", "stochastic", threads=n)[0] for n in (1, 3))
    assert (one.cases, one.mismatches) == (three.cases, three.mismatches)


class WrongOracle:
    """Stands for an oracle that found the emulator wrong."""

    def set_simd_level(self, level):
        pass

    def overflow_rules(self, name):
        return ["ieee"]

    def verify(self, name, **options):
        return {
            "cases": 5,
            "mismatches": 1,
            "first": {"text": "input 0x3F800000 (1), expected 0x3F800000 (1), got 0x0 (0)"},
        }


def test_a_mismatch_is_printed_and_exits_with_one(monkeypatch, capsys):
    monkeypatch.setattr(module, "_oracle", WrongOracle())
    assert main(["verify", "e4m3", "--rounding", "toward_zero"]) == 1
    out = capsys.readouterr().out
    assert "first mismatch: input 0x3F800000" in out and "expected" in out and "got" in out


@needs_oracle
def test_the_instruction_set_in_use_is_the_one_that_is_verified():
    in_use = _core.simd_level()
    try:
        for level in dict.fromkeys(("portable", in_use)):
            _core.set_simd_level(level)
            assert module.verify("e2m1fn", "ties_to_even")[0].mismatches == 0
            assert module._oracle.simd_level() == level
    finally:
        _core.set_simd_level(in_use)


@needs_oracle
def test_the_oracle_projects_single_numbers():
    project = module._oracle.project
    assert project(1.0625, "e4m3", rounding="ties_to_away") == 1.125
    assert project(1.0625, "e4m3", rounding="toward_zero") == 1.0
    assert project(1.0625, "e4m3", rounding="stochastic", random_bits=1, random=1 << 63) == 1.125
    assert project(1e9, "e4m3", overflow="saturate") == 240.0


@pytest.mark.parametrize("rounding", ["ties_to_even", "stochastic"])
def test_without_the_oracle_the_paths_are_compared_and_that_is_said(rounding, monkeypatch, capsys):
    monkeypatch.setattr(module, "_oracle", None)
    assert main(["verify", "e4m3", "--rounding", rounding, "--json"]) == 0
    printed = capsys.readouterr()
    (row,) = json.loads(printed.out)
    assert row["oracle"] == "none" and row["mismatches"] == 0 and row["cases"] > 100_000
    assert "without MPFR" in printed.err


def test_the_path_comparison_finds_a_wrong_path(monkeypatch):
    def wrong(codes, format):
        values = apscope_decode(codes, format)
        values[7] = np.float32(3.0)
        return values

    apscope_decode = module.decode
    monkeypatch.setattr(module, "_oracle", None)
    monkeypatch.setattr(module, "decode", wrong)
    (result,) = module.verify("e4m3", "ties_to_even")
    assert result.mismatches == 1 and result.first.startswith(
        "through codes, ties_to_even: input 0x"
    )


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["e12m9"], "exponent_bits=12"),
        (["e4m3", "--rounding", "up"], "unknown rounding mode 'up'"),
        (["e4m3", "--random-bits", "65", "--rounding", "stochastic"], "random_bits=65"),
        (["e4m3", "--threads", "-1"], "threads=-1"),
        (["e4m3", "--samples", "-1"], "samples=-1"),
        (["e4m3", "--operation", "power"], "unknown operation 'power'"),
        (["e4m3", "--operation", "add", "--rounding", "stochastic_exact"], "stochastic_exact"),
        (["e4m3", "--rounding", "stochastic_b", "--random-bits", "63"], "random_bits=63"),
        (
            ["e4m3", "--certificate", "/no/such/folder/c.json"],
            "the folder /no/such/folder does not exist",
        ),
        (["hfp8"], "hfp8_forward"),
    ],
)
def test_a_wrong_word_is_one_sentence_and_exit_code_two(words, sentence, capsys):
    assert main(["verify", *words]) == 2
    printed = capsys.readouterr()
    assert (
        sentence in printed.err and printed.out == "" and len(printed.err.strip().splitlines()) == 1
    )


def test_exhaustive_without_the_oracle_module_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(module, "_oracle", None)
    assert main(["verify", "e4m3", "--exhaustive"]) == 2
    assert "libmpfr-dev" in capsys.readouterr().err
