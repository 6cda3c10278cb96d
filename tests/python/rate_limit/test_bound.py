"""The limit of values is one: no codebook is below it, and it is as close to the limits of known
laws as the number of values allows. Values here are not divided by anything."""

import itertools
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from apscope import _core
from apscope._rate_limit.grids import best_grid
from tests.reference import rate_limit as reference

ROOT = Path(__file__).parents[3]
WIDTHS = _core.blur_widths()


def limit_of(values: np.ndarray, bits: float) -> float:
    entropies = _core.blurred_entropies(values, WIDTHS, 1)
    return float(_core.rate_limit(entropies, WIDTHS, np.array([float(bits)]))[0])


def excess(error: float, values: np.ndarray, bits: float) -> float:
    """Bits above the limit; infinite where there is no limit."""
    least = limit_of(values, bits)
    if least == 0:
        return math.inf
    return 0.5 * math.log2(error / least) if error else -math.inf


def test_widths_are_those_of_the_definition():
    assert np.allclose(WIDTHS, reference.WIDTHS, rtol=1e-15)


@pytest.mark.parametrize("seed", range(12))
def test_entropies_and_limits_are_those_of_the_reference(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4000))
    values = rng.standard_normal(n) * 2.0 ** rng.integers(-4, 3, n)
    if seed % 3 == 0:
        values = np.round(values * 8) / 8  # many are equal
    found = _core.blurred_entropies(values, WIDTHS, 2)
    for width, entropy in zip(WIDTHS, found):
        assert entropy == pytest.approx(reference.entropy(values, width), abs=1e-10)
    for bits in (0, 1.5, 4, 8.25):
        wanted = reference.rate_limit(values, bits)
        assert limit_of(values, bits) == pytest.approx(wanted, rel=1e-8, abs=1e-13)


#: A law's values from a generator, and its differential entropy in bits.
LAWS = {
    "Gauss": (lambda rng, n: rng.standard_normal(n), 0.5 * math.log2(2 * math.pi * math.e)),
    "Laplace": (lambda rng, n: rng.laplace(size=n), math.log2(2 * math.e)),
    "Student": (
        lambda rng, n: rng.standard_t(3, n),
        (2 * (2 * math.log(2) - 1) + math.log(math.sqrt(3) * math.pi / 2)) / math.log(2),
    ),
}
BELOW = {
    ("Gauss", 32_000): {2: 0.010, 4: 0.019, 6: 0.042, 8: 0.095},
    ("Laplace", 32_000): {2: 0.006, 4: 0.018, 6: 0.048, 8: 0.120},
    ("Student", 32_000): {2: 0.025, 4: 0.042, 6: 0.077, 8: 0.154},
    ("Gauss", 320_000): {4: 0.005},
}


@pytest.mark.parametrize("law, n", BELOW)
def test_limit_of_a_known_law_is_hardly_below_its_own(law, n):
    """Bits between Shannon's bound of the law and the limit of n values, the mean of eight sets,
    whose own spread differs from the law's."""
    draw, entropy = LAWS[law]
    sets = 8 if n < 100_000 else 4
    below = dict.fromkeys(BELOW[law, n], 0.0)
    for seed in range(sets):
        values = draw(np.random.default_rng(100 + seed), n)
        entropies = _core.blurred_entropies(values, WIDTHS, 0)
        for bits in below:
            found = _core.rate_limit(entropies, WIDTHS, np.array([float(bits)]))[0]
            true = 2.0 ** (2 * (entropy - bits)) / (2 * math.pi * math.e)
            below[bits] += 0.5 * math.log2(true / found) / sets
    for bits, wanted in BELOW[law, n].items():
        assert 0 < below[bits] < 1.5 * wanted, (bits, below)


def random_set(rng: np.random.Generator) -> np.ndarray:
    n = int(rng.integers(2, 3000))
    values = [
        rng.standard_normal(n),
        rng.laplace(size=n),
        rng.standard_t(3, n),
        rng.random(n) - 0.5,
        rng.choice([-1.0, 1.0], n) * (1 + 0.01 * rng.standard_normal(n)),
        np.round(rng.standard_normal(n) * 4) / 4,
        rng.standard_normal(n) * 2.0 ** rng.integers(-6, 1, n),
    ][int(rng.integers(7))]
    return values * 2.0 ** rng.integers(-1, 2)


