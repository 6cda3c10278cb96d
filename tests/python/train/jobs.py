"""Common parts of the jobs of several processes and their tests, and a command that is killed."""

import signal
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


#: The command line behind a folder of runs, which kills itself when it calls a function while so
#: many files are there: at the same place on a slow machine as on a fast one.
KILLED = """
import os, signal, sys
from pathlib import Path
from apscope.cli import main
from apscope.train import {module} as module
real = module.{function}
def until(*arguments):
    if len(list(Path(sys.argv[1]).glob({files!r}))) == {count}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)
module.{function} = until
sys.exit(main(sys.argv[2:]))
"""


def run_killed(folder, words, **what):
    """Runs the command line `words` until it kills itself as `KILLED` says."""
    program = [sys.executable, "-c", KILLED.format(**what), str(folder), *words]
    assert subprocess.run(program, stdout=subprocess.DEVNULL).returncode == -signal.SIGKILL


def run_job(module, *words):
    """Runs ``python -m MODULE WORDS``, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", module.__name__, *map(str, words)],
        capture_output=True, text=True, timeout=600, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
