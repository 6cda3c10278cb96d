"""The least error that a step can have in a format, without a replay.

A sum that is rounded hop by hop ends as a value of its format, whatever was rounded before it, and
so does one of two phases, whose second phase casts every sum to the format: its
error is at least the distance of the exact sum to the nearest value of the format. One rounding of
the exact sum thus bounds the error of a replay, which rounds every worker's values and every hop.

It is computed in fp64 here and in C++, in other orders; E is made smaller by 2^-20, which is more
than both errors, and where rounding could decide about a block's noise (N below 2^-30 of its
squares; cancellation leaves a relative error of 2^-33 in the others) the block counts as -30.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from .._arrays.casts import quantize
from .._core import FloatFormat
from .._traces.trace import Trace

#: log2 of the least error over the noise of a block; docs/definitions.md, section 16.
FLOOR = -30.0
_BLOCK = 32  # elements that share a noise
_BATCH = 2**20  # elements that are rounded together
_CERTAIN = 2.0**-30
_SMALLER = 1 - 2.0**-20


#: Topologies whose every hop rounds to the format.
_HOPS = ("ring", "tree", "sequential", "hierarchical")


def ends_in_format(spec: str, f: FloatFormat, topology: str) -> bool:
    """Whether a sum's last rounding is to this format, without a scale.

    Not if two phases encode the sums by another scheme; a topology that is not known here may add
    in another format.
    """
    name = re.split(r"[:+,]", topology, maxsplit=1)[0]
    ends = (name in _HOPS and "(" not in topology) or (
        name == "two_phase" and ",phase2=" not in topology
    )
    return spec == f"none:{f.name}" and ends


def least_terms(
    trace: Trace,
    figure: str,
    steps: Sequence[int],
    tensors: Sequence[str],
    workers: int,
    formats: Sequence[FloatFormat],
    threads: int,
) -> np.ndarray:
    """Lower bounds, float64 of the shape (formats, tensors, steps); `steps` are recorded numbers.

    With ``error_over_noise`` of the sum of log2 max(E / N, 2^-30) over the blocks with noise, for
    another figure of the squared error E. The trace has local gradients of two or more workers.
    """
    over_noise = figure == "error_over_noise"
    shape = len(tensors), len(steps)
    bounds = np.zeros((len(formats), *shape))
    blocks = np.zeros(shape)
    for exact, scale, noise, place in _batches(trace, steps, tensors, workers):
        blocks += np.bincount(place, noise > 0, blocks.size).reshape(shape)
        for k, f in enumerate(formats):
            apart = quantize(exact, f, overflow="saturate", threads=threads)
            apart -= exact
            terms = np.einsum("ij,ij->i", apart, apart) * (scale * _SMALLER)
            if over_noise:
                with np.errstate(divide="ignore", invalid="ignore"):
                    terms = np.log2(np.maximum(terms / noise, 2.0**FLOOR))
                terms = np.where(noise > 0, terms, np.where(noise < 0, FLOOR, 0.0))
            bounds[k] += np.bincount(place, terms, shape[0] * shape[1]).reshape(shape)
    # A sample's sums stand for the whole's; a number of blocks is rounded, by at most a half.
    of = {t.name: (t.sampled_from or t.size) / max(t.size, 1) for t in trace.manifest.tensors}
    factor = np.array([of[name] for name in tensors])[:, None]
    rounded = np.where(factor > 1, 0.5 / np.maximum(blocks, 1), 0.0) if over_noise else 0.0
    return bounds * factor - np.abs(bounds) * rounded


def _batches(
    trace: Trace, steps: Sequence[int], tensors: Sequence[str], workers: int
) -> Iterator[tuple[np.ndarray, float, np.ndarray, np.ndarray]]:
    """Exact sums, one row per block; the factor of their squares; each row's noise and place.

    The noise is -1 where it is uncertain.
    """
    mean = trace.manifest.reduction == "mean"
    scale = workers**-2.0 if mean else 1.0
    batch: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    count = 0
    for s, step in enumerate(steps):
        for t, tensor in enumerate(tensors):
            exact, noise = _blocks(trace, step, tensor, workers)
            noise = np.where(noise > 0, noise * (scale / (workers - 1) * workers), noise)
            batch.append((exact, noise, np.full(len(noise), t * len(steps) + s)))
            count += exact.size
            if count >= _BATCH:
                yield _joined(batch, scale)
                batch, count = [], 0
    if batch:
        yield _joined(batch, scale)


def _joined(
    batch: list[tuple[np.ndarray, np.ndarray, np.ndarray]], scale: float
) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    exact, noise, place = (np.concatenate(parts) for parts in zip(*batch))
    return exact, scale, noise, place


def _blocks(trace: Trace, step: int, tensor: str, workers: int) -> tuple[np.ndarray, np.ndarray]:
    """The sum of the gradients, and the sum of squared deviations from their mean, of each block.

    An element of which some worker's gradient is not finite is 0 here: it adds nothing anywhere.
    """
    gradients = np.array(
        [trace.read(step, tensor, worker).reshape(-1) for worker in range(workers)], np.float64
    )
    gradients[:, ~np.isfinite(gradients).all(axis=0)] = 0.0
    gradients = np.pad(gradients, ((0, 0), (0, -gradients.shape[1] % _BLOCK)))
    rows = gradients.reshape(workers, -1, _BLOCK)
    exact = rows.sum(axis=0)
    squares = np.einsum("wij,wij->i", rows, rows)
    rows -= exact / workers
    noise = np.einsum("wij,wij->i", rows, rows)
    return exact, np.where(noise >= _CERTAIN * squares, noise, -1.0) * (squares > 0)