def codebooks(rng: np.random.Generator, z: np.ndarray, levels: int) -> dict[str, np.ndarray]:
    return {
        "random": np.sort(rng.choice(z, levels) + 0.01 * rng.standard_normal(levels)),
        "uniform": np.linspace(z.min(), z.max(), levels),
        "Lloyd": best_grid(z, levels).levels,
    }


def test_no_codebook_is_below_the_limit():
    rng = np.random.default_rng(7)
    least = math.inf
    for _ in range(600):
        z = random_set(rng)
        levels = 2 ** int(rng.integers(1, 7))
        for name, points in codebooks(rng, z, levels).items():
            codes = abs(z[:, None] - points).argmin(axis=1)
            error = float(np.mean((z - points[codes]) ** 2))
            share = np.bincount(codes) / len(z)
            entropy = -float(np.sum(share[share > 0] * np.log2(share[share > 0])))
            for bits in (math.log2(levels), entropy):
                above = excess(error, z, bits)
                assert above > 0, (name, levels, len(z), bits)
                least = min(least, above)
    assert least < 0.4  # the limit is not so low that this shows nothing


@pytest.mark.parametrize("law", ["Gauss", "Laplace", "Student"])
@pytest.mark.parametrize("step", [0.06, 0.2, 0.5])
def test_entropy_coded_steps_are_a_quarter_of_a_bit_above_the_limit(law, step):
    """1/2 log2(2 pi e / 12) = 0.255 for small steps."""
    z = LAWS[law][0](np.random.default_rng(5), 100_000)
    codes = np.rint(z / step)
    share = np.unique(codes, return_counts=True)[1] / len(z)
    bits = -float(np.sum(share * np.log2(share)))
    error = float(np.mean((z - step * codes) ** 2))
    assert 0.23 <= excess(error, z, bits) <= 0.35


def test_best_grid_of_a_gaussian_has_the_known_error():
    # Max, 1960, for 2, 4, 8 and 16 levels
    z = np.random.default_rng(2).standard_normal(400_000)
    for levels, error in ((2, 0.3634), (4, 0.1175), (8, 0.03454), (16, 0.009497)):
        found = best_grid(z, levels)
        assert found.nearest / len(z) == pytest.approx(error, rel=0.02)
        assert (np.diff(found.levels) > 0).all() and len(found.levels) == levels


@pytest.mark.parametrize("seed", range(20))
def test_best_grid_is_hardly_worse_than_the_best_of_all(seed):
    """Every division of the sorted values into three runs is tried."""
    z = np.sort(np.random.default_rng(seed).laplace(size=48))
    least = min(
        sum(float(((part - part.mean()) ** 2).sum()) for part in np.split(z, cuts))
        for cuts in itertools.combinations(range(1, len(z)), 2)
    )
    assert least * (1 - 1e-12) <= best_grid(z, 3).nearest <= 1.1 * least


def test_best_grid_of_no_more_values_than_levels_has_no_error():
    assert best_grid(np.array([3.0, -1.0, 3.0]), 2).nearest == 0
    assert best_grid(np.array([0.5]), 4).nearest == 0
    assert best_grid(np.array([1.0, 3.0]), 1).nearest == 2


DIGEST = """
import hashlib, numpy as np
from apscope import _core
z = np.random.default_rng(1).standard_normal(50_000)
widths = _core.blur_widths()
h = _core.blurred_entropies(z, widths, {threads})
r = _core.rate_limit(h, widths, np.linspace(0, 10, 101))
s = _core.block_squares(z, 32)
print(_core.simd_level(), hashlib.sha256(h.tobytes() + r.tobytes() + s.tobytes()).hexdigest())
"""


def test_threads_and_instruction_sets_change_no_bit():
    levels = ["portable", "sse4", "avx2", "avx512"]
    levels = levels[: levels.index(_core.best_simd_level()) + 1]
    found = {}
    for threads, level in enumerate(levels, 1):
        run = subprocess.run(
            [sys.executable, "-c", DIGEST.format(threads=threads)],
            cwd=ROOT,
            env={**os.environ, "APSCOPE_SIMD": level},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert run.returncode == 0, run.stderr
        found.update([run.stdout.split()])
    assert set(found) == set(levels) and len(set(found.values())) == 1


def test_values_without_an_entropy_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        _core.blurred_entropies(np.zeros(0), WIDTHS, 1)
    with pytest.raises(ValueError, match="not finite"):
        _core.blurred_entropies(np.array([1.0, np.nan]), WIDTHS, 1)
