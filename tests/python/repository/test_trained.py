"""docs/advice.md has the tables that docs/tools/trained.py computes from docs/trained.csv, and they
compare what they say."""

import re

import pandas as pd

import apscope
from docs.tools import trained as script
from docs.tools.page import DATA, DOCS, TRACES

TASK = "tokens"


def test_the_page_is_what_the_script_writes(tmp_path):
    page = tmp_path / "advice.md"
    page.write_text((DOCS / "advice.md").read_text())
    script.main([str(DOCS / "trained.csv"), str(page)])
    assert page.read_text() == (DOCS / "advice.md").read_text()


def runs(scheme, reduction, error, losses, over_noise=1.0, task=TASK):
    return [
        {
            "task": task, "model": "m", "scheme": scheme, "topology": reduction, "seed": seed,
            "loss": loss, "validation_loss": loss, "accuracy": 0.5, "diverged": False,
            "reduction": reduction, "volume": 0.25, "step_nmse": error,
            "error_over_noise": over_noise,
        }
        for seed, loss in enumerate(losses)
    ]  # fmt: skip


def made(*parts):
    rows = [*runs("none:fp32", "ring", 0, (1.0, 2.0, 3.0))]
    rows += runs("none:bf16", "ring", 1e-6, (1.0, 2.0, 3.0))
    return script.beside_fp32(pd.DataFrame([*rows, *(row for part in parts for row in part)]))


def test_the_bits_of_a_code():
    bits = {"none:bf16": 16, "aps:e4m3fn": 8, "aps:e3m0": 4, "aps:e2m1fn,unit=16": 4, "mx": 8}
    assert {spec: script.bits_of(spec) for spec in bits} == bits


def test_losses_are_compared_with_those_of_the_same_seed():
    table = made(runs("aps:e4m3", "ring", 0.1, (1.5, 2.5, 3.5)))
    (one,) = (one for one in script.trained(table, TASK) if one.bits == 8)
    assert list(one.excess) == [0.5, 0.5, 0.5]
    assert script.nats(one.excess) == "+0.500 ± 0"


def test_runs_that_a_csv_lacks_are_added_beside_their_own_fp32(tmp_path, monkeypatch):
    """A loss depends on the machine: fp32 ends elsewhere in the folder that is added."""
    table = made(runs("aps:e4m3", "ring", 0.1, (1.5, 2.5, 3.5)))
    table.to_csv(tmp_path / "trained.csv", index=False)
    added = made(runs("aps:e5m2", "ring", 0.2, (1.75, 2.75, 3.75)))
    added[["loss", "validation_loss", "fp32_loss"]] += 0.125
    about = {"verdicts": added[[*script.KEY, *script.REPLAYED[:-1]]].drop_duplicates(script.KEY)}
    monkeypatch.setattr(script, "REPLAYED", script.REPLAYED[:-1])
    monkeypatch.setattr(script, "read", lambda folder: (None, added, about))
    monkeypatch.setattr(
        script, "run_ends",
        lambda rows: rows.drop(columns=[*script.REPLAYED, "fp32_loss", "fp32_validation_loss"])
        .assign(skipped=0),
    )  # fmt: skip
    (tmp_path / "folder").mkdir()
    both = script.gathered([tmp_path / "trained.csv", tmp_path / "folder"])
    assert len(both) == 4 * 3 and both["loss"].iloc[:3].tolist() == [1.0, 2.0, 3.0]
    found = {one.scheme: list(one.excess) for one in script.trained(both, TASK)}
    assert found["aps:e4m3"] == [0.5] * 3 and found["aps:e5m2"] == [0.75] * 3


def test_the_order_counts_pairs_whose_whole_interval_is_on_one_side():
    better = runs("aps:e4m3", "two_phase", 0.01, (1.0, 2.01, 3.0), over_noise=2.0)
    worse = runs("aps:e3m4", "ring", 0.3, (1.5, 2.5, 3.51))
    unclear = runs("aps:e5m2", "ring", 0.2, (0.8, 2.3, 3.1))
    lines = script.order(made(better, worse, unclear))
    assert " 1 right, 0 wrong, 2 open " in lines[2]
    assert lines[-1] == "Together 1 right and 0 wrong; by error over noise 0 and 1."
    swapped = runs("aps:e4m3", "two_phase", 0.9, (1.0, 2.01, 3.0), over_noise=0.1)
    lines = script.order(made(swapped, worse, unclear))
    assert " 0 right, 1 wrong, 2 open " in lines[2]
    assert "Together 0 right and 1 wrong; by error over noise 1 and 0." in lines
    assert lines[-1].startswith("- tokens: `e4m3`, a scale a layer, `two_phase` ends -0.500")


def test_every_pair_of_the_factors_is_in_the_experiment_and_differs_in_what_is_said():
    from apscope._training.experiment import Experiment

    experiment = Experiment.open(DOCS / "gpt.toml")
    held = {f"{scheme} {topology}" for scheme, topology in experiment.exchanges}
    for what, worse, better in script.FACTORS:
        assert {worse, better} <= held
        (a, one), (b, other) = (name.rsplit(" ", 1) for name in (worse, better))
        assert (a == b) == what.endswith("the reduction") and (one == other) == (a != b)


