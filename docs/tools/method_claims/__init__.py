"""Claims of training methods, tested by training: one module per method of docs/methods.md."""
