"""THC: the tables that its authors published, their two roundings, and their rotation."""

import itertools
import math

import numpy as np
import pytest

import apscope
from apscope import schemes
from tests.reference import random_words, thc_tables
from tests.reference.thc_tables import threshold

#: The rotation only changes signs: a message shows the table.
UNTURNED = "rotation=1,signs=constant"


def normalized(x):
    """x in units of its norm over sqrt(its length), a power of two."""
    return x / (np.sqrt(np.square(x).sum()) / math.sqrt(x.size))


def entries_sent(spec, g, clamp, size=2**16):
    """The distinct j, and how many elements have each."""
    x = np.random.default_rng(1).standard_normal(size).astype(np.float32)
    sent = apscope.exchange(spec, x[None]).sent[0]
    scale = math.sqrt(np.square(x.astype(np.float64)).sum() / size)
    j = (sent / scale / clamp + 1) * g / 2
    assert np.abs(j - np.rint(j)).max() < 1e-9
    return np.unique(np.rint(j).astype(int), return_counts=True)


def test_twenty_nine_tables_are_published():
    assert len(thc_tables.PUBLISHED) == 29


@pytest.mark.parametrize(("g", "k", "q"), [*thc_tables.PUBLISHED, *thc_tables.IN_DYNAMIQ])
def test_the_symmetric_tables_are_the_published_ones(g, k, q):
    clamp = threshold(q)
    spec = f"thc:bits={k.bit_length() - 1},granularity={g},table=symmetric,clamp={clamp!r}"
    found, _ = entries_sent(f"{spec},{UNTURNED}", g, clamp)
    numbers = (thc_tables.PUBLISHED | thc_tables.IN_DYNAMIQ)[g, k, q]
    assert found.tolist() == sorted(set(numbers))
    # An integer that is in the table twice has one code, and codes their bits.
    scheme = schemes.Scheme(spec)
    assert scheme.grid == f"levels:{len(set(numbers))}"
    x = np.ones((1, 8), np.float32)
    assert apscope.exchange(spec, x).payload_bits[0] == 8 * (k.bit_length() - 1)


def test_the_optimal_table_differs_by_one_entry_at_the_default():
    clamp = threshold(32)
    ours, _ = entries_sent(f"thc:{UNTURNED}", 30, 2.1538746940614573)
    assert math.isclose(clamp, 2.1538746940614573, rel_tol=2e-15)
    # The signs of the rotation show both the table and its mirror image.
    table = [0, 3, 5, 7, 9, 11, 13, 15, 16, 17, 19, 21, 23, 25, 27, 30]
    assert ours.tolist() == sorted({*table, *(30 - j for j in table)})


@pytest.mark.parametrize("bits", [1, 2, 3, 5])
@pytest.mark.parametrize("q", [8, 32, 300])
def test_other_symmetric_tables_follow_the_rule_too(bits, q):
    levels = 2**bits
    for g in (levels, levels + 1, 3 * levels - 2):
        clamp = threshold(q)
        spec = f"thc:bits={bits},granularity={g},table=symmetric,clamp={clamp!r},{UNTURNED}"
        table = thc_tables.symmetric_table(g, levels, q)
        found, _ = entries_sent(spec, g, clamp, size=2**14)
        assert found.tolist() == sorted(set(table))


def words(key, size, bits, stage, worker=0, hop=0):
    return np.array(
        random_words.random_integers(key, range(size), bits, stage, worker, hop), np.float64
    )


@pytest.mark.parametrize(("g", "k", "q"), [(30, 16, 32), (16, 8, 512), (42, 8, 1024)])
def test_an_exchange_is_that_of_the_authors_code(g, k, q):
    """The reference computes in fp32, as the code does, and apscope in fp64; of these draws no
    element is so near to its probability that they differ."""
    size, workers, points = 2048, 3, thc_tables.grid_points(g)
    clamp, table = threshold(q), thc_tables.PUBLISHED[g, k, q]
    x = np.random.default_rng(q).standard_normal((workers, size)).astype(np.float32)
    spec = f"thc:bits={k.bit_length() - 1},granularity={g},table=symmetric,clamp={clamp!r}"
    e = apscope.exchange(f"{spec},grid={points},rotation=1024,signs=constant", x)
    signs = 1 - 2 * words((42, 0), size, 1, random_words.REDUCE)
    key = random_words.replay_key(0, "x", 0)
    # A word r goes up if r + floor(2^32 p) >= 2^32, a uniform u if u < p.
    u = np.array(
        [
            [1 - (words(key, size, 32, random_words.WIRE, w, hop) + 1) / 2**32 for hop in (0, 1)]
            for w in range(workers)
        ]
    )
    mean, own, _ = thc_tables.exchange(x, table, q, signs, u, points)
    norm = float(np.abs(x).max())
    assert np.allclose(e.sent, own, rtol=0, atol=1e-5 * norm)
    assert np.allclose(e.reduced / workers, mean, rtol=0, atol=1e-5 * norm)


