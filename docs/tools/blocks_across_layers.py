"""The tables of docs/blocks_across_layers.md.

    python -m docs.tools.blocks_across_layers docs/blocks_across_layers.md /tmp/resnet18

writes those of ResNet-18. They need the whole trace that notebooks/record/record_resnet.py records,
because blocks of a bucket go over all elements; its replay takes some minutes.
"""

from functools import cache
from pathlib import Path

import pandas as pd

import apscope

from . import page
from .page import DATA

TRACES = ("characters", "digits")  # bundled and whole
STEPS = [10, 15, 394, 399]  # of ResNet-18
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


@cache
def opened(trace: str) -> apscope.Trace:
    return apscope.open_trace(DATA / trace)  # a path of its own stays


@cache
def replayed(trace: str) -> apscope.Results:
    """`trace` is a bundled trace's name, or the path of ResNet-18."""
    specs = [spec + end for spec in SCHEMES.values() for end in ("", BUCKET)]
    exempt = [EXEMPT.format(spec + BUCKET) for spec in SCHEMES.values()]
    steps = None if trace in TRACES else STEPS
    return apscope.replay(opened(trace), specs + exempt, topology="two_phase", steps=steps)


def sizes(trace: str) -> dict[str, int]:
    return {tensor.name: tensor.size for tensor in opened(trace).manifest.tensors}


@cache
def layers(trace: str, spec: str) -> pd.DataFrame:
    """By layer: the error over the noise with blocks of the tensor and of the bucket, the factor."""
    found = replayed(trace).compare(spec + BUCKET, spec)
    found = found[found["layer"] != "all"].set_index("layer")
    errors = pd.DataFrame(
        {"bucket": found["error_over_noise_a"], "tensor": found["error_over_noise_b"]}
    )
    errors["factor"] = errors["bucket"] / errors["tensor"]
    return errors.sort_values("factor", ascending=False, kind="stable")


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
            errors = (f"{row['tensor']:.2g}", f"{row['bucket']:.2g}", f"{row['factor']:.3g}")
            cells.append((name, f"`{layer}`", f"{count[layer]:,}", *errors))
    heads = ["scheme", "layer", "elements", "blocks of the tensor", "blocks of the bucket"]
    return page.table([*heads, "times"], cells)


def exempted(*traces: str) -> list[str]:
    cells = []
    for trace in traces:
        count = sizes(trace)
        share = sum(count[name] for name in exempt(trace)) / sum(count.values())
        for name, spec in SCHEMES.items():
            factor, after = layers(trace, spec)["factor"], left(trace, spec)
            losses = [
                cell for of in (factor, after) for cell in ((of > LOSES).sum(), f"{of.max():.3g}")
            ]
            cells.append((opened(trace).name, f"{100 * share:.2g} %", name, *losses))
    heads = ["trace", "norms and biases", "scheme", "layers that lose", "the worst, times"]
    return page.table([*heads, "with norms and biases exempt", "the worst, times"], cells)


#: Of the bundled traces: name -> what makes its lines.
SECTIONS = {
    **{trace: (lambda trace=trace: worst(trace)) for trace in TRACES},
    "exempt": lambda: exempted(*TRACES),
}

if __name__ == "__main__":
    parser = page.options(__doc__)
    parser.add_argument("trace", type=Path, help="the whole trace of ResNet-18")
    args = parser.parse_args()
    whole = str(args.trace.resolve())
    page.write(args.page, {"resnet18": worst(whole), "resnet18 exempt": exempted(whole)})
