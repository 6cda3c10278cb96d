"""What docs/insight.md says of the candidates: sentences with their figures, and tables."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from apscope._training.relation import Law, above_noise

from . import page, plans
from .candidates import (
    CANDIDATES,
    HALF,
    KINDS,
    LARGE,
    LAST,
    LATER,
    MANY,
    NOISE,
    PLAIN,
    REFUSED,
    RESNET,
    SHORT,
    SMALL,
    Judged,
    judged,
    with_candidates,
)
from .insight import CHOSEN_ON, number, tasks_of

#: What the page has beside each other, the best first.
COMPARED = (LAST, "update_loss_10", "cosine_loss_10", "step_nmse", NOISE)
NAMES = {LAST: "`update_loss_10` × gained", NOISE: "`error_over_noise`"}
HELD = "**not fitted**"
NO_EXCESS = dict.fromkeys(("seeds", "excess", "excess_low", "excess_high"), np.nan)


def named(candidate: str) -> str:
    return NAMES.get(candidate, f"`{candidate}`")


def kept(table: pd.DataFrame) -> pd.DataFrame:
    """The combinations of which `LAST` predicts something."""
    return table[table["lost_gain"] < REFUSED]


def by_kind(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The kinds of which some cost more than the seeds' noise."""
    each = {kind: table[table["kind"] == kind] for kind in KINDS}
    return {kind: own for kind, own in each.items() if len(above_noise(own, NOISE))}


