"""A plan names the single candidate that the error it does not minimize prefers."""

import pytest

import apscope
from apscope._advice.show import notes
from apscope._results.winners import LEVEL

SCHEMES = ["aps:e2m5finite,rule=tight,unit=32", "mx:block_format=mxint8", "aps:e4m3fn,rule=tight"]
PAIR = {"step_nmse": "error_over_noise", "error_over_noise": "step_nmse"}


@pytest.fixture(scope="module")
def tables(request):
    """Of two traces: the figures of each scheme alone, and what recommend chooses from."""
    found = {}
    for name in ("resnet18", "digits"):
        trace = apscope.open_trace(request.config.rootpath / "notebooks/data" / name)
        steps = trace.steps[:4]
        found[name] = apscope.replay(trace, SCHEMES, steps=steps, topology="two_phase")
    return found


def said(plan):
    return [note for note in notes(plan) if note.startswith("of the single candidates")]


@pytest.mark.parametrize("minimize", PAIR)
def test_the_other_figures_choice_is_named(tables, minimize):
    other = PAIR[minimize]
    table = tables["resnet18"].summary()
    table = table[table["topology"] == "two_phase"].set_index("scheme")
    own, better = table[minimize].idxmin(), table[other].idxmin()
    assert [own, better] == (SCHEMES[:2] if minimize == "step_nmse" else SCHEMES[1::-1])
    assert table.loc[better, other] * LEVEL < table.loc[own, other]
    plan = apscope.recommend(tables["resnet18"], minimize=minimize, max_volume=0.28, holdout=False)
    assert plan.single == own
    assert said(plan) == [
        f"of the single candidates, by {other} {better} in two_phase is better, "
        f"{table.loc[better, other]:.3g} instead of {table.loc[own, other]:.3g}, on the steps it "
        f"was chosen by{', not corrected' * (other == 'error_over_noise')}"
    ]
    # The table beside has the corrected one, and says so.
    assert "error/noise corrected, 95 %" in str(plan)


def test_nothing_is_named_where_both_agree(tables):
    assert not said(apscope.recommend(tables["digits"], max_volume=0.28, holdout=False))


def test_nothing_is_named_where_a_cost_is_minimized(tables):
    plan = apscope.recommend(tables["resnet18"], minimize="volume", max_nmse=1.0, holdout=False)
    assert not said(plan)
