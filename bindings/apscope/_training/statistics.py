"""Statistics of a step's error that may predict the excess loss in training.

Of one tensor let m be the mean of the W workers' gradients g[w] in fp64, e the exchanged result
minus m, and per element E = e^2 and N = (sum over w of (g[w] - m)^2) / (W (W - 1)), the variance of
the mean (docs/definitions.md, section 16). An element that is not finite in a gradient or in the
result has neither. Over blocks of B consecutive elements of a tensor both are added, and

```text
q = max(sum E / sum N, 2^-30)            of the blocks with noise
```

`StepSums` adds up over tensors; `pool` makes one number of many steps. ``signed`` compares the
square of the sum of e over S steps, over S, with the sum of N: as large as ``elements`` for an
error that is the same at every step, 1/S of it for one that averages out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .._arrays.float_environment import guarded
from .persistence import Persistence
from .step_errors import TensorErrors, block_sums, cosine, errors_of, log2_ratios

#: Elements per block; 1: every element by itself.
BLOCKS = (1, 8, 32, 256)
#: The results of `pool`, and the definition of each.
STATISTICS: dict[str, str] = {
    "typical_1": "error over noise, geometric mean over single elements",
    "typical_8": "error over noise, geometric mean over blocks of 8",
    "typical_32": "error over noise, geometric mean over blocks of 32",
    "typical_256": "error over noise, geometric mean over blocks of 256",
    "lost_32": "q / (1 + q), arithmetic mean over blocks of 32: the share of the batch that the "
    "error is worth",
    "elements": "error over noise of single elements, each summed over the steps first",
    "signed": "errors of single elements added up over the steps, squared, over their noise: the "
    "part that does not average out",
    "pooled": "error over noise of a step's sums, mean over the steps",
    "step_nmse": "NMSE of a step, mean over the steps",
    "cosine_loss": "1 - cosine of a layer, mean over layers and steps",
}


class ElementSums(NamedTuple):
    """Sums for every element of a tensor, over several steps."""

    error: np.ndarray  # E
    noise: np.ndarray  # N
    signed: np.ndarray  # e


@dataclass
class StepSums:
    """The sums of one step, over all tensors; JSON holds them."""

    log2: dict[str, float] = field(default_factory=dict)  # of q, by block
    blocks: dict[str, int] = field(default_factory=dict)  # with noise
    lost: float = math.nan  # of E / (E + N), over blocks of 32 with noise
    error: float = 0.0
    noise: float = 0.0
    reference: float = 0.0  # of m^2
    cosine: float = 0.0
    layers: int = 0  # with m != 0

    def as_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


@guarded
def of_step(
    errors: Mapping[str, TensorErrors], sums: dict[str, ElementSums] | None = None
) -> StepSums:
    """The sums of a step, of the errors by tensor.

    Those of every element are added to `sums`, by tensor.
    """
    total = StepSums(lost=0.0)
    for size in BLOCKS:
        total.log2[str(size)], total.blocks[str(size)] = 0.0, 0
    for name, (mean, result, signed, noise) in errors.items():
        error = signed**2
        if sums is not None:
            elements = sums.setdefault(name, ElementSums(*np.zeros((3, len(mean)))))
            elements.error[:] += error
            elements.noise[:] += noise
            elements.signed[:] += signed
        for size in BLOCKS:
            e, n = block_sums(error, size), block_sums(noise, size)
            log2, blocks = log2_ratios(e, n)
            if size == 32:
                total.lost += float((e[n > 0] / (e[n > 0] + n[n > 0])).sum())
            total.log2[str(size)] += log2
            total.blocks[str(size)] += blocks
        total.error += float(error.sum())
        total.noise += float(noise.sum())
        total.reference += float((mean**2).sum())
        if (direction := cosine([(mean, result)])) is not None:
            total.layers += 1
            total.cosine += direction
    return total


@guarded
def pool(
    steps: Sequence[StepSums], sums: Mapping[str, ElementSums] | None = None
) -> dict[str, float]:
    """`STATISTICS` of several steps; NaN if they have no noise or no gradient.

    Without the sums of every element over all steps, as `of_step` adds them, there is no
    ``elements`` and no ``signed``.
    """
    figures = {}
    for size in map(str, BLOCKS):
        figures[f"typical_{size}"] = _typical(
            sum(s.log2[size] for s in steps), sum(s.blocks[size] for s in steps)
        )
    blocks = sum(s.blocks["32"] for s in steps)
    figures["lost_32"] = sum(s.lost for s in steps) / blocks if blocks else math.nan
    tensors = list((sums or {}).values())
    for name, parts in (
        ("elements", [log2_ratios(one.error, one.noise) for one in tensors]),
        ("signed", [log2_ratios(one.signed**2 / len(steps), one.noise) for one in tensors]),
    ):
        figures[name] = _typical(sum(p[0] for p in parts), sum(p[1] for p in parts))
    figures["pooled"] = _mean([s.error / s.noise for s in steps if s.noise > 0])
    figures["step_nmse"] = _mean([s.error / s.reference for s in steps if s.reference > 0])
    layers = sum(s.layers for s in steps)
    cosine = sum(s.cosine for s in steps)
    figures["cosine_loss"] = max(1 - cosine / layers, 0.0) if layers else math.nan
    return {name: figures[name] for name in STATISTICS}


def _typical(log2: float, blocks: int) -> float:
    return 2.0 ** (log2 / blocks) if blocks else math.nan


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def of_trace(trace: Any, spec: str, topology: str, seed: int = 0) -> dict[str, float]:
    """`STATISTICS` and `PERSISTENT` of a trace's steps, exchanged one after another as in training.

    The trace has more than one worker, and a training loop can run the scheme.

    Raises
    ------
    ValueError
        A scheme that needs records that the trace does not have.
    """
    from .._core import StepExchange

    tensors = trace.manifest.tensors
    exchange = StepExchange(
        spec,
        [t.name for t in tensors],
        [t.role for t in tensors],
        [list(t.shape) for t in tensors],
        trace.workers,
        topology,
        seed,
        True,
    )
    sums: dict[str, ElementSums] = {}
    persistence = Persistence()
    steps = []
    for index, step in enumerate(trace.manifest.steps):
        rows = {
            t.name: np.stack([
                trace.read(step.number, t.name, w).reshape(-1) for w in range(trace.workers)
            ])
            for t in tensors
        }  # fmt: skip
        out = {name: np.empty(g.shape[1], np.float32) for name, g in rows.items()}
        weights = (
            [trace.read(step.number, t.name, kind="weights").reshape(-1) for t in tensors]
            if "weights" in exchange.needs
            else []
        )
        exchange.run(
            step.number, index, list(rows.values()), list(out.values()), weights,
            _or_nan(step.loss), _or_nan(step.learning_rate), 1,
        )  # fmt: skip
        errors = errors_of(rows, out)
        steps.append(of_step(errors, sums))
        persistence.add(step.number, errors)
    return pool(steps, sums) | persistence.found()


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else float(value)
