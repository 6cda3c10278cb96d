"""HALP: the rule by hand with its random words, resumed runs, the claim."""

import copy
import math

import numpy as np
import pytest

import apscope
from tests.reference import halp as rule
from tests.reference.random_words import random_integer

torch = pytest.importorskip("torch")
from apscope.train import HALP  # noqa: E402
from apscope.train._halp import _drawn_half  # noqa: E402
from docs.tools.method_claims import halp as claim  # noqa: E402

RATE, MU = 0.07, 0.4


class Quadratics:
    """sum_j d_ij (w_j - t_ij)^2 / 2 of rows i, whose gradient is one subtraction and one
    product."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.d = rng.uniform(0.5, 2.0, (6, 3))
        self.t = rng.standard_normal((6, 3))
        self.w = [torch.zeros(2, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)]
        for p in self.w:
            p.requires_grad_()

    def gradient(self, w, row):
        """NumPy's."""
        if row is None:
            return (self.d * (w - self.t))[:2].sum(0)  # of two rows: a sum of two in any order
        return self.d[row] * (w - self.t[row])

    def closure(self, row):
        def loss():
            g = self.gradient(np.concatenate([p.detach().numpy() for p in self.w]), row)
            parts = torch.from_numpy(g).split([2, 1])
            return sum((p * part).sum() for p, part in zip(self.w, parts, strict=True))

        return loss


def rounded(x, bits, seed):
    """Stochastically to integers by the definition: the magnitude up if its fraction's 32 bits and
    R carry."""
    found = []
    for i, v in enumerate(x):
        below = math.floor(abs(v))
        up = math.floor((abs(v) - below) * 2**32) + random_integer(seed, i, 32) >= 2**32
        whole = math.copysign(below + up, v)
        found.append(min(max(whole, -(2 ** (bits - 1))), 2 ** (bits - 1) - 1))
    return np.array(found)


def by_hand(task, bits, unit, constant, centres, steps):
    w, step, seen = np.zeros(3), 0, []
    parts = [slice(0, 2), slice(2, 3)]
    for _ in range(centres):
        centre, z, full = w, np.zeros(3), task.gradient(w, None)
        squares = [float((full[p] ** 2).sum()) for p in parts]
        norms = [math.sqrt(sum(squares))] * 2 if unit == "model" else list(map(math.sqrt, squares))
        delta = [constant or norm / (MU * (2 ** (bits - 1) - 1)) for norm in norms]
        for _ in range(steps):
            row = step % 6
            v = task.gradient(w, row) - task.gradient(centre, row) + full
            moved = z - RATE * v
            for i, p in enumerate(parts):
                seed = apscope.Draws(7, 2 * step + i).next()
                if constant:
                    z[p] = (
                        rounded((centre[p] + moved[p]) / delta[i], bits, seed) * delta[i]
                        - centre[p]
                    )
                else:
                    z[p] = rounded(moved[p] / delta[i], bits, seed) * delta[i]
            w = centre + z
            step += 1
            seen.append(w.copy())
        w = w.copy()
    return seen


@pytest.mark.parametrize(
    ("bits", "unit", "constant"),
    [(8, "model", None), (3, "model", None), (8, "tensor", None), (8, "model", 0.02)],
)
def test_the_rule_by_hand_bit_for_bit(bits, unit, constant):
    task = Quadratics()
    halp = HALP(task.w, RATE, bits=bits, mu=MU, unit=unit, delta=constant, seed=7)
    seen = []
    for _ in range(3):
        halp.centre(task.closure(None))
        for _ in range(20):
            halp.step(task.closure(halp.steps % 6))
            seen.append(np.concatenate([p.detach().numpy() for p in task.w]))
    wanted = by_hand(Quadratics(), bits, unit, constant, 3, 20)
    assert all(np.array_equal(a, b) for a, b in zip(seen, wanted, strict=True))
    assert len({tuple(w) for w in seen}) > (10 if bits == 8 else 3)


class OneTensor:
    """Rows of elementwise quadratics in one tensor of the dtype."""

    def __init__(self, dtype, size=12):
        rng = np.random.default_rng(9)
        self.d = rng.uniform(0.5, 2.0, (5, size)).astype(dtype)
        self.t = rng.standard_normal((5, size)).astype(dtype)
        self.w = torch.zeros(size, dtype=torch.float32).requires_grad_()

    def gradient(self, w, row):
        if row is None:
            return self.gradient(w, 0) / 2 + self.gradient(w, 1) / 2
        return self.d[row] * (w - self.t[row])

    def closure(self, row):
        return lambda: (
            self.w * torch.from_numpy(self.gradient(self.w.detach().numpy(), row))
        ).sum()


