"""Schemes: from a spec and the gradients of all steps to scales, and from values to decoded values.

definitions.md section 8, with exact fractions for its "integer arithmetic" and comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from .casts import Rounding, cast, exact, moments
from .formats import FORMATS
from .random_words import REDUCE, WIRE, correlated_integers, random_integers
from .rounding import Format
from .statistics import fixed_shape_sum

FLOAT_KEYS = {
    "rounding": "ties_to_even",
    "overflow": "ieee",
    "random_bits": "32",
    "correlated": "false",
    "accumulate": "format",
    "hop_rounding": "same",
    "divide": "after",
}
KEYS = {
    "none": FLOAT_KEYS,
    "loss_scaling": FLOAT_KEYS
    | {"scale": "1024", "headroom": "workers", "rule": "ceil", "by": "error_over_noise"},
    "dynamic_loss_scaling": FLOAT_KEYS
    | {"init": "auto", "growth": "2", "backoff": "0.5", "growth_interval": "2000"},
    "aps": FLOAT_KEYS
    | {"headroom": "workers", "rule": "ceil", "unit": "tensor", "frozen": "0", "delay": "0"},
    "stochastic": FLOAT_KEYS | {"rounding": "stochastic"},
    "qsgd": {"levels": "7", "bucket": "512", "random_bits": "32", "correlated": "false"},
    "random_k": {"keep": "0.01", "scale": "true"},
}


@dataclass
class Scheme:
    spec: str
    name: str
    format: str
    keys: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def parse(spec: str) -> Scheme:
        name, _, rest = spec.partition(":")
        words = rest.split(",") if rest else []
        format = "" if name in ("qsgd", "random_k") else words.pop(0)
        return Scheme(spec, name, format, KEYS[name] | dict(w.split("=") for w in words))

    @property
    def f(self) -> Format:
        return FORMATS[self.format]

    @property
    def wire_rounding(self) -> Rounding:
        return Rounding(self.keys["rounding"], self.keys["overflow"], int(self.keys["random_bits"]))

    @property
    def hop_rounding(self) -> Rounding:
        mode = self.keys["hop_rounding"]
        return self.wire_rounding.with_mode(self.wire_rounding.mode if mode == "same" else mode)

    def divisors(self, workers: int) -> tuple[float, float]:
        """Before and after the sum, in the format; section 1 of definitions.md."""
        match self.keys.get("divide", "after"):
            case "after":
                return 1.0, 1.0
            case "before":
                before = float(workers)
            case "sqrt":
                before = float(np.float32(math.sqrt(workers)))
            case "fsdp":  # FSDP2's loop
                before = 1.0
                while workers % before == 0 and workers / before > before:
                    before *= 2
            case number:
                before = float(number)
        return before, workers / before

    @property
    def gathers(self) -> bool:
        return self.name in ("stochastic", "qsgd")


def amax(g: np.ndarray) -> float:
    """The largest finite magnitude over all workers; 0 if there is none."""
    finite = abs(g[np.isfinite(g)])
    return float(finite.max()) if finite.size else 0.0


def headroom_squared(name: str, workers: int) -> int:
    return {"workers": workers**2, "sqrt_workers": workers, "one": 1}[name]


def ceil_log2_of_root(square: Fraction) -> int:
    """The least k with 2^k >= sqrt(square)."""
    k = (square.numerator.bit_length() - square.denominator.bit_length()) // 2 - 2
    while Fraction(4) ** k < square:
        k += 1
    return k


def emax(f: Format) -> int:
    return math.frexp(float(f.value(f.top)))[1] - 1


def shift(
    largest_magnitude: float, f: Format, headroom: str, workers: int, rule: str = "ceil"
) -> int:
    """ceil: E - ceil(log2(H amax)); tight: the largest s with H amax 2^s <= the largest value of
    F."""
    if largest_magnitude == 0:
        return 0
    square = headroom_squared(headroom, workers) * Fraction(max(largest_magnitude, 2.0**-126)) ** 2
    if rule == "ceil":
        return emax(f) - ceil_log2_of_root(square)
    ratio = f.value(f.top) ** 2 / square
    s = -ceil_log2_of_root(1 / ratio)
    assert Fraction(4) ** s <= ratio < Fraction(4) ** (s + 1)
    return s


def first_loss_scale(scheme: Scheme) -> np.float32:
    """`auto`: the power of two above the largest value, between 1 and torch's 2^16."""
    init = scheme.keys["init"]
    return np.float32(2.0 ** min(max(emax(scheme.f) + 1, 0), 16) if init == "auto" else init)


