"""FracTrain: the quantizer, the gates' choice of widths, their cost, and the schedule of widths.

The quantizer, all of it in fp32, with s = max(range / (2^b - 1), 1e-8):

    u = (v - lo) / s, plus a uniform number of [-1/2, 1/2) if stochastic
    Q(v) = round(clamp(u, 0, 2^b - 1)) s + lo, ties to even

Weights: lo and range per output channel, nearest. Inputs: of the whole batch, nearest. Gradients of
a convolution's output: of the whole tensor, stochastic. A width of 0 changes nothing. The
gradient of Q is 1 everywhere.

Source: Fu et al., FracTrain: Fractionally Squeezing Bit Savings Both Temporally and Spatially for
Efficient DNN Training, NeurIPS 2020; RICE-EIC/FracTrain at dc4fa5b2 (fractrain_cifar,
fractrain_imagenet: modules/quantize.py, models.py, train_dfq.py, train_frac.py, train_pfq.py).
"""

import math
from dataclasses import dataclass, field

import numpy as np

F = np.float32


def quantized(
    v: np.ndarray, bits: int, lo: np.ndarray, span: np.ndarray, uniforms: np.ndarray | None = None
) -> np.ndarray:
    """Q of v by given extremes; uniforms in [0, 1), one per element, make it stochastic."""
    v = np.asarray(v, F)
    if bits == 0:
        return v
    lo, most = np.asarray(lo, F), F(2**bits - 1)
    s = np.maximum(np.asarray(span, F) / most, F(1e-8))
    u = (v + (F(0) * s - lo)) / s
    if uniforms is not None:
        u = u + (np.asarray(uniforms, F) - F(0.5))
    return np.round(np.clip(u, F(0), most)) * s + (lo - F(0) * s)


def whole(v: np.ndarray, bits: int, uniforms: np.ndarray | None = None) -> np.ndarray:
    """By the extremes of the whole tensor: inputs, and with uniforms gradients."""
    v = np.asarray(v, F)
    return quantized(v, bits, v.min(), v.max() - v.min(), uniforms)


def weights(v: np.ndarray, bits: int) -> np.ndarray:
    """By the extremes of every output channel, axis 0, to the nearest."""
    v = np.asarray(v, F)
    axes = tuple(range(1, v.ndim))
    lo, hi = v.min(axis=axes, keepdims=True), v.max(axis=axes, keepdims=True)
    return quantized(v, bits, lo, hi - lo)


def running(old: float, new: float, momentum: float = 0.9, updates: int = 1) -> F:
    """A running extreme, 0 at first, by which evaluation clamps inputs. Gates on CIFAR update it
    once per candidate width of a pass."""
    r, m = F(old), F(momentum)
    for _ in range(updates):
        r = m * r + F(1 - momentum) * F(new)
    return r


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Softmax of every row, fp32; the exponentials are computed in fp64 and rounded once."""
    x = np.asarray(logits, F)
    e = np.exp((x - x.max(axis=-1, keepdims=True)).astype(np.float64)).astype(F)
    return e / e.sum(axis=-1, keepdims=True, dtype=F)


def choice(p: np.ndarray) -> np.ndarray:
    """The mask m = (hard - p) + p of every row, hard 1 at each entry that equals the row's
    largest: tied widths are all chosen. The gradient dm/dp is 1. No noise, no temperature; the
    same in evaluation."""
    p = np.asarray(p, F)
    hard = (p == p.max(axis=-1, keepdims=True)).astype(F)
    return (hard - p) + p


def mixed(mask: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """A block's output: sum over k of mask[n, k] candidates[k, n, ...], fp32, in order of k."""
    shape = mask.shape[:1] + (1,) * (candidates.ndim - 2)
    total = mask[:, 0].reshape(shape) * candidates[0]
    for k in range(1, len(candidates)):
        total = total + mask[:, k].reshape(shape) * candidates[k]
    return total


