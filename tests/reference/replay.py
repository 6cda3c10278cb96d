"""A replay, row by row: the correct results of `apscope.replay` for given gradients."""

import functools
from fractions import Fraction

import numpy as np

from . import production
from .allreduce import Adder
from .casts import Limits, as_float, cast, exact_total
from .formats import FORMATS
from .noise import COLUMNS, noise_of, over_noise
from .random_words import REDUCE, random_integers, replay_key
from .rounding import Format
from .schemes import Scheme, codes_of, divided, moments_of, qsgd_decoded, scales, units
from .statistics import SPLIT, max_ulp, of_the_reference, reduced_split, statistics, wire_split
from .topologies import rank_order_sum, reduce, volumes

#: columns that a skipped step fills like any other; those of `of_the_reference` are the others
UNTOUCHED = tuple(
    "stage topology format wire_bits side_bits volume intra_volume scale_exponent".split()
)


def reduce_codes(codes: np.ndarray, topology: str, scheme: Scheme, key) -> tuple[np.ndarray, Adder]:
    accumulate = scheme.keys["accumulate"]
    f = scheme.f if accumulate == "format" else FORMATS.get(accumulate)
    workers, n = codes.shape
    adder = Adder(f, scheme.hop_rounding, key, n)
    before, after = scheme.divisors(workers)
    if accumulate == "exact":
        return before * reduce(codes, topology, lambda a, b, hop, elements: a + b), adder
    total = reduce(codes, topology, adder)
    if after != 1:
        r = scheme.hop_rounding
        random = (
            random_integers(key, np.arange(n), r.drawn_bits, REDUCE, 1) if r.is_stochastic else None
        )
        total = cast(total / after, f, r, random)
    return total * (workers if before != 1 or after != 1 else 1), adder


def mean_of(terms: list, counted: np.ndarray, size: float) -> tuple[float | None, float]:
    """The exact mean over counted elements, and how far a computed one may be from it.

    n - 1 additions and a division, and in each term's formula operations on numbers of mean
    magnitude `size`, some of which cancel.
    """
    kept = [t for t, c in zip(terms, counted.ravel().tolist()) if c]
    if not kept:
        return None, 0.0
    magnitude = exact_total([abs(t) for t in kept]) / len(kept)
    return float(exact_total(kept) / len(kept)), (
        float(magnitude) * len(kept) + 8 * size
    ) * 2.0**-53


def flat(per_worker: list) -> list:
    return [t for row in per_worker for t in row]


def summed(per_worker: list, divisor: int = 1) -> list:
    """Sums over the workers, element by element."""
    return [exact_total(column) / divisor for column in zip(*per_worker)]


@np.errstate(all="ignore")  # infinities and NaNs are values like others
def replay(
    gradients, spec: str, topologies: list[str], reduction: str = "mean", seed: int = 0
) -> list[dict]:
    """gradients[step][tensor]: (W, n) fp32. Rows in order; empty is None.

    Beside the columns, `expected_bias_tolerance` and `expected_variance_tolerance` bound the
    rounding of an expectation computed in fp64; here it is exact until its last step.
    """
    scheme, rows = Scheme.parse(spec), []
    # A dynamic loss scale depends on the reduction: a path for every topology.
    paths = ["exact", *topologies] if scheme.name == "dynamic_loss_scaling" else [None]
    plans = {
        path: scales(
            scheme,
            gradients,
            lambda step, scale, path=path: not_finite(
                gradients[step], scale, scheme, path, lambda name: replay_key(seed, name, step)
            ),
        )
        for path in paths
    }
    for step, tensors in gradients.items():
        paying = {unit[0] for unit in units(scheme, tensors)}
        for name, g in tensors.items():
            x = g.astype(np.float64)
            reference = rank_order_sum(x)[None] / (len(x) if reduction == "mean" else 1)
            for row, scale, skipped in path_rows(
                g, scheme, plans, (step, name), replay_key(seed, name, step), topologies, reduction
            ):
                row = with_volumes(
                    row if name in paying else row | {"side_bits": 0}, scheme, *g.shape
                )
                if skipped and row["stage"] == "reduced":  # nothing arrived
                    row |= over_noise(
                        noise_of(g, reduction), reference[0], np.zeros_like(reference[0])
                    )
                kept = (
                    {
                        k: v
                        for k, v in row.items()
                        if k.removesuffix("_tolerance") in {*UNTOUCHED, *COLUMNS}
                    }
                    | of_the_reference(x if row["stage"] == "wire" else reference)
                    if skipped
                    else row
                )
                rows.append(
                    {"step": step, "tensor": name, "scheme": spec, "skipped": skipped}
                    | dict.fromkeys(row)
                    | kept
                )
    return rows


