"""How far an exchange turns what an optimizer does in several steps, against NumPy and trainings."""

import math

import numpy as np
import pytest

import apscope
from apscope import _core
from apscope._training.statistics import of_trace
from apscope.cli import main
from tests.python.altered import altered
from tests.python.recorded import record
from tests.python.results.test_persistence import SIZES, STEPS, results_of, written

LENGTHS = (3, 10, 30)
OPTIMIZERS = ("sgd", "adam", "lars")
#: The name of an optimizer's loss in a training's statistics.
OF_TRAINING = {
    "sgd": "model_cosine_loss_{}",
    "adam": "adam_cosine_loss_{}",
    "lars": "cosine_loss_{}",
}


def trained(path, workers=8, runs=((0, 32), (40, 47)), sizes=(700, 33, 5), **options):
    """A trace of finite gradients of several layers, apart in size by factors of a thousand."""
    steps = {}
    for step in (step for run in runs for step in range(*run)):
        random, steps[step] = np.random.default_rng([6, step]), {}
        for place, size in enumerate(sizes):
            scale = 1000.0 ** (place - 1) * 2.0 ** (np.arange(size) % 11)
            x = scale * random.normal(0.2, 1.0, (workers, size))
            steps[step][f"layer{place}"] = x.astype(np.float32)
    record(path, steps, **options)
    return path


@pytest.mark.parametrize(
    "scheme",
    [
        "aps:e3m0",
        "aps:e3m1,rounding=stochastic",
        "mx",
        "error_feedback(aps:e2m1fn)",
        "hybrid(last=sign;else=aps:e3m0)",
    ],
)
@pytest.mark.parametrize("topology", ["ring", "two_phase"])
def test_it_is_that_of_a_training(tmp_path, scheme, topology):
    trace = trained(tmp_path / "t")
    results = apscope.replay(trace, scheme, topology=topology, persistence=True)
    # A training's loss for LARS is the mean over layers, which is another number where the result
    # of a layer is 0 over a window.
    table = results.persistence
    assert (table.loc[table["steps"] == 3, "sum_squared_result"] > 0).all()
    wanted = of_trace(apscope.open_trace(trace), scheme, topology)
    for optimizer in OPTIMIZERS:
        table = results.summary(optimizer=optimizer)
        reduced = table[table["topology"] != "exact"].set_index("topology")
        row = reduced.loc[topology] if topology in reduced.index else reduced.iloc[0]
        for k in LENGTHS:
            loss = wanted[OF_TRAINING[optimizer].format(k)]
            assert 1e-6 < loss < 1
            found = row[f"update_loss_{k}"]  # the difference of two numbers near 1
            assert found == pytest.approx(loss, rel=1e-12, abs=1e-15), (optimizer, k)


# ---- Written out --------------------------------------------------------------------------------


def updates_of(pairs, window, optimizer):
    """Of one tensor over a window: with the reference, with the result."""
    found = []
    for which in (0, 1):
        total = sum(pairs[step][which] for step in window)
        if optimizer == "adam":
            squares = np.mean([pairs[s][which] ** 2 for s in pairs if s <= window[-1]], axis=0)
            total = np.divide(total, np.sqrt(squares), out=np.zeros_like(total), where=squares > 0)
        if optimizer == "lars" and total.any():
            total = total / np.linalg.norm(total)
        found.append(total)
    return found


def losses_of(layers, optimizer, k):
    """1 - cosine of every window of some layers together."""
    steps = list(next(iter(layers.values())))
    losses = []
    for at in range(len(steps)):
        window = steps[at : at + k]
        run = [s for s in steps if s <= window[0] and all(t in steps for t in range(s, window[0]))]
        if window != [*range(window[0], window[0] + k)] or (len(run) - 1) % k:
            continue
        parts = [updates_of(pairs, window, optimizer) for pairs in layers.values()]
        reference, result = (np.concatenate([part[which] for part in parts]) for which in (0, 1))
        lengths = np.linalg.norm(reference) * np.linalg.norm(result)
        if any(pairs[step][2] for pairs in layers.values() for step in window):
            losses.append(1.0)  # overflow
        elif reference.any():
            losses.append(1 - (reference @ result / lengths if lengths else 0.0))
    return losses


def interval(losses):
    if len(losses) < 4:
        return math.nan, math.nan
    half = _core.student_t(len(losses) - 1) * np.std(losses, ddof=1) / math.sqrt(len(losses))
    return max(np.mean(losses) - half, 0), np.mean(losses) + half


SCHEMES = ("none:e3m4", "none:e2m1fn", "aps:e3m0", "dynamic_loss_scaling:e4m3,init=64,growth_interval=3",
           "qsgd:levels=3", "error_feedback(sign)", "loss_scaling:e3m2fn,scale=0.0009765625")  # fmt: skip