def by_task(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {task: table[table["task"] == task] for task in tasks_of(table[table["seeds"] > 0])}


class Page(NamedTuple):
    """Everything that the page is written from."""

    table: pd.DataFrame  # with candidates
    laws: dict[str, Law]
    plans: pd.DataFrame  # docs/number_plans.csv

    @property
    def fitted(self) -> pd.DataFrame:
        """The combinations that the lines are fitted to."""
        return self.table[self.table["task"].isin(CHOSEN_ON)]

    @property
    def held(self) -> pd.DataFrame:
        """The others."""
        return self.table[~self.table["task"].isin(CHOSEN_ON)]

    @property
    def lost(self) -> pd.DataFrame:
        """Those of nets without normalization that learn nothing."""
        return self.table[self.table["task"].isin(PLAIN) & (self.table["excess"] >= MANY)]

    @property
    def large(self) -> pd.DataFrame:
        """The large GPT's, also those that are not trained yet."""
        return self.table[self.table["task"] == LARGE]

    def judged(self, own: pd.DataFrame, candidate: str) -> Judged:
        """`candidate` on some combinations."""
        return judged(own, candidate, self.laws[candidate])


def all_judged(of: Page) -> pd.DataFrame:
    """docs/number_judged.csv: every candidate by kind of scheme and by task."""
    whole = {"fitted": of.fitted, "not fitted": of.held}
    fitted = {f"fitted: {kind}": own for kind, own in by_kind(of.fitted).items()}
    held = {f"not fitted: {kind}": own for kind, own in by_kind(of.held).items()}
    rows = []
    for candidate, law in of.laws.items():
        line = {"slope": law.slope, "factor": law.factor, "interval": law.half}
        head = {"candidate": candidate, "written": written(candidate), **line}
        for name, own in (whole | fitted | held | by_task(of.table)).items():
            rows.append(head | {"set": name, **of.judged(own, candidate)._asdict()})
    return pd.DataFrame(rows)


def written(candidate: str) -> str:
    """When a candidate was."""
    return "first" if candidate in CANDIDATES else "later" if candidate in LATER else "last"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def compared(of: Page, sets: dict[str, pd.DataFrame], two: str = "") -> list[str]:
    """`COMPARED` on sets of combinations; `two`: the one whose pairs of two kinds have a row."""
    rows = []
    for name, own in sets.items():
        found = [of.judged(own, one) for one in COMPARED]
        cells = (f"{_wrong(*one[:2])}; {_near(one)}" for one in found)
        rows.append((name, f"{found[0].count}; {found[0].pairs:,}", *cells))
    if two:
        pairs = [of_two_kinds(of, sets[two], one) for one in COMPARED]
        cells = (_wrong(*one) for one in pairs)
        rows.append((f"{two}, pairs of two kinds", f"{pairs[0][1]:,} pairs", *cells))
    return page.table(["", "combinations; pairs", *map(named, COMPARED)], rows)


def _wrong(wrong: int, pairs: int) -> str:
    return f"{100 * wrong / pairs:.1f}" if pairs else "no pairs"


def _near(one: Judged) -> str:
    """Spread and coverage."""
    return f"{number(one.spread)}; {100 * one.inside / one.count:.0f}" if one.count else "none"


def of_two_kinds(of: Page, own: pd.DataFrame, candidate: str) -> tuple[int, int]:
    """Wrong pairs, and pairs."""
    every = of.judged(own, candidate)
    each = [of.judged(one, candidate) for one in by_kind(own).values()]
    return every.wrong - sum(one.wrong for one in each), every.pairs - sum(
        one.pairs for one in each
    )


def shown_sets(of: Page) -> dict[str, pd.DataFrame]:
    """The rows of the table below the picture."""
    whole = {
        "**fitted**": of.fitted, HELD: of.held, f"{HELD}, lost gain below 1/3": kept(of.held),
    }  # fmt: skip
    return whole | by_kind(of.held)


def folded_sets(of: Page) -> dict[str, pd.DataFrame]:
    """The rows of the folded table."""
    return {f"fitted: {kind}": own for kind, own in by_kind(of.fitted).items()} | by_task(of.held)


def predictions(of: Page, own: pd.DataFrame) -> list[str]:
    """Of some combinations what was trained, and what `COMPARED` predict."""
    rows = []
    for row in own.itertuples():
        cells = []
        for name in COMPARED:
            value = getattr(row, name)
            verdict = (
                _verdict(row, *of.laws[name].predict_interval(value))
                if row.lost < row.seeds
                else ""
            )
            refused = name == LAST and row.lost_gain >= REFUSED
            cells.append("refused" if refused else number(of.laws[name].predict(value)) + verdict)
        trained = [number(row.excess)] if row.lost < row.seeds else []
        trained += [f"{row.lost} of {row.seeds} runs not finite"] if row.lost else []
        scheme = f"`{row.scheme}`, `{row.topology}`"
        rows.append((row.task, scheme, ", ".join(trained) or "not yet", *cells))
    return page.table(["task", "scheme", "trained, nats", *map(named, COMPARED)], rows)


def _verdict(row: Any, low: float, high: float) -> str:
    """Of a trained excess: whether it is in the interval of a prediction."""
    if low <= row.excess <= high:
        return ", inside"
    return (
        ", in the noise"
        if row.excess_low <= 0 and row.excess < low <= row.excess_high
        else ", **outside**"
    )


def plan_ratios(of: Page) -> pd.DataFrame:
    """Plan over single scheme if their trainings differ; `trained`, and `COMPARED` but `LAST`."""
    sure = plans.decided(pd.read_csv(plans.CSV))
    held = with_candidates(of.plans.assign(**NO_EXCESS)).set_index(["task", "scheme"])
    plan, single = (
        held.loc[list(zip(sure["task"], sure[what]))].reset_index() for what in ("plan", "single")
    )
    told = {name: plan[name] / single[name] for name in COMPARED[1:]}
    trained = (sure["plan_excess"] / sure["single_excess"]).reset_index(drop=True)
    about = sure[["task", "volume", "figure"]].reset_index(drop=True)
    return pd.concat([about, pd.DataFrame({"trained": trained, **told})], axis=1)


def right(found: pd.DataFrame, name: str) -> str:
    """Of how many plans of `plan_ratios` a number says whether they are better."""
    return f"{((found[name] < 1) == (found['trained'] < 1)).sum()} of {len(found)}"


def plan_table(of: Page) -> list[str]:
    found, names = plan_ratios(of), COMPARED[1:]
    rows = [("**right**", "", *(right(found, name) for name in names))]
    for row in found.itertuples():
        cells = (number(getattr(row, name)) for name in ("trained", *names))
        rows.append((f"{row.task} {row.volume:g} `{row.figure}`", *cells))
    return page.table(["plan over single", "excess, trained", *map(named, names)], rows)


def named_ends(values: dict[str, float]) -> str:
    """The least and the largest of some figures, with their names."""
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    return f"{number(values[low])} ({low}) and {number(values[high])} ({high})"


def inside(own: pd.DataFrame, name: str, law: Law) -> str:
    """How many trained excesses lie in the interval, also of those within the seeds' noise."""
    return f"{own['excess'].between(*law.predict_interval(own[name])).sum()} of {len(own)}"


def rule(of: Page) -> Iterator[str]:
    """What a user takes away."""
    update, step, today, every = (
        of.judged(of.held, name) for name in ("update_loss_10", "step_nmse", NOISE, LAST)
    )
    some, law, found = of.judged(kept(of.held), LAST), of.laws[LAST], plan_ratios(of)
    short, line = of.judged(kept(of.held), SHORT), of.laws[SHORT]
    near = by_kind(of.held)["nearest"]
    one, other = of.judged(near, NOISE), of.judged(near, "step_nmse")
    clipping = by_kind(of.held)["clipping"]
    clip, blind = of.judged(clipping, "step_nmse"), of.judged(clipping, NOISE)
    yield (
        "- **Rank schemes of all kinds by `update_loss_10`**: how far an exchange turns what the "
        f"optimizer does in ten steps. Of {update.pairs:,} pairs of schemes, on "
        f"{len(by_task(of.held))} tasks to which no line was fitted, it orders "
        f"{percent(update.wrong / update.pairs)} otherwise than training does, `step_nmse` "
        f"{percent(step.wrong / step.pairs)}, `error_over_noise` "
        f"{percent(today.wrong / today.pairs)}. Most of these pairs were known when it was found."
    )
    yield (
        f"- **Expect an excess loss of {number(law.factor)} (`update_loss_10` × "
        f"gained)^{law.slope:.2f} nats**, with *gained* what the loss of fp32 falls by from the "
        "middle of the training to its end. The 95 % interval of this line, a factor of "
        f"{number(law.half)} either way, has {every.inside} of {every.count} held-out combinations "
        f"of task and scheme ({100 * every.inside / every.count:.0f} %)."
    )
    yield (
        "- **Predict nothing where the layers lose a third of their gain** (`lost_gain` of 1/3 or "
        f"more): there training can fail. Of the other combinations {some.inside} of {some.count} "
        f"({100 * some.inside / some.count:.0f} %) lie in the interval."
    )
    yield (
        f"- **With runs of three to nine steps**, expect {number(line.factor)} (`update_loss_3` × "
        f"gained)^{line.slope:.2f} nats, a factor of {number(line.half)} either way: "
        f"{short.inside} of {short.count} ({100 * short.inside / short.count:.0f} %)."
    )
    yield (
        "- **Without runs of consecutive steps**, rank by `step_nmse`, as every command does "
        "([why](definitions.md#which-figure-ranks)): right for "
        f"{right(found, 'step_nmse')} plans of `recommend` (`error_over_noise` for "
        f"{right(found, NOISE)}, `update_loss_10` for {right(found, 'update_loss_10')}). Of pairs "
        f"that round to nearest it orders {other.wrong} of {one.pairs} wrongly, "
        f"`error_over_noise` {one.wrong}; of pairs that clip {clip.wrong} and {blind.wrong} of "
        f"{clip.pairs}."
    )


def read(of: Page) -> Iterator[str]:
    """The evidence behind the tables."""
    first = min(of.judged(of.held, name).wrong for name in CANDIDATES)
    update, cosine = (of.judged(of.held, name) for name in ("update_loss_10", "cosine_loss_10"))
    resnet, small = (
        {name: of.judged(of.table[of.table["task"].isin(tasks)], name) for name in COMPARED}
        for tasks in (RESNET, (SMALL,))
    )
    by = (
        named_ends({name: of.judged(own, LAST).ratio for name, own in sets.items()})
        for sets in (by_kind(of.held), by_task(of.table))
    )
    yield (
        f"- *By kind and by task.* Trained over predicted by {named(LAST)} (geometric mean) is "
        f"between {next(by)} by kind of scheme, and between {next(by)} by task."
    )
    yield (
        "- *The loss gained.* The same turned update costs the ResNet, which fits its data to a "
        f"small loss, {number(resnet['update_loss_10'].ratio)} times what a line of "
        f"`update_loss_10` alone says, and the small GPT {number(small['update_loss_10'].ratio)} "
        f"times; with the loss gained these are {number(resnet[LAST].ratio)} and "
        f"{number(small[LAST].ratio)}. A lost part of the update is lost progress."
    )
    yield (
        "- *The optimizer.* The direction of each layer's gradient, `cosine_loss_10`, orders "
        f"{percent(cosine.wrong / cosine.pairs)} of all pairs wrongly, but "
        f"{small['cosine_loss_10'].wrong} of {small['cosine_loss_10'].pairs} of the small GPT "
        f"(`update_loss_10` {small['update_loss_10'].wrong}), where Adam gives the rare rows of "
        "the embedding as large a step as any."
    )
    yield nothing_learned(of)
    yield large_model(of)
    yield (
        f"- *How it was found.* Of {len(of.laws)} candidates the {len(CANDIDATES)} marked *first* "
        "were fixed before the new tasks; none of them orders fewer than "
        f"{percent(first / update.pairs)} wrongly. Those marked *later* came after the nets "
        "without normalization, `update_loss_k` (*last*) after the small GPT and eight of the "
        "ResNet's 29 exchanges, and its product with the loss gained when all but the large GPT "
        "were known. So the order of `update_loss_10` is tested on most of the ResNet "
        f"({resnet['update_loss_10'].wrong} of {resnet[NOISE].pairs} pairs wrong, "
        f"`error_over_noise` {resnet[NOISE].wrong}), and its nats on the large GPT alone."
    )


def nothing_learned(of: Page) -> str:
    lost, left, law = of.lost, kept(of.lost), of.laws[NOISE]
    cost, noise, predicted = (
        page.span(of, number) for of in (lost["excess"], lost[NOISE], law.predict(lost[NOISE]))
    )
    said = "; ".join(
        f"`{row.scheme}` on {row.task}, {number(row.excess)} nats, from {number(row.excess_low)} "
        f"to {number(row.excess_high)} over the seeds, of which some learn"
        for row in left.itertuples()
    )
    return (
        f"- *Nets that learn nothing.* {len(lost)} exchanges cost the nets without normalization "
        f"{cost} nats. `error_over_noise`, here {noise}, cannot exceed the gradient's own size over "
        f"the noise: it predicts {predicted} nats, with {inside(lost, NOISE, law)} in its "
        "interval. `lost_gain` refuses "
        f"{len(lost) - len(left)}; of the others {named(LAST)} has "
        f"{inside(left, LAST, of.laws[LAST])} in its interval ({said}). The wider one of "
        f"`cosine_loss_10`, a factor of {number(of.laws['cosine_loss_10'].half)}, has "
        f"{inside(lost, 'cosine_loss_10', of.laws['cosine_loss_10'])}."
    )


def large_model(of: Page) -> str:
    done = of.large[of.large["seeds"] > 0]
    seeds = ", ".join(str(count) for count in sorted(set(done["seeds"].astype(int))))
    said = "; ".join(
        f"{named(name)} {number(one.ratio)}, {one.inside} of {one.count}"
        for name in COMPARED
        for one in (of.judged(done, name),)
    )
    return (
        "- *The GPT of 3.4 million parameters*, for which the predictions were written down before "
        f"its first scheme had ended. Schemes trained: {len(done)} of {len(of.large)}, seeds: "
        f"{seeds} (of fewer than three seeds an excess has an interval of {HALF} nats either way). "
        "Trained over predicted of those above the noise, and how many are in the interval: "
        f"{said}."
    )