def not_finite(tensors, scale: float, scheme: Scheme, topology: str, key_of) -> bool:
    """found_inf: some gradient, or some element of the reduced result, is not finite."""
    if not all(np.isfinite(g).all() for g in tensors.values()):
        return True
    for name, g in tensors.items():
        codes = divided(codes_of(g, scale, scheme, key_of(name)), scheme, key_of(name))
        total = (
            rank_order_sum(codes)
            if topology == "exact"
            else reduce_codes(codes, topology, scheme, key_of(name))[0]
        )
        if not np.isfinite(total).all():
            return True
    return False


def path_rows(g, scheme: Scheme, plans: dict, place: tuple, key, topologies, reduction: str):
    """(row, scale, skipped) of an item. With a path for every topology, each has its row at the
    wire and its reduced row."""
    found = []
    for path, plan in plans.items():
        scale, skipped = plan[place]
        asked = topologies if path is None else [path] if path != "exact" else []
        rows = tensor_rows(g, scheme, scale, key, asked, reduction)
        if path is not None:
            rows = [rows[0] | {"topology": path}, rows[-1]]
        found += [(row, scale, skipped) for row in rows]
    return sorted(found, key=lambda one: one[0]["stage"] == "reduced")


def tensor_rows(
    g, scheme: Scheme, scale: float, key, topologies: list[str], reduction: str
) -> list[dict]:
    workers, n = g.shape
    divisor = workers if reduction == "mean" else 1
    x = g.astype(np.float64)
    reference = rank_order_sum(x) / divisor

    if scheme.name == "qsgd":
        decoded, *moments = qsgd_decoded(g, scheme, key)
        codes, unit, divides = None, Fraction(1), False
    else:
        codes = codes_of(g, scale, scheme, key)
        sent, before = divided(codes, scheme, key), scheme.divisors(workers)[0]
        decoded, unit = sent * before / scale, Fraction(scale)
        divides = scheme.divisors(workers) != (1.0, 1.0)
    drawn = scheme.name == "qsgd" or scheme.wire_rounding.is_stochastic

    @functools.cache
    def wire_moments():
        """The workers' biases and variances; None where some draw may not be finite."""
        if not np.isfinite(x).all():
            return None
        bias, variance, risky = (
            (*moments, False) if codes is None else moments_of(codes, g, scale, scheme)
        )
        if risky:
            return None
        return (
            [[b / unit for b in row] for row in bias],
            [[v / unit**2 for v in row] for row in variance],
        )

    @functools.cache
    def sum_moments():
        """Those of the elements' exact sums."""
        return wire_moments() and tuple(
            summed(m, d) for m, d in zip(wire_moments(), (divisor, divisor**2))
        )

    def expected(row, moments, counted, draws: bool):
        """moments(): of the row's elements, which only a draw needs; None: not known."""
        if not draws:  # nothing is drawn
            row["expected_bias"], row["expected_variance"] = (
                row["bias"],
                None if row["bias"] is None else 0.0,
            )
        elif not divides and (found := moments()):  # of two draws in a row: not known
            bias, variance = found
            size = float(np.abs(x[np.isfinite(x)]).mean()) * (
                workers / divisor if row["stage"] == "reduced" else 1
            )
            row["expected_bias"], row["expected_bias_tolerance"] = mean_of(bias, counted, size)
            size = float(max(variance, default=0))
            row["expected_variance"], row["expected_variance_tolerance"] = mean_of(
                variance, counted, size
            )
        else:
            row["expected_bias"] = row["expected_variance"] = None

    saturated = saturates(x, codes, scale, scheme)
    noise = noise_of(g, reduction)

    def reduced_row(topology, y):
        row = (
            reduced(reference, y, scale, scheme, divisor / scheme.divisors(workers)[0])
            | split(y)
            | over_noise(noise, reference, y)
        )
        return {"stage": "reduced", "topology": topology} | row

    rows = [
        {"stage": "wire", "topology": ""}
        | dict.fromkeys(COLUMNS)
        | statistics(x, decoded)
        | extras(x, decoded, codes, scale, scheme)
    ]
    rows[0] |= dict.fromkeys(SPLIT) if saturated is None else wire_split(x, decoded, saturated)
    counted = np.isfinite(x) & np.isfinite(decoded)
    expected(rows[0], lambda: wire_moments() and tuple(map(flat, wire_moments())), counted, drawn)

    def split(y):
        return (
            dict.fromkeys(SPLIT)
            if saturated is None
            else reduced_split(x, decoded, saturated, reference, exact, y, divisor)
        )

    y = exact = rank_order_sum(decoded) / divisor
    exact_row = reduced_row("exact", y)
    counted = np.isfinite(reference) & np.isfinite(y)
    expected(exact_row, sum_moments, counted, drawn)
    rows.append(exact_row)

    if scheme.gathers:
        y = rank_order_sum(decoded, np.float32) / divisor
        row = reduced_row("gather", y)
        expected(row, lambda: None, counted, True)
        return rows + [row]

    for topology in topologies:
        total, adder = reduce_codes(sent, topology, scheme, key)
        y = total / scale / divisor
        row = reduced_row(topology, y)
        counted = np.isfinite(reference) & np.isfinite(y)
        adds = workers > 1 or scheme.divisors(workers)[1] != 1
        rounds = adds and scheme.keys["accumulate"] != "exact"
        hops = rounds and scheme.hop_rounding.is_stochastic and production.draws(topology)

        known = (hops or not rounds) and not adder.risky
        if rounds and production.rounds_what_was_drawn(topology, drawn):
            known = False

        def moments_after(adder=adder, known=known):
            if not known or not sum_moments():
                return None
            b, v = sum_moments()
            return (
                [w + h / unit / divisor for w, h in zip(b, adder.bias)],
                [w + h / unit**2 / divisor**2 for w, h in zip(v, adder.variance)],
            )

        expected(row, moments_after, counted, drawn or hops)
        rows.append(row)
    return rows


