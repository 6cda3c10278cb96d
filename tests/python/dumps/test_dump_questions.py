"""Names of steps and workers that people use, weights in the place of gradients, counts of one."""

import numpy as np
import pytest

from apscope._dumps.patterns import DEFAULT_PATTERNS
from apscope.record import convert
from tests.python.argv import command
from tests.python.converted import converted, pattern_of, refused

RNG = np.random.default_rng(0)


def write(folder, pattern, steps=(0, 1), workers=2):
    """One npz per step and worker, whose first axes differ; their gradients by step and worker."""
    written = {}
    for step in steps:
        for worker in range(workers):
            path = folder / f"{pattern.format(s=step, w=worker)}.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            g = {"fc.w": RNG.standard_normal((5, 3)), "fc.b": RNG.standard_normal(4)}
            g = {name: array.astype(np.float32) for name, array in g.items()}
            np.savez(path, **g)
            written[step, worker] = g
    return written


@pytest.mark.parametrize(
    "pattern",
    [
        "s{s:03d}/w{w}", "s{s:03d}_w{w}", "s{s}-w{w}", "w{w}/s{s:03d}", "S{s}/W{w}", "run1/s{s}/w{w}",
        "i{s}/w{w}", "i{s}_r{w}", "t{s}/w{w}", "r{w}/s{s}", "r{w}_it{s}",
        "step_{s:03d}/rank_{w}", "iter{s}/worker{w}", "it_{s}_rank{w}", "grads_step{s}_rank{w}",
        "rank{w}_step{s}", "iteration-{s}/gpu-{w}", "step_{s}/local_rank_{w}", "step_{s}/dp_rank_{w}",
        "epoch_{s}/rank_{w}", "batch{s}/rank{w}", "batch_{s}_worker_{w}", "update_{s}/learner_{w}",
        "round_{s}/client_{w}", "step{s}/node{w}", "step{s}.dev{w}", "tid{w}/it{s}",
        "grads_rank{w}_step{s}", "step{s}/rank{w}", "rank={w}/iter={s}", "global_step{s}/dump-gpu{w}",
        "it{s}_worker{w}", "run/GPU_{w}/Step_{s}/grads", "run/s{s}/rank_{w}", "step_{s}/w{w}",
        "rank_{w}/iter_{s:06d}",
    ],
)  # fmt: skip
def test_a_usual_layout_is_understood_without_an_option(tmp_path, pattern):
    written = write(tmp_path / "dump", pattern, steps=(1, 12))
    found = convert(tmp_path / "dump", tmp_path / "run", reduction="sum")
    assert found.pattern in DEFAULT_PATTERNS and found.ignored == ()
    trace = found.trace
    assert trace.steps == (1, 12) and trace.workers == 2 and trace.tensors == ("fc.w", "fc.b")
    assert trace.manifest.reduction == "sum"
    for (step, worker), g in written.items():
        assert all(np.array_equal(trace.read(step, name, worker), g[name]) for name in g)


@pytest.mark.parametrize(
    "pattern", ["{s}/{w}", "{s:06d}_{w}", "g_{s}_{w}", "grads_s{s:03d}_w{w}", "step{s}/p{w}"]
)
def test_the_pattern_that_a_refusal_proposes_converts_the_dump(tmp_path, pattern):
    write(tmp_path / "dump", pattern)
    said = refused("the same tensors are under .*pass --pattern '", tmp_path / "dump")
    found = convert(tmp_path / "dump", tmp_path / "run", reduction="mean", pattern=pattern_of(said))
    assert found.understood.startswith("4 files: 2 steps x 2 workers, 2 tensors, ")


def test_words_that_count_something_else_alone_stay_in_the_tensors_names(tmp_path):
    """Nodes of a graph, rounds of a cipher, epochs: only beside a step or a worker."""
    np.savez(tmp_path / "a.npz", **{f"node_{i}/w": np.ones(3 + i, np.float32) for i in range(2)})
    refused("the same tensors are under 'node_0', 'node_1'", tmp_path / "a.npz", workers=1)


