"""States of others: an object takes one whole, or refuses it in one sentence and stays unchanged."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from apscope.schemes import all_schemes  # noqa: E402
from apscope.torch import LowPrecisionWeights  # noqa: E402
from apscope.train import (  # noqa: E402
    HALP,
    ExchangeState,
    FracTrain,
    Gates,
    Workers,
    quantization,
    quantize_model,
)
from apscope.train._exchanger import Exchanger  # noqa: E402


def workers(spec="error_feedback(top_k)", optimizer=torch.optim.SGD, width=4, **options):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Linear(width, 2))
    options = {"lr": 0.1, **({"momentum": 0.9} if optimizer is torch.optim.SGD else {}), **options}
    made = optimizer(model.parameters(), **options)
    return Workers(model, torch.nn.functional.mse_loss, made, workers=2, exchange=spec)


def step(one):
    g = torch.Generator().manual_seed(2)
    one.step(torch.randn(4, 3, generator=g), torch.randn(4, 2, generator=g))


def flat(value):
    """A state as a list of plain values, for comparing."""
    if isinstance(value, torch.Tensor):
        return [("tensor", tuple(value.shape), value.tolist())]
    if isinstance(value, dict):
        return [x for key in sorted(value, key=str) for x in [str(key), *flat(value[key])]]
    if isinstance(value, list | tuple):
        return [x for inner in value for x in flat(inner)]
    return [repr(value)]


def paths(value, path=()):
    """The places of a state: of dicts and lists."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield (*path, i)
            yield from paths(inner, (*path, i))


def changed(state, path, make):
    """A copy whose value at the path is another, or gone."""
    made = copy.deepcopy(state)
    at = made
    for key in path[:-1]:
        at = at[key]
    if make is None:
        del at[path[-1]]
    else:
        at[path[-1]] = make(at[path[-1]])
    return made


def wrong(value):
    """Makers of wrong values in the place of a right one; None removes it."""
    yield None
    yield lambda _: object()
    if isinstance(value, torch.Tensor) and value.dim():
        yield lambda t: torch.zeros(*(n + 1 for n in t.shape), dtype=t.dtype)
        yield lambda t: t.tolist()


def at(state, path):
    for key in path:
        state = state[key]
    return state


def check(make, state, refused=0):
    """Every change of the state is taken, or refused with a sentence and without a change."""
    for path in list(paths(state)):
        for maker in wrong(at(state, path)):
            one = make()
            before = flat(one.state_dict())
            try:
                one.load_state_dict(changed(state, path, maker))
            except (ValueError, TypeError) as error:
                refused += 1
                assert str(error) and "\n" not in str(error), path
                assert flat(one.state_dict()) == before, path
    return refused


def test_workers():
    one = workers()
    step(one)
    state = one.state_dict()
    assert check(workers, state) > 30
    for key in ("model", "optimizer", "exchange"):
        with pytest.raises(ValueError, match="give one made by state_dict, which has model, optim"):
            workers().load_state_dict({k: v for k, v in state.items() if k != key})
    with pytest.raises(TypeError, match="the state is None, of type NoneType"):
        workers().load_state_dict(None)
    again = workers()
    again.load_state_dict(state)
    step(one), step(again)
    assert flat(one.state_dict()) == flat(again.state_dict())


@pytest.mark.parametrize(
    "of, said",
    [
        (dict(width=5), r"the state's model '0.weight' has shape \(5, 3\), not \(4, 3\)"),
        (dict(spec="sign"), "the state is of spec='sign"),
        (dict(optimizer=torch.optim.Adam), "the state's optimizer has no"),
    ],
)
def test_the_state_of_other_workers(of, said):
    other = workers(**of)
    step(other)
    one = workers()
    before = flat(one.state_dict())
    with pytest.raises(ValueError, match=said):
        one.load_state_dict(other.state_dict())
    assert flat(one.state_dict()) == before


def exchange():
    return Exchanger("error_feedback(sign)", {"w": (4, 3), "b": (4,)}, workers=2)


