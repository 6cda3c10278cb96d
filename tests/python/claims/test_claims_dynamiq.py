"""DynamiQ: sums, messages and bytes of its ring and its butterfly, against the reference."""

from dataclasses import dataclass
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

import apscope
from tests.python.recorded import record
from tests.reference import dynamiq as dq
from tests.reference import random_words

F = np.float32
TOPOLOGIES = ("ring", "butterfly")


@dataclass(frozen=True)
class PaperQuantizer(dq.Quantizer):
    """With stochastic scales, whose words follow those of the 256 elements."""

    def sent(self, x, widths, r):
        out = np.zeros_like(x)
        for i, bits in enumerate(widths.tolist()):
            e = dq.EPSILON[bits] if self.mee else None
            groups = x[i].reshape(-1, dq.GROUP)
            q, unit = dq.hierarchical(dq.group_scales(groups, bits, e), r[i, dq.SUPER :])
            scale = (q.astype(F) * unit)[:, None]
            words = r[i, : dq.SUPER].reshape(groups.shape)
            out[i] = dq.values(dq.levels(groups, scale, bits, e, words, True), scale, e).ravel()
        return out


def draws(key, workers, count, paper, correlated=True):
    """r of the elements and, of the paper, of the scales behind them: (workers, count, ...)."""
    elements = np.array([
        random_words.correlated_integers(key, count * dq.SUPER, 24, workers, w) if correlated
        else random_words.random_integers(
            key, range(count * dq.SUPER), 24, random_words.WIRE, w
        ) for w in range(workers)
    ])  # fmt: skip
    r = (elements / 2**24).astype(F).reshape(workers, count, dq.SUPER)
    if not paper:
        return dq.bf16(r)
    scales = np.array([
        random_words.random_integers(key, range(count * dq.GROUP), 24, random_words.WIRE, w, 1)
        for w in range(workers)
    ])  # fmt: skip
    return np.concatenate([r, (scales / 2**24).astype(F).reshape(workers, count, -1)], axis=2)


