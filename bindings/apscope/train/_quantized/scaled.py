"""An operand of a matrix unit, whose scales the unit does not see: elements and scales, apart.

An element is a value of the cast's format. It stands for element * scale / divisor, where elements of
a block share a scale, and all elements of a tensor the divisor: the scale of a scheme, or a block
format's tensor scale. A unit multiplies and adds elements; the rest is fp32, every step rounded:

    chain * (scale of a * scale of b)     then added: DeepGEMM; qgemm in Transformer Engine's
                                          reference_nvfp4.py (d0067d0d)
    sum * (1 / divisor of a * 1 / divisor of b)

Transformer Engine computes 1 / divisor in fp32 (quantize_fp8.cuh) and gives both numbers to cuBLASLt
(cublaslt_gemm.cu). That they are multiplied with each other first is what it does itself for NVFP4
(recipe/nvfp4.cu: alpha), there with both amax in place of the divisors, so last bits can differ; what
cuBLASLt does with them is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from ..._arrays.blocks import decode_blocks, encode_blocks, unpack
from ..._arrays.casts import decode, encode, quantize
from ..._core import BlockFormat, FloatFormat
from ..._schemes.exchange import exchange
from ..._schemes.scheme import Scheme


class Scaled(NamedTuple):
    """Elements, values of their format; the scale of each, None if all are 1; a divisor of all.

    All are on one device: a GPU divides by a number of the CPU as by its inverse.
    """

    elements: torch.Tensor
    scales: torch.Tensor | None
    divisor: torch.Tensor

    @property
    def values(self) -> torch.Tensor:
        """What the elements stand for."""
        scaled = self.elements if self.scales is None else self.elements * self.scales
        return scaled / self.divisor

    @property
    def inverse(self) -> torch.Tensor:
        """What a sum of products of elements is multiplied by, in place of a division."""
        return 1 / self.divisor

    def map(self, f: Callable[[torch.Tensor], torch.Tensor]) -> Scaled:
        """f of the elements and of their scales, which it must move alike."""
        return Scaled(
            f(self.elements), None if self.scales is None else f(self.scales), self.divisor
        )

    @property
    def T(self) -> Scaled:
        """Transposed, as a tensor's ``T``."""
        return self.map(lambda t: t.T)

    @property
    def mT(self) -> Scaled:
        """Matrices transposed, as a tensor's ``mT``."""
        return self.map(lambda t: t.mT)

    def reshape(self, *shape: Any) -> Scaled:
        """In another shape, as a tensor's ``reshape``."""
        return self.map(lambda t: t.reshape(*shape))

    def to(self, device: torch.device) -> Scaled:
        """On a device, as a tensor's ``to``."""
        return Scaled(*(t if t is None else t.to(device) for t in self))


Operand: TypeAlias = torch.Tensor | Scaled


def values_of(operand: Operand) -> torch.Tensor:
    """The values of an operand of either kind."""
    return operand.values if isinstance(operand, Scaled) else operand


def scaled_blocks(x: torch.Tensor, format: BlockFormat, axis: int = -1, **how: Any) -> Scaled:
    """What `quantize_blocks` gives, apart."""
    encoded = encode_blocks(x, format, axis=axis, **how)
    ones = encode(torch.ones(x.shape, device=x.device), format.element)
    one = 1.0 if format.tensor_scale else None
    scales = decode_blocks(ones, encoded.scales, format, axis=axis, tensor_scale=one)
    divisor = x.new_full((), encoded.tensor_scale or 1.0)
    return Scaled(decode(encoded.codes, format.element), scales, divisor)


def scaled_message(
    x: torch.Tensor,
    sent: torch.Tensor,
    scheme: Scheme,
    element: FloatFormat,
    before: Mapping[str, Any],
) -> Scaled:
    """What a scheme decoded of x, `sent`, apart; both have one dimension, on the CPU.

    `before` is the state of its `Exchanger` before that exchange.

    Raises
    ------
    ValueError
        `sent` is not elements over the scale that the amax of x decides.
    """
    divisor = _divisor(x.numpy(), sent.numpy(), scheme, element, before)
    if divisor is not None:
        nearest = quantize(sent * divisor, element, overflow="propagate")
        made = Scaled(nearest, None, divisor)
        if np.array_equal(made.values.numpy(), sent.numpy(), equal_nan=True):
            return made
    raise ValueError(
        f"the values of {scheme} are not elements of {element} over one scale, by the amax of the "
        "tensor, which a matrix unit needs"
    )


