"""This machine: proofs of the emulator on it, and how fast its kernels are beside its memory."""

from ._proof.bench import Bench, bench
from ._proof.verify import OPERATIONS, ROUNDINGS, Verification, has_oracle, verify

__all__ = ["OPERATIONS", "ROUNDINGS", "Bench", "Verification", "bench", "has_oracle", "verify"]
