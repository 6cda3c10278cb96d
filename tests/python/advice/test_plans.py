"""Plans against brute force, and the sums of the table against a replay of the mixture."""

import json

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope import hybrid
from apscope._advice.objective import figures, total_of
from apscope._advice.spec import spec_of_plan
from apscope._advice.table import table_of
from apscope._advice.units import Unit
from apscope.cost import Network
from tests.python.advice.cases import CANDIDATES, every_mixture, normal, recorded

COMPARED = ("volume", "time", "error_over_noise", "step_nmse", "layer_cosine", "underflow_wire")


@pytest.fixture(scope="module")
def whole(results):
    """The plan chosen with all steps."""
    return apscope.recommend(results, max_volume=1, holdout=False)


def mixture_sums(plan, figure):
    """The best of all 6^6 mixtures."""
    adds = total_of(plan._table.chosen, figure).adds
    return adds[np.arange(len(adds)), every_mixture(*adds.shape)].sum(axis=1)


@pytest.mark.parametrize("minimize", ["error_over_noise", "step_nmse"])
@pytest.mark.parametrize("volume", [0.13, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5])
def test_a_plan_is_the_best_of_all_6_to_the_6_mixtures(whole, minimize, volume):
    fits = mixture_sums(whole, "volume") <= volume + 0.001
    errors = mixture_sums(whole, minimize)[fits]
    least = 2 ** errors.min() if minimize == "error_over_noise" else errors.min()
    plan = whole.solve(minimize, max_volume=volume, simplest=False)
    row = plan.figures[plan.figures["what"] == "plan"].iloc[0]
    assert (
        row[minimize] == pytest.approx(least, rel=1e-12)
        and row["volume"] <= volume + 0.001
        and plan.gap == 0
    )


def test_a_plan_under_several_limits_is_the_best_of_all_mixtures(whole):
    limits = {
        "max_nmse": 0.05,
        "max_error_over_noise": 0.05,
        "min_cosine": 0.95,
        "max_underflow": 0.6,
    }
    sums = whole._table.chosen
    fits = (
        (mixture_sums(whole, "step_nmse") <= 0.05)
        & (mixture_sums(whole, "error_over_noise") <= np.log2(0.05))
        & (mixture_sums(whole, "layer_cosine") <= -0.95)
    )
    rows, mixtures = np.arange(6), every_mixture(6, 6)
    fits &= sums.underflow[rows, mixtures].sum(axis=1) <= 0.6 * sums.nonzero[rows, mixtures].sum(
        axis=1
    )
    assert 0 < fits.sum() < len(fits)
    plan = whole.solve("volume", simplest=False, **limits)
    row = plan.figures[plan.figures["what"] == "plan"].iloc[0]
    assert row["volume"] == pytest.approx(mixture_sums(whole, "volume")[fits].min(), rel=1e-12)
    assert (
        row["step_nmse"] <= 0.05
        and row["error_over_noise"] <= 0.05
        and row["layer_cosine"] >= 0.95
        and row["underflow_wire"] <= 0.6
    )


def test_sums_of_200_random_mixtures_are_what_their_replay_measures(digits, whole):
    """For schemes that decide for each layer separately."""
    table, draw = whole._table, np.random.default_rng(0)
    tensors = {t.name: t.size for t in digits.manifest.tensors}
    mixtures = {}
    while len(mixtures) < 200:
        options = draw.integers(0, len(table.candidates), len(table.units))
        mixtures[
            spec_of_plan(
                table.units, [table.candidates[k] for k in options], tensors, by_role=False
            )
        ] = options
    replayed = apscope.replay(digits, list(mixtures), topology="ring").summary()
    replayed = replayed[replayed["topology"] == "ring"].set_index("scheme")
    assert len(replayed) == 200
    for spec, options in mixtures.items():
        predicted = figures(table, table.chosen, options)
        for column in COMPARED:
            assert predicted[column] == pytest.approx(
                replayed.at[apscope.schemes.Scheme(spec).spec, column], rel=1e-12
            ), (spec, column)


