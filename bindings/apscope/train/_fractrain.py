"""FracTrain: layers in few integers, in more once the loss stalls, or as trained gates choose."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .._arrays.checks import integer, number
from .._arrays.draws import Draws
from .._schemes.exchange import exchange
from ..studies.fractrain import relative_cost
from ..torch._states import check_state, check_tensors
from ._fractrain_blocks import Choice, GatedBlocks, added
from ._fractrain_gates import Gates
from ._fractrain_levels import Rounded, RoundedGradient, extremes, row_extremes
from ._layers import LayerMode, Product

_NOTHING = np.zeros((1, 1), np.float32)
_BITS, _GRADIENT_BITS = (3, 4, 6, 8), (6, 6, 8, 8)


class FracTrain(LayerMode):
    """Layers with integer weights, activations and gradients, of widths that follow the training.

    Inside the context, of every linear layer and convolution with inputs x, weights W and gradient
    g of its output,

        y = x' W' + b,  gx = g' W',  gW = g' x',  gb = sum g'
        x', W' = A(x), A(W) with `bits`[stage], to nearest;  g' = A(g) with `gradient_bits`[stage],
        stochastically;  A(v) = min + step round((v - min) / step), step = (max - min) / (2^b - 1)

    with the smallest and largest element of the tensor, of W per output channel. A layer in
    evaluation mode takes running values of x, r = momentum r + (1 - momentum) new of min and of
    max - min, which its passes in training mode have left, and clamps what lies outside; a pass
    whose x is not finite leaves them as they are.

    `observe` receives a loss per epoch (or other interval): the stage grows by one when the last 5
    losses stall, by the code of the scheme `fractrain` (docs/definitions.md, section 8).

    With `gates` (the method's dynamic part, DFQ) a small network, trained with the model, chooses
    the widths of every residual block for every sample (`Gates`). Layers outside of the blocks, the
    first and the last among them, are not rounded, and a stage is a target of the cost. One target
    is DFQ alone; without gates the class is PFQ alone.

    Source: Y. Fu et al., FracTrain, arXiv:2012.13113, and its code: the quantizer, the indicator
    and the widths 3/4/6/8 and 6/6/8/8 with epsilon 0.05, alpha 0.3 are its example. Its last linear
    layer is not rounded: name yours in `skip`.

    Parameters
    ----------
    model : torch.nn.Module
        Not changed. Its parameters are fp32 or fp64, on the CPU.
    bits, gradient_bits : sequence of int
        Widths of the stages, 1 to 16, in two sequences of equal length. One width is constant.
        Not with gates.
    epsilon : float
        Losses stall if they are closer than this share of the mean of the first ones.
    alpha : float
        Factor on epsilon at the first and second turning point.
    skip : sequence of str
        Layers that are not rounded.
    seed : int, 0 to 2**64 - 1
        Seed of the gradients: each uses the next call of ``Draws(seed)``.
    gates : Gates, optional
        Blocks and pairs of widths. Adds ``network``, whose parameters, with weights from PyTorch's
        generator, the optimizer needs too, and `regularizer`, which is added to the loss.
    momentum : float, 0 to 1
        Of the running values for evaluation.

    Attributes
    ----------
    stage : int
        Number of turning points so far.
    cost : float
        Cost of all passes so far, in multiplications of 32 by 32 bits: one of b and c bits costs b
        c / 32^2; each of a layer's two backward products costs as many as its forward product.
        A gate's own multiplications are not included.
    full_cost : float
        The same with 32 bits everywhere. Both count all three products of every rounded layer in
        every pass.
    network : torch.nn.Module
        The gates; without `gates` it has no parameters.

    Raises
    ------
    TypeError
        Not a module.
    ValueError
        Widths out of range or in different numbers; a layer to skip that is not in the model; a
        block that is not in it, or has no layer.

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
        bits: Sequence[int] = _BITS,
        gradient_bits: Sequence[int] = _GRADIENT_BITS,
        epsilon: float = 0.05,
        alpha: float = 0.3,
        skip: Sequence[str] = (),
        seed: int = 0,
        gates: Gates | None = None,
        momentum: float = 0.9,
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
        self._owners = {
            name.removesuffix(".weight"): model.get_submodule(name.rpartition(".")[0])
            for name, _ in model.named_parameters()
        }
        if not 0 <= number("momentum", momentum) <= 1:
            raise ValueError(f"momentum={momentum!r} must be from 0 to 1")
        self.momentum = float(momentum)
        self.gates, self._blocks = gates, None if gates is None else GatedBlocks(model, gates)
        if gates is not None and (self.bits, self.gradient_bits) != (_BITS, _GRADIENT_BITS):
            raise ValueError(
                f"bits={self.bits} or gradient_bits={self.gradient_bits} is given with gates; give "
                "the widths as their activations and gradients"
            )
        stages = self.bits if gates is None else (1,) * len(gates.targets)
        widths = "/".join(map(str, stages))
        self._spec = f"fractrain:bits={widths},epsilon={epsilon!r},alpha={alpha!r}"
        self._memory: dict[str, np.ndarray] = {}
        self._extremes: dict[str, torch.Tensor] = {}
        self.observed, self.cost, self.full_cost = 0, 0.0, 0.0
        self._draws = Draws(integer("seed", seed, 0, 2**64 - 1))
        self._replaced = contextlib.ExitStack()
        exchange(self._spec, _NOTHING, loss=0.0)  # refuses epsilon and alpha

    def __enter__(self) -> Any:
        """Layers and gated blocks are computed in integers until the context ends."""
        entered = super().__enter__()
        if self._blocks is not None:
            self._replaced.enter_context(self._blocks.replaced())
        return entered

    def __exit__(self, *raised: Any) -> None:
        self._replaced.close()
        super().__exit__(*raised)

    @property
    def network(self) -> torch.nn.Module:
        """The gates, to be trained with the model; without gates it has no parameters."""
        return torch.nn.Module() if self._blocks is None else self._blocks.network

    @property
    def stage(self) -> int:
        """Turning points so far."""
        return int(self._memory["indicator"][0]) if self._memory else 0

    @property
    def widths(self) -> tuple[int, int]:
        """The current widths: of activations and weights, and of gradients."""
        if self.gates is not None:
            raise RuntimeError("the gates choose the widths of every sample; see choices")
        return self.bits[self.stage], self.gradient_bits[self.stage]

    @property
    def choices(self) -> torch.Tensor:
        """Whether a sample of the last pass has chosen a pair: (blocks, samples, pairs), bool."""
        return torch.stack([m.detach() > 0.5 for m in self._pass()])

    @property
    def percent(self) -> float:
        """Cost of the last pass by the method's own formula, cp of `Gates`."""
        chosen = self._pass()
        gates = self._gates()
        return gates.percent(gates.cost(chosen).item(), len(chosen[0]))

    def regularizer(self, loss: torch.Tensor | float | None = None) -> torch.Tensor:
        """r beta C / mean f_l of the last pass, to be added to its loss; 0 without gates.

        `loss`, the cross entropy of the pass, is needed for gates with ``ada_beta=True`` alone.
        """
        if self.gates is None:
            return torch.zeros(())
        entropy = loss.item() if isinstance(loss, torch.Tensor) else loss
        return self.gates.regularizer(self._pass(), self.stage, entropy)

    def observe(self, loss: float) -> int:
        """Passes the loss of an epoch to the schedule; returns the stage of the next epoch.

        A NaN does not differ from any loss, so five of them are a turning point. With gates, the
        source's loss includes the regularizer.
        """
        made = exchange(
            self._spec, _NOTHING, loss=float(loss), step=self.observed, state=self._memory
        )
        self._memory, self.observed = made.state, self.observed + 1
        return self.stage

    def layer(
        self, name: str, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, product: Product
    ) -> torch.Tensor:
        """The layer in integers."""
        choices = self._choices() if name not in self._skip and x.numel() and w.numel() else ()
        if not choices:
            return product.with_bias(product.output(x, w), b)
        if self.gates is not None and product.is_depthwise(w):
            choices = (choices[0].constant(*self.gates.depthwise),)
        w = Rounded.apply(w, choices[0].weight, *row_extremes(w))
        x = added([c.part(self._rounded(name, x, c.input)) for c in choices])
        y = product.with_bias(product.output(x, w), b)
        operations = product.forward_operations(y, w)
        for c in choices:
            relative = relative_cost(c.input or 32, c.weight, c.gradient or 32).percent / 100
            self.full_cost += 3 * operations * c.full_share
            self.cost += 3 * operations * c.share * relative
        return added([c.fixed().part(self._rounds_gradient(y, c.gradient)) for c in choices])

    def _choices(self) -> tuple[Choice, ...]:
        """The widths of the layer that is being computed; none outside of gated blocks."""
        if self._blocks is not None:
            return self._blocks.choices
        bits, gradient_bits = self.widths
        return (Choice(bits, bits, gradient_bits),)

    def _rounded(self, name: str, x: torch.Tensor, bits: int) -> torch.Tensor:
        """A layer's input in so many bits; 0 leaves it as it is."""
        if not bits:
            return x
        rounded: torch.Tensor = Rounded.apply(x, bits, *self._range(name, x))
        return rounded

    def _rounds_gradient(self, y: torch.Tensor, bits: int) -> torch.Tensor:
        """The output, whose gradient is rounded to so many bits; 0 leaves it as it is."""
        if not bits:
            return y
        same: torch.Tensor = RoundedGradient.apply(y, bits, self._draws)
        return same

    def _range(self, name: str, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Minimum of a layer's input, and its distance from the maximum; of evaluation, running."""
        running = self._extremes.get(name)
        if not self._owners[name].training:
            if running is None:
                raise RuntimeError(
                    f"layer {name!r} is evaluated before any pass in training mode, which finds "
                    "the range of its input; train first, or call model.train()"
                )
            low, width = running.to(x.dtype)
            return low, width
        low, width = extremes(x)
        new = torch.stack([low, width])
        if new.isfinite().all():
            before = torch.zeros_like(new) if running is None else running.to(x.dtype)
            self._extremes[name] = self.momentum * before + (1 - self.momentum) * new
        return low, width

    def _gates(self) -> Gates:
        if self.gates is None:
            raise RuntimeError("there are no gates; give gates=Gates(...)")
        return self.gates

    def _pass(self) -> list[torch.Tensor]:
        self._gates()
        assert self._blocks is not None
        return self._blocks.complete()

    def state_dict(self) -> dict[str, Any]:
        """Everything that later passes depend on but the model, as tensors and numbers."""
        return {
            **self._settings(),
            "calls": self._draws.calls,
            "observed": self.observed,
            "cost": [self.cost, self.full_cost],
            "memory": {name: torch.from_numpy(row.copy()) for name, row in self._memory.items()},
            "extremes": {name: pair.clone() for name, pair in self._extremes.items()},
            "network": {name: t.clone() for name, t in self.network.state_dict().items()},
        }

    def _settings(self) -> dict[str, Any]:
        return {
            "spec": self._spec,
            "gradient_bits": list(self.gradient_bits),
            "gates": "" if self.gates is None else repr(self.gates),
            "momentum": self.momentum,
            "seed": self._draws.seed,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from another run's state, with the same bits.

        Raises
        ------
        ValueError
            The state of another schedule, other gates or another seed.
        """
        mine = self.state_dict()
        check_state(state, mine, self._settings())
        draws = Draws(state["seed"], integer("calls", state["calls"], 0, 2**62))
        observed = integer("observed", state["observed"], 0, 2**62)
        if not isinstance(state["cost"], list) or len(state["cost"]) != 2:
            raise ValueError("the state's cost must be a list of two numbers")
        cost, full_cost = (number("cost", one) for one in state["cost"])
        if self._memory:
            check_tensors("memory", state["memory"], mine["memory"])
        _check_rows("memory", state["memory"])
        _check_rows("extremes", state["extremes"])
        pairs = {name: torch.zeros(2) for name in state["extremes"] if name in self._owners}
        check_tensors("extremes", state["extremes"], pairs)
        check_tensors("network", state["network"], mine["network"])
        self._draws, self.observed, self.cost, self.full_cost = draws, observed, cost, full_cost
        self._memory = {name: row.numpy().copy() for name, row in state["memory"].items()}
        self._extremes = {name: pair.clone() for name, pair in state["extremes"].items()}
        self.network.load_state_dict(state["network"])


def _check_rows(what: str, state: Any) -> None:
    if not isinstance(state, Mapping) or not all(
        isinstance(row, torch.Tensor) for row in state.values()
    ):
        raise ValueError(f"the state's {what} must have tensors by name")
