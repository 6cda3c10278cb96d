"""Ok-Topk: messages and their bytes, what stays behind, how thresholds follow counts."""

import numpy as np
import pytest

import apscope
from tests.python.recorded import record
from tests.reference.ok_topk import OkTopk
from tests.reference.topologies import rank_order_sum

SPARSE = "ok_topk:warmup=0,keep=0.1,threshold_period=4,region_period=8"


def exact_gradients(workers, n, step, seed=0):
    """Multiples of 2^-12 below 1, whose sums over workers and steps are exact in fp32."""
    random = np.random.default_rng((seed, step))
    return (random.integers(-(2**12), 2**12, (workers, n)) / 2**12).astype(np.float32)


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8])
@pytest.mark.parametrize(
    ("n", "keep", "steps"), [(1, 1, 150), (7, 0.3, 150), (64, 0.1, 150), (1000, 0.01, 150)]
)
def test_results_and_messages_are_those_of_the_reference(workers, n, keep, steps):
    """Bit for bit, with a dense beginning, exact thresholds and new regions among the steps."""
    random = np.random.default_rng((workers, n))
    own = OkTopk(
        workers, n, keep, dense_steps=5, every_threshold=8, every_region=12,
        order=lambda r, w: [(r - i) % w for i in range(w)],
    )  # fmt: skip
    state = {}
    for step in range(steps):
        g = random.standard_normal((workers, n)) * np.exp(random.standard_normal(n))
        e = apscope.exchange(
            f"ok_topk:warmup=5,keep={keep},threshold_period=8,region_period=12",
            g.astype(np.float32), state=state, step=step,
        )  # fmt: skip
        state, wanted = e.state, own.step(g)
        found = np.float32(e.reduced) / np.float32(workers)
        assert np.array_equal(found.view(np.int32), wanted.result.view(np.int32))
        for w, sent in enumerate(wanted.sent):
            assert np.array_equal(state[f"residual/{w}"], own.residual[w])
            if wanted.dense:
                assert np.array_equal(e.sent[w], g[w].astype(np.float32))
                assert e.payload_bits[w] == 2 * 32 * n
                continue
            assert np.array_equal(np.flatnonzero(e.sent[w]), sent)
            assert e.payload_bits[w] == 64 * (len(sent) + max(wanted.gathered, len(wanted.kept)))


def steps_of(spec, workers, n, count, make=exact_gradients):
    """(gradients, the exchange) of consecutive steps."""
    state = {}
    for step in range(count):
        g = make(workers, n, step)
        e = apscope.exchange(spec, g, state=state, step=step)
        state = e.state
        yield g, e


def pairs_of(payload):
    """A payload's indices and fp32 numbers."""
    words = np.frombuffer(bytes(payload), np.uint32).reshape(-1, 2)
    return words[:, 0], np.ascontiguousarray(words[:, 1]).view(np.float32)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_what_is_not_in_a_result_stays(workers):
    """The results and what the workers keep add up to the gradients, exactly."""
    given = results = 0.0
    for g, e in steps_of(SPARSE, workers, 60, 50):
        given, results = given + g.astype(float).sum(axis=0), results + e.reduced
        kept = sum(e.state[f"residual/{w}"] for w in range(workers))
        assert np.array_equal(results + kept, given)
        for w in range(workers):
            done = (e.sent[w] != 0) & (e.reduced != 0)
            assert np.array_equal(e.state[f"residual/{w}"], np.where(done, 0, e.intended[w]))


def test_messages_are_the_elements_and_the_gathered_sums():
    """Exact thresholds: all sums that are not 0 are gathered. Else: those of the result."""
    workers, n = 4, 100
    for step, (_, e) in enumerate(steps_of(SPARSE, workers, n, 12)):
        sums = np.zeros(n, np.float32)
        for sent in e.sent:  # exact in every order
            sums += sent.astype(np.float32)
        result = e.reduced != 0
        gathered = np.flatnonzero(sums if step % 4 == 0 else result)
        assert np.array_equal(e.reduced[result], sums[result])
        if step % 4 == 0:
            assert result.sum() == 10 == (np.abs(sums) >= np.abs(sums[result]).min()).sum()
        for sent, payload, bits in zip(e.sent, e.payload, e.payload_bits, strict=True):
            indices, values = pairs_of(payload)
            own = np.flatnonzero(sent)
            assert np.array_equal(indices, [*own, *gathered])
            assert np.array_equal(values, [*sent[own].astype(np.float32), *sums[gathered]])
            assert bits == 64 * len(indices)
        assert e.side_bits == [(workers - 1) * 32 if step % 8 == 0 else 0] * workers


def test_exact_thresholds_send_what_is_above_the_kth_largest():
    for step, (_, e) in enumerate(steps_of(SPARSE, 3, 200, 9)):
        for x, sent in zip(e.intended, e.sent, strict=True):
            kth = np.sort(np.abs(x))[-20]
            if step % 4 == 0:
                assert np.array_equal(sent, np.where(np.abs(x) > kth, x, 0))


def test_thresholds_hold_the_counts_near_k():
    """Normal gradients; thresholds are exact once, before anything has been kept back."""

    def normal(workers, n, step):
        return np.random.default_rng(step).standard_normal((workers, n)).astype(np.float32)

    spec = "ok_topk:warmup=0,keep=0.05,threshold_period=1000"
    steps = list(steps_of(spec, 4, 1000, 300, normal))[150:]
    of_workers = np.array([(e.sent != 0).sum(axis=1) for _, e in steps]) / 50
    of_results = np.array([(e.reduced != 0).sum() for _, e in steps]) / 50
    assert 0.5 < of_workers.min() and of_workers.max() < 1.4 and 0.9 < of_workers.mean() < 1.1
    assert 0.5 < of_results.min() and of_results.max() < 1.6 and 0.9 < of_results.mean() < 1.2


