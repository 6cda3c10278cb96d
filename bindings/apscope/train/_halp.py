"""HALP: SVRG with integer steps around a centre, on a scale that shrinks with the gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from .._arrays.checks import integer, number
from .._arrays.draws import Draws
from ..torch._states import check_state, check_tensors
from ._integers import to_integers

Closure = Callable[[], torch.Tensor]


class HALP:
    """Bit-centred SVRG: high-accuracy training with offsets of few bits.

    At every centre, with the gradient g of the whole loss there,

        w~ = w,  delta = |g| / (mu (2^(bits-1) - 1)),  z = 0

    and at every step, with the gradient g_i of one batch at w~ + z and at w~,

        v = g_i(w~ + z) - g_i(w~) + g
        z = delta clip(round((z - rate v) / delta), -2^(bits-1), 2^(bits-1) - 1),  w = w~ + z

    rounded stochastically. z is the only number that changes from step to step, and it has `bits`
    bits; delta shrinks with the gradient, so the steps become finer towards the optimum.

    Source: C. De Sa et al., arXiv:1803.03383, and the code torchhalp (the range, delta, the
    asymmetric box, mu = 0.1 and 8 bits are its defaults). The code has one delta per tensor
    (`unit`); with one for the model, the optimum of a mu-strongly convex loss is always within the
    range.

    Parameters
    ----------
    parameters : iterable of float32 or float64 tensors on the CPU
        Changed in place. w~ is kept in their dtype; the rest is computed in fp64.
    rate : float
        The learning rate.
    bits : int, 2 to 24, or None
        None: z is not rounded, which is SVRG.
    mu : float
        The strong convexity of the loss, or a tuned number instead.
    unit : {"model", "tensor"}
        Whether all parameters share one delta, or each has its own.
    delta : float, optional
        A constant instead, for all steps; then w itself is kept as an integer times delta, in the
        same box: plain low-precision SVRG. The weights are rounded to nearest at the beginning.
    seed : int, 0 to 2**64 - 1
        Of stochastic rounding: parameter i of n at step t is call n t + i of ``Draws(seed)``.

    Attributes
    ----------
    delta : list of float
        The delta of every parameter, since the last centre.
    clipped : int
        Elements of z (of w if delta is constant) that the box has clipped since the last centre.
    steps : int

    Raises
    ------
    TypeError
        A parameter of another kind.
    ValueError
        No parameter; a number out of range; an unknown unit.

    Examples
    --------
    >>> import torch
    >>> w = torch.ones(2, dtype=torch.float64, requires_grad=True)
    >>> a = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    >>> loss = lambda rows: (rows @ w - rows.sum(1) * 3).square().mean()
    >>> halp = HALP([w], rate=0.1, mu=1.0)
    >>> for _ in range(20):
    ...     norm = halp.centre(lambda: loss(a))
    ...     for i in range(8):
    ...         _ = halp.step(lambda: loss(a[i % 2 : i % 2 + 1]))
    >>> bool((w - 3).abs().max() < 1e-6)
    True
    """

    def __init__(
        self,
        parameters: Iterable[torch.Tensor],
        rate: float,
        *,
        bits: int | None = 8,
        mu: float = 0.1,
        unit: str = "model",
        delta: float | None = None,
        seed: int = 0,
    ) -> None:
        self._parameters = list(parameters)
        if not self._parameters:
            raise ValueError("parameters is empty; give one or more tensors")
        for p in self._parameters:
            if p.dtype not in (torch.float32, torch.float64) or p.device.type != "cpu":
                raise TypeError(
                    f"a parameter of {p.dtype} on {p.device} cannot be trained here; give fp32 or "
                    "fp64 parameters on the CPU"
                )
        self.rate, self.mu = _positive("rate", rate), _positive("mu", mu)
        self.bits = None if bits is None else integer("bits", bits, 2, 24)
        if unit not in ("model", "tensor"):
            raise ValueError(f"unit={unit!r} must be model or tensor")
        self.unit, self.seed = unit, integer("seed", seed, 0, 2**64 - 1)
        self._constant = None if delta is None else _positive("delta", delta)
        if self._constant is not None and self.bits is None:
            raise ValueError("delta is for rounded steps, but bits is None; give bits")
        self.steps, self.clipped = 0, 0
        self.delta = [self._constant or 0.0] * len(self._parameters)
        self._z = [torch.zeros_like(p, dtype=torch.float64) for p in self._parameters]
        self._full: list[torch.Tensor] = []
        if self._constant is not None:
            with torch.no_grad():
                for i, p in enumerate(self._parameters):
                    p.copy_(self._rounded(i, p.double(), None))
        self._centre = [p.detach().clone() for p in self._parameters]

    def centre(self, closure: Closure) -> float:
        """Makes the current weights the new centre.

        Parameters
        ----------
        closure : f() -> scalar tensor
            The loss of all examples.

        Returns
        -------
        float
            The norm of its gradient. If it is 0, the following steps change nothing.
        """
        self._centre = [p.detach().clone() for p in self._parameters]
        self._full = [g.double() for g in self._gradients(closure)[1]]
        self._z = [torch.zeros_like(g) for g in self._full]
        self.clipped = 0
        squares = [float(g.square().sum()) for g in self._full]
        norm = math.sqrt(sum(squares))
        if self._constant is None and self.bits is not None:
            widest = self.mu * (2 ** (self.bits - 1) - 1)
            self.delta = [
                (norm if self.unit == "model" else math.sqrt(square)) / widest for square in squares
            ]
        return norm

    def step(self, closure: Closure) -> torch.Tensor:
        """A step of one batch.

        Parameters
        ----------
        closure : f() -> scalar tensor
            The loss of the batch, as a mean; called at the weights, and at the centre.

        Returns
        -------
        tensor
            The loss at the weights before the step.

        Raises
        ------
        RuntimeError
            There is no centre yet.
        """
        if not self._full:
            raise RuntimeError("there is no centre; call centre before the first step")
        loss, here = self._gradients(closure)
        with torch.no_grad():
            for p, c in zip(self._parameters, self._centre, strict=True):
                p.copy_(c)
            at_centre = self._gradients(closure)[1]
            for i, p in enumerate(self._parameters):
                v = here[i].double() - at_centre[i].double() + self._full[i]
                moved = self._z[i] - self.rate * v
                if self._constant is not None:
                    centre = self._centre[i].double()
                    moved = self._rounded(i, centre + moved, self._seed_of(i)) - centre
                elif self.bits is not None:
                    moved = self._rounded(i, moved, self._seed_of(i))
                self._z[i] = moved
                p.copy_(self._centre[i].double() + moved)
        self.steps += 1
        return loss

    def _seed_of(self, i: int) -> int:
        return Draws(self.seed, self.steps * len(self._parameters) + i).next()

    def _rounded(self, i: int, x: torch.Tensor, seed: int | None) -> torch.Tensor:
        """To delta times integers of the box."""
        assert self.bits is not None
        if self.delta[i] == 0.0:
            return torch.zeros_like(x)
        low, high = -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1
        integers = to_integers(x / self.delta[i], self.bits, seed, signed=True)
        boxed = integers.clamp(low, high)
        self.clipped += int((integers != boxed).sum())
        return boxed * self.delta[i]

    def _gradients(self, closure: Closure) -> tuple[torch.Tensor, list[torch.Tensor]]:
        with torch.enable_grad():
            loss = closure()
            gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        pairs = zip(self._parameters, gradients, strict=True)
        return loss.detach(), [torch.zeros_like(p) if g is None else g for p, g in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on, except the weights, as tensors and numbers."""
        return {
            "settings": [self.rate, self.mu, self.bits, self.unit, self._constant, self.seed],
            "steps": self.steps,
            "clipped": self.clipped,
            "delta": list(self.delta),
            "centre": [c.clone() for c in self._centre],
            "full": [g.clone() for g in self._full],
            "z": [z.clone() for z in self._z],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from another run's state, with the same bits.

        Raises
        ------
        ValueError
            The state of other settings, or of parameters of other shapes.
        """
        mine = self.state_dict()
        check_state(state, mine, {"settings": mine["settings"]})
        check_tensors("centre", state["centre"], mine["centre"])
        check_tensors("z", state["z"], mine["z"])
        if state["full"] != []:  # empty before the first centre
            check_tensors("full", state["full"], mine["z"])
        delta = state["delta"]
        if not isinstance(delta, list) or len(delta) != len(self.delta):
            raise ValueError(f"the state's delta must be a list of {len(self.delta)} numbers")
        delta = [float(number("delta", one)) for one in delta]
        counts = [integer(name, state[name], 0, 2**62) for name in ("steps", "clipped")]
        self.steps, self.clipped = counts
        self.delta = delta
        self._centre, self._full, self._z = (
            [t.clone() for t in state[name]] for name in ("centre", "full", "z")
        )


def _positive(name: str, value: float) -> float:
    if not (isinstance(value, int | float) and 0 < value < math.inf):
        raise ValueError(f"{name}={value!r} must be a number above 0")
    return float(value)
