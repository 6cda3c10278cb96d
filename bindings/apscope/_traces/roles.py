"""A tensor's role, guessed from its name and shape where nobody says it."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Roles in use; a trace may name others.
ROLES = ("conv", "linear", "attention", "norm", "bias", "embedding", "head", "other")

# First match wins: a norm's bias is a norm parameter, a head's bias is a bias.
_BY_NAME = (
    ("norm", r"(^|[._/])(bn|ln|gn|norm|layer_?norm|batch_?norm|group_?norm|rms_?norm)(_?\w{1,2})?([._/]|$)"),
    ("bias", r"(^|[._/])(bias|b)$"),
    ("embedding", r"(^|[._/])(\w*emb(ed(ding)?s?)?|wte|wpe)([._/]|$)"),
    ("head", r"(^|[._/])(head|\w+_head|classifier|logits|output)([._/]|$)"),
    ("attention", r"(^|[._/])(attn|\w*attention|[qkvo]_proj|qkv|c_attn)([._/]|$)"),
)


def guess_role(name: str, shape: Sequence[int]) -> str:
    """The role that the tensor's name suggests, else one by its number of dimensions.

    Three or more dimensions are taken for a convolution, two for a linear layer, fewer for
    ``"other"``. It is a guess: ``convert --role`` and ``TraceWriter(roles=...)`` overrule it.

    Parameters
    ----------
    name : str
    shape : sequence of int

    Returns
    -------
    str
        One of ``conv``, ``linear``, ``attention``, ``norm``, ``bias``, ``embedding``, ``head``, ``other``.
    """
    for role, pattern in _BY_NAME:
        if re.search(pattern, name, re.IGNORECASE):
            return role
    return "conv" if len(shape) >= 3 else "linear" if len(shape) == 2 else "other"
