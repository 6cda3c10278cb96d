"""The page of an experiment: its charts from hand-made verdicts, its tables, and that it requests
nothing."""

import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("torch")

from apscope._training.page import (
    _judged_relations,
    _said,
    curves,
    excess_chart,
    relation_chart,
)  # fmt: skip
from apscope.cli import main
from tests.python.train.jobs import trained

TOML = """
gate = 0.01
seeds = 2
formats = ["e4m3", "e3m0"]
schemes = ["aps:{format}", "loss_scaling:{format},scale=1048576"]
record_steps = 2

[[task]]
name = "digits"
steps = 20
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("page"), TOML)


def row(scheme, excess, volume, **more):
    return {
        "scheme": scheme, "topology": "ring", "seeds": 5, "diverged": 0, "excess": excess, "excess_low": excess - 0.001,
        "excess_high": excess + 0.001, "volume": volume, "verdict": "pass", "note": "", **more,
    }  # fmt: skip


def test_points_stand_at_their_volume_and_excess_and_diverged_ones_hollow_at_the_top():
    own = pd.DataFrame(
        [
            row("none:fp32", 0.0, 1.0, verdict="baseline"),
            row("none:bf16", -0.002, 0.5),
            row("aps:e4m3", 0.003, 0.25),
            row("aps:e3m0", 0.4, 0.125, verdict="undecided"),
            row(
                "loss_scaling:e3m0",
                math.nan,
                0.125,
                diverged=5,
                verdict="fail",
                note="5 runs of 5 diverged",
            ),
            row("aps:e2m1", 0.1, math.nan),
        ]
    )
    chart = excess_chart(own, 0.01)
    by = {p.says.splitlines()[0]: p for p in chart.points}
    by = {name.removesuffix(", ring"): point for name, point in by.items()}
    assert list(by) == ["none:bf16", "aps:e4m3", "aps:e3m0", "loss_scaling:e3m0"]
    assert (by["aps:e4m3"].x, by["aps:e4m3"].y) == (0.25, 0.003)
    assert by["none:bf16"].y == pytest.approx(1e-4)  # at the lower edge; the tooltip has -0.002
    assert "-0.002" in by["none:bf16"].says
    assert by["aps:e3m0"].faint and not by["aps:e4m3"].faint
    lost = by["loss_scaling:e3m0"]
    assert lost.hollow and lost.y == max(p.y for p in chart.points) >= 0.4
    assert "5 runs of 5 diverged" in lost.says
    (gate,) = chart.rules
    assert gate.y == 0.01 and gate.limit


def test_curves_are_means_over_the_seeds_and_end_where_one_diverges():
    found = []
    for scheme in ("none:fp32", "error_feedback(aps:e4m3)", "aps:e3m0"):
        for seed, level in ((0, 1.0), (1, 3.0)):
            for step in range(80):
                spoilt = scheme == "aps:e3m0" and seed == 1 and step >= 40
                found.append(
                    {
                        "scheme": scheme,
                        "topology": "ring",
                        "seed": seed,
                        "step": step,
                        "loss": math.nan if spoilt else level,
                    }
                )
    charts = curves(pd.DataFrame(found))
    assert [c.title for c in charts] == ["Training loss, e4m3", "Training loss, e3m0"]
    fp32, aps = charts[1].lines
    assert len(fp32.points) == 40 and {y for _, y in fp32.points} == {2.0}
    assert fp32.points[0][0] == 1.5 and fp32.points[-1][0] == 79.5  # steps count from 1
    assert len(aps.points) == 20 and {y for _, y in aps.points} == {2.0}


def test_the_relation_has_a_point_a_scheme_hollow_within_the_seeds_noise():
    own = pd.DataFrame({
        "scheme": ["aps:e4m3", "aps:e3m0", "none:e3m0", "aps:e2m1"], "topology": "ring",
        "excess": [-0.001, 0.2, 0.5, 1.0],
        "excess_low": [-0.002, 0.1, 0.4, 0.9], "lost": [0, 0, 1, 0],
        "error_over_noise": [0.01, 0.8, 1.0, math.inf],
    })  # fmt: skip
    chart = relation_chart(own, 0.01)
    assert [(p.x, p.y, p.hollow) for p in chart.points] == [(0.01, 1e-4, True), (0.8, 0.2, False)]
    assert "-0.001" in chart.points[0].says


def test_the_page_has_one_excess_and_one_error_over_noise_of_a_scheme():
    """Those of the verdicts: runs that diverged are in no mean, and an overflow is infinite."""
    key = {"task": "digits", "model": "net", "topology": "ring"}
    schemes = ["none:fp32", "aps:e4m3", "none:e3m0", "none:e2m1"]
    judged = pd.DataFrame({
        **key, "scheme": schemes, "diverged": [0, 0, 1, 0],
        "excess": [math.nan, 0.1, 0.2, 0.3], "excess_low": 0.05, "excess_high": 0.4,
        "error_over_noise": [0.0, 0.01, 0.5, math.inf],
    })  # fmt: skip
    related = pd.DataFrame({
        **key, "scheme": schemes[1:], "excess": 7.0, "excess_low": 6.0, "excess_high": 8.0, "lost": 0,
        "typical_32": [0.01, 0.5, 0.0003], "step_nmse": [0.1, 0.2, 0.3],
    })  # fmt: skip
    found = _judged_relations(related, judged).set_index("scheme")
    assert found["excess"].to_dict() == {"aps:e4m3": 0.1, "none:e3m0": 0.2, "none:e2m1": 0.3}
    assert found["lost"].to_dict() == {"aps:e4m3": 0, "none:e3m0": 1, "none:e2m1": 0}
    assert found["typical_32"].tolist() == [0.01, 0.5, math.inf]
    assert found["step_nmse"].tolist() == [0.1, 0.2, math.inf]
    chart = relation_chart(found.reset_index(), 0.01)
    assert [(p.x, p.y) for p in chart.points] == [(0.01, 0.1)]
    # Where a run of fp32 diverged, its seed has no pair.
    assert _judged_relations(related, judged.assign(diverged=[2, 0, 0, 0]))["lost"].eq(2).all()


def test_where_fp32_diverged_nothing_is_compared():
    base = {"scheme": "none:fp32", "topology": "ring", "verdict": "baseline", "seeds": 2}
    told = pd.DataFrame([base | {"loss": math.nan, "diverged": 2, "noise": math.nan}])
    assert _said(told, None) == "fp32 diverged with every seed, so nothing is compared."


def test_the_page_has_every_verdict_and_asks_for_nothing(folder, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert main(["report", str(folder), "-o", str(out)]) == 0
    page = out.read_text()
    assert f"{out}: {out.stat().st_size} bytes" in capsys.readouterr().out
    table = pd.read_csv(folder / "verdicts.csv")
    assert page.count("<tr class=") == len(table) == 6
    diverged = table[table["scheme"].str.startswith("loss_scaling")]
    assert (diverged["verdict"] == "fail").all() and page.count("2 runs of 2 diverged") >= 2
    own = page.split("<tbody>")[1].split("</tr>")[2]  # aps:e4m3, of nine figures beside its name
    assert own.count("<td") == 14 and "–" not in own
    assert "Fewer than 5 seeds" in page and page.count("<svg class=") == 4
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", page) and "<script" not in page
    assert main(["report", str(folder)]) == 0 and (folder / "report.html").exists()
    assert main(["report", str(folder), "--against", str(folder)]) == 2
    assert "--against is for results" in capsys.readouterr().err


def test_an_unfinished_or_damaged_experiment_is_a_sentence(folder, tmp_path, capsys):
    half = tmp_path / "half"
    half.mkdir()
    (half / "experiment.json").write_text("{}")
    assert main(["report", str(half)]) == 2
    assert "run apscope train again" in capsys.readouterr().err
    (half / "training.json").write_text('{"experiment": 3}')
    assert main(["report", str(half)]) == 2
    assert "damaged" in capsys.readouterr().err


def test_check_finds_what_is_damaged_in_an_experiment(folder, tmp_path, capsys):
    def checked(place):
        code = main(["check", str(place)])
        return code, capsys.readouterr().out.splitlines()

    assert checked(folder) == (0, [f"{folder}: an experiment, whole"])
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    for name in ("results.csv", "results.parquet", "verdicts.csv", "statistics.csv"):
        whole = (copy / name).read_bytes()
        (copy / name).write_bytes(whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:])
        code, lines = checked(copy)
        assert code == 1 and lines[0].startswith(f"{copy / name} is damaged: its sha256 is")
        (copy / name).write_bytes(whole)
    run = next((copy / "runs").glob("*.json"))
    run.write_text(run.read_text()[:-5])
    file = next((copy / "traces").rglob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-1])
    code, lines = checked(copy)
    assert code == 1 and lines[0].startswith(f"{run} is damaged") and str(file) in lines[1]
    (copy / "training.json").unlink()
    assert checked(copy)[1][0] == f"{copy} is not finished; run apscope train again"


def test_a_damaged_run_is_one_sentence_that_names_it(folder, tmp_path, capsys):
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    run = next((copy / "runs").glob("*.json"))
    run.write_text("{}")
    assert main(["train", str(folder.parent / "e.toml"), "-o", str(copy)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and f"{run} is damaged (it is not a run); remove it" in err


@pytest.mark.parametrize("verb", ["summary", "replay", "ladder", "recommend", "info"])
def test_other_commands_say_what_an_experiments_folder_is(verb, folder, tmp_path, capsys):
    more = ["-o", str(tmp_path / "o.json")] if verb in ("replay", "recommend") else []
    assert main([verb, str(folder), *more]) == 2
    err = capsys.readouterr().err
    assert "it is an experiment of apscope train, which apscope report reads" in err
    assert err.count("\n") == 1 and f"{folder}/traces has its recorded gradients" in err


def test_the_table_of_the_docs_has_every_scheme(folder, tmp_path, request):
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- experiment: written by docs/tools/training.py -->\n<!-- end of experiment -->\n"
    )
    command = [sys.executable, "-m", "docs.tools.training", folder, page]
    subprocess.run(command, check=True, cwd=request.config.rootpath)
    text = page.read_text()
    table = pd.read_csv(folder / "verdicts.csv")
    assert all(f"| `{scheme}` |" in text for scheme in table["scheme"][1:])
    assert text.count("fail: 2 runs of 2 diverged; 2 seeds only") == 2
