"""Functions on arrays: casts, blocks, arithmetic."""