@pytest.mark.parametrize("workers, mean", [(1, True), (8, True), (3, False)])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_is_that_of_numpy(tmp_path, workers, mean, scheme):
    trace = written(tmp_path / "t", workers, reduction="mean" if mean else "sum")
    names = [name for name in SIZES if name != "none"]
    if scheme.startswith("dynamic"):
        names = ["short"]  # its scale is that of all tensors, and the exchange here has one
    results = apscope.replay(trace, scheme, topology="ring", tensors="|".join(names),
                             persistence=True)  # fmt: skip
    seen = set()
    for optimizer in OPTIMIZERS:
        whole, by = results.summary(optimizer=optimizer), results.by("layer", optimizer=optimizer)
        topology = next(t for t in whole["topology"] if t != "exact")
        layers = {name: results_of(scheme, topology, workers, STEPS, name, mean) for name in names}
        rows = [(layers, whole[whole["topology"] == topology].iloc[0])]
        rows += [({row["layer"]: layers[row["layer"]]}, row)
                 for _, row in by[by["layer"].isin(names)].iterrows()]  # fmt: skip
        for of, row in rows:
            for k in LENGTHS:
                losses = losses_of(of, optimizer, k)
                loss = max(np.mean(losses), 0) if losses else math.nan
                found = [row[f"update_loss_{k}{end}"] for end in ("", "_low", "_high")]
                assert found == pytest.approx(
                    [loss, *interval(losses)], rel=1e-9, abs=1e-14, nan_ok=True
                ), (optimizer, k, list(of))
                seen.add(loss)
    assert len({loss for loss in seen if math.isfinite(loss)}) > 3 or scheme == SCHEMES[-1]


def test_the_cases_occur(tmp_path):
    """Skipped steps, overflow, a layer that is lost, one that is 0, as the schemes above do."""
    frame = apscope.replay(written(tmp_path / "t", 8), SCHEMES, topology="ring").frame
    ring = frame[frame["topology"] == "ring"]
    assert ring["skipped"].any() and (ring["overflow"] > 0).any()
    lost = ring[(ring["scheme"] == "none:e2m1fn") & (ring["tensor"] == "short")]
    assert len(lost) and (lost["cosine"] < 1).all()
    table = apscope.replay(written(tmp_path / "z", 8), SCHEMES[-1], persistence=True).by(
        "layer", optimizer="sgd"
    )
    of = table.set_index("layer")["update_loss_10"]
    assert of["long"] == 1 and math.isnan(of["zero"])


def test_a_lost_layer_counts_by_its_share_of_the_update(tmp_path):
    """The layer that is lost has a millionth of the gradient's length, half of Adam's update."""
    random = np.random.default_rng(1)

    def drawn(scale):
        x = scale * random.choice([-1.0, 1.0], (2, 64)) * 2.0 ** random.integers(0, 3, (2, 64))
        return x.astype(np.float32)

    trace = record(tmp_path / "t", [{"large": drawn(1.0), "small": drawn(1e-6)} for _ in range(10)])
    results = apscope.replay(trace, "none:e4m3", topology="exact", persistence=True)
    loss = {name: results.summary(optimizer=name)["update_loss_10"].item() for name in OPTIMIZERS}
    assert loss["sgd"] < 1e-6
    assert loss["lars"] == pytest.approx(1 - math.sqrt(0.5), abs=1e-9)  # the other is exact
    assert loss["adam"] == pytest.approx(1 - math.sqrt(0.5), abs=0.06)
    by = results.by("layer", "update_loss_10", optimizer="sgd").iloc[:, 0]
    assert by.to_dict() == {("t", "large"): 0, ("t", "small"): 1}


def test_results_that_cancel_have_no_direction(tmp_path):
    """Sums of results that are exactly 0, where references plus errors leave a rounding error."""
    of_steps = np.float32([[-0.98, -0.01, -0.1], [-0.19, 1.15, -0.81], [1.18, -0.92, 1.12]])
    third = of_steps + np.float32(0.01)
    means = (2 * of_steps.astype(float) + third) / 3
    rounded = np.round(of_steps).astype(float)
    assert not rounded.sum(0).any() and (means.sum(0) + (rounded - means).sum(0)).all()
    trace = record(
        tmp_path / "t",
        [{"layer": np.stack(rows)} for rows in zip(of_steps, of_steps, third, strict=True)],
    )
    results = apscope.replay(trace, "none:e2m1fn", topology="ring", persistence=True)
    wanted = of_trace(trace, "none:e2m1fn", "ring")
    for optimizer in OPTIMIZERS:
        reduced = results.summary(optimizer=optimizer).set_index("topology").loc["ring"]
        assert reduced["update_loss_3"] == 1
        assert wanted[OF_TRAINING[optimizer].format(3)] == 1


