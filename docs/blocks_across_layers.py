"""Writes the tables of docs/blocks_across_layers.md, whose path is the argument."""

import argparse
from functools import cache
from pathlib import Path

import page
import pandas as pd

import apscope

DATA = Path(__file__).parents[1] / "notebooks" / "data"
TRACES = ("transformer", "resnet18", "characters")
BUCKET = ",bucket=25MB"
#: Schemes by what they are.
SCHEMES = {
    "int8, blocks of 256": "mx:block_format=mxint8,block=256",
    "e4m3fn, groups of 256": "fp8_two_shot:e4m3fn,group=256",
    "int8, blocks of 32": "mx:block_format=mxint8",
    "mxfp4, blocks of 32": "mx:block_format=mxfp4",
}
EXEMPT = "hybrid(role:norm=none:fp32;role:bias=none:fp32;else={})"
SHOWN = 5  # layers of a trace
LOSES = 2.0  # times the error from which on a layer is counted


def rows(heads: list[str], cells: list[list[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *cells]
    return [f"| {' | '.join(line)} |" for line in lines]


@cache
def replayed(trace: str) -> apscope.Results:
    specs = [spec + end for spec in SCHEMES.values() for end in ("", BUCKET)]
    exempt = [EXEMPT.format(spec + BUCKET) for spec in SCHEMES.values()]
    return apscope.replay(DATA / trace, specs + exempt, topology="two_phase")


def sizes(trace: str) -> dict[str, int]:
    opened = apscope.open_trace(DATA / trace)
    return {name: opened.read(opened.steps[0], name, 0).size for name in opened.tensors}


@cache
def layers(trace: str, spec: str) -> pd.DataFrame:
    """By layer: the error over the noise with blocks of the tensor and of the bucket, the factor."""
    found = replayed(trace).compare(spec + BUCKET, spec)
    found = found[found["layer"] != "all"].set_index("layer")
    table = pd.DataFrame(
        {"bucket": found["error_over_noise_a"], "tensor": found["error_over_noise_b"]}
    )
    table["factor"] = table["bucket"] / table["tensor"]
    return table.sort_values("factor", ascending=False, kind="stable")


def left(trace: str, spec: str) -> pd.Series:
    """By layer that is not exempt: the factor of its error where norms and biases are."""
    results = replayed(trace)
    found = results.compare(EXEMPT.format(spec + BUCKET), spec)
    found = found[found["layer"] != "all"].set_index("layer")
    factor = found["error_over_noise_a"] / found["error_over_noise_b"]
    return factor[~factor.index.isin(exempt(trace))]


def exempt(trace: str) -> list[str]:
    frame = replayed(trace).frame
    return list(frame.loc[frame["role"].isin(["norm", "bias"]), "tensor"].unique())


def worst(trace: str) -> list[str]:
    cells = []
    count = sizes(trace)
    for name, spec in SCHEMES.items():
        for layer, row in layers(trace, spec).head(SHOWN).iterrows():
            cells.append(
                [
                    name,
                    f"`{layer}`",
                    f"{count[layer]:,}",
                    f"{row['tensor']:.2g}",
                    f"{row['bucket']:.2g}",
                    f"{row['factor']:.3g}",
                ]
            )
    heads = ["scheme", "layer", "elements", "blocks of the tensor", "blocks of the bucket"]
    return rows([*heads, "times"], cells)


def exempted() -> list[str]:
    cells = []
    for trace in TRACES:
        count = sizes(trace)
        share = sum(count[name] for name in exempt(trace)) / sum(count.values())
        for name, spec in SCHEMES.items():
            factor, after = layers(trace, spec)["factor"], left(trace, spec)
            cells.append(
                [
                    trace,
                    f"{100 * share:.2g} %",
                    name,
                    str(int((factor > LOSES).sum())),
                    f"{factor.max():.3g}",
                    str(int((after > LOSES).sum())),
                    f"{after.max():.3g}",
                ]
            )
    return rows(
        [
            "trace",
            "norms and biases",
            "scheme",
            "layers that lose",
            "the worst, times",
            "with norms and biases exempt",
            "the worst, times",
        ],
        cells,
    )


TABLES = {
    **{trace: (lambda trace=trace: worst(trace)) for trace in TRACES},
    "exempt": exempted,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    into = parser.parse_args().page
    for table, make in TABLES.items():
        page.replace_between(
            into, f"<!-- {table}: written by make tables -->", f"<!-- end of {table} -->", make()
        )
