"""Proofs of the emulator on this machine, and the speed of its kernels."""

from ._proof.bench import Bench, bench
from ._proof.verify import OPERATIONS, ROUNDINGS, Verification, has_oracle, verify

__all__ = ["OPERATIONS", "ROUNDINGS", "Bench", "Verification", "bench", "has_oracle", "verify"]
