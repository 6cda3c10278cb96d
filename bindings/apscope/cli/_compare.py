"""``apscope compare RESULTS [RESULTS] [A [B ...]]``: schemes, or two results, layer by layer."""

from __future__ import annotations

import argparse
import os

import pandas as pd

from .._results.against import meeting, only, settings
from .._results.differences import Sent, cause, chain, sides_differ
from .._results.pooling import PARTS, headline_topology, is_on_front, is_own
from .._results.results import Results
from .._text import count_of, printable
from ._arguments import add_results, add_shape, adder
from ._table import REMARKS, cell, heads_of, print_csv, print_frame, print_json, print_table, warn

EXAMPLE = """\
apscope compare results aps:e4m3fn none:e4m3fn
apscope compare results aps:e4m3fn@two_phase aps:e4m3fn@ring
apscope compare results both"""
HELP = "one scheme against others, layer by layer; or two results"
DESCRIPTION = (
    "Compares the NMSE of scheme A with that of B, and of C ..., at every layer and step. Each is "
    "a scheme, or SCHEME@TOPOLOGY for its own reduction: aps:e3m4@two_phase, aps:e3m4@ring. "
    "A ratio below 1, and a win, mean less error of A. With two RESULTS: every scheme of "
    "the first against itself in the second, or A of the first against A or B of the "
    "second, layer by layer; on layers and steps that both have; the rest is listed. "
    "docs/definitions.md, section 14, defines the columns. On a terminal columns that do "
    "not fit are omitted."
)

#: Columns for a terminal, the most important first.
SHORT = ("layer", "error_over_noise_a", "error_over_noise_b", "steps", "wins", "losses", "ties",
         "median_ratio",
         "worst_ratio", "step_nmse_a", "step_nmse_b", "overflowed_a", "overflowed_b",
         "underflow_wire_a", "underflow_wire_b",
         "accumulation_a", "accumulation_b")  # fmt: skip

#: Columns that titles state.
_ABOUT = ("trace", "topology_a", "topology_b", "scheme_a", "scheme_b", "held_by")
#: Names for parts that only one of two results has.
LISTED = 50


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "apscope compare [-h] RESULTS A B [C ...] [options]\n"
        "       apscope compare [-h] RESULTS RESULTS [A [B]] [options]"
    )
    add = adder(parser)
    add_results(add)
    add(
        "schemes A",
        "schemes, in any spelling, each with @TOPOLOGY or without; optionally a second RESULTS "
        "folder before them",
        nargs="*",
    )
    add(
        "--topology NAME",
        "of schemes without @TOPOLOGY; by default the first that both have and that is not exact; "
        "exact or wire exclude rounded sums",
    )
    add("--all-columns", "all columns, not only the important ones")
    add_shape(parser)


def run(args: argparse.Namespace) -> int:
    words = list(args.schemes)
    # A spec may be longer than any path.
    folder = words.pop(0) if words and os.path.isdir(words[0]) else None
    _check_count(words, folder)
    results = Results.open(args.results)
    warn(results, REMARKS)
    second = None if folder is None else Results.open(folder)
    if second is not None:
        warn(second, REMARKS)
        meeting(*(one.provenance.get("traces", []) for one in (results, second)))
    if second is not None and not words:
        table = results.against(second, args.topology)
    else:
        table = results.compare(words[0], words[1:] or words[0], args.topology, against=second)
    if args.csv or args.json:
        (print_csv if args.csv else print_json)(table)
        return 0
    if second is not None and folder is not None:
        _print_results(table, results, second, args, folder)
    elif len(words) == 2:
        _print_pair(table, results, words[0], words[1], args)
    else:
        _print_several(table, args)
    return 0


def _check_count(words: list[str], folder: str | None) -> None:
    if folder is None and len(words) < 2:
        problem = (
            f"'{words[0]}' alone is neither a second RESULTS folder nor two schemes"
            if words
            else "there is nothing to compare with"
        )
        raise ValueError(
            f"compare: {problem}; give two or more schemes, or the folder of other results"
        )
    if folder is not None and len(words) > 2:
        raise ValueError(
            f"compare: {len(words)} schemes of two results are given; give none, A of both, or A "
            "of the first and B of the second"
        )


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """A layer named `all` in quotes, to distinguish it from the row of all layers."""
    return table.assign(
        layer=table["layer"].mask((table["layer"] == "all") & ~table["whole"], "'all'")
    )


