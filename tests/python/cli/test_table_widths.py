"""Tables of 100 letters whose specs can all be copied; numbers lie in their intervals; no interval
of fewer than four steps."""

import re

import numpy as np
import pytest

import apscope
from apscope._report import page
from apscope._results.results import Results
from apscope.cli import main

SHORT = ["none:fp32", "none:bf16", "mx", "mx:block_format=mxint8", "qsgd:levels=127",
         "aps:e4m3fn,rule=tight,unit=32", "loss_scaling:e3m4,scale=best,overflow=saturate",
         "loss_scaling:e4m3fn,scale=largest,rule=tight", "dynamic_loss_scaling:e4m3",
         "loss_scaling:e3m4,scale=largest,rule=tight", "aps:e3m4,rule=tight",
         "aps:e3m4,rule=tight,unit=model"]  # fmt: skip
LONG = [
    "hybrid(last=loss_scaling:e4m3fn,scale=largest,rule=tight;else=aps:e3m4,rule=tight,unit=32)",
    "hybrid(name:^(conv1\\.weight|norm\\.weight|norm\\.bias)$=none:fp16;last=none:bf16;"
    "else=loss_scaling:e4m3fn,scale=largest,rule=tight,overflow=saturate)",
    "aps:e4m3fn,rule=tight,unit=bucket:25MB,rounding=stochastic,random_bits=8",
]


@pytest.fixture(scope="module", params=["short", "long", "few"])
def folder(request, digits, tmp_path_factory):
    """Results of the usual specs; also of long ones; of three steps."""
    path = tmp_path_factory.mktemp(request.param) / "r"
    apscope.replay(
        digits,
        SHORT + LONG * (request.param == "long"),
        steps="0:3" if request.param == "few" else None,
        topology=["ring", "two_phase"],
        persistence=True,
    ).save(path)
    return path


def printed(capsys, *words):
    assert main([*map(str, words)]) == 0
    return capsys.readouterr().out


def tables_in(out):
    """Lines of blocks of at least three lines that have a number each: not sentences."""
    blocks = [block.splitlines() for block in out.split("\n\n")]
    return [line for block in blocks if len(block) > 2 for line in block
            if not re.match(r"\[\d+\] |.*: best of ", line)]  # fmt: skip


def test_a_summary_takes_100_letters_and_every_spec_can_be_copied(folder, capsys):
    results = Results.open(folder)
    out = printed(capsys, "summary", folder)
    lines = tables_in(out)
    assert len(lines) > 20 and max(map(len, lines)) <= 100
    words = set(re.split(r"\s+|: |; ", out))
    assert set(results.frame["scheme"]) <= words
    numbered = re.findall(r"^\[(\d+)\] (\S+)$", out, re.MULTILINE)
    for number, spec in numbered:
        assert spec in set(results.frame["scheme"]) and f"[{number}] {spec[:8]}" in lines_of(out)
    assert bool(numbered) == ("long" in str(folder))
    assert "mx: its format is mxfp8_e4m3" in out
    everything = printed(capsys, "summary", folder, "--all-columns")
    assert (
        "time, speedup: modelled, 2.56e+07 parameters; 10 GB/s and 5 µs per message" in everything
    )


def lines_of(out):
    return "\n".join(line for line in out.splitlines() if not re.fullmatch(r"\[\d+\] \S+", line))


def test_schemes_across_can_be_copied_too(folder, capsys):
    specs = set(Results.open(folder).frame["scheme"])
    for out in (
        printed(capsys, "summary", folder, "--by", "layer"),
        printed(capsys, "compare", folder, SHORT[5], *sorted(specs - {SHORT[5]})),
    ):
        numbered = re.findall(r"^\[\d+\] ([^\s@]+)\S*$", out, re.MULTILINE)
        assert set(numbered) <= specs and bool(numbered) == ("long" in str(folder))
        assert {spec for spec in specs if len(spec) > 80} <= set(numbered)


def test_columns_are_chosen_by_name(folder, capsys):
    out = printed(capsys, "summary", folder, "--columns", "speedup,nmse", "--columns", "time")
    heads = out.splitlines()[1].split()
    assert heads == ["scheme", "topology", "speedup", "nmse", "time"] and "modelled" in out
    assert main(["summary", str(folder), "--columns", "sped"]) == 2
    assert "unknown column sped; did you mean 'speedup'?" in capsys.readouterr().err
    assert main(["summary", str(folder), "--columns", "nmse", "--by", "layer"]) == 2


