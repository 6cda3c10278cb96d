"""Common parts of the jobs of several processes and their tests, and a command that is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from apscope.cli import main

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
    "mx",
    "mx:bucket=4KB",
    "error_feedback(delayed_scaling:e5m2)",
    "aps:e3m4,rounding=stochastic",
    "aps:e5m2,rounding=stochastic",
]


def topology_of(spec):
    """Two phases or levels for some, a ring for the others."""
    return {
        "mx": "two_phase",
        "mx:bucket=4KB": "two_phase",
        "error_feedback(delayed_scaling:e5m2)": "two_phase,own=exact,phase2=(aps:e4m3)",
        "aps:e3m4,rounding=stochastic": "reduce_scatter",
        "aps:e5m2,rounding=stochastic": "hierarchical:1(two_phase@e3m4,ring)",
    }.get(spec, "ring")


def optimizer_of(name, parameters):
    if name == "adam":
        return torch.optim.Adam(parameters, lr=0.01)
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def _rank(number, function, ranks, folder, arguments):
    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting{ranks}"
    dist.init_process_group("gloo", init_method=meeting, rank=number, world_size=ranks)
    function(number, folder, *arguments)
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads can abort a process while Python ends (pytorch issue 190489)


def run_ranks(function, ranks, folder, *arguments):
    """Calls ``function(rank, folder, *arguments)`` in so many gloo processes, which meet in `folder`.

    They are forked and need not import torch again: of a process that has not computed with it.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    mp.start_processes(_rank, (function, ranks, folder, arguments), ranks, start_method="fork")


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


def trained(place, text, out="out"):
    """The folder that ``apscope train`` makes of an experiment's text."""
    (place / "e.toml").write_text(text)
    assert main(["train", str(place / "e.toml"), "-o", str(place / out)]) == 0
    return place / out


def run_job(module, *words):
    """Runs ``python -m MODULE WORDS``, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", module.__name__, *map(str, words)],
        capture_output=True, text=True, timeout=600, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
