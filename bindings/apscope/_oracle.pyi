"""
The MPFR oracle: what a cast should give, and the comparison of the emulator with it.
"""
from __future__ import annotations
import typing
__all__: list[str] = ['overflow_rules', 'project', 'verify']
def overflow_rules(format: str) -> list[str]:
    """
    The names of the overflow rules the format can follow.
    """
def project(x: typing.SupportsFloat | typing.SupportsIndex, format: str, *, rounding: str = 'ties_to_even', overflow: str = 'ieee', random_bits: typing.SupportsInt | typing.SupportsIndex = 32, random: typing.SupportsInt | typing.SupportsIndex = 0) -> float:
    """
    One number projected by MPFR; random: random_bits bits, left-aligned in 64.
    """
def verify(format: str, *, rounding: str = 'ties_to_even', overflow: str = 'ieee', random_bits: typing.SupportsInt | typing.SupportsIndex = 32, exhaustive: bool = False, exhaustive_oracle: bool = False, threads: typing.SupportsInt | typing.SupportsIndex = 2, random_cases: typing.SupportsInt | typing.SupportsIndex = 1000000, seed: typing.SupportsInt | typing.SupportsIndex = 1, thinning: typing.SupportsInt | typing.SupportsIndex = 1, progress: typing.Any = None) -> dict:
    """
    Compares the emulator with the oracles for one format, rounding and overflow rule.

    Returns a dict: cases, mismatches, first (a dict of the first mismatch, or None).
    progress(done, total) is called every now and then; an exception from it stops the work.
    """
