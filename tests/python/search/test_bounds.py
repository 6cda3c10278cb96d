"""A search that stops early keeps every winner, compared with replays of every split on all steps,
of random and bundled traces."""

import functools

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._results.summary import headline, summary
from apscope._search.bounds import FIGURES, Bounds
from apscope._search.floor import ends_in_format, least_terms
from apscope._search.search import STEP_BY_STEP, _rounds
from apscope.record import TraceWriter


@functools.lru_cache
def whole(
    trace: apscope.Trace, specs: tuple[str, ...], layer: str, topology: str = "ring"
) -> pd.DataFrame:
    """The figures of a layer, or of all together, by spec, from a replay of all splits on all
    steps."""
    frame = replayed(trace, specs, topology)
    table = summary(frame if layer == "all" else frame[frame["tensor"] == layer])
    held = table[table["topology"].isin([topology, "gather"])]
    first = held.sort_values("topology", key=lambda names: names != topology, kind="stable")
    return first.drop_duplicates("scheme").set_index("scheme")


@functools.lru_cache(maxsize=4)
def replayed(trace: apscope.Trace, specs: tuple[str, ...], topology: str) -> pd.DataFrame:
    return apscope.replay(trace, list(specs), topology=topology).frame


def hold(trace: apscope.Trace, table: pd.DataFrame, figure: str) -> None:
    """Winners, order and figures of a search are those of the whole replay, and no stopped split is
    better than its bound."""
    sign = -1 if figure == "layer_cosine" else 1
    asked_for = table["topology"].replace("gather", "ring")  # stochastic's, in place of the ring
    for (layer, asked), part in table.groupby(["layer", asked_for], sort=False):
        everything = whole(trace, tuple(sorted(part["scheme"])), layer, asked).loc[part["scheme"]]
        flawed = [everything[name] > 0 for name in ("lost_layers", "overflowed", "gaps")]
        truth = np.where(np.logical_or(*flawed[1:]), np.inf, sign * everything[figure])
        kept = ~part["stopped"].to_numpy()
        for column in """
            error_over_noise step_nmse layer_cosine worst_nmse underflow_wire volume skipped
            overflowed gaps lost_layers
        """.split():
            assert np.array_equal(
                part[column].to_numpy(float)[kept],
                everything[column].to_numpy(float)[kept],
                equal_nan=True,
            ), column
            assert part[column].isna()[~kept].all()
        ranks = np.lexsort([sign * everything[figure][kept], *(flaw[kept] for flaw in flawed)])
        assert (np.sort(ranks) == ranks).all() and (np.diff(part["stopped"].astype(int)) >= 0).all()
        if np.isnan(truth).all():
            continue  # a layer of zeros
        ranks = np.where(flawed[0], np.inf, truth)
        for _, group in part.assign(ranks=ranks).groupby("exponent_bits"):
            assert group.loc[~group["stopped"], "ranks"].min() == group["ranks"].min()
        bound = sign * part["bound"].to_numpy()
        assert (bound <= truth + 1e-9 * np.where(np.isfinite(truth), abs(truth), 0.0)).all()
        assert np.allclose(bound[kept], truth[kept], rtol=1e-9, equal_nan=True)


def random_trace(folder, seed: int) -> apscope.Trace:
    """A few steps and layers whose magnitudes wander over many binades, with zeros among them, a
    layer of zeros and a step of zeros."""
    rng = np.random.default_rng(seed)
    workers, steps = int(rng.integers(1, 6)), int(rng.integers(1, 21))
    sizes = {"a": (int(rng.integers(1, 200)),), "b": (3, int(rng.integers(1, 30))), "zero": (4,)}
    with TraceWriter(
        folder / f"trace{seed}", workers=workers, reduction=str(rng.choice(["mean", "sum"]))
    ) as writer:
        for step in range(steps):
            level = 2.0 ** rng.integers(-20, 10) * (step != 3)
            for worker in range(workers):
                for name, shape in sizes.items():
                    values = (
                        rng.standard_normal(shape)
                        * 2.0 ** rng.integers(-8, 4, shape)
                        * (rng.random(shape) < 0.8)
                    )
                    writer.add(
                        step * 5,
                        worker,
                        name,
                        (values * level * (name != "zero")).astype(np.float32),
                    )
            writer.end_step(step * 5)
    return apscope.open_trace(folder / f"trace{seed}")