def test_a_ladder_takes_100_letters_and_its_csv_has_whole_specs(digits, capsys):
    out = printed(capsys, "ladder", digits)
    lines = tables_in(out)
    assert len(lines) > 80 and max(map(len, lines)) <= 100
    for name in ("e5m2", "e4m3fn", "e3m4", "e2m5finite", "e2m1fn", "e3m0noinf"):
        assert len(re.findall(rf"^one scale per .*\b{name}\b", out, re.MULTILINE)) >= 3
    assert "s: skipped steps" in out and " s3*" in out
    told = printed(capsys, "ladder", digits, "--csv", "--steps", "0:4", "--formats", "e3m4")
    assert "loss_scaling:e3m4,scale=best,overflow=saturate" in told and "…" not in told
    found = printed(capsys, "search", digits, "--bits", "4", "--steps", "0:4", "--csv")
    assert "…" not in found and "scheme" in found.splitlines()[0]


def plan_of(folder, tmp_path, capsys):
    words = ["recommend", folder, "--max-volume", "0.6", "--topology", "two_phase"]
    return printed(capsys, *words, "-o", tmp_path / "plan.json")


def test_a_plan_has_whole_specs(folder, tmp_path, capsys):
    out = plan_of(folder, tmp_path, capsys)
    plan = apscope.recommend(folder, max_volume=0.6, topology="two_phase")
    specs = {*plan.layers["scheme"], *plan.layers["cheaper"], *plan.layers["better"]} - {""}
    words = set(re.split(r"\s+|: ", out))
    assert len(specs) > 2 and specs <= words and "time: modelled, " in out
    assert specs <= set(re.split(r"<[^>]*>|\s+", plan._repr_html_().replace("&#x27;", "'")))


def test_every_number_lies_in_the_interval_beside_it(folder, tmp_path, capsys, digits):
    """The corrected error over noise is the one that has an interval."""
    few = "few" in str(folder)
    texts = {"plan": plan_of(folder, tmp_path, capsys)}
    steps = ["--steps", "0:3"] if few else []
    texts["ladder"] = printed(capsys, "ladder", digits, "--formats", "e4m3fn,e3m4", *steps)
    texts["page"] = page(folder)
    found = {
        name: re.findall(r"([\d.e+-]+) \[([\d.e+-]+), ([\d.e+-]+)\]", text)
        for name, text in texts.items()
    }
    assert len(found["plan"]) >= 2
    assert (len(found["ladder"]) > 30) != few and bool(found["page"]) != few
    for name, triples in found.items():
        for value, low, high in triples:
            assert float(low) <= float(value) <= float(high), (name, value, low, high)
    verdicts = re.findall(r", 1/([\d,]+), 95 % 1/([\d,]+)–1/([\d,]+)\">1/", texts["page"])
    assert verdicts
    for triple in verdicts:
        value, low, high = (1 / float(text.replace(",", "")) for text in triple)
        assert low <= value <= high
    table = Results.open(folder).summary()
    for name in ("error_over_noise", "pooled_error_over_noise"):
        low, told, high = (table[f"{name}_{end}"] for end in ("low", "corrected", "high"))
        known = low.notna() & np.isfinite(high)
        assert known.any() and (low <= told)[known].all() and (told <= high)[known].all()
    heads = list(table)
    assert heads.index("error_over_noise_low") == heads.index("error_over_noise_corrected") + 1


def test_fewer_than_four_steps_have_no_interval(folder):
    results = Results.open(folder)
    table = results.summary(optimizer="sgd")
    ladder = apscope.ladder(results)
    few = len(set(results.frame["step"])) < 4
    assert few == ("few" in str(folder)) and len(ladder) > 3
    rows = table[np.isfinite(table["gain"])]
    assert (rows["gain_low"].isna() == few).all() and (ladder["factor_low"].isna() | ~few).all()
    assert (table["persistence_1_low"].isna() | ~few).all()
    assert ladder["factor"].notna().any()
