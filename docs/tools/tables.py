"""The tables of docs/scales.md, docs/schemes.md and docs/definitions.md.

docs/scales.md: the gain of finer scales on the bundled traces, four rungs of the ladder of scales;
and on `digits` the baselines, and in each format these rungs, APS by its own rule and stochastic
rounding in the ring and gathered. docs/schemes.md: every scheme with a spec, and all of them on
`digits`.
"""

from functools import cache

import pandas as pd

import apscope
from apscope import _core
from apscope._page.numbers import figure, nmse, over_noise, percent
from apscope._results.ranking import RANKS, sound
from apscope._results.summary import headline
from apscope._results.volume import at_most
from apscope._text import count_of

from . import page
from .page import DATA, TRACES, listed

TRACE = DATA / "digits"
FORMATS = ("e5m2", "e4m3fn", "e3m4")
RUNGS = ("largest constant", "step", "layer")
#: A constant that may clip gradients or their sums.
CLIPPING = "best constant"
#: In each format: the three rungs by one rule, the best constant; stochastic rounding with sums
#: rounded in the ring, and gathered. Between them APS by its own rule.
SCHEMES = (
    "loss_scaling:{},scale=largest,rule=tight", "aps:{},rule=tight,unit=model", "aps:{},rule=tight",
    "loss_scaling:{},scale=best,overflow=saturate", "aps:{}", "aps:{},rounding=stochastic", "stochastic:{}",
)  # fmt: skip
#: What these do, in words.
WORDS = (
    "largest constant",
    "one per step",
    "one per layer",
    "best constant, which may clip",
    "APS's own rule",
    "and stochastic rounding",
    "stochastic, gathered",
)
SPECS = (
    "none:fp32",
    "none:fp16",
    "none:bf16",
    *(scheme.format(name) for name in FORMATS for scheme in SCHEMES),
)
SAID = ("none", "none", "none", *(WORDS * len(FORMATS)))
COLUMNS = {
    "step_nmse": "NMSE of a step", "error_over_noise": "error over noise",
    "layer_cosine": "cosine of a layer", "worst_layer": "worst layer, its NMSE",
    "underflow_wire": "underflow", "relative_bias": "relative bias", "volume": "volume",
    "speedup": "speed-up",
}  # fmt: skip


@cache
def replay() -> apscope.Results:
    """The schemes of the table of `digits`."""
    return apscope.replay([DATA / name for name in TRACES], SPECS, topology="ring")


def rows_of(results: apscope.Results) -> pd.DataFrame:
    """The summary after a ring or a scheme's own reduction: one row per scheme, best first."""
    return headline(results.summary(), "ring")


def chosen(results: apscope.Results) -> pd.DataFrame:
    """The rows of `digits` in the order of SPECS."""
    table = rows_of(results)
    specs = [apscope.schemes.as_scheme(spec).spec for spec in SPECS]
    return table[table["trace"] == TRACE.name].set_index("scheme").loc[specs].reset_index()


def markdown(table: pd.DataFrame, words: tuple[str, ...] = ()) -> list[str]:
    """One row per scheme; with `words`, its description beside its name."""
    rows = []
    for i, row in enumerate(table.to_dict("records")):
        dropped = [
            f"{row[name]} {'step' if row[name] == 1 else 'steps'} {word}"
            for name, word in (
                ("skipped", "skipped"),
                ("overflowed", "overflowed"),
                ("gaps", "after a gap: no rank"),
            )
            if row[name]
        ]
        dropped += [f"loses {count_of(row['lost_layers'], 'layer')}"] * (row["lost_layers"] > 0)
        rows.append([
            f"`{row['scheme']}`" + (f" ({', '.join(dropped)})" if dropped else ""),
            *words[i : i + 1],
            figure(row["step_nmse"], 2),
            over_noise(row["error_over_noise"], 2),
            cosine(row["layer_cosine"]),
            f"`{row['worst_layer']}` {nmse(row['worst_nmse'], 2)}"
            if isinstance(row["worst_layer"], str)
            else "–",
            percent(row["underflow_wire"]),
            bias(row["relative_bias"]),
            number(row["volume"]),
            number(row["speedup"]),
        ])  # fmt: skip
    return page.table(["scheme", *(["scale"] if words else []), *COLUMNS.values()], rows)


