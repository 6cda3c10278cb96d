"""apscope summary and compare: tables for a terminal, and CSV."""

import io
import json
import os
import sys

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._results.csv_table import read_csv
from apscope._results.summary import front
from apscope._results.winners import bits_of, winners
from apscope._text import count_of
from apscope.cli import main
from apscope.cli._table import print_table
from apscope.record import TraceWriter
from tests.python.argv import argv, command
from tests.python.cli.conftest import SCHEMES


def printed(capsys, *words):
    assert main([*words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_the_summary_is_a_ranked_table_a_trace(capsys, folder, results):
    out = printed(capsys, "summary", folder)
    digits, more, best, noise, characters, *_ = out.rstrip("\n").split("\n\n")
    assert more == (
        "not shown: gain, layer_cosine, worst_layer, underflow_reduced, speedup, worst_nmse, "
        "relative_bias;\n--columns, --all-columns and --csv have them\n"
        "qsgd: its format is uniform:7"
    )
    assert best == "\n".join(
        f"digits: {one}, of 4 schemes"
        for one in winners(
            front(results.summary().query("trace == 'digits'"), "ring"), bits_of(results.frame)
        )
    )
    assert digits.startswith("digits\n") and characters.startswith("characters\n")
    facts = dict(zip(*(line.split() for line in noise.splitlines()[1:])))
    assert noise.startswith("digits: noise of the batch; ") and float(
        facts["noise_ratio"]
    ) == float(f"{results.noise_facts().noise_ratio[0]:.3g}")
    lines = digits.splitlines()[1:]
    assert lines[0].split() == [
        "scheme", "topology", "step_nmse", "error_over_noise", "volume", "underflow_wire",
    ]  # fmt: skip
    table = results.summary()
    ranked = table[(table.trace == "digits") & table.topology.isin(["ring", "gather"])]
    assert [line.split()[0] for line in lines[1:]] == ranked.scheme.tolist()
    assert [line.split()[1] for line in lines[1:]] == ranked.topology.tolist()
    first = ranked[ranked.scheme.str.contains("e4m3")].nsmallest(1, "step_nmse").iloc[0]
    assert ranked.step_nmse.is_monotonic_increasing and best.startswith(
        f"digits: best of at most 8 bits by step_nmse, {first.step_nmse:.3g}: {first.scheme} in ring; "
    )
    for place, name in ((2, "step_nmse"), (3, "error_over_noise")):
        assert [float(line.split()[place].lstrip("≤")) for line in lines[1:]] == [
            float(f"{v:.3g}") for v in ranked[name]
        ]
    assert max(map(len, lines)) <= 100


def test_the_summary_takes_a_topology_and_all_columns(capsys, folder):
    exact = printed(capsys, "summary", folder, "--topology", "exact")
    assert exact.count(" exact ") == 2 * len(SCHEMES)
    everything = printed(capsys, "summary", folder, "--topology", "all", "--all-columns")
    assert (
        everything.count(" gather ") == 2
        and everything.count(" sequential ") == 6
        and " family " in everything
        and " overflowed" in everything
    )
    of_ring = io.StringIO(printed(capsys, "summary", folder, "--csv", "--topology", "ring"))
    assert len(pd.read_csv(of_ring)) == 2 * len(SCHEMES)
    assert main(["summary", folder, "--topology", "tree"]) == 2
    assert "no topology 'tree'; use one of ring, " in capsys.readouterr().err
    assert main(["summary", folder, "--elements", "0"]) == 2


def test_schemes_that_only_gather_are_ranked_by_their_gather(capsys, tmp_path, digits):
    """In the command, in the summary's order and on the page, which says so."""
    results = apscope.replay(
        digits,
        ["stochastic:e4m3", "qsgd", "mx"],
        steps="0:4",
    )
    folder = str(results.save(tmp_path / "r"))
    out = printed(capsys, "summary", folder)
    assert out.count(" gather ") == 3 and " exact " not in out and " volume" in out.splitlines()[1]
    table = pd.read_csv(io.StringIO(printed(capsys, "summary", folder, "--csv")))
    assert sorted(table.topology) == ["exact"] * 3 + ["gather"] * 3 + ["two_phase"] * 3
    assert table.volume[:6].notna().all() and table.topology[6:].eq("exact").all()
    ranked = [tuple(line.split()[:2]) for line in out.splitlines()[2:8]]
    assert ranked == list(zip(table.scheme[:6], table.topology[:6]))
    assert main(["report", folder, "-o", str(tmp_path / "r.html")]) == 0
    text = (tmp_path / "r.html").read_text()
    assert "reduced by " in text and "gathered" in text and "by ring" not in text
    assert len(printed(capsys, "summary", folder, "--topology", "exact").splitlines()) > 4


def test_a_comparison_is_a_table_a_trace(capsys, folder, results):
    words = "compare {} aps:e4m3 loss_scaling:e4m3,headroom=workers,scale=largest --topology ring"
    out = printed(capsys, *argv(words, folder))
    assert (
        "digits: a = aps:e4m3 (ring, 0.251 of fp32's bytes), "
        "b = loss_scaling:e4m3,scale=largest (ring, 0.25 of fp32's bytes)\n" in out
    )
    wanted = results.compare("aps:e4m3", "loss_scaling:e4m3,scale=largest", "ring")
    lines = [
        line
        for line in out.splitlines()
        if line and not line.startswith(("layer ", "scheme ", "aspect ", "change ", "To give "))
    ]
    titles = [i for i, line in enumerate(lines) if line.startswith(("digits:", "characters:"))]
    tables = [lines[i + 1 : j] for i, j in zip(titles, [*titles[1:], None])]
    kinds = [lines[i].split(": ", 1)[1] for i in titles]
    rows = [
        line.split()
        for kind, table in zip(kinds, tables)
        if kind.startswith("a = ")
        for line in table
    ]
    for parts in (
        table for kind, table in zip(kinds, tables) if kind.startswith("what their squared errors")
    ):
        shares = [[float(share.rstrip("%")) for share in line.split()[2:]] for line in parts]
        assert [line.split()[0] for line in parts] == ["a", "b"] and all(
            abs(sum(s) - 100) < 1 for s in shares
        )
    assert [row[0] for row in rows] == wanted.layer.tolist() and [
        int(row[4]) for row in rows
    ] == wanted.wins.tolist()
    assert " cosine_a " in printed(capsys, "compare", folder, "aps:e4m3", "qsgd", "--all-columns")


def tables_of(out):
    """Title -> the table below it, a list of lines, of what a command printed."""
    found = {}
    for block in out.rstrip("\n").split("\n\n"):
        title, *lines = block.split("\n")
        found[title] = lines
    return found


def test_the_summary_by_layer_has_schemes_across_and_of_one_all_columns(capsys, folder, results):
    tables = tables_of(printed(capsys, "summary", folder, "--by", "layer"))
    assert list(tables) == [
        "digits: step_nmse by layer, ring or gather",
        "characters: step_nmse by layer, ring or gather",
    ]
    wanted = results.by("layer", "step_nmse").loc["digits"]
    above, heads, *lines = tables["digits: step_nmse by layer, ring or gather"]
    assert above.split() == ["loss_scaling:e4m3,"] and heads.split() == [
        "layer",
        "none:fp32",
        "aps:e4m3",
        "scale=largest",
        "qsgd",
    ]
    for line, (layer, row) in zip(lines, wanted.iterrows(), strict=True):
        assert line.split() == [layer, *(f"{value:.3g}" for value in row)]
    alone = tables_of(
        printed(capsys, "summary", folder, "--by", "step", "--scheme", "aps:e4m3,headroom=workers")
    )
    heads, *lines = alone["digits: aps:e4m3, ring"]
    assert heads.split()[:4] == ["step", "step_nmse", "error_over_noise", "volume"] and [
        line.split()[0] for line in lines
    ] == list("0123")
    words = "summary {} --by role --column layer_cosine --scheme qsgd --scheme none:fp32"
    cosines = tables_of(printed(capsys, *argv(words, folder)))
    heads, *lines = cosines["digits: layer_cosine by role, ring or gather"]
    assert heads.split() == ["role", "none:fp32", "qsgd"] and all(
        line.split()[1] == "1.000000" for line in lines
    )
    assert printed(capsys, "summary", folder, "--scheme", "qsgd").count(" gather ") == 2


def test_a_table_by_layer_on_a_terminal_says_how_many_schemes_it_has_no_room_for(
    capsys, folder, monkeypatch
):
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((50, 24)))
    out = printed(capsys, "summary", folder, "--by", "layer")
    assert (
        "and 2 more schemes with larger errors; --scheme selects, --csv and --json have all" in out
        and "qsgd" not in out
    )


@pytest.mark.parametrize(("words", "table"), [
    (["summary"], lambda r: r.summary()),
    (["summary", "--by", "step", "--topology", "exact"], lambda r: r.by("step", topology="exact")),
    (["compare", "aps:e4m3", "qsgd", "none:fp32"],
     lambda r: r.compare("aps:e4m3", ["qsgd", "none:fp32"])),
])  # fmt: skip
def test_json_and_csv_are_the_table_of_python(capsys, folder, results, words, table):
    wanted = table(results)
    rows = json.loads(printed(capsys, words[0], folder, *words[1:], "--json"))
    read = pd.read_csv(io.StringIO(printed(capsys, words[0], folder, *words[1:], "--csv")))
    assert list(rows[0]) == list(read.columns) == list(wanted.columns) and len(rows) == len(
        read
    ) == len(wanted)
    for name in wanted.columns:
        values = [None if pd.isna(v) or v == np.inf else v for v in wanted[name].tolist()]
        assert [row[name] for row in rows] == values, name  # every digit, of 1e-15 too
    assert min(row.get("step_nmse", row.get("step_nmse_b")) for row in rows) < 1e-14


def test_one_scheme_against_several_is_a_table_of_them_and_one_of_layers(capsys, folder, results):
    tables = tables_of(
        printed(capsys, "compare", folder, "aps:e4m3", "qsgd", "loss_scaling:e4m3,scale=largest")
    )
    heads, *lines = tables["digits: a = aps:e4m3@ring, all layers"]
    assert heads.split()[:3] == ["b", "error_over_noise_a", "error_over_noise_b"]
    wanted = results.compare("aps:e4m3", ["qsgd", "loss_scaling:e4m3,scale=largest"])
    wanted = wanted[wanted.trace == "digits"]
    assert [line.split()[0] for line in lines] == [
        "qsgd@gather", "loss_scaling:e4m3,scale=largest@ring",
    ]  # fmt: skip
    assert [int(line.split()[4]) for line in lines] == wanted[wanted.whole].wins.tolist()
    _, _, *lines = tables["digits: geometric_ratio by layer, the NMSE of a over that of each"]
    layers = wanted[~wanted.whole]
    for line, (layer, rows) in zip(lines, layers.groupby("layer", sort=False), strict=True):
        assert line.split() == [layer, *(f"{value:.3g}" for value in rows.geometric_ratio)]


def test_two_results_name_their_reductions_where_they_differ(capsys, digits, tmp_path):
    """Blocks have no ring, so one table has two reductions."""
    specs = ["mx", "aps:e4m3fn,rule=tight"]
    results = apscope.replay(digits, specs, topology=["ring", "two_phase"], steps="0:2")
    folder = str(results.save(tmp_path / "r"))
    out = printed(capsys, "compare", folder, folder)
    _, *lines = tables_of(out)[f"digits: a = {folder}, b = {folder}, all layers"]
    assert sorted(line.split()[0] for line in lines[:2]) == [
        "aps:e4m3fn,rule=tight@ring", "mx@two_phase"
    ]  # fmt: skip


def test_two_results_are_compared_and_what_one_lacks_is_listed(
    capsys, folder, results, digits, tmp_path
):
    other = apscope.replay(
        digits,
        ["aps:e4m3", "qsgd", "aps:e2m5"],
        steps="0:3",
        tensors="conv|head",
        topology="ring",
        seed=1,
    )
    second = str(other.save(tmp_path / "second"))
    out = printed(capsys, "compare", folder, second)
    heads, *lines = tables_of(out)[f"digits: a = {folder}, b = {second}, all layers"]
    assert heads.split()[0] == "scheme" and [line.split()[0] for line in lines] == [
        "aps:e4m3",
        "qsgd",
    ]
    # Steps; no draw, so that the seed changes nothing.
    assert lines[0].split()[3:7] == ["3", "0", "0", "3"]
    assert "seed" in out and "characters" in out.split("How the results differ")[1]
    for line in (f"Only {folder} has 1 trace: characters",
                 f"Only {folder} has 2 layers: norm.weight, norm.bias",
                 f"Only {folder} has 1 step: 3",
                 f"Only {folder} has 2 schemes: none:fp32, loss_scaling:e4m3,scale=largest",
                 f"Only {folder} has 1 reduction: sequential",
                 f"Only {second} has 1 scheme: aps:e2m5"):  # fmt: skip
        assert line in out.splitlines()
    pair = tables_of(printed(capsys, "compare", folder, second, "aps:e4m3", "aps:e2m5"))
    _, *lines = pair[f"digits: a = aps:e4m3 of {folder} (ring), b = aps:e2m5 of {second} (ring)"]
    assert [line.split()[0] for line in lines] == [
        "all",
        "conv1.weight",
        "conv2.weight",
        "head.weight",
        "head.bias",
    ]
    rows = json.loads(printed(capsys, "compare", folder, second, "--json"))
    assert [row["held_by"] for row in rows if row["scheme"] == "aps:e2m5"] == ["second"]


@pytest.mark.parametrize(("words", "sentence"), [
    (["summary", "nowhere"], "nowhere is not a RESULTS folder"),
    (["compare", "RESULTS", "aps:e4m3"],
     "'aps:e4m3' alone is neither a second RESULTS folder nor two schemes"),
    (["compare", "RESULTS"], "compare: there is nothing to compare with; give two or more schemes"),
    (["compare", "RESULTS", "RESULTS", "a", "b", "c"], "3 schemes of two results are given"),
    (["compare", "RESULTS", "n" * 5000, "qsgd"], "the results have no scheme 'nnn"),
    (["summary", "RESULTS", "--column", "nmse"], "--column nmse is for --by layer, role or step"),
    (["summary", "RESULTS", "--column", "nope"], "unknown --column nope; did you mean 'nmse'?"),
    (["summary", "RESULTS", "--column", "scheme"], "unknown --column scheme; "),
    (["summary", "RESULTS", "--by", "layer", "--column", "nmes"], "did you mean 'nmse'?"),
    (["summary", "RESULTS", "--scheme", "asp:e4m3"],
     "no scheme 'asp:e4m3'; did you mean 'aps:e4m3'?"),
    (["compare", "RESULTS", "aps:e4m3@rnig", "qsgd"],
     "'aps:e4m3' has no topology 'rnig' in the results; use one of exact, ring, sequential, wire"),
    (["compare", "RESULTS", "aps:e4m3", "asp:e4m3@ring"],
     "no scheme 'asp:e4m3'; did you mean 'aps:e4m3'?"),
    (["compare", "RESULTS", "asp:e4m3", "qsgd"], "no scheme 'asp:e4m3'; did you mean 'aps:e4m3'?"),
    (["compare", "RESULTS", "aps:e4m3,headrom=one", "qsgd"],
     "scheme 'aps' has no key 'headrom'; did you mean headroom"),
    (["compare", "RESULTS", "aps:e4m3", "qsgd", "--topology", "tree"],
     "'aps:e4m3' has no topology 'tree' in the results; use one of exact, ring, sequential, wire"),
])  # fmt: skip
def test_mistakes_are_one_sentence(capsys, folder, words, sentence):
    assert main([folder if w == "RESULTS" else w for w in words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and sentence in err and err.count("\n") == 1 and err.count("apscope") == 1


def test_a_scheme_that_overflowed_by_default_is_shown_with_the_default(capsys, digits, tmp_path):
    specs = [
        "loss_scaling:e4m3",
        "loss_scaling:e5m2",
        "loss_scaling:e4m3,scale=4096",
        "dynamic_loss_scaling:fp16",
    ]
    results = apscope.replay(digits, specs, steps="0:10", topology="ring")
    over = (
        results.summary()
        .set_index(["scheme", "topology"])
        .loc[(slice(None), "ring"), "overflowed"]
        .droplevel(1)
    )
    assert (
        over["loss_scaling:e4m3"] > 0
        and over["loss_scaling:e4m3,scale=4096"] > 0
        and over["loss_scaling:e5m2"] == 0
    )
    out = printed(capsys, "summary", str(results.save(tmp_path / "r")))
    note = out.split("What overflowed or skipped steps:\n")[1].split("\n\n")[0]
    counts = {spec: f"overflow in {count_of(n, 'step')}" for spec, n in over.items()}
    skipped = int(results.summary().query("topology == 'ring'")["skipped"].max())
    assert sorted(note.splitlines()) == [
        f"dynamic_loss_scaling:fp16 in ring: skipped {count_of(skipped, 'step')}; it does not set "
        "init, so the default init=auto was used",
        f"loss_scaling:e4m3 in ring: {counts['loss_scaling:e4m3']}; it does not set scale, so the "
        "default scale=1024 was used",
        f"loss_scaling:e4m3,scale=4096 in ring: {counts['loss_scaling:e4m3,scale=4096']}",
    ]


def test_all_that_overflowed_is_listed_and_a_block_with_a_nan_has_no_default_scale(
    capsys, tmp_path
):
    x = np.random.default_rng(2).standard_normal((4, 256)).astype(np.float32)
    x[1, 3], x[:, 9] = np.nan, 40.0
    specs = ["nvfp4:rounding=ties_to_even,rht=false", "mx:block_format=mxfp4", "none:e3m4",
             "aps:e3m4", "aps:e4m3fn,rule=tight"]  # fmt: skip
    results = apscope.replay({"w": x}, specs, topology=["ring", "two_phase"])
    assert main(["summary", str(results.save(tmp_path / "r"))]) == 0
    out = capsys.readouterr().out
    note = out.split("What overflowed or skipped steps:\n")[1].split("\n\n")[0]
    why = "; a gradient that is NaN or infinite can take its whole block with it"
    assert sorted(note.splitlines()) == [
        f"mx:block_format=mxfp4 in gather and two_phase: overflow in 1 step{why}",
        "none:e3m4 in ring and two_phase: overflow in 1 step",
        f"nvfp4:rounding=ties_to_even,rht=false in gather and two_phase: overflow in 1 step{why}",
    ]


def test_a_lone_shard_is_said_first(capsys, digits, tmp_path):
    assert (
        command("replay {} --scheme aps:e4m3 --steps 0:4 --shard 1/3 -o {}", digits, tmp_path / "s")
        == 0
    )
    capsys.readouterr()
    for words in (["summary"], ["compare"], ["report"]):
        more = {
            "summary": [],
            "compare": ["aps:e4m3", "aps:e4m3"],
            "report": ["-o", str(tmp_path / "r.html")],
        }[words[0]]
        assert main([*words, str(tmp_path / "s"), *more]) == 0
        assert (
            capsys.readouterr().err
            == "apscope: these results are only shard 1/3; join all 3 with apscope merge before "
            "you use the numbers\n"
        )


def test_a_terminal_leaves_out_what_it_has_no_place_for(capsys, monkeypatch):
    heads, rows = ["name", "one", "two"], [["aps", "1", "2000"], ["loss_scaling", "10", "3"]]
    print_table(heads, rows, words=["name"], fit=True)
    assert (
        capsys.readouterr().out
        == "name          one   two\naps             1  2000\nloss_scaling   10     3\n"
    )
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((20, 24)))
    print_table(heads, rows, words=["name"], fit=True)
    assert capsys.readouterr().out == "name          one\naps             1\nloss_scaling   10\n"
    print_table(heads, rows, words=["name"])
    assert "2000" in capsys.readouterr().out


FORMULAS = [
    "=cmd|' /C calc'!A0",
    "+1",
    "-2.5",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "'=1",
    "''-x",
    "＝1+1",
    "it's",
    "'quoted",
    "a=b",
    "",
    'say "no", twice',
    "12",
]


def test_a_name_is_no_formula_in_a_spreadsheet_and_reads_back(digits, tmp_path):
    results = apscope.replay(digits, "none:e4m3", steps="0:1", topology="ring")
    frame = results.frame.iloc[: len(FORMULAS)].copy()
    frame["tensor"], frame["role"], frame["note"] = FORMULAS, FORMULAS[::-1], FORMULAS
    apscope.Results(frame, results.histograms, json.loads(json.dumps(results.provenance))).save(
        tmp_path / "r"
    )
    cells = pd.read_csv(tmp_path / "r/results.csv", keep_default_na=False, dtype=str)
    for column in ("tensor", "role", "note"):
        assert not cells[column].str.match("[=+\\-@\t\r＝]").any()
    back = read_csv(tmp_path / "r/results.csv")
    assert (
        back.tensor.fillna("").tolist() == FORMULAS
        and back.role.fillna("").tolist() == FORMULAS[::-1]
    )
    assert back.sum_error.tolist() == frame.sum_error.tolist() and (back.sum_error < 0).any()


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """Results of a trace whose tensors have names that terminals would obey, that are long, or
    `all`; one gradient is NaN."""
    folder, names = tmp_path_factory.mktemp("odd"), ["all", "bell\a\x1b[31mred\nline", "n" * 3000]
    with TraceWriter(folder / "t", workers=2, metadata={"note\r": "x\x9b2J"}) as writer:
        for step in range(2):
            for worker in range(2):
                for i, name in enumerate(names):
                    x = (
                        np.random.default_rng([step, worker, i])
                        .standard_normal(64)
                        .astype(np.float32)
                    )
                    x[0] = np.nan if (step, worker, i) == (1, 0, 2) else x[0]
                    writer.add(step, worker, name, x)
            writer.end_step(step)
    return str(apscope.replay(folder / "t", ["none:e4m3", "aps:e4m3"]).save(folder / "r")), str(
        folder / "t"
    )


def test_names_cannot_steer_a_terminal_and_long_ones_are_clipped(capsys, odd):
    results, trace = odd
    for words in (
        ["summary", results, "--all-columns"],
        ["compare", results, "aps:e4m3", "none:e4m3"],
        ["info", trace],
    ):
        assert main(words) == 0
        out = capsys.readouterr().out
        assert (
            all(line.isprintable() for line in out.splitlines())
            and max(map(len, out.splitlines())) < 1200
        )
        assert "n" * 200 not in out
        if words[0] != "summary":  # which names the worst layer alone
            assert r"bell\x07\x1b[31mred\nline" in out and "nnnn…nnnn" in out
    assert r"note\r" in out and r"x\x9b2J" in out


def test_a_layer_called_all_is_told_from_all_layers(capsys, odd):
    table = apscope.Results.open(odd[0]).compare("aps:e4m3", "none:e4m3")
    assert table.layer.tolist()[:2] == ["all", "all"] and table.whole.tolist() == [
        True,
        False,
        False,
        False,
    ]
    main(["compare", odd[0], "aps:e4m3", "none:e4m3"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:4]] == [
        "all",
        "'all'",
    ]


def test_gradients_that_are_not_finite_are_told_on_standard_error(capsys, odd, folder):
    for words in (
        ["summary", odd[0]],
        ["compare", odd[0], "aps:e4m3", "none:e4m3"],
        ["summary", odd[0], "--csv"],
    ):
        assert main(words) == 0
        assert capsys.readouterr().err == f"apscope: {apscope.Results.open(odd[0]).not_finite}\n"
    assert apscope.Results.open(odd[0]).not_finite.startswith(
        "1 of 6 layer-steps have gradients that are NaN or infinite."
    )
    assert apscope.Results.open(folder).not_finite == ""
