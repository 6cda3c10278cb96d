"""Residual blocks of a model whose layers go by the choices of FracTrain's gates."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ._fractrain_gates import GateNetwork, Gates, State


@dataclass(frozen=True)
class Choice:
    """Widths of a layer, and the samples that have chosen them."""

    input: int
    weight: int
    gradient: int
    chosen: torch.Tensor | None = None  #: m of the samples, with a gradient; None: all samples
    #: The layer multiplies by m; otherwise it computes all samples, and the block multiplies.
    inside: bool = False
    skipping: tuple[torch.Tensor, ...] = ()  #: m of the samples that skip the block

    @property
    def share(self) -> float:
        """The share of the samples."""
        return 1.0 if self.chosen is None else _share(self.chosen)

    @property
    def full_share(self) -> float:
        """The same and the share that skips, whose products cost nothing but in full."""
        return self.share + sum(map(_share, self.skipping))

    def constant(self, bits: int, gradient_bits: int) -> Choice:
        """The choice with these widths, and inside of a layer for all samples."""
        widths = replace(self, input=bits, weight=bits, gradient=gradient_bits)
        return replace(widths, chosen=None, inside=False) if self.inside else widths

    def of(self, x: torch.Tensor) -> torch.Tensor:
        """m times a tensor, sample by sample."""
        assert self.chosen is not None
        return self.chosen.to(x.dtype).reshape(-1, *(1,) * (x.dim() - 1)) * x

    def part(self, x: torch.Tensor) -> torch.Tensor:
        """The choice's term of the sum over all choices of a layer."""
        return self.of(x) if self.inside else x

    def fixed(self) -> Choice:
        """The same without a gradient to the gate."""
        return replace(self, chosen=None if self.chosen is None else self.chosen.detach())


class GatedBlocks:
    """The blocks, while their forward methods are `replaced`.

    Attributes
    ----------
    network : GateNetwork
    chosen : list of tensor
        m of every block that the last pass has reached.
    choices : tuple of Choice
        Of the block that is being computed; empty outside of blocks.
    """

    def __init__(self, model: torch.nn.Module, gates: Gates) -> None:
        modules = dict(model.named_modules())
        for name in gates.blocks:
            if name not in modules:
                raise ValueError(f"blocks has {name!r}, which is not a module of the model")
            inner = next((n for n in gates.blocks if n.startswith(f"{name}.")), None)
            if inner:
                raise ValueError(f"blocks has {inner!r}, which is a part of {name!r}")
        self.gates = gates
        self._modules = [modules[name] for name in gates.blocks]
        channels = [_channels(name, modules[name]) for name in gates.blocks]
        self._shortcuts = [_shortcut(name, modules) for name in gates.shortcuts]
        self.network = GateNetwork(channels, gates.sizes, len(gates.activations))
        self.chosen: list[torch.Tensor] = []
        self.choices: tuple[Choice, ...] = ()
        self._state: State | None = None

    @contextlib.contextmanager
    def replaced(self) -> Iterator[None]:
        """Until the context ends, blocks are computed as the gates choose."""
        own = [module.__dict__.get("forward") for module in self._modules]
        try:
            for t, module in enumerate(self._modules):
                module.forward = functools.partial(self._forward, t, module.forward)
            yield
        finally:
            for module, forward in zip(self._modules, own, strict=True):
                if forward is None:
                    module.__dict__.pop("forward", None)
                else:
                    module.forward = forward

    def complete(self) -> list[torch.Tensor]:
        """m of all blocks of the last pass."""
        if len(self.chosen) < len(self._modules):
            raise RuntimeError(
                f"the last pass has reached {len(self.chosen)} of {len(self._modules)} gated "
                "blocks; call the model in the context first"
            )
        return self.chosen

    def _forward(
        self, t: int, forward: Callable[..., Any], x: torch.Tensor, *args: Any, **kwargs: Any
    ) -> torch.Tensor:
        inside = self.gates.select == "convolution"
        columns = self._gate(t, x).unbind(1)
        widths = zip(self.gates.activations, self.gates.gradients, columns, strict=True)
        choices = [Choice(a, self.gates.weights, g, m, inside) for a, g, m in widths]
        if inside:
            return self._with(choices, forward, x, *args, **kwargs)
        skipping = tuple(c.chosen for c in choices if not c.input and c.chosen is not None)
        first = next(i for i, c in enumerate(choices) if c.input)
        choices[first] = replace(choices[first], skipping=skipping)
        version, parts = x._version, []
        for choice in choices:
            if choice.input:
                y = self._with([choice], forward, x, *args, **kwargs)
            else:
                y = self._shortcuts[t](x)
            parts.append(choice.of(y))
            if x._version != version:
                raise RuntimeError(
                    f"block {self.gates.blocks[t]!r} changes its input in place; it must not"
                )
        if len({part.shape for part in parts}) > 1:
            raise ValueError(
                f"block {self.gates.blocks[t]!r} and its shortcut return tensors of the shapes "
                f"{', '.join(str(tuple(part.shape)) for part in parts)}; give its shortcut's name "
                "in shortcuts"
            )
        return added(parts)

    def _gate(self, t: int, x: torch.Tensor) -> torch.Tensor:
        """m of block t; the first block begins a pass."""
        name = self.gates.blocks[t]
        if t == 0:
            self.chosen, self._state = [], None
        if t != len(self.chosen):
            raise RuntimeError(
                f"block {name!r} was called as number {len(self.chosen)} of a pass and is number "
                f"{t} of blocks; list the blocks in the order of the forward pass"
            )
        expected = self.network.channels[t]
        if x.dim() < 2 or x.shape[1] != expected:
            raise ValueError(
                f"block {name!r} reads a tensor of shape {tuple(x.shape)}; its gate needs "
                f"(samples, {expected}, ...), as its first layer has {expected} inputs"
            )
        chosen, self._state = self.network(t, x, self._state)
        self.chosen.append(chosen)
        return chosen

    def _with(
        self, choices: list[Choice], forward: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> torch.Tensor:
        """A block with these choices."""
        self.choices = tuple(choices)
        try:
            y = forward(*args, **kwargs)
        finally:
            self.choices = ()
        if not isinstance(y, torch.Tensor):
            raise TypeError(f"a gated block returns {type(y).__name__}; it must return one tensor")
        return y


def added(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The sum, in this order."""
    return functools.reduce(torch.add, parts)


def _share(chosen: torch.Tensor) -> float:
    return float((chosen > 0.5).double().mean())


def _shortcut(name: str, modules: Mapping[str, torch.nn.Module]) -> Callable[..., Any]:
    """The module of this name, or the identity if it is empty."""
    if name and name not in modules:
        raise ValueError(f"shortcuts has {name!r}, which is not a module of the model")
    return modules[name] if name else torch.nn.Identity()


def _channels(name: str, block: torch.nn.Module) -> int:
    """Inputs of a block's first layer."""
    for module in block.modules():
        for key in ("in_channels", "in_features"):
            if isinstance(getattr(module, key, None), int):
                return int(getattr(module, key))
    raise ValueError(f"block {name!r} has no linear layer or convolution; give blocks with layers")
