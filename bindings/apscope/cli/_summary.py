"""``apscope summary RESULTS``: schemes ranked by error; by layer, role or step on request."""

from __future__ import annotations

import argparse

import pandas as pd

from .._core import OPTIMIZERS
from .._excess_loss.expected import COLUMNS as EXPECTED
from .._results.breakdown import BY, across, by, specs_of
from .._results.noise import check_batch_factor
from .._results.overflow import tight_overflows
from .._results.pooling import headline_topology, held_topology
from .._results.ranking import RANKS, UNSOUND
from .._results.results import Results
from .._results.summary import COLUMNS, front, of_topology, without_repeats
from .._results.winners import bits_of, winners
from .._schemes.scheme import known_scheme
from .._text import clip, count_of, hint, printable
from ..cost import Network, step_time
from ._arguments import (
    add_elements,
    add_gained,
    add_network,
    add_results,
    add_shape,
    adder,
    listed,
    network_of,
)
from ._table import (
    MARKED,
    cell,
    heads_of,
    marks_explained,
    marks_of,
    print_csv,
    print_frame,
    print_json,
    print_ranking,
    print_table,
    print_winners,
    warn,
)

EXAMPLE = """\
apscope summary results
apscope summary results --by layer --column underflow_wire
apscope summary results --topology all --nodes 2"""
HELP = "schemes ranked by error: a table"
DESCRIPTION = (
    "Ranks the schemes of a replay by step_nmse, the mean over the steps of squared error over "
    "squared gradient, beside volume, the bytes sent of fp32's (in a hierarchy between nodes), and "
    "error_over_noise, the typical block's squared error over the noise of the batch (1: as large "
    "as the noise); a scheme has a row for each of its reductions. A skipped step counts as lost, "
    "schemes that lose a layer come last, after them those with overflow, and those with memory on "
    "steps with gaps. "
    "Below the table: the best of at most 8 and of at most 4 bits. "
    "--by shows layers, roles or steps: one --column, schemes across; all columns for a single "
    "--scheme. --nodes adds ms, the modelled milliseconds of a step's exchange, and node_MB, what "
    "a node sends to the others. docs/definitions.md, sections 12, 14 "
    "and 16, defines the columns. Columns that do not fit into 100 letters or the terminal are "
    "named below the table."
)

#: Columns of a table, the most important first.
SHORT = ("scheme", "topology", "step_nmse", "error_over_noise", "volume", *EXPECTED[:3], "ms",
         "node_MB", "nonfinite", "update_loss_10", "update_loss_3", "bits_above_limit",
         "underflow_wire", "gain", "layer_cosine", "worst_layer", "underflow_reduced", "speedup", "worst_nmse",
         "relative_bias", "skipped", "overflowed", "gaps", "lost_layers")  # fmt: skip
#: Those of a ranking that are shown whatever the width.
_NEEDED = SHORT[: SHORT.index("node_MB") + 1]
#: Columns that are shown only if a number is not 0.
_COUNTS = ("nonfinite", *UNSOUND)
#: The same for one scheme by layer, role or step.
SHORT_BY = (*SHORT[2:], "worst_step")


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add_results(add)
    add(
        "--scheme SPEC",
        "a scheme of the results, in any spelling; repeatable; by default all",
        action="append",
    )
    add("--by", "a row per layer, role or step, schemes across", choices=list(BY))
    add(
        "--column NAME",
        f"with --by: the figure; by default {RANKS}",
    )
    add(
        "--topology NAME",
        "rows of this topology, or all; a scheme without such rows has those of its own reduction, "
        "or the first that it has. By "
        "default the front: the first replayed that adds in a format, two phases and a scheme's "
        "own, side by side; with --by that first alone; with --csv or --json without --by, all",
    )
    add_elements(add, "time and speedup are")
    add_network(add)
    add(
        "--batch-factor K",
        "the noise of a batch K times as large as the recorded one",
        type=float,
        default=1.0,
    )
    add(
        "--optimizer",
        "of the columns update_loss_k, which a replay with --persistence has; by default that of "
        "the replay, else of a trace's metadata",
        choices=list(OPTIMIZERS),
    )
    add_gained(add)
    add(
        "--columns NAME,...",
        "these columns beside scheme and topology; repeatable; not with --by",
        action="append",
    )
    add("--all-columns", "all columns, not only the important ones")
    add_shape(parser)


