"""A cast that rounds at random: its probability of rounding up, random bits, ties and bias."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from .._arrays.casts import decode
from .._arrays.projection import Projection
from .._core import FloatFormat

Run = Callable[[np.ndarray], np.ndarray]

#: A likelihood ratio that a right rule exceeds once in two million fractions: five standard errors.
LIMIT = 25.0
#: Draws at a fraction 2^-j: so many that 2^-j is seen 16 times, which no `LIMIT` lets pass for 0.
FEWEST, MOST = 1 << 14, 1 << 20
#: Of 2^-j the smallest whose draws are at most MOST; so many random bits can be counted.
COUNTABLE = 16
#: A normal interval beyond which lies one of 1000.
QUANTILE = 3.2905


@dataclasses.dataclass(frozen=True)
class RandomRounding:
    """How a cast rounds at random. eta is the discarded fraction, "up" the larger magnitude.

    Attributes
    ----------
    rounding : str
        The stochastic roundings of definitions.md, section 6, that agree with every frequency,
        joined by ``or``; ``none`` if there is none.
    random_bits : str
        N of these: a number, ``at least`` a number if the draws do not show more, ``any`` if the
        probability does not depend on it (``stochastic_equal``).
    evidence : str
        How N was found: by frequencies, or by the fractions at which fixed draws change.
    fractions : tuple of (float, int, int)
        eta, draws, and how many of them went up, above one value of the format.
    worst : str
        The fraction with the largest deviation of the frequency from eta, in standard errors.
    ties : (float, float)
        The frequency of going up at eta = 1/2 above an even and above an odd significand.
    bias, bias_low, bias_high : float
        Mean of (abs(result) - abs(input)) / quantum over uniform normal inputs, of both signs, and
        the interval that contains it with probability 0.999. Below 0: toward zero.
    """

    rounding: str
    random_bits: str
    evidence: str
    fractions: tuple[tuple[float, int, int], ...]
    worst: str
    ties: tuple[float, float]
    bias: float
    bias_low: float
    bias_high: float

    def projection(self, overflow: str) -> Projection:
        """The first of the roundings, with its random bits (the most, if they are open)."""
        name = self.rounding.split(" or ")[0]
        if name == "none":
            name = "stochastic_exact"
        bits = self.random_bits.split(" or ")[0]
        return Projection(name, overflow=overflow, random_bits=int(bits) if bits.isdigit() else 32)

    def rows(self) -> list[tuple[str, str]]:
        """Words for `Fingerprint`."""
        n = sum(draws for _, draws, _ in self.fractions)
        interval = f"{self.bias_low:+.2g} to {self.bias_high:+.2g}"
        zero = " (0 is inside)" if self.bias_low <= 0 <= self.bias_high else ""
        bits = [("random bits", f"{self.random_bits} ({self.evidence})")]
        return [
            *bits[: self.rounding != "none"],
            (
                "probability",
                f"up at {len(self.fractions)} fractions eta, {n} draws; farthest from eta: "
                f"{self.worst}",
            ),
            (
                "ties",
                f"up with frequency {self.ties[0]:.3f} above an even significand, "
                f"{self.ties[1]:.3f} above an odd one",
            ),
            ("bias", f"{self.bias:+.2g} of a quantum, {interval} with probability 0.999{zero}"),
        ]


#: P(up) of eta and N; an N without influence has one value.
RULES: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "stochastic": lambda eta, n: np.floor(eta * 2.0**n) / 2.0**n,
    "stochastic_b": lambda eta, n: np.floor(eta * 2.0**n + 0.5) / 2.0**n,
    "stochastic_c": lambda eta, n: np.rint(eta * 2.0**n) / 2.0**n,
    "stochastic_equal": lambda eta, _: np.where(eta > 0, 0.5, 0.0),
    "stochastic_exact": lambda eta, _: eta,
}
WIDTHS = range(1, 41)

Rule = tuple[str, int]


def draws_at_random(run: Run) -> bool:
    """Whether equal inputs of one array have different results."""
    x = np.random.default_rng(1).uniform(1, 2, 1024).astype(np.float32)
    got = run(np.repeat(x, 64)).reshape(1024, 64)
    return bool((~np.isnan(got) & (got != got[:, :1])).any())


def random_rounding(run: Run, f: FloatFormat) -> tuple[RandomRounding, tuple[str, ...]]:
    """The rule of a cast that rounds at random, and where it does not hold.

    Parameters
    ----------
    run : callable
        float32 array to float64 values of the same shape, drawing for every element.
    f : FloatFormat
        The format of the results.

    Returns
    -------
    RandomRounding, tuple of str
        And the kinds of values (signs, significands, binades, subnormals) at which frequencies
        contradict the rule found above one value.

    Notes
    -----
    P(up) is estimated at the fractions 2^-j, 1 - 2^-j, 3 2^-(j+1) and eight others above one value
    near 1. A rule agrees if at every fraction the likelihood ratio 2 sum k log(k / (n p)) is below
    25. If the same call gives the same draws, a bisection finds the fraction at which each of 65536
    draws changes: with N bits all of these are multiples of 2^-N (or odd ones of 2^-(N+1)).
    """
    values = _values(f)
    i = _near_one(values)
    counted = list(_count(run, values[i], values[i + 1]))
    eta, n, up = (np.array(column) for column in zip(*counted, strict=True))
    fitting = [rule for rule in _rules() if _ratio(n, up, _probability(rule, eta)).max() < LIMIT]
    evidence = "by frequencies"
    if fitting and (exact := _by_bisection(run, values[1])):
        both = [rule for rule in exact if rule in fitting]
        if both:
            fitting, evidence = both, "by the fractions at which fixed draws change"
    ties, deviating = _groups(run, f, values, i, fitting[0] if fitting else None)
    bias, low, high = _bias(run, f)
    seen = up / n
    error = np.sqrt(np.maximum.reduce([eta * (1 - eta), seen * (1 - seen), 1 / n]) / n)
    far = int(np.argmax(np.abs(seen - eta) / error))
    result = RandomRounding(
        " or ".join(dict.fromkeys(name for name, _ in fitting)) or "none",
        _bits(fitting),
        evidence,
        tuple((float(e), int(a), int(b)) for e, a, b in counted),
        f"{seen[far]:.6g} +- {error[far]:.1g} at eta = {eta[far]:.6g} "
        f"({(seen[far] - eta[far]) / error[far]:+.1f} standard errors)",
        ties,
        bias,
        low,
        high,
    )
    if not fitting:
        closest = min(_rules(), key=lambda r: np.abs(seen - _probability(r, eta)).max())
        k = int(np.argmax(np.abs(seen - _probability(closest, eta))))
        deviating = (
            f"P(up): no stochastic rounding; closest to {_named(closest)}, but {seen[k]:.6g} at "
            f"eta = {eta[k]:.6g}, not {float(_probability(closest, eta)[k]):.6g}",
            *deviating,
        )
    return result, deviating


def _rules() -> Iterator[Rule]:
    for name in RULES:
        for n in WIDTHS if name in ("stochastic", "stochastic_b", "stochastic_c") else (0,):
            yield name, n


def _named(rule: Rule) -> str:
    return f"{rule[0]}, {rule[1]} random bits" if rule[1] else rule[0]


def _probability(rule: Rule, eta: np.ndarray) -> np.ndarray:
    return RULES[rule[0]](eta, rule[1])


def _ratio(n: np.ndarray, up: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Twice the log of the likelihood ratio of the frequencies to p; infinite if impossible."""

    def part(k: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return np.where(k > 0, 2 * k * (np.log(np.maximum(k, 1)) - np.log(mean)), 0.0)

    with np.errstate(divide="ignore", invalid="ignore"):
        return part(up, n * p) + part(n - up, n * (1 - p))


def _bits(fitting: list[Rule]) -> str:
    """N in words, from the rules that agree."""
    if not fitting:
        return "unknown"
    if fitting == [("stochastic_equal", 0)]:
        return "any"
    widths = {n for name, n in fitting if n}
    if any(name == "stochastic_exact" for name, _ in fitting) or WIDTHS[-1] in widths:
        return f"at least {min(widths)}" if widths else "unlimited"
    return " or ".join(str(n) for n in sorted(widths))


def _values(f: FloatFormat) -> np.ndarray:
    """0 and the positive values of a format, ascending."""
    codes = np.arange(2 ** (f.storage_bits - f.is_signed), dtype=np.uint32)
    values = decode(codes, f).astype(np.float64)
    return np.unique(np.append(values[np.isfinite(values) & (values > 0)], 0.0))


def _near_one(values: np.ndarray) -> int:
    """A power of two near 1, by its place, not among the first or the last values."""
    powers = np.flatnonzero(np.frexp(values)[0] == 0.5)
    powers = powers[powers + 1 < len(values)]
    return int(powers[np.argmin(np.abs(np.log2(values[powers])))])


def _between(lower: float, upper: float, eta: np.ndarray) -> np.ndarray:
    """The fp32 numbers at these fractions; fractions that fp32 cannot hold are left out."""
    x = lower + np.unique(eta) * (upper - lower)
    x = x[(x > lower) & (x < upper)]
    return x[x.astype(np.float32).astype(np.float64) == x]


def _ups(run: Run, x: float, draws: int, lower: float) -> int:
    """How many draws of an input went to the larger magnitude."""
    got = run(np.full(draws, x, np.float32))
    return int(np.count_nonzero(np.abs(got) > abs(lower)))


def _count(run: Run, lower: float, upper: float) -> Iterator[tuple[float, int, int]]:
    """Fractions with their draws, and how many went up; until two 2^-j in a row never did."""
    others = np.array([3, 5, 11, 13, 21, 27, 43, 53]) / np.array([8, 8, 32, 32, 64, 64, 128, 128])
    plan = [(float(eta), 1 << 16) for eta in others]
    never = 0
    for j in range(1, COUNTABLE + 1):
        draws = min(max(FEWEST, 1 << (j + 4)), MOST)
        plan += [(2.0**-j, draws), (1 - 2.0**-j, draws)] if j > 1 else [(0.5, 1 << 18)]
        plan += [(1.5 * 2.0**-j, draws)] * (1 < j < COUNTABLE)
        for eta, draws in plan:
            for x in _between(lower, upper, np.array([eta])):
                up = _ups(run, x, draws, lower)
                never = 0 if eta == 2.0**-j and up else never + (eta == 2.0**-j)
                yield eta, draws, up
        plan = []
        if never == 2:
            return


def _by_bisection(run: Run, upper: float) -> list[Rule]:
    """The rules with the steps at which 65536 fixed draws change between 0 and the smallest value.

    There fp32 has fractions of any size. None if draws are not fixed there.
    """
    n = 1 << 16
    low, high = np.zeros(n, np.uint32), np.full(n, np.float32(upper).view(np.uint32))
    while (high - low > 1).any():  # up at high, not at low
        middle = low + (high - low) // 2
        up = run(middle.view(np.float32)) >= upper
        low, high = np.where(up, low, middle), np.where(up, middle, high)
    again = run(high.view(np.float32)) >= upper
    if not again.all() or (run(low.view(np.float32)) >= upper).any():
        return []
    eta = high.view(np.float32).astype(np.float64) / upper
    # The last bit of fp32 beside a fraction: a step is seen as long as it is larger than that.
    ulp = (high.view(np.float32).astype(np.float64) - low.view(np.float32)) / upper
    rules: list[Rule] = []
    for width in WIDTHS:
        seen = ulp * 2.0**width <= 0.25
        steps = eta[seen] * 2.0**width
        if np.count_nonzero(seen) < 32:  # too few to tell; with more bits the steps are finer
            return rules or [rule for rule in _rules() if not 0 < rule[1] < width]
        integral = steps == np.rint(steps)
        half = steps - 0.5 == np.rint(steps - 0.5)
        after = (steps - 0.5) - np.rint(steps - 0.5)
        if integral.all():
            rules += [("stochastic", width)]
        elif half.all():
            rules += [("stochastic_b", width)]
        elif ((after >= 0) & (after <= ulp[seen] * 2.0**width)).all():
            rules += [("stochastic_c", width)]
        if rules:  # with N bits the steps are also multiples of 2^-(N+1)
            return rules
    return []


def _groups(
    run: Run, f: FloatFormat, values: np.ndarray, near: int, rule: Rule | None
) -> tuple[tuple[float, float], tuple[str, ...]]:
    """The frequencies at ties near 1, and the kinds of values at which a rule does not hold.

    Of ties: above an even and above an odd significand.
    """
    last = len(values) - 2
    normal = int(np.searchsorted(values, f.smallest_normal))
    places = {
        "above an even significand": near,
        "above an odd significand": min(near + 1, last),
        "in the lowest normal binade": normal if values[normal] else normal + 1,
        "below the largest value": last,
    }
    if normal > 2:
        places |= {"below the smallest value": 0, "between subnormals": normal // 2}
    ties: dict[str, float] = {}
    deviating: list[str] = []
    for sign in (1, -1) if f.is_signed else (1,):
        wrong: dict[str, str] = {}
        for where, i in places.items():
            for eta in (0.5, 77 / 256, 1 - 2.0**-6, 2.0**-10):
                for x in _between(values[i], values[i + 1], np.array([eta])):
                    draws = 1 << 17
                    up = _ups(run, sign * x, draws, values[i])
                    if eta == 0.5 and sign == 1:
                        ties[where] = up / draws
                    if rule is None:
                        continue
                    p = _probability(rule, np.array([eta]))
                    if _ratio(np.array([draws]), np.array([up]), p)[0] >= LIMIT:
                        seen = f"{up / draws:.4g} at eta = {eta:.6g}, not {p[0]:.4g}"
                        wrong.setdefault(where, seen)
        if wrong and rule is not None:
            deviating.append(
                f"P(up): not {_named(rule)} for {'negative' if sign < 0 else 'positive'} numbers "
                f"{', '.join(wrong)}; {next(iter(wrong.values()))}"
            )
    even, odd = (ties[f"above an {kind} significand"] for kind in ("even", "odd"))
    return (even, odd), tuple(deviating)


def _bias(run: Run, f: FloatFormat) -> tuple[float, float, float]:
    """Mean of (abs(result) - abs(input)) / quantum over normal inputs, and its interval."""
    low = max(float(f.smallest_normal), 2.0**-100)
    high = min(float(f.largest) / 2, 2.0**100)
    rng = np.random.default_rng(1)
    size = 2.0 ** rng.uniform(np.log2(low), np.log2(max(high, 2 * low)), MOST)
    # Uniform within a binade, so that eta is uniform.
    size = 2.0 ** np.floor(np.log2(size)) * rng.uniform(1, 2, MOST)
    x = (size * (rng.choice([-1, 1], MOST) if f.is_signed else 1)).astype(np.float32)
    x64 = x.astype(np.float64)
    got = run(x)
    quantum = 2.0 ** (np.frexp(x64)[1] - f.precision)
    error = (np.abs(got) - np.abs(x64)) / quantum
    error = error[np.isfinite(error)]
    mean, half = float(error.mean()), float(QUANTILE * error.std() / np.sqrt(len(error)))
    return mean, mean - half, mean + half
