"""Three gloo processes that train under an exchange; one ends, or fails, in the middle: run by
test_dead_ranks.py.

Usage: dead_rank_job.py FOLDER ddp|fsdp|cpd killed|exits|raises. Rank 2 stops at step 2; the others
write their errors to FOLDER/rank-N.
"""

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from apscope.train import ExchangeState, exchange_fsdp, exchange_hook
from apscope.train.cpd import sum_gradients

RANKS, STOPS = 3, 2


def prepared(kind):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    state = ExchangeState(None, "aps:e4m3")
    if kind == "ddp":
        model = DistributedDataParallel(model)
        model.register_comm_hook(state, exchange_hook)
    elif kind == "fsdp":
        from torch.distributed.fsdp import fully_shard

        fully_shard(model)
        exchange_fsdp(model, state)
    return model


def stop(how):
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exits":
        os._exit(0)
    raise ValueError("a mistake of rank 2 alone")


def rank(number, folder, kind, how):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=number, world_size=RANKS
    )
    model = prepared(kind)
    try:
        for step in range(4):
            if number == 2 and step == STOPS:
                stop(how)
            model(torch.ones(2, 3)).sum().backward()
            if kind == "cpd":
                sum_gradients(model)
            model.zero_grad()
    except Exception as error:  # noqa: BLE001  # whatever it is
        Path(folder, f"rank-{number}").write_text(f"{type(error).__name__}\n{error}")
    os._exit(0)  # without the end of the process group, which would wait for the others


if __name__ == "__main__":
    # Forked processes need not import torch again.
    mp.start_processes(
        rank, args=tuple(sys.argv[1:]), nprocs=RANKS, join=False, start_method="fork"
    )
    for process in mp.active_children():
        process.join(60)
