"""Which statistic of recorded errors orders schemes as training does, and its prediction.

A combination is a task and a scheme. Its excess is the mean over the seeds of the training loss at
the end minus fp32's of the same seed; it is above the seeds' noise if its whole 95 % interval
(Student's t) is above 0. Over such combinations log10 of the excess is compared with log10 of a
statistic (`statistics.STATISTICS`), of the fp32 run's trace or of the run itself.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._core import student_t
from .folder import read
from .statistics import STATISTICS
from .verdicts import KEY, interval, run_ends

#: With fewer combinations nothing is fitted.
FEWEST = 4
_DRAWS = 2000  # of a bootstrap
_ENDS = ("low", "high")
_PAIR = [
    "task", "model", "better", "worse", "excess_better", "excess_worse", "statistic_better",
    "statistic_worse",
]  # fmt: skip


def combinations(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """One row per task, scheme and topology of an experiment's folder, without the baselines.

    Returns
    -------
    DataFrame
        ``task``, ``model``, ``scheme``, ``topology``, ``seeds``; ``lost``: runs whose loss was not finite at a
        step; ``excess``, ``excess_low``, ``excess_high`` of the others, whether or not they count
        as diverged; the same of ``excess_accuracy``; ``volume``, ``speedup``, ``verdict``; every
        statistic of the fp32 run's trace, and as ``own_...`` the geometric mean over the seeds of
        that of the runs themselves.
    """
    experiment, rows, about = read(folder)
    counted = about["statistics"]
    trace = counted[counted["source"] == "trace"].drop(columns=["source", "seed"])
    of_runs = counted[counted["source"] == "run"].drop(columns=["source", "seed"])
    of_runs = of_runs.groupby(KEY, sort=False).agg(_geometric_mean).add_prefix("own_").reset_index()
    judged = about["verdicts"][[*KEY, "volume", "speedup", "verdict"]]
    table = excesses(run_ends(rows), experiment.baselines)
    for other in (judged, trace, of_runs):
        table = table.merge(other, how="left", on=KEY)
    return table


def _geometric_mean(values: pd.Series) -> float:
    x = values.to_numpy(float)
    return float(np.exp(np.log(x).mean())) if len(x) and (x > 0).all() else math.nan


def excesses(ends: pd.DataFrame, baselines: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """The columns of `combinations` that compare runs, of the runs' ends (`run_ends`)."""
    base = ends[ends["scheme"] == baselines[0][0]]
    compared = []
    for key, runs in ends.groupby(KEY, sort=False):
        if key[2:] in baselines:
            continue
        pairs = runs.merge(base, on=["task", "model", "seed"], suffixes=("", "_base"))
        sound = pairs[np.isfinite(pairs["loss"]) & np.isfinite(pairs["loss_base"])]
        mean, low, high = interval((sound["loss"] - sound["loss_base"]).to_numpy(float))
        gained = interval((sound["accuracy"] - sound["accuracy_base"]).to_numpy(float))
        compared.append({
            **dict(zip(KEY, key)), "seeds": len(pairs),
            "lost": len(pairs) - len(sound),
            "excess": mean, "excess_low": low, "excess_high": high,
            "excess_accuracy": gained[0], "excess_accuracy_low": gained[1],
            "excess_accuracy_high": gained[2],
        })  # fmt: skip
    return pd.DataFrame(compared)


def above_noise(table: pd.DataFrame, statistic: str) -> pd.DataFrame:
    """Combinations that a line can be fitted to: excess above the seeds' noise, no run lost."""
    known = np.isfinite(table[statistic]) & (table[statistic] > 0)
    return table[known & (table["excess_low"] > 0) & (table["lost"] == 0)]


