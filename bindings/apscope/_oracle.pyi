"""
The MPFR oracle: the correct results of casts, and the comparison of the emulator with them.
"""
from __future__ import annotations
import typing
__all__: list[str] = ['mpfr_version', 'overflow_rules', 'project', 'set_simd_level', 'simd_level', 'verify', 'verify_operation']
def mpfr_version() -> str:
    """
    The version of MPFR in use.
    """
def overflow_rules(format: str) -> list[str]:
    """
    The names of the overflow rules the format can follow.
    """
def project(x: typing.SupportsFloat | typing.SupportsIndex, format: str, *, rounding: str = 'ties_to_even', overflow: str = 'ieee', underflow: str = 'gradual', keep_payload: bool = False, random_bits: typing.SupportsInt | typing.SupportsIndex = 32, random: typing.SupportsInt | typing.SupportsIndex = 0) -> float:
    """
    One number projected by MPFR; random: random_bits bits, left-aligned in 64.
    """
def set_simd_level(level: str) -> None:
    """
    This module has its own copy of the emulator, with its own instruction set.
    """
def simd_level() -> str:
    """
    The instruction set of the verified code.
    """
def verify(format: str, *, rounding: str = 'ties_to_even', overflow: str = 'ieee', underflow: str = 'gradual', keep_payload: bool = False, random_bits: typing.SupportsInt | typing.SupportsIndex = 32, exhaustive: bool = False, exhaustive_oracle: bool = False, threads: typing.SupportsInt | typing.SupportsIndex = 2, random_cases: typing.SupportsInt | typing.SupportsIndex = 1000000, seed: typing.SupportsInt | typing.SupportsIndex = 1, thinning: typing.SupportsInt | typing.SupportsIndex = 1, progress: typing.Any = None) -> dict:
    """
    Compares the emulator with the oracles for one format and projection.

    Returns a dict: cases, mismatches, first (a dict of the first mismatch, or None).
    progress(done, total) is called from time to time; an exception from it stops the work.
    """
def verify_operation(format: str, operation: str, *, rounding: str = 'ties_to_even', overflow: str = 'ieee', underflow: str = 'gradual', random_bits: typing.SupportsInt | typing.SupportsIndex = 32, exhaustive: bool = False, threads: typing.SupportsInt | typing.SupportsIndex = 2, samples: typing.SupportsInt | typing.SupportsIndex = 100000, seed: typing.SupportsInt | typing.SupportsIndex = 1, progress: typing.Any = None) -> dict:
    """
    Compares an arithmetic operation in a format with MPFR. The rest as in verify().
    """
