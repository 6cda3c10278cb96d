"""`apscope.limit`: Shannon's lower bound of recorded gradients, and how far schemes are from it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .. import _core
from .._arrays.checks import flag, integer, listed, number, text
from .._arrays.float_environment import guarded
from .._progress import Bar
from .._schemes.lists import schemes_of
from .._schemes.scheme import Scheme
from .._traces.opening import TraceLike, as_trace
from .._traces.selection import parse_steps, selected_steps, selected_tensors
from .._traces.trace import Trace
from .bound import ENTROPY_CODED, Bound, OfSum, bits_above
from .grids import best_grid
from .measure import Measured, Part, measure

__all__ = ["ENTROPY_CODED", "SCHEMES", "Limit", "limit"]

#: Measured by default: formats of the hardware with a scale per tensor, then blocks.
SCHEMES = (
    "aps:e5m2,rule=tight", "aps:e4m3fn,rule=tight", "aps:e3m4,rule=tight",
    "mx:block_format=mxfp8_e5m2", "mx:block_format=mxfp8_e4m3", "mx:block_format=mxint8",
    "mx:block_format=mxfp6_e2m3", "mx:block_format=mxfp4", "nvfp4:rounding=ties_to_even,rht=false",
    "mx:block_format=blocks:int4",
)  # fmt: skip
BITS = (2, 4, 6, 8)

#: Best grids have at most this many bits per value.
_GRID_BITS = 12


@dataclass(frozen=True, eq=False)
class Limit:
    """The result of `limit`. Errors are mean squares in units of the block's binade, 4^S."""

    trace: str  #: the trace's name
    block: int  #: elements that share a power of two
    workers: int
    steps: int  #: number of steps
    blocks: int  #: with a nonzero element, of all workers' gradients
    zero_blocks: int  #: the others, which are left out
    nonfinite: int  #: elements that are infinite or NaN, which are left out
    is_sample: bool  #: whether a tensor is a sample of a larger one: the figures are the sample's
    every: int  #: every how many blocks one is in the sample
    elements: int  #: finite, of the sample's blocks
    values: int  #: nonzero, of the sample's blocks: n
    widths: np.ndarray  #: of the blur
    entropies: np.ndarray  #: the entropy in bits of a value blurred by each width
    #: one row per number of bits: ``bits``, ``limit``, ``entropy_coded``, ``up_over_noise``,
    #: ``down_over_noise``, ``limit_over_noise``
    curve: pd.DataFrame
    #: one row per integer number of bits: ``bits``, ``levels``, ``error``, ``bits_above_limit``
    grids: pd.DataFrame
    #: one row per scheme: ``scheme``, ``bits``, ``error``, ``overflow``, ``limit``,
    #: ``bits_above_limit``
    schemes: pd.DataFrame
    _bound: Bound
    _of_sum: OfSum

    def at(self, bits: Any) -> Any:
        """L(R): the least mean squared error of `bits` per element.

        Parameters
        ----------
        bits : float or array_like
            At least 0.

        Returns
        -------
        float or array
            NaN if there are fewer values than 2^(R + 4), R the bits of a nonzero value.
        """
        return self._bound.at(bits)

    def over_noise(self, bits: Any) -> Any:
        """The least error over the noise of a sum of all workers, in the typical block.

        Parameters
        ----------
        bits : float or array_like
            Per element, of each worker's message and of the message with the sum; at least 0.

        Returns
        -------
        float or array
            The larger of ``up_over_noise`` and ``down_over_noise`` of `curve`; NaN if the noise is
            unknown.
        """
        return self._of_sum.at(bits)

    def bits_above(self, error: Any, bits: Any, *, over_noise: bool = False) -> Any:
        """How many bits an error is above the limit: 1/2 log2(error / L(bits)).

        Parameters
        ----------
        error : float or array_like
            In the unit of `at`, or with `over_noise` of the typical block over the noise.
        bits : float or array_like
            Per element, with those of the scales.
        over_noise : bool

        Returns
        -------
        float or array
            NaN without a limit, or for an error or bits that are NaN.
        """
        least = self.over_noise(bits) if flag("over_noise", over_noise) else self.at(bits)
        above = bits_above(error, least)
        return float(above) if above.ndim == 0 else above