def registered() -> list[str]:
    """Every scheme of the registry: a spec, and what it does."""
    return page.table(
        ["scheme", "such as", "what it does"],
        [
            (f"[`{d.name}`](#{d.name})", f"`{spec}`", d.summary.replace("|", r"\|"))
            for d, spec in examples().items()
        ],
    )


def examples() -> dict[apscope.schemes.SchemeDefinition, str]:
    """A spec of every scheme: the first in the list `all`, or a name and a key."""
    first: dict[str, str] = {}
    for scheme in apscope.schemes.all_schemes():
        first.setdefault(scheme.name, scheme.spec)
    return {
        d: f"{d.name}:{d.keys[0].name}={d.keys[0].default}"
        if first[d.name] == d.name and d.keys
        else first[d.name]
        for d in apscope.schemes.definitions()
    }


def cosine(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.4f}"


def bias(value: float) -> str:
    return "–" if pd.isna(value) else f"{figure(100 * value, 2)}\u00a0%"


def number(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.2f}"


def ladder_of(results: apscope.Results) -> pd.DataFrame:
    """The rungs above of every trace and format, by (trace, format, rung)."""
    table = apscope.ladder(results, FORMATS)
    return table[table["rung"].isin([*RUNGS, CLIPPING])].set_index(["trace", "format", "rung"])


def wide(ladder: pd.DataFrame) -> str:
    """What the formats with five and four exponent bits have in common."""
    errors = ladder.loc[(slice(None), slice(None), list(RUNGS)), RANKS]
    errors = errors.drop("e3m4", level="format")
    gain = errors.xs("largest constant", level="rung") / errors.xs("layer", level="rung")
    return (
        "- **With five or four exponent bits (`e5m2`, `e4m3fn`) the choice of scale matters "
        "little**: compared with the largest constant that never saturates, one scale per "
        f"layer lowers the NMSE of a step by at most a factor of {gain.max():.2f}. It is "
        f"{span(errors)}."
    )


def narrow(ladder: pd.DataFrame) -> list[str]:
    """The table of e3m4, a row per trace, beside e4m3fn with the coarsest scale."""
    heads = (
        "trace",
        "workers, steps",
        "largest constant",
        "best constant",
        "one per step",
        "one per layer (APS)",
        "gain of a scale per step",
        "further gain of one per layer",
        "`e4m3fn`, largest constant",
        "`e4m3fn`, one per layer",
    )
    lines = []
    for trace in TRACES:
        rungs = ladder.xs((trace, "e3m4"), level=("trace", "format"))
        errors = [both(rungs.loc[rung]) for rung in (RUNGS[0], CLIPPING, *RUNGS[1:])]
        workers = apscope.open_trace(DATA / trace).workers
        beside = [both(ladder.loc[(trace, "e4m3fn", rung)]) for rung in (RUNGS[0], RUNGS[-1])]
        gains = (factor(rungs.loc[rung]) for rung in RUNGS[1:])
        lines.append(
            (f"`{trace}`", f"{workers}, {rungs['steps'].iloc[0]}", *errors, *gains, *beside)
        )
    return page.table(heads, lines)


def span(values: pd.Series) -> str:
    return page.span(values, lambda value: figure(value, 2))


def both(row: pd.Series) -> str:
    """The step NMSE and the error over the noise."""
    return f"{figure(row['step_nmse'], 2)} / {figure(row['error_over_noise'], 2)}"