@pytest.mark.parametrize("name", ["digits", "gpt"])
def test_a_table_of_single_schemes_is_their_summary(request, name):
    """Also schemes with their own reductions, grids and side information."""
    trace = request.config.rootpath / "notebooks/data" / name
    schemes = [
        *CANDIDATES,
        "mx",
        "sign",
        "powersgd",
        "qsgd",
        "aps:e3m4,unit=32",
        "integer_allreduce:bits=8",
        "stochastic:e4m3",
        "dynamic_loss_scaling:fp16",
    ]
    found = apscope.replay(trace, schemes, topology="ring")
    ranked = found.summary()
    ranked = ranked[ranked["topology"] != "exact"].set_index("scheme")
    plan = apscope.recommend(found, max_volume=1, holdout=False)
    table = plan._table
    for k, spec in enumerate(table.candidates):
        own = figures(table, table.chosen, np.full(len(table.units), k))
        for column in (*COMPARED, "error_over_noise_low", "error_over_noise_high"):
            if ranked.at[spec, "gaps"] and column.startswith(("error_over_noise", "step_nmse")):
                assert np.isnan(own[column]), (spec, column)  # memory, and steps with gaps: no rank
                continue
            assert own[column] == pytest.approx(ranked.at[spec, column], rel=1e-12), (spec, column)


def test_a_plan_is_replayed_and_stands_beside_its_prediction(digits):
    plan = apscope.recommend(digits, CANDIDATES, max_volume=0.2)
    rows = plan.figures.set_index(["what", "steps"])
    for steps in ("chosen", "held out"):
        for column in COMPARED:
            assert rows.at[("plan", steps), column] == pytest.approx(
                rows.at[("plan replayed", steps), column], rel=1e-12
            )
    assert plan.about["changed"] == []


def test_schemes_that_look_at_several_layers_are_told(request):
    """The best constant for some layers differs from that for all of them."""
    trace = request.config.rootpath / "notebooks/data/resnet18"
    plan = apscope.recommend(
        trace,
        ["loss_scaling:e3m4,scale=largest", "none:fp16"],
        minimize="step_nmse",
        max_volume=0.3,
        holdout=False,
        topology="ring",
    )
    rows = plan.figures.set_index("what")["step_nmse"]
    assert plan.about["changed"] == ["loss_scaling:e3m4,scale=largest"] and "not separable" in str(
        plan
    )
    assert rows["plan replayed"] < 0.6 * rows["plan"] and rows["plan"] < rows["single"]
    # The answer is the replayed row, which counts.
    assert f"step_nmse {rows['plan replayed']:.3g} when replayed at volume" in plan.verdict()
    assert plan.against_single("chosen")[0] > 1.5 * rows["single"] / rows["plan"]
    again = apscope.replay(trace, plan, topology="ring").summary()
    assert again.loc[again["topology"] == "ring", "step_nmse"].item() == pytest.approx(
        rows["plan replayed"], rel=1e-12
    )


def test_a_mixture_that_fails_when_it_is_replayed_is_chosen_again_without_what_changed(
    request, monkeypatch
):
    from apscope._advice import planning as module

    monkeypatch.setattr(module, "_fails", lambda plan: not plan._banned)
    trace = request.config.rootpath / "notebooks/data/resnet18"
    candidates = ["loss_scaling:e3m4,scale=largest", "aps:e3m0", "none:fp16"]
    plan = apscope.recommend(
        trace, candidates, minimize="step_nmse", max_volume=0.4, holdout=False, topology="ring"
    )
    assert set(plan.layers["scheme"]) == {"aps:e3m0", "none:fp16"} and plan.single == candidates[0]
    assert f"only alone, not in mixtures: {candidates[0]}" in str(plan)
    assert candidates[0] not in plan.solve("step_nmse", max_volume=0.28, simplest=False).spec


@pytest.mark.parametrize(
    "groups, periods",
    [
        ("layer", 1),
        ("layer", 3),
        ("role", 2),
        ("module", 1),
        ("bucket:2KB", 1),
        ("^(conv|head)", 2),
        ("model", 4),
    ],
)
def test_groups_and_periods_share_a_choice_and_are_replayed_so(digits, groups, periods):
    plan = apscope.recommend(
        digits,
        CANDIDATES,
        max_volume=0.2,
        groups=groups,
        periods=periods,
        holdout="26:30",
        simplest=False,
    )
    rows = plan.figures.set_index(["what", "steps"])
    for steps in ("chosen", "held out"):
        for column in ("volume", "time", "error_over_noise", "step_nmse"):
            assert rows.at[("plan", steps), column] == pytest.approx(
                rows.at[("plan replayed", steps), column], rel=1e-12
            ), (steps, column)
    assert rows.at[("plan", "chosen"), "volume"] <= 0.201
    assert (plan.layers.groupby("layer", sort=False).size() == periods).all()
    assert plan.layers["tensors"].sum() == 6 * periods