def states():
    """A network's weights at two recorded steps."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Linear(4, 3))
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    after = {name: p + 0.003 * torch.randn_like(p) for name, p in before.items()}
    return torch, before, after


def test_a_state_of_weights_beside_an_epoch_is_refused(tmp_path):
    torch, state, _ = states()
    for key in ("model_state_dict", "state_dict", "ema_params"):
        torch.save({key: state, "epoch": 3}, tmp_path / "step_3.pt")
        refused(f"is in '{key}', as weights are in a checkpoint", tmp_path / "step_3.pt", workers=1)
        options = {"reduction": "mean", "workers": 1, "dry_run": True, "tensors": "weight"}
        assert convert(tmp_path / "step_3.pt", tmp_path / "run", **options).understood
    torch.save({"state_dict": state}, tmp_path / "grads_3.pt")
    assert convert(
        tmp_path / "grads_3.pt", tmp_path / "run", reduction="mean", workers=1, dry_run=True
    ).understood


def test_weights_of_one_worker_are_asked_about_even_if_a_step_is_named(tmp_path):
    torch, before, after = states()
    for step, state in enumerate((before, after)):
        torch.save(state, tmp_path / f"step_{step}_rank_0.pt")
    found = convert(tmp_path, tmp_path / "run", reduction="mean")
    assert any("gradients, not weights: no name has the word grad" in note for note in found.notes)
    (change,) = (note for note in found.notes if "values change by at most" in note)
    size = sum(float((p**2).sum()) for p in before.values())
    differing = sum(float(((after[n] - before[n]) ** 2).sum()) for n in before)
    assert f"at most {(differing / size) ** 0.5:.2g} of their norm" in change


def test_gradients_that_change_have_no_such_remark(tmp_path):
    write(tmp_path / "dump", "step_{s}_rank_{w}", steps=range(3), workers=1)
    found = convert(tmp_path / "dump", tmp_path / "run", reduction="mean")
    assert not any("values change" in note for note in found.notes)
    write(tmp_path / "two", "step_{s}_rank_{w}", steps=[0])
    found = convert(tmp_path / "two", tmp_path / "run2", reduction="mean")
    assert not any("not weights" in note for note in found.notes)  # equal weights are refused


def test_changes_are_those_of_narrow_and_of_non_finite_values(tmp_path):
    torch = pytest.importorskip("torch")
    for step, factor in enumerate((1.0, 1.0)):
        g = torch.linspace(1, 2, 64, dtype=torch.bfloat16) * factor
        g[0] = torch.nan
        torch.save({"w": g}, tmp_path / f"step_{step}.pt")
    found = convert(tmp_path, tmp_path / "run", reduction="mean", workers=1)
    assert any("values change by at most 0 of their norm" in note for note in found.notes)


def test_arguments_are_looked_at_before_an_address(tmp_path):
    """Nothing is fetched: the address has no file system."""
    (tmp_path / "twice").write_text("a\na\n")
    for options, sentence in (
        ({"pattern": "("}, r"pattern '\(' is not a regular expression"),
        ({"pattern": "(?P<rank>.)"}, "has the group 'rank'; it may have step, worker"),
        ({"tensors": "("}, r"tensors '\(' is not a regular expression"),
        ({"order": tmp_path / "none"}, "none cannot be read as a list of names"),
        ({"order": tmp_path / "twice"}, "has 'a' twice; name every tensor once"),
        ({"steps": "3:x"}, "x"),
        ({"raw_dtype": "float9"}, "float9"),
        ({"worker_axis": np.int64(-1)}, "worker_axis is -1; it must be an integer"),
        ({"loss_scale": np.float32(0)}, "loss_scale is 0.0; it must be a number above 0"),
        ({"sample": np.float64(2)}, "sample is 2; it must be above 0"),
    ):
        said = refused(sentence, "nosuch://bucket/dump", **options)
        assert "np." not in said and "nosuch" not in said
    refused("order is 3|cannot be read|order", "nosuch://bucket/dump", order=tmp_path)


def test_numbers_of_numpy_are_numbers(tmp_path):
    g = RNG.standard_normal((2, 3, 7)).astype(np.float32)
    np.savez(tmp_path / "g.npz", w=g)
    trace = converted(
        tmp_path / "g.npz",
        tmp_path / "run",
        step_axis=np.int64(0),
        worker_axis=np.int32(1),
        loss_scale=np.float32(1),
        accumulation=np.int64(2),
    )
    assert (len(trace.steps), trace.workers) == (2, 3)
    np.testing.assert_array_equal(trace.read(1, "w", 2), g[1, 2])


def test_one_of_a_kind_has_no_plural(tmp_path, capsys):
    np.savez(tmp_path / "g.npz", w=np.ones(3, np.float32))
    trace = converted(tmp_path / "g.npz", tmp_path / "run", workers=1, step_axis="none")
    assert "1 step, 1 worker, 1 tensor, stage" in repr(trace)
    assert command("info {} --check", tmp_path / "run") == 0
    out = capsys.readouterr().out
    assert "in 1 file\n" in out and "1 file agrees with the manifest" in out
    for options, sentence in (
        ({"pattern": "x(?P<tensor>.)"}, "matches none of 1 array; the first is"),
        ({"pattern": "x"}, "matches none of 1 file; the first is"),
        ({"workers": 2, "worker_axis": "none"}, "has 1 worker, not 2"),
    ):
        refused(sentence, tmp_path / "g.npz", step_axis="none", **options)
    with pytest.raises(ValueError, match="step 3 was not recorded; its one step is 0$"):
        trace.read(3, "w")
    assert command("ladder {} --formats e3m4", tmp_path / "run") == 0
    out = capsys.readouterr().out
    assert ", 1 step\n" in out and "1 steps" not in out
    np.savez(tmp_path / "void.npz", w=np.zeros(3, "V1"))
    refused("has values of 1 byte without a type", tmp_path / "void.npz", workers=1)