def _divisor(
    x: np.ndarray, sent: np.ndarray, scheme: Scheme, element: FloatFormat, before: Mapping[str, Any]
) -> torch.Tensor | None:
    """The scale of the exchange; None where it is unknown.

    Three elements are exchanged again: the one with the largest finite result, the largest finite
    one, and one that is not finite, if there is one. Decoded numbers are fp64 there, so that the
    fp32 number nearest to element / decoded is the scale.
    """
    if sent.size == 0:
        return torch.ones((), device="cpu")
    shown, *_ = _largest(sent)
    if sent[shown] == 0 or not np.isfinite(sent[shown]):
        return torch.ones((), device="cpu")
    kept = [shown, *_largest(x)]
    state = {name: row.numpy() for rows in before["memory"].values() for name, row in rows.items()}
    try:
        made = exchange(
            scheme, x[None, kept], topology="exact", state=state, step=before["step"],
            seed=before["seed"],
        )  # fmt: skip
        packed = np.frombuffer(made.payload[0], np.uint8)
        code = unpack(packed, element.storage_bits, len(kept))[0]
    except ValueError:  # a memory by element, a message of another kind
        return None
    scale = float(decode(code, element)) / float(made.sent[0, 0] or np.nan)
    return torch.tensor(scale, dtype=torch.float32, device="cpu")


def _largest(x: np.ndarray) -> list[int]:
    """The place of the largest finite magnitude, and of a number that is not finite, if any."""
    size = np.abs(x)
    place = int(size.argmax())  # of a NaN, if there is one
    if np.isfinite(size[place]):
        return [place]
    return [int(np.where(np.isfinite(size), size, -1).argmax()), place]


def as_scaled(operand: Operand) -> Scaled:
    """An operand of either kind, apart; the scales of a plain one are 1."""
    if isinstance(operand, Scaled):
        return operand
    return Scaled(operand, None, operand.new_ones(()))


def save(ctx: Any, *operands: Operand) -> None:
    """Saves operands for the backward pass."""
    parts = [tuple(o) if isinstance(o, Scaled) else (o, None, None) for o in operands]
    ctx.save_for_backward(*(tensor for part in parts for tensor in part))


def saved(ctx: Any) -> list[Operand]:
    """The operands that `save` got."""
    tensors = ctx.saved_tensors
    return [
        x if divisor is None else Scaled(x, scales, divisor)
        for x, scales, divisor in zip(tensors[::3], tensors[1::3], tensors[2::3], strict=True)
    ]


def of_elements(
    product: Callable[[Scaled, Scaled], torch.Tensor], a: Operand, b: Operand
) -> torch.Tensor:
    """A product of operands that leaves out the divisors, then multiplied by both inverses."""
    a, b = as_scaled(a), as_scaled(b)
    return product(a, b) * (a.inverse * b.inverse)


def add_chains(
    a: Scaled,
    b: Scaled,
    promote: int | None,
    chain: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """The product of a, (..., m, k), and b, (..., k, n), in chains of `promote` terms; None: one chain.

    Each chain's sum of products of elements is multiplied by the product of both scales, and added
    to the sum of those before in fp32. Without scales `chain` gets all terms.

    Raises
    ------
    ValueError
        A chain whose terms have several scales.
    """
    if a.scales is None and b.scales is None:
        return chain(a.elements, b.elements)
    terms = promote or max(1, a.elements.shape[-1])
    rows, columns = scales_of(
        a, b, terms,
        f"promote={promote} must be a number that divides the number of terms that share one",
    )  # fmt: skip
    total: torch.Tensor | None = None
    for i, first in enumerate(range(0, a.elements.shape[-1], terms)):
        part = slice(first, first + terms)
        products = chain(a.elements[..., part], b.elements[..., part, :])
        scaled = products * (rows[..., i : i + 1] * columns[..., i : i + 1, :])
        total = scaled if total is None else total + scaled
    if total is None:
        return torch.matmul(a.elements, b.elements)
    return total


def scales_of(
    a: Scaled, b: Scaled, terms: int, must: str = "the unit takes one for them"
) -> tuple[torch.Tensor, torch.Tensor]:
    """The scales of a, (..., m, k), and of b, (..., k, n), of every `terms` terms of the sum.

    Raises
    ------
    ValueError
        Terms with several scales; `must` ends the message.
    """
    of_a, of_b = (torch.ones_like(o.elements) if o.scales is None else o.scales for o in (a, b))
    k = of_a.shape[-1]
    rows, columns = of_a[..., ::terms], of_b[..., ::terms, :]
    firsts = torch.arange(k, device=of_a.device) // terms
    pairs = (of_a, rows[..., firsts]), (of_b.mT, columns[..., firsts, :].mT)
    differ = torch.stack(
        [((x != y) & ~(x.isnan() & y.isnan())).flatten(0, -2).any(0) for x, y in pairs]
    ).any(0)
    if bool(differ.any()):
        first = int(differ.int().argmax()) // terms * terms
        raise ValueError(
            f"terms {first} to {min(first + terms, k) - 1} of a sum have several scales; {must}"
        )
    return rows, columns
