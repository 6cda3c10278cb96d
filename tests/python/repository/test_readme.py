"""README.md is one screen; it answers what docs/tools/reductions.py computes on all traces."""

import re

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope import _core
from apscope._results.ranking import RANKS
from apscope._results.winners import bits_of, winners
from apscope._training.verdicts import interval
from docs.tools import page, reductions, trained
from docs.tools.page import ROOT

README = (ROOT / "README.md").read_text()
TOUR = (ROOT / "docs/tour.md").read_text()


@pytest.fixture(scope="module")
def main():
    """The list of schemes of every table, on all traces in both reductions."""
    traces = [reductions.DATA / name for name in reductions.TRACES]
    return apscope.replay(traces, "main", topology=["ring", "two_phase"])


def test_it_is_one_screen():
    assert len(README) <= 6000
    assert README.count("](docs/picture.svg)") == README.count("![") == 1
    code = re.findall(r"^```\w+[^\n]*\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert "pip install ." in code[0] and "make report" in code[0] and "make test" in code[0]
    assert README.index("## The answer") < README.index("## Install") < README.index("## Your")


def test_arrays_in_memory_have_a_report_as_it_says(tmp_path):
    call = 'apscope.report({"fc.weight": g}, "report.html")'
    assert call in README
    g = np.random.default_rng(0).standard_normal((4, 200)).astype(np.float32)
    made = eval(call.replace('"report.html"', "tmp_path / 'report.html'"), {
        "apscope": apscope, "g": g, "tmp_path": tmp_path,
    })  # fmt: skip
    assert "fc.weight" in made.read_text(encoding="utf-8")


def test_its_answer_is_what_the_command_writes():
    answer = reductions.answer()
    assert page.read(ROOT / "README.md", "answer") == answer, "run make tables"
    assert [line[:2] for line in answer] == ["1.", "2.", "3.", "4.", "5."]


def test_it_is_of_all_recorded_traces():
    recorded = {path.parent.name for path in reductions.DATA.glob("*/manifest.json")}
    assert set(reductions.TRACES) == recorded and len(recorded) == 5
    assert "On all five recorded traces" in README
    workers = {name: apscope.open_trace(reductions.DATA / name).workers for name in recorded}
    assert workers == dict.fromkeys(recorded, 8) | {"digits_w64": 64}


def test_its_schemes_are_the_best_of_their_bits_on_every_trace(main):
    table, bits = main.summary(), bits_of(main.frame)
    for name in reductions.TRACES:
        best = {one.bits: one for one in winners(table[table["trace"] == name], bits)}
        for width, spec in ((8, reductions.EIGHT), (4, reductions.FOUR)):
            assert best[width].measure == RANKS
            # Among 64 workers the fp32 scale in every message of NVFP4 is too much.
            few = width == 4 and name == "digits_w64"
            assert best[width].scheme == reductions.canonical(reductions.POWERS if few else spec)
            assert best[width].topology == "two_phase", name


def test_what_four_bits_cost_in_training():
    runs = pd.read_csv(ROOT / "docs/trained.csv")
    less_room = reductions.canonical(f"{reductions.POWERS},headroom=sqrt_workers,overflow=saturate")
    ends: dict[str, list[float]] = {"two_phase": [], "ring": [], "less room": []}
    halves: dict[str, list[float]] = {name: [] for name in ends}
    for task in runs["task"].unique():
        for one in trained.trained(runs, task):
            if one.scheme in (reductions.POWERS, less_room):
                name = "less room" if one.scheme == less_room else one.reduction
                mean, low, high = interval(one.excess)
                ends[name].append(mean)
                halves[name].append((high - low) / 2)
    assert [len(of) for of in ends.values()] == [9, 9, 9]
    least, most = (f"{end(ends['two_phase']):.3f}" for end in (min, max))
    ring = f"{min(ends['ring']):.3f} to {max(ends['ring']):.2f}"
    said = (
        f"4 bits with the powers of two of item 3 end {least} to {most} nats above fp32, in a ring "
        f"{ring}, with room for √W {min(ends['less room']):.2f} to {max(ends['less room']):.2f} "
        f"(95 %: ± {', '.join(f'{max(half):.2f}' for half in halves.values())} at most)"
    )
    assert said in " ".join(README.split())


def test_every_factor_has_everything_else_equal(main):
    """The same bytes but for scales, of which 64 shards of small layers have most."""
    table = main.summary().set_index("scheme")
    for spec in ("aps:e4m3fn,rule=tight", reductions.EIGHT, reductions.POWERS):
        scheme = apscope.schemes.as_scheme(spec)
        rows = table.loc[scheme.spec].set_index(["trace", "topology"])["volume"].unstack()
        codes = apscope.FloatFormat(scheme.format).storage_bits / 32
        extra = rows[["ring", "two_phase"]] - codes
        assert (extra > 0).all(axis=None) and (extra < 0.06).all(axis=None), spec


def test_the_error_is_far_below_the_noise_where_it_says_so(main):
    table = main.summary().query("topology == 'two_phase'").set_index("scheme")
    eight, four = (
        table.loc[reductions.canonical(spec), "error_over_noise"]
        for spec in (reductions.EIGHT, reductions.FOUR)
    )
    # Below 0.02 none of the trained combinations failed (docs/reading.md).
    assert eight.max() < 0.02 and four.max() < 0.1


def test_what_it_says_of_the_tool():
    modes = _core.rounding_modes()
    assert len(modes) == 13 and "thirteen rounding modes" in README
    named = len(list((ROOT / "notebooks").glob("*.ipynb")))
    assert named == 13 and "[thirteen notebooks](docs/tour.md#notebooks)" in README
    assert 'requires-python = ">=3.11"' in (ROOT / "pyproject.toml").read_text()
    assert "Python 3.11 or later" in README
    assert "VERSION 3.25" in (ROOT / "CMakeLists.txt").read_text() and "CMake 3.25" in README


def sentences(text: str) -> set[str]:
    """Of at least eight words, without samples, tables and links' targets."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^\|.*$|^#.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    found = re.split(r"(?<=[.:;])\s+", re.sub(r"\s+", " ", text))
    return {s.strip() for s in found if len(s.split()) >= 8}


def test_the_tour_repeats_no_sentence_of_it():
    assert len(sentences(README)) > 10 < len(sentences(TOUR))
    assert not sentences(README) & sentences(TOUR)


def test_the_tour_lists_every_page_once():
    table = TOUR[TOUR.index("## Where to read next") : TOUR.index("## Notebooks")]
    linked = sorted(re.findall(r"\]\(([^)#]+)\)", table))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"tour.md"}
    assert linked == sorted([*pages, "../CONTRIBUTING.md", "../notebooks/data/README.md"])
    notebooks = re.findall(r"\]\(\.\./notebooks/(\S+\.ipynb)\)", TOUR)
    assert notebooks == sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