def with_volumes(row: dict, scheme: Scheme, workers: int, n: int) -> dict:
    accumulate = scheme.keys.get("accumulate", "format")
    f = scheme.f if accumulate == "format" and not scheme.gathers else FORMATS.get(accumulate)
    wide = f and f.is_signed + f.exponent_bits + f.mantissa_bits
    volume, intra = volumes(
        row["topology"] if row["stage"] == "reduced" else "",
        workers,
        n,
        row["wire_bits"],
        row["side_bits"],
        wide,
        scheme.name != "qsgd",
    )
    return row | {
        "volume": volume,
        "volume_tolerance": 1e-13 * (volume or 0),
        "intra_volume": intra,
        "intra_volume_tolerance": 1e-13 * (intra or 0),
        "block_count": None,
        "block_saturated": None,
        "block_scale_spread": None,
        "block_range": None,
        "block_range_max": None,
        "own_nmse": None,
        "own_cosine": None,
    }


def extras(x, decoded, codes, scale: float, scheme: Scheme) -> dict:
    """The columns that only the wire has; `bits` are both stages'."""
    row = bits(x.shape[1], scheme)
    if scheme.name == "qsgd":
        return row | {
            "format": f"uniform:{scheme.keys['levels']}",
            "scale_exponent": None,
            "subnormal": None,
            "saturated": None,
            "max_ulp": None,
        }
    limits, v = Limits.of(scheme.f), abs(scale * x)
    before = scheme.divisors(len(x))[0]
    # Without subnormals its code may be zero's.
    normal = as_float(max(limits.smallest_normal, limits.smallest)) * before
    row["subnormal"] = int((np.isfinite(x) & (v > 0) & (v < normal)).sum())
    row["saturated"] = int(saturates(x, codes, scale, scheme).sum())
    row["max_ulp"] = max_ulp(x, decoded, scale, 1 / before, emin(scheme.f), scheme.f.mantissa_bits)
    return row | grid(scale, scheme)


def saturates(x, codes, scale: float, scheme: Scheme) -> np.ndarray | None:
    """Where an element beyond the largest value became that; None for grids that are not floats."""
    if scheme.name == "qsgd":
        return None
    largest = as_float(Limits.of(scheme.f).largest)
    return np.isfinite(x) & (abs(scale * x) > largest) & (abs(codes) == largest)


def reduced(reference, y, scale: float, scheme: Scheme, unit: float) -> dict:
    row = (
        statistics(reference[None], y[None])
        | bits(len(reference), scheme)
        | {"subnormal": None, "saturated": None}
    )
    if scheme.name == "qsgd":
        return row | {
            "format": f"uniform:{scheme.keys['levels']}",
            "scale_exponent": None,
            "max_ulp": None,
        }
    row["max_ulp"] = max_ulp(reference, y, scale, unit, emin(scheme.f), scheme.f.mantissa_bits)
    return row | grid(scale, scheme)


def emin(f: Format) -> int:
    return 1 - f.bias if f.subnormals else -f.bias


def grid(scale: float, scheme: Scheme) -> dict:
    fraction, exponent = np.frexp(scale)
    return {
        "format": scheme.format,
        "scale_exponent": int(exponent) - 1 if fraction == 0.5 else None,
    }


def bits(n: int, scheme: Scheme) -> dict:
    if scheme.name == "qsgd":
        levels, bucket = int(scheme.keys["levels"]), int(scheme.keys["bucket"])
        return {"wire_bits": n * (2 * levels).bit_length(), "side_bits": 32 * -(-n // bucket)}
    f = scheme.f
    return {
        "wire_bits": n * (f.is_signed + f.exponent_bits + f.mantissa_bits),
        "side_bits": 8 if scheme.name in ("aps", "stochastic") else 0,
    }
