"""Several workers of data-parallel training in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.func import functional_call, grad_and_value, vmap

from .._arrays.checks import integer
from .._schemes.scheme import Scheme
from .._traces.roles import Roles, plain_name
from ..torch._devices import to_cpu, to_supported
from ..torch._states import (
    check_model,
    check_optimizer,
    check_state,
    check_trains,
    load_optimizer,
)
from ._exchanger import Exchanger
from ._quantized.registry import is_quantized

if TYPE_CHECKING:
    from .._advice.plan import Plan


class Workers:
    """Trains a model with W workers in one process; a scheme exchanges their gradients.

    Each worker computes the gradient of its part of a batch; the exchange takes the place of the
    all-reduce; the optimizer steps with the result. The bits are those of `exchange_hook` in W
    processes, if PyTorch's kernels compute the same gradients there.

    Parameters
    ----------
    model : torch.nn.Module
        Trained in place. Its parameters may be of any floating dtype and device; gradients are
        exchanged as fp32 numbers: on the CUDA GPU where all of them are, if the scheme only scales,
        rounds without random words and adds (``none``, ``aps``, ``loss_scaling``,
        ``current_scaling``, ``delayed_scaling``; their hybrids), in ``two_phase`` and
        ``reduce_scatter`` if its scales follow from one row alone, also with random words, with the
        bits of the CPU; otherwise on the CPU, to which they are copied, which a warning says once.
    loss : f(output, targets) -> scalar tensor
        The mean loss over one worker's part.
    optimizer : torch.optim.Optimizer
        Of the model's parameters.
    workers : int
    exchange : Scheme, Plan or str
        Any scheme, hybrid or plan, except one that chooses in hindsight over all steps
        (``scale=largest``, ``scale=best``) or needs the full batch's gradient.
        ``hybrid(steps:0:100=...;else=...)`` is a schedule over steps.
    topology : str
        For schemes that add in a format; the others have their own reduction.
    seed : int, 0 to 2**64 - 1
        Seed of the exchange's random draws.
    batched : bool, optional
        Whether the workers' gradients are computed together, by ``torch.func.vmap``; by default if
        the model allows it: not if it has buffers (such as BatchNorm's statistics) or is quantized.
        The two differ by the rounding errors of PyTorch's kernels.
    node : function with an attribute ``batches``, optional
        Makes each worker's gradient from those of the parts of its batch, as rows of ``(batches,
        n)``: a two-level exchange, such as `apscope.train.cpd.EmulatedNode`.
    divide : bool or "fsdp"
        False: the optimizer receives the sum over the workers, for losses that were already
        divided. "fsdp": as FSDP2 divides an fp16 reduction, in fp16, before it and after it.
    roles : mapping or function, optional
        The parameters' roles, for hybrids; missing ones are guessed from names and shapes.
    threads : int
        Of the exchange; 0: as many as the machine has.

    Attributes
    ----------
    gradients : dict of str to float32 tensor, shape (workers, n)
        The workers' gradients after `backward`, by parameter, whose name lacks the parts that
        ``torch.compile`` and checkpointing insert; with a `node`, those of all parts.
        On a GPU if the model is there and has no `node`.
    skipped : bool
        Whether the scheme dropped the last step (dynamic loss scaling): the optimizer did not step.

    Raises
    ------
    TypeError
        A model, loss or optimizer of another kind.
    ValueError
        An unknown scheme or topology, no worker, a model without parameters that need a gradient, a
        scheme that a training loop cannot run, an optimizer without a parameter of the model.
    RuntimeError
        In a step, PyTorch's own: `batched`, and the model has an operation that ``vmap`` cannot run
        (checkpointing); a note names ``batched=False``.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Callable[[Any, Any], torch.Tensor],
        optimizer: torch.optim.Optimizer,
        *,
        workers: int = 8,
        exchange: Scheme | Plan | str = "aps:e4m3",
        topology: str = "ring",
        seed: int = 0,
        batched: bool | None = None,
        node: Any = None,
        divide: bool | str = True,
        roles: Roles = None,
        threads: int = 0,
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"model is {type(model).__name__}; it must be a torch.nn.Module")
        if not callable(loss):
            raise TypeError(f"loss={loss!r} must be a function of output and targets")
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self._parameters = {
            plain_name(name): p for name, p in model.named_parameters() if p.requires_grad
        }
        if not self._parameters:
            raise ValueError("the model has no parameters that need a gradient")
        check_trains(optimizer, model)
        self.exchanger = Exchanger(
            exchange,
            {name: tuple(p.shape) for name, p in self._parameters.items()},
            workers=integer("workers", workers, 1, 2**20),
            topology=topology,
            seed=seed,
            divide=divide,
            roles=roles,
            threads=threads,
        )
        self.workers = self.exchanger.workers
        self.node = node
        self._count = self.workers * (node.batches if node else 1)  # parts of a batch
        can_batch = not any(True for _ in model.buffers()) and not any(
            map(is_quantized, model.modules())
        )
        self.batched = can_batch if batched is None else batched
        self.gradients: dict[str, torch.Tensor] = {}
        self.skipped = False
        self._loss: torch.Tensor | None = None

    def step(self, inputs: Any, targets: Any) -> torch.Tensor:
        """One step of training: `backward`, `exchange` and `update`.

        Parameters
        ----------
        inputs, targets : tensors
            Of the whole batch: its first axis is divided among the workers in order.

        Returns
        -------
        tensor
            The mean of the workers' losses.

        Raises
        ------
        ValueError
            A batch that the workers cannot divide into equal parts.
        """
        loss = self.backward(inputs, targets)
        self.exchange()
        self.update()
        return loss

    def backward(self, inputs: Any, targets: Any, *, accumulate: bool = False) -> torch.Tensor:
        """Computes every worker's gradient; adds it to the previous one if `accumulate`."""
        parts = [self._parts("inputs", inputs), self._parts("targets", targets)]
        earlier = self.gradients if accumulate else {}
        with torch.enable_grad():
            losses = self._together(*parts) if self.batched else self._one_by_one(*parts)
        for name, rows in earlier.items():
            self.gradients[name] = rows + self.gradients[name]
        mean = losses.mean()
        self._loss = mean
        return mean

    def exchange(self) -> None:
        """Exchanges `gradients`, and writes the result into the parameters' ``grad``.

        Raises
        ------
        ValueError
            `backward` was not called; a parameter's gradients are missing, or not float32 of shape
            (workers, n).
        """
        rows = [self._gradients_of(name, p) for name, p in self._parameters.items()]
        weights = (
            [p.detach().float().contiguous() for p in self._parameters.values()]
            if "weights" in self.exchanger.needs
            else []
        )
        if self.node:
            rows = [
                torch.stack([self.node(part) for part in r.reshape(self.workers, -1, r.shape[1])])
                for r in rows
            ]
        shared = [torch.empty(r.shape[1], device=r.device) for r in rows]
        dropped = self.exchanger.run(
            [self.exchanger.sent(r) for r in rows],
            shared,
            loss=self._loss,
            learning_rate=self.optimizer.param_groups[0]["lr"],
            weights=weights,
        )
        self.skipped = all(dropped)
        for p, gradient in zip(self._parameters.values(), shared, strict=True):
            p.grad = gradient.reshape(p.shape).to(device=p.device, dtype=p.dtype)

    def update(self) -> None:
        """Steps the optimizer, unless the scheme dropped the step; removes the gradients.

        Raises
        ------
        ValueError
            No parameter has a gradient.
        """
        if all(p.grad is None for p in self._parameters.values()):
            raise ValueError(
                "no parameter has a gradient, so the optimizer cannot step; call exchange() first"
            )
        if not self.skipped:
            self.optimizer.step()
        for p in self._parameters.values():
            p.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on: model, optimizer and the exchange's memory.

        ``torch.save`` writes it; ``torch.load(weights_only=True)`` reads it.
        """
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "exchange": self.exchanger.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from another run's state, with the same bits.

        Raises
        ------
        ValueError
            The state of another scheme, topology, seed, division, number of workers, model or
            optimizer, or an incomplete one. Nothing is changed then.
        """
        check_state(state, ("model", "optimizer", "exchange"))
        check_model(state["model"], self.model)
        check_optimizer(state["optimizer"], self.optimizer)
        self.exchanger.load_state_dict(state["exchange"])
        self.model.load_state_dict(state["model"])
        load_optimizer(self.optimizer, state["optimizer"])

    def _gradients_of(self, name: str, p: torch.Tensor) -> torch.Tensor:
        rows, shape = self.gradients.get(name), (self._count, p.numel())
        if rows is None:
            raise ValueError(
                f"gradients has no {name!r}; call backward(inputs, targets) before exchange(), and "
                "leave every parameter's gradients there"
            )
        if rows.dtype != torch.float32 or tuple(rows.shape) != shape:
            raise ValueError(
                f"gradients[{name!r}] is of {rows.dtype} and shape {tuple(rows.shape)}; it must be "
                f"of torch.float32 and shape {shape}"
            )
        return rows

    def _parts(self, what: str, batch: torch.Tensor) -> torch.Tensor:
        if batch.dim() == 0 or batch.shape[0] == 0 or batch.shape[0] % self._count != 0:
            raise ValueError(
                f"{what} of shape {tuple(batch.shape)} cannot be divided among {self._count} "
                f"{'parts' if self.node else 'workers'}; the first axis must be a multiple of them"
            )
        return batch.reshape(self._count, batch.shape[0] // self._count, *batch.shape[1:])

    def _together(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """One batched backward for all workers."""
        fixed = {name: p.detach() for name, p in self.model.named_parameters()}
        trained = {
            name: fixed.pop(name) for name in list(fixed) if plain_name(name) in self._parameters
        }
        fixed |= dict(self.model.named_buffers())

        def of_one(
            parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor
        ) -> torch.Tensor:
            return self.loss(functional_call(self.model, {**fixed, **parameters}, (x,)), y)

        together = vmap(grad_and_value(of_one), in_dims=(None, 0, 0), randomness="different")
        try:
            gradients, losses = together(trained, inputs, targets)
        except RuntimeError as error:
            error.add_note(
                "Workers computes all workers' gradients at once, by torch.func.vmap; give "
                "batched=False for a model that it cannot run"
            )
            raise
        self.gradients = {plain_name(name): self._rows(g) for name, g in gradients.items()}
        return losses.detach()

    def _one_by_one(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Worker after worker; the buffers are then those of worker 0, as under DDP."""
        rows: dict[str, list[torch.Tensor]] = {name: [] for name in self._parameters}
        losses = []
        with self._buffers_of_worker_0() as begin:
            for x, y in zip(inputs, targets, strict=True):
                begin()
                loss = self.loss(self.model(x), y)
                gradients = torch.autograd.grad(
                    loss, list(self._parameters.values()), allow_unused=True
                )
                for (name, p), g in zip(self._parameters.items(), gradients, strict=True):
                    rows[name].append(torch.zeros_like(p) if g is None else g.detach())
                losses.append(loss.detach())
        self.gradients = {
            name: self._rows(torch.stack(gradients)) for name, gradients in rows.items()
        }
        return torch.stack(losses)

    @contextmanager
    def _buffers_of_worker_0(self) -> Iterator[Callable[[], None]]:
        """Gives a function that every worker calls first: all begin with the same buffers."""
        buffers = list(self.model.buffers())
        before = [b.clone() for b in buffers]
        after: list[list[torch.Tensor]] = []
        worker = 0

        def begin() -> None:
            nonlocal worker
            if worker == 1:
                after.append([b.clone() for b in buffers])
            with torch.no_grad():
                for b, value in zip(buffers, before, strict=True):
                    b.copy_(value)
            worker += 1

        yield begin
        with torch.no_grad():
            for b, value in zip(buffers, after[0] if after else [], strict=False):
                b.copy_(value)

    def _rows(self, stacked: torch.Tensor) -> torch.Tensor:
        rows = stacked.detach().reshape(self._count, -1).float().contiguous()
        if self.node:
            return to_cpu(rows, "CPD's emulated node")
        return to_supported(rows, "the exchange of gradients")
