"""CPD's functions, under its names and by its rules, on the CPU.

CPD (drcut/CPD) is the published code of Auto Precision Scaling; its kernels need a GPU. Formats are
``exp`` exponent and ``man`` significand bits, and the cast is CPD's own, which differs from IEEE
754 near overflow and below the smallest normal number (docs/cpd.md). (8, 23) is fp32: nothing is
cast. Nothing is changed in place, whereas CPD's kernel writes into its input.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import unfold

from .. import _core
from .._arrays.allreduce import allreduce
from .._arrays.checks import integer
from .._schemes.exchange import exchange
from ._gathering import gathered

__all__ = [
    "EmulatedNode", "Quant_Conv", "Quant_Linear", "Quantizer", "emulate_node", "float_quantize",
    "quant_gemm", "quantizer", "reduce_gradients", "sum_gradients",
]  # fmt: skip
__dir__ = __all__.copy

FP32 = (8, 23)


def _format(exp: int, man: int) -> tuple[int, int]:
    """Checks a format: for man = 23 with exp < 8, CPD's kernel shifts by a negative number."""
    e, m = integer("exp", exp, 2, 8), integer("man", man, 0, 23)
    if m == 23 and e != 8:
        raise ValueError(f"exp={e}, man=23 is not a format of CPD; give man up to 22, or (8, 23)")
    return e, m


def _check(name: str, x: Any) -> None:
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is {type(x).__name__}; give a float32 tensor on the CPU")
    if x.dtype != torch.float32 or x.device.type != "cpu":
        raise TypeError(f"{name} is a tensor of {x.dtype} on {x.device}; give float32 on the CPU")


def _check_rows(rows: Any, of: str) -> None:
    _check("rows", rows)
    if rows.dim() < 1 or not len(rows):
        raise ValueError(f"rows has the shape {tuple(rows.shape)}; give ({of}, ...), one or more")


def _cast(x: torch.Tensor, exp: int, man: int) -> torch.Tensor:
    _check("x", x)
    if (exp, man) == FP32:
        return x.detach().clone()
    return torch.from_numpy(_core.cpd_cast(x.detach().contiguous().numpy(), exp, man))


def float_quantize(x: torch.Tensor, exp: int, man: int) -> torch.Tensor:
    """CPD's cast of a tensor, without a gradient.

    Parameters
    ----------
    x : float32 tensor on the CPU
        Not changed.
    exp, man : int
        2 to 8 exponent bits, 0 to 22 significand bits; (8, 23) is a copy.

    Returns
    -------
    float32 tensor

    Raises
    ------
    ValueError, TypeError
        A format that CPD does not have, a tensor of another kind.
    """
    return _cast(x, *_format(exp, man))


class _Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, forward: Any, backward: Any) -> torch.Tensor:
        ctx.format = backward
        return _cast(x, *forward)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _cast(g, *ctx.format), None, None


def quantizer(
    forward_exp: int = 8, forward_man: int = 23, backward_exp: int = 8, backward_man: int = 23
) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function that casts a tensor forward, and its gradient backward.

    Parameters
    ----------
    forward_exp, forward_man, backward_exp, backward_man : int

    Returns
    -------
    function of a float32 tensor

    Raises
    ------
    ValueError
        A format that CPD does not have.
    """
    forward, backward = _format(forward_exp, forward_man), _format(backward_exp, backward_man)

    def quantize(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = _Quantize.apply(x, forward, backward)
        return result

    return quantize


class Quantizer(nn.Module):
    """`quantizer` as a module.

    Parameters
    ----------
    forward_exp, forward_man, backward_exp, backward_man : int
    """

    def __init__(
        self,
        forward_exp: int = 8,
        forward_man: int = 23,
        backward_exp: int = 8,
        backward_man: int = 23,
    ) -> None:
        super().__init__()
        self.quantize = quantizer(forward_exp, forward_man, backward_exp, backward_man)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The cast of x."""
        return self.quantize(x)


def quant_gemm(a: torch.Tensor, b: torch.Tensor, man: int = 23, exp: int = 8) -> torch.Tensor:
    """CPD's product of matrices, without a gradient: Kahan's sum over k, every operation cast.

    Parameters
    ----------
    a, b : float32 tensors of shapes (m, k) and (k, n)
        Not cast before.
    man, exp : int
        In this order, as in CPD.

    Returns
    -------
    float32 tensor of shape (m, n)

    Raises
    ------
    ValueError, TypeError
        A format that CPD does not have, tensors of another kind or shape.
    """
    e, m = _format(exp, man)
    _check("a", a)
    _check("b", b)
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(
            f"a of shape {tuple(a.shape)} and b of shape {tuple(b.shape)} cannot be multiplied; "
            "give (m, k) and (k, n)"
        )
    left, right = (t.detach().contiguous().numpy() for t in (a, b))
    return torch.from_numpy(_core.cpd_gemm(left, right, e, m, 0))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, exp: int, man: int) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        ctx.format = man, exp
        return quant_gemm(x, w.T, man, exp)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        x, w = ctx.saved_tensors
        return quant_gemm(g, w, *ctx.format), quant_gemm(g.T, x, *ctx.format), None, None