def test_more_periods_and_smaller_groups_are_never_worse_on_the_steps_chosen_by(results):
    def error(**options):
        return apscope.recommend(
            results, max_volume=0.2, holdout=False, simplest=False, **options
        ).figures.iloc[0]["error_over_noise"]

    assert error() <= error(groups="module") <= error(groups="model")
    assert error(periods=4) <= error(periods=2) <= error()


def test_buckets_are_those_of_aps(request):
    """The first tensor of a bucket has the side information."""
    trace = apscope.open_trace(request.config.rootpath / "notebooks/data/resnet18")
    frame = apscope.replay(trace, "aps:e4m3,unit=bucket:20KB", topology="ring", steps=[10]).frame
    wire = frame[frame["stage"] == "wire"]
    first_of_bucket = set(wire.loc[wire["side_bits"] > 0, "tensor"])
    plan = apscope.recommend(
        apscope.replay(trace, CANDIDATES, topology="ring"), max_volume=0.2, groups="bucket:20KB"
    )
    units = plan._table.units
    assert {unit.tensors[-1] for unit in units} == first_of_bucket and len(units) == len(
        first_of_bucket
    ) > 3


def test_fixed_layers_have_what_they_are_given(digits):
    plan = apscope.recommend(digits, CANDIDATES[1:], max_volume=0.3, fixed={"head": "none:fp16"})
    schemes = plan.layers.set_index("layer")["scheme"]
    assert schemes["head.weight"] == schemes["head.bias"] == "none:fp16"
    grouped = apscope.recommend(
        digits, CANDIDATES[1:], max_volume=0.3, fixed={"head.bias": "none:fp16"}, groups="module"
    ).layers.set_index("layer")
    assert grouped.at["head.bias", "scheme"] == "none:fp16" and grouped.at["conv2", "tensors"] == 1


def test_no_layer_is_worse_than_max_layer_error(results):
    loose, strict = (
        apscope.recommend(results, max_volume=0.3, max_layer_error=most) for most in (None, 0.01)
    )
    assert strict.layers["error"].max() <= 0.01
    assert loose.solve(max_volume=0.16, simplest=False).layers["error"].max() > 0.1
    with pytest.raises(ValueError, match="max_layer_error=1e-12 is out of reach"):
        loose.solve(max_volume=0.3, max_layer_error=1e-12)


def renamed(results, first, second):
    """Results in which the second scheme has the rows of the first one."""
    frame = results.frame[results.frame["scheme"].isin([first, second])].reset_index(drop=True)
    columns = frame.columns.difference(["scheme"])
    frame.loc[frame["scheme"] == second, columns] = frame.loc[
        frame["scheme"] == first, columns
    ].to_numpy()
    return frame


def test_equal_candidates_make_the_simpler_plan_of_the_first(results):
    frame = renamed(results, CANDIDATES[1], CANDIDATES[2])
    equal = apscope.Results(frame, results.histograms, results.provenance, results.noise)
    for simplest in (False, True):
        plan = apscope.recommend(equal, max_volume=0.26, simplest=simplest)
        assert plan.spec == CANDIDATES[1]
    assert (
        apscope.recommend(equal, [CANDIDATES[2], CANDIDATES[1]], max_volume=0.26).spec
        == CANDIDATES[2]
    )


def test_one_layer_of_random_halves_is_indistinguishable(results):
    """Two candidates whose difference has no sign over the steps: one scheme for all wins."""
    second, draw = CANDIDATES[2], np.random.default_rng(5)
    frame = renamed(results, CANDIDATES[1], second)
    rows = (frame["scheme"] == second) & (frame["topology"] == "ring")
    frame.loc[rows, "sum_log2_error_over_noise"] += draw.normal(0, 0.1, rows.sum()) * frame.loc[
        rows, "noise_blocks"
    ].to_numpy(float)
    noisy = apscope.Results(frame, results.histograms, results.provenance, results.noise)
    plan = apscope.recommend(noisy, minimize="error_over_noise", max_volume=0.26, holdout=False)
    assert len(set(plan.layers["scheme"])) == 1 and (
        "indistinguishable" in plan.verdict() or "hundredth" in plan.verdict()
    )
    assert len(set(plan.solve(max_volume=0.26, simplest=False).layers["scheme"])) == 2


