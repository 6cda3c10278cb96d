"""The proofs: jobs, each a call of `apscope.machine.verify`, and the instruction sets of each."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from apscope import FloatFormat, named_formats
from apscope.machine import OPERATIONS, ROUNDINGS, Verification, verify

DETERMINISTIC = tuple(r for r in ROUNDINGS if not r.startswith("stochastic"))
ARITHMETIC = OPERATIONS[1:]
SAMPLED_FMA = ("e4m3", "e5m2", "fp16", "bf16", "tf32")
FMA_SAMPLES = 100_000_000
WIDE_SAMPLES = 20_000  # random inputs a projection, for formats that are not tried at every value

#: Beside the named formats of at most 16 bits: other widths, biases, special values and zeros.
MORE = (
    "e5m3", "e2m5", "e6m9", "e7m8", "e8m1", "e4m11", "e3m12", "e5m10fn", "e5m10fnuz", "e1m6",
    "e0m7finite",
    "e5m2u", "e4m4fnu", "e4m3b20", "cfloat8_143b7", "qpytorch_e5m2",
    "binary8p1sf", "binary8p2se", "binary8p5ue", "binary12p5uf", "binary16p8se", "binary16p11se",
)  # fmt: skip


#: From the best to the least. Parts of the first tuple run on each of them, the others on the best.
INSTRUCTION_SETS = ("avx512", "avx2", "sse4", "portable")
ON_EVERY_SET = ("all inputs",)


@dataclass(frozen=True)
class Job:
    part: str  #: the part of the record it belongs to
    name: str  #: unique within the part
    format: str  #: the format's name
    asks: dict[str, Any] = field(default_factory=dict)  #: the further arguments of `verify`

    @property
    def key(self) -> str:
        return f"{self.part}: {self.name}"

    def run(self) -> list[Verification]:
        return verify(self.format, **self.asks)


def table_formats() -> list[str]:
    """The formats of at most 16 bits that are proved on all fp32 inputs."""
    return [n for n, f in named_formats().items() if f.storage_bits <= 16] + list(MORE)


def all_inputs(formats: list[str], part: str) -> Iterator[Job]:
    """Every deterministic mode on all 2^32 inputs."""
    for name in formats:
        for mode in DETERMINISTIC:
            yield Job(part, f"{name} {mode}", name, {"rounding": mode, "exhaustive": True})


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
    """Every width of exponent and fraction that fp32 has room for, IEEE 754's rules where they fit,
    else without specials."""
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
    """Random formats with values beyond fp32, of every kind of zero, subnormals and special values;
    and fp64."""
    draw = random.Random(seed)
    names = ["fp64", "e11m0", "e11m10", "e11m51finiteb1024", "e1m52", "e9m43", "e4m30"]
    while len(names) < count:
        e, m = draw.randint(1, 11), draw.randint(0, 52)
        word = (
            f"e{e}m{m}"
            + draw.choice(["", "", "fn", "fnuz", "finite"])
            + draw.choice(["", "", "", "u"])
        )
        word += draw.choice(["", "", f"b{draw.randint(-900, 1100)}"]) + draw.choice(
            ["", "", "", "nosub"]
        )
        f = _format(word)
        if f is not None and not f.fits_fp32 and f.name not in names:
            names.append(f.name)
    return names


def _format(name: str) -> FloatFormat | None:
    try:
        return FloatFormat(name)
    except ValueError:
        return None


def jobs() -> Iterator[Job]:
    """Everything, part by part, those that take less time first."""
    for name, f in named_formats().items():
        for op in ARITHMETIC:
            yield Job(
                "arithmetic",
                f"{name} {op}",
                name,
                {"operation": op, "exhaustive": f.storage_bits <= 8},
            )
    for name in SAMPLED_FMA:
        for mode in ("ties_to_even", "toward_negative"):
            samples = FMA_SAMPLES if mode == "ties_to_even" else FMA_SAMPLES // 10
            yield Job(
                "sampled fma",
                f"{name} {mode}",
                name,
                {"rounding": mode, "operation": "fma", "samples": samples},
            )
    p3109 = p3109_formats()
    narrow = [name for name in p3109 if FloatFormat(name).fits_fp32]
    wide = [name for name in p3109 if name not in narrow]
    for part, names in (
        ("fp64 formats", fp64_formats()),
        ("rule", rule_formats()),
        ("P3109 beyond fp32", wide),
    ):
        for name in names:
            yield Job(part, name, name, {"samples": WIDE_SAMPLES})
    yield from all_inputs(table_formats(), "all inputs")
    yield from all_inputs(narrow, "P3109, all inputs")


def expected() -> list[tuple[Job, str]]:
    """Every job with every instruction set that it has to run on, in the order to run them."""
    everything = list(jobs())
    rows = []
    for part in dict.fromkeys(job.part for job in everything):
        for simd in INSTRUCTION_SETS if part in ON_EVERY_SET else INSTRUCTION_SETS[:1]:
            rows += [(job, simd) for job in everything if job.part == part]
    return rows
