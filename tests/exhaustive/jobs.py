"""What is proved: one job a line of the record, each a call of `apscope.verify`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from apscope import FloatFormat, named_formats
from apscope.machine import OPERATIONS, ROUNDINGS, Verification, verify

DETERMINISTIC = tuple(r for r in ROUNDINGS if not r.startswith("stochastic"))
ARITHMETIC = OPERATIONS[1:]
SAMPLED_FMA = ("e4m3", "e5m2", "fp16", "bf16", "tf32")
FMA_SAMPLES = 100_000_000
WIDE_SAMPLES = 20_000  # random inputs a projection, for formats that are not tried at every value

#: Beside the named formats of at most 16 bits: other widths, biases, special values and zeros.
MORE = (
    "e5m3", "e2m5", "e6m9", "e7m8", "e8m1", "e4m11", "e3m12", "e5m10fn", "e5m10fnuz", "e1m6", "e0m7finite",
    "e5m2u", "e4m4fnu", "e4m3b20", "cfloat8_143b7", "qpytorch_e5m2",
    "binary8p1sf", "binary8p2se", "binary8p5ue", "binary12p5uf", "binary16p8se", "binary16p11se",
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    part: str  #: the part of the record it belongs to
    name: str  #: unique within the part
    run: Callable[[], list[Verification]]

    @property
    def key(self) -> str:
        return f"{self.part}: {self.name}"


def table_formats() -> list[str]:
    """The formats of at most 16 bits that are proved on all fp32 inputs."""
    return [n for n, f in named_formats().items() if f.storage_bits <= 16] + list(MORE)


def all_inputs(formats: list[str], part: str) -> Iterator[Job]:
    """Every deterministic mode on all 2^32 inputs."""
    for name in formats:
        for mode in DETERMINISTIC:
            yield Job(part, f"{name} {mode}", lambda name=name, mode=mode: verify(name, mode, exhaustive=True))


def p3109_formats() -> list[str]:
    """Every P3109 format of 3 to 16 bits whose values fp64 holds."""
    names = []
    for bits in range(3, 17):
        for sign in "su":
            for precision in range(1, bits + (sign == "u")):
                for domain in "ef":
                    name = f"binary{bits}p{precision}{sign}{domain}"
                    if _format(name) is not None:
                        names.append(name)
    return names


def rule_formats() -> list[str]:
    """Every width of exponent and fraction that fp32 has room for, IEEE 754's rules where they fit, else without specials."""
    names = []
    for exponent_bits in range(1, 9):
        for mantissa_bits in range(24):
            for suffix in ("", "finite"):
                f = _format(f"e{exponent_bits}m{mantissa_bits}{suffix}")
                if f is not None and f.fits_fp32:
                    names.append(f.name)
                    break
    return names


def fp64_formats(count: int = 60, seed: int = 1) -> list[str]:
    """Random formats with values beyond fp32, of every kind of zero, subnormals and special values; and fp64."""
    draw = random.Random(seed)
    names = ["fp64", "e11m0", "e11m10", "e11m51finiteb1024", "e1m52", "e9m43", "e4m30"]
    while len(names) < count:
        e, m = draw.randint(1, 11), draw.randint(0, 52)
        word = f"e{e}m{m}" + draw.choice(["", "", "fn", "fnuz", "finite"]) + draw.choice(["", "", "", "u"])
        word += draw.choice(["", "", f"b{draw.randint(-900, 1100)}"]) + draw.choice(["", "", "", "nosub"])
        f = _format(word)
        if f is not None and not f.fits_fp32 and f.name not in names:
            names.append(f.name)
    return names


def _format(name: str) -> FloatFormat | None:
    try:
        return FloatFormat(name)
    except ValueError:
        return None


def main_jobs() -> list[Job]:
    """Everything but P3109's formats, about an hour on two processors."""
    jobs = list(all_inputs(table_formats(), "all inputs"))
    for part, names in (("rule", rule_formats()), ("fp64 formats", fp64_formats())):
        for name in names:
            jobs.append(Job(part, name, lambda name=name: verify(name, samples=WIDE_SAMPLES)))
    for name, f in named_formats().items():
        for op in ARITHMETIC:
            exhaustive = f.storage_bits <= 8
            jobs.append(Job("arithmetic", f"{name} {op}", lambda name=name, op=op, e=exhaustive: verify(name, operation=op, exhaustive=e)))
    for name in SAMPLED_FMA:
        for mode in ("ties_to_even", "toward_negative"):
            samples = FMA_SAMPLES if mode == "ties_to_even" else FMA_SAMPLES // 10
            jobs.append(Job("sampled fma", f"{name} {mode}", lambda n=name, m=mode, s=samples: verify(n, m, operation="fma", samples=s)))
    return jobs


def p3109_jobs(shard: int, shards: int) -> list[Job]:
    """Every `shards`-th P3109 format, from number `shard`: on all fp32 inputs, or as those beyond fp32 are."""
    names = p3109_formats()[shard::shards]
    narrow = [name for name in names if FloatFormat(name).fits_fp32]
    wide = [name for name in names if name not in narrow]
    jobs = list(all_inputs(narrow, "P3109, all inputs"))
    return jobs + [Job("P3109 beyond fp32", name, lambda name=name: verify(name, samples=WIDE_SAMPLES)) for name in wide]
