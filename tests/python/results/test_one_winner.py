"""Summary, ladder, search, recommend and the report name one best scheme of a width."""

import re
from pathlib import Path

import numpy as np
import pytest

import apscope
from apscope._report.first import chosen
from apscope._report.shown_schemes import front, topology_of
from apscope._results.ranking import RANKS, UNSOUND, finest_block
from apscope._results.winners import bits_of, winner, winners
from apscope.cli import main
from tests.python.bundled import BUNDLED
from tests.python.recorded import record

DATA = Path(__file__).parents[3] / "notebooks" / "data"
#: A plan's bytes of a width, with the scales of the finest blocks.
VOLUMES = {8: 0.28, 4: 0.17}


def _told(capsys, *words) -> dict[int, tuple[str, str]]:
    """By width, the scheme and the reduction that a command names as the best."""
    assert main([str(word) for word in words]) == 0
    found = re.findall(
        r"best of at most (\d+) bits by (\w+), [^:]+: (\S+) in (\w+);", capsys.readouterr().out
    )
    assert {figure for _, figure, *_ in found} == {RANKS}
    return {int(bits): (scheme, topology) for bits, _, scheme, topology in found}


@pytest.mark.parametrize("name", BUNDLED)
def test_every_answer_names_the_same_scheme(name, capsys):
    trace = apscope.open_trace(DATA / name)
    results = apscope.replay(trace, ["main"], topology=["ring", "two_phase"])
    bits = bits_of(results.frame)
    table = results.summary()
    told = {best.bits: best for best in winners(table, bits)}
    assert sorted(told) == [4, 8]
    of_ladder = _told(capsys, "ladder", DATA / name)
    headline, _ = chosen(front(table, topology_of(results.frame)), bits)
    for width, best in told.items():
        side = (best.scheme, best.topology)
        assert best.measure == RANKS
        assert of_ladder[width] == side
        assert _told(capsys, "search", DATA / name, "--bits", width) == {width: side}
        plan = apscope.recommend(results, max_volume=VOLUMES[width])
        assert plan.single == best.scheme
        if width == 8:
            assert (headline["scheme"], headline["topology"]) == side


def _trace(tmp_path, layers):
    """Two workers, two steps; each layer's gradient times a size."""
    draws = np.random.default_rng(5)
    return record(tmp_path / "t", [
        {layer: np.float32(size * draws.normal(size=(2, 64))) for layer, size in layers.items()}
        for _ in range(2)
    ])  # fmt: skip


def test_what_loses_a_layer_is_never_the_best(tmp_path):
    # One scale for both layers: the small one is below e3m4's smallest number, and is 2^-24 of the
    # squared gradient, so no other figure of the whole model sees it.
    results = apscope.replay(
        _trace(tmp_path, {"large": 1.0, "small": 2.0**-12}),
        ["loss_scaling:e3m4,scale=largest,rule=tight", "aps:e2m5finite,rule=tight,unit=model",
         "aps:e5m2,rule=tight"],
        topology="two_phase",
    )  # fmt: skip
    table = results.summary().set_index("scheme")
    lost = table["lost_layers"]
    assert lost.to_dict() == {
        "aps:e5m2,rule=tight": 0,
        "loss_scaling:e3m4,scale=largest,rule=tight": 1,
        "aps:e2m5finite,rule=tight,unit=model": 1,
    }
    assert list(table.index)[0] == "aps:e5m2,rule=tight"
    assert table[RANKS].idxmin() == "aps:e2m5finite,rule=tight,unit=model"
    best = winner(results.summary(), bits_of(results.frame), 8)
    assert best.scheme == "aps:e5m2,rule=tight"
    # By the layer, of the rows themselves.
    rows = results.frame[results.frame["stage"] == "reduced"]
    sums = rows.groupby(["scheme", "tensor"])[["sum_product", "sum_squared_reference"]].sum()
    gone = sums["sum_product"] < 0.5 * sums["sum_squared_reference"]
    assert gone.groupby(level=0).sum().to_dict() == lost.to_dict()
    # Nor does a plan choose it, although the layer costs nothing of the whole model's NMSE.
    plan = apscope.recommend(results, max_volume=0.3)
    small = plan.layers.set_index("layer").loc["small"]
    assert small["scheme"] == "aps:e5m2,rule=tight"


def test_another_figure_that_disagrees_is_told(capsys, tmp_path):
    apscope.replay(DATA / "resnet18", ["main"], topology="two_phase").save(tmp_path / "r")
    assert main(["summary", str(tmp_path / "r")]) == 0
    out = capsys.readouterr().out
    assert "best of at most 8 bits by step_nmse" in out
    assert "by error_over_noise mx:block_format=mxint8 in two_phase is better" in out


def test_the_finest_blocks_are_those_of_the_hardware():
    assert [finest_block(bits) for bits in (3, 4, 5, 8, 16)] == [16, 16, 32, 32, 32]
    assert apscope.BlockFormat("mxfp8_e4m3").block_size == finest_block(8)
    assert apscope.BlockFormat("nvfp4").block_size == finest_block(4)


def test_unsound_counts_are_columns_of_a_summary():
    from apscope._results.summary import COLUMNS

    assert set(UNSOUND) <= set(COLUMNS)
