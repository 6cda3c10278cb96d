"""Terms of the page, in the order in which they appear. Formulas: docs/definitions.md."""

from .._core import topologies
from ..cost import Network

#: Topologies that do not round every sum to the format.
_WIDE = ("fp32_accumulate", "pat", "nccl:symmetric", "nccl:nvls")
_PHASED = ("two_phase", "reduce_scatter")

WORDS = {
    "step NMSE": "the ranking figure: the mean over the steps of the step's NMSE, sum of (y - x)² "
    "over sum of x², all layers of the step together; 1 if the scheme skipped the "
    "step, at least 1 if something overflowed",
    "pooled NMSE": "the same sums over all layers and all steps at once; the largest gradients "
    "dominate it, so it never ranks",
    "layer cosine": "mean over layers and steps of the cosine between the true and the received "
    "gradient; 0 for a skipped step",
    "worst layer": "the layer and step with the largest error over noise, or with the largest NMSE "
    "if the noise is unknown; in the table of all schemes always with the largest NMSE",
    "layer-step": "one layer at one step",
    "error over noise": "squared error over the variance of the gradient from the batch, in the "
    "typical block of 32 elements; unbiased, 0.1 of it costs as much as 9 % fewer samples per "
    "step; in training runs of eight small tasks it predicted the order of the losses among "
    "schemes that round to nearest, not across other roundings",
    "charts of the first screen": "a bar changes one choice of the scheme above it, on a "
    "logarithmic scale; room for √W: a scale that leaves room for the sum of √W of the W workers, "
    "and larger sums saturate; a dashed staircase is the front of rounded sums; boxes mark the worst "
    "layers; gaps are missing steps",
    "underflow": "share of nonzero values that became 0: on the wire, of what each worker sends; "
    "reduced, of the sums that should not be 0",
    "relative bias": "sum of sign(x)(y - x) over sum of |x|: below 0 the gradient shrinks",
    "expected variance": "mean of Var[y] over the random draws, over the mean of x²; 0 for "
    "deterministic schemes, empty if no closed form exists (`--draws K` "
    "samples it)",
    "volume": "bytes that the busiest rank sends in the whole exchange (payload, side information, "
    "both directions, the width of partial sums, all payloads of a gather; in a "
    "hierarchy between its nodes), divided by those of an fp32 ring all-reduce",
    "bits above the limit": "by how many bits a value an ideal code of two phases could be shorter "
    "at the same error over noise: 1/2 log2 of the error over Shannon's limit of the trace's own "
    "gradients; empty for reductions that send values more or less often than once each way",
    "speed-up, time": "modelled, not measured: latencies, bytes over bandwidth, passes over "
    f"memory, for 25.6 million parameters; {Network()}",
    "beaten by": "a baseline that loses no more and sends no more",
    "wire, reduced": "each worker's gradient compared with its message; the true sum or mean "
    "compared with the all-reduce's result",
    "exact": "the sent values added without rounding: the error of encoding alone. A topology's "
    "accumulation error is its error minus this one",
    "underflow, rounding, saturation, accumulation, interaction": "the parts of a squared error: "
    "the squares of the workers' "
    "errors on values that became 0, "
    "on all others and on clipped "
    "ones, of the errors of rounded "
    "additions, and twice the "
    "products of these; in two phases "
    "accumulation is the error of sums and phase 2",
    "corrected": "an error over noise with an interval: the noise of the typical block is "
    "estimated too low with few workers, and this number and its interval correct that; charts and "
    "tables have the error with the noise as estimated",
    ", ".join(
        t for t in topologies() if t not in ("exact", *_WIDE, *_PHASED) and "+" not in t
    ): "orders in which the workers' values are added, each sum rounded to the format",
    ", ".join(
        _WIDE
    ): "orders of libraries, in which some or all sums are rounded to a wider format, such as fp32",
    ", ".join(_PHASED): "the owner of a shard adds all workers' decoded messages in fp32; in two "
    "phases it encodes the sum again, with a scale of its own; a scale of a layer or finer then "
    "leaves no room for the sum, and a ratio of two phases to a ring includes that",
    "gather, vote, code_sum, own:two_phase, linear, streams, own:ring, own:butterfly": "reductions that belong to a scheme: every worker "
    "receives all codes and adds in fp32; the sign of "
    "the majority; integer codes added; the sum "
    "encoded a second time; factors added; sparse streams added; sums encoded at every hop",
    "rule=ceil, rule=tight": "the power of two with which the largest sum that is possible is at most "
    "the format's largest power of two (APS's rule), or its largest value; in a ring the largest "
    "sum is that of as many workers as there is room for",
    "update loss k": "how far the exchange turns an optimizer's update over k steps; only with "
    "`--persistence`",
    "baseline": "fp32, bf16 and fp16 without a scale",
    "level": "within 5 % of each other in step NMSE",
}
