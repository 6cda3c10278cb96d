"""Recorded traces, read and written."""
