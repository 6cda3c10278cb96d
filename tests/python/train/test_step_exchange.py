"""All tensors of a step at once: the bits of `apscope.exchange`, tensor by tensor and step by
step."""

import re

import numpy as np
import pytest

import apscope

torch = pytest.importorskip("torch")
from apscope.train._exchanger import Exchanger  # noqa: E402

SHAPES = {"embed.weight": (40, 30), "block.norm.weight": (30,), "block.fc.weight": (130, 60),
          "block.fc.bias": (1,), "head.weight": (10, 30)}  # fmt: skip
WORKERS = 4
SPECS = [
    "none:fp32",
    "none:bf16",
    "aps:e4m3",
    "aps:e3m4,rounding=stochastic",
    "aps:e5m2,hop_rounding=stochastic,accumulate=fp16",
    "aps:e4m3,unit=64",
    "aps:e4m3,delay=1",
    "aps:e4m3,frozen=2",
    "stochastic:e4m3",
    "delayed_scaling:e4m3fn",
    "loss_scaling:e4m3,scale=1024,accumulate=exact",
    "mx",
    "sign",
    "qsgd",
    "terngrad",
    "top_k",
    "thc",
    "powersgd",
    "fft_sparse",
    "onebit_adam:warmup=2",
    "birder",
    "quickreduce:int6",
    "fp8_two_shot:e4m3fn,group=64",
    "fp8_two_shot:e5m2,group=row",
    "error_feedback(aps:e3m0)",
    "error_feedback(sign)",
    "adaptive_loss_scaling:e5m2",
]


def gradients(step, kind=None):
    random = np.random.default_rng(step)
    made = {}
    for name, shape in SHAPES.items():
        x = random.normal(size=(WORKERS, *shape)) * 2.0 ** random.integers(-12, 0)
        x = x.astype(np.float32)
        if kind is not None:
            x.reshape(-1)[random.integers(0, x.size)] = kind
        made[name] = x
    return made


def run(exchanger, x, **others):
    out = [torch.empty(int(np.prod(SHAPES[name]))) for name in exchanger.names]
    flat = [torch.from_numpy(x[name].reshape(WORKERS, -1)) for name in exchanger.names]
    dropped = exchanger.run(flat, out, **others)
    results = {name: o.numpy().reshape(SHAPES[name]) for name, o in zip(x, out, strict=True)}
    return results, dropped


@pytest.mark.parametrize(
    "topology",
    ["ring", "hierarchical:2+kahan", "exact", "pat", "nccl:tree", "nccl:nvls",
     "nccl:ring,channels=2", "hierarchical:3(two_phase,two_phase@e5m2)"],
)  # fmt: skip
@pytest.mark.parametrize("spec", SPECS)
def test_the_bits_of_exchange(spec, topology):
    x = gradients(0)
    try:
        apscope.exchange(spec, x["head.weight"], topology=topology)
    except ValueError as error:  # of a hierarchy that cannot reduce it
        assert "(" in topology
        with pytest.raises(ValueError, match=re.escape(str(error))):
            run(Exchanger(spec, SHAPES, workers=WORKERS, topology=topology), x)
        return
    exchanger = Exchanger(spec, SHAPES, workers=WORKERS, topology=topology, seed=3)
    memory = dict.fromkeys(SHAPES, None)
    for step in range(4):
        x = gradients(step)
        results, dropped = run(exchanger, x)
        assert dropped == [False] * len(SHAPES)
        for name, shape in SHAPES.items():
            e = apscope.exchange(
                spec, x[name], topology=topology, state=memory[name], step=step, tensor=name,
                seed=3, role=apscope.record.guess_role(name, shape),
            )  # fmt: skip
            memory[name] = e.state
            wanted = (e.reduced / WORKERS).astype(np.float32)
            assert np.array_equal(results[name].view(np.uint32), wanted.view(np.uint32)), name


def test_a_hybrid_gives_each_tensor_its_branch():
    spec = "hybrid(last=none:fp16;steps:1:2=none:bf16;else=error_feedback(aps:e3m0))"
    exchanger = Exchanger(spec, SHAPES, workers=WORKERS)
    memory = None
    for step in range(3):
        x = gradients(step)
        results, _ = run(exchanger, x)
        for name, scheme in (
            ("head.weight", "none:fp16"),
            ("embed.weight", "none:bf16" if step == 1 else "error_feedback(aps:e3m0)"),
        ):
            with_memory = scheme.startswith("error")
            e = apscope.exchange(
                scheme, x[name], topology="ring", step=step, tensor=name,
                state=memory if with_memory else None,
            )  # fmt: skip
            memory = e.state if with_memory else memory
            assert np.array_equal(results[name], (e.reduced / WORKERS).astype(np.float32)), name


def test_one_scale_for_all_tensors():
    x = gradients(0)
    results, _ = run(Exchanger("aps:e4m3,unit=model", SHAPES, workers=WORKERS), x)
    together = np.concatenate([a.reshape(WORKERS, -1) for a in x.values()], axis=1)
    exponent = apscope.exchange("aps:e4m3", together, topology="ring").scale_exponent
    for name in SHAPES:
        e = apscope.exchange(
            f"loss_scaling:e4m3,scale={2.0**exponent!r}", x[name], topology="ring", tensor=name
        )
        assert np.array_equal(results[name], (e.reduced / WORKERS).astype(np.float32))


