"""A ring against two phases, trained: the first tables of docs/advice.md.

python -m docs.tools.trained gpt eight docs/advice.md      of the folders of apscope train docs/gpt.toml and
                                                     docs/reductions.toml; also writes docs/trained.csv
python -m docs.tools.trained docs/trained.csv gpt docs/advice.md      adds runs that the CSV lacks
python -m docs.tools.trained docs/trained.csv docs/advice.md      the same without training

docs/trained.csv has a row a run: the loss at its end, that of fp32 from the same seed in the same
folder, and what a replay of the recorded steps of the task's first fp32 run says of its scheme. A
loss depends on the machine, so it is compared with that of its own folder.
"""

import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from apscope._excess_loss.expected import expected_excess
from apscope._page.numbers import figure
from apscope._results.ranking import RANKS
from apscope._schemes.scheme import as_scheme
from apscope._schemes.titles import ROOMS, format_of
from apscope._training.folder import read
from apscope._training.verdicts import KEY, interval, run_ends

from . import page

CSV = page.DOCS / "trained.csv"
GPT = "tokens"  # the task with thousands of tokens
REPLAYED = ["reduction", "volume", "error_over_noise", "step_nmse", "layer_cosine"]
BLOCKS = {"mx": 8, "nvfp4": 4}  # bits of an element, by scheme
SCALES = {"tensor": "a layer", "row": "a row"}
#: Pairs that differ in one thing: what, and the two exchanges.
FACTORS = (
    ("8 bits: the reduction", "aps:e3m4,rule=tight ring", "aps:e3m4,rule=tight two_phase"),
    ("8 bits: the reduction", "aps:e4m3fn,rule=tight ring", "aps:e4m3fn,rule=tight two_phase"),
    ("8 bits: the format, in a ring", "aps:e3m4,rule=tight ring", "aps:e4m3fn,rule=tight ring"),
    (
        "8 bits: the format, in two phases", "aps:e3m4,rule=tight two_phase",
        "aps:e4m3fn,rule=tight two_phase",
    ),
    ("8 bits: the scale, in a ring", "aps:e3m4,rule=tight ring", "aps:e3m4,rule=tight,unit=row ring"),
    (
        "8 bits: the scale, in two phases", "aps:e3m4,rule=tight two_phase",
        "aps:e3m4,rule=tight,unit=32 two_phase",
    ),
    ("4 bits: the reduction", "aps:e3m0,rule=tight ring", "aps:e3m0,rule=tight two_phase"),
    (
        "4 bits: the reduction", "aps:e2m1fn,rule=tight,unit=16 ring",
        "aps:e2m1fn,rule=tight,unit=16 two_phase",
    ),
    (
        "4 bits: the room, in a ring", "aps:e2m1fn,rule=tight,unit=16 ring",
        "aps:e2m1fn,headroom=sqrt_workers,rule=tight,unit=16,overflow=saturate ring",
    ),
    (
        "4 bits: the format, in two phases", "aps:e3m0,rule=tight two_phase",
        "aps:e2m1fn,rule=tight two_phase",
    ),
    (
        "4 bits: the scale, in two phases", "aps:e2m1fn,rule=tight two_phase",
        "aps:e2m1fn,rule=tight,unit=16 two_phase",
    ),
    (
        "4 bits: the rounding, in two phases", "aps:e2m1fn,rule=tight,unit=16 two_phase",
        "aps:e2m1fn,rule=tight,unit=16,rounding=stochastic two_phase",
    ),
)  # fmt: skip

#: Of the small tasks: the blocks alone, where the format goes with them.
SMALL_FACTORS = (
    (
        "4 bits: the format and the scale, in a ring", "aps:e3m0,rule=tight ring",
        "aps:e2m1fn,rule=tight,unit=16 ring",
    ),
    (
        "4 bits: the format and the scale, in two phases", "aps:e3m0,rule=tight two_phase",
        "aps:e2m1fn,rule=tight,unit=16 two_phase",
    ),
)  # fmt: skip


class Trained(NamedTuple):
    """One exchange on one task."""

    scheme: str
    reduction: str
    bits: int
    volume: float
    error: float  # the figure that ranks
    over_noise: float
    excess: pd.Series  # by seed: training loss at the end minus fp32's, nats
    held_out: pd.Series  # the same of the validation loss

    @property
    def name(self) -> str:
        """Scheme and reduction, as in `FACTORS`."""
        return f"{self.scheme} {self.reduction}"


