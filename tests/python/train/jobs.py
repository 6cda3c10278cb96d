"""Common parts of the jobs of several processes and their tests."""

import subprocess
import sys
from pathlib import Path

import torch

SPECS = [
    "aps:e4m3",
    "aps:e3m4,unit=model,rounding=stochastic",  # one scale for all groups of FSDP
    "aps:e5m2,unit=bucket:4KB",
    "error_feedback(aps:e3m0)",
    "delayed_scaling:e4m3fn",
    "dynamic_loss_scaling:fp16,init=1048576",  # drops steps at first
    "qsgd",
    "none:fp16,divide=fsdp",
    "hybrid(last=none:fp16;else=error_feedback(sign))",
]


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
