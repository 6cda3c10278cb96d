"""FracTrain's dynamic gates: settings, the network that chooses widths, and the cost of choices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from .._arrays.checks import integer, listed, number
from ..studies.fractrain import relative_cost

State = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Gates:
    """Gates that choose the widths of every residual block for every sample, for `FracTrain`.

    The gate of block t reads the block's input x_t:

        e = W2 relu(W1 mean(x_t) + b1) + b2         the mean over the map; own weights per block
        h, c = LSTM(e, (h, c))                      one cell for all blocks, from zeros in every pass
        p = softmax(V h + v)                        shared, one number per pair of widths
        m = 1 if p is the largest of its sample, 0 if not;  dm/dp = 1

    With an exact tie every tied entry is 1. ``m[n, k]`` selects for sample n the pair of
    ``activations[k]`` and ``gradients[k]`` bits. Relative to 32 bits, with w = `weights` bits,

        C = sum over blocks l, samples n, pairs k of m f_l (a_k w + g_k w + a_k g_k) / 32^2
        cp = 100 C / (samples 3 sum f_l)            in percent
        loss = cross entropy + r beta C / mean f_l

    r is -1 if the batch's cp is below the target, which makes the gates choose more bits, and +1
    otherwise.

    The pair of 0 and 0 bits skips the block, ``select="block"``: its output is the block's input,
    or its shortcut in fp32, and costs nothing. In ``select="convolution"`` it leaves inputs and
    gradients as they are, at the cost of 32 bits.

    Depthwise convolutions in the blocks have widths of their own, whatever the gates choose, and
    count in both C and the denominator of cp with

        samples (b b + 2 b g) / 32^2 sum of d_i         b, g = `depthwise`

    Source: Y. Fu et al., arXiv:2012.13113, and its code. The defaults are those for CIFAR-100.

    Parameters
    ----------
    blocks : sequence of str
        Names of the residual blocks, in the order of the forward pass. Each reads one tensor,
        samples along the first axis and channels along the second, and returns one.
    activations, gradients : sequence of int, 0 to 16
        The pairs of widths; 0 only as a pair of two, and not as the only pair.
    weights : int, 1 to 16
        Width of the blocks' weights.
    target : float or sequence of float
        Cost in percent. Several are those of the stages: `FracTrain.observe` goes on to the next
        one when the loss stalls.
    beta : float
    relax : float
        Half the interval around the target in which the sign is smaller, in percent.
    rule : {"dfq", "fractrain"}
        In the interval r is 0.1 from the target on and -0.1 below it, or 0; the interval of
        "fractrain" begins at the target. They are the rules of the code's DFQ, and of its
        combination with the schedule for CIFAR; without `relax` they are equal.
    select : {"block", "convolution"}
        "block" (CIFAR) computes every block with each pair, with the same batch norms, and adds
        ``m[n, k]`` times the outputs. "convolution" (ImageNet) adds ``m[n, k]`` times the rounded
        inputs of each convolution, and rounds the gradient of ``m[n, k]`` times its output.
    sizes : (int, int, int)
        Outputs of W1 (0: e = W2 mean + b2), of W2, and of the LSTM. The code has (64, 32, 32) for
        MobileNetV2 and (0, 40, 20) for ImageNet.
    flops : sequence of float, optional
        f_l, one per block; by default 1. With depthwise convolutions, of the block's others.
    depthwise : (int, int), each 1 to 16
        Bits of activations and weights, and of gradients, of depthwise convolutions.
    depthwise_flops : sequence of float
        d_i, one per depthwise convolution in a block. Without them C and cp do not count these.
    shortcuts : sequence of str, optional
        For a pair of 0 bits, the name of each block's shortcut, which reads the block's input; ""
        for the input itself.
    ada_beta : bool
        beta C / mean f_l is at most a tenth of the cross entropy, which `FracTrain.regularizer`
        then needs; the gradient is that of beta C / mean f_l times the same factor.
    batch_size : int, optional
        The number of samples in cp; by default those of the pass. For CIFAR the code takes the
        nominal one, so the last, smaller batch of an epoch seems cheaper.

    Raises
    ------
    ValueError
        A number out of range, lists of different lengths, a block twice, a pair with one 0.

    Examples
    --------
    >>> gates = Gates(["layer1", "layer2"], target=(1.5, 2.0, 2.5, 3.0))
    >>> [round(100 * cost / 3, 2) for cost in gates.costs.tolist()]
    [1.76, 2.08, 2.6, 3.39, 4.69]
    """

    blocks: Sequence[str]
    activations: Sequence[int] = (3, 4, 4, 6, 6)
    gradients: Sequence[int] = (6, 6, 8, 8, 12)
    weights: int = 4
    target: float | Sequence[float] = 3.0
    beta: float = 1e-3
    relax: float = 0.0
    rule: str = "dfq"
    select: str = "block"
    sizes: Sequence[int] = (32, 16, 16)
    flops: Sequence[float] = ()
    batch_size: int | None = None
    depthwise: Sequence[int] = (8, 16)
    depthwise_flops: Sequence[float] = ()
    shortcuts: Sequence[str] = ()
    ada_beta: bool = False

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("blocks", tuple(listed("blocks", self.blocks)))
        if not self.blocks or len(set(self.blocks)) < len(self.blocks):
            raise ValueError(f"blocks={self.blocks!r} must have names, each once")
        for name in ("activations", "gradients"):
            widths = listed(name, getattr(self, name))
            put(name, tuple(integer(name, bits, 0, 16) for bits in widths))
        if not self.activations or len(self.activations) != len(self.gradients):
            raise ValueError(
                f"activations has {len(self.activations)} widths and gradients has "
                f"{len(self.gradients)}; give one of each per pair"
            )
        pairs = set(zip(self.activations, self.gradients, strict=True))
        one = next(((a, g) for a, g in pairs if bool(a) != bool(g)), None)
        if one or pairs == {(0, 0)}:
            raise ValueError(
                f"the pair {one or (0, 0)} must be two widths above 0, or both 0 beside other pairs"
            )
        put("weights", integer("weights", self.weights, 1, 16))
        targets = listed(
            "target", self.target if isinstance(self.target, Iterable) else [self.target]
        )
        put("target", tuple(_positive("target", percent) for percent in targets))
        if not self.target:
            raise ValueError("target is empty; give one or more costs, in percent")
        put("beta", _positive("beta", self.beta, zero=True))
        put("relax", _positive("relax", self.relax, zero=True))
        for name, known in (("rule", ("dfq", "fractrain")), ("select", ("block", "convolution"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r} must be {' or '.join(known)}")
        sizes = listed("sizes", self.sizes)
        if len(sizes) != 3:
            raise ValueError(f"sizes has {len(sizes)} numbers; it must have three")
        put("sizes", tuple(integer("sizes", n, i > 0, 4096) for i, n in enumerate(sizes)))
        flops = listed("flops", self.flops) or [1.0] * len(self.blocks)
        put("flops", tuple(_positive("flops", f) for f in flops))
        put("shortcuts", tuple(listed("shortcuts", self.shortcuts)) or ("",) * len(self.blocks))
        for name in ("flops", "shortcuts"):
            if len(getattr(self, name)) != len(self.blocks):
                raise ValueError(
                    f"{name} has {len(getattr(self, name))} elements for {len(self.blocks)} "
                    "blocks; give one each"
                )
        widths = listed("depthwise", self.depthwise)
        if len(widths) != 2:
            raise ValueError(f"depthwise has {len(widths)} widths; it must have two")
        put("depthwise", tuple(integer("depthwise", bits, 1, 16) for bits in widths))
        counted = listed("depthwise_flops", self.depthwise_flops)
        put("depthwise_flops", tuple(_positive("depthwise_flops", d) for d in counted))
        if not isinstance(self.ada_beta, bool):
            raise TypeError(f"ada_beta={self.ada_beta!r} must be True or False")
        if self.batch_size is not None:
            put("batch_size", integer("batch_size", self.batch_size, 1, 2**31))

    @property
    def targets(self) -> tuple[float, ...]:
        """One per stage."""
        return self.target  # type: ignore[return-value]  # __post_init__ has made it a tuple

    @property
    def costs(self) -> np.ndarray:
        """Cost of each pair, the three products together, relative to one product in 32 bits."""
        a, g = np.asarray(self.activations), np.asarray(self.gradients)
        computed = (a > 0) | (self.select == "convolution")
        return computed * _three(np.where(a, a, 32), self.weights, np.where(g, g, 32))

    @property
    def _depthwise_cost(self) -> float:
        """The constant part of a sample's cost."""
        bits, gradient_bits = self.depthwise
        return math.fsum(self.depthwise_flops) * float(_three(bits, bits, gradient_bits))

    def cost(self, chosen: Sequence[torch.Tensor]) -> torch.Tensor:
        """C of a pass, a scalar with a gradient; `chosen` has m of every block."""
        costs = torch.from_numpy(self.costs).to(chosen[0].dtype)
        blocks = [f * (m * costs).sum() for m, f in zip(chosen, self.flops, strict=True)]
        samples = self.batch_size or len(chosen[0])
        return torch.stack(blocks).sum() + samples * self._depthwise_cost

    def percent(self, cost: float, samples: int) -> float:
        """cp of a pass."""
        most = 3 * math.fsum(self.flops) + self._depthwise_cost
        return 100 * cost / ((self.batch_size or samples) * most)

    def sign(self, percent: float, stage: int = 0) -> float:
        """r of a pass."""
        target = self.targets[stage]
        if percent < target - (self.relax if self.rule == "dfq" else 0.0):
            return -1.0
        if percent >= target + self.relax:
            return 1.0
        if self.rule == "fractrain":
            return 0.0
        return 0.1 if percent >= target else -0.1

    def regularizer(
        self, chosen: Sequence[torch.Tensor], stage: int = 0, entropy: float | None = None
    ) -> torch.Tensor:
        """r beta C / mean f_l of a pass; the cross entropy `entropy` is for `ada_beta`."""
        cost = self.cost(chosen)
        sign = self.sign(self.percent(cost.item(), len(chosen[0])), stage)
        term = self.beta * cost / (math.fsum(self.flops) / len(self.flops))
        if self.ada_beta:
            if entropy is None:
                raise ValueError("ada_beta compares the term with the cross entropy; give loss=")
            if term.item() > entropy / 10:
                term = term * (entropy / 10 / term.item())
        return sign * term


