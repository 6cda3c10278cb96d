"""What the recording scripts share: a seeded training loop that records chosen steps.

Every worker's mini-batch is its own; gradients are recorded before they are averaged. At the rich
steps the weights, the full-batch gradient, every layer's input and every activation gradient are
recorded as well.
"""

import math

import numpy as np

try:
    import torch
    from sklearn.datasets import load_digits
    from torch import nn

    from apscope.record.torch_layers import to_numpy
    from apscope.record.torch_workers import backward_workers
except ImportError as error:
    raise SystemExit(
        f"{error}; the recording scripts need: pip install 'apscope[record]'"
    ) from None

__all__ = ["about", "deterministic", "digits", "nn", "torch", "train"]


def digits():
    """scikit-learn's copy of the UCI handwritten digits: images (1797, 1, 8, 8) from 0 to 1, and
    their labels."""
    data = load_digits()
    return torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(
        data.target
    )


def deterministic(seed):
    """One thread, deterministic algorithms, every generator seeded."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(seed)
    return np.random.default_rng(seed)


def about(script, seed, **more):
    """The manifest's metadata: how to record the trace again."""
    versions = {"torch": torch.__version__.split("+")[0], "numpy": np.__version__}
    return {"script": f"notebooks/record/{script}", "seed": str(seed), **versions, **more}


def record_whole_state(model, writer, step, batches, loss_function):
    """The weights, and the gradient of the mean loss over all training data (summed in fp64)."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    total = [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
    count = sum(len(batch[0]) for batch in batches)
    for batch in batches:
        gradients = torch.autograd.grad(loss_function(model, batch), parameters)
        for sum_so_far, gradient in zip(total, gradients, strict=True):
            sum_so_far += gradient.double() * (len(batch[0]) / count)
    for name, parameter, gradient in zip(names, parameters, total, strict=True):
        writer.add(step, 0, name, to_numpy(parameter), kind="weights")
        writer.add(step, 0, name, to_numpy(gradient.float()), kind="full_batch")


def train(
    model, optimizer, schedule, loss_function, batches_at, writer, steps, rich_steps, all_data,
    joins=False,
):  # fmt: skip
    """Trains up to the last of `steps`, recording `steps`; `batches_at(step)` gives one batch a
    worker. `joins`: at the other steps all workers' batches are one batch, which is faster."""
    for step in range(max(steps) + 1):
        recorded = step in steps
        batches = batches_at(step)
        if joins and not recorded:
            batches = [tuple(torch.cat(parts) for parts in zip(*batches, strict=True))]
        if step in rich_steps:
            record_whole_state(model, writer, step, all_data, loss_function)
        rate = optimizer.param_groups[0]["lr"]
        loss = backward_workers(
            model,
            batches,
            loss_function,
            writer if recorded else None,
            step,
            activations=step in rich_steps,
        )
        if not math.isfinite(loss):
            raise SystemExit(f"step {step}: the loss is {loss}; the training diverged")
        if recorded:
            writer.end_step(step, loss=loss, learning_rate=rate)
            print(f"step {step:5d}  loss {loss:.4f}  learning rate {rate:g}")
        optimizer.step()
        schedule.step()