def run(one, sizes=(12, 4)):
    rows = [torch.arange(2 * n, dtype=torch.float32).reshape(2, n) - n for n in sizes]
    out = [torch.empty(n) for n in sizes]
    one.run(rows, out, loss=1.0, learning_rate=0.1, weights=[torch.ones(n) for n in sizes])
    return torch.cat(out)


def test_an_exchange():
    one = exchange()
    run(one)
    assert check(exchange, one.state_dict()) > 10


def test_the_hooks_state_is_looked_at_before_the_first_step():
    one = exchange()
    run(one)
    state = ExchangeState(None, "error_feedback(sign)")
    state.load_state_dict({})
    with pytest.raises(ValueError, match="give one made by state_dict"):
        state.load_state_dict({"step": 3})
    with pytest.raises(TypeError, match="the state is 5, of type int"):
        state.load_state_dict(5)
    with pytest.raises(ValueError, match="the state is of spec='error_feedback"):
        ExchangeState(None, "sign").load_state_dict(one.state_dict())
    assert state.state_dict() == {}
    state.load_state_dict(one.state_dict())
    assert state.state_dict()["step"] == 1


SIZES = {"w": (8, 6), "b": (5,)}


def memory_of(scheme):
    """A scheme with its memory after some steps; None if a loop cannot run it or it has none."""
    try:
        one = Exchanger(scheme.spec, SIZES, workers=3, threads=1)
    except ValueError:
        return None
    for _ in range(3):
        run_all(one)
    return one.state_dict() if one.state_dict()["memory"] else None


def run_all(one):
    rng = np.random.default_rng(3)
    sizes = [int(np.prod(shape)) for shape in SIZES.values()]
    rows = [torch.from_numpy(rng.standard_normal((3, n)).astype(np.float32)) for n in sizes]
    one.run(
        rows,
        [torch.empty(n) for n in sizes],
        loss=1.0,
        learning_rate=0.1,
        weights=[torch.ones(n) for n in sizes],
    )


def wrong_rows(row):
    for count in (0, 1, 1000):
        yield torch.full((count,), 0.5, dtype=torch.float64)
    for value in (np.nan, np.inf, -1e18, 1e30, 0.5, -1.0):
        yield torch.full(row.shape, value, dtype=torch.float64)


@pytest.mark.parametrize("spec", sorted({s.spec for s in all_schemes()}))
def test_no_memory_of_others_ends_the_process(spec):
    """Rows of other lengths, and numbers that are none: the next steps run, or are refused."""
    scheme = next(s for s in all_schemes() if s.spec == spec)
    state = memory_of(scheme)
    if state is None:
        return
    for name, rows in state["memory"].items():
        for part, row in rows.items():
            for other in wrong_rows(row):
                one = Exchanger(spec, SIZES, workers=3, threads=1)
                try:
                    one.load_state_dict(changed(state, ("memory", name, part), lambda _: other))
                    run_all(one)
                    run_all(one)
                except ValueError as error:
                    assert "state" in str(error) or "needs" in str(error), (name, part, other[:3])


def low_precision():
    p = torch.nn.Parameter(torch.ones(3))
    return LowPrecisionWeights(torch.optim.Adam([p], lr=0.1), "e4m3", update="kahan")


def halp():
    p = torch.nn.Parameter(torch.ones(3))
    return HALP([p], 0.1, bits=5, mu=1.0)


def frac_train():
    return FracTrain(torch.nn.Sequential(torch.nn.Linear(3, 4)))


def frac_train_with_gates():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    made = FracTrain(model, gates=Gates(["0"], sizes=(2, 2, 2)))
    with made:
        model(torch.ones(2, 3))
    return made


def quantized():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return quantization(quantize_model(model, "mxfp8", optimizer=optimizer, say=None))


@pytest.mark.parametrize(
    "make", [low_precision, halp, frac_train, frac_train_with_gates, quantized]
)
def test_other_states(make):
    assert check(make, make().state_dict()) > 5
