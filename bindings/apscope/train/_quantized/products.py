"""Linear maps, convolutions and products, with separately rounded operands in all three products.

    forward           y  = x w           `forward.input`, `forward.weight`
    input gradient    dx = g w           `input_gradient.grad_output`, `input_gradient.weight`
    weight gradient   dw = g x           `weight_gradient.grad_output`, `weight_gradient.input`

Every operand is rounded from the original tensor, never from another rounding of it. A bias is
added in fp32, and its gradient is the sum of the gradient before its rounding. Nothing is changed
in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import conv2d, pad, unfold

from .fp32_products import fp32_products
from .scaled import save, saved, values_of

if TYPE_CHECKING:
    from .parts import Part

Pair = tuple[int, int]


class Linear(torch.autograd.Function):
    """x of shape (rows, k), w of shape (n, k), a bias of shape (n,) or None."""

    @staticmethod
    def forward(
        ctx: Any, part: Part, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        train = ctx.train = part.training
        xq = part.forward_input(x, -1, training=train)
        wq = part.forward_weight(w, -1, training=train)
        y = part.forward_sum.matmul(xq, wq.T, training=train)
        if bias is not None:
            y = y + bias
        ctx.part, ctx.has_bias = part, bias is not None
        save(
            ctx,
            xq if part.shares_input else x.detach(),
            wq if part.shares_weight else w.detach(),
        )
        return part.output(y, -1, training=train)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[Any, ...]:
        part, (x, w), train = ctx.part, saved(ctx), ctx.train
        _, for_x, for_w, for_bias = ctx.needs_input_grad
        dx = dw = dbias = gq = None
        if for_x:
            gq = part.input_gradient_grad(g, -1, training=train)
            wq = w if part.shares_weight else part.input_gradient_weight(w, 0, training=train)
            dx = part.input_gradient_sum.matmul(gq, wq, training=train)
            dx = part.grad_input(dx, -1, training=train)
        if for_w:
            if gq is None or not part.shares_grad:
                gq = part.weight_gradient_grad(g, 0, training=train)
            xq = x if part.shares_input else part.weight_gradient_input(x, 0, training=train)
            dw = part.weight_gradient_sum.matmul(gq.T, xq, training=train)
            dw = part.grad_weight(dw, -1, training=train)
        if ctx.has_bias and for_bias:
            dbias = part.weight_gradient_sum.sum(g, training=train)
            dbias = part.grad_weight(dbias, -1, training=train)
        return None, dx, dw, dbias


class Matmul(torch.autograd.Function):
    """a of shape (..., m, k), b of shape (..., k, n), with equal leading axes.

    a is the part's input, b its weight: its gradient is the weight gradient.
    """

    @staticmethod
    def forward(ctx: Any, part: Part, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        train = ctx.train = part.training
        aq = part.forward_input(a, -1, (-2, -1), training=train)
        bq = part.forward_weight(b, -2, (-2, -1), training=train)
        ctx.part = part
        save(
            ctx,
            aq if part.shares_input else a.detach(),
            bq if part.shares_weight else b.detach(),
        )
        return part.output(part.forward_sum.matmul(aq, bq, training=train), -1, training=train)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[Any, ...]:
        part, (a, b), train = ctx.part, saved(ctx), ctx.train
        m, how = (-2, -1), {"training": ctx.train}
        _, for_a, for_b = ctx.needs_input_grad
        da = db = gq = None
        if for_a:
            gq = part.input_gradient_grad(g, -1, m, **how)
            bq = b if part.shares_weight else part.input_gradient_weight(b, -1, m, **how)
            da = part.input_gradient_sum.matmul(gq, bq.mT, training=train)
            da = part.grad_input(da, -1, m, **how)
        if for_b:
            if gq is None or not part.shares_grad:
                gq = part.weight_gradient_grad(g, -2, m, **how)
            aq = a if part.shares_input else part.weight_gradient_input(a, -2, m, **how)
            db = part.weight_gradient_sum.matmul(aq.mT, gq, training=train, swapped=True)
            db = part.grad_weight(db, -1, m, **how)
        return None, da, db


class Convolution(torch.autograd.Function):
    """x of shape (batch, c, h, w), w of shape (n, c / groups, rows, columns).

    Within a group, blocks lie along the channels in the forward product, along the output channels
    in the input gradient, and along the batch in the weight gradient (as in microxcaling).
    """

    @staticmethod
    def forward(
        ctx: Any,
        part: Part,
        x: torch.Tensor,
        w: torch.Tensor,
        bias: torch.Tensor | None,
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        groups: int,
    ) -> torch.Tensor:
        train = ctx.train = part.training
        xq = _of_groups(part.forward_input, x, groups, 1, train)
        wq = part.forward_weight(w, 1, (0, 1), training=train)
        place = ctx.place = stride, padding, dilation, groups
        adder = part.forward_sum
        y = adder.of_images(lambda x, w: _forward(adder, x, w, place, train), xq, wq)
        if bias is not None:
            y = y + bias[:, None, None]
        ctx.part, ctx.has_bias = part, bias is not None
        save(
            ctx,
            xq if part.shares_input else x.detach(),
            wq if part.shares_weight else w.detach(),
        )
        return part.output(y, 1, (0, 1), training=train)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[Any, ...]:
        part, train, place = ctx.part, ctx.train, ctx.place
        x, w = saved(ctx)
        like_x, like_w = values_of(x), values_of(w)
        m = (0, 1)
        groups = place[3]
        _, for_x, for_w, for_bias, *_ = ctx.needs_input_grad
        dx = dw = dbias = gq = None
        if for_x:
            gq = _of_groups(part.input_gradient_grad, g, groups, 1, train)
            wq = w
            if not part.shares_weight:
                grouped = w.reshape(groups, -1, *like_w.shape[1:])
                wq = part.input_gradient_weight(grouped, 1, (1, 2), training=train)
                wq = wq.reshape(like_w.shape)
            dx = part.input_gradient_sum.of_images(
                lambda g, w: _input_gradient(part.input_gradient_sum, g, like_x, w, place, train),
                gq,
                wq,
            )
            dx = part.grad_input(dx, 1, m, training=train)
        if for_w:
            if gq is None or not part.shares_grad:
                gq = part.weight_gradient_grad(g, 0, m, training=train)
            xq = x if part.shares_input else part.weight_gradient_input(x, 0, m, training=train)
            dw = part.weight_gradient_sum.of_images(
                lambda g, x: _weight_gradient(part.weight_gradient_sum, g, x, like_w, place, train),
                gq,
                xq,
            )
            dw = part.grad_weight(dw, 1, m, training=train)
        if ctx.has_bias and for_bias:
            rows = g.transpose(0, 1).flatten(1).T
            dbias = part.weight_gradient_sum.sum(rows, training=train)
            dbias = part.grad_weight(dbias, -1, training=train)
        return None, dx, dw, dbias, None, None, None, None


def _of_groups(use: Any, x: torch.Tensor, groups: int, axis: int, train: bool) -> torch.Tensor:
    """The cast of images along their channels, each group of channels separately."""
    if groups == 1:
        return use(x, axis, (0, 1), training=train)
    parts = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    return use(parts, 2, (0, 2), training=train).reshape(x.shape)


def _patches(x: torch.Tensor, kernel: Pair, place: tuple[Any, ...]) -> torch.Tensor:
    """(groups, terms, batch * places): terms by channel, row, column; places likewise by image."""
    stride, padding, dilation, groups = place
    patches = unfold(x, kernel, dilation=dilation, padding=padding, stride=stride)
    terms = patches.shape[1] // groups
    return patches.reshape(len(x), groups, terms, -1).permute(1, 2, 0, 3).reshape(groups, terms, -1)


def _rows(images: torch.Tensor, groups: int) -> torch.Tensor:
    """(batch, n, h, w) as (groups, n / groups, batch * places)."""
    return images.transpose(0, 1).reshape(groups, images.shape[1] // groups, -1)


def _forward(
    adder: Any, x: torch.Tensor, w: torch.Tensor, place: tuple[Any, ...], train: bool
) -> torch.Tensor:
    stride, padding, dilation, groups = place
    if adder.plain:
        with fp32_products(x.device):
            return conv2d(x, w, None, stride, padding, dilation, groups)
    kernel = (w.shape[2], w.shape[3])
    size = [
        (x.shape[2 + i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i in (0, 1)
    ]
    y = adder.matmul(w.reshape(groups, len(w) // groups, -1), _patches(x, kernel, place),
                     training=train, swapped=True)  # fmt: skip
    return y.reshape(len(w), len(x), *size).transpose(0, 1).contiguous()


def _input_gradient(
    adder: Any, g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, place: tuple[Any, ...],
    train: bool
) -> torch.Tensor:  # fmt: skip
    """Terms by output channel, row and column of the turned kernel; zeros in a stride's gaps."""
    stride, padding, dilation, groups = place
    if adder.plain:
        return _plain_gradients(g, x, w, place, [True, False, False])[0]
    kernel = (w.shape[2], w.shape[3])
    spread = g.new_zeros(*g.shape[:2], *((g.shape[2 + i] - 1) * stride[i] + 1 for i in (0, 1)))
    spread[:, :, :: stride[0], :: stride[1]] = g
    edges = []
    for i in (1, 0):
        before = dilation[i] * (kernel[i] - 1) - padding[i]
        needed = x.shape[2 + i] + dilation[i] * (kernel[i] - 1)
        edges += [before, needed - before - spread.shape[2 + i]]
    patches = _patches(pad(spread, edges), kernel, ((1, 1), (0, 0), dilation, groups))
    turned = w.flip(2, 3).reshape(groups, len(w) // groups, -1, *kernel).transpose(1, 2)
    rows = turned.reshape(groups, turned.shape[1], -1)
    y = adder.matmul(rows, patches, training=train, swapped=True)
    return y.reshape(x.shape[1], len(x), *x.shape[2:]).transpose(0, 1).contiguous()


def _weight_gradient(
    adder: Any, g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, place: tuple[Any, ...],
    train: bool
) -> torch.Tensor:  # fmt: skip
    """Terms by image, row and column of the output."""
    if adder.plain:
        return _plain_gradients(g, x, w, place, [False, True, False])[1]
    patches = _patches(x, (w.shape[2], w.shape[3]), place)
    return adder.matmul(_rows(g, place[3]), patches.mT, training=train).reshape(w.shape)


def _plain_gradients(
    g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, place: tuple[Any, ...], needs: list[bool]
) -> Any:
    """PyTorch's own gradients of image, kernel and bias."""
    stride, padding, dilation, groups = place
    with fp32_products(g.device):
        return torch.ops.aten.convolution_backward(
            g, x, w, None, stride, padding, dilation, False, [0, 0], groups, needs
        )


class Through(torch.autograd.Function):
    """One cast in the forward and another in the backward pass, each of the whole tensor."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, there: Any, back: Any, train: bool) -> torch.Tensor:
        ctx.back, ctx.train = back, train
        y = there(x, -1, training=train)
        return x.view_as(x) if y is x else y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return ctx.back(g, -1, training=ctx.train), None, None, None