def bytes_of(size: str) -> int:
    """25MB, 512KB, 2GB (powers of 1024) or bytes."""
    power = {"KB": 1, "MB": 2, "GB": 3}.get(size[-2:], 0)
    return int(size[:-2] if power else size) * 1024**power


def units(scheme: Scheme, tensors: dict[str, np.ndarray]) -> list[list[str]]:
    """The tensors (W, n) that share a scale, from the last to the first, as gradients come: the
    first of each pays for it."""
    order, unit = list(tensors)[::-1], scheme.keys.get("unit", "tensor")
    if unit == "model":
        return [order]
    if not unit.startswith("bucket:"):
        return [[name] for name in order]
    buckets, limits, held = [[]], [min(2**20, bytes_of(unit[7:])), bytes_of(unit[7:])], 0
    for name in order:
        if held >= limits[len(buckets) > 1]:
            buckets.append([])
            held = 0
        buckets[-1].append(name)
        held += 4 * tensors[name].shape[1]
    return buckets


@dataclass
class Shifts:
    """The shifts of one unit from step to step. Steps of zeros say nothing."""

    frozen: int
    delay: bool
    past: list[int] = field(default_factory=list)

    def next(self, own: int, zero: bool) -> int:
        n = self.frozen
        for end in range(n, len(self.past) + 1) if n else ():
            if len(set(self.past[end - n : end])) == 1:
                return self.past[end - 1]
        before = self.past[-1] if self.past and self.delay else own
        if not zero:
            self.past.append(own)
        return before


def scales(
    scheme: Scheme,
    gradients: dict[int, dict[str, np.ndarray]],
    found_inf: Callable[[int, float], bool] | None = None,
) -> dict[tuple[int, str], tuple[float, bool]]:
    """(step, tensor) -> (S, skipped). found_inf: of a step with a loss scale."""
    plan, keys = {}, scheme.keys
    state, quiet = first_loss_scale(scheme) if "init" in keys else np.float32(1), 0
    if scheme.name == "loss_scaling" and keys["scale"] == "largest":
        tensors = [g for step in gradients.values() for g in step.values()]
        largest_scale = 2.0 ** shift(
            max(map(amax, tensors)), scheme.f, keys["headroom"], len(tensors[0]), keys["rule"]
        )
    memory: dict[int, Shifts] = {}
    for step, tensors in gradients.items():
        if scheme.name == "dynamic_loss_scaling":
            skipped, current = found_inf(step, float(state)), float(state)
            if skipped:
                state, quiet = np.float32(float(state) * float(np.float32(keys["backoff"]))), 0
            else:
                quiet += 1
                if quiet == int(keys["growth_interval"]):
                    with np.errstate(over="ignore"):
                        grown = np.float32(float(state) * float(np.float32(keys["growth"])))
                    state, quiet = grown if np.isfinite(grown) else state, 0
        for name, g in tensors.items():
            match scheme.name:
                case "none" | "qsgd":
                    plan[step, name] = 1.0, False
                case "loss_scaling":
                    plan[step, name] = (
                        largest_scale
                        if keys["scale"] == "largest"
                        else float(np.float32(keys["scale"])),
                        False,
                    )
                case "dynamic_loss_scaling":
                    plan[step, name] = current, skipped
                case "stochastic":
                    plan[step, name] = 2.0 ** shift(amax(g), scheme.f, "one", len(g)), False
        for i, unit in enumerate(units(scheme, tensors) if scheme.name == "aps" else ()):
            largest = max(amax(tensors[name]) for name in unit)
            own = shift(largest, scheme.f, keys["headroom"], len(tensors[unit[0]]), keys["rule"])
            shifts = memory.setdefault(i, Shifts(int(keys["frozen"]), keys["delay"] == "1"))
            plan |= dict.fromkeys(
                [(step, name) for name in unit], (2.0 ** shifts.next(own, largest == 0), False)
            )
    return plan


def wire_integers(
    scheme: Scheme, key, shape: tuple[int, int], bits: int, worker: int, hop: int = 0
) -> list[int]:
    """The random bits of a worker's row; shape: the number of workers and the row's length."""
    workers, count = shape
    if scheme.keys["correlated"] == "true":
        return correlated_integers(key, count, bits, workers, worker, hop)
    return random_integers(key, range(count), bits, WIRE, worker, hop)