@pytest.mark.parametrize("decay, momentum", [(0.0, 0.0), (0.3, 0.0), (0.3, 0.9)])
def test_decay_and_momentum_are_those_of_the_references_base_optimizer(decay, momentum):
    """Decay pulls z to 0, not w; a new centre keeps the buffer. The reference computes in fp32, so
    integers are compared, and weights with a tolerance. floor(z + a) is the draw by magnitudes:
    a is R / 2^32, or 1 less that below 0."""
    task = OneTensor(np.float32)
    options = dict(bits=6, mu=0.4, decay=decay, momentum=momentum)
    halp = HALP([task.w], 0.05, unit="tensor", seed=7, **options)
    reference = rule.Halp(
        np.zeros(12), task.gradient, 0.05, 20, 0.4, 6, weight_decay=decay, momentum=momentum
    )
    clipped = 0
    for step in range(60):
        if step % 20 == 0:
            halp.centre(task.closure(None))
        seed = apscope.Draws(7, step).next()
        words = np.array([random_integer(seed, i, 32) for i in range(12)])
        below = copy.deepcopy(reference)
        below.step(step % 5, 0.0)
        negative = below.z < 0
        reference.step(step % 5, np.where(negative, 2**32 - words - 0.5, words) / 2**32)
        halp.step(task.closure(step % 5))
        wanted = np.round(reference.z / reference.delta)
        assert np.array_equal(np.round(halp._z[0].numpy() / halp.delta[0]), wanted), step
        np.testing.assert_allclose(
            task.w.detach().numpy(), reference.centre + reference.z, rtol=1e-5, atol=1e-6
        )
        clipped += (np.abs(wanted) >= 31).sum()
    assert len(np.unique(wanted)) > 4 and clipped < 300


@pytest.mark.parametrize("cache, rounding", [("mean", "stochastic"), ("mean", "nearest"),
                                             ("batch", "stochastic"), ("batch", "nearest")])  # fmt: skip
def test_the_fp16_form_by_hand_bit_for_bit(cache, rounding):
    """NumPy's fp16 arithmetic; casts of fp32 numbers are the reference's with 13 random bits."""
    rate, decay, momentum = (np.float32(x) for x in (0.03, 0.1, 0.8))
    task = OneTensor(np.float32)
    halp = HALP([task.w], float(rate), bits="fp16", decay=float(decay), momentum=float(momentum),
                seed=7, cache=cache, rounding=rounding)  # fmt: skip
    batches = (None,) if cache == "mean" else range(5)

    def cast(x, call):
        if rounding == "nearest":
            return x.astype(np.float32).astype(np.float16)
        seed = apscope.Draws(7, call).next()
        words = [random_integer(seed, i, 13) for i in range(12)]
        return rule.fp16_by_13_bits(x.astype(np.float32), np.array(words)).astype(np.float16)

    def times(setting, x):  # An fp32 product of an fp16 number, then fp16, as PyTorch's.
        return (setting * x.astype(np.float32)).astype(np.float16)

    w, z, buffer, seen = np.zeros(12, np.float32), None, np.zeros(12, np.float16), []
    for step in range(45):
        if step % 15 == 0:
            losses = [task.closure(batch) for batch in batches]
            halp.centre(losses if cache == "batch" else losses[0])
            centre, z = w, np.zeros(12, np.float16)
            rows = [task.gradient(centre, batch).astype(np.float64) for batch in batches]
            cached = [
                cast(float(rate) * (row + float(decay) * centre), 2**62 + len(rows) * step + j)
                for j, row in enumerate(rows)
            ]
        halp.step(task.closure(step % 5))
        there = task.gradient(centre, step % 5).astype(np.float64)
        v = cast(task.gradient(w, step % 5).astype(np.float64) - there, step)
        v = (v.astype(np.float32) + decay * z.astype(np.float32)).astype(np.float16)
        buffer = times(momentum, buffer) + times(rate, v) + cached[step % len(cached)]
        z = z - buffer
        w = (centre.astype(np.float64) + z).astype(np.float32)
        assert np.array_equal(task.w.detach().numpy(), w), step
        seen.append(np.abs(task.gradient(w, None)).max())
    assert buffer.dtype == z.dtype == np.float16 and seen[-1] < seen[0]
    assert cache == "batch" or seen[-1] < 0.2 * seen[0]


