"""The classes of modules that can be quantized, their parts and their forward functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .parts import Part

#: A part's name below the module's ("" for the module itself) -> "product" or "pointwise".
Parts = Mapping[str, str]

_PREFIX = "Quantized"


@dataclass(frozen=True)
class Kind:
    """A registered class of modules."""

    type: type[nn.Module]
    forward: Callable[..., Any]
    parts: Callable[[Any], Parts]
    refuse: Callable[[Any], str | None]


_Type = type  # the parameter `type` hides it
_KINDS: dict[type[nn.Module], Kind] = {}


def register_module(
    type: type[nn.Module],
    forward: Callable[..., Any],
    parts: Parts | Callable[[Any], Parts],
    *,
    refuse: Callable[[Any], str | None] = lambda _: None,
) -> None:
    """Tells `quantize_model` how a class of modules computes.

    Parameters
    ----------
    type : subclass of torch.nn.Module
        Its instances, and those of subclasses that keep its ``forward``.
    forward : f(module, parts, *args, **kwargs) -> output
        Replaces the class's own function; calls the methods of ``parts[name]``, such as
        ``parts["gate"].linear(x, module.weight)``.
    parts : mapping, or f(module) -> mapping
        The parts' names, and ``"product"`` (for `linear`, `matmul` and `conv2d`) or ``"pointwise"``
        (for `through_input`, `through_weight`, `through_output`). The name "" is the module itself.
    refuse : f(module) -> str or None
        A sentence that says why this module cannot be quantized.

    Raises
    ------
    TypeError
        `type` is not a class of modules.
    ValueError
        A part of another kind.

    Examples
    --------
    >>> import torch
    >>> class Gate(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.weight = torch.nn.Parameter(torch.ones(4, 4))
    ...     def forward(self, x):
    ...         return torch.sigmoid(x @ self.weight.T) * x
    >>> def forward(module, parts, x):
    ...     return torch.sigmoid(parts[""].linear(x, module.weight)) * x
    >>> register_module(Gate, forward, {"": "product"})
    """
    if not isinstance(type, _Type) or not issubclass(type, nn.Module):
        raise TypeError(f"{type!r} is not a subclass of torch.nn.Module; give one")
    if not callable(parts):
        fixed = dict(parts)
        _check_parts(type.__name__, fixed)
        _KINDS[type] = Kind(type, forward, lambda _: fixed, refuse)
    else:
        _KINDS[type] = Kind(type, forward, parts, refuse)


def _check_parts(name: str, parts: Parts) -> None:
    for part, kind in parts.items():
        if kind not in ("product", "pointwise"):
            raise ValueError(f"{name}'s part {part!r} is {kind!r}; it must be product or pointwise")
    if not parts:
        raise ValueError(f"{name} has no parts; name one, '' for the module itself")


def kind_of(module: nn.Module) -> Kind | None:
    """The registered class of a module; None if it has none, or a forward function of its own."""
    for base in type(module).__mro__:
        if base in _KINDS:
            unchanged = type(module).forward is base.forward and "forward" not in vars(module)
            return _KINDS[base] if unchanged else None
    return None


def swap(module: nn.Module, kind: Kind, parts: dict[str, Part]) -> None:
    """Gives the module a subclass of its class with the quantized forward function.

    Parameters, buffers, names and hooks stay as they are.
    """
    cls = type(module)
    module.__dict__["_apscope_parts"] = parts
    # PyTorch's fused transformer layer checks for hooks; with one it calls the layer's modules.
    module.__dict__["_apscope_hook"] = module.register_forward_pre_hook(_nothing)
    module.__class__ = _Type(
        f"{_PREFIX}{cls.__name__}",
        (cls,),
        {
            "forward": _forward_of(kind.forward, cls.forward),
            "_apscope_class": cls,
            "__module__": cls.__module__,
        },
    )


def swap_back(module: nn.Module) -> None:
    """Restores the module's class."""
    module.__class__ = module._apscope_class
    module.__dict__.pop("_apscope_hook").remove()
    del module.__dict__["_apscope_parts"]
    module.__dict__.pop("_apscope_inside", None)


def is_quantized(module: nn.Module) -> bool:
    """Whether it was swapped."""
    return "_apscope_parts" in module.__dict__


def _nothing(module: nn.Module, inputs: Any) -> None:
    """A hook."""


def _forward_of(forward: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """The quantized forward function; the class's own in a phase without rounding."""

    def quantized(self: Any, *args: Any, **kwargs: Any) -> Any:
        inside = self.__dict__.get("_apscope_inside")
        if inside is None:  # of the module, and of modules in it that its own function may pass by
            parts_inside = [m._apscope_parts.values() for m in self.modules() if is_quantized(m)]
            inside = self.__dict__["_apscope_inside"] = [p for parts in parts_inside for p in parts]
        if not any(p.active for p in inside):
            return plain(self, *args, **kwargs)
        parts: dict[str, Part] = self._apscope_parts
        for part in parts.values():
            part.training = self.training
        return forward(self, parts, *args, **kwargs)

    return _uncompiled(quantized)


def _uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Runs uncompiled in a compiled model: a break in the graph."""
    try:
        return torch.compiler.disable(
            function, reason="a quantized layer runs as it is: leave out fullgraph=True"
        )
    except TypeError:  # a PyTorch that takes no reason
        return torch.compiler.disable(function)