def chunks(count, workers):
    return pairwise(c * count // workers for c in range(workers + 1))


def expected_mean(rows, widths_of, r, topology="ring", mee=True, paper=False):
    """The workers' mean, and the widths."""
    workers, n = rows.shape
    found = dq.statistics(rows, global_mean=paper)
    widths = widths_of(found.energy)
    how = (PaperQuantizer if paper else dq.Quantizer)(mee=mee)
    decoded = np.zeros((len(widths), dq.SUPER), F)
    for owner, (begin, end) in enumerate(chunks(len(widths), workers)):
        part = slice(begin, end)
        if topology == "ring":
            order = [(owner + 1 + i) % workers for i in range(workers)]
            args = found.centred[:, part], widths[part], r[:, part], order
            decoded[part] = dq.along_ring(*args, how)
        else:
            distances = [workers >> i for i in range(1, workers.bit_length())]
            args = found.centred[:, part], widths[part], r[:, part], owner, distances
            decoded[part] = dq.by_butterfly(*args, how)
    return dq.mean_of_all(decoded, found, n), widths


def gradients(workers, n, seed=0):
    """Super-groups of different size, with zeros and means that are not 0."""
    random = np.random.default_rng((workers, n, seed))
    count = -(-n // dq.SUPER)
    size = np.repeat(np.exp(3 * random.standard_normal(count)), dq.SUPER)[:n]
    g = (random.standard_normal((workers, n)) + random.standard_normal(n)) * size
    g[random.random((workers, n)) < 0.1] = 0
    return g.astype(F)


def same_bits(found, wanted):
    return np.array_equal(np.float64(found).view(np.int64), np.float64(wanted).view(np.int64))


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("n", [1, 17, 256, 1000, 6 * 256, 5000])
def test_sums_and_bytes_are_those_of_the_reference(workers, n):
    """Bit for bit: the sum is W times the reference's mean, exact in fp64."""
    g = gradients(workers, n)
    key, count = random_words.replay_key(0, "x", 0), -(-n // dq.SUPER)
    r = draws(key, workers, count, paper=False)
    for topology in TOPOLOGIES if workers & (workers - 1) == 0 else ("ring",):
        e = apscope.exchange(f"dynamiq:topology={topology}", g)
        mean, widths = expected_mean(g, lambda f: dq.fixed_widths(f, 5), r, topology)
        assert e.reduction == f"own:{topology}"
        assert same_bits(e.reduced, workers * mean.astype(np.float64))
        assert e.payload_bits == [8 * dq.payload_bytes(widths)] * workers
        assert [8 * len(payload) for payload in e.payload] == e.payload_bits
        assert e.side_bits == [8 * dq.statistics_bytes(count)] * workers
        # what the workers add is the sum
        assert e.sent.sum(axis=0) == pytest.approx(
            e.reduced, rel=1e-6, abs=1e-6 * float(abs(g).max())
        )


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("quantizer", ["mee", "aee"])
@pytest.mark.parametrize("rules", ["code", "paper"])
@pytest.mark.parametrize("correlated", ["true", "false"])
def test_every_rule_is_that_of_the_reference(topology, quantizer, rules, correlated):
    workers, n, paper = 4, 2500, rules == "paper"
    g, key = gradients(workers, n, seed=1), random_words.replay_key(3, "w", 7)
    e = apscope.exchange(
        f"dynamiq:budget=4,{topology=!s},{quantizer=!s},{rules=!s},{correlated=!s}",
        g, seed=3, tensor="w", step=7,
    )  # fmt: skip
    mean, _ = expected_mean(
        g, lambda f: dq.fixed_widths(f, 4),
        draws(key, workers, 10, paper, correlated == "true"), topology, quantizer == "mee", paper,
    )  # fmt: skip
    assert same_bits(e.reduced, workers * mean.astype(np.float64))


@pytest.mark.parametrize("budget", [3, 4, 5, 6, 7])
def test_shares_follow_the_budget(budget):
    g = gradients(2, 40 * 256, seed=budget)
    e = apscope.exchange(f"dynamiq:budget={budget}", g)
    widths = dq.fixed_widths(dq.statistics(g).energy, budget)
    assert e.payload_bits == [8 * dq.payload_bytes(widths)] * 2
    four = apscope.exchange(f"dynamiq:widths=four,budget={budget}", g)
    assert four.payload_bits == [8 * 40 * (16 * 9 + 2)] * 2


@pytest.mark.parametrize("rules", ["code", "paper"])
@pytest.mark.parametrize("budget", [3, 5, 7])
def test_thresholds_follow_the_steps(rules, budget):
    """u is the reference's after each step, and decides in the next one; energies grow and fall."""
    workers, count, paper = 3, 30, rules == "paper"
    level, state = dq.Level(float(budget), dq.FACTORS[rules]), {}
    widths_seen = set()
    for step in range(7):
        g = gradients(workers, count * 256 - 100, seed=5) * F(2.0 ** (step % 4 * 3 - 12))
        used = level.u
        key = random_words.replay_key(0, "x", step)
        mean, widths = expected_mean(
            g, lambda f: dq.dynamic_widths(f, used, level.factor),
            draws(key, workers, count, paper), paper=paper,
        )  # fmt: skip
        e = apscope.exchange(
            f"dynamiq:widths=dynamic,budget={budget},{rules=!s}", g, step=step, state=state
        )
        level.update(dq.statistics(g).energy)
        assert same_bits(e.reduced, workers * mean.astype(np.float64))
        assert e.payload_bits == [8 * dq.payload_bytes(widths)] * workers
        state = e.state
        assert {name: row.tolist() for name, row in state.items()} == {
            "u": [level.u], "started": [1.0],
        }  # fmt: skip
        widths_seen |= set(widths.tolist())
    assert len(widths_seen) > 1


def unpacked(payload, widths):
    """The super-groups of a message: (bits, unit, q, l)."""
    digits = np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little").astype(int)
    at, found = 0, []

    def number(bits):
        nonlocal at
        at += bits
        return int((digits[at - bits : at] << np.arange(bits)).sum())

    for bits in widths.tolist():
        unit = np.uint16(number(16)).view(ml_dtypes.bfloat16).astype(F)
        q, l = [], []
        for _ in range(16):
            q.append(number(8))
            l += [number(bits) - dq.largest_level(bits) for _ in range(16)]
        found.append((bits, unit, np.array(q), np.array(l)))
    assert at == len(digits)
    return found


def decoded(message, mee=True):
    bits, unit, q, l = message
    scale = np.repeat(q.astype(F) * unit, 16)
    return dq.values(l, scale, dq.EPSILON[bits] if mee else None)


@pytest.mark.parametrize("quantizer", ["mee", "aee"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_messages_decode_to_the_sum_and_to_what_workers_add(topology, quantizer):
    """The owner's message is the sum of its chunk; a worker adds what it sends less what it got."""
    workers, count = 4, 9
    g = gradients(workers, count * 256, seed=2)
    found = dq.statistics(g)
    widths = dq.fixed_widths(found.energy, 5)
    e = apscope.exchange(f"dynamiq:{topology=!s},{quantizer=!s}", g)
    messages = [unpacked(payload, widths) for payload in e.payload]
    for owner, (begin, end) in enumerate(chunks(count, workers)):
        if topology == "ring":
            order = [(owner + 1 + i) % workers for i in range(workers)]
            arrivals = {w: [before] for before, w in pairwise(order)}
        else:
            arrivals = {owner: [owner ^ 2, owner ^ 1], owner ^ 1: [owner ^ 3]}
        for s in range(begin, end):
            part = slice(s * 256, (s + 1) * 256)
            values = [decoded(messages[w][s], quantizer == "mee") for w in range(workers)]
            mean = found.mean[s]
            assert same_bits(e.reduced[part], workers * np.float64(values[owner] + mean))
            running = [0.0]
            for w in range(workers):
                running.append(dq.bf16(running[-1] + dq.bf16(dq.tree_sum(
                    dq.super_groups(g[w] / F(workers))[s]) / F(256))))  # fmt: skip
                got = sum(np.float64(values[other]) for other in arrivals.get(w, []))
                adds = workers * (np.float64(values[w]) - got + (running[w + 1] - running[w]))
                assert e.sent[w, part] == pytest.approx(adds, rel=1e-12, abs=1e-12)


def test_one_group_by_hand():
    """One worker, 16 times 1 and 240 times -1 / 15: mean 0, 2 bits of 16 equal magnitudes."""
    g = np.repeat(F([1, -1 / 15]), [16, 240])[None]
    e = apscope.exchange("dynamiq:quantizer=aee,widths=four", g)
    [(bits, unit, q, l)] = unpacked(e.payload[0], np.array([4]))
    assert (bits, unit) == (4, dq.bf16(F(1 / 7 / 255)))
    assert q.tolist() == [255] + [18] * 15  # 17.05, rounded up
    assert set(l[:16]) <= {6, 7} and set(l[16:]) <= {-7, -6}
    assert e.reduced == pytest.approx(g[0], abs=0.15)


def test_butterflies_of_three_are_refused():
    with pytest.raises(
        ValueError,
        match="topology=butterfly needs a power of two of workers, and there are 3; use topology=ring",
    ):
        apscope.exchange("dynamiq:topology=butterfly", gradients(3, 300))


def test_the_paper_rounds_without_bias_and_the_code_away_from_zero():
    """Of 40 draws of 5120 elements, without those that a scale that was rounded down may clamp: how
    far the mean lies beyond the values, in standard deviations of its draws."""
    g = gradients(1, 5120, seed=4)
    values = g[0] - np.repeat(dq.statistics(g).mean, 256)
    most = np.repeat(abs(values.reshape(-1, 16)).max(axis=1), 16)
    inside = (abs(values) < 0.7 * most) & (values != 0)
    beyond = {}
    for rules in ("code", "paper"):
        made = np.stack([
            apscope.exchange(f"dynamiq:widths=four,{rules=!s}", g, seed=seed).reduced
            for seed in range(40)
        ])[:, inside]  # fmt: skip
        errors = np.sign(values[inside]) * (made.mean(axis=0) - g[0][inside]) / most[inside]
        deviation = np.sqrt((made.var(axis=0, ddof=1) / most[inside] ** 2).sum() / 40)
        beyond[rules] = errors.sum() / deviation
    assert abs(beyond["paper"]) < 4 < 8 < beyond["code"], beyond


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_correlated_words_make_the_error_of_the_sum_smaller(topology):
    """Normal gradients, whose partial sums have different fractions: about 0.6 of the squared error
    of independent words."""
    g = np.random.default_rng(0).standard_normal((4, 8192)).astype(F)
    true = g.astype(float).sum(axis=0)
    errors = {}
    for correlated in ("true", "false"):
        spec = f"dynamiq:widths=four,{topology=!s},{correlated=!s}"
        made = [apscope.exchange(spec, g, seed=seed).reduced - true for seed in range(4)]
        errors[correlated] = np.square(made).mean()
    assert 0.5 < errors["true"] / errors["false"] < 0.7


def test_a_replay_keeps_the_level_and_counts_the_hops(tmp_path):
    steps = [{"w": gradients(4, 2560, seed=s).astype(float)} for s in range(4)]
    trace = record(tmp_path / "t", steps)
    spec = "dynamiq:widths=dynamic,budget=4"
    whole = apscope.replay(trace, spec, keep_states=True)
    first = apscope.replay(trace, spec, steps="0:2", keep_states=True)
    second = apscope.replay(trace, spec, steps="2:4", states=first.states, keep_states=True)
    rows = whole.frame[whole.frame.topology == "own:ring"]
    later = second.frame[second.frame.topology == "own:ring"]
    assert rows.sum_squared_error.tolist()[2:] == later.sum_squared_error.tolist()
    for row in rows.itertuples():
        # 2 (W - 1) / W of the payload and of the statistics, over those of 4 bytes
        assert row.volume == pytest.approx((row.wire_bits + row.side_bits) / (32 * 2560))
    assert rows.wire_bits.iloc[0] == 8 * 10 * (16 * 17 + 2)  # u = 60: 8 bits