def _columns(part: pd.DataFrame, args: argparse.Namespace, first: str) -> pd.DataFrame:
    """The columns shown for one trace, `first` before the others."""
    if args.all_columns:
        others = [c for c in part.columns if c not in (*_ABOUT, first)]
        return part[[first, *others]]
    quiet = [c for c in ("overflowed_a", "overflowed_b") if not part[c].any()]
    return part[[first, *(c for c in SHORT[1:] if c not in quiet)]]


def _print_columns(title: str, part: pd.DataFrame, args: argparse.Namespace, first: str) -> None:
    print_frame(title, _columns(part, args, first), fit=not args.all_columns)


def _print_pair(
    table: pd.DataFrame, results: Results, a: str, b: str, args: argparse.Namespace
) -> None:
    """Two schemes of the same results."""
    summary = results.summary()
    for trace, part in _named(table).groupby("trace", sort=False):
        sides = [_side(summary, str(trace), part.iloc[0], side) for side in "ab"]
        one, other = sides
        _print_columns(f"{trace}: a = {_called(one)}, b = {_called(other)}", part, args, "layer")
        differ = sides_differ(one, other)
        only = cause(differ)
        print_frame(
            f"{trace}: how they differ"
            + (f": in the {only} alone" if only else ": in several things" if differ else ""),
            pd.DataFrame(differ, columns=["aspect", "a", "b"]),
            fit=False,
        )
        factors = _factors(results, str(trace), one, other)
        if len(factors) > 1:
            print_frame(
                f"{trace}: effect of each difference, from b to a: error before divided by error "
                "after, 95 % over the steps",
                factors,
                fit=False,
            )
        _print_made_of(str(trace), part)
    first = table.iloc[0]
    missing = [
        spec
        for _, spec in chain(first["scheme_a"], first["scheme_b"])
        if spec not in set(results.frame["scheme"])
    ]
    if missing:
        print(
            "To give each difference its factor, replay the same trace with "
            f"{' '.join(f'--scheme {spec}' for spec in missing)}, and merge."
        )
    if args.topology is None and "@" not in a + b:
        _print_others(results, summary, first)


def _side(summary: pd.DataFrame, trace: str, row: pd.Series, side: str) -> Sent:
    """A side of a row of `compare`, with its bytes."""
    scheme, topology = row[f"scheme_{side}"], row[f"topology_{side}"]
    own = summary[
        (summary["trace"] == trace)
        & (summary["scheme"] == scheme)
        & (summary["topology"] == topology)
    ]
    return Sent(scheme, topology, float(own["volume"].iloc[0]) if len(own) else float("nan"))


def _factors(results: Results, trace: str, a: Sent, b: Sent) -> pd.DataFrame:
    """The rows of `decompose` for a trace; at the wire nothing is reduced, so there are none."""
    columns = ["change", "before", "after", "factor", "factor_low", "factor_high"]
    if "wire" in (a.topology, b.topology):
        return pd.DataFrame(columns=columns)
    table = results.decompose(*(f"{side.scheme}@{side.topology}" for side in (a, b)))
    return table.loc[table["trace"] == trace, columns]


def _called(side: Sent) -> str:
    """A side as titles name it: scheme, reduction and bytes."""
    sent = "" if pd.isna(side.volume) else f", {side.volume:.3g} of fp32's bytes"
    return f"{side.scheme} ({side.topology}{sent})"


def _print_others(results: Results, summary: pd.DataFrame, first: pd.Series) -> None:
    """The other reductions that rank, and how to compare them."""
    headline = headline_topology(results.frame)
    for side in "ab":
        scheme, used = first[f"scheme_{side}"], first[f"topology_{side}"]
        names = summary.loc[summary["scheme"] == scheme, "topology"].unique()
        others = [t for t in names if t != used and is_on_front(t, headline)]
        if others:
            print(f"{scheme} was also reduced by {', '.join(others)}: give {scheme}@{others[0]}.")


