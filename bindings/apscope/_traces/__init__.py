"""Recorded traces, read."""
