"""The parts of a module that a recipe addresses: each with its uses and sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..._arrays import sums
from ...torch._devices import is_supported, to_cpu
from .fp32_products import fp32_products
from .products import Convolution, Linear, Matmul, Through
from .scaled import Operand, add_chains, of_elements, scales_of, values_of
from .specs import Cast, Sum
from .uses import Clock, Use, Words

#: Roles of a part with a product, and of one without.
PRODUCT = (
    "forward.input", "forward.weight",
    "input_gradient.grad_output", "input_gradient.weight",
    "weight_gradient.grad_output", "weight_gradient.input",
    "output", "grad_input", "grad_weight",
)  # fmt: skip
POINTWISE = ("input", "weight", "output", "grad_output", "grad_input", "grad_weight")
#: Roles whose spec is a `Sum`.
SUMS = ("forward.sum", "input_gradient.sum", "weight_gradient.sum")


class Adder:
    """The sums of one product: PyTorch's fp32, or `apscope.matmul`."""

    def __init__(self, name: str, sums: Sequence[Sum | None], clock: Clock) -> None:
        self.sums, self._clock = list(sums), clock
        self.operands: tuple[Use, Use]
        self._words = Words(clock, name)

    @property
    def plain(self) -> bool:
        """Whether PyTorch computes the sums in this phase."""
        return self.sums[self._clock.phase] is None

    def _options(self, s: Sum, training: bool) -> dict[str, Any]:
        options: dict[str, Any] = {
            "order": s.order, "accumulate": s.accumulate, "rounding": s.rounding,
            "overflow": s.overflow
        }  # fmt: skip
        if "stochastic" in s.rounding:
            options["seed"] = self._words.next(training)
        return options

    def matmul(
        self, a: Operand, b: Operand, *, training: bool, swapped: bool = False
    ) -> torch.Tensor:
        """The product of matrices, a of the use `operands[0]` and b of `operands[1]`, or swapped."""
        s = self.sums[self._clock.phase]
        if s is not None and s.unit:
            return self._of_unit(s, a, b, swapped)
        a, b = values_of(a), values_of(b)
        if s is None:
            with fp32_products(a.device):
                return torch.matmul(a, b)
        return _ordered(a, b, s.format, product=s.product, **self._options(s, training))

    def _of_unit(self, s: Sum, a: Operand, b: Operand, swapped: bool) -> torch.Tensor:
        first, second = (use.cast for use in self.operands)
        order = s.order_of(second, first) if swapped else s.order_of(first, second)

        def product(x: torch.Tensor, y: torch.Tensor, scales: Any = None) -> torch.Tensor:
            return _ordered(x, y, s.format, order=order, scales=scales)

        if s.scaled:
            return of_elements(
                lambda a, b: product(a.elements, b.elements, scales_of(a, b, s.scaled)), a, b
            )
        return of_elements(lambda a, b: add_chains(a, b, s.promote, product), a, b)

    def of_images(
        self, product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], a: Operand, b: Operand
    ) -> torch.Tensor:
        """A convolution's product: of the elements of a matrix unit, or of the values."""
        s = self.sums[self._clock.phase]
        if s is None or not s.unit:
            return product(values_of(a), values_of(b))
        return of_elements(lambda a, b: product(a.elements, b.elements), a, b)

    def sum(self, rows: torch.Tensor, *, training: bool) -> torch.Tensor:
        """The sum over the first axis, in the product's format and order."""
        s = self.sums[self._clock.phase]
        if s is None:
            return rows.sum(0)
        options = {"order": "sequential"} if s.unit else self._options(s, training)
        if rows.device.type != "cpu":  # products with 1 are exact, so these are the sum's roundings
            ones = torch.ones(1, len(rows), device=rows.device)
            return _ordered(ones, rows, s.format, **options).squeeze(0)
        result: torch.Tensor = sums.sum(rows.detach(), s.format, axis=0, **options)
        return result


def _ordered(
    a: torch.Tensor, b: torch.Tensor, format: Any, *, order: str, scales: Any = None, **options: Any
) -> torch.Tensor:
    """`apscope.matmul`, where the operands are; of what a GPU does not do, on the CPU."""
    device = a.device
    if device.type != "cpu" and (order == "exact" or scales is not None):
        what = f"sums of a product with order={order}"
        a, b = to_cpu(a, what), to_cpu(b, what)
        scales = scales and tuple(to_cpu(scale, what) for scale in scales)
    result: torch.Tensor = sums.matmul(
        a.detach(), b.detach(), format, order=order, scales=scales, **options
    )
    return result.to(device)


