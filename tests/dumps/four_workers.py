"""python four_workers.py FOLDER: one process trains a small network as four workers would, and
dumps every worker's gradients in the ways that people do. Plain torch, NumPy, safetensors, h5py and
zarr."""

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import torch
import zarr
from safetensors.torch import save_file


class Net(torch.nn.Module):
    """Layers whose order is neither that of the alphabet nor that of the numbers in their names."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Linear(3, 4, bias=False)
        self.blocks = torch.nn.ModuleDict(
            {name: torch.nn.Linear(4, 4, bias=False) for name in ("2", "10")}
        )
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x):
        x = self.stem(x).relu()
        for block in self.blocks.values():
            x = x + block(x).relu()
        return self.head(x)


def train(steps, workers):
    """Yield step number and the workers' gradients, name -> tensor."""
    torch.manual_seed(7)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        gradients = []
        for _ in range(workers):
            model.zero_grad()
            loss = torch.nn.functional.cross_entropy(
                model(torch.randn(8, 3)), torch.randint(3, (8,))
            )
            loss.backward()
            gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
        yield step, gradients
        for name, p in model.named_parameters():
            p.grad = torch.stack([g[name] for g in gradients]).mean(0)
        optimizer.step()


def made(path):
    """The path, its folder made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def main(folder):
    recorded = list(train(2, 4))
    names = list(recorded[0][1][0])
    arrays = {
        step: [{n: t.numpy() for n, t in g.items()} for g in gradients]
        for step, gradients in recorded
    }

    nested = {}
    with h5py.File(made(folder / "hdf5" / "gradients.h5"), "w", track_order=True) as tracked:
        for step, gradients in recorded:
            for rank, gradient in enumerate(gradients):
                torch.save(gradient, made(folder / "pt" / f"grads_rank{rank}_step{step}.pt"))
                ddp = {f"module.{name}": tensor for name, tensor in gradient.items()}
                torch.save(
                    {"grads": ddp, "loss": 1.0, "lr": 0.1},
                    made(folder / "pt_ddp" / f"rank_{rank}" / f"step_{step}.pth"),
                )
                nested.setdefault(f"step_{step}", {})[f"rank_{rank}"] = gradient
                np.savez(
                    made(folder / "npz" / f"step_{step}" / f"worker_{rank}.npz"),
                    **arrays[step][rank],
                )
                save_file(
                    gradient, made(folder / "safetensors" / f"step{step}-rank{rank}.safetensors")
                )
                group = tracked.create_group(f"step_{step}/rank_{rank}", track_order=True)
                for name, array in arrays[step][rank].items():
                    group[name] = array
                if step == 0 and rank == 0:
                    tracked["step_0"].attrs["optimizer"] = "SGD"
            stacked = {name: np.stack([g[name] for g in arrays[step]]) for name in names}
            np.savez(made(folder / "stacked" / f"step_{step}.npz"), **stacked)
    torch.save(nested, made(folder / "pt_nested.pt"))
    everything = {
        name: np.stack([np.stack([g[name] for g in arrays[step]]) for step in arrays])
        for name in names
    }
    np.savez_compressed(folder / "everything.npz", **everything)
    store = zarr.open_group(folder / "gradients.zarr", mode="w")
    for name, array in everything.items():
        store.create_array(name, data=array)
    for name, array in everything.items():
        np.save(made(folder / "npy" / f"{name}.npy"), array)

    for step, gradients in recorded:
        for rank, gradient in enumerate(gradients):
            place = made(folder / "sharded" / f"step_{step}" / f"rank_{rank}" / "x").parent
            shards = [names[:2], names[2:]]
            files = [f"model-{i + 1:05d}-of-00002.safetensors" for i in range(2)]
            for file, part in zip(files, shards, strict=True):
                save_file({name: gradient[name] for name in part}, place / file)
            weight_map = {
                name: file for file, part in zip(files, shards, strict=True) for name in part
            }
            (place / "model.safetensors.index.json").write_text(
                json.dumps({"metadata": {"total_size": 0}, "weight_map": weight_map})
            )
    (folder / "layers.txt").write_text("\n".join(names) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