# ---- Which optimizer ----------------------------------------------------------------------------


@pytest.mark.parametrize("text, name", [
    ("AdamW, betas 0.9 and 0.99, weight decay 0.01", "adam"), ("SGD, momentum 0.9", "sgd"),
    ("torch.optim.Adam(lr=0.1)", "adam"), ("LARS", "lars"), ("adamw", "adam"), ("", None),
    ("Adamax", None), ("Muon and AdamW", None), ("SGD9", None), ("(SGD)", None), (".sgd", "sgd"),
])  # fmt: skip
def test_metadata_tell_the_optimizer(tmp_path, text, name):
    assert _core.optimizer_told(text) == name
    path = trained(tmp_path / "t", 2, ((0, 3),), metadata={"optimizer": text})
    results = apscope.replay(path, "aps:e3m0", topology="ring", persistence=True)
    assert results.provenance["traces"][0].get("optimizer") == name
    columns = [c for c in results.summary() if c.startswith("update_loss")]
    assert columns == [f"update_loss_{k}{end}" for k in LENGTHS for end in ("", "_low", "_high")]
    found = results.summary()["update_loss_3"]
    if name is None:
        assert found.isna().all()
    else:
        assert found.tolist() == results.summary(optimizer=name)["update_loss_3"].tolist()
        assert results.by("layer")["update_loss_3"].notna().all()
    assert results.summary(optimizer="sgd")["update_loss_3"].gt(0).all()
    assert results.by("step", optimizer="sgd")[columns].isna().all(axis=None)


def test_another_optimizer_is_refused(tmp_path, capsys):
    path = trained(tmp_path / "t", 2, ((0, 3),))
    results = apscope.replay(path, "aps:e3m0", topology="ring", persistence=True)
    for call in (results.summary, lambda **options: results.by("layer", **options)):
        with pytest.raises(ValueError, match="optimizer='lion' is not one of sgd, adam, lars"):
            call(optimizer="lion")
        with pytest.raises(TypeError, match="optimizer=3 must be a string"):
            call(optimizer=3)
    folder = str(results.save(tmp_path / "r"))
    assert main(["summary", folder, "--optimizer", "lion"]) == 2
    assert "invalid choice: 'lion'" in capsys.readouterr().err


def test_a_replay_may_name_the_optimizer(tmp_path):
    """Above the trace's own; a summary may name another. Shards must agree, and merged ones keep it."""
    path = trained(tmp_path / "t", 2, ((0, 3),), metadata={"optimizer": "SGD"})
    options = {"topology": "ring", "persistence": True}

    def losses(results, **of):
        return results.summary(**of)["update_loss_3"].tolist()

    plain = apscope.replay(path, "aps:e3m0", **options)
    named = apscope.replay(path, "aps:e3m0", optimizer="adam", **options)
    assert named.persistence.equals(plain.persistence) and named.frame.equals(plain.frame)
    assert losses(plain) == losses(plain, optimizer="sgd") != losses(plain, optimizer="adam")
    assert losses(named) == losses(plain, optimizer="adam")
    assert losses(named, optimizer="sgd") == losses(plain)
    assert named.provenance["command"].endswith("--persistence --optimizer adam")
    assert losses(apscope.Results.open(named.save(tmp_path / "named"))) == losses(named)

    adam = [
        apscope.replay(path, "aps:e3m0", optimizer="adam", shard=(i, 2), **options) for i in (1, 0)
    ]
    assert losses(apscope.merge(adam)) == losses(named)
    other = apscope.replay(path, "aps:e3m0", shard=(0, 2), **options)
    scheme = apscope.replay(path, "qsgd", optimizer="lars", **options)
    for parts, said in (([adam[0], other], "sgd and adam"), ([named, scheme], "lars and adam")):
        with pytest.raises(ValueError, match=f"the optimizer of trace 't' \\({said}\\).*the same"):
            apscope.merge(parts)


def test_the_command_replays_with_an_optimizer(tmp_path, capsys):
    path, out = str(trained(tmp_path / "t", 2, ((0, 10),))), str(tmp_path / "r")
    words = ["replay", path, "--scheme", "aps:e3m0", "--topology", "ring", "-o", out]
    assert main([*words, "--persistence", "--optimizer", "adma"]) == 2
    assert "'adma' (choose from" in capsys.readouterr().err
    assert main([*words, "--optimizer", "adam"]) == 2
    assert "need persistence=True (--persistence)" in capsys.readouterr().err
    for call in ({"persistence": True, "optimizer": "lion"}, {"optimizer": "lion"}):
        with pytest.raises(ValueError, match="optimizer='lion' is not one of sgd, adam, lars"):
            apscope.replay(path, "aps:e3m0", **call)
    with pytest.raises(TypeError, match="optimizer=3 must be a string"):
        apscope.replay(path, "aps:e3m0", persistence=True, optimizer=3)
    assert not (tmp_path / "r").exists()
    assert main([*words, "--persistence", "--optimizer", "adam"]) == 0
    assert "has no" not in capsys.readouterr().out
    assert main(["check", out]) == 0
    capsys.readouterr()
    assert main(["summary", out]) == 0
    assert "update_loss_10  update_loss_3" in capsys.readouterr().out
    words = [*words[:-1], out + "3", "--persistence", "--optimizer", "adam"]
    assert main([*words, "--steps", "0:6"]) == 0  # without ten consecutive steps
    assert main(["summary", out + "3"]) == 0
    printed = capsys.readouterr().out
    assert "update_loss_3" in printed and "update_loss_10" not in printed