class Part:
    """A part of a module, with the methods that its forward function calls.

    Methods take and return fp32 tensors with gradients. `training` is the module's. The kind is
    ``product`` or ``pointwise``; `specs` has a function of a role per phase, which returns a Cast,
    a Sum for the roles of `SUMS`, or None.
    """

    def __init__(
        self, name: str, kind: str, specs: Sequence[Callable[[str], Any]], clock: Clock
    ) -> None:
        self.name, self.kind, self.training = name, kind, True
        self.uses: list[Use] = []
        self._clock = clock
        self._casts: dict[str, list[Cast | None]] = {
            role: [spec(role) for spec in specs]
            for role in (PRODUCT if kind == "product" else POINTWISE)
        }
        self.output = self._use("output")
        self.grad_input = self._use("grad_input")
        self.grad_weight = self._use("grad_weight")
        if kind == "pointwise":
            self.input, self.weight = self._use("input"), self._use("weight")
            self.grad_output = self._use("grad_output")
            return
        self.forward_input, self.weight_gradient_input = self._both("forward.input",
            "weight_gradient.input")  # fmt: skip
        self.forward_weight, self.input_gradient_weight = self._both("forward.weight",
            "input_gradient.weight")  # fmt: skip
        self.input_gradient_grad, self.weight_gradient_grad = self._both(
            "input_gradient.grad_output", "weight_gradient.grad_output")  # fmt: skip
        self.shares_input = self.forward_input is self.weight_gradient_input
        self.shares_weight = self.forward_weight is self.input_gradient_weight
        self.shares_grad = self.input_gradient_grad is self.weight_gradient_grad
        self.adders = {
            role: Adder(f"{name}|{role}", [spec(role) for spec in specs], clock) for role in SUMS
        }
        self.forward_sum, self.input_gradient_sum, self.weight_gradient_sum = self.adders.values()
        self.forward_sum.operands = self.forward_input, self.forward_weight
        self.input_gradient_sum.operands = self.input_gradient_grad, self.input_gradient_weight
        self.weight_gradient_sum.operands = self.weight_gradient_grad, self.weight_gradient_input
        if any(s is not None and s.unit for adder in self.adders.values() for s in adder.sums):
            self._keep_scales_apart()

    def _keep_scales_apart(self) -> None:
        """The operands of a matrix unit: elements of a format, with scales that it does not see."""
        for use in self.uses:
            if use.role.rpartition(".")[2] not in ("input", "weight", "grad_output"):
                continue
            for cast in filter(None, use.casts):
                try:
                    _ = cast.elements
                except ValueError:
                    raise ValueError(
                        f"{self.name}, {use.role}: the values of {cast} are not elements of a "
                        "float format with scales, which a matrix unit needs; give a float format, "
                        "a block format, or a scheme of a float format"
                    ) from None
            use.apart = True

    @property
    def active(self) -> bool:
        """Whether anything is rounded in this phase."""
        return any(u.cast is not None for u in self.uses) or (
            self.kind == "product" and not all(a.plain for a in self.adders.values())
        )

    def _use(self, role: str) -> Use:
        made = Use(self.name, role, self._casts[role], self._clock)
        if any(made.casts):
            self.uses.append(made)
        return made

    def _both(self, one: str, other: str) -> tuple[Use, Use]:
        """The uses of one operand in two products: a single one if they are rounded alike."""
        casts = self._casts[one]
        if casts == self._casts[other] and not any(c and c.along_the_sum for c in casts):
            tensor = one.partition(".")[2]
            made = Use(self.name, tensor, casts, self._clock)
            if any(casts):
                self.uses.append(made)
            return made, made
        return self._use(one), self._use(other)

    def linear(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """``x @ weight.T + bias``: x of shape (..., k), weight of shape (n, k)."""
        _check(x)
        rows = x.reshape(-1, x.shape[-1])
        y: torch.Tensor = Linear.apply(self, rows, weight, bias)
        return y.reshape(*x.shape[:-1], weight.shape[0])

    def matmul(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """``a @ b``: a, the input, of shape (..., m, k), b, the weight, of shape (..., k, n)."""
        _check(a)
        y: torch.Tensor = Matmul.apply(self, a, b)
        return y

    def conv2d(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int] = (0, 0),
        dilation: tuple[int, int] = (1, 1),
        groups: int = 1,
    ) -> torch.Tensor:
        """A convolution of images of shape (batch, channels, height, width)."""
        _check(x)
        for use in self.uses:
            if use.apart and use.cast is not None and use.cast.kind == "blocks":
                raise ValueError(
                    f"{self.name}, {use.role}: {use.cast} has several scales in a chain of a "
                    "convolution's sum, which a matrix unit cannot take; give a float format"
                )
        y: torch.Tensor = Convolution.apply(
            self, x, weight, bias, tuple(stride), tuple(padding), tuple(dilation), groups
        )
        return y

    def through_input(self, x: torch.Tensor) -> torch.Tensor:
        """A part without a product: casts its input, and backward the input's gradient."""
        _check(x)
        y: torch.Tensor = Through.apply(x, self.input, self.grad_input, self.training)
        return y

    def through_weight(self, w: torch.Tensor) -> torch.Tensor:
        """Casts a parameter, and in the backward pass its gradient."""
        y: torch.Tensor = Through.apply(w, self.weight, self.grad_weight, self.training)
        return y

    def through_output(self, y: torch.Tensor) -> torch.Tensor:
        """Casts the output, and in the backward pass the output's gradient."""
        z: torch.Tensor = Through.apply(y, self.output, self.grad_output, self.training)
        return z


def _check(x: torch.Tensor) -> None:
    if x.dtype != torch.float32 or not is_supported(x):
        raise TypeError(
            f"an operand is a tensor of {x.dtype} on {x.device}; a quantized model computes in "
            "float32, on the CPU or a CUDA GPU, whatever the formats: leave out autocast and half()"
        )
    if torch._C._are_functorch_transforms_active():
        raise NotImplementedError(
            "a quantized model has no rule for torch.func (grad, vmap): use backward(), and "
            "Workers(batched=False)"
        )