@pytest.mark.parametrize(("grid", "q"), [(1001, 32), (10001, 32), (7, 16)])
def test_both_roundings_have_their_law(grid, q):
    """The probability of every level is that of the two draws: to a grid point, then to an entry
    of the table. Where a level is not a grid point, an element may pass it."""
    g, clamp = 30, threshold(q)
    spec = f"thc:table=symmetric,grid={grid},clamp={clamp!r},{UNTURNED}"
    table = np.array(thc_tables.PUBLISHED[g, 16, q])
    x = np.random.default_rng(2).standard_normal(64).astype(np.float32)
    z = np.clip(normalized(x.astype(np.float64)), -clamp, clamp)
    runs = 3000
    drawn = [apscope.exchange(spec, x[None], seed=seed) for seed in range(runs)]
    scale = math.sqrt(np.square(x.astype(np.float64)).sum() / x.size)
    found = np.rint((np.array([e.sent[0] for e in drawn]) / scale / clamp + 1) * g / 2)
    # The law of -x, which the signs may make of x, is the mirror image of that of x.
    place = (z + clamp) / (2 * clamp / (grid - 1))
    low = np.minimum(np.floor(place), grid - 2)
    law = np.zeros((x.size, table.size))
    for point, share in ((low, 1 - (place - low)), (low + 1, place - low)):
        at = point * g / (grid - 1)
        below = np.clip(np.searchsorted(table, at + 1e-9, side="right") - 1, 0, table.size - 2)
        up = (at - table[below]) / (table[below + 1] - table[below])
        for i in range(x.size):
            law[i, below[i]] += share[i] * (1 - up[i])
            law[i, below[i] + 1] += share[i] * up[i]
    counts = np.stack([(found == j).sum(axis=0) for j in table], axis=1)
    assert counts.sum() == runs * x.size
    deviation = np.sqrt(runs * law * (1 - law)) + 1e-6
    assert (np.abs(counts - runs * law) <= 5 * deviation + 1e-3).all()
    # The moments of the message are those of this law.
    values = (2 * table / g - 1) * clamp * scale
    mean, square = law @ values, law @ values**2
    assert np.allclose(drawn[0].bias[0], mean - x, rtol=0, atol=1e-8 * scale)
    assert np.allclose(drawn[0].variance[0], square - mean**2, rtol=1e-6, atol=1e-8 * scale**2)


def test_a_partial_rotation_keeps_to_its_blocks():
    """With blocks of 8, an element of one block changes the others only by the norm, and the
    rotation of a block is that of a tensor of its length with the same signs."""
    spec = "thc:bits=8,granularity=255,clamp=8,rotation={},signs=constant"
    x = np.random.default_rng(3).standard_normal((1, 32)).astype(np.float32)
    e = apscope.exchange(spec.format(8), x)
    blocks = e.variance[0].reshape(4, 8)
    assert (blocks == blocks[:, :1]).all() and len(set(blocks[:, 0])) == 4
    assert np.allclose(e.sent, x, rtol=0, atol=0.2)
    full = apscope.exchange(spec.format("full"), x).variance[0]
    assert (full == full[0]).all()
    for length in (32, 64):  # the padded row is no longer than the blocks
        longer = apscope.exchange(spec.format(length), x)
        assert np.array_equal(longer.sent, apscope.exchange(spec.format("full"), x).sent)


def test_constant_signs_are_those_of_every_step_tensor_and_seed():
    """The bias of what is clamped depends on the rotation, and on no draw."""
    x = np.random.default_rng(4).standard_normal((1, 40)).astype(np.float32)

    def biases(signs):
        spec = f"thc:bits=1,granularity=1,clamp=0.5,signs={signs}"
        return [
            apscope.exchange(spec, x, seed=seed, step=step).bias.tobytes()
            for seed, step in itertools.product((0, 1), (0, 5))
        ]

    assert len(set(biases("constant"))) == 1
    assert len(set(biases("step"))) == 4


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("thc:table=published", "table=published"),
        ("thc:grid=1", "grid=1 has one point"),
        ("thc:grid=-1", "grid=-1"),
        ("thc:rotation=12", "rotation=12 is neither full nor a power of two"),
        ("thc:rotation=half", "rotation=half"),
        ("thc:signs=always", "signs=always"),
        ("thc:clamp=0", "clamp=0"),
        ("thc:bits=4,granularity=13,table=symmetric", "granularity=13"),
        ("thc:bits=4,granularity=14", "granularity=14"),
    ],
)
def test_wrong_keys_are_refused(spec, words):
    with pytest.raises(ValueError, match=words):
        schemes.Scheme(spec)


def test_fourteen_steps_hold_sixteen_symmetric_levels():
    found, _ = entries_sent(
        f"thc:granularity=14,table=symmetric,clamp=2,{UNTURNED}", 14, 2.0, size=2**12
    )
    assert found.tolist() == list(range(15))  # 7 twice


def test_zeros_have_no_sign():
    for spec in ("thc", "thc:grid=1001,rotation=1024,signs=constant"):
        e = apscope.exchange(spec, np.zeros((3, 5), np.float32))
        assert not e.reduced.any() and not np.signbit(e.reduced).any()