def test_limits_out_of_reach_are_refused_with_what_is_within(whole, results):
    with pytest.raises(
        ValueError,
        match=r"max_volume=0.1 is out of reach: the volume of these candidates lies between "
        r"0\.12\d+ and 0\.5",
    ):
        whole.solve(max_volume=0.1)
    with pytest.raises(
        ValueError,
        match="max_nmse=1e-09 is out of reach: the step_nmse of these candidates lies between",
    ):
        whole.solve(max_nmse=1e-9)
    with pytest.raises(ValueError, match="min_cosine=1 is out of reach"):
        whole.solve(min_cosine=1.0)
    # One candidate: there are no two ends.
    with pytest.raises(ValueError, match=r"the volume of these candidates is 0\.5$"):
        apscope.recommend(results, ["none:bf16"], max_volume=0.2)
    with pytest.raises(
        ValueError,
        match=r"max_volume=0.2 is out of reach together with max_nmse=0.001: under these the least "
        r"volume is 0\.\d+",
    ):
        whole.solve(max_volume=0.2, max_nmse=0.001)
    with pytest.raises(ValueError, match="together") as error:
        whole.solve(max_volume=0.2, max_nmse=0.001)
    least = float(str(error.value).split()[-1])
    assert whole.solve("volume", max_nmse=0.001, simplest=False).figures.iloc[0][
        "volume"
    ] == pytest.approx(least, rel=1e-3)


def test_overflow_keeps_a_candidate_out(request):
    """A constant of 16 overflows in some layers and steps of resnet18."""
    constant = "loss_scaling:e3m0,scale=16"
    results = apscope.replay(
        request.config.rootpath / "notebooks/data/resnet18",
        [constant, "aps:e3m0"],
        topology="ring",
    )
    rows = results.frame[results.frame["scheme"] == constant]
    assert 0 < (rows["overflow"] > 0).mean() < 0.5
    plan = apscope.recommend(results, max_volume=0.13, holdout=False)
    assert plan.single == "aps:e3m0" and plan.figures["overflowed"].max() == 0


FILLS = {
    "one layer of zeros": lambda draw, layer, step: (
        np.zeros(64) if layer == "b.bias" else normal(draw)
    ),
    "an empty layer": lambda draw, layer, step: np.zeros(0) if layer == "b.bias" else normal(draw),
    "a NaN": lambda draw, layer, step: np.where(np.arange(64) == step, np.nan, normal(draw)),
    "normal": normal,
}


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize(
    "options",
    [{}, {"workers": 2}, {"workers": 1}, {"workers": 1, "stage": "clipped"}, {"steps": 1}],
    ids=str,
)
def test_odd_traces_have_plans_that_are_replayed_as_predicted(tmp_path, fill, options):
    draw = np.random.default_rng(0)
    trace = recorded(tmp_path / "t", lambda layer, step: FILLS[fill](draw, layer, step), **options)
    plan = apscope.recommend(trace, ["none:fp16", "aps:e4m3", "aps:e3m0", "mx"], max_volume=0.2)
    rows = plan.figures.groupby("steps")
    for _, part in rows:
        part = part.set_index("what")
        for column in COMPARED:
            assert part.at["plan", column] == pytest.approx(
                part.at["plan replayed", column], rel=1e-12, nan_ok=True
            )
    assert plan.figures["volume"].max() <= 0.201 and str(plan)
    assert apscope.Plan.open(plan.save(tmp_path / "plan.json")) == plan


def test_one_worker_has_no_time(tmp_path):
    trace = recorded(
        tmp_path / "t", lambda layer, step: normal(np.random.default_rng(step)), workers=1
    )
    with pytest.raises(ValueError, match="time needs an exchange between workers"):
        apscope.recommend(trace, ["none:fp16", "aps:e4m3"], minimize="time")


def test_the_front_is_exact_and_falls(whole):
    front, error = whole.front, whole.wish.error
    assert (front["volume"].diff().dropna() > 0).all()
    assert (front[error].diff().dropna() < 0).all()
    for row in front.itertuples():
        same = whole.solve(max_volume=max(row.volume - 0.001, 0), simplest=False).figures.iloc[0]
        assert same[error] <= getattr(row, error) * (1 + 1e-9)


def test_two_candidates_and_one_step_are_what_hybrid_greedy_promotes(digits):
    """`greedy` has the same front of pooled NMSE and bits; one step's pooled NMSE is its own."""
    results = apscope.replay(digits, ["aps:e3m0", "aps:e5m2"], topology="ring", steps=[5])
    front = apscope.recommend(results, minimize="step_nmse", max_volume=0.2).front
    promoted = hybrid.greedy(results, "aps:e3m0", "aps:e5m2", bits=9, topology="ring").front
    assert len(front) == len(promoted)
    assert np.allclose(front["step_nmse"], promoted["nmse"], rtol=1e-12)


