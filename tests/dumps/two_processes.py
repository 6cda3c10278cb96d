"""python two_processes.py FOLDER: two gloo processes train a small network under
DistributedDataParallel, and each saves the gradients of its own batch with
torch.distributed.checkpoint. Plain torch."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed import checkpoint


def work(rank, folder):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2
    )
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    model = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for step in range(2):
        x, y = torch.randn(8, 3), torch.randint(2, (8,))
        with model.no_sync():
            torch.nn.functional.cross_entropy(model(x), y).backward()
        own = {name: p.grad.clone() for name, p in model.named_parameters()}
        checkpoint.save({f"rank_{rank}": own}, checkpoint_id=folder / "dcp" / f"step_{step}")
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= 2
        if rank == 0:  # what most people save: equal names on both ranks, after the all-reduce
            torch.save(
                {name: p.grad for name, p in model.named_parameters()},
                folder / f"reduced_step_{step}.pt",
            )
        torch.save(own, folder / f"own_step_{step}_rank_{rank}.pt")
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    # else the group goes with it, by a thread that holds Python's lock while gloo's asks for it
    # (pytorch issue 56297)
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    target = Path(sys.argv[1]).absolute()
    target.mkdir(parents=True, exist_ok=True)
    torch.multiprocessing.start_processes(work, (target,), nprocs=2, start_method="fork")
    (target / "rendezvous").unlink(missing_ok=True)
