"""apscope.search and `apscope search`: the table, JSON, CSV and text, and errors."""

import json

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._search.search import COLUMNS
from apscope.cli import main
from apscope.record import TraceWriter


@pytest.fixture(scope="module")
def digits(request):
    return str(request.config.rootpath / "notebooks/data/digits")


@pytest.fixture(scope="module")
def table(digits):
    return apscope.search(digits, bits=8)


def printed(capsys, *words):
    assert main(["search", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_the_page_says_what_it_finds(table):
    assert tuple(table.columns) == COLUMNS and table["layer"].unique().tolist() == ["all"]
    assert (
        table["scheme"][0] == "aps:e2m5finite,rule=tight,unit=32"
        and table["topology"][0] == "two_phase"
        and table["nearest_named"][0] == "e3m4fn"
    )
    assert {
        "none:e4m3fn",
        "none:e4m3b12",
        "aps:e5m2,rule=tight",
        "aps:hfp8_forward,rule=tight",
    } <= set(table["scheme"])
    kept = table[~table["stopped"]]
    assert (kept["bound"] / kept["step_nmse"] - 1).abs().max() < 1e-9


def test_reductions_rank_side_by_side(digits, table):
    """Each with its own best of every number of exponent bits, and the rows of a search of it."""
    ring = apscope.search(digits, bits=8, topology="ring")
    assert set(table["topology"]) == {"ring", "two_phase"} and set(ring["topology"]) == {"ring"}
    pd.testing.assert_frame_equal(
        table[table["topology"] == "ring"].reset_index(drop=True), ring, check_exact=True
    )
    assert ring["scheme"][0] == "aps:e3m4fn,rule=tight,unit=32"
    kept = table[~table["stopped"] & (table["overflowed"] == 0) & (table["lost_layers"] == 0)]
    assert kept["step_nmse"].is_monotonic_increasing
    best = kept.groupby(["topology", "exponent_bits"])["step_nmse"].min().unstack()
    assert (best.loc["ring"] > 2 * best.loc["two_phase"])[[2, 3, 4, 5]].all()
    with pytest.raises(ValueError, match="there is no topology to search in"):
        apscope.search(digits, bits=8, topology=[])


def test_a_scheme_has_no_row_in_a_reduction_that_it_does_not_have(digits):
    """Stochastic rounding gathers in place of a ring."""
    table = apscope.search(
        digits, 4, schemes=["stochastic:{format}", "aps:{format}"], specials="ieee", steps="0:3"
    )
    held = {name: set(part["topology"]) for name, part in table.groupby(table["scheme"].str[:3])}
    assert held == {"sto": {"gather", "two_phase"}, "aps": {"ring", "two_phase"}}
    for (scheme, topology), row in table.set_index(["scheme", "topology"]).iterrows():
        if not row["stopped"]:
            rows = apscope.replay(digits, scheme, topology=["two_phase"], steps="0:3").summary()
            if topology == "ring":
                rows = apscope.replay(digits, scheme, topology=["ring"], steps="0:3").summary()
            alone = rows.set_index("topology").at[topology, "error_over_noise"]
            assert row["error_over_noise"] == alone, (scheme, topology)


def test_what_is_equal_is_in_a_fixed_order(digits):
    """In APS a bias cancels: formats that differ in nothing else are equal, and the first that has
    a name comes first."""
    words = {"schemes": "aps:{format},rule=tight", "steps": "0:3", "topology": "ring"}
    table = apscope.search(digits, bits=8, **words)
    four = table[
        (table["exponent_bits"] == 4)
        & table["format"].isin(["e4m3fnuz", "e4m3b11fnuz", "e4m3finite"])
    ]
    assert four["error_over_noise"].nunique() == 1 and four["format"].tolist() == [
        "e4m3fnuz",
        "e4m3b11fnuz",
        "e4m3finite",
    ]
    pd.testing.assert_frame_equal(table, apscope.search(digits, bits=8, threads=1, **words))


def test_a_bias_is_a_constant_scale(digits):
    table = apscope.search(
        digits, bits=8, schemes="none:{biased}", specials="ieee", minimize="step_nmse",
        steps="0:10", topology="ring",
    ).set_index("scheme")  # fmt: skip
    scaled = apscope.replay(
        digits, "loss_scaling:e4m3,scale=32", topology="ring", steps="0:10"
    ).summary()
    assert table.at["none:e4m3b12", "step_nmse"] == pytest.approx(scaled["step_nmse"][0], rel=1e-12)


def test_one_worker_has_no_noise(digits):
    table = apscope.search(digits, bits=4, workers=1, steps="0:9")
    assert (
        table["error_over_noise"].isna().all()
        and table["step_nmse"][~table["stopped"]].is_monotonic_increasing
    )
    with pytest.raises(
        ValueError,
        match="minimize='error_over_noise' needs the noise of the "
        "batch, .*; use step_nmse for this trace",
    ):
        apscope.search(digits, bits=4, workers=1, steps="0:9", minimize="error_over_noise")


def test_every_layer_by_itself(digits):
    table = apscope.search(digits, bits=4, by="layer", steps="0:5")
    assert table["layer"].unique().tolist() == list(apscope.open_trace(digits).tensors)
    best = table.groupby("layer", sort=False).first()
    alone = apscope.replay(
        digits,
        best.at["norm.bias", "scheme"],
        topology=best.at["norm.bias", "topology"],
        steps="0:5",
        tensors="^norm.bias$",
    ).summary()
    assert best.at["norm.bias", "error_over_noise"] == alone["error_over_noise"][0]


def test_other_orders_of_the_additions(digits):
    table = apscope.search(digits, bits=4, topology="exact", steps="0:2", specials="fn")
    whole = apscope.replay(digits, table["scheme"][0], topology=[], steps="0:2").summary()
    assert table["error_over_noise"][0] == whole["error_over_noise"][0]


def test_json_is_what_scripts_rest_on(capsys, digits):
    given = json.loads(printed(capsys, digits, "--bits", "8", "--json", "--steps", "0:9"))
    assert list(given) == ["splits"]
    table = apscope.search(digits, bits=8, steps="0:9")
    assert [row["scheme"] for row in given["splits"]] == table["scheme"].tolist() and list(
        given["splits"][0]
    ) == list(COLUMNS)
    first, last = given["splits"][0], given["splits"][-1]
    assert (
        first["step_nmse"] == table["step_nmse"][0]
        and first["stopped"] is False
        and isinstance(first["exponent_bits"], int)
    )
    # Overflow.
    assert last["stopped"] is True and last["step_nmse"] is None and last["bound"] is None


def test_csv_has_all_columns(capsys, digits):
    lines = printed(capsys, digits, "--bits", "3", "--csv", "--steps", "0:2").splitlines()
    assert lines[0] == ",".join(COLUMNS) and len(lines) == 1 + len(
        apscope.search(digits, bits=3, steps="0:2")
    )


def test_the_text_names_the_best_and_the_nearest(capsys, digits, table):
    out = printed(capsys, digits, "--bits", "8")
    head, _, best, *_ = out.splitlines()
    assert (
        head
        == "digits: 199 splits of 8 bits, ring and two_phase, 52 steps; the best 10 by step_nmse"
        and best.split()[:2] == ["aps:e2m5finite,rule=tight,unit=32", "two_phase"]
    )
    lines = [line.split() for line in out.splitlines() if line.startswith("all ")]
    assert [line[1] for line in lines] == ["ring", "two_phase"]
    for line, spec, nearest in zip(
        lines, ("aps:e3m4fn", "aps:e2m5finite"), ("e3m4fn, itself", "e3m4fn:")
    ):
        assert " ".join(line[-3:]).startswith(f"{spec},rule=tight,unit=32 {nearest}")
        sound = table[(table["overflowed"] == 0) & (table["topology"] == line[1])]
        least = sound.groupby("exponent_bits")["step_nmse"].min()
        assert line[2:-3] == [f"{value:.2g}" for value in least]
    assert (
        f"{table['stopped'].sum()} of 398 rows stopped early, none of them a winner" in out
        and out.endswith("--bits 8\n")
    )


def test_the_nearest_named_format_has_the_best_of_its_schemes(capsys, digits):
    """A bias is a constant scale, so a named format alone would be far worse than the best split
    with another bias, and than the row of its exponent bits."""
    schemes = "none:{biased} aps:{format},rule=tight".split()
    words = [word for scheme in schemes for word in ("--scheme", scheme)]
    words += "--bits 8 --steps 0:4 --by layer --topology ring".split()
    out = printed(capsys, digits, *words)
    (line,) = [line for line in out.splitlines() if line.startswith("conv1.weight ")]
    assert line.split()[-4] == "none:e2m5fnb3"
    assert line.split()[-3:-1] == ["e3m4fn", "(aps:e3m4fn,rule=tight):"]
    table = apscope.search(
        digits, 8, by="layer", steps="0:4", topology="ring", schemes=schemes
    ).set_index(["layer", "scheme"])
    value = table.at[("conv1.weight", "aps:e3m4fn,rule=tight"), "step_nmse"]
    assert line.split()[-1] == f"{value:.2g}"


def test_repeated_kinds_of_top_codes_add_up(capsys, digits):
    one, two = (
        json.loads(printed(capsys, digits, *f"--bits 4 --steps 0:2 --json {kinds}".split()))
        for kinds in ("--specials ieee,fn", "--specials ieee --specials fn")
    )
    assert one == two


def test_the_text_has_a_row_a_layer(capsys, digits):
    words = (
        "--bits 4 --by layer --steps 0:5 --scheme none:{format} --specials ieee --minimize "
        "layer_cosine --topology ring"
    )
    out = printed(capsys, digits, *words.split())
    assert out.splitlines()[1].split() == [
        "layer",
        "reduction",
        "e1m2",
        "e2m1",
        "e3m0",
        "best",
        "nearest",
        "named",
    ]
    rows = {line.split()[0]: line.split()[2:] for line in out.splitlines()[2:8]}
    assert set(rows) == set(apscope.open_trace(digits).tensors) and rows["head.bias"][-2:] == [
        "e3m0,",
        "itself",
    ]
    assert any("overflow" in cells for cells in rows.values()) and all(
        float(cells[2]) <= 1 for cells in rows.values()
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{}", "--bits", "2"], "bits=2 is not between 3 and 16"),
        (["{}", "--bits", "eight"], "search: --bits 'eight' must be an integer"),
        (["{}"], "search: the following arguments are required: --bits"),
        (["--bits", "8"], "search: the following arguments are required: TRACE"),
        (["nowhere", "--bits", "8"], "nowhere is not a trace: it does not exist"),
        (
            ["{}", "--bits", "8", "--json", "-o", "x.json"],
            "search has no argument '-o'; see apscope search --help",
        ),
        (
            ["{}", "--bits", "8", "--json", "--csv"],
            "search: argument --csv: not allowed with argument --json",
        ),
        (
            ["{}", "--bits", "8", "--scheme", "aps:e4m3"],
            "the scheme 'aps:e4m3' must have {{format}} in place of its "
            "format, or {{biased}} for every bias",
        ),
        (
            ["{}", "--bits", "8", "--minimize", "volume"],
            "minimize='volume' is unknown; use one of step_nmse, error_over_noise, worst_nmse, "
            "layer_cosine",
        ),
        (["{}", "--bits", "8", "--by", "step"], "by='step' is unknown; use all or layer"),
        (
            ["{}", "--bits", "8", "--specials", "nan"],
            "unknown special values 'nan'; use ieee, fn, finite",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(capsys, digits, words, sentence):
    assert main(["search", *(word.replace("{}", digits) for word in words)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err == f"apscope: {sentence.format()}\n"


@pytest.mark.parametrize(
    "wrong",
    [
        {"bits": 2},
        {"schemes": "aps:e4m3"},
        {"specials": "nan"},
        {"minimize": "volume"},
        {"by": "step"},
        {"stop": 1},
    ],
)
def test_what_is_wrong_is_said_before_anything_is_replayed(digits, wrong, monkeypatch):
    monkeypatch.setattr("apscope._search.search.replay", lambda *_, **__: pytest.fail("replayed"))
    with pytest.raises((ValueError, TypeError)):
        apscope.search(digits, **wrong)


def test_gradients_of_zeros_are_refused(tmp_path):
    with TraceWriter(tmp_path / "zeros", workers=2) as writer:
        for worker in range(2):
            writer.add(0, worker, "w", np.zeros(3, np.float32))
        writer.end_step(0)
    with pytest.raises(ValueError, match="zero wherever they are finite"):
        apscope.search(tmp_path / "zeros")


def test_gradients_that_are_not_finite_are_told(tmp_path, capsys):
    with TraceWriter(tmp_path / "odd", workers=2) as writer:
        for worker in range(2):
            writer.add(
                0, worker, "w", np.array([1.0, 0.3, np.nan, np.inf], np.float32) * (1 + worker)
            )
        writer.end_step(0)
    assert (apscope.search(tmp_path / "odd", 5, stop=False)["nonfinite"] == 1).all()
    assert "nonfinite" in printed(capsys, str(tmp_path / "odd"), "--bits", "5").splitlines()[1]