def test_integers_to_nearest_are_the_references_biased_ones_with_halves_up():
    task = OneTensor(np.float32)
    halp = HALP([task.w], 0.3, unit="tensor", bits=6, mu=0.4, rounding="nearest")
    reference = rule.Halp(np.zeros(12), task.gradient, 0.3, 20, 0.4, 6)
    seen = set()
    for step in range(60):
        if step % 20 == 0:
            halp.centre(task.closure(None))
        reference.step(step % 5, 0.5)
        halp.step(task.closure(step % 5))
        wanted = np.round(reference.z / reference.delta)
        assert np.array_equal(np.round(halp._z[0].numpy() / halp.delta[0]), wanted), step
        seen |= set(wanted)
    assert len(seen) > 10
    halp = HALP([w := torch.zeros(4, dtype=torch.float64)], 1.0, bits=8, delta=1.0,
                rounding="nearest")  # fmt: skip
    w.requires_grad_()
    halp.centre(lambda: (w * torch.tensor([-0.5, 0.5, -1.5, 1.5])).sum())
    halp.step(lambda: (0 * w).sum())
    assert w.tolist() == [1, 0, 2, -1]


def test_a_cache_of_batches_tells_the_norm_of_their_mean():
    task = OneTensor(np.float32)
    halp = HALP([task.w], 0.05, bits="fp16", cache="batch")
    norm = halp.centre([task.closure(0), task.closure(3)])
    full = (task.gradient(np.zeros(12), 0) + task.gradient(np.zeros(12), 3)) / 2
    assert norm == pytest.approx(np.linalg.norm(full), rel=1e-6)
    for wrong in (task.closure(0), []):
        with pytest.raises(TypeError, match="a sequence of functions"):
            halp.centre(wrong)
    with pytest.raises(TypeError, match="one function"):
        HALP([task.w], 0.05).centre([task.closure(0)])


def test_the_fp16_form_draws_and_saturates_as_the_reference():
    rng = np.random.default_rng(1)
    x = (rng.choice([-1, 1], 4000) * 2.0 ** rng.uniform(-28, 18, 4000)).astype(np.float32)
    words = np.array([random_integer(5, i, 13) for i in range(x.size)])
    drawn = _drawn_half(torch.from_numpy(x), 5).numpy()
    assert np.array_equal(drawn, rule.fp16_by_13_bits(x, words))
    with np.errstate(over="ignore"):
        nearest = x.astype(np.float16)
    assert np.abs(drawn).max() == 65504 and (drawn != nearest).mean() > 0.2


def test_offsets_have_few_values_around_the_centre():
    task = Quadratics()
    halp = HALP(task.w, RATE, bits=4, mu=MU, seed=1)
    for _ in range(4):
        halp.centre(task.closure(None))
        centre = torch.cat([p.detach().clone() for p in task.w])
        for _ in range(30):
            halp.step(task.closure(halp.steps % 6))
            z = (torch.cat([p.detach() for p in task.w]) - centre) / halp.delta[0]
            assert torch.allclose(z, z.round(), atol=1e-6) and z.min() >= -8 and z.max() <= 7


def test_without_bits_it_is_svrg():
    task, w = Quadratics(), np.zeros(3)
    svrg = HALP(task.w, RATE, bits=None)
    svrg.centre(task.closure(None))
    full = task.gradient(w, None)
    for row in range(6):
        svrg.step(task.closure(row))
        w = 0 + (w - RATE * (task.gradient(w, row) - task.gradient(np.zeros(3), row) + full))
        assert np.allclose(np.concatenate([p.detach().numpy() for p in task.w]), w, rtol=1e-14)


def test_a_box_that_is_too_small_is_told():
    task = Quadratics()
    halp = HALP(task.w, RATE, bits=4, mu=100.0)
    halp.centre(task.closure(None))
    for _ in range(10):
        halp.step(task.closure(0))
    assert halp.clipped > 0
    halp.centre(task.closure(None))
    assert halp.clipped == 0


