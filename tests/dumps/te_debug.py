"""python te_debug.py FOLDER: two gloo processes log statistics of the gradients of a network's
weights, and dump these gradients, as TransformerEngine's LogTensorStats and DumpTensors do: the
statistics through Nvidia-DL-Framework-Inspect (pip install nvdlfw-inspect), the tensors under the
names and keys of DumpTensors. TransformerEngine itself wants a GPU."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from nvdlfw_inspect import logging

STATISTICS = {
    "min": torch.min,
    "max": torch.max,
    "mean": torch.mean,
    "std": torch.std,
    "l1_norm": lambda x: torch.norm(x, p=1),
    "l2_norm": lambda x: torch.norm(x, p=2),
    "cur_amax": lambda x: x.abs().max(),
    "dynamic_range": lambda x: torch.log2(x.abs().max()) - torch.log2(x.abs()[x != 0].min()),
}


def work(rank, folder):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2
    )
    logging.initialize_logger(str(folder))
    logging.MetricLogger.enabled_loggers.append(logging.make_default_statistics_logger())
    torch.manual_seed(5)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    torch.manual_seed(rank)
    dumps = folder / "tensor_dumps" / f"rank_{rank}"
    dumps.mkdir(parents=True)
    for iteration in (0, 5):
        x, y = 30 * torch.randn(16, 4), torch.randint(3, (16,))
        net.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        for number in ("0", "2"):
            layer, wgrad = f"model.{number}", net[int(number)].weight.grad.clone()
            for name, statistic in STATISTICS.items():
                logging.MetricLogger.log_scalar(
                    f"{layer}_wgrad_{name}", float(statistic(wgrad)), iteration
                )
            logging.MetricLogger.log_scalar(f"{layer}_gradient_mxfp8_underflows%", 0.0, iteration)
            torch.save(
                {"high_precision": wgrad},
                dumps / f"{layer.replace('.', '_')}_wgrad_iter_{iteration:06d}.pt",
            )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    target = Path(sys.argv[1]).absolute()
    target.mkdir(parents=True, exist_ok=True)
    torch.multiprocessing.start_processes(work, (target,), nprocs=2, start_method="fork")
    (target / "rendezvous").unlink(missing_ok=True)
