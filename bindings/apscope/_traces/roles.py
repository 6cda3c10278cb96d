"""A tensor's role: a given one, else a guess from its name and shape, marked as such."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from .. import _core
from .._arrays.checks import integer, listed, text

#: Given roles: by a tensor's name or a pattern of names, or a function of name and shape.
Roles: TypeAlias = Mapping[str, str] | Callable[[str, tuple[int, ...]], str | None] | None

#: Roles in use; a trace may name others.
ROLES = ("conv", "linear", "attention", "norm", "bias", "embedding", "head", "other")

#: Parts that PyTorch's wrappers (compilation, checkpointing) insert into the names of parameters.
_WRAPPERS = ("_orig_mod.", "_checkpoint_wrapped_module.")


def plain_name(name: str) -> str:
    """A parameter's name without the wrappers' parts: that of the model before it was wrapped."""
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


class Guess(str):
    """A role that was not given."""

    __slots__ = ()


def given_role(roles: Roles, name: str, shape: tuple[int, ...]) -> str | None:
    """The given role of a tensor: by its name, else by the first matching pattern."""
    if roles is None or callable(roles):
        return roles(name, shape) if roles else None
    return roles.get(name) or next(
        (role for pattern, role in roles.items() if fnmatchcase(name, pattern)), None
    )


def either(one: Roles, other: Roles) -> Roles:
    """The first's role, or the second's if there is none."""
    return (
        (lambda name, shape: given_role(one, name, shape) or given_role(other, name, shape))
        if one
        else other
    )


def guess_role(name: str, shape: Sequence[int]) -> Guess:
    """The role suggested by the tensor's name, else by its number of dimensions.

    Three or more dimensions mean a convolution, two a linear layer, fewer for
    ``"other"``. It is a guess: ``convert --role`` and ``TraceWriter(roles=...)`` overrule it.

    Parameters
    ----------
    name : str
    shape : sequence of int

    Returns
    -------
    Guess
        A str, one of ``conv``, ``linear``, ``attention``, ``norm``, ``bias``, ``embedding``,
        ``head``, ``other``.
    """
    name = text("name", name)
    shape = [integer("shape", n, 0, 2**63 - 1) for n in listed("shape", shape)]
    return Guess(_core.guess_role(name, len(shape)))
