"""Common parts of the jobs of several processes and their tests."""

import subprocess
import sys
from pathlib import Path

import torch


def optimizer_of(name, parameters):
    if name == "adam":
        return torch.optim.Adam(parameters, lr=0.01)
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def run_job(module, *words):
    """Runs ``python -m MODULE WORDS``, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", module.__name__, *map(str, words)],
        capture_output=True, text=True, timeout=600, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
