"""Writes the tables of README.md and docs/schemes.md: python docs/tables.py README.md docs/schemes.md

README.md: the spec `main` on the bundled trace `digits`, a ring of 8 workers: the baselines, and the best of
APS, loss scaling and stochastic quantization in each format. docs/schemes.md: every scheme, on the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import page
import pandas as pd

import apscope
from apscope._report.text import figure, nmse, percent
from apscope._results.summary import headline

TRACE = Path(__file__).parents[1] / "notebooks" / "data" / "digits"
FORMATS = ("e5m2", "e4m3", "e3m4")
FAMILIES = ("APS", "loss scaling", "stochastic")
APS, CEIL, TIGHT = "aps:e3m4", "loss_scaling:e3m4,scale=best", "loss_scaling:e3m4,scale=best,rule=tight"
COLUMNS = {
    "step_nmse": "NMSE of a step", "layer_cosine": "cosine of a layer", "worst_layer": "worst layer", "underflow_wire": "underflow",
    "relative_bias": "relative bias", "volume": "volume", "speedup": "speed-up",
}  # fmt: skip
MARKERS = {name: (f"<!-- {name}: written by make tables -->", f"<!-- end of {name} -->") for name in ("answer", "all schemes")}


def rows_of(results: apscope.Results) -> pd.DataFrame:
    """The summary after a ring, or after a scheme's own reduction: one row a scheme, best first."""
    return headline(results.summary(), "ring")


def chosen(table: pd.DataFrame) -> pd.DataFrame:
    """Of rows_of: the baselines, then the best of each family in each format."""
    best = [table[(table["family"] == family) & (table["format"] == name)].head(1) for name in FORMATS for family in FAMILIES]
    return pd.concat([table[table["family"] == "baseline"], *best])


def markdown(table: pd.DataFrame) -> list[str]:
    lines = ["| scheme | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for row in table.to_dict("records"):
        dropped = [f"{row[name]} {'step' if row[name] == 1 else 'steps'} {name}" for name in ("skipped", "overflowed") if row[name]]
        cells = [
            f"`{row['scheme']}`" + (f" ({', '.join(dropped)})" if dropped else ""), figure(row["step_nmse"], 2), cosine(row["layer_cosine"]),
            f"`{row['worst_layer']}` {nmse(row['worst_nmse'], 2)}" if isinstance(row["worst_layer"], str) else "–",
            percent(row["underflow_wire"]), percent(row["relative_bias"]), number(row["volume"]), number(row["speedup"]),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def cosine(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.4f}"


def number(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.2f}"


def verdict(results: apscope.Results) -> str:
    """The sentences above README.md's table: APS against one loss scale at e3m4, by both readings."""
    table = rows_of(results).set_index("scheme")
    aps, tight, ceil = (table.loc[spec] for spec in (APS, TIGHT, CEIL))
    wins, losses, every = counts(results, TIGHT)
    return (
        f"At e3m4 `{APS}` loses less than the largest single scale that fits, `{TIGHT}`, in {wins} of {every} layers and steps, "
        f"more in {losses}; the NMSE of a step is {figure(aps['step_nmse'], 2)} against {figure(tight['step_nmse'], 2)}, the worst layer's "
        f"{figure(aps['worst_nmse'], 2)} against {figure(tight['worst_nmse'], 2)}. Pooled over all layers and steps it would read "
        f"{figure(aps['nmse'], 2)} against {figure(tight['nmse'], 2)}. Against one scale by APS's own rule, which leaves room for every sum, `{CEIL}`, "
        f"it is {' and '.join(map(str, counts(results, CEIL)[:2]))}, and pooled {figure(aps['nmse'], 2)} against {figure(ceil['nmse'], 2)}."
    )


def counts(results: apscope.Results, other: str) -> list[int]:
    """In how many layers and steps APS loses less than the other, and more, and of how many."""
    layers = results.compare(APS, other).query("layer != 'all'")
    return [layers[name].sum() for name in ("wins", "losses", "steps")]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readme", type=Path, help="README.md")
    parser.add_argument("schemes", type=Path, help="docs/schemes.md")
    args = parser.parse_args(arguments)
    results = apscope.replay(TRACE, "main", topology="ring")
    page.replace_between(args.readme, *MARKERS["answer"], [verdict(results), "", *markdown(chosen(rows_of(results)))])
    page.replace_between(args.schemes, *MARKERS["all schemes"], markdown(rows_of(apscope.replay(TRACE, "all", topology="ring"))))


if __name__ == "__main__":
    main()