def gathered(sources: list[Path]) -> pd.DataFrame:
    """A row a run of folders and CSV files; of a run that several have, the first."""
    found = []
    for source in sources:
        if source.is_dir():
            _, rows, about = read(source)
            ends = run_ends(rows).drop(columns="skipped")
            ends = ends.merge(about["verdicts"][[*KEY, *REPLAYED]], how="left", on=KEY)
            found.append(beside_fp32(ends))
        else:
            found.append(pd.read_csv(source))
    return pd.concat(found, ignore_index=True).drop_duplicates([*KEY, "seed"])


def beside_fp32(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of a folder with the losses of its fp32 run from the same seed."""
    losses = ["loss", "validation_loss"]
    base = runs.loc[runs["scheme"] == "none:fp32", ["task", "seed", *losses]]
    base = base.rename(columns={name: f"fp32_{name}" for name in losses})
    return runs.merge(base, how="left", on=["task", "seed"])


def bits_of(scheme: str) -> int:
    """Bits of a code: of its float format, or of the elements of blocks."""
    name = format_of(scheme)
    if not name:
        return BLOCKS[scheme]
    if name in ("fp32", "bf16"):
        return {"fp32": 32, "bf16": 16}[name]
    exponent, mantissa = name.removesuffix("fn").removeprefix("e").split("m")
    return 1 + int(exponent) + int(mantissa)


def trained(table: pd.DataFrame, task: str) -> list[Trained]:
    """The exchanges of a task, without fp32."""
    own = table[table["task"] == task]
    found = []
    for (_, _, scheme, _), runs in own.groupby(KEY, sort=False):
        if scheme == "none:fp32":
            continue
        by_seed, first = runs.set_index("seed"), runs.iloc[0]
        found.append(
            Trained(
                scheme, first["reduction"], bits_of(scheme), first["volume"],
                first[RANKS], first["error_over_noise"], by_seed["loss"] - by_seed["fp32_loss"],
                by_seed["validation_loss"] - by_seed["fp32_validation_loss"],
            )
        )  # fmt: skip
    return found


def nats(values: pd.Series) -> str:
    """A mean difference, with half of its 95 % interval over the seeds."""
    mean, low, _ = interval(values.to_numpy(float))
    return f"{mean:+.3f}" + ("" if np.isnan(low) else f" ± {mean - low:.2g}")


def baseline(table: pd.DataFrame, task: str) -> str:
    """What fp32 ends at, and how far seeds and bf16 are from it."""
    own = table[(table["task"] == task) & (table["scheme"] == "none:fp32")]
    (bf16,) = (one for one in trained(table, task) if one.scheme == "none:bf16")
    ends = ", ".join(f"{loss:.3f}" for loss in own["loss"])
    return (
        f"fp32 ends at {ends} nats (seeds {', '.join(map(str, own['seed']))}); bf16 in the same ring "
        f"differs by {', '.join(f'{value:+.3f}' for value in bf16.excess)}, which is the noise of "
        "this comparison."
    )


def language_model(table: pd.DataFrame) -> list[str]:
    """The GPT: every exchange, in the order of the front, within its bits."""
    found = [one for one in trained(table, GPT) if one.bits < 16]
    rows = []
    for one in sorted(found, key=lambda one: (-one.bits, one.error)):
        line = expected_excess(one.scheme, one.over_noise)
        rows.append([
            str(one.bits), f"`{one.scheme}`", f"`{one.reduction}`", f"{one.volume:.3f}",
            figure(one.error, 2), figure(one.over_noise, 2), str(line), nats(one.excess),
            ", ".join(f"{value:+.3f}" for value in one.excess),
            ", ".join(f"{value:+.3f}" for value in one.held_out),
        ])  # fmt: skip
    heads = [
        "bits", "scheme", "reduction", "bytes, of fp32's", "step NMSE", "error over noise",
        "the line's excess", "trained excess, nats", "by seed", "held-out, by seed",
    ]  # fmt: skip
    return [baseline(table, GPT), "", *page.table(heads, rows)]


def factors(table: pd.DataFrame) -> list[str]:
    """What one change is worth on the GPT, everything else equal."""
    by = {one.name: one for one in trained(table, GPT)}
    rows = []
    for what, worse, better in FACTORS:
        a, b = by[worse], by[better]
        rows.append([
            what, _short(a), _short(b), f"{figure(a.error, 2)} / {figure(b.error, 2)}",
            figure(a.error / b.error, 2), nats(a.excess - b.excess),
        ])  # fmt: skip
    heads = ["what differs", "from", "to", "step NMSE", "factor", "loss saved, nats"]
    return page.table(heads, rows)


def _short(one: Trained) -> str:
    scheme = as_scheme(one.scheme)
    if not scheme.format:
        return f"`{one.scheme}`, `{one.reduction}`"
    unit = scheme.keys.get("unit", "tensor")
    scale = SCALES.get(unit, f"for {unit}")
    rounding = ", stochastic" if scheme.keys.get("rounding") == "stochastic" else ""
    headroom = scheme.keys.get("headroom", "workers")
    room = "" if headroom == "workers" else f", room for {ROOMS[headroom]}"
    return f"`{scheme.format}`, a scale {scale}{rounding}{room}, `{one.reduction}`"


def tasks_of(table: pd.DataFrame) -> list[str]:
    return [task for task in dict.fromkeys(table["task"]) if task != GPT]


def small_tasks(table: pd.DataFrame) -> list[str]:
    """The tasks of docs/relation.toml: excess, and step NMSE, of every exchange."""
    tasks = tasks_of(table)
    by_task = {task: {one.name: one for one in trained(table, task)} for task in tasks}
    first = sorted(by_task[tasks[0]].values(), key=lambda one: (-one.bits, one.error))
    rows = [
        [
            str(one.bits), f"`{one.scheme}`", f"`{one.reduction}`",
            *(
                f"{nats(own[one.name].excess)}; {figure(own[one.name].error, 2)}"
                for own in by_task.values()
            ),
        ]
        for one in first
    ]  # fmt: skip
    return page.table(["bits", "scheme", "reduction", *tasks], rows)


def small_factors(table: pd.DataFrame) -> list[str]:
    """What one change is worth on those tasks, of the pairs that all of them have."""
    tasks = tasks_of(table)
    by_task = {task: {one.name: one for one in trained(table, task)} for task in tasks}
    rows = []
    for what, worse, better in (*FACTORS, *SMALL_FACTORS):
        if not all({worse, better} <= set(own) for own in by_task.values()):
            continue
        pairs = [(own[worse], own[better]) for own in by_task.values()]
        a, b = pairs[0]
        rows.append([
            what, _short(a), _short(b),
            *(f"{nats(a.excess - b.excess)}; {figure(a.error / b.error, 2)} ×" for a, b in pairs),
        ])  # fmt: skip
    return page.table(["what differs", "from", "to", *tasks], rows)


def order(table: pd.DataFrame) -> list[str]:
    """How often the order of the front, by step NMSE, is that of the losses; and where not."""
    rows, said = [], []
    ranked, noise = dict.fromkeys(("right", "wrong"), 0), dict.fromkeys(("right", "wrong"), 0)
    for task in [GPT, *tasks_of(table)]:
        cells = []
        for bits in (8, 4):
            held = [one for one in trained(table, task) if one.bits == bits]
            count = {"right": 0, "wrong": 0, "open": 0}
            for pair in itertools.combinations(held, 2):
                a, b = sorted(pair, key=lambda one: one.error)
                difference = b.excess - a.excess
                _, low, high = interval(difference.to_numpy(float))
                found = "right" if low > 0 else "wrong" if high < 0 else "open"
                count[found] += 1
                if found != "open":
                    ranked[found] += 1
                    noise["right" if (low > 0) == (a.over_noise < b.over_noise) else "wrong"] += 1
                if high < 0:
                    said.append(
                        f"- {task}: {_short(b)} ends {nats(difference)} nats from {_short(a)}, with "
                        f"a step NMSE of {figure(b.error, 2)} against {figure(a.error, 2)}"
                    )
            cells.append(", ".join(f"{number} {name}" for name, number in count.items()))
        rows.append([task, *cells])
    lines = page.table(["task", "8 bits", "4 bits"], rows)
    lines += [
        "",
        f"Together {ranked['right']} right and {ranked['wrong']} wrong; by error over noise "
        f"{noise['right']} and {noise['wrong']}.",
    ]
    return lines + (["Wrong:", "", *said] if said else [])


def main(arguments: list[str] | None = None) -> None:
    asked = page.options(__doc__, "folders of apscope train, or the CSV").parse_args(arguments)
    csv = asked.sources[0]
    if len(asked.sources) > 1 or csv.is_dir():
        csv = asked.page.with_name(CSV.name)
        gathered(asked.sources).to_csv(csv, index=False, float_format="%.6g")
    table = pd.read_csv(csv)
    parts = (language_model, factors, small_tasks, small_factors, order)
    page.write(asked.page, {part.__name__: part(table) for part in parts})


if __name__ == "__main__":
    main()
