"""Executable specifications: short, slow and exact, written independently of the C++ code."""