def test_a_step_with_an_infinity_is_dropped_by_dynamic_loss_scaling():
    exchanger = Exchanger("dynamic_loss_scaling:fp16,init=1024", SHAPES, workers=WORKERS)
    results, dropped = run(exchanger, gradients(0, np.inf))
    assert dropped == [True] * len(SHAPES)
    assert all((r == 0).all() for r in results.values())
    results, dropped = run(exchanger, gradients(1))
    assert dropped == [False] * len(SHAPES)
    halved = Exchanger("loss_scaling:fp16,scale=512", SHAPES, workers=WORKERS)
    halved.step = 1
    for name, wanted in run(halved, gradients(1))[0].items():
        assert np.array_equal(results[name], wanted)


@pytest.mark.parametrize("kind", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_enters_the_sum(kind):
    x = gradients(0, kind)
    for spec in ("aps:e4m3", "sign"):
        results, _ = run(Exchanger(spec, SHAPES, workers=WORKERS), x)
        for name, y in results.items():
            at = ~np.isfinite(x[name]).all(axis=0)
            assert at.sum() == 1 and np.isfinite(y[~at]).all()
            assert np.isnan(y[at]) if np.isnan(kind) else y[at] == kind


@pytest.mark.parametrize("spec", ["error_feedback(sign)", "delayed_scaling:e4m3fn", "powersgd"])
@pytest.mark.parametrize("threads", [1, 3])
def test_memory_goes_on_where_it_was_saved(spec, threads, tmp_path):
    whole = Exchanger(spec, SHAPES, workers=WORKERS)
    wanted = [run(whole, gradients(step))[0] for step in range(4)]
    first = Exchanger(spec, SHAPES, workers=WORKERS, threads=threads)
    for step in range(2):
        run(first, gradients(step))
    torch.save(first.state_dict(), tmp_path / "state")
    second = Exchanger(spec, SHAPES, workers=WORKERS, threads=threads)
    second.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    for step in (2, 3):
        for name, y in run(second, gradients(step))[0].items():
            assert np.array_equal(y, wanted[step][name])


def test_inputs_of_schemes_that_need_more():
    for spec in apscope.schemes.all_schemes():
        needs = spec.needs
        if "full_batch" in needs:
            with pytest.raises(ValueError, match="needs the gradient of the full batch"):
                Exchanger(spec, SHAPES, workers=WORKERS)
        elif needs:
            exchanger = Exchanger(spec, SHAPES, workers=WORKERS)
            assert exchanger.needs == sorted(needs)
            with pytest.raises(ValueError, match=f"needs {min(needs)}; give it with every step"):
                run(exchanger, gradients(0))


def test_a_loss_that_is_not_a_number_is_a_loss():
    """As in `exchange`: the scheme sees it, and is not refused for the want of one."""
    exchanger = Exchanger("fractrain", SHAPES, workers=WORKERS)
    memory = {name: {} for name in SHAPES}
    for step, loss in enumerate([1.0, np.nan, 0.5, np.nan]):
        x = gradients(step)
        found = run(exchanger, x, loss=loss)[0]
        for name in SHAPES:
            alone = apscope.exchange(
                "fractrain", x[name], loss=loss, step=step, tensor=name, state=memory[name]
            )
            memory[name] = alone.state
            assert np.array_equal(found[name], (alone.reduced / WORKERS).astype(np.float32))


def test_a_memory_of_another_form_is_refused():
    """A scheme reads beyond its rows: one sentence, of a tensor's exchange and of a step's."""
    sentence = "has another length than this exchange's"
    x = gradients(0)
    state = apscope.exchange("fractrain", x["block.fc.weight"], loss=1.0).state
    state["indicator"][0] = 54  # the number of the width in force, of four
    with pytest.raises(ValueError, match=sentence):
        apscope.exchange("fractrain", x["block.fc.weight"], loss=1.0, step=1, state=state)
    exchanger = Exchanger("fractrain", SHAPES, workers=WORKERS)
    run(exchanger, x, loss=1.0)
    memory = exchanger.state_dict()
    for rows in memory["memory"].values():
        rows["indicator"][0] = 54
    exchanger.load_state_dict(memory)
    with pytest.raises(ValueError, match=sentence):
        run(exchanger, x, loss=1.0)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"spec": "loss_scaling:e4m3,scale=largest"}, "chooses its scale in hindsight"),
        ({"spec": "hybrid(last=loss_scaling:e4m3,scale=largest;else=sign)"}, "in hindsight"),
        ({"spec": "error_feedback(loss_scaling:e4m3,scale=largest)"}, "one scale for several"),
        ({"workers": 0}, "workers=0"),
        ({"topology": "star"}, "star"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_what_a_training_loop_cannot_run_is_refused(options, words):
    options = {"spec": "aps:e4m3", "workers": WORKERS} | options
    with pytest.raises(ValueError, match=words):
        Exchanger(options.pop("spec"), SHAPES, **options)


def test_a_state_of_something_else_is_refused():
    state = Exchanger("sign", SHAPES, workers=WORKERS).state_dict()
    with pytest.raises(ValueError, match="the state is of spec='sign', not of 'qsgd'"):
        Exchanger("qsgd", SHAPES, workers=WORKERS).load_state_dict(state)
