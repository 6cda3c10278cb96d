"""The two operators behind all functions: one of one tensor, and the matrix product.

Each is a plain function with autograd in eager mode, where a custom operator takes many times as
long (pytorch #176592), and a custom operator under `torch.compile`. Gradients pass through the
rounding as if it were not there (straight-through); `back` rounds them, if it is not empty.
"""
# ruff: noqa: ARG001, ARG004  # PyTorch decides what the functions that it calls take

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from ._settings import call, draws, is_wide

Dims = tuple[int | None, ...]


def _no_jvp(*_: Any) -> Any:
    raise NotImplementedError(
        "apscope.torch has no forward-mode derivatives; use reverse mode: torch.func.grad or jacrev"
    )


def _bound(forward: Callable[..., Any]) -> Any:
    """A forward function with its signature, which autograd otherwise makes anew at every call."""
    forward.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    return staticmethod(forward)


# The casts --------------------------------------------------------------------------------------


def _cast(x: torch.Tensor, how: str, back: str, seed: int) -> torch.Tensor:
    return call(how, seed, x)


def _cast_batched(
    x: torch.Tensor, dim: int, run: Callable[[torch.Tensor], torch.Tensor], how: str
) -> torch.Tensor:
    """Every entry of a batch as a separate call: with its own scale, and the same random words."""
    x = x.movedim(dim, 0)
    if '"quantize"' in how and not draws(how):  # element by element
        return run(x)
    return torch.stack([run(entry) for entry in x.unbind(0)])


def _cast_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.back, ctx.seed = inputs[2:]


def _cast_gradients(
    ctx: Any, g: torch.Tensor, run: Callable[..., torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    """Straight through, or rounded if there is a `back`."""
    return run(g, ctx.back, "", ctx.seed) if ctx.back else g, None, None, None


class _Cast(torch.autograd.Function):
    forward = _bound(_cast)
    setup_context = staticmethod(_cast_context)
    jvp = staticmethod(_no_jvp)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return _cast_gradients(ctx, g, _Cast.apply)

    @staticmethod
    def vmap(
        info: Any, in_dims: Dims, x: torch.Tensor, how: str, back: str, seed: int
    ) -> tuple[torch.Tensor, int]:
        assert in_dims[0] is not None
        return _cast_batched(x, in_dims[0], lambda t: _Cast.apply(t, how, back, seed), how), 0


_cast_operator = torch.library.custom_op("apscope::cast", _cast, mutates_args=())


@_cast_operator.register_fake
def _(x: torch.Tensor, how: str, back: str, seed: int) -> torch.Tensor:
    dtype = torch.float64 if x.dtype == torch.float64 or is_wide(how) else torch.float32
    return torch.empty(x.shape, dtype=dtype, device=x.device)


def _cast_backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    return _cast_gradients(ctx, g, _cast_operator)


_cast_operator.register_autograd(_cast_backward, setup_context=_cast_context)


@_cast_operator.register_vmap
def _(
    info: Any, in_dims: Dims, x: torch.Tensor, how: str, back: str, seed: int
) -> tuple[torch.Tensor, int]:
    assert in_dims[0] is not None
    return _cast_batched(x, in_dims[0], lambda t: _cast_operator(t, how, back, seed), how), 0


def cast(x: torch.Tensor, how: str, back: str, seed: int) -> torch.Tensor:
    """A cast of x, of any shape."""
    if torch.compiler.is_compiling():
        return _cast_operator(x, how, back, seed)
    result: torch.Tensor = _Cast.apply(x, how, back, seed)
    return result


# The matrix product -----------------------------------------------------------------------------


def _product(a: torch.Tensor, b: torch.Tensor, how: str, back: str, seed: int) -> torch.Tensor:
    if a.device.type != "cpu" and min(a.dim(), b.dim()) >= 2:  # a GPU's kernel takes equal axes
        leading = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (t.expand(*leading, *t.shape[-2:]) for t in (a, b))
    return call(how, seed, a, b)


def _reduced(g: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The sum over the axes along which `like` was repeated."""
    extra = g.dim() - like.dim()
    axes = [*range(extra)] + [
        i for i in range(extra, g.dim()) if like.shape[i - extra] == 1 and g.shape[i] != 1
    ]
    return (g.sum(axes) if axes else g).reshape(like.shape)


def _product_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    a, b, _, ctx.back, ctx.seed = inputs
    ctx.save_for_backward(a, b)


def _product_gradients(
    ctx: Any, g: torch.Tensor, run: Callable[..., torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    """Products with an emulated rounding each if there is a `back`, else torch's."""
    a, b = ctx.saved_tensors

    def times(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if ctx.back:
            return run(x, y, ctx.back, ctx.back, ctx.seed)
        with torch.autocast(g.device.type, enabled=False):
            return x.to(g.dtype) @ y.to(g.dtype)

    to_a, to_b = ctx.needs_input_grad[:2]
    left = _reduced(times(g, b.mT), a) if to_a else None
    right = _reduced(times(a.mT, g), b) if to_b else None
    return left, right, None, None, None


def _product_batched(
    in_dims: Dims, a: torch.Tensor, b: torch.Tensor, run: Callable[..., torch.Tensor]
) -> torch.Tensor:
    count = a.shape[in_dims[0]] if in_dims[0] is not None else b.shape[in_dims[1] or 0]
    entries = [
        [t] * count if dim is None else t.unbind(dim)
        for t, dim in zip((a, b), in_dims[:2], strict=True)
    ]
    return torch.stack([run(x, y) for x, y in zip(*entries, strict=True)])


class _Product(torch.autograd.Function):
    forward = _bound(_product)
    setup_context = staticmethod(_product_context)
    jvp = staticmethod(_no_jvp)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return _product_gradients(ctx, g, _Product.apply)

    @staticmethod
    def vmap(
        info: Any, in_dims: Dims, a: torch.Tensor, b: torch.Tensor, how: str, back: str, seed: int
    ) -> tuple[torch.Tensor, int]:
        return _product_batched(
            in_dims, a, b, lambda x, y: _Product.apply(x, y, how, back, seed)
        ), 0


_product_operator = torch.library.custom_op("apscope::product", _product, mutates_args=())


@_product_operator.register_fake
def _(a: torch.Tensor, b: torch.Tensor, how: str, back: str, seed: int) -> torch.Tensor:
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    dtype = torch.float64 if is_wide(how) else torch.float32
    return torch.empty((*lead, a.shape[-2], b.shape[-1]), dtype=dtype, device=a.device)


def _product_backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    return _product_gradients(ctx, g, _product_operator)


_product_operator.register_autograd(_product_backward, setup_context=_product_context)


@_product_operator.register_vmap
def _(
    info: Any, in_dims: Dims, a: torch.Tensor, b: torch.Tensor, how: str, back: str, seed: int
) -> tuple[torch.Tensor, int]:
    return _product_batched(in_dims, a, b, lambda x, y: _product_operator(x, y, how, back, seed)), 0


def product(a: torch.Tensor, b: torch.Tensor, how: str, back: str, seed: int) -> torch.Tensor:
    """The product of matrices, with any leading axes that broadcast."""
    if torch.compiler.is_compiling():
        return _product_operator(a, b, how, back, seed)
    result: torch.Tensor = _Product.apply(a, b, how, back, seed)
    return result
