"""Seeds of stochastic rounding: an integer draws the same words at every call, a `Draws` others
each time."""

import pickle
import threading

import numpy as np
import pytest

import apscope
from tests.reference.random_words import replay_key

X = np.full(64, 1.0625, np.float32)  # half way between 1 and 1.125 in e4m3
ROWS = np.tile(X, (3, 1))
STOCHASTIC = {"rounding": "stochastic"}
CALLS = {
    "quantize": lambda seed: apscope.quantize(X, "e4m3", seed=seed, **STOCHASTIC),
    "quantize float64": lambda seed: apscope.quantize(
        X.astype(np.float64), "e4m3", seed=seed, **STOCHASTIC
    ),
    "quantize integers": lambda seed: apscope.quantize(
        2**60 + 2**52 + np.arange(64), "bf16", seed=seed, **STOCHASTIC
    ),
    "encode": lambda seed: apscope.encode(X, "e4m3", seed=seed, **STOCHASTIC),
    "allreduce": lambda seed: apscope.allreduce(ROWS, "e4m3", seed=seed, **STOCHASTIC),
    "add": lambda seed: apscope.add(X, 0, "e4m3", seed=seed, **STOCHASTIC),
    "fma": lambda seed: apscope.fma(X, X, X, "e4m3", seed=seed, **STOCHASTIC),
    "sum": lambda seed: apscope.sum(np.tile(X, (2, 1)), "e4m3", axis=0, seed=seed, **STOCHASTIC),
    "dot": lambda seed: np.array([apscope.dot(X[:9], X[:9], "e4m3", seed=seed, **STOCHASTIC)]),
    "matmul": lambda seed: apscope.matmul(ROWS, ROWS.T, "e4m3", seed=seed, **STOCHASTIC),
    "quantize_blocks": lambda seed: apscope.quantize_blocks(
        X * np.float32(1.01), "mxfp4", seed=seed, **STOCHASTIC
    ),
    "encode_blocks": lambda seed: (
        apscope.encode_blocks(X * np.float32(1.01), "mxfp4", seed=seed, **STOCHASTIC).codes
    ),
    "cast_statistics": lambda seed: np.array(
        [apscope.cast_statistics(X, "e4m3", seed=seed, **STOCHASTIC).sum_error]
    ),
    "exchange": lambda seed: apscope.exchange("stochastic:e3m0", ROWS, seed=seed).sent,
    "double_sampling": lambda seed: (
        apscope.studies.double_sampling.gradients(
            ROWS, X.astype(float), np.ones(3), np.linspace(0, 3, 4), seed=seed
        ).unbiased
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_number_repeats_and_draws_advance(name):
    call = CALLS[name]
    assert np.array_equal(call(5), call(5))
    draws = apscope.Draws(5)
    made = [call(draws) for _ in range(12)]
    assert draws.calls == 12, "one per call"
    assert any(not np.array_equal(made[0], other) for other in made[1:])
    # Reproducible, from the start and from the middle; call k is a seed like any other.
    again, later = apscope.Draws(5), apscope.Draws(5, calls=7)
    assert all(np.array_equal(m, call(again)) for m in made)
    assert all(np.array_equal(m, call(later)) for m in made[7:])
    keys = apscope.Draws(5)
    assert all(np.array_equal(m, call(keys.next())) for m in made)


def test_errors_of_repeated_calls_average_out():
    """A sum of 400 roundings: with one seed all err alike, with draws the mean is that of the
    probability 1/2."""
    fixed = np.mean([CALLS["quantize"](0) for _ in range(400)], axis=0) - X
    assert set(np.abs(fixed)) == {0.0625}
    draws = apscope.Draws()
    assert (
        np.abs(np.mean([CALLS["quantize"](draws) for _ in range(400)], axis=0) - X).max()
        < 5 * 0.0625 / 20
    )


def test_seeds_are_those_that_the_definitions_name():
    for seed in (0, 7, 2**64 - 1):
        draws = apscope.Draws(seed)
        for number in range(3):
            low, high = replay_key(seed, "", number)
            assert draws.next() == high << 32 | low


def test_copies_go_on_and_threads_share():
    draws = apscope.Draws(3)
    draws.next()
    copy = pickle.loads(pickle.dumps(draws))
    assert (copy.seed, copy.calls, repr(copy)) == (
        3,
        1,
        "Draws(seed=3, calls=1)",
    ) and copy.next() == draws.next()
    shared, taken = apscope.Draws(9), []
    threads = [
        threading.Thread(target=lambda: taken.extend(shared.next() for _ in range(500)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = apscope.Draws(9)
    assert sorted(taken) == sorted(alone.next() for _ in range(2000)) and len(set(taken)) == 2000


@pytest.mark.parametrize(
    "bad, error",
    [
        ({"seed": -1}, ValueError),
        ({"seed": 2**64}, ValueError),
        ({"seed": 1.5}, TypeError),
        ({"calls": -1}, ValueError),
    ],
)
def test_wrong_numbers_are_refused(bad, error):
    with pytest.raises(error):
        apscope.Draws(**bad)


def test_replays_take_numbers():
    with pytest.raises(TypeError, match="must be an integer"):
        apscope.replay("notebooks/data/digits", "stochastic:e4m3", seed=apscope.Draws())