def test_the_command_shows_it(tmp_path, capsys):
    path = trained(tmp_path / "t", 2, ((0, 10),))
    results = apscope.replay(path, "aps:e3m0", topology="ring", persistence=True)
    folder = str(results.save(tmp_path / "r"))
    assert main(["check", folder]) == 0
    capsys.readouterr()
    assert main(["summary", folder]) == 0
    assert "update_loss" not in capsys.readouterr().out
    for optimizer in OPTIMIZERS:
        wanted = results.summary(optimizer=optimizer)["update_loss_10"].iloc[0]
        assert main(["summary", folder, "--optimizer", optimizer]) == 0
        out = capsys.readouterr().out
        assert "update_loss_10" in out and f"{wanted:.3g}" in out
    args = ["summary", folder, "--by", "layer", "--column", "update_loss_3", "--optimizer", "sgd"]
    assert main(args) == 0
    assert "update_loss_3 by layer" in capsys.readouterr().out


# ---- Tables -------------------------------------------------------------------------------------


def test_a_window_of_one_step_has_no_updates(tmp_path):
    path = trained(tmp_path / "t", 2, ((0, 4),))
    rows = apscope.replay(path, "aps:e3m0", topology="ring", persistence=True).persistence
    sums = [f"{of}_{name}" for of in ("sum", "adam")
            for name in ("product", "squared_reference", "squared_result")]  # fmt: skip
    assert rows.loc[rows["steps"] == 1, sums].isna().all(axis=None)
    assert rows.loc[rows["steps"] == 3, sums].notna().all(axis=None)


def test_a_sampled_layer_counts_as_the_whole(tmp_path):
    """Its sums are larger (test_persistence.py); the direction of a layer is what it is."""
    plain, sampled = (
        apscope.replay(trained(tmp_path / name, 4, ((0, 3),), **options), "aps:e2m1fn",
                       topology="ring", persistence=True)
        for name, options in (("a", {}), ("b", {"sampled_from": {"layer1": 5 * 33}}))
    )  # fmt: skip
    for optimizer, same in (("lars", True), ("adam", False)):
        losses = [r.summary(optimizer=optimizer)["update_loss_3"] for r in (plain, sampled)]
        assert np.allclose(*losses, rtol=1e-12) is same
        by = [r.by("layer", "update_loss_3", optimizer=optimizer) for r in (plain, sampled)]
        np.testing.assert_allclose(*by, rtol=1e-9)


def test_a_wrong_product_is_found(tmp_path, capsys):
    path = trained(tmp_path / "t", 2, ((0, 3),))
    results = apscope.replay(path, "aps:e3m0", topology="ring", persistence=True)
    for column in ("sum_product", "adam_product"):
        table = results.persistence.copy()
        table.loc[table["steps"] == 3, column] *= 1e9
        bad = altered(results, persistence=table).save(tmp_path / column)
        assert main(["check", str(bad)]) == 1
        assert f"has a {column} above the product of the lengths" in capsys.readouterr().out


@pytest.mark.parametrize("workers, problems", [(1, 0), (2, 1)])
def test_the_noise_of_one_worker_alone_is_unknown(tmp_path, capsys, workers, problems):
    results = apscope.replay(trained(tmp_path / "t", workers, ((0, 3),)), "aps:e3m0",
                             topology="ring", persistence=True)  # fmt: skip
    table = results.persistence.assign(sum_noise=math.nan)
    bad = altered(results, persistence=table).save(tmp_path / "r")
    assert main(["check", str(bad)]) == problems
    assert ("sums of squares that are not" in capsys.readouterr().out) == bool(problems)


def test_a_folder_names_a_known_optimizer(tmp_path):
    path = trained(tmp_path / "t", 2, ((0, 3),))
    results = apscope.replay(path, "aps:e3m0", topology="ring", persistence=True)
    results.provenance["traces"][0]["optimizer"] = "lion"
    with pytest.raises(ValueError, match=r"optimizer.*one of sgd, adam, lars"):
        apscope.Results.open(results.save(tmp_path / "r"))
