"""Proofs and speed on this machine."""
