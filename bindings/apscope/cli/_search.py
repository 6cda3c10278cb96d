"""``apscope search TRACE --bits N``: the best split of N bits into exponent and mantissa."""

from __future__ import annotations

import argparse
import json
import math
import shlex

import pandas as pd

from .._replay.ladder import REDUCTIONS
from .._results.ranking import BLOCK_FORMATS, RANKS
from .._results.winners import Winner, seconds, within
from .._schemes.scheme import as_scheme
from .._search.bounds import FIGURES
from .._search.search import BY, search
from .._search.splits import BITS, SPECIALS, schemes_for
from .._text import count_of, printable
from .._traces.opening import open_trace
from ._arguments import add_shape, add_threads, adder, listed
from ._table import json_rows, on_terminal, print_csv, print_frame, print_table, print_winners

EXAMPLE = """\
apscope search notebooks/data/digits --bits 8 --steps 0:8
apscope search notebooks/data/digits --bits 6 --scheme 'aps:{format}' --by layer --steps 0:8"""
HELP = (
    "which split of N bits between exponent and mantissa loses least, in a ring and in two phases"
)
DESCRIPTION = (
    "Replays a trace through every split of N bits into sign, exponent and mantissa, with "
    "the special values and biases that can matter, in every reduction, ranks them, and names the "
    "format that "
    "differs least. A split is stopped once it provably ranks behind another with as many "
    "exponent bits in the same reduction. docs/search.md."
)

#: Columns of the best splits for a terminal.
_SHORT = (
    "scheme", "topology", "exponent_bits", "mantissa_bits", "step_nmse", "error_over_noise", "layer_cosine",
    "worst_nmse", "underflow_wire", "volume", "overflowed",
    "nonfinite",
)  # fmt: skip
_BEST = 10


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("trace TRACE", "a recorded trace")
    add(
        "--bits N",
        f"bits of a value, including the sign: {BITS[0]} to {BITS[1]}",
        required=True,
    )
    add(
        "--scheme SPEC",
        "a scheme with {format} (every split, its usual bias) or {biased} (also every useful "
        "bias) in place of the format; repeatable; by "
        f"default {' and '.join(schemes_for(8))}, of at most 4 bits unit=16",
        action="append",
    )
    add(
        "--specials KIND,...",
        f"kinds of top codes: {', '.join(SPECIALS)}; repeatable; by default all, and the named "
        "formats",
        action="append",
    )
    add(
        "--minimize FIGURE",
        f"one of {', '.join(FIGURES)} (maximized); by default {RANKS}",
        default=RANKS,
    )
    add(
        "--by WHAT",
        "layer: rank each layer, and print the error against exponent bits; by default all",
        default=BY[0],
    )
    add(
        "--topology NAME",
        f"a reduction; repeatable; by default {' and '.join(REDUCTIONS)}",
        action="append",
    )
    add("--steps A:B", "recorded step numbers A <= step < B, or a list A,B,C")
    add("--workers N", "ranks 0..N-1 only")
    add("--no-stop", "replay every split on all steps, for all figures")
    add_threads(add)
    add_shape(
        parser,
        'print {"splits": [...]}, the best first; null if a split was stopped or a number is '
        "infinite",
    )


def run(args: argparse.Namespace) -> int:
    table = search(
        args.trace, args.bits, schemes=args.scheme, specials=listed(args.specials),
        minimize=args.minimize, by=args.by, topology=args.topology or REDUCTIONS,
        steps=args.steps, workers=args.workers, stop=not args.no_stop, threads=args.threads,
        progress=on_terminal(),
    )  # fmt: skip
    if args.json:
        print(json.dumps({"splits": json_rows(table)}, indent=1))
    elif args.csv:
        print_csv(table)
    else:
        _print(open_trace(args.trace).name, table, args.minimize, args)
    return 0


