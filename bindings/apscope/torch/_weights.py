"""Weights kept in a low-precision format while any optimizer trains them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from .._arrays.arithmetic import add
from .._arrays.casts import quantize
from .._arrays.checks import integer
from .._arrays.draws import Draws
from .._arrays.inputs import FormatLike, as_format
from .._arrays.projection import Projection
from .._arrays.sums import matmul
from .._core import FloatFormat
from ._devices import is_supported
from ._states import check_optimizer, check_state, check_tensors, load_optimizer

#: Stochastic rounding of normal numbers; those below the smallest one go to nearest.
STOCHASTIC_NORMAL = "stochastic_normal"
UPDATES = ("nearest", "stochastic", STOCHASTIC_NORMAL, "kahan", "residual")


def stochastic_normal(
    x: torch.Tensor, format: FloatFormat, *, projection: Projection, seed: int | Draws
) -> torch.Tensor:
    """Rounds by a stochastic projection, and to nearest what is below the smallest normal number."""
    drawn: torch.Tensor = quantize(x, format, projection=projection, seed=seed)
    nearest: torch.Tensor = quantize(x, format, overflow=projection.overflow)
    return torch.where(x.abs() < format.smallest_normal, nearest, drawn)


class LowPrecisionWeights:
    """Keeps an optimizer's parameters in a format: after every step the weights are its values.

    The optimizer computes an update d = w' - w of the weights w in their own dtype; then

        nearest      w <- Q(w + d)
        stochastic   w <- Q(w + d), rounded stochastically
        stochastic_normal   likewise, but abs(w + d) below the format's smallest normal number is
                     rounded to nearest
        kahan        y = Q(d - c);  t = Q(w + y);  c = Q(Q(t - w) - y);  w <- t
        residual     p = w + r + d;  w <- Q(p);  r <- p - w         (r in fp64)

    Q saturates. The residual's rule is that of `apscope.studies.weight_updates.weight_residual`.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Of fp32 or fp64 parameters on the CPU or a CUDA GPU, where they stay, which are rounded to
        the format at once, to nearest. Its own state (momentum) stays as it is. On a GPU kahan is
        for fp32 parameters. Every rounding has the bits of the CPU; the optimizer's arithmetic is
        PyTorch's.
    format : FloatFormat, str or dtype
    update : {"nearest", "stochastic", "stochastic_normal", "kahan", "residual"}
    only : iterable of torch.nn.Parameter, optional
        The parameters that are kept in the format, of the optimizer's; by default all.
    seed : int, 0 to 2**64 - 1
        Of stochastic rounding: parameter i of n (in the optimizer's order) at step t is call
        n t + i of ``Draws(seed)``.

    Raises
    ------
    TypeError
        An optimizer of another kind, a parameter of another dtype.
    ValueError
        An unknown update or format.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        format: FormatLike,
        *,
        update: str = "nearest",
        only: Iterable[torch.nn.Parameter] | None = None,
        seed: int = 0,
    ) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(
                f"optimizer is {type(optimizer).__name__}; it must be a torch.optim.Optimizer"
            )
        if update not in UPDATES:
            raise ValueError(f"update={update!r} must be one of {', '.join(UPDATES)}")
        self.optimizer, self.format, self.update = optimizer, as_format(format), update
        self.seed = integer("seed", seed, 0, 2**64 - 1)
        self.steps = 0
        self._parameters = self._given()
        chosen = None if only is None else set(map(id, only))
        #: Places of the kept parameters in the optimizer's order.
        self._kept = [
            i for i, p in enumerate(self._parameters) if chosen is None or id(p) in chosen
        ]
        for p in self._kept_parameters():
            if p.dtype not in (torch.float32, torch.float64) or not is_supported(p):
                raise TypeError(
                    f"a parameter of {p.dtype} on {p.device} cannot be kept here; give fp32 or "
                    "fp64 parameters on the CPU or a CUDA GPU"
                )
            single = p.dtype == torch.float32 and self.format.fits_fp32
            if update == "kahan" and p.device.type != "cpu" and not single:
                raise TypeError(
                    f"kahan of a parameter of {p.dtype} in {self.format} is not supported on "
                    f"{p.device}; give fp32 parameters and a format within fp32"
                )
        self._left: list[torch.Tensor] = []
        with torch.no_grad():
            for p in self._kept_parameters():
                rounded = self._rounded(p)
                if update == "residual":
                    self._left.append(p.double() - rounded.double())
                elif update == "kahan":
                    self._left.append(torch.zeros_like(p))
                p.copy_(rounded)

    def _kept_parameters(self) -> list[torch.Tensor]:
        return [self._parameters[i] for i in self._kept]

    def _given(self) -> list[torch.Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The optimizer's, such as for GradScaler; a learning rate schedule takes `optimizer`."""
        return self.optimizer.param_groups

    def _rounded(self, p: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = quantize(p.detach(), self.format, overflow="saturate")
        return result

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """The optimizer's step, then the weights' rounding; returns what the optimizer returns.

        Raises
        ------
        RuntimeError
            The optimizer's parameters were changed since.
        """
        if list(map(id, self._given())) != list(map(id, self._parameters)):
            raise RuntimeError(
                "the optimizer's parameters are not those it had; make LowPrecisionWeights after "
                "the last add_param_group"
            )
        before = [p.detach().clone() for p in self._kept_parameters()]
        result = self.optimizer.step(closure)
        for i, (p, w) in enumerate(zip(self._kept_parameters(), before, strict=True)):
            p.copy_(self._updated(i, w, p.detach()))
        self.steps += 1
        return result

    def zero_grad(self, set_to_none: bool = True) -> None:
        """The optimizer's."""
        self.optimizer.zero_grad(set_to_none)

    def _updated(self, i: int, w: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
        if self.update == "nearest":
            return self._rounded(moved)
        if self.update in ("stochastic", STOCHASTIC_NORMAL):
            draw = quantize if self.update == "stochastic" else stochastic_normal
            drawn: torch.Tensor = draw(
                moved, self.format, projection=Projection("stochastic", overflow="saturate"),
                seed=Draws(self.seed, self.steps * len(self._parameters) + self._kept[i]),
            )  # fmt: skip
            return drawn
        if self.update == "kahan":
            y = self._sum(-self._left[i], moved - w)
            total = self._sum(y, w)
            self._left[i] = self._sum(self._sum(total, -w), -y)
            return total
        p = w.double() + self._left[i] + (moved.double() - w.double())
        rounded = self._rounded(p)
        self._left[i] = p - rounded
        return rounded

    def _sum(self, known: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Q(known + other), where `known` has values of the format."""
        rounded: torch.Tensor
        if known.device.type == "cpu":
            rounded = add(known, other, self.format, overflow="saturate")
            return rounded
        # Products with 1 are exact, and so is the first partial sum, a value of the format.
        terms = torch.stack([known.flatten(), other.flatten()], -1)
        rounded = matmul(terms, terms.new_ones((2, 1)), self.format, overflow="saturate")
        return rounded.reshape(known.shape)

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on, except the weights."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "format": self.format.to_json(),
            "update": self.update,
            "seed": self.seed,
            "steps": self.steps,
            "left": list(self._left),
        }

    def check_state(self, state: Any) -> None:
        """Raises TypeError or ValueError for a state that `load_state_dict` cannot take."""
        mine = self.state_dict()
        check_state(state, mine, {key: mine[key] for key in ("format", "update", "seed")})
        check_tensors("weights", state["left"], self._left)
        check_optimizer(state["optimizer"], self.optimizer)
        integer("steps", state["steps"], 0, 2**62)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from another run's state, with the same bits.

        Raises
        ------
        ValueError
            The state of another format, update or seed, of other parameters, or of something else.
            Nothing is changed then.
        """
        self.check_state(state)
        load_optimizer(self.optimizer, state["optimizer"])
        self.steps = int(state["steps"])
        self._left = [
            left.to(mine.device, copy=True)
            for left, mine in zip(state["left"], self._left, strict=True)
        ]
