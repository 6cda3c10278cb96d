"""The public functions: arguments are checked and written as texts, then an operator runs."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import unfold

from .._arrays.inputs import FormatLike
from .._core import BlockFormat
from ._operators import cast, product
from ._settings import seed_of, text_of


def quantize(
    x: torch.Tensor, format: FormatLike, *, backward: FormatLike | None = None, **options: Any
) -> torch.Tensor:
    """`apscope.quantize` of a tensor, with a gradient.

    Parameters
    ----------
    x : floating-point tensor of any shape
        On the CPU, without a copy if it is contiguous fp32 or fp64; on a GPU as `apscope.cuda`
        takes it. Not changed.
    format : FloatFormat, str or dtype
    backward : FloatFormat, str or dtype, optional
        The gradient is rounded to this format, with the same options; by default it passes
        unchanged (straight-through).
    **options
        Those of `apscope.quantize`: scale, projection or rounding, overflow, underflow,
        random_bits; seed (a `Draws` draws other words at every call), threads. Neither out nor
        random.

    Returns
    -------
    tensor of x's shape, contiguous
        float64 for float64 and for formats beyond float32, else float32. Under ``vmap`` each entry
        of a batch is a separate call, with the same random words.

    Raises
    ------
    ValueError, TypeError
        As `apscope.quantize`; x is not a tensor.
    """
    _check(x=x)
    seed = seed_of(options.pop("seed", 0))
    how = text_of("quantize", format, options)
    return cast(x, how, "" if backward is None else text_of("quantize", backward, options), seed)


def quantize_blocks(
    x: torch.Tensor,
    format: BlockFormat | str,
    *,
    axis: int = -1,
    backward: BlockFormat | str | None = None,
    **options: Any,
) -> torch.Tensor:
    """`apscope.quantize_blocks` of a tensor, with a gradient.

    Parameters
    ----------
    x : floating-point tensor, at least one dimension
        As for `quantize`.
    format : BlockFormat or str
    axis : int
        Blocks are along this axis.
    backward : BlockFormat or str, optional
        The gradient is rounded to this format, with the same axis and options; by default it passes
        unchanged (straight-through).
    **options
        Those of `apscope.quantize_blocks`.

    Returns
    -------
    tensor of x's shape, contiguous
        float64 for float64, else float32. Under ``vmap`` each entry of a batch is a separate call:
        a tensor scale (NVFP4) is one per entry.

    Raises
    ------
    ValueError, TypeError
        As `apscope.quantize_blocks`; x is not a tensor.
    """
    _check(x=x)
    seed = seed_of(options.pop("seed", 0))
    with_axis = options | {"axis": axis}
    how = text_of("quantize_blocks", format, with_axis)
    back = "" if backward is None else text_of("quantize_blocks", backward, with_axis)
    return cast(x, how, back, seed)


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    format: FormatLike,
    *,
    backward: FormatLike | None = None,
    **options: Any,
) -> torch.Tensor:
    """`apscope.matmul` of tensors, every multiplication and addition rounded once, with a gradient.

    Parameters
    ----------
    a : floating-point tensor of shape (..., m, k) or (k,)
    b : floating-point tensor of shape (..., k, n) or (k,)
        Leading axes broadcast.
    format : FloatFormat, str or dtype
    backward : FloatFormat, str or dtype, optional
        The two products of the gradient are `apscope.matmul` in this format, with the same options;
        by default they are torch's own, in the result's dtype.
    **options
        Those of `apscope.matmul`: order, product, accumulate, projection or its parts, seed,
        threads.

    Returns
    -------
    tensor of shape (..., m, n), without m or n if an operand is a vector
        float32, or float64 if the format has values beyond it.

    Raises
    ------
    ValueError, TypeError
        As `apscope.matmul`; a or b is not a tensor.
    """
    _check(a=a, b=b)
    if a.dim() == 0 or b.dim() == 0:
        raise ValueError("matmul takes vectors and matrices, not a tensor without an axis")
    seed = seed_of(options.pop("seed", 0))
    how = text_of("matmul", format, options)
    back = "" if backward is None else text_of("matmul", backward, options)
    x = a.unsqueeze(0) if a.dim() == 1 else a
    y = b.unsqueeze(1) if b.dim() == 1 else b
    if x.shape[-1] != y.shape[-2]:
        raise ValueError(
            f"a of shape {tuple(a.shape)} and b of shape {tuple(b.shape)} cannot be multiplied: k "
            f"is {x.shape[-1]} and {y.shape[-2]}; give equal k"
        )
    result = product(x, y, how, back, seed)
    if b.dim() == 1:
        result = result.squeeze(-1)
    return result.squeeze(-2 if b.dim() > 1 else -1) if a.dim() == 1 else result


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    format: FormatLike,
    backward: FormatLike | None = None,
    **options: Any,
) -> torch.Tensor:
    """``x @ weight.T + bias``: the product by `matmul`, the bias added in fp32.

    Parameters
    ----------
    x : floating-point tensor of shape (..., k)
    weight : floating-point tensor of shape (n, k)
    bias : floating-point tensor of shape (n,), optional
    format, backward, **options
        As for `matmul`.

    Returns
    -------
    tensor of `matmul`'s dtype and of shape (..., n)

    Raises
    ------
    ValueError, TypeError
        As `matmul`.
    """
    _check(x=x, weight=weight)
    if x.dim() == 0 or weight.dim() != 2 or x.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"x of shape {tuple(x.shape)} and weight of shape {tuple(weight.shape)} cannot be "
            "multiplied; give (..., k) and (n, k)"
        )
    rows = x.reshape(-1, x.shape[-1])
    result = matmul(rows, weight.T, format, backward=backward, **options)
    result = result.reshape(*x.shape[:-1], weight.shape[0])
    return _with_bias(result, bias, (weight.shape[0],))


def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    format: FormatLike,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    backward: FormatLike | None = None,
    **options: Any,
) -> torch.Tensor:
    """A convolution: `matmul` of the weight and the image's patches, the bias added in fp32.

    The terms of an output are in the order of channel, row and column of the kernel; places in the
    padding are zeros among them. Those of a weight's gradient are in the order of image, row and
    column of the output. Element i of (groups, n / groups, batch, height, width) uses random word
    i.

    Parameters
    ----------
    x : floating-point tensor of shape (batch, channels, height, width)
    weight : floating-point tensor of shape (n, channels / groups, rows, columns)
    bias : floating-point tensor of shape (n,), optional
    stride, padding, dilation, groups
        As for ``torch.nn.functional.conv2d``.
    format, backward, **options
        As for `matmul`.

    Returns
    -------
    tensor of `matmul`'s dtype and of shape (batch, n, height, width) of the output

    Raises
    ------
    ValueError, TypeError
        As `matmul`; shapes that do not match.
    """
    _check(x=x, weight=weight)
    fits = x.dim() == weight.dim() == 4 and groups >= 1
    if not fits or x.shape[1] != groups * weight.shape[1] or weight.shape[0] % groups != 0:
        raise ValueError(
            f"x of shape {tuple(x.shape)} and weight of shape {tuple(weight.shape)} do not match "
            f"for {groups} groups; give (batch, c, h, w) and (n, c / groups, rows, columns)"
        )
    step, edge, gap = (
        _pair("stride", stride),
        _pair("padding", padding),
        _pair("dilation", dilation),
    )
    batch, n, kernel = x.shape[0], weight.shape[0], (weight.shape[2], weight.shape[3])
    size = [
        (x.shape[2 + i] + 2 * edge[i] - gap[i] * (kernel[i] - 1) - 1) // step[i] + 1
        for i in range(2)
    ]
    if min(size) < 1:
        raise ValueError(
            f"x of shape {tuple(x.shape)} with padding {edge} is smaller than a kernel of "
            f"{kernel} with dilation {gap}"
        )
    wide = x if x.dtype == torch.float64 else x.float()
    patches = unfold(wide, kernel, dilation=gap, padding=edge, stride=step)
    terms, places = weight.shape[1] * kernel[0] * kernel[1], size[0] * size[1]
    patches = patches.reshape(batch, groups, terms, places).permute(1, 2, 0, 3)
    result = matmul(
        weight.reshape(groups, n // groups, terms),
        patches.reshape(groups, terms, batch * places),
        format,
        backward=backward,
        **options,
    )
    result = result.reshape(n, batch, *size).transpose(0, 1).contiguous()
    return _with_bias(result, bias, (n, 1, 1))


def _pair(name: str, value: Any) -> tuple[int, int]:
    """One number for both axes, or one for each."""
    if isinstance(value, str) or (isinstance(value, tuple | list) and len(value) != 2):
        raise ValueError(f"{name}={value!r} must be a number, or two")
    first, second = value if isinstance(value, tuple | list) else (value, value)
    return first, second


def _with_bias(
    result: torch.Tensor, bias: torch.Tensor | None, shape: tuple[int, ...]
) -> torch.Tensor:
    """The sum in the result's dtype; the bias, a vector, is put along the axis of that shape."""
    if bias is None:
        return result
    _check(bias=bias)
    if tuple(bias.shape) != shape[:1]:
        raise ValueError(f"bias has shape {tuple(bias.shape)}; give one of shape {shape[:1]}")
    return result + bias.to(result.dtype).reshape(shape)


def _check(**tensors: Any) -> None:
    for name, value in tensors.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"{name} is {type(value).__name__}; give a torch.Tensor, or call apscope's "
                "function of the same name"
            )
        if value.layout is not torch.strided:
            raise TypeError(f"{name} is {value.layout}; give {name}.to_dense()")
        if not value.is_floating_point():
            raise TypeError(f"{name} has dtype {value.dtype}; give a floating-point tensor")
