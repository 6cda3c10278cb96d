"""Recording under PyTorch's DistributedDataParallel: local gradients, before the all-reduce."""

# DDP reads the annotations of the hook: they must be types, not strings.
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from .._traces.manifest import merged_files
from .._traces.writer import TraceWriter
from .torch_layers import to_numpy


def _gradients(bucket: dist.GradBucket) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Every parameter of a bucket and its gradient.

    ``GradBucket.gradients`` has only the first half of a complex gradient, in the parameter's shape
    (torch 2.13), so these are taken from the buffer, where they are pairs of real numbers.
    """
    buffer, end = bucket.buffer(), 0
    for p, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
        begin, end = end, end + p.numel() * (2 if p.is_complex() else 1)
        if p.is_complex() and not buffer.is_complex():
            flat = torch.view_as_complex(buffer[begin:end].view(-1, 2))
            strides = torch.empty_like(p, device="meta").stride()
            yield p, flat.as_strided(p.shape, strides, flat.storage_offset())
        else:
            yield p, gradient


class DDPRecorder:
    """Records gradients as they reach DDP's communication hook; DDP still averages them.

    Every process makes one, with a writer of ``workers=world size`` on a shared folder, and calls
    ``begin_step(n)`` before and ``end_step(...)`` after the single backward pass of a recorded
    step.
    """

    def __init__(
        self, model: torch.nn.parallel.DistributedDataParallel, writer: TraceWriter
    ) -> None:
        self.writer, self.rank = writer, dist.get_rank()
        self.step: int | None = None
        # DDP rebuilds its buckets after the first pass: find tensors by parameter, never by
        # position.
        self.names = {id(p): name for name, p in model.module.named_parameters()}
        model.register_comm_hook(None, self._hook)

    def _hook(self, _: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        if self.step is not None:
            for p, gradient in _gradients(bucket):
                self.writer.add(self.step, self.rank, self.names[id(p)], to_numpy(gradient))
        return allreduce_hook(None, bucket)

    def begin_step(self, step: int) -> None:
        """Gradients from here on belong to this step."""
        self.step = step

    def end_step(self, **loss_and_learning_rate: float | None) -> None:
        """Writes this process's file; process 0 commits, passing the keywords to ``commit``."""
        if self.step is None:
            raise ValueError(
                "end_step without begin_step: call begin_step(n) before the backward pass of the "
                "step to record"
            )
        step, self.step = self.step, None
        parts: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(parts, self.writer.write_files(step))
        if self.rank == 0:
            self.writer.commit(step, merged_files(step, parts), **loss_and_learning_rate)