class GateNetwork(nn.Module):
    """The gates of all blocks; trained with the model, in fp32.

    Parameters
    ----------
    channels : sequence of int
        Channels of the blocks' inputs.
    sizes : (int, int, int)
        As in `Gates`.
    pairs : int
        Number of pairs of widths.
    """

    def __init__(self, channels: Sequence[int], sizes: Sequence[int], pairs: int) -> None:
        super().__init__()
        hidden, features, state = sizes
        self.channels = tuple(channels)
        self.embeddings = nn.ModuleList(
            nn.Sequential(_convolution(n, hidden), nn.ReLU(), _convolution(hidden, features))
            if hidden
            else _convolution(n, features)
            for n in channels
        )
        self.cell = nn.LSTMCell(features, state)
        self.choice = nn.Linear(state, pairs)
        nn.init.normal_(self.choice.weight, std=math.sqrt(2 / (state * pairs)))

    def forward(
        self, block: int, x: torch.Tensor, state: State | None
    ) -> tuple[torch.Tensor, State]:
        """m of a block's input, of shape (samples, pairs), and the state for the next block."""
        x = x.float()
        pooled = x.flatten(2).mean(2) if x.dim() > 2 else x
        state = self.cell(self.embeddings[block](pooled), state)
        return hard_choice(torch.softmax(self.choice(state[0]), 1)), state


def hard_choice(p: torch.Tensor) -> torch.Tensor:
    """1 for the largest of each row and whatever equals it, 0 for the others; dm/dp = 1."""
    fixed = p.detach()
    hard = (fixed == fixed.amax(1, keepdim=True)).to(p.dtype)
    return (hard - fixed) + p


def _convolution(inputs: int, outputs: int) -> nn.Linear:
    """A 1x1 convolution of a map of one element, with the code's first weights."""
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=math.sqrt(2 / outputs))
    return layer


def _three(activations: Any, weights: Any, gradients: Any) -> np.ndarray:
    """Cost of the three products, relative to one in 32 bits."""
    c = relative_cost(activations, weights, gradients)
    return np.asarray(c.forward + c.backward + c.gradient)


def _positive(name: str, value: Any, zero: bool = False) -> float:
    if not (0 < number(name, value) < math.inf or (zero and value == 0)):
        raise ValueError(f"{name} has {value!r}; it must be {'0 or more' if zero else 'above 0'}")
    return float(value)