def test_layers_say_why(whole):
    plan = whole.solve("error_over_noise", max_volume=0.14, simplest=False)
    layers = plan.layers.set_index("layer")
    low = layers[layers["scheme"] == "aps:e3m0"].iloc[0]
    assert (
        low["loses_by"].startswith("underflow")
        and low["cheaper"] == ""
        and low["better_error"] < low["error"]
    )
    better = layers[layers["scheme"] != "aps:e3m0"].iloc[0]
    assert better["cheaper_volume"] < better["volume"] and better["cheaper_error"] > better["error"]
    table = whole._table
    unit = [u.name for u in table.units].index(low.name)
    noise = total_of(table.chosen, "error_over_noise")
    own = 2 ** (
        noise.adds[unit, table.candidates.index("aps:e3m0")]
        * table.chosen.noise_blocks.sum()
        / table.chosen.noise_blocks[unit].sum()
    )
    assert low["error"] == pytest.approx(own, rel=1e-12)
    assert ((layers["sure"] >= 0) & (layers["sure"] <= 1)).all()


def test_the_figures_of_the_table_are_a_frame_of_their_own(results):
    """A table of selected steps equals that of a replay of only these steps."""
    frame = results.frame
    units = apscope.recommend(results, max_volume=1, holdout=False)._table.units
    some = sorted(frame["step"].unique())[3:9]
    args = (list(CANDIDATES), units, "ring")
    part = table_of(frame, results.noise, *args, some, [], Network(), 25.6e6)
    cut = frame[frame["step"].isin(some)]
    alone = table_of(
        cut, results.noise[results.noise["step"].isin(some)], *args, some, [], Network(), 25.6e6
    )
    one, other = (figures(t, t.chosen, np.zeros(6, int)) for t in (part, alone))
    assert one == other and json.dumps(one)


def test_results_without_what_is_needed_are_refused(results, digits):
    with pytest.raises(ValueError, match="have no scheme 'aps:e5m2'"):
        apscope.recommend(results, "aps:e5m2", max_volume=0.2)
    with pytest.raises(ValueError, match="the candidate 'hybrid.*is a hybrid"):
        apscope.recommend(digits, "hybrid(last=none:fp16;else=aps:e4m3)", max_volume=0.2)
    with pytest.raises(ValueError, match="steps and workers select from a trace"):
        apscope.recommend(results, max_volume=0.2, steps="0:3")
    with pytest.raises(ValueError, match="periods=99 is not in 1..26"):
        apscope.recommend(results, max_volume=0.2, periods=99)
    with pytest.raises(ValueError, match="holdout='99999:' selects none of the steps"):
        apscope.recommend(results, max_volume=0.2, holdout="99999:")
    with pytest.raises(ValueError, match="fixed 'nothing' matches none of the layers' names"):
        apscope.recommend(digits, CANDIDATES, max_volume=0.2, fixed={"nothing": "aps:e3m0"})
    with pytest.raises(ValueError, match="no topology 'tree'"):
        apscope.recommend(results, topology="tree", max_volume=0.2)
    two = pd.concat([results.frame, results.frame.assign(trace="other")])
    with pytest.raises(ValueError, match="the results have 2 traces"):
        apscope.recommend(
            apscope.Results(two, results.histograms, results.provenance, results.noise),
            max_volume=0.2,
        )


def test_a_plan_of_two_thousand_layers_is_a_scheme():
    """The longest names of models in use, in one condition."""
    units = [
        Unit(name, (name,))
        for name in (f"model.layers.{i}.self_attn.q_proj.weight" for i in range(2000))
    ]
    specs = ["aps:e4m3" if i % 3 else "none:fp16" for i in range(2000)]
    scheme = apscope.schemes.Scheme(
        spec_of_plan(units, specs, {u.name: 1 for u in units}, by_role=False)
    )
    assert [spec for _, spec in scheme.branches] == ["none:fp16", "aps:e4m3"]


def test_results_whose_provenance_lacks_the_trace_are_refused(results):
    renamed = results.frame.assign(tensor=results.frame["tensor"].replace("norm.bias", "other"))
    for frame, provenance, what in (
        (results.frame, results.provenance | {"traces": []}, "the trace digits"),
        (renamed, results.provenance, "the tensor other of the trace digits"),
    ):
        with pytest.raises(
            ValueError,
            match=f"the results' provenance does not describe {what}; a plan needs its layers' "
            "names, roles and shapes",
        ):
            apscope.recommend(
                apscope.Results(frame, results.histograms, provenance, results.noise),
                max_volume=0.25,
            )
