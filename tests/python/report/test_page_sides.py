"""A against B in the page, each in its own reduction: the numbers of `Results.compare`."""

import pytest

import apscope
from apscope import plots
from apscope._report import page
from tests.python.report.test_page_browser import shown


def test_each_side_of_a_pair_has_its_own_reduction(browser, request, tmp_path):
    trace = request.config.rootpath / "notebooks/data/digits"
    specs = ["aps:e3m4", "loss_scaling:e3m4,scale=largest", "stochastic:e3m4"]
    results = apscope.replay(trace, specs, steps=[0, 8, 240], topology=["ring", "two_phase"])
    shown(browser, page(results), tmp_path)
    names = {"two_phase": "two phases", "gather": "gathered", "exact": "exact", "ring": "ring"}
    for a, of_a, b, of_b in (
        ("aps:e3m4", "two_phase", "aps:e3m4", "ring"),
        ("aps:e3m4", "ring", "stochastic:e3m4", "gather"),
        ("loss_scaling:e3m4,scale=largest", "two_phase", "aps:e3m4", "exact"),
    ):
        browser.select(a=a, b=b, aReduction=of_a, bReduction=of_b)
        table = results.compare(f"{a}@{of_a}", f"{b}@{of_b}").set_index("layer")
        assert set(zip(table.topology_a, table.topology_b)) == {(of_a, of_b)}
        sums = table.drop("all")[["steps", "wins", "losses", "ties"]].sum()
        told = browser.run("document.querySelector('#versus .said').textContent")
        assert f"A = {a}, {names[of_a]}" in told and f"B = {b}, {names[of_b]}" in told
        assert (
            f"of {sums.steps} pairs of a layer and a step A loses less in {sums.wins}, more in "
            f"{sums.losses}, as much in {sums.ties}." in told
        )
        rows = browser.versus()
        assert len(browser.texts("#versus thead th")) == 9
        assert {row[0] for row in rows} == set(table.index) - {"all"}
        for layer, wins, losses, *texts, _, _ in rows:
            own = table.loc[layer]
            assert (int(wins), int(losses)) == (own["wins"], own["losses"])
            for text, name in zip(texts, ("median_ratio", "worst_ratio", "nmse_a", "nmse_b")):
                number = text.replace("\u00a0", "").replace("−", "-")
                if "×" not in number:
                    assert float(number) == pytest.approx(own[name], rel=6e-3)
    # A reader chooses: a list for each side; the bar's reduction takes both back to its own.
    lists = "[...document.querySelectorAll('#versus .tools select')].map((s) => s.value)"
    assert browser.run(lists) == [a, of_a, b, of_b]
    browser.choose("#versus select[aria-label='A reduced by']", "ring")
    assert browser.run(lists) == [a, "ring", b, of_b]
    browser.choose("#filters select[aria-label='reduction']", "two_phase")
    assert browser.run(lists) == [a, "two_phase", b, "two_phase"]
    assert browser.messages == []


@pytest.mark.parametrize("phases", ["two_phase", "hierarchical:2(two_phase,two_phase)"])
def test_additions_are_told_of_the_messages_that_they_add(browser, request, tmp_path, phases):
    """The exact sum of a ring's messages says nothing of those that two phases send."""
    trace = request.config.rootpath / "notebooks/data/digits"
    results = apscope.replay(trace, "aps:e3m4", steps=[0, 8], topology=["ring", phases])
    table = results.compare(f"aps:e3m4@{phases}", "aps:e3m4@ring")
    assert table.accumulation_a.isna().all() and table.accumulation_b.notna().all()
    shown(browser, page(results), tmp_path)
    browser.select(a="aps:e3m4", b="aps:e3m4", aReduction=phases, bReduction="ring")
    for side in "AB":
        browser.run(
            f"document.querySelector('#versus .menu input[value=\"accumulation {side}\"]').click()"
        )
    rows = browser.versus()
    assert {row[-2] for row in rows} == {"–"} and "–" not in {row[-1] for row in rows}
    # Its layers open, without a line for an exact sum of A; two phases are no order of additions.
    browser.run("document.querySelector('#versus tbody button').click()")
    browser.wait("document.querySelectorAll('#versus .detail .plot svg[role=img]').length == 4")
    says = browser.run("document.querySelector('#order svg[role=img]').getAttribute('aria-label')")
    legend = plots.accumulation_error(results).figure.legends + [
        part for ax in plots.accumulation_error(results).figure.axes if (part := ax.get_legend())
    ]
    assert {text.get_text() for one in legend for text in one.get_texts()} == {"ring"}
    assert says == "NMSE of 1 schemes, summed exactly and in ring." and browser.messages == []


def test_the_maps_of_underflow_are_of_what_each_side_sends(browser, request, tmp_path):
    """In two phases a scale leaves no room for the sum, so less underflows than in a ring."""
    trace = request.config.rootpath / "notebooks/data/digits"
    spec = "aps:e3m4,rule=tight"
    results = apscope.replay(trace, spec, steps=[0, 8, 240], topology=["ring", "two_phase"])
    wire = results.frame[results.frame["stage"] == "wire"]
    rates = {}
    for topology in ("ring", "two_phase"):
        own = wire[wire["topology"].isin([topology])]
        rows = own if len(own) else wire[wire["topology"] == ""]
        rates[topology] = (rows["underflow"] / rows["nonzero"]).max()
    assert rates["two_phase"] < rates["ring"] / 2
    shown(browser, page(results), tmp_path)
    for sides in (("two_phase", "ring"), ("ring", "two_phase")):
        browser.select(a=spec, b=spec, aReduction=sides[0], bReduction=sides[1])
        figures = "[...document.querySelectorAll('#underflow .pair > figure')]"
        told = browser.run(f"{figures}.map((f) => f.querySelector('figcaption').textContent)")
        labels = browser.run(
            f"{figures}.map((f) => f.querySelector('svg[role=img]').getAttribute('aria-label'))"
        )
        for name, topology, caption, label in zip("AB", sides, told, labels, strict=True):
            called = topology.replace("two_phase", "two phases")
            assert caption == f"{name} = {spec}, {called}, by layer and step"
            worst = float(label.partition("Worst: ")[2].split(": ")[1].split("%")[0])
            assert worst == pytest.approx(100 * rates[topology], rel=0.06), label
    assert browser.messages == []


def test_a_layer_of_a_trace_of_one_step_opens_without_a_warning(browser, request, tmp_path):
    """The library marks a chart of which it warns."""
    trace = request.config.rootpath / "notebooks/data/digits"
    results = apscope.replay(trace, ["aps:e4m3", "none:e5m2"], steps=[8], topology="ring")
    shown(browser, page(results), tmp_path)
    browser.run("document.querySelector('#versus tbody button').click()")
    browser.wait("document.querySelectorAll('#versus .detail .plot svg[role=img]').length == 4")
    assert browser.messages == [] and "\u26a0" not in browser.run("document.body.textContent")
