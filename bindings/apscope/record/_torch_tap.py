"""Reads a PyTorch model's gradients as they arrive in ``.grad``, and detects its wrapper.

A hook on each parameter runs once autograd has added to ``.grad`` and before anything else reads
it: before DDP's reducer copies it into a bucket (so the user's communication hook stays free),
before GradScaler unscales it and the user clips it. Under ``fully_shard`` it runs when the reduced
shard is available. A hook after every optimizer's step ends the step.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook

from .._text import count_of
from .._traces.roles import plain_name
from .._traces.safetensors import as_real, code_of, storable, torch_array
from . import _grad_scaler
from ._averages import Averages
from ._background import logger
from ._mistakes import Mistake, optimizers
from ._torch_extras import Extras
from ._torch_shards import is_dtensor, refuse_flat, shards_of
from .torch_layers import roles

if TYPE_CHECKING:
    from ._recorder import Recorder


class TorchTap:
    """A recorder's view of the attached model.

    Attributes
    ----------
    process, processes : int
        Of the data-parallel processes.
    stage : str
        ``local``, or ``reduced`` if gradients arrive reduced.
    description, roles, metadata
        For the manifest.
    """

    def __init__(
        self,
        recorder: Recorder,
        model: torch.nn.Module,
        chosen: Callable[[str], bool] | None,
        loss_scale: float | Callable[[], float] | None,
        what: Collection[str] = (),
    ):
        if not isinstance(model, torch.nn.Module):
            raise ValueError(
                f"attach takes a torch.nn.Module, not {type(model).__name__}; other loops call "
                "record_pytree(gradients)"
            )
        self.recorder, self._loss_scale = recorder, loss_scale
        self.process, self.processes, self.stage, runs_in = 0, 1, "local", "one process"
        inner = model
        if dist.is_available() and dist.is_initialized():
            group = (
                getattr(model, "process_group", None)
                if isinstance(model, torch.nn.parallel.DistributedDataParallel)
                else None
            )
            self.process, self.processes = dist.get_rank(group), dist.get_world_size(group)
            runs_in = f"{self.processes} processes"
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            inner, runs_in = model.module, f"DistributedDataParallel, {self.processes} processes"
        elif isinstance(model, torch.nn.DataParallel):
            inner, self.stage, runs_in = (
                model.module,
                "reduced",
                "DataParallel, the sum over the devices",
            )
        refuse_flat(model)
        named = {plain_name(name): p for name, p in inner.named_parameters()}
        picked = {
            name: p
            for name, p in named.items()
            if (p.is_floating_point() or p.is_complex())
            and (p.requires_grad if chosen is None else chosen(name))
        }
        if not picked:
            what = "requires a gradient" if chosen is None else "is selected by tensors="
            raise ValueError(
                f"none of the model's {count_of(len(named), 'parameter')} {what}; the first is "
                f"{next(iter(named), 'missing')!r}"
            )
        self.parameters, self.named = picked, named
        #: Names that a list of tensors may have: also of tied parameters, and of buffers.
        self.known = {
            form
            for names in (model.named_parameters(remove_duplicate=False), model.named_buffers())
            for name, _ in names
            for form in (name, plain_name(name), plain_name(name).removeprefix("module."))
        }
        self.shards = shards_of(picked)
        if self.joined:
            self.stage, runs_in = (
                "reduced",
                f"fully_shard, {self.processes} processes, their shards joined",
            )
        if self.joined and what:
            raise ValueError(
                f"what={sorted(what)} cannot be recorded from shards; record them in one process "
                "or under DistributedDataParallel"
            )
        self._inner, self._extras = inner, Extras(what, picked, lambda: recorder.due)
        self.roles = {plain_name(name): role for name, role in roles(inner).items()}
        self.description = (
            f"{type(inner).__name__}, {sum(p.numel() for p in named.values())} parameters"
        )
        self.metadata = {"recorded_from": f"PyTorch {torch.__version__}, {runs_in}"}
        if split := [name for name, p in picked.items() if p.is_complex()]:
            self.metadata["complex_as_pairs_of_real_numbers"] = ", ".join(split)
        self._names = {id(p): name for name, p in named.items()}
        self._unpicked = {
            name: p for name, p in named.items() if name not in picked and chosen is None
        }
        # Until reported once.
        self._wanted: Callable[[str], bool] | None = chosen or (lambda _: True)
        self._handles: list[Any] = []
        self._buffers: dict[str, torch.Tensor] | None = None
        self._arrived: set[str] = set()  # names whose gradient of this step is in the buffers
        # The initial version of .grad, and backward passes since; None: unknown.
        self._passes: dict[str, tuple[int, int | None]] = {}
        self._averages = (
            Averages(model, lambda: recorder.number)
            if isinstance(model, torch.nn.parallel.DistributedDataParallel) and self.processes > 1
            else None
        )
        self._fired = self._in_backward = self._on_gpu = False
        self._steps = 0  # steps of optimizers with our gradients
        self._ever = False  # whether a gradient has arrived
        self._empty = 0  # steps of an optimizer of ours without a gradient
        # Steps of other models' optimizers before our first.
        self._strangers: Counter[int] = Counter()
        self._scaler: Any = None  # while its step runs
        self._stepped = False

    @property
    def joined(self) -> bool:
        """Whether the processes have shards of the same tensors."""
        return self.shards is not None

    def begin(self) -> None:
        """Registers the hooks."""
        for name, p in self.parameters.items():
            # Frozen ones get the hook too: they may be unfrozen.
            frozen, p.requires_grad = not p.requires_grad, True
            self._handles.append(
                p.register_post_accumulate_grad_hook(self._guarded(self._take, name))
            )
            if frozen:
                p.requires_grad = False
        self._handles += self._extras.hooks(self._inner, self._guarded, plain_name)
        if self._averages is not None:
            self._handles += self._averages.hooks(self.parameters, self._guarded)
        after_step = self._guarded(self._after_step)
        self._handles.append(
            register_optimizer_step_post_hook(lambda optimizer, *_: after_step(optimizer))
        )
        _grad_scaler.watch(self)

    def remove(self, whole: bool) -> None:
        """Removes the hooks; `whole` unless an exception ends the training."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        _grad_scaler.unwatch(self)
        if whole and self._ever and not self._steps and self.recorder.stopped is None:
            logger.warning(
                "apscope: no step was recorded: gradients arrived, but no torch.optim.Optimizer "
                "stepped with them; end each step with step()"
            )

    def _guarded(self, what: Callable[..., None], *first: Any) -> Callable[..., None]:
        """Runs `what`, timed; errors end only the recording, but early mistakes are raised."""

        def call(*arguments: Any) -> None:
            start = time.perf_counter()
            try:
                what(*first, *arguments)
            except Mistake as mistake:
                self.recorder._refuse(mistake)
            except Exception as error:  # noqa: BLE001  # never into the training
                self.recorder._stop(" ".join(str(error).split()) or type(error).__name__)
            self.recorder._spent += time.perf_counter() - start

        return call

    def _take(self, name: str, p: torch.Tensor) -> None:
        """A gradient, or a further part of it, has arrived: copies its current value."""
        self._fired = self._ever = True
        if not self.recorder.due or (not self._arrived and not self._open()):
            return
        if p.grad is None:
            raise Mistake(
                f"another hook removes the gradient of {name!r}; attach the recorder before that "
                "hook is registered"
            )
        # Each pass that adds to .grad increments its version by one; removing it in between changes
        # the count.
        begun, passes = self._passes.get(name, (p.grad._version, 0))
        self._passes[name] = (
            begun,
            None if passes is None or p.grad._version != begun + passes else passes + 1,
        )
        grad = p.grad.to_local() if is_dtensor(p.grad) else p.grad
        if grad.layout is not torch.strided:
            grad = grad.to_dense()
        grad = as_real(grad)
        assert self._buffers is not None
        buffer = self._buffers.get(name)
        if buffer is None or buffer.shape != grad.shape or buffer.dtype != grad.dtype:
            buffer = self._buffers[name] = torch.empty(
                grad.shape, dtype=grad.dtype, pin_memory=grad.is_cuda
            )
            self._on_gpu |= grad.is_cuda
        buffer.copy_(grad.detach(), non_blocking=grad.is_cuda)
        self._arrived.add(name)
        if self._averages is not None:
            self._averages.arrived(name)

    def _open(self) -> bool:
        background = self.recorder._background
        if self._buffers is None:  # else they belong to a dropped step
            self._buffers = background.buffers() if background is not None else None
        if self._buffers is not None:
            self._extras.begin()
        return self._buffers is not None

    def _ours(self, optimizer: torch.optim.Optimizer) -> bool:
        return any(
            id(p) in self._names for group in optimizer.param_groups for p in group["params"]
        )

    def _after_step(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._ours(optimizer):
            self._meet(optimizer)
            return
        if not self._fired:
            self._empty += 1
            # A first step without gradients initialises an optimizer's state.
            if not self._ever and self._empty > 1:
                raise Mistake(
                    "the optimizer steps with gradients that were not computed by backward(); pass "
                    "them to record_pytree(gradients)"
                )
            return
        # An optimizer that steps within backward(), parameter by parameter.
        if torch._C._current_graph_task_id() != -1:
            if not self._in_backward:
                self._in_backward = True
                torch.autograd.Variable._execution_engine.queue_callback(
                    lambda: self._guarded(self._after_backward)(optimizer)
                )
            return
        self._stepped = True
        infinite = getattr(optimizer, "found_inf", None)  # a fused optimizer skips internally
        if self._scaler is not None and infinite is not None and float(infinite):
            self.skip_step()
        else:
            self.end_step(optimizer)

    def _meet(self, optimizer: torch.optim.Optimizer) -> None:
        """Another model's optimizer steps for the second time before ours: ours may not exist."""
        if self._steps or self._empty:
            return
        self._strangers[id(optimizer)] += 1
        if self._strangers[id(optimizer)] == 2 and not any(self._ours(one) for one in optimizers()):
            count = sum(len(group["params"]) for group in optimizer.param_groups)
            raise Mistake(
                "no optimizer has a parameter of the attached model, and "
                f"{type(optimizer).__name__} steps with {count} others; attach the model whose "
                "parameters the optimizer has, after it is wrapped and moved"
            )

    def _after_backward(self, optimizer: torch.optim.Optimizer) -> None:
        self._in_backward = False
        self.end_step(optimizer)

    def enter_scaler(self, scaler: Any) -> None:
        """GradScaler's step begins."""
        self._scaler, self._stepped = (scaler if scaler.is_enabled() else None), False

    def leave_scaler(self, optimizer: torch.optim.Optimizer) -> None:
        """GradScaler's step ends; if the optimizer did not step, the step is omitted."""
        if self._scaler is not None and not self._stepped and self._fired and self._ours(optimizer):
            self.skip_step()
        self._scaler = None

    def skip_step(self) -> None:
        """The training drops this step."""
        self._forget()
        self.recorder._skip()

    def _forget(self) -> None:
        self._fired, self._arrived, self._passes = False, set(), {}
        self._extras.drop()
        if self._averages is not None:
            self._averages.forget()

    def end_step(self, optimizer: torch.optim.Optimizer | None) -> None:
        """All gradients of a step have arrived: passes them on if it is recorded."""
        if self.recorder.due and self._arrived:
            self._hand_over(optimizer)
        self._forget()
        self._steps += 1
        self.recorder._advance()

    def step(self) -> None:
        """The caller ends a step that no optimizer has ended."""
        if self._fired:
            self._guarded(self.end_step)(None)

    def _hand_over(self, optimizer: torch.optim.Optimizer | None) -> None:
        recorder, buffers = self.recorder, self._buffers
        assert buffers is not None
        if self._on_gpu:
            torch.cuda.synchronize()  # the copies are asynchronous
        divisor = self._divisor()
        arrays: dict[str, np.ndarray] = {}
        for name, p in self.parameters.items():
            if name not in self._arrived:
                buffers[name] = torch.zeros_like(
                    as_real((p.to_local() if is_dtensor(p) else p).detach()), device="cpu"
                )
            elif divisor is not None:  # like GradScaler: a product with the fp32 reciprocal
                buffers[name].mul_(float(np.float32(1 / divisor)))
            if self.shards is None or self.shards[name].recorded:
                arrays[name] = torch_array(buffers[name])
                if not recorder._recorded and not code_of(arrays[name].dtype):
                    self._check_dtype(name, arrays[name])
        if optimizer is not None:
            recorder._numbers.setdefault("learning_rate", optimizer.param_groups[0]["lr"])
        self._buffers = None
        passes = {count for _, count in self._passes.values()}
        recorder._deliver(
            {0 if self.joined else self.process: arrays},
            buffers,
            zeros=[name for name in self.parameters if name not in self._arrived],
            divided_by=divisor,
            passes=passes.pop() if len(passes) == 1 else None,
            others=self._extras.files(self.process, divisor),
            parts=None
            if self.shards is None
            else {name: shard.part for name, shard in self.shards.items()},
        )
        if late := [name for name, p in self._unpicked.items() if p.grad is not None]:
            logger.warning(
                "apscope: %d tensors unfrozen after attach() are not recorded; the first is %r; "
                "Recorder(tensors='.*') records all",
                len(late),
                late[0],
            )
            self._unpicked = {}
        if self._wanted is not None and (new := self._new()):
            logger.warning(
                "apscope: %d tensors added after attach() are not recorded; the first is %r; "
                "attach a recorder to the whole model",
                len(new),
                new[0],
            )
            self._wanted = None

    def _check_dtype(self, name: str, values: np.ndarray) -> None:
        try:
            storable(
                values,
                f"gradient {name!r} of step {self.recorder.number}",
                self.recorder._round,
                remedy="pass round_to_fp32=True, or leave it out with tensors=",
            )
        except ValueError as error:
            raise Mistake(str(error)) from None

    def _new(self) -> list[str]:
        """Parameters with gradients that the model did not have when it was attached."""
        named = [
            (plain_name(name), p)
            for name, p in self._inner.named_parameters()
            if id(p) not in self._names and p.grad is not None
        ]
        return [name for name, _ in named if self._wanted is not None and self._wanted(name)]

    def _divisor(self) -> float | None:
        if self._scaler is not None:
            return float(self._scaler.get_scale())
        scale = self._loss_scale() if callable(self._loss_scale) else self._loss_scale
        return None if scale is None else float(scale)
