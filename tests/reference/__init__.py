"""Executable specifications: short, slow and exact, written apart from the C++ that they check."""
