"""Checks a saved state before anything is changed: an object takes it whole, or not at all."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any

import torch

from .._text import clip

_QUOTED = 300  # characters of two settings
#: States of PyTorch's optimizers that have the shape of their parameter.
_LIKE_PARAMETERS = frozenset(
    (
        "momentum_buffer", "exp_avg", "exp_avg_sq", "exp_inf", "max_exp_avg_sq", "square_avg",
        "grad_avg", "acc_delta", "sum", "prev",
    )
)  # fmt: skip


def check_trains(optimizer: Any, model: torch.nn.Module) -> None:
    """Checks that this is an optimizer, and that it has a parameter of the model."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(
            f"optimizer is {type(optimizer).__name__}; it must be a torch.optim.Optimizer"
        )
    own = {id(p) for p in model.parameters()}
    if not any(id(p) in own for group in optimizer.param_groups for p in group["params"]):
        raise ValueError(
            "optimizer has no parameter of the model, so it would not train it; make it of "
            "model.parameters(), after the model is moved"
        )


def check_state(state: Any, keys: Collection[str], same: Mapping[str, Any] | None = None) -> None:
    """Checks that a state has the keys, and settings that the object has too.

    Parameters
    ----------
    state : object
        The argument of a ``load_state_dict``.
    keys : collection of str
        The keys that ``state_dict`` gives.
    same : mapping, optional
        The object's settings, which the state must have too.

    Raises
    ------
    TypeError
        It is not a mapping.
    ValueError
        It lacks a key, has another one, or has another setting.
    """
    if not isinstance(state, Mapping):
        raise TypeError(
            f"the state is {clip(repr(state))}, of type {type(state).__name__}; give one made by "
            "state_dict"
        )
    if set(state) != set(keys):
        has = ", ".join(map(str, state)) or "nothing"
        raise ValueError(
            f"the state has {clip(has, 200)}; give one made by state_dict, which has "
            f"{', '.join(keys)}"
        )
    for key, mine in (same or {}).items():
        if type(state[key]) is not type(mine) or state[key] != mine:
            theirs, ours = repr(state[key]), repr(mine)
            raise ValueError(
                f"the state is of {key}={theirs}, not of {ours}"
                if len(theirs + ours) < _QUOTED
                else f"the state is of another {key} than this object's"
            )


def check_tensors(what: str, state: Any, mine: Any) -> None:
    """Checks tensors, by name or in a list, against those of the object: names and shapes.

    Raises
    ------
    ValueError
        A tensor is missing, is not a tensor, has another shape, or no place here.
    """
    if isinstance(mine, list | tuple):
        if not isinstance(state, list | tuple):
            raise ValueError(f"the state's {what} is {type(state).__name__}; it must be a list")
        state, mine = dict(enumerate(state)), dict(enumerate(mine))
    if not isinstance(state, Mapping):
        raise ValueError(f"the state's {what} is {type(state).__name__}; it must be a mapping")
    for name in state.keys() ^ mine.keys():
        has, has_not = ("the state", "this object") if name in state else ("this object", "it")
        raise ValueError(f"{has} has {what} {clip(repr(name))}, but {has_not} has not")
    for name, tensor in mine.items():
        if not isinstance(tensor, torch.Tensor):
            continue  # a module's own extra state
        value = state[name]
        if not isinstance(value, torch.Tensor):
            raise ValueError(
                f"the state's {what} {clip(repr(name))} is {type(value).__name__}; it must be a "
                "tensor"
            )
        if value.shape != tensor.shape:
            raise ValueError(
                f"the state's {what} {clip(repr(name))} has shape {tuple(value.shape)}, not "
                f"{tuple(tensor.shape)}"
            )


def check_model(state: Any, model: torch.nn.Module) -> None:
    """Checks the state of a model, which ``model.load_state_dict`` then takes whole."""
    check_tensors("model", state, model.state_dict())


def load_optimizer(optimizer: Any, state: Any) -> None:
    """Loads a copy: PyTorch's optimizers keep the state's own tensors, and change them later."""
    optimizer.load_state_dict(copy.deepcopy(state))


def check_optimizer(state: Any, optimizer: Any) -> None:
    """Checks the state of an optimizer: its groups, and the shapes that the parameters give.

    One that is not PyTorch's has its own `check_state`.

    Raises
    ------
    ValueError
        It is not a state, or one of other parameters.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        optimizer.check_state(state)
        return
    if not isinstance(state, Mapping) or not {"state", "param_groups"} <= set(state):
        raise ValueError("the state's optimizer is not one of an optimizer's state_dict")
    states, groups = state["state"], state["param_groups"]
    mine = optimizer.param_groups
    if not isinstance(states, Mapping) or not isinstance(groups, list):
        raise ValueError("the state's optimizer is not one of an optimizer's state_dict")
    if not all(isinstance(g, Mapping) and isinstance(g.get("params"), list) for g in groups):
        raise ValueError("the state's optimizer has groups without parameters")
    counts, expected = ([len(g["params"]) for g in one] for one in (groups, mine))
    if counts != expected:
        raise ValueError(
            f"the state's optimizer has groups of {counts} parameters, not of {expected}"
        )
    for group, theirs in zip(mine, groups, strict=True):
        if missing := sorted(group.keys() - theirs.keys()):
            raise ValueError(f"the state's optimizer has no {missing[0]}")
        for p, number in zip(group["params"], theirs["params"], strict=True):
            one = states.get(number, {})
            if not isinstance(one, Mapping):
                raise ValueError(f"the state's optimizer has {type(one).__name__} as a state")
            for name, value in one.items():
                if (
                    name in _LIKE_PARAMETERS
                    and isinstance(value, torch.Tensor)
                    and value.shape != p.shape
                ):
                    raise ValueError(
                        f"the state's optimizer has {name} of shape {tuple(value.shape)} for a "
                        f"parameter of {tuple(p.shape)}"
                    )
