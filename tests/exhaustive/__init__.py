"""The proofs that take longer than a test run may: `make exhaustive`."""
