"""FracTrain's progressive schedule: layers in few integers, in more once the loss stalls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from .._arrays.checks import integer, number
from .._arrays.draws import Draws
from .._schemes.exchange import exchange
from ..studies.fractrain import relative_cost
from ..torch._states import check_state, check_tensors
from ._integers import to_integers
from ._layers import LayerMode, Product

_NOTHING = np.zeros((1, 1), np.float32)


class FracTrain(LayerMode):
    """Layers with integer weights, activations and gradients, of a width that follows the loss.

    Inside the context, of every linear layer and convolution with inputs x, weights W and gradient
    g of its output,

        y = x' W' + b,  gx = g' W',  gW = g' x',  gb = sum g'
        x', W' = A(x), A(W) with `bits`[stage], to nearest;  g' = A(g) with `gradient_bits`[stage],
        stochastically;  A(v) = min + step round((v - min) / step), step = (max - min) / (2^b - 1)

    with the smallest and largest element of the tensor. `observe` receives a loss per epoch (or
    other interval): the stage grows by one when the last 5 losses stall, by the code of the scheme
    `fractrain` (docs/definitions.md, section 8).

    Source: Y. Fu et al., FracTrain, arXiv:2012.13113, and its code: the quantizer, the indicator
    and the widths 3/4/6/8 and 6/6/8/8 with epsilon 0.05, alpha 0.3 are its example. This is the
    progressive part, PFQ. The dynamic part, DFQ, in which a trained gate chooses every layer's
    widths for every input, is not implemented.

    Parameters
    ----------
    model : torch.nn.Module
        Not changed. Its parameters are fp32 or fp64, on the CPU.
    bits, gradient_bits : sequence of int
        Widths of the stages, 1 to 16, in two sequences of equal length. One width is constant.
    epsilon : float
        Losses stall if they are closer than this share of the mean of the first ones.
    alpha : float
        Factor on epsilon at the first and second turning point.
    skip : sequence of str
        Layers that are not rounded.
    seed : int, 0 to 2**64 - 1
        Seed of the gradients: each uses the next call of ``Draws(seed)``.

    Attributes
    ----------
    stage : int
        Number of turning points so far.
    cost : float
        Cost of all passes so far, in multiplications of 32 by 32 bits: one of b and c bits costs b
        c / 32^2; each of a layer's two backward products costs as many as its forward product.
    full_cost : float
        The same with 32 bits everywhere. Both count all three products of every layer in every
        pass.

    Raises
    ------
    TypeError
        Not a module.
    ValueError
        Widths out of range or in different numbers; a layer to skip that is not in the model.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(4, 2)
    >>> schedule = FracTrain(model, bits=(3, 8), gradient_bits=(6, 8))
    >>> for loss in [1.0] * 6:
    ...     stage = schedule.observe(loss)
    >>> stage, schedule.widths
    (1, (8, 8))
    """

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        bits: Sequence[int] = (3, 4, 6, 8),
        gradient_bits: Sequence[int] = (6, 6, 8, 8),
        epsilon: float = 0.05,
        alpha: float = 0.3,
        skip: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        self.bits = tuple(integer("bits", b, 1, 16) for b in bits)
        self.gradient_bits = tuple(integer("gradient_bits", b, 1, 16) for b in gradient_bits)
        if not self.bits or len(self.bits) != len(self.gradient_bits):
            raise ValueError(
                f"bits has {len(self.bits)} widths and gradient_bits has "
                f"{len(self.gradient_bits)}; give one of each per stage"
            )
        unknown = set(skip) - set(self._names.values())
        if unknown:
            raise ValueError(f"skip has {min(unknown)!r}, which is not a layer of the model")
        self._skip = frozenset(skip)
        widths = "/".join(map(str, self.bits))
        self._spec = f"fractrain:bits={widths},epsilon={epsilon!r},alpha={alpha!r}"
        self._memory: dict[str, np.ndarray] = {}
        self.observed, self.cost, self.full_cost = 0, 0.0, 0.0
        self._draws = Draws(integer("seed", seed, 0, 2**64 - 1))
        exchange(self._spec, _NOTHING, loss=0.0)  # refuses epsilon and alpha

    @property
    def stage(self) -> int:
        """Turning points so far."""
        return int(self._memory["indicator"][0]) if self._memory else 0

    @property
    def widths(self) -> tuple[int, int]:
        """The current widths: of activations and weights, and of gradients."""
        return self.bits[self.stage], self.gradient_bits[self.stage]

    def observe(self, loss: float) -> int:
        """Passes the loss of an epoch to the schedule; returns the stage of the next epoch."""
        made = exchange(
            self._spec, _NOTHING, loss=float(loss), step=self.observed, state=self._memory
        )
        self._memory, self.observed = made.state, self.observed + 1
        return self.stage

    def layer(
        self, name: str, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, product: Product
    ) -> torch.Tensor:
        """The layer in integers."""
        if name in self._skip:
            return product.with_bias(product.output(x, w), b)
        y: torch.Tensor = _Layer.apply(x, w, b, product, *self.widths, self._draws)
        operations = product.forward_operations(y, w)
        a, g = self.widths
        self.full_cost += 3 * operations
        self.cost += 3 * operations * relative_cost(a, a, g).percent / 100
        return y

    def state_dict(self) -> dict[str, Any]:
        """Everything that later passes depend on, as tensors and numbers."""
        return {
            "spec": self._spec,
            "gradient_bits": list(self.gradient_bits),
            "seed": self._draws.seed,
            "calls": self._draws.calls,
            "observed": self.observed,
            "cost": [self.cost, self.full_cost],
            "memory": {name: torch.from_numpy(row.copy()) for name, row in self._memory.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from another run's state, with the same bits.

        Raises
        ------
        ValueError
            The state of another schedule or seed.
        """
        mine = self.state_dict()
        check_state(state, mine, {key: mine[key] for key in ("spec", "gradient_bits", "seed")})
        draws = Draws(state["seed"], integer("calls", state["calls"], 0, 2**62))
        observed = integer("observed", state["observed"], 0, 2**62)
        if not isinstance(state["cost"], list) or len(state["cost"]) != 2:
            raise ValueError("the state's cost must be a list of two numbers")
        cost, full_cost = (number("cost", one) for one in state["cost"])
        if self._memory:
            check_tensors("memory", state["memory"], mine["memory"])
        elif not isinstance(state["memory"], Mapping) or not all(
            isinstance(row, torch.Tensor) for row in state["memory"].values()
        ):
            raise ValueError("the state's memory must have tensors by name")
        self._draws, self.observed, self.cost, self.full_cost = draws, observed, cost, full_cost
        self._memory = {name: row.numpy().copy() for name, row in state["memory"].items()}


def _affine(x: torch.Tensor, bits: int, seed: int | None = None) -> torch.Tensor:
    """The nearest of 2^bits even levels from the smallest to the largest element, or a draw."""
    if x.numel() == 0:
        return x.clone()
    wide = x.detach().double()
    low = wide.min()
    step = ((wide.max() - low) / (2**bits - 1)).clamp(min=1e-8)
    return (low + step * to_integers((wide - low) / step, bits, seed)).to(x.dtype)


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, product: Product,
        bits: int, gradient_bits: int, draws: Draws,
    ) -> torch.Tensor:  # fmt: skip
        x, w = _affine(x, bits), _affine(w, bits)
        ctx.save_for_backward(x, w)
        ctx.product, ctx.bits, ctx.draws = product, gradient_bits, draws
        return product.with_bias(product.output(x, w), b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, w = ctx.saved_tensors
        g = _affine(g, ctx.bits, ctx.draws.next())
        needs = ctx.needs_input_grad
        return (
            ctx.product.input_gradient(g, w, x.shape) if needs[0] else None,
            ctx.product.weight_gradient(g, x, w.shape) if needs[1] else None,
            ctx.product.bias_gradient(g) if needs[2] else None,
            None, None, None, None,
        )  # fmt: skip
