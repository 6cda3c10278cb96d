"""`quantize_model`, and the state of a quantized model: its uses, steps and memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ... import cuda
from ..._arrays.checks import integer
from ..._text import count_of
from ...torch._devices import is_supported
from ...torch._states import check_model, check_optimizer, check_state, check_trains, load_optimizer
from ...torch._weights import LowPrecisionWeights
from .matching import Found, check_matched, kept_in, parts_of, schedule_of, weights_of
from .observe import Observer
from .recipe import Bound, bind
from .registry import is_quantized, kind_of, swap, swap_back
from .scaling import Scaler
from .specs import Cast
from .uses import Clock, Use

if TYPE_CHECKING:
    import pandas as pd

    from ..._results.results import Results
    from ...record import TraceWriter

#: The `QuantizedModel` of every model.
_ATTRIBUTE = "_apscope_quantization"


def quantize_model(
    model: nn.Module,
    recipe: Any,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    seed: int = 0,
    say: Callable[[str], None] | None = print,
) -> nn.Module:
    """Rounds a model's tensors where a recipe says, in the forward and the backward pass.

    Layers keep their names, parameters and buffers, so state dicts from before can be loaded after,
    and the reverse.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place; fp32 parameters, all on the CPU or all on one CUDA GPU, where everything is
        then computed (`Notes`).
    recipe : Recipe, str, f(name, module, role), or mapping of pattern or first step to one of them
        A preset's name (`recipes`); a function that gives a `Cast` (`Sum` for a role that ends with
        ``.sum``, `Weights` for ``weight_update``), an argument from which one is made, or None;
        patterns of names (``{"head*": None, "*": Recipe(...)}``), of which the first that matches a
        layer with a product counts, None leaving it in fp32; or a schedule, whose first key is 0
        and where None is fp32. The name of a part is the module's, followed by ``:part`` where a
        module has several (``attention:scores``, ``lstm:hh_l0``).
    optimizer : torch.optim.Optimizer, optional
        Of the model's parameters; required by `QuantizedModel.step`, weight updates and loss
        scales.
    seed : int, 0 to 2**64 - 1
        Of stochastic rounding: a use's words depend on its name, the step, and the call's number
        within the step.
    say : f(sentence), optional
        Called with the layers that matched, and their number.

    Returns
    -------
    torch.nn.Module
        The model. `quantization` returns its `QuantizedModel`, with a loop, statistics and
        checkpoints.

    Raises
    ------
    ValueError
        A recipe that matches nothing, a pattern that matches nothing, a Hadamard transform of one
        operand only, different formats of weights, a model that is quantized already, or a module
        that cannot be.
    TypeError
        A model, optimizer, recipe or spec of another kind, parameters that are not fp32, or not on
        one device, the CPU or a CUDA GPU.
    RuntimeError
        Parameters on a GPU, without the CUDA module. In a step: matrix products in TF32.

    Notes
    -----
    On a GPU every cast, also to blocks, and every sum that states its order has the bits of the CPU:
    the kernels of `apscope.cuda` compute them. Sums in fp32 without a stated order are PyTorch's own
    products there and here, so their last bits differ; operands are never rounded to TF32: for a
    convolution it is off during the product, and a program that has asked for it in matrix products
    gets an error. Computed on the CPU, with a warning once: casts by schemes that draw or keep a
    memory by element, ``exact`` sums, and the sums of units whose operands have scales.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is {type(model).__name__}; it must be a torch.nn.Module")
    if optimizer is not None:
        check_trains(optimizer, model)
    if any(is_quantized(m) for m in model.modules()):
        raise ValueError("the model is quantized already; call quantization(model).remove() first")
    schedule = schedule_of(recipe)
    bound = {first: bind(one, model) for first, one in schedule.items()}
    clock = Clock(integer("seed", seed, 0, 2**64 - 1), list(bound))
    parts, others = parts_of(model, list(bound.values()), clock)
    devices: set[torch.device] = set()
    for name, module, _ in parts:
        for p in module.parameters(recurse=False):
            if p.dtype != torch.float32 or not is_supported(p):
                raise TypeError(
                    f"{name} has a parameter of {p.dtype} on {p.device}; a quantized model must "
                    "have fp32 parameters on the CPU or on a CUDA GPU"
                )
            devices.add(p.device)
    if len(devices) > 1:
        raise TypeError(
            f"the parameters are on {' and '.join(sorted(map(str, devices)))}; a quantized model "
            "must have them on one device"
        )
    for device in devices:
        if device.type == "cuda":
            cuda.require(device.index)
    check_matched(list(bound.values()), parts, model)
    quantized = QuantizedModel(
        model, schedule, parts, clock, list(bound.values()), optimizer, others
    )
    setattr(model, _ATTRIBUTE, quantized)
    if say is not None:
        say(str(quantized))
    return model


