"""Experiments of training: their file, their results, their verdicts and their page; no PyTorch."""