def counted(line):
    """The numbers of right and wrong pairs: by the figure that ranks, by error over noise."""
    return [int(n) for n in re.findall(r"\d+", line)]


def test_what_pages_say_of_the_order():
    lines = script.order(pd.read_csv(DOCS / "trained.csv"))
    (total,) = (line for line in lines if line.startswith("Together"))
    right, wrong, noise_right, noise_wrong = counted(total)
    wrong_pairs = [line for line in lines if line.startswith("- ")]
    assert len(wrong_pairs) == wrong
    pages = {
        name: re.sub(r"\s+", " ", (DOCS / name).read_text())
        for name in ("advice.md", "definitions.md", "design.md")
    }
    assert (
        f"it orders {right} as the loss does and {wrong} otherwise, `error_over_noise` "
        in (pages["definitions.md"])
    )
    assert f"`error_over_noise` {noise_right} and {noise_wrong}." in pages["definitions.md"]
    assert (
        f"{right} are right and {wrong} wrong, by error over noise {noise_right} and {noise_wrong}."
        in pages["design.md"]
    )
    losses = sorted(float(re.search(r"ends -([\d.]+)", line)[1]) for line in wrong_pairs)
    assert losses[-4:] == [0.062, 0.642, 0.652, 0.669] and losses[-5] < 0.02
    said = "Three wrong pairs differ by 0.64 to 0.67 nats"
    assert said in pages["advice.md"] and "One, of 0.062 nats" in pages["advice.md"]
    ring, less_room = (
        [line for line in wrong_pairs if f": `e2m1fn`, a scale for 16{room}, `ring` ends" in line]
        for room in ("", ", room for √W")
    )
    assert len(ring) == 4 and len(less_room) == 7 and wrong - noise_wrong == 6 and wrong == 16
    assert "In seven of the sixteen" in pages["advice.md"]
    rounded = [line for line in wrong_pairs if "stochastic" in line or "nvfp4" in line]
    assert len(rounded) == 6 and "In six a side is rounded" in pages["advice.md"]
    assert len([line for line in wrong_pairs if line.startswith("- mnist-sgd")]) == 3


def test_what_the_page_says_of_the_room():
    table, saved, ends = pd.read_csv(DOCS / "trained.csv"), [], {}
    (pair,) = (pair for pair in script.FACTORS if pair[0] == "4 bits: the room, in a ring")
    for task in script.tasks_of(table):
        found = {one.name: one for one in script.trained(table, task)}
        all_workers, less = (found[name].excess for name in pair[1:])
        saved.append((all_workers - less).mean())
        ends[task] = less.mean()
    text = re.sub(r"\s+", " ", (DOCS / "advice.md").read_text())
    worst = max(ends, key=ends.get)
    others = max(end for task, end in ends.items() if task != worst)
    assert f"saves {min(saved):.3f} to {max(saved):.3f} nats on every task" in text
    assert (
        f"at most {others:.3f} above fp32 on seven of them ({ends[worst]:.3f} on {worst})" in text
    )


def test_what_the_page_says_of_rare_tokens():
    found = {one.name: one for one in script.trained(pd.read_csv(DOCS / "trained.csv"), TASK)}
    text = re.sub(r"\s+", " ", (DOCS / "advice.md").read_text())

    def of(name):
        return f"{found[name].error:.2g}", f"{found[name].excess.mean():.2f}"

    fine = "aps:e2m1fn,rule=tight,unit=16"
    assert "in a ring has {} and loses {} nats".format(*of("aps:e3m4,rule=tight ring")) in text
    assert f"have {of(fine + ',rounding=stochastic two_phase')[0]} and lose nothing" in text
    layers = [of(f"aps:{name},rule=tight two_phase") for name in ("e3m0", "e2m1fn")]
    (a, loss), (b, other) = layers
    assert f"have {a} and {b} and lose {loss} and {other}" in text
    assert "has {} and loses {}.".format(*of(f"{fine} ring")) in text
    noise = [found[name].over_noise for name in (f"{fine} ring", "aps:e3m4,rule=tight ring")]
    assert f"{noise[0]:.2g} (that ring) loses less than the {noise[1]:.2g} of `aps:e3m4`" in text


def test_what_the_page_says_of_the_format_that_was_not_trained():
    specs = [f"aps:{name},rule=tight,unit=32" for name in ("e2m5", "e2m5finite")]
    traces = [DATA / name for name in TRACES]
    error = apscope.replay(traces, specs, topology="two_phase").summary()
    error = error[error["topology"] == "two_phase"].set_index(["scheme", "trace"])["step_nmse"]
    times = error[specs[0]] / error[specs[1]]
    text = re.sub(r"\s+", " ", (DOCS / "advice.md").read_text())
    assert f"its step NMSE is {times.min():.1f} to {times.max():.1f} times smaller" in text