def mixed_gradients(
    mask: np.ndarray, candidates: np.ndarray, gradient: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Backward of `mixed`: that of the mask, <gradient[n], candidates[k, n]>, and that of every
    candidate, mask[n, k] gradient[n]."""
    flat = gradient.reshape(len(gradient), -1)
    of_mask = np.stack([(flat * c.reshape(flat.shape)).sum(axis=1) for c in candidates], axis=1)
    shape = mask.shape[:1] + (1,) * (gradient.ndim - 1)
    return of_mask, np.stack([mask[:, k].reshape(shape) * gradient for k in range(mask.shape[1])])


def summed_gradients(
    mask: np.ndarray, gradient: np.ndarray, widths: list[int], uniforms: np.ndarray
) -> np.ndarray:
    """Inside every convolution on ImageNet: the gradient of its output, the sum over k of
    mask[:, k] gradient, quantized with width k by the extremes of all samples. A zero of a sample
    that did not choose k need not be a value of the grid, so it receives noise. uniforms: one array
    per width."""
    shape = mask.shape[:1] + (1,) * (gradient.ndim - 1)
    parts = [
        whole(mask[:, k].reshape(shape) * np.asarray(gradient, F), bits, uniforms[k])
        for k, bits in enumerate(widths)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


#: Candidate widths: (inputs, gradients) of CIFAR and of ImageNet.
CIFAR = ([3, 4, 4, 6, 6], [6, 6, 8, 8, 12])
IMAGENET = ([3, 4, 6, 8], [6, 8, 12, 16])


def width_cost(a: int, g: int, w: int, zero_is_full: bool = False) -> float:
    """Of the three products of a block, relative to 32 bits each: a w, g w and a g over 32^2. A
    width of 0 costs nothing on CIFAR and as much as 32 on ImageNet."""
    a, g, w = ((32 if zero_is_full and b == 0 else b) for b in (a, g, w))
    return (a * w + g * w + a * g) / 32**2


def cost(
    masks: np.ndarray, widths: tuple[list[int], list[int]], w: int, flops: list[float] | None = None
) -> float:
    """C: the sum over blocks l, samples n and widths k of masks[l, n, k] times the width's cost
    times the block's flops, which are 1 in the residual networks."""
    unit = [width_cost(a, g, w) for a, g in zip(*widths, strict=True)]
    flops = [1.0] * len(masks) if flops is None else flops
    return sum(
        f * float((np.asarray(block, np.float64) * unit).sum())
        for block, f in zip(masks, flops, strict=True)
    )


def depthwise_cost(flops: list[float], batch: int) -> float:
    """What MobileNetV2's depthwise convolutions add, 8 bits and gradients of 16."""
    return sum(flops) * (8 * 8 + 2 * 8 * 16) / 32**2 * batch


def percent(C: float, batch: int, flops: list[float], depthwise: float = 0.0) -> float:
    """cp. batch: on CIFAR the nominal size, for a last and smaller batch too; on ImageNet the real
    one."""
    return 100 * C / (batch * (3 * sum(flops) + depthwise))


def direction(cp: float, target: float, relax: float = 0.0) -> float:
    """r of the gates alone, and of FracTrain on ImageNet: negative rewards cost."""
    if cp < target - relax:
        return -1.0
    if cp >= target + relax:
        return 1.0
    return 0.1 if cp >= target else -0.1


def direction_of_fractrain(cp: float, target: float, span: float = 0.0) -> float:
    """r of FracTrain on CIFAR."""
    if cp < target:
        return -1.0
    return 1.0 if cp >= target + span else 0.0


def loss(
    entropy: float,
    C: float,
    r: float,
    flops: list[float],
    beta: float = 1e-3,
    adaptive: bool = False,
) -> float:
    """entropy + r beta C / mean(flops), C a sum over the batch. adaptive (off in the published
    runs): a beta C / mean(flops) above entropy / 10 is scaled to that."""
    term = beta * C / (sum(flops) / len(flops))
    if adaptive and term > entropy / 10:
        term = entropy / 10
    return entropy + r * term


def target(turns: int, first: float = 1.5, step: float = 0.5) -> float:
    """T of FracTrain after some turning points; first is 3 on ImageNet."""
    return first + turns * step


@dataclass
class Schedule:
    """Turning points of the epoch losses, after which the next widths are used:

        scale = mean of the first min(epoch, 10) losses
        d_i = |loss_i - last loss| / scale of the four losses before the last, a window of five
        a turning point if no d_i > epsilon

    Then the window is emptied, and epsilon is multiplied by alpha at the first `shrinks` points. A
    comparison with NaN is false, so five NaN losses are a turning point."""

    epsilon: float = 0.05
    alpha: float = 0.3
    points: int = 3
    shrinks: int = 2
    window: int = 5
    warm: int = 10
    epoch: int = 0
    turns: int = 0
    total: float = 0.0
    recent: list[float] = field(default_factory=list)

    def update(self, epoch_loss: float) -> bool:
        """Whether the epoch is a turning point. An epoch's loss is the sum of its batches' losses
        over their number; in FracTrain it includes the cost's term."""
        self.epoch += 1
        if self.epoch <= self.warm:
            self.total += epoch_loss
        scale = self.total / min(self.epoch, self.warm)
        if self.turns >= self.points:
            return False
        self.recent = [*self.recent, epoch_loss][-self.window :]
        if len(self.recent) < self.window:
            return False
        with np.errstate(all="ignore"):
            d = np.abs(np.array(self.recent[:-1]) - self.recent[-1]) / np.float64(scale)
        if (d > self.epsilon).any():
            return False
        self.turns += 1
        if self.turns <= self.shrinks:
            self.epsilon *= self.alpha
        self.recent = []
        return True


#: Widths of the schedule alone: (inputs and weights, gradients).
SCHEDULED = ([3, 4, 6, 8], [6, 6, 8, 8])


def scheduled_cost(b: int, g: int) -> float:
    """Relative to 32 bits: (b b + 2 b g) / (3 32^2)."""
    return (b * b + 2 * b * g) / (3 * 32**2)


def sgd_rate(iteration: int, first: float = 0.1) -> float:
    """Of 64000 iterations on CIFAR, batches of 128, momentum 0.9, weight decay 1e-4."""
    return first * 0.1 ** ((iteration >= 32000) + (iteration >= 48000))


def normal_deviation(kernel: int, out: int) -> float:
    """Of a convolution's first weights, normal with mean 0; a linear layer's: `linear_deviation`."""
    return math.sqrt(2 / (kernel * kernel * out))


def linear_deviation(inputs: int, outputs: int) -> float:
    return math.sqrt(2 / (inputs * outputs))
