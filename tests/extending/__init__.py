"""Worked examples of adding to apscope, executed: docs/extending.md shows them."""