class _AddBias(torch.autograd.Function):
    """The bias is added in fp32; its gradient is the cast of the fp32 sum over the batch."""

    @staticmethod
    def forward(ctx: Any, y: torch.Tensor, bias: torch.Tensor, exp: int, man: int) -> torch.Tensor:
        ctx.format = exp, man
        return y + bias

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        return g, _cast(g.sum(0), *ctx.format), None, None


def _linear(
    x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, exp: int, man: int
) -> torch.Tensor:
    y: torch.Tensor = _Linear.apply(x, w, exp, man)
    return y if bias is None else _AddBias.apply(y, bias, exp, man)


class Quant_Linear(nn.Linear):  # noqa: N801  # CPD's name
    """CPD's linear layer: all three products are `quant_gemm`.

    Parameters
    ----------
    in_features, out_features : int
    bias : bool
    exp, man : int
        Of every operation of the products; operands are not cast first.
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, exp: int = 8, man: int = 23
    ) -> None:
        super().__init__(in_features, out_features, bias)
        self.exp, self.man = _format(exp, man)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of shape (..., in_features) to (..., out_features)."""
        _check("x", x)
        rows = x.reshape(-1, x.shape[-1])
        y = _linear(rows, self.weight, self.bias, self.exp, self.man)
        return y.reshape(*x.shape[:-1], -1)