def fp32(first, *factors):
    """A product, rounded to fp32 after every factor."""
    for factor in factors:
        first = np.float32(first) * np.float32(factor)
    return first


LOWER, LOWER_RESULT = (np.float32(0.5) / np.float32(f) for f in (1.012, 1.008))


@pytest.mark.parametrize(
    ("count", "local", "of_result"),
    [
        (1, LOWER, LOWER_RESULT),
        (2, 0.5, 0.5),
        (3, 0.5, 0.5),
        (4, fp32(0.5, 1.012), 0.5),
        (5, fp32(0.5, *5 * [1.03], 1.012), fp32(0.5, 1.008)),
    ],
)
def test_thresholds_follow_the_counts(count, local, of_result):
    """k = 3. More than 4 elements raise the local threshold before the step, too."""
    row = np.zeros((1, 30), np.float32)
    row[0, :count] = 1
    state = {
        "local_threshold": np.array([0.5]),
        "global_threshold": np.array([0.5]),
        "steps": np.array([1.0]),
    }
    spec = "ok_topk:warmup=0,keep=0.1,threshold_period=9"
    e = apscope.exchange(spec, row, state=state)
    assert (e.sent != 0).sum() == (e.reduced != 0).sum() == count
    assert e.state["local_threshold"] == [local]
    assert e.state["global_threshold"] == [of_result]


def test_regions_have_equal_parts_of_what_is_sent():
    """Four workers that send the first 8, 8, 16 and 32 of 64 elements: the means of 2, 2, 4, 8, of
    4, 4, 8, 16, and of 6, 6, 12, 24."""
    g = np.zeros((4, 64), np.float32)
    for row, count in zip(g, (8, 8, 16, 32), strict=True):
        row[:count] = 1
    e = apscope.exchange("ok_topk:warmup=0,keep=1", g)
    assert e.state["starts"].tolist() == [4, 8, 12]


def test_regions_decide_the_order_of_additions():
    """fp32 numbers a[w] whose sum depends on its order: region w adds a[w], a[w - 1], ..."""
    a = np.float32([2**24, 1, 3, -(2**24) + 2])
    g = np.repeat(a[:, None], 40, axis=1)
    e = apscope.exchange("ok_topk:warmup=0,keep=1", np.concatenate([g, 0 * g[:, :1]], axis=1))
    starts = [0, *e.state["starts"].astype(int), 41]
    for r in range(4):
        wanted = rank_order_sum(np.roll(a[::-1], r + 1)[:, None], np.float32)[0]
        assert (e.reduced[starts[r] : min(starts[r + 1], 40)] == wanted).all()
    assert len(set(e.reduced[:40])) > 1


def test_the_warm_up_is_dense():
    spec = "ok_topk:warmup=3,keep=0.1"
    for step, (g, e) in enumerate(steps_of(spec, 3, 50, 4)):
        assert np.array_equal(e.sent, g) == (step < 3)
        assert (e.payload_bits == [2 * 32 * 50] * 3) == (step < 3)
        if step < 3:
            assert np.array_equal(e.reduced, rank_order_sum(g, np.float32))
            assert not any(e.state[f"residual/{w}"].any() for w in range(3))
    # The first step after the warm-up has exact thresholds.
    assert (e.reduced != 0).sum() == 5


def test_the_volume_is_that_of_both_phases(tmp_path):
    random = np.random.default_rng(0)
    trace = record(tmp_path / "t", [{"w": random.standard_normal((4, 500))} for _ in range(5)])
    spec = "ok_topk:warmup=1,keep=0.1,threshold_period=2"
    frame = apscope.replay(trace, spec).frame
    frame = frame[frame.topology == "own:two_phase"]
    agreed = np.where(frame.step == 1, 3 * 32, 0)
    assert frame.volume.iloc[0] == 1 and (frame.side_bits == agreed).all()
    assert np.allclose(frame.volume, (frame.wire_bits / 2 + agreed) / (32 * 500), rtol=1e-12)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"starts": [9.0, 3.0]}, "'starts' must ascend and be at most 12"),
        ({"starts": [9.0, 13.0]}, "'starts' must ascend and be at most 12"),
        ({"residual/0": [1.0]}, "a row of 1 elements for a tensor of 12"),
    ],
)
def test_a_memory_that_does_not_fit_is_refused(row, sentence):
    """As a state, and changed by a function of the caller within the step."""

    def change(step, state, x):
        state.update(changed)
        return x

    changed = {name: np.array(values) for name, values in row.items()}
    g = np.ones((3, 12), np.float32)
    with pytest.raises(ValueError, match=sentence):
        apscope.exchange(SPARSE, g, state=changed)
    made = apscope.schemes.define("ok_topk_changed", SPARSE, compensate=change)
    with pytest.raises(ValueError, match=sentence):
        apscope.exchange(made.spec, g)


def test_a_threshold_is_finite_after_sums_that_are_not():
    """It follows the counts down again; from infinity it could not."""
    huge = np.tile(np.arange(1, 11, dtype=np.float32) * np.float32(3e37), (2, 1))
    state = {}
    for step, g in enumerate((huge, huge / 4)):
        e = apscope.exchange(
            "ok_topk:warmup=0,keep=0.3,threshold_period=100", g, state=state, step=step
        )
        state = e.state
        (threshold,) = state["global_threshold"]
        assert 0 < threshold <= np.finfo(np.float32).max