def clipping(ladder: pd.DataFrame) -> str:
    """What APS gains over constants at e3m4; a constant that clips included."""
    e3m4 = ladder.xs("e3m4", level="format")[RANKS].unstack()
    largest, best = (
        span(gain) for gain in (e3m4[rung].div(e3m4["layer"]) for rung in (RUNGS[0], CLIPPING))
    )
    less = [t for t in TRACES if e3m4.loc[t, CLIPPING] < e3m4.loc[t, "layer"]]
    return (
        "- **APS against a constant, at `e3m4`**, chosen with all steps known. The NMSE of a step "
        f"with the largest that never saturates is that of APS times {largest}; with the best, "
        f"which may clip gradients or their sums, times {best}: less than with APS on "
        f"{names(less)}."
    )


def factor(row: pd.Series) -> str:
    """How many times less the error is, with its interval where there are enough steps for one."""
    spread = (
        f" [{figure(row['factor_low'], 2)}, {figure(row['factor_high'], 2)}]"
        if row["factor_low"] == row["factor_low"]
        else ""
    )
    return f"{figure(row['factor'], 2)} ×{spread}"


def matters(results: apscope.Results, ladder: pd.DataFrame) -> str:
    """Which traces have errors far below the noise, and which around it, at e3m4."""
    errors = (
        ladder.xs("e3m4", level="format")["error_over_noise"]
        .unstack()
        .loc[list(TRACES), list(RUNGS)]
    )
    below = errors[(errors < 0.1).all(axis=1)]
    around = errors.drop(below.index)
    layers = results.pool(by=["trace", "scheme", "tensor"]).set_index(["trace", "scheme"])
    layers = (
        layers.loc[("gpt", "aps:e3m4,rule=tight")]
        .set_index("tensor")["error_over_noise"]
        .sort_values(ascending=False)
    )

    lost = chosen(results).set_index("scheme").loc["loss_scaling:e3m4,scale=largest,rule=tight"]

    return (
        f"- **Whether that matters for `e3m4`**: on {names(list(below.index))} the typical block's "
        "error is below 0.1 of the noise with each of the three scales, though with the largest "
        f"constant the layer `{lost['worst_layer']}` of `digits` is lost entirely at one step "
        f"(NMSE {figure(lost['worst_nmse'], 2)}). On {names(list(around.index))} it is "
        f"{listed([figure(error, 2) for error in around['largest constant']])} with the largest "
        "constant, "
        f"{listed([figure(error, 2) for error in around['layer']])} with one scale per layer. In "
        f"the layer `{layers.index[0]}` of `gpt` the typical block has a squared error "
        f"{figure(layers.iloc[0], 2)} times its noise even with a scale of its own, in every other "
        f"at most {figure(layers.iloc[1], 2)} times "
        "([why](../notebooks/data/README.md#the-two-that-are-cut))."
    )


def found(results: apscope.Results) -> list[str]:
    """What docs/scales.md says about the ladder of scales."""
    ladder = ladder_of(results)
    factors = ladder.xs("e3m4", level="format")["factor"].unstack()
    step, layer = (span(factors[rung]) for rung in RUNGS[1:])
    errors = ladder[RANKS]
    wins = [t for t in TRACES if errors[t, "e3m4", "layer"] < errors[t, "e4m3fn", "layer"]]
    summary = rows_of(results).set_index(["trace", "scheme"])[RANKS]
    by_ceil = [t for t in TRACES if summary[t, "aps:e3m4"] < summary[t, "aps:e4m3fn"]]
    with_three = (
        f"- **With three (`e3m4`) a scale per step lowers the error by a factor of {step}, a scale "
        f"per layer (APS) by a further factor of {layer}**. With one scale per layer for both "
        f"formats, `e3m4` has less error than `e4m3fn` on {names(wins)}; by APS's own rule "
        f"(`ceil`) for both, on {names(by_ceil)}:"
    )
    return [
        wide(ladder),
        with_three,
        "",
        *narrow(ladder),
        "",
        clipping(ladder),
        matters(results, ladder),
        against_loss_scaling(),
        against_dynamic_loss_scaling(),
    ]


