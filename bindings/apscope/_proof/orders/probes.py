"""Random operands on which a callable is compared with an order of apscope, bit for bit."""

from __future__ import annotations

import numpy as np

from ..._arrays.casts import quantize
from .calls import Called
from .masks import Scale

#: Terms of moderate size, which every overflow and underflow rule sums alike.
ORDINARY = ("normal", "wide", "integers", "cancelling", "masks", "drift")
KINDS = (*ORDINARY, "large", "small", "zeros", "specials")


class Probes:
    """Operands of every kind, and the callable's results.

    Attributes
    ----------
    kinds : list of str
        The kind of every probe.
    operands : tuple of float32 arrays, stacked along a first axis
    got : float64 array of shape (probes, elements)
    """

    def __init__(self, called: Called, scale: Scale, bits: int) -> None:
        rng = np.random.default_rng(2411)
        each = 6 if called.elements == 1 else 3
        self.called = called
        self.kinds = [kind for kind in KINDS for _ in range(each)]
        drawn = [
            called.operands(_masks(rng, called.terms, scale, bits * (kind == "drift")))
            if kind in ORDINARY[-2:]
            else _operands(rng, called, scale, kind, place % each)
            for place, kind in enumerate(self.kinds)
        ]
        self.operands = tuple(
            np.stack(arrays).astype(np.float32) for arrays in zip(*drawn, strict=True)
        )
        self.got = np.stack([called.run(one) for one in drawn])

    def ordinary(self) -> np.ndarray:
        """Which probes have terms of moderate size."""
        return np.isin(self.kinds, ORDINARY)

    def firsts(self, *kinds: str) -> np.ndarray:
        """The first probe of each of these kinds."""
        return np.isin(np.arange(len(self.kinds)), [self.kinds.index(kind) for kind in kinds])

    def terms(self, chosen: np.ndarray, begin: int, end: int) -> list[np.ndarray]:
        """Every term of the elements begin to end - 1, exact: (probes, end - begin) each."""
        called, parts = self.called, [part[chosen].astype(np.float64) for part in self.operands]
        count = len(parts[0])
        with np.errstate(all="ignore"):  # 0 inf
            if called.kind == "sum":
                terms = [parts[0][:, [i]] for i in range(called.n)]
            elif called.kind == "allreduce":
                return [parts[0][:, w, begin:end] for w in range(called.terms)]
            elif called.kind == "dot":
                terms = [(parts[0] * parts[1])[:, [i]] for i in range(called.n)]
            else:
                a, b = parts[:2]
                terms = [
                    (a[:, :, k, None] * b[:, None, k, :]).reshape(count, -1)[:, begin:end]
                    for k in range(called.n)
                ]
        if called.addend:
            terms.append(parts[2].reshape(count, -1)[:, begin:end])
        return terms


def _masks(rng: np.random.Generator, terms: int, scale: Scale, bits: int) -> np.ndarray:
    """M and -M at some places, and powers of two of all smaller sizes.

    With bits, these are of one sign and near the last of so many bits of M, so that they add up.
    """
    top = scale.top - 1
    most = max(top - bits + 2 if bits else top - 1 - terms.bit_length(), scale.unit)
    least = max(most - (3 if bits else 40), scale.unit)
    signs = 1 if bits else rng.choice([-1, 1], terms)
    values = signs * 2.0 ** rng.integers(least, most + 1, terms)
    places = rng.permutation(terms)
    for pair in range(min(1 + int(rng.integers(2)), terms // 2)):
        values[places[2 * pair : 2 * pair + 2]] = np.array([1, -1]) * 2.0 ** (top - pair)
    return values


def _operands(
    rng: np.random.Generator, called: Called, scale: Scale, kind: str, place: int
) -> tuple[np.ndarray, ...]:
    f = called.inputs
    smallest, largest = f.smallest_normal, f.largest
    if place % 3:  # near the limits of the result instead of those of the inputs
        factors = 1 + called.products
        smallest = 2.0 ** np.floor(scale.unit / factors)
        largest = min(largest, 2.0 ** (np.ceil((scale.top + 1) / factors) - place // 3))

    def values(*shape: int, kind: str = kind) -> np.ndarray:
        return quantize(_draw(rng, shape, kind, smallest, largest).astype(np.float32), f)

    if called.kind == "allreduce":
        return (values(called.terms, called.n),)
    if called.kind == "sum":
        return (values(called.n),)
    rows, columns = ((called.rows,), (called.columns,)) if called.kind == "matmul" else ((), ())
    # Infinities meet no zeros; at the limits of wide inputs one factor is of moderate size.
    moderate = kind in ("zeros", "specials") or (kind == "large" and place % 3 == 0)
    a = values(*rows, called.n)
    b = values(called.n, *columns, kind="normal" if moderate else kind)
    if not called.addend:
        return a, b
    c = _draw(rng, called.shape, "wide" if kind in ("large", "small") else kind, 2.0**-126, 1)
    return a, b, c.astype(np.float32)


def _draw(
    rng: np.random.Generator, shape: tuple[int, ...], kind: str, smallest: float, largest: float
) -> np.ndarray:
    """Numbers of a kind, float64."""
    normal = rng.standard_normal(shape)
    if kind == "wide":
        return normal * 2.0 ** rng.integers(-6, 7, shape)
    if kind == "integers":
        return rng.integers(-9, 10, shape) * 2.0 ** rng.integers(-3, 1)
    if kind == "cancelling":
        flat = (normal * 2.0 ** rng.integers(-6, 7, shape)).reshape(-1)
        half = len(flat) // 2
        flat[half : 2 * half] = -flat[:half]
        return rng.permutation(flat).reshape(shape) + normal * 2.0**-8
    if kind == "large":
        return rng.uniform(-1, 1, shape) * largest
    if kind == "small":
        return normal * smallest * 2.0 ** rng.integers(-3, 1)
    if kind == "zeros":
        few = rng.random(shape) < rng.choice([0, 0.1])
        return np.where(few, smallest, 0.0) * rng.choice([-1, -1, -1, 1], shape)
    if kind == "specials":
        special = rng.choice([np.inf, -np.inf, np.nan], shape, p=[0.6, 0.3, 0.1])
        return np.where(rng.random(shape) < 2 / max(shape[-1] if shape else 1, 2), special, normal)
    return normal
