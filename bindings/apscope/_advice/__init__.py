"""A scheme for every layer: the table of layers and candidates, and the choice (docs/advice.md)."""
