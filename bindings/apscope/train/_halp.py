"""HALP: SVRG with integer steps around a centre, on a scale that shrinks with the gradient."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from .._arrays.casts import quantize
from .._arrays.checks import integer, number
from .._arrays.draws import Draws
from ..torch._devices import is_supported, quotient
from ..torch._states import check_state, check_tensors
from ._integers import to_integers

Closure = Callable[[], torch.Tensor]


class HALP:
    """Bit-centred SVRG: high-accuracy training with offsets of few bits.

    At every centre, with the gradient g of the whole loss there,

        w~ = w,  delta = |g| / (mu (2^(bits-1) - 1)),  z = 0

    and at every step, with the gradient g_i of one batch at w~ + z and at w~,

        v = g_i(w~ + z) - g_i(w~) + g + decay z
        b = momentum b + v
        z = delta clip(round((z - rate b) / delta), -2^(bits-1), 2^(bits-1) - 1),  w = w~ + z

    rounded stochastically. z is the only number that changes from step to step, and it has `bits`
    bits; delta shrinks with the gradient, so the steps become finer towards the optimum. b is 0
    without momentum, and a new centre keeps it.

    With ``bits="fp16"`` z is an fp16 number without a scale, and so are all numbers of a step:

        c = C(rate (g + decay w~))                  at every centre
        v = H(C(g_i(w~ + z) - g_i(w~)) + decay z)
        b = H(H(H(momentum b) + H(rate v)) + c),  z = H(z - b),  w = w~ + z

    H rounds to fp16, to nearest, ties to even. C does so stochastically: it rounds the fp32 number
    to 11 significant bits with 13 random bits, then to fp16, where it saturates. With
    ``cache="batch"`` there is one c_i = C(rate (g_i(w~) + decay w~)) per batch i in place of c,
    which makes the step one of SGD.

    With ``rounding="nearest"`` integers are floor((z - rate b) / delta + 1/2), and C rounds an fp32
    number to fp16 to nearest, ties to even, without saturation.

    Source: C. De Sa et al., arXiv:1803.03383, and the code torchhalp (the range, delta, the
    asymmetric box, mu = 0.1 and 8 bits are its defaults; its decay acts on z too, not on w; its
    option `biased` is the rounding to nearest). The
    code has one delta per tensor (`unit`); with one for the model, the optimum of a mu-strongly
    convex loss is always within the range. The fp16 form is that of the code halp for networks,
    which computes g_i(w~ + z) - g_i(w~) in fp16, layer by layer; here it is one difference of
    gradients. Its BitCenterSVRG has one c, its BitCenterSGD one per batch.

    Parameters
    ----------
    parameters : iterable of float32 or float64 tensors on the CPU or a CUDA GPU
        Changed in place, and there everything is computed: on a GPU with the CPU's bits, except for
        PyTorch's gradients and for the last bits of |g|, a sum. w~ is kept in their dtype; the rest
        is computed in fp64, or, with ``bits="fp16"``, in fp32 before each rounding.
    rate : float
        The learning rate.
    bits : int, 2 to 24, "fp16" or None
        None: z is not rounded, which is SVRG.
    mu : float
        The strong convexity of the loss, or a tuned number instead.
    unit : {"model", "tensor"}
        Whether all parameters share one delta, or each has its own.
    delta : float, optional
        A constant instead, for all steps; then w itself is kept as an integer times delta, in the
        same box: plain low-precision SVRG. The weights are rounded to nearest at the beginning.
    decay, momentum : float
        Of the weights' offset z, and of the steps; 0 or above.
    rounding : {"stochastic", "nearest"}
    cache : {"mean", "batch"}
        "batch" is for ``bits="fp16"``.
    seed : int, 0 to 2**64 - 1
        Of stochastic rounding: parameter i of n at step t is call n t + i of ``Draws(seed)``, and,
        with ``bits="fp16"``, at a centre before step t call 2^62 + n t + i; of batch j of B, call
        2^62 + n (B t + j) + i. So B must be the same at every centre, else words are drawn twice.

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
        No parameter; a number out of range; an unknown unit, rounding or cache.

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
        bits: int | str | None = 8,
        mu: float = 0.1,
        unit: str = "model",
        delta: float | None = None,
        decay: float = 0.0,
        momentum: float = 0.0,
        rounding: str = "stochastic",
        cache: str = "mean",
        seed: int = 0,
    ) -> None:
        self._parameters = list(parameters)
        if not self._parameters:
            raise ValueError("parameters is empty; give one or more tensors")
        for p in self._parameters:
            if p.dtype not in (torch.float32, torch.float64) or not is_supported(p):
                raise TypeError(
                    f"a parameter of {p.dtype} on {p.device} cannot be trained here; give fp32 or "
                    "fp64 parameters on the CPU or a CUDA GPU"
                )
        self.rate, self.mu = _positive("rate", rate), _positive("mu", mu)
        if isinstance(bits, str) and bits != "fp16":
            raise ValueError(f"bits={bits!r} must be an integer from 2 to 24, 'fp16' or None")
        self.bits = bits if bits is None or bits == "fp16" else integer("bits", bits, 2, 24)
        self.decay = _positive("decay", decay, or_zero=True)
        self.momentum = _positive("momentum", momentum, or_zero=True)
        self.unit = _one_of("unit", unit, "model", "tensor")
        self.rounding = _one_of("rounding", rounding, "stochastic", "nearest")
        self.cache = _one_of("cache", cache, "mean", "batch")
        if cache == "batch" and bits != "fp16":
            raise ValueError(f"cache='batch' is for bits='fp16', and bits is {bits}")
        self.seed = integer("seed", seed, 0, 2**64 - 1)
        self._constant = None if delta is None else _positive("delta", delta)
        if self._constant is not None and not isinstance(self.bits, int):
            raise ValueError(
                f"delta is for integers, but bits is {self.bits}; give bits of integers"
            )
        self.steps, self.clipped, self._centred = 0, 0, 0
        self.delta = [self._constant or 0.0] * len(self._parameters)
        self._z = [torch.zeros_like(p, dtype=torch.float64) for p in self._parameters]
        self._buffer = [torch.zeros_like(z) for z in self._z]
        # One gradient per parameter; with a cache of batches those of the first batch, and so on.
        self._full: list[torch.Tensor] = []
        if self._constant is not None:
            with torch.no_grad():
                for i, p in enumerate(self._parameters):
                    p.copy_(self._rounded(i, p.double(), None))
        self._centre = [p.detach().clone() for p in self._parameters]

    def centre(self, closure: Closure | Sequence[Closure]) -> float:
        """Makes the current weights the new centre.

        Parameters
        ----------
        closure : f() -> scalar tensor
            The loss of all examples; with ``cache="batch"`` a sequence of those of the batches, in
            the order in which `step` goes through them, again and again.

        Returns
        -------
        float
            The norm of its gradient, or of the batches' mean. If it is 0, the following steps
            change nothing; with ``cache="batch"`` they may.

        Raises
        ------
        TypeError
            A function where a sequence is needed, or the reverse.
        """
        if callable(closure) != (self.cache == "mean") or not closure:
            wanted = "one function" if self.cache == "mean" else "a sequence of functions"
            raise TypeError(f"closure is {closure!r}; with cache={self.cache!r} give {wanted}")
        closures = [closure] if callable(closure) else list(closure)
        self._centre = [p.detach().clone() for p in self._parameters]
        batches = [[g.double() for g in self._gradients(each)[1]] for each in closures]
        self._full = [
            quotient(functools.reduce(torch.add, rows), len(batches))
            for rows in zip(*batches, strict=True)
        ]
        self._z = [torch.zeros_like(g) for g in self._full]
        self.clipped, self._centred = 0, self.steps
        squares = [float(g.square().sum()) for g in self._full]
        norm = math.sqrt(sum(squares))
        if self.bits == "fp16":
            first = 2**62 + (len(batches) - 1) * self.steps * len(self._parameters)
            self._full = [
                self._drawn_half(self.rate * (g + self.decay * w.double()), first + j)
                for j, (g, w) in enumerate(
                    zip(itertools.chain(*batches), itertools.cycle(self._centre), strict=False)
                )
            ]
        elif self._constant is None and isinstance(self.bits, int):
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
                difference = here[i].double() - at_centre[i].double()
                move = self._moved_half if self.bits == "fp16" else self._moved
                self._z[i] = move(i, difference)
                p.copy_(self._centre[i].double() + self._z[i])
        self.steps += 1
        return loss

    def _moved(self, i: int, difference: torch.Tensor) -> torch.Tensor:
        """z after a step; `difference` is g_i(w~ + z) - g_i(w~)."""
        v = difference + self._full[i]
        if self.decay:
            v = v + self.decay * self._z[i]
        if self.momentum:
            v = self._buffer[i] = self.momentum * self._buffer[i] + v
        moved = self._z[i] - self.rate * v
        if self._constant is not None:
            centre = self._centre[i].double()
            return self._rounded(i, centre + moved, self._seed_of(i)) - centre
        return moved if self.bits is None else self._rounded(i, moved, self._seed_of(i))

    def _moved_half(self, i: int, difference: torch.Tensor) -> torch.Tensor:
        """The same in fp16: a product with a setting is rounded to fp32 first, as PyTorch's are."""
        rate, decay, momentum = (
            torch.full((), setting, dtype=torch.float32, device=difference.device)
            for setting in (self.rate, self.decay, self.momentum)
        )
        batch = (self.steps - self._centred) * len(self._parameters) % len(self._full)
        z, cached = self._z[i].float(), self._full[batch + i].float()
        v = self._drawn_half(difference, i).float()
        v = _half(v + decay * z) if self.decay else v
        b = _half(rate * v)
        if self.momentum:
            b = _half(_half(momentum * self._buffer[i].float()) + b)
        self._buffer[i] = b = _half(b + cached)
        return _half(z - b).double()

    def _drawn_half(self, x: torch.Tensor, call: int) -> torch.Tensor:
        """C, with the words of this call after those of earlier steps."""
        if self.rounding == "nearest":
            return _half(x.float()).double()
        return _drawn_half(x, self._seed_of(call))

    def _seed_of(self, i: int, first: int = 0) -> int:
        return Draws(self.seed, first + self.steps * len(self._parameters) + i).next()

    def _rounded(self, i: int, x: torch.Tensor, seed: int | None) -> torch.Tensor:
        """To delta times integers of the box."""
        assert isinstance(self.bits, int)
        if self.delta[i] == 0.0:
            return torch.zeros_like(x)
        low, high = -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1
        units = quotient(x, self.delta[i])
        if self.rounding == "nearest" and seed is not None:
            integers = (units + 0.5).floor()
        else:
            integers = to_integers(units, self.bits, seed, signed=True)
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
            "settings": [
                self.rate, self.mu, self.bits, self.unit, self._constant, self.decay,
                self.momentum, self.rounding, self.cache, self.seed,
            ],
            "steps": self.steps,
            "clipped": self.clipped,
            "centred": self._centred,
            "delta": list(self.delta),
            "centre": [c.clone() for c in self._centre],
            "full": [g.clone() for g in self._full],
            "z": [z.clone() for z in self._z],
            "buffer": [b.clone() for b in self._buffer],
        }  # fmt: skip

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
        for name in ("z", "buffer"):
            check_tensors(name, state[name], mine[name])
        if state["full"] != []:  # empty before the first centre
            batches = 1 if self.cache == "mean" else max(1, len(state["full"]) // len(self._z))
            check_tensors("full", state["full"], mine["z"] * batches)
        delta = state["delta"]
        if not isinstance(delta, list) or len(delta) != len(self.delta):
            raise ValueError(f"the state's delta must be a list of {len(self.delta)} numbers")
        delta = [float(number("delta", one)) for one in delta]
        counts = [integer(name, state[name], 0, 2**62) for name in ("steps", "clipped", "centred")]
        if not counts[2] <= counts[0]:
            raise ValueError(f"the state's centred={counts[2]} is above its steps={counts[0]}")
        self.steps, self.clipped, self._centred = counts
        self.delta = delta
        self._centre, self._full, self._z, self._buffer = (
            [
                t.to(self._parameters[i % len(self._parameters)].device, copy=True)
                for i, t in enumerate(state[name])
            ]
            for name in ("centre", "full", "z", "buffer")
        )


def _half(x: torch.Tensor) -> torch.Tensor:
    """fp32 numbers rounded to fp16, to nearest, ties to even; as fp32."""
    rounded: torch.Tensor = quantize(x, "fp16")
    return rounded


def _drawn_half(x: torch.Tensor, seed: int) -> torch.Tensor:
    """The fp32 numbers rounded to 11 significant bits by 13 random bits, then to fp16; as fp64."""
    drawn = quantize(
        x.float().contiguous(), "tf32", rounding="stochastic", random_bits=13, seed=seed,
        overflow="saturate",
    )  # fmt: skip
    rounded: torch.Tensor = quantize(drawn, "fp16", overflow="saturate")
    return rounded.double()


def _one_of(name: str, value: str, *known: str) -> str:
    if value not in known:
        raise ValueError(f"{name}={value!r} must be {' or '.join(known)}")
    return value


def _positive(name: str, value: float, *, or_zero: bool = False) -> float:
    if not (isinstance(value, int | float) and 0 <= value < math.inf and (value or or_zero)):
        raise ValueError(
            f"{name}={value!r} must be {'0 or a number' if or_zero else 'a number'} above 0"
        )
    return float(value)