@pytest.mark.parametrize("seed", range(8))
def test_no_winner_is_lost_on_random_traces(tmp_path, seed):
    trace = random_trace(tmp_path, seed)
    for figure in FIGURES[trace.workers == 1 :]:  # of one worker the noise is not known
        hold(
            trace,
            apscope.search(trace, 3 + seed // 2, minimize=figure, by=("all", "layer")[seed % 2]),
            figure,
        )


@pytest.fixture(scope="module")
def traces(request):
    return {
        name: apscope.open_trace(request.config.rootpath / "notebooks/data" / name)
        for name in ("digits", "digits_w64", "characters")
    }


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("name", ["digits", "digits_w64", "characters"])
def test_eight_bits_on_the_bundled_traces_are_as_replayed_whole(traces, name, figure):
    reductions = {"digits": ("ring", "two_phase"), "characters": "ring"}.get(name, "two_phase")
    table = apscope.search(traces[name], 8, minimize=figure, topology=reductions)
    assert 0 < table["stopped"].sum() < len(table)  # else this would show nothing
    hold(traces[name], table, figure)


def test_layers_of_a_bundled_trace_are_as_replayed_whole(traces):
    table = apscope.search(traces["digits_w64"], 8, minimize="step_nmse", by="layer")
    assert table["layer"].nunique() == 6 and 0 < table["stopped"].sum() < len(table)
    hold(traces["digits_w64"], table, "step_nmse")


def test_what_remembers_is_replayed_at_once(traces):
    """Its figures equal those of one replay, however many rounds the others need."""
    specs = [
        "error_feedback(aps:{format})",
        "loss_scaling:{format},scale=largest",
        "stochastic:{format}",
        "none:{biased}",
    ]
    table = apscope.search(
        traces["digits"], 5, schemes=specs, specials="ieee,fn", minimize="step_nmse"
    )
    assert (
        table["steps"][table["scheme"].str.startswith(("error", "loss"))] == 52
    ).all() and table["stopped"].any()
    # The trace has steps with gaps, so what remembers has no rank.
    assert (table.loc[table["scheme"].str.startswith("error"), "gaps"] == 12).all()
    hold(traces["digits"], table, "step_nmse")


def test_schemes_replayed_in_rounds_have_the_same_rows_on_fewer_steps(traces):
    specs = [
        f"{name}:e4m3{keys}"
        for name in STEP_BY_STEP
        for keys in (
            "",
            *((",rule=tight", ",unit=model", ",rounding=stochastic") if name == "aps" else ()),
        )
    ]
    assert not any(apscope.schemes.as_scheme(spec).keeps_state for spec in specs)
    few, all_of_them = (
        apscope.replay(traces["digits"], specs, topology=["ring", "two_phase"], steps=steps).frame
        for steps in ([39, 60, 1500], None)
    )
    same = all_of_them[all_of_them["step"].isin([39, 60, 1500])].reset_index(drop=True)
    pd.testing.assert_frame_equal(few, same, check_exact=True)


def test_without_stopping_all_is_replayed(traces):
    table = apscope.search(traces["digits_w64"], 4, stop=False)
    assert not table["stopped"].any() and (table["steps"] == 6).all()


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 52])
def test_rounds_take_every_step_once(count):
    rounds = _rounds(range(count))
    assert sorted(step for part in rounds for step in part) == list(range(count)) and all(rounds)
    assert len(rounds[0]) == -(-count // 8)


def test_a_rival_that_overflows_stops_nothing(traces):
    """If every split overflows, all are replayed, and the one with the smallest figure is first."""
    table = apscope.search(traces["digits"], 8, schemes="none:{format}", specials="ieee")
    narrow = table[table["exponent_bits"] == 1]
    assert (narrow["overflowed"] > 0).all() and not narrow["stopped"].any()


@pytest.mark.parametrize(
    "topology",
    ["ring", "tree", "hierarchical:2+kahan", "two_phase", "two_phase,sum=bf16,own=exact"],
)
@pytest.mark.parametrize("seed", [3, 5, 6])
def test_no_sum_in_a_format_is_nearer_than_its_nearest_value(tmp_path, seed, topology):
    """Every row of every format, before anything is replayed, is at least what rounding the exact
    sum leaves."""
    trace = random_trace(tmp_path, seed)
    names = ["e4m3", "e4m3fn", "e3m4finite", "e2m5b7", "e5m2fnuz", "e3m2b9", "e1m6finiteb4"]
    formats = [apscope.FloatFormat(name) for name in names]
    specs = [f"none:{f.name}" for f in formats]
    assert all(ends_in_format(*pair, topology) for pair in zip(specs, formats))
    assert trace.workers > 1
    frame = apscope.replay(trace, specs, topology=topology).frame
    reduced = frame[(frame["topology"] == topology) & (frame["stage"] == "reduced")]
    rows = reduced.set_index(["scheme", "tensor", "step"])
    for figure, column in (
        ("error_over_noise", "sum_log2_error_over_noise"),
        ("step_nmse", "sum_squared_error"),
    ):
        least = least_terms(trace, figure, trace.steps, trace.tensors, trace.workers, formats, 1)
        values = rows[column].where(rows["overflow"] == 0, np.inf).astype(float)
        found = np.array(
            [[[values[s, t, i] for i in trace.steps] for t in trace.tensors] for s in specs]
        )
        assert (least <= found + 1e-9).all()
        known = np.isfinite(found) & (found != 0)
        assert known.sum() > 10
        near = found < 100 * least if column == "sum_squared_error" else found < least + 99
        assert near[known].any()  # else -30 and 0 would pass


def test_what_ends_elsewhere_has_no_such_bound():
    f = apscope.FloatFormat("e4m3")
    for topology in ("exact", "reduce_scatter", "two_phase,phase2=(none:bf16)", "unknown",
                     "hierarchical:4(ring,ring@bf16)"):  # fmt: skip
        assert not ends_in_format("none:e4m3", f, topology)
    for spec in ("none:e4m3,accumulate=fp32", "aps:e4m3", "stochastic:e4m3", "none:e4m3fn"):
        assert not ends_in_format(apscope.schemes.as_scheme(spec).spec, f, "ring")


def test_a_bound_is_the_least_that_can_still_come(tmp_path):
    """By hand: two steps, one layer of 64 elements, and nothing observed of the second step."""
    rng = np.random.default_rng(1)
    with TraceWriter(tmp_path / "two", workers=3) as writer:
        for step, level in enumerate((0.05, 1.0)):
            for worker in range(3):
                writer.add(
                    step,
                    worker,
                    "w",
                    (level * (1 + 0.1 * rng.standard_normal(64))).astype(np.float32),
                )
            writer.end_step(step)
    frame = apscope.replay(
        tmp_path / "two", ["none:fp32", "none:e4m3", "none:e3m2"], topology="ring"
    ).frame
    part = frame[frame["topology"] == "ring"].set_index(["scheme", "step"])
    seen = part.loc["none:e3m2"].loc[0]
    blocks = part.loc["none:fp32"]["noise_blocks"]
    expected = {
        "error_over_noise": 2.0
        ** ((seen["sum_log2_error_over_noise"] - 30 * blocks.loc[1]) / blocks.sum()),
        "step_nmse": seen["nmse"] / 2,
        "worst_nmse": seen["nmse"],
        "layer_cosine": (seen["cosine"] + 1) / 2,
    }
    for figure, value in expected.items():
        bounds = Bounds(
            figure,
            frame[frame["scheme"] == "none:fp32"],
            {"w": 0},
            [0, 1],
            {"none:e4m3": 4, "none:e3m2": 4},
        )
        bounds.see(frame[(frame["scheme"] == "none:e3m2") & (frame["step"] == 0)])
        assert (
            bounds.bounds()[1, 0] == pytest.approx(value, rel=1e-12)
            and bounds.unseen(1) == (1,)
            and not bounds.lost().any()
        )
        bounds.see(frame[frame["scheme"] == "none:e4m3"])
        rival = headline(summary(frame), "ring").set_index("scheme").loc["none:e4m3", figure]
        assert bounds.bounds()[0, 0] == pytest.approx(rival, rel=1e-12)
        behind = rival > value if figure == "layer_cosine" else rival < value
        assert bounds.lost().tolist() == [False, behind]
        if figure != "layer_cosine":
            assert behind == (figure != "error_over_noise")  # so that both are seen