class Law(NamedTuple):
    """log10 excess = offset + slope log10 statistic, by least squares."""

    combinations: int
    slope: float
    offset: float
    spread: float  #: 10^(standard deviation of the residuals): a factor
    pearson: float
    spearman: float

    @property
    def factor(self) -> float:
        """The excess at a statistic of 1, in nats."""
        return float(10.0**self.offset)

    @property
    def half(self) -> float:
        """The factor from the line to either end of the 95 % interval of a new combination."""
        return float(self.spread ** student_t(self.combinations - 2))

    def predict(self, statistic: Any) -> Any:
        """The excess in nats."""
        return 10.0 ** (self.offset + self.slope * np.log10(statistic))

    def predict_interval(self, statistic: Any) -> tuple[Any, Any]:
        """The 95 % interval of a new combination's excess, without the slope's own error."""
        middle = self.predict(statistic)
        return middle / self.half, middle * self.half


def fit(statistic: Any, excess: Any) -> Law:
    """A straight line in logarithms; NaN for fewer than `FEWEST` combinations or equal statistics."""
    x, y = np.log10(np.asarray(statistic, float)), np.log10(np.asarray(excess, float))
    if len(x) < FEWEST or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Law(len(x), *(math.nan,) * 5)
    dx, dy = x - x.mean(), y - y.mean()
    slope = float(dx @ dy / (dx @ dx))
    residual = dy - slope * dx
    return Law(
        len(x), slope, float(y.mean() - slope * x.mean()),
        float(10.0 ** math.sqrt(residual @ residual / (len(x) - 2))), _correlation(x, y),
        _correlation(_ranks(x), _ranks(y)),
    )  # fmt: skip


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    dx, dy = x - x.mean(), y - y.mean()
    return float(dx @ dy / math.sqrt((dx @ dx) * (dy @ dy)))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1; equal values share the mean of theirs."""
    return pd.Series(values).rank().to_numpy()


def fit_intervals(statistic: Any, excess: Any, seed: int = 0) -> dict[str, tuple[float, float]]:
    """95 % intervals of slope, pearson and spearman, by a bootstrap over the combinations.

    Draws with fewer than three different combinations are left out.
    """
    x, y = np.log10(np.asarray(statistic, float)), np.log10(np.asarray(excess, float))
    names = ("slope", "pearson", "spearman")
    if math.isnan(fit(statistic, excess).slope):
        return dict.fromkeys(names, (math.nan, math.nan))
    n = len(x)
    times = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=_DRAWS)
    times = times[(times > 0).sum(axis=1) >= 3]  # how often a draw has each combination
    slope, pearson = _weighted(times, x, y)
    spearman = _weighted(times, _ranks_drawn(times, x), _ranks_drawn(times, y))[1]
    low, high = np.nanquantile([slope, pearson, spearman], [0.025, 0.975], axis=1)
    return {name: (float(low[i]), float(high[i])) for i, name in enumerate(names)}


def _weighted(times: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slope and correlation of every draw; NaN if x or y does not vary."""
    n = times.shape[1]
    dx = x - (times * x).sum(axis=1, keepdims=True) / n
    dy = y - (times * y).sum(axis=1, keepdims=True) / n
    xx, yy, xy = ((times * a * b).sum(axis=1) for a, b in ((dx, dx), (dy, dy), (dx, dy)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return xy / xx, xy / np.sqrt(xx * yy)


def _ranks_drawn(times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The rank of every value in each draw; equal values share the mean of theirs."""
    lower, equal = values[:, None] < values, values[:, None] == values
    return times @ (lower + equal / 2) + 0.5


def wrong_pairs(table: pd.DataFrame, statistic: str) -> tuple[pd.DataFrame, int]:
    """Pairs of one task's schemes that the statistic orders otherwise than training does.

    Training orders two schemes if the intervals of their excess do not overlap.

    Returns
    -------
    pairs : DataFrame
        ``task``, ``model``, ``better``, ``worse``: the schemes (with their topologies, if the table
        has several) as training orders them, with their excess and statistic; the largest difference of excess first.
    count : int
        How many pairs training orders.
    """
    wrong, count = [], 0
    known = table[table[statistic].notna() & (table["lost"] == 0) & table["excess_high"].notna()]
    if "topology" in known and known["topology"].nunique() > 1:
        known = known.assign(scheme=known["scheme"] + ", " + known["topology"])
    read = ["scheme", "excess", "excess_low", "excess_high", statistic]
    known = known[list(dict.fromkeys([*KEY[:2], *read]))]
    for (task, model), of_task in known.groupby(["task", "model"], sort=False):
        for a, b in itertools.combinations(of_task.itertuples(index=False), 2):
            better, worse = (a, b) if a.excess < b.excess else (b, a)
            if not better.excess_high < worse.excess_low:
                continue
            count += 1
            values = getattr(better, statistic), getattr(worse, statistic)
            if values[0] >= values[1]:
                schemes, excesses = (better.scheme, worse.scheme), (better.excess, worse.excess)
                wrong.append((task, model, *schemes, *excesses, *values))
    pairs = pd.DataFrame(wrong, columns=_PAIR)
    order = (pairs["excess_better"] - pairs["excess_worse"]).sort_values(kind="stable").index
    return pairs.loc[order].reset_index(drop=True), count


def relations(table: pd.DataFrame, statistics: Sequence[str] = tuple(STATISTICS)) -> pd.DataFrame:
    """One row per task and statistic: the line, its correlations with intervals, and wrong pairs.

    The statistics are columns of the table of `combinations`.
    """
    rows = []
    for (task, model), part in table.groupby(["task", "model"], sort=False):
        for statistic in statistics:
            fitted = above_noise(part, statistic)
            law = fit(fitted[statistic], fitted["excess"])
            wide = fit_intervals(fitted[statistic], fitted["excess"])
            wrong, pairs = wrong_pairs(part, statistic)
            ends = {f"{n}_{end}": v for n, two in wide.items() for end, v in zip(_ENDS, two)}
            row = {"task": task, "model": model, "statistic": statistic}
            row |= {**law._asdict(), "factor": law.factor, **ends}
            rows.append(row | {"wrong": len(wrong), "pairs": pairs})
    return pd.DataFrame(rows)


def ranking(table: pd.DataFrame, statistics: Sequence[str] = tuple(STATISTICS)) -> pd.DataFrame:
    """The statistics, the best first: by the share of wrong pairs, then by the mean of `pearson`.

    Returns
    -------
    DataFrame
        ``statistic``, ``wrong``, ``pairs``, ``share``; the means over the tasks of ``pearson`` and
        ``spearman``; ``slope``, ``factor`` and ``spread`` of one line through all tasks.
    """
    each = relations(table, statistics)
    rows = []
    for statistic, of_tasks in each.groupby("statistic", sort=False):
        fitted = above_noise(table, statistic)
        law = fit(fitted[statistic], fitted["excess"])
        pairs, wrong = int(of_tasks["pairs"].sum()), int(of_tasks["wrong"].sum())
        rows.append({
            "statistic": statistic, "wrong": wrong, "pairs": pairs,
            "share": wrong / pairs if pairs else math.nan,
            "pearson": of_tasks["pearson"].mean(), "spearman": of_tasks["spearman"].mean(),
            "slope": law.slope, "factor": law.factor, "spread": law.spread,
        })  # fmt: skip
    return pd.DataFrame(rows).sort_values(
        ["share", "pearson"], ascending=[True, False], kind="stable", ignore_index=True
    )


def ratios(table: pd.DataFrame, statistic: str, law: Law) -> pd.DataFrame:
    """One row per task: how far the trained excess is from a law's prediction.

    Returns
    -------
    DataFrame
        ``task``, ``model``, ``count`` of combinations above the noise; ``ratio``: trained over
        predicted, geometric mean; ``spread``: 10^(standard deviation of its log10), the error that
        is left if the task's own ratio is known; ``within``: combinations in the law's 95 %
        interval.
    """
    rows = []
    for (task, model), part in table.groupby(["task", "model"], sort=False):
        fitted = above_noise(part, statistic)
        log = np.log10(fitted["excess"] / law.predict(fitted[statistic]))
        low, high = law.predict_interval(fitted[statistic])
        rows.append({
            "task": task, "model": model, "count": len(fitted), "ratio": 10.0 ** log.mean(),
            "spread": 10.0 ** log.std(ddof=1),
            "within": int(fitted["excess"].between(low, high).sum()),
        })  # fmt: skip
    return pd.DataFrame(rows)