@guarded
def limit(
    trace: TraceLike,
    schemes: Scheme | str | Iterable[Scheme | str] = SCHEMES,
    *,
    bits: Iterable[float] = BITS,
    block: int = 32,
    steps: slice | str | Iterable[int] | None = None,
    tensors: str | None = None,
    workers: int | None = None,
    seed: int = 0,
    threads: int = 0,
    progress: bool = False,
) -> Limit:
    """The error that no code of R bits per value undercuts, of a trace's own gradients.

    Shannon's lower bound of the recorded values themselves (docs/limit.md has the proof): blocks
    of 32 elements, each divided by its own power of two, which is given to the code free of cost.
    It holds without assumptions for every map that treats the elements of all blocks alike (a
    cast, a table, stochastic rounding), and for every code if elements of a block are independent.
    A scheme that uses the places of elements may be below it.

    Parameters
    ----------
    trace : Trace, path, URL or gradients
        A recorded trace, or gradients in memory, as for `replay`.
    schemes : Scheme, str or an iterable of them
        Each worker's gradients are encoded alone, as with one worker, and their bits include the
        scales. Where zeros take fewer bits than other values (Elias' codes), all bits are counted
        for the elements of blocks that are not zero. By default `SCHEMES`: formats of the
        hardware, and blocks. Empty: none.
    bits : iterable of float
        Bits per element, 0 to 32: the rows of `Limit.curve`, and of `Limit.grids` if an integer
        from 1 to 12.
    block : int
        Elements that share a power of two, 1 to 4096, from the start of a tensor; 16 for NVFP4.
    steps : slice, str or iterable of int, optional
        Recorded step numbers, as for `replay`.
    tensors : str, optional
        Only tensors in whose names this regular expression is found.
    workers : int, optional
        Ranks 0 to workers - 1 only.
    seed : int
        Of schemes that draw; worker w has seed + w.
    threads : int
        0 uses all of the machine's. Their number never changes a bit.
    progress : bool
        A bar on standard error.

    Returns
    -------
    Limit
        A block of zeros is left out, an element that is zero needs no bits, and elements that are
        not finite are left out and counted. Of more than 2^20 values every ceil(n / 2^20)-th block
        is taken, for the limit and for the errors. A limit of R bits with fewer than 2^(R + 4)
        values is NaN. The columns ``..._over_noise`` are the limit of a sum of all workers in units
        of the noise of the batch, in the typical block: ``up_over_noise`` of the messages to the
        sum, which is an estimate and needs independent workers, ``down_over_noise`` of the
        messages with the sum, and the larger of them; NaN if the noise is unknown.
        ``bits_above_limit`` is 1/2 log2(error / limit). With ``overflow``, the number of elements
        that are infinite or NaN when decoded, the error is infinite.

    Raises
    ------
    ValueError
        No such step, tensor or worker; a number of bits or block out of range; gradients that are
        zero wherever they are finite; a scheme that needs weights or is a policy.

    Examples
    --------
    >>> import apscope
    >>> found = apscope.limit("notebooks/data/digits", ["mx:mxfp4"])  # doctest: +SKIP
    >>> found.schemes[["scheme", "bits", "bits_above_limit"]]  # doctest: +SKIP
    """
    rates = np.array([_rate(r) for r in listed("bits", bits)], np.float64)
    block, seed = integer("block", block, 1, 4096), integer("seed", seed, 0, 2**63 - 1)
    threads = integer("threads", threads, 0, 2**20)
    chosen = schemes_of([schemes] if isinstance(schemes, str | Scheme) else schemes)
    steps = parse_steps(steps)  # before the trace is opened
    part = _part(as_trace(trace), steps, tensors, workers, block)
    noisy = part.workers > 1 and part.trace.manifest.stage == "local"
    with Bar(part.trace.name, flag("progress", progress)) as update:
        m = measure(part, chosen, noisy, seed, update)
    part.trace.check_unchanged()
    z = m.gradients.values
    if not len(z):
        raise ValueError(
            "the gradients are zero wherever they are finite, so there is nothing to encode; give "
            "other steps"
        )
    bound = Bound.of(z, m.gradients.elements, 1.0, threads)
    of_sum = m.of_sum(threads)
    census = m.gradients.census
    return Limit(
        trace=part.trace.name, block=block, workers=part.workers, steps=len(part.steps),
        blocks=census.blocks, zero_blocks=census.zero_blocks, nonfinite=census.nonfinite,
        is_sample=any(t.sampled_from for t in part.trace.manifest.tensors),
        every=census.every, elements=bound.elements, values=bound.values,
        widths=_core.blur_widths(), entropies=bound.entropies,
        curve=_curve(rates, bound, of_sum), grids=_grids(rates, bound, z),
        schemes=_schemes(m, bound), _bound=bound, _of_sum=of_sum,
    )  # fmt: skip


def _rate(value: Any) -> float:
    if not 0 <= number("bits", value) <= 32:
        raise ValueError(f"bits={value} is not between 0 and 32")
    return float(value)


def _part(trace: Trace, steps: Any, tensors: str | None, workers: int | None, block: int) -> Part:
    at = selected_steps(trace, parse_steps(steps))
    names = selected_tensors(trace, None if tensors is None else text("tensors", tensors))
    used = trace.workers if workers is None else integer("workers", workers, 1, trace.workers)
    trace.require(at, range(used), ["gradient"])
    return Part(trace, [trace.steps[i] for i in at], [trace.tensors[i] for i in names], used, block)


def _curve(rates: np.ndarray, bound: Bound, of_sum: OfSum) -> pd.DataFrame:
    limits, of_messages, of_sums = bound.at(rates), of_sum.up.at(rates), of_sum.down.at(rates)
    return pd.DataFrame(
        {
            "bits": rates,
            "limit": limits,
            "entropy_coded": limits * (2 * math.pi * math.e / 12),
            "up_over_noise": of_messages,
            "down_over_noise": of_sums,
            "limit_over_noise": np.fmax(of_messages, of_sums),
        }
    )


def _grids(rates: np.ndarray, bound: Bound, z: np.ndarray) -> pd.DataFrame:
    rows = []
    for rate in rates.tolist():
        if rate.is_integer() and 1 <= rate <= _GRID_BITS:
            error = best_grid(z, 2 ** int(rate)).nearest / bound.elements
            above = float(bits_above(error, bound.at(rate)))
            rows.append((rate, 2 ** int(rate), error, above))
    return pd.DataFrame(rows, columns=["bits", "levels", "error", "bits_above_limit"])


def _schemes(m: Measured, bound: Bound) -> pd.DataFrame:
    rows: list[tuple[Any, ...]] = []
    for message in m.messages:
        bits, error = message.bits / message.elements, message.error / bound.elements
        least = bound.at(bits)
        above = float(bits_above(error, least))
        rows.append((message.scheme.spec, bits, error, message.overflow, least, above))
    return pd.DataFrame(
        rows, columns=["scheme", "bits", "error", "overflow", "limit", "bits_above_limit"]
    )