def codes_of(g: np.ndarray, scale: float, scheme: Scheme, key) -> np.ndarray:
    """Codes' values (W, n), before a division."""
    codes = np.empty(g.shape)
    for worker, values in enumerate(g.astype(np.float64)):
        v, r = scale * values, scheme.wire_rounding
        random = (
            wire_integers(scheme, key, g.shape, r.drawn_bits, worker) if r.is_stochastic else None
        )
        codes[worker] = cast(v, scheme.f, r, random)
    return codes


def encode_floats(
    g: np.ndarray, scale: float, scheme: Scheme, key
) -> tuple[np.ndarray, list, list, bool]:
    """Codes' values (W, n), and their exact moments in units of the format's values, not of g's."""
    codes = codes_of(g, scale, scheme, key)
    return codes, *moments_of(codes, g, scale, scheme)


def moments_of(codes, g: np.ndarray, scale: float, scheme: Scheme) -> tuple[list, list, bool]:
    """Exact biases and variances of codes (W, n), and whether some draw may not be finite."""
    biases, variances, risky = [], [], False
    for worker, values in enumerate(g.astype(np.float64)):
        v, r = scale * values, scheme.wire_rounding
        bias, variance, overflows = moments(exact(v), codes[worker], scheme.f, r)
        biases.append(bias)
        variances.append(variance)
        risky |= overflows
    return biases, variances, risky


def divided(codes: np.ndarray, scheme: Scheme, key) -> np.ndarray:
    """What is sent instead of the codes (W, n): hop 1 of the wire."""
    before, _ = scheme.divisors(len(codes))
    if before == 1:
        return codes
    r, sent = scheme.wire_rounding, np.empty(codes.shape)
    for worker, values in enumerate(codes):
        random = (
            wire_integers(scheme, key, codes.shape, r.drawn_bits, worker, hop=1)
            if r.is_stochastic
            else None
        )
        sent[worker] = cast(values / before, scheme.f, r, random)
    return sent


def qsgd_decoded(g: np.ndarray, scheme: Scheme, key) -> tuple[np.ndarray, list, list]:
    """Decoded values (W, n) and their moments; elements that are not finite pass as they are."""
    s, bucket, bits = (int(scheme.keys[k]) for k in ("levels", "bucket", "random_bits"))
    y, biases, variances = g.astype(np.float64), [], []
    for worker, values in enumerate(g.astype(np.float64)):
        random = wire_integers(scheme, key, g.shape, bits, worker)
        bias, variance = [], []
        for start in range(0, len(values), bucket):
            part = values[start : start + bucket]
            squares = np.where(np.isfinite(part), part, 0.0) ** 2
            root = min(math.sqrt(fixed_shape_sum(squares)), float(np.finfo(np.float32).max))
            norm = float(np.float32(root))
            for i, x in enumerate(part.tolist(), start):
                if not math.isfinite(x) or norm == 0:
                    y[worker, i] = x if not math.isfinite(x) else 0.0
                    bias.append(Fraction(0))
                    variance.append(Fraction(0))
                    continue
                u = s * abs(x) / norm
                level = math.floor(u)
                threshold = math.floor((u - level) * 2**bits)
                up = threshold + random[i] >= 2**bits
                l = min(level + up, s)
                y[worker, i] = math.copysign(l * norm / s, x)
                p = Fraction(threshold, 2**bits) if level < s else Fraction(0)
                step = Fraction(norm) / s
                mean = (min(level, s) + p) * step
                bias.append((mean - abs(Fraction(x))) * (1 if x > 0 else -1))
                variance.append(p * (1 - p) * step * step)
        biases.append(bias)
        variances.append(variance)
    return y, biases, variances


def random_k_decoded(g: np.ndarray, scheme: Scheme, key) -> tuple[np.ndarray, list, list]:
    """Decoded values (W, n) and their moments, of finite elements: places by words that all workers
    share."""
    n = g.shape[1]
    k = min(n, max(1, math.floor(float(scheme.keys["keep"]) * n)))
    words = random_integers(key, np.arange(n), 53, REDUCE)
    chosen = set(sorted(range(n), key=lambda i: (-words[i], i))[:k])
    factor, p = (n / k if scheme.keys["scale"] == "true" else 1.0), Fraction(k, n)
    y, biases, variances = np.zeros(g.shape), [], []
    for worker, values in enumerate(g.tolist()):
        sent = [float(np.float32(x * factor)) for x in values]
        for i in chosen:
            y[worker, i] = sent[i]
        biases.append([Fraction(v) * p - Fraction(x) for v, x in zip(sent, values)])
        variances.append([Fraction(v) ** 2 * p * (1 - p) for v in sent])
    return y, biases, variances