def run(args: argparse.Namespace) -> int:
    if args.column is not None and args.by is None:
        figures = [c for c in COLUMNS if c not in ("trace", "scheme")]
        if args.column not in figures:
            raise ValueError(
                f"unknown --column {clip(args.column)}; {hint(args.column, figures, len(figures))}"
            )
        raise ValueError(
            f"--column {args.column} is for --by layer, role or "
            "step; without, --all-columns shows all"
        )
    if (columns := listed(args.columns)) is not None:
        _check_columns(columns, args)
    if args.by is not None and (args.nodes, args.links) != (None, None):
        raise ValueError(f"--nodes and --links are for whole schemes, without --by {args.by}")
    if args.by is not None and args.topology == "all":
        raise ValueError(f"--topology all is for whole schemes; with --by {args.by} name one")
    if args.by is not None and args.gained is not None:
        raise ValueError(f"--gained {args.gained:g} is for whole schemes, without --by {args.by}")
    check_batch_factor(args.batch_factor)
    network = network_of(args) if args.by is None else None
    results = Results.open(args.results)
    if args.optimizer is not None and not len(results.persistence):
        raise ValueError(
            f"--optimizer {args.optimizer} is of the columns update_loss_k, which need results of "
            "a replay with --persistence"
        )
    table = (
        _whole(results, args)
        if args.by is None
        else by(
            results,
            args.by,
            args.scheme,
            topology=args.topology,
            batch_factor=args.batch_factor,
            optimizer=args.optimizer,
        )
    )
    if args.by is not None and args.column is not None:
        across(table, args.by, args.column)  # refuses an unknown column
    warn(results)
    if args.csv or args.json:
        (print_csv if args.csv else print_json)(table)
        return 0
    bits = bits_of(results._coded(["scheme", "topology", "stage", "wire_bits", "count", "workers"]))
    for trace, part in table.groupby("trace", sort=False):
        if args.by is None:
            _print_whole(str(trace), part, args)
            print_winners(
                str(trace), winners(part, bits), count_of(part["scheme"].nunique(), "scheme")
            )
            if network is not None:
                print(f"ms, node_MB: {args.elements:g} parameters; {network}\n")
            _print_refused(part)
            _print_failed(part)
            _print_noise(results.noise_facts(batch_factor=args.batch_factor), str(trace))
        elif args.column is None and part["scheme"].nunique() == 1:
            one = part.iloc[0]
            shown = _telling(
                part.drop(columns=["scheme", "format", "topology"]),
                (args.by, *SHORT_BY),
                args.all_columns,
            )
            print_frame(
                f"{trace}: {one['scheme']}{_order(one['topology'])}",
                shown,
                fit=not args.all_columns,
            )
        else:
            _print_across(str(trace), part, args)
    return 0


def _check_columns(columns: list[str], args: argparse.Namespace) -> None:
    """That --columns are columns of whole schemes."""
    if args.by is not None or args.all_columns:
        raise ValueError("--columns selects columns of whole schemes, without --by, --all-columns")
    known = [c for c in COLUMNS if c not in ("trace", "scheme", "topology")]
    known += EXPECTED if args.gained is not None else ()
    known += ("ms", "node_MB") if network_of(args) is not None else ()
    for name in columns:
        if name not in known:
            raise ValueError(f"unknown column {clip(name)}; {hint(name, known, len(known))}")


def _whole(results: Results, args: argparse.Namespace) -> pd.DataFrame:
    """The requested rows of the summary."""
    network = network_of(args)
    table = results.summary(
        network=network,
        elements=args.elements,
        batch_factor=args.batch_factor,
        optimizer=args.optimizer,
        gained=args.gained,
    )
    if network is not None:
        table = _with_nodes(table, results, network, args.elements)
    if args.scheme:
        table = table[table["scheme"].isin(specs_of(results._coded(["scheme"]), args.scheme))]
    if args.topology is None:
        if args.csv or args.json:
            return table
        return without_repeats(front(table, headline_topology(results._coded(["topology"]))))
    topologies = [t for t in table["topology"].unique() if t]
    topology = held_topology(topologies, args.topology, "all")
    return table if topology == "all" else of_topology(table, topology)


def _with_nodes(
    table: pd.DataFrame, results: Results, network: Network, elements: float
) -> pd.DataFrame:
    """The summary with the time in milliseconds and what a node sends, in megabytes."""
    key = ["trace", "scheme", "topology"]
    sent = step_time(results, network, elements=elements).set_index(key)["node_bytes"]
    rows = pd.MultiIndex.from_frame(table[key])
    return table.assign(ms=table["time"] * 1e3, node_MB=sent.reindex(rows).to_numpy() / 1e6)


def _telling(table: pd.DataFrame, short: tuple[str, ...], everything: bool) -> pd.DataFrame:
    """The columns shown for one trace."""
    if everything:
        return table.drop(columns="trace")
    # Without error_over_noise for one worker.
    columns = [c for c in short if c in table and table[c].notna().any()]
    return table[[c for c in columns if c not in _COUNTS or table[c].any()]]


