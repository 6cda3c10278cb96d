"""The excess loss that an error predicts, as far as it was established.

docs/insight.md fits lines to small tasks that were trained: excess = factor * (update_loss_k *
gained)^slope for schemes of all kinds (`update_law.json`, written by docs/tools/number.py), and
excess = factor * error_over_noise^slope for one scheme for all layers, rounded to nearest
(`law.json`, by docs/tools/insight.py).
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from .._arrays.checks import number
from .._schemes.scheme import Scheme, as_scheme

#: What `with_expected` adds to a summary.
COLUMNS = (
    "expected_excess", "expected_excess_low", "expected_excess_high", "expected_excess_refused",
)  # fmt: skip
#: Columns of a summary that count steps of a kind that was not trained.
_NOT_TRAINED = ("overflowed", "skipped", "gaps")


class ExpectedExcess(NamedTuple):
    """Excess training loss over fp32 in nats, and its 95 % interval; NaN if none is established."""

    loss: float
    low: float
    high: float
    refused: str = ""  #: Why none is established, a sentence; "" if one is.

    def __str__(self) -> str:
        if math.isnan(self.high):
            return ""
        if math.isnan(self.loss):
            return f"0 to {self.high:.1g}"
        return f"{self.loss:.1g} ({self.low:.1g} to {self.high:.1g})"


@cache
def _law(name: str) -> dict[str, Any]:
    return json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


def is_covered(scheme: str | Scheme) -> bool:
    """Whether the line of ``error_over_noise`` covers it: by name, messages and sums to nearest."""
    parsed = as_scheme(scheme)
    roundings = {parsed.keys.get("rounding", ""), parsed.keys.get("hop_rounding", "same")}
    return parsed.name in _law("law.json")["schemes"] and roundings <= {"ties_to_even", "same"}


def names_of(scheme: str | Scheme) -> set[str]:
    """The names in a scheme: its own, and those of the schemes inside of it."""
    parsed = as_scheme(scheme)
    inner = [spec for _, spec in parsed.branches] or ([parsed.body] if parsed.body else [])
    return {parsed.name}.union(*map(names_of, inner))


def expected_excess(
    scheme: str | Scheme,
    error_over_noise: float | None = None,
    *,
    update_loss_10: float | None = None,
    update_loss_3: float | None = None,
    gained: float | None = None,
    lost_gain: float | None = None,
    overflowed: int = 0,
    skipped: int = 0,
    gaps: int = 0,
) -> ExpectedExcess:
    """The excess training loss over fp32 that an error predicts.

    With ``update_loss_10`` and ``gained``, excess = 7.8 (update_loss_10 gained)^0.99 nats, for
    schemes of every kind that was trained. The 95 % interval, a factor of 4.4 either way, has about
    90 % of the combinations of a task and a scheme that it was not fitted to, among those with a
    ``lost_gain`` below 1/3; that of ``update_loss_3``, a factor of 5.6, about 93 %. With
    ``error_over_noise`` alone, the line of schemes that round to nearest. All lines were fitted to
    three small tasks; the others are small, too, but for a GPT of 3.4 million parameters
    (docs/insight.md). For larger models they are hypotheses.

    Parameters
    ----------
    scheme : str or Scheme
        With ``error_over_noise``, one scheme for all layers.
    error_over_noise : float, optional
        That of `Results.summary`, at least 0; not together with ``update_loss_k``.
    update_loss_10, update_loss_3 : float, optional
        Those of `Results.summary`, at least 0, of runs of consecutive steps from the whole of an
        fp32 training; the second counts if the first is None or NaN.
    gained : float, optional
        The loss in nats by which the fp32 training falls from its middle to its end; needed with
        ``update_loss_k``.
    lost_gain, overflowed, skipped, gaps : float and int, optional
        Those of `Results.summary`; ``lost_gain`` is needed with ``update_loss_k``.

    Returns
    -------
    ExpectedExcess
        ``loss``, ``low``, ``high`` in nats, of cross-entropy: the line's value and the 95 %
        interval of one prediction. Below what was trained: NaN, 0, and the interval's end there.
        All NaN, and ``refused`` a sentence, outside of what was trained: for NaN, and above the
        errors that were trained, where a line bends. With ``update_loss_k`` also for one-bit and
        other schemes of which none was trained, a ``gained`` outside of 0.0049 to 0.42, a
        ``lost_gain`` of 1/3 or more, with which training can fail, and overflow, skipped steps or
        gaps. With ``error_over_noise`` also for all schemes but ``aps``, ``loss_scaling`` and
        ``mx`` that round to nearest.

    Raises
    ------
    ValueError
        Not a scheme; neither or both of the errors; ``gained`` or ``lost_gain`` missing, ``gained``
        NaN; a number below 0.

    Examples
    --------
    >>> import apscope
    >>> spec = "error_feedback(aps:e3m0)"
    >>> str(apscope.expected_excess(spec, update_loss_10=0.02, gained=0.1, lost_gain=0.05))
    '0.02 (0.004 to 0.07)'
    >>> apscope.expected_excess(spec, update_loss_10=0.02, gained=0.1, lost_gain=0.5).refused
    'lost_gain=0.5 is 1/3 or more: so much of the layers is lost that training can fail'
    >>> str(apscope.expected_excess("aps:e4m3,rounding=stochastic", 0.1))
    ''
    """
    updates = {"update_loss_10": update_loss_10, "update_loss_3": update_loss_3}
    losses = {name: value for name, value in updates.items() if value is not None}
    if (error_over_noise is None) == (not losses):
        raise ValueError(
            f"error_over_noise={error_over_noise} and update_loss_10={update_loss_10}: give one of "
            "them, update_loss_10 with gained and lost_gain"
        )
    if error_over_noise is not None:
        return _of_error(scheme, number("error_over_noise", error_over_noise))
    if gained is None or lost_gain is None:
        raise ValueError(
            f"gained={gained} and lost_gain={lost_gain}: {', '.join(losses)} needs both, gained the "
            "nats that fp32 gains from the middle of the training to its end, lost_gain that of "
            "the summary"
        )
    figures = {"gained": checked(gained), "lost_gain": lost_gain}
    for name, value in (losses | {"lost_gain": lost_gain}).items():
        if number(name, value) < 0:
            raise ValueError(f"{name}={value} must be at least 0")
    steps = {"overflowed": overflowed, "skipped": skipped, "gaps": gaps}
    known = [(name, value) for name, value in losses.items() if not math.isnan(value)]
    if refused := _refusal(scheme, known[:1], figures | steps):
        return _nothing(refused)
    name, value = known[0]
    return _on_line(_law("update_law.json")[name], value * gained)


def checked(gained: float) -> float:
    """What fp32 gains, after checks that it can be."""
    if not number("gained", gained) >= 0:
        raise ValueError(f"gained={gained} must be at least 0, in nats")
    return gained


def _of_error(scheme: str | Scheme, error: float) -> ExpectedExcess:
    """By the error over the noise."""
    if error < 0:
        raise ValueError(f"error_over_noise={error} must be at least 0")
    law = _law("law.json")
    if not is_covered(scheme):
        return _nothing(
            f"error_over_noise predicts nothing for {scheme}, only for {', '.join(law['schemes'])} "
            "that round to nearest; update_loss_10 with gained does"
        )
    if not error <= law["most"]:
        return _nothing(
            f"error_over_noise={error:.3g} is above {law['most']:.5g}, the most trained"
        )
    return _on_line(law, error)


def _refusal(
    scheme: str | Scheme, update_loss: list[tuple[str, float]], of: dict[str, float]
) -> str:
    """Why nothing is predicted by an update loss, "" if something is; `of`: the other figures."""
    law = _law("update_law.json")
    if unknown := sorted(names_of(scheme) - set(law["schemes"])):
        return f"{', '.join(unknown)} was not trained, only {', '.join(law['schemes'])}"
    for name in _NOT_TRAINED:
        if of[name]:
            return f"{name}={of[name]} is above 0: nothing was established with such steps"
    if not update_loss or math.isnan(of["lost_gain"]):
        return (
            f"{'lost_gain' if update_loss else 'update_loss_10'} is NaN: replay with --persistence "
            "a trace that has runs of three, better ten, consecutive steps, and name its optimizer"
        )
    if of["lost_gain"] >= law["lost_gain"]:
        return (
            f"lost_gain={of['lost_gain']:.3g} is 1/3 or more: so much of the layers is lost that "
            "training can fail"
        )
    low, high = law["gained"]
    if not low <= of["gained"] <= high:
        return f"gained={of['gained']:.5g} is not between {low:.5g} and {high:.5g}, as trained"
    for name, value in update_loss:
        for what, figure, most in (
            (name, value, law[name]["largest"]),
            (f"{name} times gained", value * of["gained"], law[name]["most"]),
        ):
            if figure > most:
                return f"{what} is {figure:.5g}, above {most:.5g}, the most trained"
    return ""


def _nothing(refused: str) -> ExpectedExcess:
    return ExpectedExcess(math.nan, math.nan, math.nan, refused)


def _on_line(law: dict[str, Any], statistic: float) -> ExpectedExcess:
    middle = law["factor"] * max(statistic, law["least"]) ** law["slope"]
    if statistic < law["least"]:
        return ExpectedExcess(math.nan, 0.0, middle * law["interval"])
    return ExpectedExcess(middle, middle / law["interval"], middle * law["interval"])


def with_expected(summary: pd.DataFrame, gained: float) -> pd.DataFrame:
    """A summary with `COLUMNS` behind ``update_loss_30_high``.

    Raises
    ------
    ValueError
        `gained` is negative or NaN.
    """
    checked(gained)  # also if there are no rows
    used = ("update_loss_10", "update_loss_3", "lost_gain", *_NOT_TRAINED)
    predictions = [
        expected_excess(row["scheme"], gained=gained, **{name: row[name] for name in used})
        if row["family"] != "other"
        else _nothing("a scheme of one's own was not trained")
        for row in summary.to_dict("records")
    ]
    place = list(summary).index("update_loss_30_high") + 1
    added = pd.DataFrame(predictions, columns=COLUMNS, index=summary.index)
    return pd.concat([summary.iloc[:, :place], added, summary.iloc[:, place:]], axis=1)
