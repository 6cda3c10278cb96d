"""Lower bounds on a split's figure from its replayed steps, to stop early without losing a winner.

Every figure is a mean, or the maximum, of terms of the steps; terms of unseen steps have a lower
bound:

    figure                  terms                                                     at least                      mean over
    error_over_noise        sum of log2 max(E / N, 2^-30) over the step's blocks      -30 a block, or E's least     noise blocks
    step_nmse               E / R of the step, squares                                0, or E's least               steps with R > 0
    worst_nmse              the largest E / R of a layer                              0, or E's least               (the largest)
    layer_cosine, negative  sum of -cosine over the layers                            -1 a layer                    layers with R > 0

(definitions, sections 14 and 16; E squared error, N noise, R squared reference.) E's least, of
schemes without a scale, is the distance of the exact sum to the format (`floor`). N, R and the
number of terms depend on the trace, are the same for every split that does not overflow, and are
known from one replay. So the mean of the seen terms and of the lower bounds of the others is at
most the figure of the whole replay. A split that overflows somewhere ranks after all that do not,
whatever its other steps. A split is dropped if this bound exceeds the figure of a rival that was
replayed on all steps: the rival ranks before it. Only rivals with the same number of exponent bits
count, so that the best of each number of exponent bits is kept, and with it the best of all.
Without a rival that does not overflow none is dropped.

Sums are rounded: a bound must exceed the rival by `MARGIN`, which is more than the error of two
sums of four million terms (n 2^-53 times the sum of the magnitudes each).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from .._results.pooling import (
    after_gap,
    coded,
    headline_rows,
    losses,
    numbers,
    quotient,
    step_losses,
)  # fmt: skip
from .floor import FLOOR

#: Figures that can be minimized; for the cosine, its negative.
FIGURES = ("step_nmse", "error_over_noise", "worst_nmse", "layer_cosine")
MARGIN = 1e-9


class Bounds:
    """Bounds of K splits in C cells (all layers together, or each layer) on S steps.

    `figure` is one of `FIGURES`. `frame` has the rows of any one scheme on all steps, for R and the
    noise. `cells` has the cell of every tensor, `splits` by spec the group of rivals of every
    split, in the order of K. Layers in `left_out` have no cosine and no worst error: those that are
    numerically zero.
    """

    # Of a split in a cell on a step that it was not seen on, (K, C, S): at least this.
    _least: np.ndarray

    def __init__(
        self,
        figure: str,
        frame: pd.DataFrame,
        cells: Mapping[str, int],
        steps: Sequence[int],
        splits: Mapping[str, int],
        left_out: Collection[str] = (),
    ) -> None:
        self._zero = left_out
        self._left_out = left_out if figure in ("layer_cosine", "worst_nmse") else ()
        self._figure, self._cells = figure, dict(cells)
        self._steps = {step: i for i, step in enumerate(steps)}
        self._splits = {spec: k for k, spec in enumerate(splits)}
        self._groups = np.array(list(splits.values()))
        shape = len(self._splits), max(self._cells.values()) + 1, len(self._steps)
        self._seen = np.zeros((shape[0], shape[2]), bool)
        self._sums = np.zeros(shape[:2])  # for worst_nmse the maximum
        # Of x y by split and tensor, and of x x.
        self._arrived, self._whole = (np.zeros((shape[0], len(self._cells))) for _ in range(2))
        rows = headline_rows(coded(frame))
        lost, at = losses(rows), (self._cell(rows), self._step(rows))
        if figure == "error_over_noise":
            over = _added(np.nan_to_num(lost["noise_blocks"]), at, shape[1:])
        else:
            reference = np.where(self._counts(rows), lost["reference"], 0.0)
            over = (
                _added(reference > 0, at, shape[1:])
                if figure == "layer_cosine"
                else _added(reference, at, shape[1:]) > 0
            )
        self._over = over.sum(axis=1).astype(float)
        least = over * {"error_over_noise": FLOOR, "layer_cosine": -1.0}.get(figure, 0.0)
        self._least = np.repeat(least[None], shape[0], axis=0)
        self._reference = _added(
            lost["reference"], (self._tensor(rows), at[1]), (len(self._cells), len(self._steps))
        )

    def _cell(self, rows: pd.DataFrame) -> np.ndarray:
        return rows["tensor"].map(self._cells).to_numpy(int)

    def _tensor(self, rows: pd.DataFrame) -> np.ndarray:
        return rows["tensor"].map({name: t for t, name in enumerate(self._cells)}).to_numpy(int)

    def _step(self, rows: pd.DataFrame) -> np.ndarray:
        return rows["step"].map(self._steps).to_numpy(int)

    def _counts(self, rows: pd.DataFrame) -> np.ndarray:
        return ~rows["tensor"].isin(self._left_out).to_numpy()

    def know(self, splits: Sequence[int], terms: np.ndarray) -> None:
        """Lower bounds for splits, (splits, tensors, steps) of `floor.least_terms`."""
        shape = len(splits), *self._least.shape[1:]
        least, reference = np.zeros(shape), self._reference
        if self._figure == "step_nmse":
            reference = np.zeros(shape[1:])
            np.add.at(reference, list(self._cells.values()), self._reference)
        for t, (name, cell) in enumerate(self._cells.items()):
            if name in self._left_out:
                continue
            if self._figure == "worst_nmse":
                np.maximum(
                    least[:, cell],
                    quotient(terms[:, t], reference[t]),
                    out=least[:, cell],
                    where=reference[t] > 0,
                )
            else:
                least[:, cell] += terms[:, t]
        if self._figure == "step_nmse":
            least = np.where(reference > 0, quotient(least, reference), 0.0)
        self._least[list(splits)] = np.maximum(self._least[list(splits)], least)

    def see(self, frame: pd.DataFrame) -> None:
        """Add the rows of splits on new steps."""
        rows = headline_rows(coded(frame))
        split, cell, step = (
            rows["scheme"].map(self._splits).to_numpy(int),
            self._cell(rows),
            self._step(rows),
        )
        of, where = np.unique(
            np.ravel_multi_index((split, cell, step), (*self._sums.shape, len(self._steps))),
            return_inverse=True,
        )
        lost = losses(rows)
        if self._figure == "step_nmse":
            by_step = {
                name: np.bincount(where, lost[name]) for name in ("error", "reference", "overflow")
            }
            value, there = step_losses(by_step)
            terms, overflow = np.where(there, value, 0.0), by_step["overflow"]
        else:
            if self._figure == "error_over_noise":
                value, there = lost["log2_over_noise"], lost["noise_blocks"] > 0
            else:
                value, there = step_losses(lost)
                if self._figure == "layer_cosine":
                    value = lost["cosine"]
            there &= self._counts(rows)
            terms = np.where(there, -value if self._figure == "layer_cosine" else value, 0.0)
            overflow, of = lost["overflow"], of[where]
        # Without a rank: neither ahead of another, nor a reason to stop one.
        gaps = np.bincount(where, after_gap(rows)) > 0
        gaps = gaps if self._figure == "step_nmse" else gaps[where]
        terms = np.where((overflow > 0) | gaps, np.inf, terms)
        k, c, _ = np.unravel_index(of, (*self._sums.shape, len(self._steps)))
        (np.maximum if self._figure == "worst_nmse" else np.add).at(self._sums, (k, c), terms)
        self._seen[split, step] = True
        places = (split, self._tensor(rows))
        arrived = np.where(lost["skipped"], 0.0, np.nan_to_num(numbers(rows, "sum_product")))
        self._arrived += _added(arrived, places, self._arrived.shape)
        self._whole += _added(lost["reference"], places, self._whole.shape)

    def _lose(self) -> np.ndarray:
        """(K, C) bool: seen on all steps, and less than half of a layer arrives."""
        gone = self.whole[:, None] & (self._arrived < 0.5 * self._whole)
        lost = np.zeros(self._sums.shape, bool)
        for t, (name, cell) in enumerate(self._cells.items()):
            if name not in self._zero:
                lost[:, cell] |= gone[:, t]
        return lost

    def _ranks(self) -> np.ndarray:
        """(K, C): `_scores`, infinite of what loses a layer, which is never the best."""
        return np.where(self._lose(), np.inf, self._scores())

    @property
    def whole(self) -> np.ndarray:
        """(K,) bool: seen on all steps."""
        return np.asarray(self._seen.all(axis=1))

    @property
    def steps_seen(self) -> np.ndarray:
        """(K,) numbers of steps."""
        return self._seen.sum(axis=1)

    def unseen(self, split: int) -> tuple[int, ...]:
        """The steps on which a split was not replayed."""
        return tuple(step for step, i in self._steps.items() if not self._seen[split, i])

    def _scores(self) -> np.ndarray:
        """(K, C): bounds; log for error_over_noise, negative cosine, infinite with overflow."""
        left = np.where(self._seen[:, None], 0.0, self._least)
        if self._figure == "worst_nmse":
            worst = np.maximum(self._sums, left.max(axis=2, initial=0.0))
            return np.where(self._over > 0, worst, np.nan)
        with np.errstate(invalid="ignore"):
            return quotient(
                self._sums + left.sum(axis=2), np.broadcast_to(self._over, self._sums.shape)
            )

    def _best(self, scores: np.ndarray) -> np.ndarray:
        """(K, C): the least rank of a split's group, among those seen on all steps."""
        known = np.where(self.whole[:, None] & ~np.isnan(scores), scores, np.inf)
        return np.array([known[self._groups == group].min(axis=0) for group in self._groups])

    def lost(self) -> np.ndarray:
        """(K,) bool: a rival ranks before it in every cell that has a figure."""
        scores = self._scores()
        best = self._best(self._ranks())
        size = {"error_over_noise": 2 * -FLOOR + np.abs(best), "layer_cosine": 1.0}.get(
            self._figure, best
        )
        with np.errstate(invalid="ignore"):
            behind = (scores > best + MARGIN * size) & np.isfinite(best)
        return ~self.whole & (behind | (self._over == 0)).all(axis=1)

    def leaders(self) -> list[int]:
        """Splits with the least bound of their group in a cell that were not seen on all steps."""
        scores = np.where(np.isnan(ranks := self._ranks()), np.inf, ranks)
        places = set()
        for group in np.unique(self._groups):
            inside = np.flatnonzero(self._groups == group)
            least = scores[inside].argmin(axis=0)
            places |= {
                int(inside[i]) for c, i in enumerate(least) if np.isfinite(scores[inside[i], c])
            }
        return sorted(k for k in places if not self.whole[k])

    def bounds(self) -> np.ndarray:
        """(K, C): bounds on the figure, upper for the cosine; the figure if seen on all steps.

        Infinite (-inf for the cosine) with overflow or a gap.
        """
        scores = self._scores()
        if self._figure == "error_over_noise":
            return np.exp2(scores)
        return -scores if self._figure == "layer_cosine" else scores


def _added(values: np.ndarray, at: tuple[np.ndarray, ...], shape: tuple[int, ...]) -> np.ndarray:
    return np.bincount(
        np.ravel_multi_index(at, shape), values.astype(float), int(np.prod(shape))
    ).reshape(shape)