def _print(name: str, table: pd.DataFrame, figure: str, args: argparse.Namespace) -> None:
    layers, reductions = (list(dict.fromkeys(table[name])) for name in ("layer", "topology"))
    reductions = [name for name in args.topology or REDUCTIONS if name in reductions] + [
        name for name in reductions if name not in (args.topology or REDUCTIONS)
    ]
    first = table[table["layer"] == layers[0]]
    title = (
        f"{name}: {count_of(first['scheme'].nunique(), 'split')} of {args.bits} bits, "
        f"{' and '.join(name or 'the wire' for name in reductions)}, "
        f"{count_of(int(table['steps'].max()), 'step')}"
    )
    if args.by == "all":
        quiet = [c for c in ("overflowed", "nonfinite") if not first[c].fillna(0).any()]
        best = first[~first["stopped"]].head(_BEST)[[c for c in _SHORT if c not in quiet]]
        print_frame(
            f"{title}; the best {len(best)} by {figure}",
            best.dropna(axis="columns", how="all"),
            fit=True,
        )
        rivals = _rivals(args)
        print_winners(
            name,
            _winner(first, rivals, args.bits, figure),
            "the splits searched" + (" and the hardware's block formats" if len(rivals) else ""),
        )
        title = name
    widths = sorted(table["exponent_bits"].unique())
    heads = [
        "layer",
        "reduction",
        *(f"e{e}m{args.bits - 1 - e}" for e in widths),
        "best",
        "nearest named",
    ]
    print(f"{printable(title)}: {figure} by exponent bits, the best of each")
    print_table(
        heads,
        [
            _line(
                [layer, reduction],
                table[(table["layer"] == layer) & (table["topology"] == reduction)],
                widths,
                figure,
            )
            for layer in layers
            for reduction in reductions
        ],
        ["layer", "reduction", "best", "nearest named"],
    )
    stopped = int(first["stopped"].sum())
    work = first["steps"].sum() / (len(first) * first["steps"].max())
    print(
        f"\n{stopped} of {count_of(len(first), 'row')} stopped early, none of them a winner; "
        f"{100 * work:.0f} % of all splits and steps replayed"
    )
    print(f"again: {shlex.join(['apscope', *args.words])}")


def _rivals(args: argparse.Namespace) -> pd.DataFrame:
    """Rows of the hardware's block formats of as many bits, beside the schemes by default."""
    from .._replay.replay import replay

    specs = [] if args.scheme else [s for s, bits in BLOCK_FORMATS.items() if bits == args.bits]
    if not specs:
        return pd.DataFrame()
    return replay(
        args.trace, specs, topology=args.topology or REDUCTIONS, steps=args.steps,
        workers=args.workers, threads=args.threads,
    ).summary()  # fmt: skip


def _winner(table: pd.DataFrame, rivals: pd.DataFrame, bits: int, figure: str) -> list[Winner]:
    """The best of the splits that were not stopped and of `rivals` within the bytes of `bits`."""
    rows = pd.concat([table[~table["stopped"]], rivals], ignore_index=True)
    eligible = within(rows, {}, bits / 32, figure)
    best = eligible.sort_values(figure, ascending=figure != "layer_cosine", kind="stable")
    return [
        Winner(
            bits, row["scheme"], row["topology"], row["volume"], figure, row[figure],
            tuple(seconds(eligible, row, {})) if figure == RANKS else (),
        )
        for _, row in best.head(1).iterrows()
    ]  # fmt: skip


def _line(named: list[str], table: pd.DataFrame, widths: list[int], figure: str) -> list[str]:
    """For one layer and reduction: least figures by exponent bits, the best split, its nearest name."""
    known = table[~table["stopped"] & table[figure].notna()]
    cells = []
    for width in widths:
        part = known[known["exponent_bits"] == width]
        sound = part[part["overflowed"] == 0]
        cells.append(
            _number(sound[figure].iloc[0], figure)
            if len(sound)
            else "overflow"
            if len(part)
            else "-"
        )
    if not len(known):
        return [*named, *cells, "-", "-"]
    return [*named, *cells, str(known["scheme"].iloc[0]), _nearest(known.iloc[0], table, figure)]


def _nearest(best: pd.Series, table: pd.DataFrame, figure: str) -> str:
    """The format, its figure, and its scheme if that differs in more than the format.

    A named format has its usual bias: where the best split has another, which is a constant scale,
    the best scheme of the format may be one with a scale.
    """
    name = best["nearest_named"]
    if name == best["format"]:
        return f"{name}, itself"
    rows = table[table["format"] == name]
    if not len(rows):
        return name
    row = rows.iloc[0]  # the best: rows are in the order of rank
    renamed = as_scheme(best["scheme"].replace(best["format"], name)).spec
    called = name if row["scheme"] == renamed else f"{name} ({row['scheme']})"
    if not math.isfinite(row["bound"]) or (not row["stopped"] and row["overflowed"]):
        return f"{called}: overflow"
    at = ("at most " if figure == "layer_cosine" else "at least ") * bool(row["stopped"])
    return f"{called}: {at}{_number(row['bound'], figure)}"


def _number(value: float, figure: str) -> str:
    return f"{value:.6f}" if figure == "layer_cosine" else f"{value:.2g}"