def _print_whole(trace: str, table: pd.DataFrame, args: argparse.Namespace) -> None:
    """The ranking of one trace; a column without a name marks figures that are not of a run."""
    if args.all_columns:
        print_frame(trace, table.drop(columns="trace"), fit=False)
        print(f"{_modelled(args)}\n")
        return
    columns = listed(args.columns)
    if columns is None:
        shown = _telling(table, tuple(c for c in SHORT if c not in MARKED), False)
        needed = sum(c in _NEEDED for c in shown)
    else:
        shown = table[["scheme", "topology", *columns]]
        needed = len(shown.columns)
    marks = [marks_of(row) for row in table.to_dict("records")]
    if any(marks):
        shown.insert(min(3, len(shown.columns)), "", marks)
        needed += 1
    notes, heads = print_ranking(
        trace, shown, needed, "--columns, --all-columns and --csv have them"
    )
    notes += [*marks_explained(table), *_unnamed_formats(table)]
    notes += [_modelled(args)] if {"time", "speedup"} & set(heads) else []
    if notes:
        print("\n".join([*notes, ""]))


def _modelled(args: argparse.Namespace) -> str:
    """What the times are of."""
    return f"time, speedup: modelled, {args.elements:g} parameters; {network_of(args) or Network()}"


def _unnamed_formats(table: pd.DataFrame) -> list[str]:
    """Formats that a spec does not name, because they are its scheme's default; not of policies."""
    own = table[~table["topology"].str.contains("@")]  # without levels of other formats
    formats = dict(zip(own["scheme"], own["format"]))
    return [
        f"{printable(spec)}: its format is {printable(str(name))}"
        for spec, name in formats.items()
        if str(name) not in spec and "(" not in spec
    ]


def _print_failed(table: pd.DataFrame) -> None:
    """What overflowed or skipped steps, and why, where that is known."""
    tight, lines = tight_overflows(table), []
    failed = table[(table["overflowed"] > 0) | (table["skipped"] > 0)]
    for (spec, overflowed, skipped), rows in failed.groupby(
        ["scheme", "overflowed", "skipped"], sort=False
    ):
        told = [t for t in rows["topology"] if f"{spec} in {t} (" not in tight]
        if not told:
            continue
        counts = [f"overflow in {count_of(overflowed, 'step')}"] if overflowed else []
        counts += [f"skipped {count_of(skipped, 'step')}"] if skipped else []
        reduced = f" in {' and '.join(told)}" if any(told) else ""
        lines.append(f"{printable(spec)}{reduced}: {', '.join(counts)}{_why_failed(rows.iloc[0])}")
    lines += [printable(tight, 600)] if tight else []
    if lines:
        print("\n".join(["What overflowed or skipped steps:", *lines, ""]))


def _why_failed(row: pd.Series) -> str:
    """The default of a loss scale that the spec does not set; a block with a NaN; or ""."""
    scheme = known_scheme(row["scheme"])
    if scheme and row["family"] == "loss scaling":
        return "".join(
            f"; it does not set {key}, so the default {key}={scheme.keys[key]} was used"
            for key in ("scale", "init")
            if key in scheme.keys and f"{key}=" not in row["scheme"]
        )
    if scheme and scheme.name in ("mx", "nvfp4") and row["nonfinite"]:
        return "; a gradient that is NaN or infinite can take its whole block with it"
    return ""


def _print_refused(table: pd.DataFrame) -> None:
    """Of which schemes no excess is expected, and why."""
    if EXPECTED[-1] not in table:
        return
    refused = table[table[EXPECTED[-1]] != ""]
    lines = [
        f"{why}: "
        f"{'; '.join(f'{printable(r.scheme)}{_order(r.topology)}' for r in own.itertuples())}"
        for why, own in refused.groupby(EXPECTED[-1], sort=False)
    ]
    if lines:
        print("\n".join(["The excess is not predicted:", *(clip(line, 400) for line in lines), ""]))


def _print_across(trace: str, table: pd.DataFrame, args: argparse.Namespace) -> None:
    """One column of one trace, as many schemes as fit; overflow and skips are marked."""
    column = args.column or RANKS
    wide = across(table, args.by, column)
    topologies = list(dict.fromkeys(table["topology"]))
    rows = [
        [str(place), *(cell(column, value) for value in row)]
        for (_, place), row in zip(wide.index, wide.to_numpy(object))
    ]
    specs, full_specs = heads_of(list(wide.columns))
    heads = [args.by, *specs]
    print(f"{printable(trace)}: {column} by {args.by}{_order(*topologies)}")
    shown = print_table(heads, rows, [args.by], fit=True)
    for line in full_specs:
        print(line)
    if shown < len(heads):
        print(
            f"and {count_of(len(heads) - shown, 'more scheme')} with larger errors; --scheme "
            "selects, --csv and --json have all"
        )
    print()


def _order(*topologies: str) -> str:
    """The reductions, for a title."""
    return ", " + " or ".join(topologies) if any(topologies) else ", on the wire"


def _print_noise(facts: pd.DataFrame, trace: str) -> None:
    """The noise of one trace, as a table."""
    facts = facts[facts["trace"] == trace].drop(columns="trace")
    if len(facts):
        print_frame(
            f"{trace}: noise of the batch; an error over it times low and high: 95 % of the corrected one",
            facts,
            fit=False,
        )
