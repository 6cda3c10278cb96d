"""Writes the tables of docs/reductions.md: python docs/reductions.py docs/reductions.md

Every figure is the error over the noise of the typical block (docs/definitions.md, section 16), and
every table differs in what its heads name, in nothing else.
"""

import argparse
from pathlib import Path
from typing import Any

import page
import pandas as pd

import apscope
from apscope._report.text import figure

DATA = Path(__file__).parents[1] / "notebooks" / "data"
TRACES = ("digits", "digits_w64", "characters", "resnet18", "transformer")
#: Formats of 8 bits and of 4, with the elements that share a scale.
GRIDS = (
    *((f"{name}, one scale a layer", f"aps:{name},rule=tight") for name in ("e5m2", "e4m3fn")),
    *((f"{name}, {unit}", f"aps:{name},rule=tight{key}")
      for name in ("e3m4", "e2m5")
      for unit, key in (("one scale a layer", ""), ("one for 32 elements", ",unit=32"))),
    *((f"{name}, {unit}", f"aps:{name},rule=tight{key}")
      for name in ("e3m0", "e2m1fn")
      for unit, key in (("one scale a layer", ""), ("one for 16 elements", ",unit=16"))),
)  # fmt: skip
#: What cannot be added as codes, because every worker's block has its own scale.
BLOCKS = {
    "MXFP8 (e4m3)": "mx",
    "MXFP8 (e5m2)": "mx:block_format=mxfp8_e5m2",
    "MXFP6 (e2m3)": "mx:block_format=mxfp6_e2m3",
    "MXINT8": "mx:block_format=mxint8",
    "MXFP4": "mx:block_format=mxfp4",
    "NVFP4, as its recipe": "nvfp4",
    "NVFP4, to nearest, no transform": "nvfp4:rounding=ties_to_even,rht=false",
}
UNITS = {"layer": "", "row": ",unit=row", "1,024": ",unit=1024", "32": ",unit=32"}
WORKERS = (2, 4, 8, 16, 32, 64)
WIDE = ("none:fp16", "none:bf16")


def errors(traces: tuple[str, ...], specs: list[str], **options: Any) -> pd.DataFrame:
    """error_over_noise, step_nmse and volume by trace, scheme and topology."""
    results = apscope.replay([DATA / t for t in traces], specs, **options)
    return results.summary().set_index(["trace", "scheme", "topology"])


def rows(heads: list[str], cells: list[list[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *cells]
    return [f"| {' | '.join(line)} |" for line in lines]


def canonical(spec: str) -> str:
    return apscope.schemes.as_scheme(spec).spec


def reductions() -> list[str]:
    """Ring against two phases: the same format, scale and bytes."""
    found = errors(TRACES, [s for _, s in GRIDS], topology=["ring", "two_phase"])
    cells = []
    for name, spec in GRIDS:
        at = [[found.loc[(t, canonical(spec), r), "error_over_noise"] for r in ("ring", "two_phase")]
              for t in TRACES]  # fmt: skip
        cells.append(
            [name, *(f"{figure(a, 2)} / {figure(b, 2)} ({figure(a / b, 2)} ×)" for a, b in at)]
        )
    return rows(["format and scale", *(f"`{t}`" for t in TRACES)], cells)


def workers() -> list[str]:
    """Sixteen bits by the number of workers: what the rounding of partial sums costs."""
    cells = []
    for n in WORKERS:
        found = errors(("digits_w64",), list(WIDE), topology=["ring", "two_phase"], workers=n)
        cells.append([str(n), *(figure(found.loc[("digits_w64", s, r), "step_nmse"], 2)
                                for s in WIDE for r in ("ring", "two_phase"))])  # fmt: skip
    return rows(["workers", *(f"`{s}`, {r}" for s in WIDE for r in ("ring", "two phases"))], cells)


def blocks() -> list[str]:
    """Block formats: gathered, and in two phases."""
    specs = {name: canonical(spec) for name, spec in BLOCKS.items()}
    found = errors(TRACES, list(specs.values()), topology="two_phase")
    cells = []
    for name, spec in specs.items():
        volumes = [found.loc[(TRACES[2], spec, r), "volume"] for r in ("gather", "two_phase")]
        cells.append([name, f"{volumes[0]:.2f} / {volumes[1]:.2f}",
                      *(" / ".join(figure(found.loc[(t, spec, r), "error_over_noise"], 2)
                                   for r in ("gather", "two_phase")) for t in TRACES)])  # fmt: skip
    return rows(["format", f"volume, {8} workers", *(f"`{t}`" for t in TRACES)], cells)


def units() -> list[str]:
    """APS in two phases, by the elements that share its power of two."""
    formats = ("e5m2", "e4m3fn", "e3m4", "e2m5")
    specs = [f"aps:{f},rule=tight{key}" for f in formats for key in UNITS.values()]
    found = errors(TRACES, specs, topology="two_phase")["error_over_noise"]
    cells = [[f"`{t}`", f"`{f}`", *(figure(found.loc[(t, canonical(f"aps:{f},rule=tight{key}"), "two_phase")], 2)
                                    for key in UNITS.values())]
             for t in TRACES for f in formats]  # fmt: skip
    return rows(["trace", "format", *(f"one scale a {u}" if u.isalpha() else f"for {u} elements" for u in UNITS)], cells)  # fmt: skip


TABLES = {"reductions": reductions, "workers": workers, "blocks": blocks, "units": units}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    into = parser.parse_args().page
    for table, make in TABLES.items():
        page.replace_between(
            into, f"<!-- {table}: written by make tables -->", f"<!-- end of {table} -->", make()
        )
