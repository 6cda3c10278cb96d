"""The best within the bytes of a width: one rule, and what every command prints by it.

That they choose the same: test_one_winner.py.
"""

import re

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._replay.ladder import ladder_schemes
from apscope._results.ranking import BLOCK_FORMATS
from apscope._results.summary import front
from apscope._results.winners import Second, Winner, bits_of, scale_of, winners
from apscope.cli import main

BEST = re.compile(
    r"^characters: best of at most (\d) bits by step_nmse, (\S+): (\S+) in (\S+); format (\S+), "
    r"scale one for (\d+) elements(?:, and one [^,]*)?, (\S+) of fp32's bytes, of .*$",
    re.MULTILINE,
)
#: Bytes of 8 and of 4 bits with the scales of blocks.
SHARES = {8: 0.28125, 4: 0.155}


@pytest.fixture(scope="module")
def trace(request):
    return str(request.config.rootpath / "notebooks/data/characters")


@pytest.fixture
def output(capsys):
    def run(*words):
        assert main([*words]) == 0
        return capsys.readouterr().out

    return run


def test_five_commands_print_the_same_winners(trace, output, tmp_path):
    searched = {
        bits: BEST.search(output("search", trace, "--bits", str(bits))).groups() for bits in SHARES
    }
    specs = [*ladder_schemes(["e3m4", "e2m5finite", "e2m1fn"], "tight").values(), "none:bf16",
             *BLOCK_FORMATS]  # fmt: skip
    results = apscope.replay(trace, list(dict.fromkeys(specs)), topology=["ring", "two_phase"])
    folder = str(results.save(tmp_path / "results"))
    told = {command: BEST.findall(output(command, folder)) for command in ("summary", "ladder")}
    for bits, found in searched.items():
        assert found[0] == str(bits) and found[3] == "two_phase"
        for command, lines in told.items():
            assert found in lines, command
        words = ["--groups", "model", "--holdout", "none", "--max-volume", str(SHARES[bits])]
        plan = str(tmp_path / f"{bits}.json")
        _, _, spec, topology, grid, block, volume = found
        told_by = output("recommend", folder, *words, "-o", plan)
        first, reduction, *_ = told_by.splitlines()
        assert first.startswith(f"{spec} for every layer, {topology}: step_nmse ")
        other = "gather" if spec.startswith("nvfp4") else "ring"
        assert f" at volume {float(volume):.3g}" in first and reduction.startswith(
            f"reduction: {topology}; the same in {other} "
        )
        assert f"\ngrid: {grid}" in told_by and f"\nscale: one for {block} el" in told_by
        # By another figure, and it says by which.
        by = ["--minimize", "error_over_noise"]
        asked_for = output("recommend", folder, *by, *words, "-o", plan)
        assert re.match(r"\S+ for every layer, two_phase: error_over_noise \S+ at vol", asked_for)
    output("report", folder, "-o", str(tmp_path / "report.html"))
    page = (tmp_path / "report.html").read_text()
    verdict = re.search(r'<p class="verdict">(.*?)</p>', page, re.DOTALL)[1]
    _, _, spec, _, grid, block, _ = searched[8]
    choices = f"two phases, {grid}, a scale for {block} elements"
    assert verdict.startswith(f'<b class="chosen" title="{spec}">{choices}</b> (')
    assert "at 0.26 of fp32's bytes" in verdict


def row(scheme, topology, volume, error, **others):
    flaws = {"overflowed": 0, "skipped": 0, "gaps": 0, "lost_layers": 0}
    return {
        "scheme": scheme, "topology": topology, "volume": volume, "step_nmse": error,
        "error_over_noise": 2 * error,
    } | flaws | others  # fmt: skip


