"""Which scheme each layer should have: the table of layers and candidates, the exact choice from it, and what is known of it (docs/advice.md)."""
