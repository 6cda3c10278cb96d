"""The tables of docs/reductions.md and README.md's answer.

Every figure is the NMSE of a step (docs/definitions.md, section 14), and every table differs in
what its heads name, in nothing else.
"""

import itertools
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd

import apscope
from apscope._page.numbers import figure
from apscope._results.ranking import RANKS

from . import page
from .page import DATA, TRACES

#: Formats of 8 bits and of 4, with the elements that share a scale.
GRIDS = (
    *((f"{name}, one scale a layer", f"aps:{name},rule=tight") for name in ("e5m2", "e4m3fn")),
    *((f"{name}, {unit}", f"aps:{name},rule=tight{key}")
      for name in ("e3m4", "e2m5finite")
      for unit, key in (("one scale a layer", ""), ("one for 32 elements", ",unit=32"))),
    *((f"{name}, {unit}", f"aps:{name},rule=tight{key}")
      for name in ("e3m0noinf", "e2m1fn")
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
#: A ring; its scales with sums in fp32; two phases, which have sums in fp32 and scales of their own.
PARTS = ("ring", "fp32_accumulate", "two_phase")
#: A ring's scale leaves room for the sum of so many workers; with less, sums saturate.
ROOMS = {
    "W": "",
    "√W": ",headroom=sqrt_workers,overflow=saturate",
    "1": ",headroom=one,overflow=saturate",
}
WORKERS = (2, 4, 8, 16, 32, 64)
WIDE = ("none:fp16", "none:bf16")


def errors(traces: tuple[str, ...], specs: list[str], **options: Any) -> pd.DataFrame:
    """Columns of a summary by trace, scheme and topology."""
    results = apscope.replay([DATA / t for t in traces], specs, **options)
    return results.summary().set_index(["trace", "scheme", "topology"])


def span(values: Collection[float]) -> str:
    """The least and the largest, or one figure if they read the same."""
    low, high = (figure(value, 2) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def canonical(spec: str) -> str:
    return apscope.schemes.as_scheme(spec).spec


def reductions() -> list[str]:
    """Ring against two phases in the same format: the rounding of partial sums, and the scale."""
    found = errors(TRACES, [s for _, s in GRIDS], topology=list(PARTS))
    cells = []
    for name, spec in GRIDS:
        at = [[found.loc[(t, canonical(spec), r), RANKS] for r in PARTS] for t in TRACES]
        cells.append(
            [name, *(f"{figure(a, 2)} / {figure(c, 2)} ({figure(a / b, 2)} × {figure(b / c, 2)})"
                     for a, b, c in at)]
        )  # fmt: skip
    return page.table(["format and scale", *(f"`{t}`" for t in TRACES)], cells)


def rooms() -> list[str]:
    """A ring by the room that its scale leaves for the sum."""
    specs = [spec + key for _, spec in GRIDS for key in ROOMS.values()]
    found = errors(TRACES, specs, topology="ring")[RANKS]
    cells = [
        [name, *(" / ".join(figure(found.loc[(t, canonical(spec + key), "ring")], 2)
                            for key in ROOMS.values()) for t in TRACES)]
        for name, spec in GRIDS
    ]  # fmt: skip
    return page.table(["format and scale", *(f"`{t}`" for t in TRACES)], cells)


def workers() -> list[str]:
    """Sixteen bits by the number of workers: what the rounding of partial sums costs."""
    cells = []
    for n in WORKERS:
        found = errors(("digits_w64",), list(WIDE), topology=["ring", "two_phase"], workers=n)
        cells.append([str(n), *(figure(found.loc[("digits_w64", s, r), "step_nmse"], 2)
                                for s in WIDE for r in ("ring", "two_phase"))])  # fmt: skip
    return page.table(
        ["workers", *(f"`{s}`, {r}" for s in WIDE for r in ("ring", "two phases"))], cells
    )


def blocks() -> list[str]:
    """Block formats: gathered, and in two phases."""
    specs = {name: canonical(spec) for name, spec in BLOCKS.items()}
    found = errors(TRACES, list(specs.values()), topology="two_phase")
    cells = []
    for name, spec in specs.items():
        volumes = [found.loc[(TRACES[2], spec, r), "volume"] for r in ("gather", "two_phase")]
        cells.append([name, f"{volumes[0]:.2f} / {volumes[1]:.2f}",
                      *(" / ".join(figure(found.loc[(t, spec, r), RANKS], 2)
                                   for r in ("gather", "two_phase")) for t in TRACES)])  # fmt: skip
    return page.table(["format", f"volume, {8} workers", *(f"`{t}`" for t in TRACES)], cells)


def units() -> list[str]:
    """APS in two phases, by the elements that share its power of two."""
    formats = ("e5m2", "e4m3fn", "e3m4", "e2m5finite")
    specs = [f"aps:{f},rule=tight{key}" for f in formats for key in UNITS.values()]
    found = errors(TRACES, specs, topology="two_phase")[RANKS]
    cells = [[f"`{t}`", f"`{f}`", *(figure(found.loc[(t, canonical(f"aps:{f},rule=tight{key}"), "two_phase")], 2)
                                    for key in UNITS.values())]
             for t in TRACES for f in formats]  # fmt: skip
    return page.table(["trace", "format", *(f"one scale a {u}" if u.isalpha() else f"for {u} elements" for u in UNITS)], cells)  # fmt: skip


#: Of eight nodes of eight workers: one level, and two with a format of their own.
LEVELS = (
    "ring", "two_phase",
    *(f"hierarchical:8({levels})" for levels in (
        "two_phase,two_phase", "two_phase,two_phase@e3m4", "two_phase@e3m4,two_phase",
        "reduce_scatter,two_phase", "reduce_scatter@bf16,two_phase@e3m4",
        "nccl:ring@bf16,two_phase@e3m4")),
)  # fmt: skip


def levels() -> list[str]:
    """Formats for each level: error, bytes between nodes, time."""
    spec = canonical("aps:e4m3fn,rule=tight")
    results = apscope.replay(DATA / "digits_w64", spec, topology=LEVELS)
    network = apscope.cost.Network.of("nvlink4", "infiniband_ndr", nodes=8)
    times = apscope.cost.step_time(results, network, elements=25.6e6).set_index("topology")
    found = results.summary().set_index("topology")
    cells = [[f"`{t}`", figure(found.loc[t, RANKS], 2), f"{times.loc[t, 'node_bytes'] / 1e6:.3g}",
              f"{1e3 * times.loc[t, 'seconds']:.2f}"] for t in LEVELS]  # fmt: skip
    return page.table(["reduction", "step NMSE", "MB that a node sends", "ms"], cells)


#: Elements of a message, and the channels that it is divided among.
MESSAGES = tuple(1 << k for k in (15, 17, 19, 21))
CHANNELS = (1, 2, 4, 8, 16)


def channels() -> list[str]:
    """What NCCL's channels change: which bits, by how much, and the error."""
    drawn = np.random.default_rng(0).standard_normal((8, MESSAGES[-1]), np.float32)
    cells = []
    for order, name in itertools.product(("nccl:ring", "nccl:tree"), ("bf16", "fp16")):
        digits = apscope.FloatFormat(name).mantissa_bits
        start = None
        for n in MESSAGES:
            x = apscope.quantize(drawn[:, :n], name)
            exact = x.sum(0, dtype=np.float64)
            sums = [apscope.allreduce(x, name, topology=f"{order},channels={c}") for c in CHANNELS]
            first, others = sums[0], sums[1:]
            start = first[: MESSAGES[0]] if start is None else start
            # Of the larger of two results.
            furthest = max(np.ldexp(abs(y - first), digits + 1 - np.frexp(np.maximum(abs(y), abs(first)))[1]).max()
                           for y in others)  # fmt: skip
            errors = [((y - exact) ** 2).sum() / (exact**2).sum() for y in sums]
            cells.append([
                f"`{order}`", f"`{name}`", f"{2 * n / 1024:,.0f} KiB",
                *(f"{100 * (y != first).mean():.0f} %" for y in others),
                f"{100 * (first[: MESSAGES[0]] != start).mean():.0f} %",
                f"{furthest:.0f}", span(errors),
            ])  # fmt: skip
    heads = ["order", "format", "message", *(f"{c} channels" for c in CHANNELS[1:]),
             "of its first 64 KiB", "ulps", "NMSE"]  # fmt: skip
    return page.table(heads, cells)


#: What README says first: the best of 8 and of 4 bits, and what differs from them in one choice.
EIGHT, FOUR = "aps:e2m5finite,rule=tight,unit=32", "nvfp4:rounding=ties_to_even,rht=false"
POWERS = "aps:e2m1fn,rule=tight,unit=16"  # a ring can add its codes
INTEGERS, MXFP4 = "mx:block_format=mxint8", "mx:block_format=mxfp4"
WIDER = ("e4m3fn", "e3m4", "e2m5finite")


def answer() -> list[str]:
    """Which reduction, format and scale: each factor with what else differs."""
    layer = {f: canonical(f"aps:{f},rule=tight") for f in WIDER}
    fine = {f: canonical(f"aps:{f},rule=tight,unit=32") for f in WIDER}
    found = errors(
        TRACES,
        [*layer.values(), *fine.values(), FOUR, POWERS, INTEGERS, "mx", MXFP4, "nvfp4",
         *(spec + room for spec in (layer["e4m3fn"], EIGHT, POWERS) for room in ROOMS.values())],
        topology=list(PARTS),
    )  # fmt: skip

    def at(spec: str, reduction: str = "two_phase", column: str = RANKS) -> pd.Series:
        rows = found.xs((canonical(spec), reduction), level=("scheme", "topology"))
        return rows[column][list(TRACES)]

    def parts(of: pd.Series) -> tuple[str, str]:
        return span(of.drop("digits_w64")), figure(of["digits_w64"], 2)

    def gain(spec: str) -> str:
        few, many = parts(at(spec, "ring") / at(spec))
        return f"{few} times ({many} with 64 workers)"

    def best_room(spec: str) -> str:
        rings = [at(spec + room, "ring") for room in ROOMS.values()]
        return "{} ({})".format(*parts(pd.concat(rings, axis=1).min(axis=1) / at(spec)))

    def of_sums(spec: str) -> str:
        return span(at(spec, "ring") / at(spec, "fp32_accumulate"))

    def sent(spec: str) -> str:
        return f"{at(spec, column='volume')[TRACES[-1]]:.3f}"

    scale = {f: at(layer[f]) / at(fine[f]) for f in WIDER}
    noise = {spec: span(at(spec, column="error_over_noise")) for spec in (EIGHT, FOUR)}
    return [
        "1. **Which reduction**: two phases (every worker rounds once under a scale of its own, "
        "the owner of a shard adds in fp32 and rounds the sum once), not a ring, in which all "
        "workers share a scale that leaves room for their sum, and every partial sum is rounded. "
        "In the same format, for the same bytes but for those of scales, the error is smaller by "
        f"{gain(layer['e4m3fn'])} with `e4m3fn` and a scale for a layer, {gain(EIGHT)} with the 8 "
        f"bits of item 2, {gain(POWERS)} with the powers of two of item 3. Sums in fp32 under the "
        f"ring's scale alone gain {of_sums(layer['e4m3fn'])}, {of_sums(EIGHT)} and "
        f"{of_sums(POWERS)} times: with two exponent bits the room matters. With room for √W "
        "workers or one, and sums that saturate, the best of the three rings still errs "
        f"{best_room(layer['e4m3fn'])}, {best_room(EIGHT)} and {best_room(POWERS)} times as much.",
        f"2. **8 bits**: `{EIGHT}`, a sign, 2 exponent and 5 mantissa bits, no code for infinity "
        "or NaN, and one power of two for 32 elements, the largest that fits (`tight`): an NMSE of "
        f"{span(at(EIGHT))}. At the same bytes MXINT8 has {span(at(INTEGERS) / at(EIGHT))} times "
        f"as much, MXFP8 (E4M3) {span(at('mx') / at(EIGHT))} times.",
        f"3. **4 bits**: `{FOUR}`, NVFP4 (E2M1, an E4M3 scale for 16 elements) without its "
        f"recipe's rotation and stochastic rounding: {span(at(FOUR))}. By its recipe NVFP4 has "
        f"{span(at('nvfp4') / at(FOUR))} times as much, E2M1 with a power of two for 16 "
        f"(`{POWERS}`) {span(at(POWERS) / at(FOUR))} times, MXFP4, which has one for 32 and "
        f"{sent(MXFP4)} of fp32's bytes instead of {sent(FOUR)} on `{TRACES[-1]}`, {span(at(MXFP4) / at(FOUR))} times. "
        "Each message has NVFP4's fp32 scale: with 64 workers, whose shards of a small net have few "
        f"elements, it takes {at(FOUR, column='volume')['digits_w64']:.2f} of fp32's bytes, and "
        f"`{POWERS}`, {at(POWERS, column='volume')['digits_w64']:.2f}, is the best of 4 bits.",
        "4. **Which scale**: at 8 bits one for 32 elements instead of one for a layer divides the "
        f"error by {span(scale['e2m5finite'])} with `e2m5finite`, {span(scale['e3m4'])} with "
        f"`e3m4`, {span(scale['e4m3fn'])} with `e4m3fn`.",
        "5. **When none matters**: where the error is far below the noise that the gradient has "
        f"from its batch. Of that noise, in the typical block, it is {noise[EIGHT]} with these 8 "
        f"bits, {noise[FOUR]} with these 4.",
    ]


SECTIONS = {
    "reductions": reductions, "rooms": rooms, "workers": workers, "blocks": blocks, "units": units,
    "levels": levels, "channels": channels,
}  # fmt: skip