def test_a_winner_is_sound_and_sends_no_more():
    rows = pd.DataFrame([
        row("none:fp32", "ring", 1.0, 1e-9), row("aps:e3m4", "exact", np.nan, 1e-6),
        row("aps:e3m4,rule=tight", "ring", 0.25, 1e-5, overflowed=1),
        row("none:e3m4", "ring", 0.25, 1e-5, lost_layers=1),
        row("aps:e4m3", "ring", 0.25, 1e-5, gaps=1), row("qsgd", "gather", 0.5, 1e-5),
        row("mx", "two_phase", 0.258, 2e-4, error_over_noise=1e-4),
        row("aps:e3m4", "two_phase", 0.2525, 1e-4),
        row("aps:e4m3fn", "two_phase", 0.2525, 1e-4),
        row("aps:e2m1fn", "two_phase", 0.128, 3e-2), row("aps:e3m0", "ring", 0.125, 2e-2, skipped=2),
    ])  # fmt: skip
    bits = {"aps:e4m3fn": 8, "aps:e3m4": 8}  # the order of the request, for equal errors
    eight, four = winners(rows, bits)
    assert eight[:-1] == (8, "aps:e4m3fn", "two_phase", 0.2525, "step_nmse", 1e-4)
    assert four == Winner(4, "aps:e2m1fn", "two_phase", 0.128, "step_nmse", 3e-2)
    # Another figure does not rank, and its other opinion is told.
    assert eight.seconds == (Second("error_over_noise", "mx", "two_phase", 1e-4, 2e-4),)
    # One worker: the noise is unknown. Only narrow rows: told once.
    unknown = rows.assign(error_over_noise=np.nan)
    assert [(w.scheme, w.seconds) for w in winners(unknown, bits)] == [
        ("aps:e4m3fn", ()), ("aps:e2m1fn", ()),
    ]  # fmt: skip
    narrow = rows[rows["volume"] < 0.2]
    assert [w.bits for w in winners(narrow, bits)] == [4]
    assert winners(rows[rows["topology"] == "exact"], bits) == []
    # Nothing was reduced, so that bits on the wire decide.
    wire = pd.DataFrame([row("aps:e3m4", "", np.nan, 1e-4), row("none:bf16", "", np.nan, 1e-6)])
    (best,) = winners(wire, {"aps:e3m4": 8, "none:bf16": 16})
    assert best.scheme == "aps:e3m4" and " at the wire; format e3m4, scale one per " in str(best)


def test_a_wide_format_of_a_level_is_no_answer_for_few_bits():
    wide, narrow = "hierarchical:4(sequential@bf16,ring)", "hierarchical:4"
    rows = pd.DataFrame([row("aps:e4m3", wide, 0.07, 1e-5), row("aps:e4m3", narrow, 0.04, 1e-3)])
    (best,) = winners(rows, {"aps:e4m3": 8})
    assert best.topology == narrow and str(best).endswith(", 0.04 of fp32's bytes between nodes")
    assert winners(rows.head(1), {"aps:e4m3": 8}) == []
    blocks = "hierarchical:2(two_phase@mxfp8_e4m3,two_phase@bfp:4:16)"
    (best,) = winners(pd.DataFrame([row("mx", blocks, 0.07, 1e-5)]), {"mx": 8})
    assert best.topology == blocks


def test_another_figure_speaks_up_where_the_intervals_are_apart():
    def seconds(low, high):
        rows = pd.DataFrame([
            row("aps:e3m4", "ring", 0.25, 1e-4, update_loss_3=0.002, update_loss_3_low=low,
                update_loss_3_high=0.005),
            row("mx", "ring", 0.25, 2e-4, update_loss_3=0.0004, update_loss_3_low=0.0003,
                update_loss_3_high=high),
        ])  # fmt: skip
        (best,) = winners(rows, {"aps:e3m4": 8, "mx": 8})
        return [one.figure for one in best.seconds]

    assert seconds(0.0, 0.0005) == [] and seconds(0.001, 0.0005) == ["update_loss_3"]
    assert seconds(np.nan, np.nan) == ["update_loss_3"]


@pytest.mark.parametrize(("spec", "says"), [
    ("aps:e3m4", "one per layer and step"), ("aps:e3m4,unit=32", "one for 32 elements"),
    ("mx", "one for 32 elements"), ("mx:block_format=bfp:4:16", "one for 16 elements"),
    ("nvfp4", "one for 16 elements, and one per layer"), ("none:e4m3", "none"),
    ("qsgd", "its own"), ("mine(1)", "its own"),
])  # fmt: skip
def test_every_scheme_says_what_shares_a_scale(spec, says):
    assert scale_of(spec) == says


def test_the_winner_is_the_first_of_its_bytes_in_the_summary(trace):
    results = apscope.replay(
        trace, ["aps:e3m4", "mx:block_format=mxint8", "aps:e2m1fn,unit=16", "none:fp16"]
    )
    table = front(results.summary(), "ring")
    for best in winners(table, bits_of(results.frame)):
        held = table[table["volume"] <= SHARES[best.bits] + 0.001]
        first = held.iloc[0]
        assert (best.scheme, best.topology) == (first["scheme"], first["topology"])


def test_a_scheme_is_as_wide_as_its_own_numbers(digits):
    """Within nodes a hierarchy may send wider ones."""
    wide = "hierarchical:4(reduce_scatter@bf16,two_phase)"
    specs = ["aps:e4m3fn", "none:bf16"]
    results = apscope.replay(digits, specs, topology=["ring", wide], steps="0:2")
    assert bits_of(results.frame) == {"aps:e4m3fn": 8, "none:bf16": 16}