def test_a_centre_without_a_gradient_stays():
    w = torch.ones(2, dtype=torch.float64, requires_grad=True)
    halp = HALP([w], 0.1)
    assert halp.centre(lambda: (0 * w).sum()) == 0.0
    halp.step(lambda: (0 * w).sum())
    assert torch.equal(w.detach(), torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("bits, cache", [(5, "mean"), ("fp16", "mean"), ("fp16", "batch")])
def test_a_resumed_run_has_the_same_bits(tmp_path, bits, cache):
    def made():
        task = Quadratics()
        return task, HALP(task.w, RATE, bits=bits, mu=MU, momentum=0.5, seed=3, cache=cache)

    def losses(task):
        whole = task.closure(None)
        return whole if cache == "mean" else [task.closure(row) for row in range(3)]

    task, halp = made()
    halp.centre(losses(task))
    for row in range(5):
        halp.step(task.closure(row))
    torch.save({"halp": halp.state_dict(), "w": [p.detach() for p in task.w]}, tmp_path / "state")
    other, resumed = made()
    state = torch.load(tmp_path / "state", weights_only=True)
    resumed.load_state_dict(state["halp"])
    for p, kept in zip(other.w, state["w"], strict=True):
        p.data.copy_(kept)
    for t, h in ((task, halp), (other, resumed)):
        h.step(t.closure(5))
        h.centre(losses(t))
        h.step(t.closure(0))
    for a, b in zip(task.w, other.w, strict=True):
        assert torch.equal(a, b)
    with pytest.raises(ValueError, match="settings|not of"):
        HALP(other.w, RATE, bits=6, mu=MU, seed=3).load_state_dict(state["halp"])
    with pytest.raises(ValueError, match="centre"):
        HALP(
            other.w[:1], RATE, bits=bits, mu=MU, momentum=0.5, seed=3, cache=cache
        ).load_state_dict(state["halp"])
    for words, wrong in (("full", {"full": state["halp"]["full"][1:]}), ("above", {"steps": 4})):
        with pytest.raises(ValueError, match=words):
            resumed.load_state_dict(state["halp"] | {"centred": 5} | wrong)


def test_refusals():
    w = torch.ones(2, requires_grad=True)
    for error, words, call in [
        (ValueError, "empty", lambda: HALP([], 0.1)),
        (TypeError, "float16", lambda: HALP([w.half()], 0.1)),
        (ValueError, "rate=0", lambda: HALP([w], 0)),
        (ValueError, "mu=-1", lambda: HALP([w], 0.1, mu=-1)),
        (ValueError, "rounding='down'", lambda: HALP([w], 0.1, rounding="down")),
        (ValueError, "cache='both' must be mean or batch", lambda: HALP([w], 0.1, cache="both")),
        (ValueError, "for bits='fp16', and bits is 8", lambda: HALP([w], 0.1, cache="batch")),
        (ValueError, "unit", lambda: HALP([w], 0.1, unit="layer")),
        (ValueError, "bits", lambda: HALP([w], 0.1, bits=1)),
        (ValueError, "give bits", lambda: HALP([w], 0.1, bits=None, delta=0.1)),
        (ValueError, "bits is fp16; give bits", lambda: HALP([w], 0.1, bits="fp16", delta=0.1)),
        (ValueError, "bits='fp8'", lambda: HALP([w], 0.1, bits="fp8")),
        (ValueError, "decay=-1 must be 0 or a number above 0", lambda: HALP([w], 0.1, decay=-1)),
        (ValueError, "momentum=inf", lambda: HALP([w], 0.1, momentum=math.inf)),
        (RuntimeError, "no centre", lambda: HALP([w], 0.1).step(lambda: w.sum())),
    ]:
        with pytest.raises(error, match=words):
            call()


def test_eight_bits_converge_linearly_where_low_precision_svrg_stalls():
    rows = claim.run(
        (0,), ("SVRG, fp64", "HALP, 8 bits", "low-precision SVRG, 8 bits"), epochs=8, inner=150
    )
    fits = claim.rates(rows).set_index("case")
    halp, plain, full = (
        fits.loc[case] for case in ("HALP, 8 bits", "low-precision SVRG, 8 bits", "SVRG, fp64")
    )
    assert halp.factor < 0.45 and halp.r2 > 0.95 and halp["last"] < 1e-4
    assert plain["last"] > 2e-3 and plain.factor > 0.8
    assert full.factor < halp.factor
