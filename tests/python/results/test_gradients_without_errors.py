"""Gradients whose sum is zero, or whose noise is: what a table and a page then say."""

import html

import numpy as np
import pytest

import apscope
from tests.python.argv import command

RNG = np.random.default_rng(8)
ROW = RNG.standard_normal((1, 256), np.float32)
SCHEMES = ["none:fp32", "aps:e3m4,rule=tight", "aps:e3m4,rule=tight,unit=32"]
GRADIENTS = {
    "zero": np.zeros((4, 256), np.float32),
    "cancelling": np.concatenate([ROW, -ROW]),
    "identical": np.repeat(ROW, 4, axis=0),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Results of each of the gradients."""
    folder = tmp_path_factory.mktemp("results")
    for name, rows in GRADIENTS.items():
        replayed = apscope.replay({"w": rows}, SCHEMES, topology=["ring", "two_phase"])
        replayed.save(folder / name)
    return folder


def ladder(saved, name, capsys):
    assert command("ladder {}", saved / name) == 0
    return capsys.readouterr().out


def test_the_ladder_of_zeros_is_a_sentence(saved, capsys):
    out = ladder(saved, "zero", capsys)
    assert out == "arrays: no rung has an error: the sum is 0 or not finite\n"


def test_the_ladder_of_gradients_that_cancel_has_their_error_over_noise_alone(saved, capsys):
    out = ladder(saved, "cancelling", capsys)
    assert "typical error over the noise of the batch (the sum is 0: no NMSE), ring\n" in out
    assert "nan" not in out and "error before a choice" not in out and "0 steps" not in out


def test_of_identical_workers_the_noise_is_0_not_unknown_for_want_of_workers(
    saved, capsys, tmp_path
):
    out = ladder(saved, "identical", capsys)
    assert "NMSE of a step (the noise of the batch is 0 or, with one worker, unknown), ring" in out
    assert command("recommend {} -o {}", saved / "identical", tmp_path / "plan.json") == 0
    assert "the noise is unknown or 0; the least layer_cosine" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["zero", "cancelling"])
def test_a_page_without_an_error_has_no_chart_and_no_command_for_the_best(saved, tmp_path, name):
    page = apscope.report(saved / name, tmp_path / "r.html").read_text()
    first = page[page.index('<article class="first') : page.index("</article>")]
    assert "no scheme has an error to compare" in first
    assert "<svg" not in first and 'class="charts"' not in first and "<code" not in first
    assert "The gain of finer scales" not in page


def test_the_line_that_repeats_gradients_in_memory_is_python(saved, tmp_path):
    page = apscope.report(saved / "identical", tmp_path / "r.html").read_text()
    line = page[page.index('title="repeats it">') :].partition(">")[2].partition("</code>")[0]
    call = html.unescape(line)
    again = eval(call, {"apscope": apscope, "gradients": {"w": GRADIENTS["identical"]}})
    spec = call.split("'")[1]
    found, before = (
        results.summary().set_index(["scheme", "topology"]).loc[(spec, "two_phase"), "step_nmse"]
        for results in (again, apscope.Results.open(saved / "identical"))
    )
    assert found == before


def test_one_worker_has_one_row_of_a_scheme(tmp_path, capsys):
    results = apscope.replay({"w": ROW}, ["aps:e3m4", "mx"], topology=["ring", "two_phase"])
    results.save(tmp_path / "results")
    assert command("summary {}", tmp_path / "results") == 0
    out = capsys.readouterr().out
    assert out.count("\naps:e3m4  ") == out.count("\nmx  ") == 1
    assert len(results.summary()) == 6  # with those of exact
    page = apscope.report(results, tmp_path / "r.html").read_text()
    verdict = page.split('<p class="verdict">')[1].split("</p>")[0]
    assert verdict.startswith('<b class="chosen" title="aps:e3m4">e3m4, a scale per layer</b>'), (
        verdict
    )
    assert "of fp32's bits" in verdict


def test_a_ranking_has_a_scheme_once_whose_keys_are_not_read(saved, tmp_path, capsys):
    less = "aps:e3m4,headroom=sqrt_workers,rule=tight,unit=32,overflow=saturate"
    gradients = {"w": RNG.standard_normal((4, 256), np.float32)}
    results = apscope.replay(gradients, [*SCHEMES, less], topology=["ring", "two_phase"])
    results.save(tmp_path / "results")

    assert command("summary {}", tmp_path / "results") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if "headroom=" in line]
    assert [words[2] for words in lines if len(words) > 3] == ["ring"]
    # In two phases it stands beside none that is the same.
    assert command("summary {} --scheme {}", tmp_path / "results", less) == 0
    out = capsys.readouterr().out
    assert "two_phase" in out and "ring" in out
    # All rows stay in the table that is computed with.
    both = results.summary()
    two = both[(both["topology"] == "two_phase") & both["scheme"].str.contains("unit=32")]
    assert len(two) == 2 and two["step_nmse"].nunique() == 1