#: `Pools` of analysis/statistics/result_columns.h, in words.
POOLS = {
    "nothing": "",
    "sum": "sum, without skipped rows",
    "part": "sum, without skipped rows; empty if one is empty",
    "lost": "sum; skipped rows count as y = 0",
    "mean": "mean weighted by the elements",
    "quotient": "computed from pooled sums",
    "sum_blocks": "sum, in the means over blocks",
}


def against_loss_scaling() -> str:
    """APS and loss scaling at a quarter of the bytes, with the best format and rule of `main`."""
    table = rows_of(apscope.replay([DATA / name for name in TRACES], "main", topology="ring"))
    held = table[at_most(table["volume"], 0.25) & sound(table)].sort_values(RANKS)
    best = {
        family: held[held["family"] == family].drop_duplicates("trace").set_index("trace")
        for family in ("APS", "loss scaling")
    }
    ratio = best["loss scaling"][RANKS] / best["APS"][RANKS]
    told = listed(
        [
            f"{figure(ratio[t], 2)} (`{t}`, "
            f"`{best['loss scaling']['scheme'][t]}` against `{best['APS']['scheme'][t]}`)"
            for t in TRACES
        ]
    )
    return (
        "- **APS against loss scaling**, both at a quarter of the bytes and with those of their "
        "formats and rules that have the least step NMSE: that of loss scaling is "
        f"that of APS times {told}. `scale=best` and `scale=largest` are "
        "constants that are chosen with all steps known; the best may clip gradients or their sums."
    )


def against_dynamic_loss_scaling() -> str:
    """Skipped steps of torch's rule, and both errors on the steps that it keeps."""
    specs = ("dynamic_loss_scaling:e4m3", "aps:e4m3")
    frame = apscope.replay([DATA / name for name in TRACES], specs, topology="ring").frame
    frame = frame[(frame["stage"] == "reduced") & (frame["topology"] == "ring")]
    told = []
    for name in TRACES:
        rows = frame[frame["trace"] == name]
        dropped = set(rows.loc[rows["skipped"].astype(bool), "step"])
        sums = (
            rows[~rows["step"].isin(dropped)]
            .groupby(["scheme", "step"], observed=True)[
                ["sum_squared_error", "sum_squared_reference"]
            ]
            .sum()
        )
        nmse = (sums["sum_squared_error"] / sums["sum_squared_reference"]).groupby("scheme").mean()
        one, other = (figure(nmse[spec], 2) for spec in specs)
        told.append(
            f"{len(dropped)} of {rows['step'].nunique()} steps, {one} and {other} (`{name}`)"
        )
    return (
        "- **APS against a dynamic loss scale**, torch's rule from the first recorded step: "
        "`dynamic_loss_scaling:e4m3` skips every step whose sum overflows, until its scale is "
        f"small enough. It has one scale for all layers and leaves no room for the sum; "
        f"`{specs[1]}` has one for each and leaves room. Skipped, and step NMSE of the others "
        f"beside that of `{specs[1]}` on the same steps: {listed(told)}."
    )


def names(traces: list[str]) -> str:
    """Traces as a sentence lists them."""
    return listed([f"`{name}`" for name in traces]) if traces else "none"


def numeric_columns() -> list[str]:
    """The table of docs/definitions.md: every numeric column's unit, section and pooling."""
    return page.table(
        ["column", "unit", "section", "pooled as"],
        [
            (f"`{name}`", unit, section, POOLS[pools])
            for name, unit, section, pools in _core.COLUMNS
        ],
    )


SCALES = {
    "ladder": lambda: found(replay()),
    "answer": lambda: markdown(chosen(replay()), SAID),
}
SCHEMES_PAGE = {
    "schemes": registered,
    "all schemes": lambda: markdown(rows_of(apscope.replay(TRACE, "all", topology="ring"))),
}
DEFINITIONS = {"columns": numeric_columns}
