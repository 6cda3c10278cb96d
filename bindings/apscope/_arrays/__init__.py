"""Arrays in and out, and what is done to their numbers: casts, blocks, arithmetic."""