def quantization(model: nn.Module) -> QuantizedModel:
    """What `quantize_model` did to a model.

    Parameters
    ----------
    model : torch.nn.Module
        A model that `quantize_model` returned.

    Returns
    -------
    QuantizedModel

    Raises
    ------
    ValueError
        The model is not quantized.
    """
    quantized = getattr(model, _ATTRIBUTE, None)
    if not isinstance(quantized, QuantizedModel):
        raise ValueError(
            f"the model ({type(model).__name__}) is not quantized; call quantize_model(model, "
            "recipe) first"
        )
    return quantized


class QuantizedModel:
    """What `quantize_model` did to a model, and its training loop.

    `step` is `backward` and `update`; your own loop calls `advance` after its optimizer's step
    instead. ``print`` shows every layer with its formats.

    Attributes
    ----------
    model : torch.nn.Module
    optimizer : torch.optim.Optimizer, LowPrecisionWeights or None
        With weight updates, a `LowPrecisionWeights` around the given one.
    loss_scale : float
        The loss scale of the next step; 1 if there is none.
    skipped : bool
        Whether the last step was left out because a gradient was not finite.
    steps : int
        Number of steps so far, including those left out; also the number of the next step.
    uses : list of (part, role, cast)
        Of this phase.
    """

    def __init__(
        self,
        model: nn.Module,
        schedule: dict[int, Any],
        parts: list[Found],
        clock: Clock,
        bound: list[Bound],
        optimizer: torch.optim.Optimizer | None,
        others: dict[str, str],
    ) -> None:
        self.model, self._schedule, self._clock, self._others = model, schedule, clock, others
        self._parts = parts
        self._observer = Observer(clock)
        self.optimizer: Any = optimizer
        self.skipped = False
        weights = weights_of(parts, bound)
        if weights is not None:
            if optimizer is None:
                raise ValueError(f"weights in {weights} need optimizer=")
            self.optimizer = LowPrecisionWeights(
                optimizer,
                weights.format,
                update=weights.update,
                only=kept_in(parts, bound),
                seed=clock.seed,
            )
        self._weights = weights
        self._scaler = Scaler(next((b.loss_scale for b in bound if b.loss_scale), None))
        for name, module, module_parts in parts:
            kind = kind_of(module)
            assert kind is not None, name
            swap(module, kind, module_parts)

    @property
    def steps(self) -> int:
        """So far."""
        return self._clock.step

    @property
    def loss_scale(self) -> float:
        """Of the next step."""
        return self._scaler.scale

    @property
    def uses(self) -> list[tuple[str, str, Cast]]:
        """Part, role and cast of every use that is rounded in this phase."""
        return [(u.name, u.role, u.cast) for u in self._all_uses() if u.cast is not None]

    def _all_uses(self) -> list[Use]:
        return [u for _, _, parts in self._parts for p in parts.values() for u in p.uses]

    def step(self, loss: torch.Tensor) -> bool:
        """One step of training: `backward` of the scaled loss, and `update`.

        Returns
        -------
        bool
            Whether the optimizer stepped.
        """
        self.backward(loss)
        return self.update()

    def backward(self, loss: torch.Tensor) -> None:
        """The gradients of the scaled loss are added to the parameters' ``grad``."""
        self._scaler.scaled(loss).backward()

    def update(self) -> bool:
        """Unscales, steps the optimizer unless a gradient is not finite, removes the gradients.

        Raises
        ------
        ValueError
            There is no optimizer.
        """
        if self.optimizer is None:
            raise ValueError("update needs optimizer= of quantize_model; or step your own, then "
                             "call advance()")  # fmt: skip
        self.skipped = not self._scaler.step(self.optimizer, self._clock.step + 1)
        self.optimizer.zero_grad()
        self.advance()
        return not self.skipped

    def advance(self) -> None:
        """Begins the next step of the schedule, the random words and the observations."""
        self._observer.end_step()
        self._clock.set(self._clock.step + 1)
        self._observer.begin_step()

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on, including the model; call it between steps."""
        return {
            "recipe": self._identity(),
            "seed": self._clock.seed,
            "step": self._clock.step,
            "model": self.model.state_dict(),
            "optimizer": None if self.optimizer is None else self.optimizer.state_dict(),
            "scale": self._scaler.state_dict(),
            "memory": {f"{u.name}|{u.role}": m for u in self._all_uses() if (m := u.state_dict())},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from another run's state, with the same bits.

        Raises
        ------
        ValueError
            The state of another recipe or seed, or of something else.
        """
        mine = self.state_dict()
        check_state(state, mine, {key: mine[key] for key in ("recipe", "seed")})
        check_model(state["model"], self.model)
        if self.optimizer is not None:
            check_optimizer(state["optimizer"], self.optimizer)
        self._scaler.check_state(state["scale"])
        step = integer("step", state["step"], 0, 2**31 - 1)
        uses = {f"{use.name}|{use.role}": use for use in self._all_uses()}
        memory = state["memory"]
        if not isinstance(memory, Mapping) or not uses.keys() >= memory.keys():
            raise ValueError("the state's memory is not one of this model's tensors")
        for name, use in uses.items():
            use.check_state(memory.get(name, {}))
        self.model.load_state_dict(state["model"])
        if self.optimizer is not None:
            load_optimizer(self.optimizer, state["optimizer"])
        self._scaler.load_state_dict(state["scale"])
        for name, use in uses.items():
            use.load_state_dict(memory.get(name, {}))
        self._clock.set(step)
        self._observer.begin_step()

    def _identity(self) -> str:
        """All casts and sums, as one text."""
        casts = [
            [p.name, *([u.role, *map(str, u.casts)] for u in p.uses)]
            + ([[r, *map(str, a.sums)] for r, a in p.adders.items()] if p.kind == "product" else [])
            for _, _, parts in self._parts
            for p in parts.values()
        ]
        return json.dumps([list(self._clock.starts), str(self._weights), str(self._scaler), casts])

    def remove(self) -> None:
        """Restores the layers' own forward functions; the weights are not changed."""
        for _, module, _ in self._parts:
            if is_quantized(module):
                swap_back(module)
        vars(self.model).pop(_ATTRIBUTE, None)

    def observe(self, every: int = 1) -> None:
        """Observes every use once per `every` steps, from this step on; 0 stops.

        See `statistics` and `results`.
        """
        self._observer.set_every(every)

    @property
    def statistics(self) -> pd.DataFrame:
        """A table of the observations: one row per step, part and role."""
        return self._observer.frame()

    def results(self, label: str = "recipe") -> Results:
        """The observations as results of `apscope.replay`: a tensor per use, the recipe as scheme.

        ``summary``, ``by`` and ``save`` work, and with the saved folder ``apscope report`` and
        ``apscope compare`` with another run.

        Parameters
        ----------
        label : str
            The scheme's name in the table.

        Raises
        ------
        ValueError
            Nothing was observed.
        """
        return self._observer.results(label)

    def record(
        self, folder: str | os.PathLike[str], every: int = 1, *, steps: Iterable[int] | None = None
    ) -> AbstractContextManager[TraceWriter]:
        """Records the operands themselves, before their casts, as a trace: a context manager.

        A tensor of the trace is a use (``conv1.input``), stacked if a step calls it several times.
        Calls of another shape than a step's first are a tensor of their own: ``conv1.grad_weight``
        is of the weight, ``conv1.grad_weight[64]`` of the bias. `apscope.replay` then measures the
        errors of any format or scheme, and `apscope.recommend` chooses one for each use.

        Parameters
        ----------
        folder : path-like
            A new trace's.
        every : int
            Multiples of this number are recorded.
        steps : iterable of int, optional
            These steps instead.

        Raises
        ------
        ValueError
            A recording is open already; at a step: other shapes or numbers of calls than at the
            first.
        """
        return self._observer.recording(folder, every, steps)

    def debug_step(self, loss: Callable[[], torch.Tensor], *, worst: int = 10) -> pd.DataFrame:
        """Runs a forward and a backward pass under observation and prints the worst uses.

        Parameters
        ----------
        loss : f() -> scalar tensor
            The model's loss, such as ``lambda: loss_function(model(x), y)``.
        worst : int

        Returns
        -------
        pandas.DataFrame
            Statistics of every use, the worst first. The pass changes no parameter, gradient,
            memory or random word of training.
        """
        return self._observer.debug(self, loss, worst)

    def __str__(self) -> str:
        from .show import text_of

        return text_of(self._parts, self._others, self._clock, self._weights, self._scaler)

    def __repr__(self) -> str:
        count = sum(len(parts) for _, _, parts in self._parts)
        return f"QuantizedModel({count_of(len(self._parts), 'layer')}, {count_of(count, 'part')}, step {self.steps})"