class Quant_Conv(nn.Conv2d):  # noqa: N801  # CPD's name
    """CPD's convolution: patches of the image through `Quant_Linear`'s products.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, padding
        As for ``torch.nn.Conv2d``.
    dilation, groups : int
        Only 1. CPD accepts and ignores other values; here they are errors.
    bias : bool
    exp, man : int

    Raises
    ------
    ValueError
        A dilation or groups other than 1, a format that CPD does not have.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        exp: int = 8,
        man: int = 23,
    ) -> None:
        if dilation != 1 or groups != 1:
            raise ValueError(
                f"dilation={dilation}, groups={groups}: CPD ignores them; give 1, or use "
                "apscope.torch.conv2d"
            )
        super().__init__(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=bias
        )
        self.exp, self.man = _format(exp, man)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of shape (batch, in_channels, height, width) to (batch, out_channels, ...)."""
        _check("x", x)
        if x.dim() != 4 or x.shape[1] != self.in_channels:
            raise ValueError(
                f"x has the shape {tuple(x.shape)}; give (batch, {self.in_channels}, height, width)"
            )
        k, s, p = self.kernel_size, self.stride, self.padding
        assert not isinstance(p, str)
        patches = unfold(x, k, padding=p, stride=s)  # (batch, c k k, places)
        rows = patches.transpose(1, 2).reshape(-1, patches.shape[1])
        y = _linear(rows, self.weight.reshape(len(self.weight), -1), self.bias, self.exp, self.man)
        height, width = ((x.shape[2 + i] + 2 * p[i] - k[i]) // s[i] + 1 for i in (0, 1))
        return y.reshape(x.shape[0], height, width, -1).permute(0, 3, 1, 2)


def reduce_gradients(
    rows: torch.Tensor,
    use_APS: bool = False,  # CPD's name
    grad_exp: int = 5,
    grad_man: int = 2,
    use_kahan: bool = False,
) -> torch.Tensor:
    """The sum of one parameter's gradients by CPD's `sum_gradients`: the scheme ``cpd``.

    Parameters
    ----------
    rows : float32 tensor of shape (workers, ...)
        In rank order. Not changed.
    use_APS : bool
        Scaled by 2^shift, shift = 2^(exp-1) - 1 - max ceil(log2 max abs(g W)), and cast, before the
        sum; without it gradients enter the sum as they are.
    grad_exp, grad_man : int
        (8, 23): the sum is in fp32, in rank order; CPD without Kahan calls the library's
        all-reduce.
    use_kahan : bool

    Returns
    -------
    float32 tensor of shape (...)

    Raises
    ------
    ValueError, TypeError
        No worker, a format that CPD does not have, a tensor of another kind.
    """
    e, m = _format(grad_exp, grad_man)
    _check_rows(rows, "workers")
    a = rows.detach().contiguous().numpy().reshape(len(rows), -1)
    if (e, m) == FP32:
        if use_APS:
            raise ValueError(
                "use_APS with (8, 23) scales by powers of two that fp32 lacks; give another "
                "format, or no APS"
            )
        total = allreduce(a, "fp32", topology="sequential+kahan" if use_kahan else "sequential")
        total = total + np.float32(0)  # CPD adds to +0, so that no result is -0
        return torch.from_numpy(total).reshape(rows.shape[1:])
    spec = f"cpd:e{e}m{m},aps={str(use_APS).lower()},kahan={str(use_kahan).lower()}"
    total = exchange(spec, a).reduced.astype(np.float32)
    return torch.from_numpy(total).reshape(rows.shape[1:])


def emulate_node(
    rows: torch.Tensor,
    use_APS: bool = False,  # CPD's name
    grad_exp: int = 5,
    grad_man: int = 2,
    casts_alone: bool = False,
) -> torch.Tensor:
    """CPD's ``emulate_node``: one gradient of a parameter from those of N micro-batches.

    max_exp starts at -100 and becomes the largest ceil(log2 max abs(g N)) that is greater; shift =
    2^(exp-1) - 1 - max_exp, or 0 without APS and where max_exp stayed at -100. Each g 2^shift is
    cast, also without APS, and added in order, each sum cast; then divided by 2^shift.

    Parameters
    ----------
    rows : float32 tensor of shape (N, ...)
        Not changed.
    use_APS : bool
    grad_exp, grad_man : int
    casts_alone : bool
        Whether a single micro-batch is cast: True in CPD's ResNet50/main.py, False in
        ResNet18/tools/mix.py.

    Returns
    -------
    float32 tensor of shape (...)

    Raises
    ------
    ValueError, TypeError
        No micro-batch, a format that CPD does not have, a tensor of another kind.
    """
    e, m = _format(grad_exp, grad_man)
    _check_rows(rows, "micro-batches")
    rows = rows.detach()
    if len(rows) == 1 and not casts_alone:
        return rows[0].clone()
    largest = -100.0
    for row in rows if use_APS else ():
        top = _core.cpd_exponent(float((row * len(rows)).abs().max())) if row.numel() else -100.0
        largest = max(largest, top)  # a NaN is not greater
    shift = 0.0 if largest == -100 else 2.0 ** (e - 1) - 1 - largest
    scale = torch.tensor(math.ldexp(1.0, int(shift)) if math.isfinite(shift) else 2.0**shift)
    total = torch.zeros_like(rows[0])
    for row in rows:
        total = _cast(total + _cast(row * scale, e, m), e, m)
    return total / scale


class EmulatedNode:
    """`emulate_node` for `Workers(node=...)`: the two-level exchange of CPD's scripts.

    Parameters
    ----------
    batches : int
        N, micro-batches of every worker.
    use_APS, grad_exp, grad_man, casts_alone
        As for `emulate_node`.

    Raises
    ------
    ValueError
        No micro-batch, a format that CPD does not have.
    """

    def __init__(
        self,
        batches: int,
        use_APS: bool = False,  # CPD's name
        grad_exp: int = 5,
        grad_man: int = 2,
        casts_alone: bool = False,
    ) -> None:
        self.batches = integer("batches", batches, 1, 2**20)
        self._options = use_APS, *_format(grad_exp, grad_man), casts_alone

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """The gradient of a worker from those of its micro-batches, (N, n)."""
        return emulate_node(rows, *self._options)


def sum_gradients(
    model: nn.Module,
    use_APS: bool = False,  # CPD's name
    grad_exp: int = 5,
    grad_man: int = 2,
    use_kahan: bool = False,
    process_group: Any = None,
) -> None:
    """Replaces every parameter's gradient by the sum over the processes, like CPD's function.

    Parameters
    ----------
    model : torch.nn.Module
        Parameters without a gradient are not changed; CPD with APS fails for them.
    use_APS, grad_exp, grad_man, use_kahan
        As for `reduce_gradients`.
    process_group : optional
        By default all processes of ``torch.distributed``.

    Raises
    ------
    ValueError, TypeError
        As `reduce_gradients`.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is {type(model).__name__}; it must be a torch.nn.Module")
    for p in model.parameters():
        if p.grad is None:
            continue
        rows = gathered(p.grad.contiguous(), process_group)
        p.grad = reduce_gradients(torch.stack(rows), use_APS, grad_exp, grad_man, use_kahan)