def _print_several(table: pd.DataFrame, args: argparse.Namespace) -> None:
    """One scheme against several: each in total, then layers down and schemes across."""
    sides = ["trace", "layer", "whole", "scheme_a", "scheme_b", "topology_a", "topology_b"]
    table = table.drop_duplicates(sides)
    if len({*table["topology_a"], *table["topology_b"]}) > 1:
        named = {s: table[f"scheme_{s}"] + "@" + table[f"topology_{s}"] for s in "ab"}
        table = table.assign(scheme_a=named["a"], scheme_b=named["b"])
    for trace, part in _named(table).groupby("trace", sort=False):
        whole = part[part["whole"]].rename(columns={"scheme_b": "b"})
        _print_columns(
            f"{trace}: a = {', '.join(dict.fromkeys(whole['scheme_a']))}, all layers",
            whole,
            args,
            "b",
        )
        layers = part[~part["whole"]]
        wide = layers.set_index(["layer", "scheme_b"])["geometric_ratio"].unstack("scheme_b")
        wide = wide.reindex(index=layers["layer"].unique(), columns=whole["b"].unique())
        rows = [
            [layer, *(cell("geometric_ratio", value) for value in row)]
            for layer, row in zip(wide.index, wide.to_numpy())
        ]
        print(f"{printable(str(trace))}: geometric_ratio by layer, the NMSE of a over that of each")
        specs, long = heads_of(list(wide.columns))
        shown = print_table(["layer", *specs], rows, ["layer"], fit=True)
        left = 1 + len(specs) - shown
        print("\n".join([*long, f"and {count_of(left, 'more scheme')}\n" if left else ""]))


def _print_results(
    table: pd.DataFrame, first: Results, second: Results, args: argparse.Namespace, folder: str
) -> None:
    """Two results: all schemes, or one pair by layer; then differences, and parts of only one."""
    names = {"first": args.results, "second": folder}
    if "held_by" in table:
        both = table[table["held_by"] == "both"]
        if sum(not is_own(t) for t in {*both["topology_a"], *both["topology_b"]}) > 1:
            here, there = both["topology_a"], both["topology_b"]
            used = here.where(here == there, here + " and " + there)
            both = both.assign(scheme=both["scheme"] + "@" + used)
        for trace, part in both.groupby("trace", sort=False):
            _print_columns(
                f"{trace}: a = {names['first']}, b = {names['second']}, all layers",
                part,
                args,
                "scheme",
            )
    else:
        for trace, part in _named(table).groupby("trace", sort=False):
            sides = [
                f"{part[f'scheme_{s}'].iloc[0]} of {name} ({part[f'topology_{s}'].iloc[0]})"
                for s, name in zip("ab", names.values())
            ]
            _print_columns(f"{trace}: a = {sides[0]}, b = {sides[1]}", part, args, "layer")
            _print_made_of(str(trace), part)
    if differ := settings(first, second):
        print_frame(
            "How the results differ", pd.DataFrame(differ, columns=["setting", "a", "b"]), fit=False
        )
    for side, what, alone in only(first, second):
        shown = ", ".join(printable(str(name), 80) for name in alone[:LISTED]) + (
            f" and {len(alone) - LISTED} more" if len(alone) > LISTED else ""
        )
        print(
            f"Only {names[side]} has "
            f"{count_of(len(alone), 'reduction' if what == 'topology' else what)}: {shown}"
        )


def _print_made_of(trace: str, part: pd.DataFrame) -> None:
    """For all layers: a row per scheme, a column per part of the squared error."""
    whole, parts = part.iloc[0], [name.removeprefix("split_") for name in PARTS]
    rows = [
        [side, whole[f"nmse_{side}"], *(whole[f"share_{name}_{side}"] for name in parts)]
        for side in "ab"
    ]
    table = pd.DataFrame(rows, columns=["scheme", "nmse", *(f"share_{name}" for name in parts)])
    title = f"{trace}: parts of their squared errors, all layers and steps together"
    if any(str(whole[f"topology_{side}"]).startswith("two_phase") for side in "ab"):
        title += "; accumulation in two phases: sums and phase 2"
    print_frame(title, table, fit=False)
