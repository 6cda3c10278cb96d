"""Published training recipes by name, with their sources and their parts that are only recalled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..._core import FloatFormat
from .recipe import Recipe
from .specs import Cast, LossScale, Sum, Weights


def _mixed_precision() -> Recipe:
    half = Cast("fp16", overflow="ieee")
    return Recipe(
        input=half, weight=half, grad_output=half, output=half, grad_input=half, grad_weight=half,
        loss_scale=LossScale(2.0**16, interval=2000),
        about="P. Micikevicius et al., Mixed Precision Training, arXiv:1710.03740. fp16 operands "
              "and results, sums in fp32, fp32 weights between steps (the master copy), a dynamic "
              "loss scale by the rule of torch.amp.GradScaler. Recalled: that norms and the loss "
              "are left in fp32.",
    )  # fmt: skip


def _fp8(gradients: str, weights: str, about: str) -> Recipe:
    """e5m2 in all six tensors, through fp16; `gradients` and `weights` are roundings."""
    there = Cast("e5m2", overflow="ieee", through="fp16")
    back = replace(there, rounding=gradients, random_bits=8)
    update = Weights("fp16", weights)
    ends = Recipe(weight_update=update)
    return Recipe(
        input=there, weight=there, output=there, grad_output=back, grad_input=back,
        grad_weight=back, weight_update=update, loss_scale=LossScale(2.0**16, interval=2000),
        where={"first": ends, "last": ends}, about=about,
    )  # fmt: skip


def _fp8_training() -> Recipe:
    return _fp8(
        "stochastic_normal", "stochastic_normal",
        "N. Mellempudi, S. Srinivasan, D. Das, B. Kaul, Mixed Precision Training With 8-bit "
        "Floating Point, arXiv:1905.12334, as the first author's IntelLabs/FP8-Emulation-Toolkit "
        "(fcd26e9a, training method direct) emulates it. e5m2: weights, inputs and outputs of "
        "layers to nearest, the gradients of all three stochastically. fp32 numbers become fp16 "
        "first, so they are rounded twice; subnormal numbers always go to nearest; overflows are "
        "infinite. fp16 master weights, rounded stochastically after the optimizer's step; a "
        "dynamic loss scale; first and last layer fp32, as in its ResNet example. Different here: "
        "its random words, fp16 weights of norms (fp32 here) and a bias's gradient (fp32 there). "
        "The paper's minimum of the loss scale is not in it: LossScale(minimum=...).",
    )  # fmt: skip


def _fp8_training_nearest() -> Recipe:
    return _fp8(
        "ties_to_even", "nearest", "fp8_training with every rounding to nearest, for comparison."
    )


def _hfp8(forward: Cast, reading: str) -> Recipe:
    back = Cast("e5m2", overflow="ieee")
    half = Sum("e6m9", order="chunked:64")
    return Recipe(
        input=forward, weight=forward, grad_output=back, accumulate=half,
        weight_update=Weights("e6m9", "stochastic"),
        loss_scale=LossScale(2.0**10, interval=2000),
        where={"last": Recipe(
            input="e6m9", weight="e6m9", grad_output=Cast("e6m9", overflow="ieee"), accumulate=half,
            weight_update=Weights("e6m9", "stochastic"),
        )},
        about="X. Sun et al., Hybrid 8-bit Floating Point (HFP8) Training and Inference for Deep "
              "Neural Networks, NeurIPS 2019, of which the abstract was read. Forward 1-4-3 with "
              f"bias 11, {reading}; backward 1-5-2; sums in 16-bit 1-6-9, here the IEEE-like "
              "`e6m9`, which is `dlfloat16` between 2^-30 and 2^32. Recalled: chunks of 64, the "
              "range of 1-4-3, the last layer in 16 bits, the loss scale, that weights are kept "
              "in 16 bits with stochastic rounding.",
    )  # fmt: skip


def _hfp8_flush() -> Recipe:
    f = FloatFormat(exponent_bits=5, mantissa_bits=3, bias=26)  # The largest value is 30.
    return _hfp8(
        Cast(f, overflow="propagate", flush_below=2.0**-11),
        "from 2^-11 to 30, as Google's AQT has it: 16 exponents of normal numbers and a zero, so "
        "257 values; a significand of three bits is rounded first, then what is below 2^-11 "
        "becomes 0, and infinities pass",
    )


def _ibm8() -> Recipe:
    half, stored = Cast("e6m9"), Weights("e6m9", "stochastic")
    inner: dict[str, Any] = dict.fromkeys(("weight", "grad_output", "grad_weight"), "e5m2")
    inner["weight_update"] = stored
    return Recipe(
        input="e5m2", **inner, loss_scale=LossScale(1000.0, dynamic=False),
        where={
            "first": Recipe(input=half, **inner),
            "last": Recipe(input="e5m2", output=half, **inner),
        },
        about="N. Wang et al., Training Deep Neural Networks with 8-bit Floating Point Numbers, "
              "NeurIPS 2018, as QPyTorch's example IBM8 (01d353e1) has it, which is not the "
              "authors': 1-5-2 to nearest for activations, errors, weights and their gradients, "
              "1-6-9 for the images and the last layer's output, weights kept in 1-6-9 with "
              "stochastic rounding, a constant loss scale of 1000, fp32 sums. Different here: the "
              "momentum is fp32 (1-6-9 with stochastic rounding there).",
    )  # fmt: skip


def _mx(format: str, backward: str, about: str) -> Recipe:
    return Recipe(input=format, weight=format, grad_output=backward, about=about)


_OCP = (
    "OCP Microscaling Formats v1.0; arXiv:2310.10537. Blocks of 32 along each product's sum, "
    "power-of-two scales, sums in fp32; of convolutions along channels forward, along output "
    "channels and along the batch backward, as in microsoft/microxcaling. "
)


def _nvfp4() -> Recipe:
    plain, drawn = Cast("nvfp4"), Cast("nvfp4", rounding="stochastic")
    square = Cast("nvfp4", tile=(16, 16))
    return Recipe(
        input=plain, weight=square,
        uses={
            "input_gradient.grad_output": drawn,
            "weight_gradient.grad_output": Cast("nvfp4", rounding="stochastic", hadamard=True),
            "weight_gradient.input": Cast("nvfp4", hadamard=True),
        },
        where={"last": None},
        about="NVIDIA, Pretraining Large Language Models with NVFP4, arXiv:2509.25149; Transformer "
              "Engine, recipe NVFP4BlockScaling: runs of 16 for activations and gradients, 16 x 16 "
              "tiles for weights, stochastic rounding of gradients only, the 16-point Hadamard "
              "transform on both operands of the weight gradient. The paper keeps some layers in "
              "higher precision, and the choice depends on the model (here the last). To switch to "
              "a higher precision before the decay, give a schedule: {0: 'nvfp4', 900: None}.",
    )  # fmt: skip


def _te_delayed() -> Recipe:
    forward = "delayed_scaling:e4m3fn"
    return Recipe(
        input=forward, weight=forward, grad_output="delayed_scaling:e5m2",
        about="NVIDIA Transformer Engine, DelayedScaling, format HYBRID: e4m3fn forward, e5m2 "
              "backward, the scale of the largest amax of the past 1024 calls of a use. The "
              "product with the scale is exact here, an fp32 product there.",
    )  # fmt: skip


def _te_current() -> Recipe:
    forward = "current_scaling:e4m3fn"
    return Recipe(
        input=forward, weight=forward, grad_output="current_scaling:e5m2",
        about="NVIDIA Transformer Engine, Float8CurrentScaling, format HYBRID: the scale of the "
              "tensor's own amax. The product with the scale is exact here, an fp32 product there.",
    )  # fmt: skip


def _blockwise(about: str, accumulate: Sum | None = None) -> Recipe:
    run = Cast("blocks:e4m3fn,scale=e8m0,block=128,rule=rceil")
    square = Cast("blocks:e4m3fn,scale=e8m0,block=128,rule=rceil", tile=(128, 128))
    return Recipe(input=run, weight=square, grad_output=run, accumulate=accumulate, about=about)


def _te_blockwise() -> Recipe:
    return _blockwise(
        "NVIDIA Transformer Engine, Float8BlockScaling: e4m3fn, runs of 128 for activations and "
        "gradients, 128 x 128 tiles for weights, scales that are powers of two (the default "
        "there). The scale is 2^ceil(log2(amax / 448)); there it comes from an fp32 quotient, "
        "which differs where that rounds up to a power of two.",
    )


def _deepseek() -> Recipe:
    return _blockwise(
        "DeepSeek-V3 technical report, arXiv:2412.19437, recalled: e4m3fn everywhere, runs of 128 "
        "for activations and gradients, 128 x 128 tiles for weights, partial sums of 128 terms "
        "that are added up in fp32. Partial sums are fp32 here; accumulate="
        "'h100:fp8,promote=128' has those of an H100's tensor cores, for layers without "
        "convolutions. Scales are powers of two, as te_blockwise's.",
        Sum("fp32", order="chunked:128"),
    )


def _cpd() -> Recipe:
    e4m3 = "e4m3"
    return Recipe(
        accumulate=Sum(e4m3, order="kahan", product=e4m3),
        about="drcut/CPD: operands are not cast, every product and every step of Kahan's sum is, "
              "in all three products, in e4m3. apscope.train.cpd.Quant_Linear has CPD's own cast, "
              "which decides on overflow before it rounds and forgets bits of subnormal results, "
              "and CPD's gradient of a bias, an fp32 sum.",
    )  # fmt: skip


_PRESETS = {
    "mixed_precision": _mixed_precision,
    "fp8_training": _fp8_training,
    "fp8_training_nearest": _fp8_training_nearest,
    "hfp8": lambda: _hfp8(Cast("hfp8_forward"), "all exponents normal: from 1.125 2^-11 to 30"),
    "hfp8_subnormals": lambda: _hfp8(Cast("e4m3b11fnuz"), "with subnormals: from 2^-13 to 30"),
    "hfp8_flush": _hfp8_flush,
    "ibm8": _ibm8,
    "mxfp8": lambda: _mx("mxfp8_e4m3", "mxfp8_e4m3", _OCP + "MXFP8 with e4m3fn elements in all "
                                                            "three products."),
    "mxfp4": lambda: _mx("mxfp4", "mxfp4", _OCP + "MXFP4 in all three products."),
    "nvfp4": _nvfp4,
    "te_delayed": _te_delayed,
    "te_current": _te_current,
    "te_blockwise": _te_blockwise,
    "deepseek": _deepseek,
    "cpd": _cpd,
}  # fmt: skip


#: Methods that are not recipes of layers, and their names in apscope.train (docs/methods.md).
_METHODS = {
    "adaptive_loss_scaling": "AdaptiveLossScaling",
    "unit_scaling": "unit_scaling",
    "halp": "HALP",
    "zipml": "DoubleSampledLinear",
    "multipoint": "multipoint",
    "fractrain": "FracTrain",
}


def recipes() -> dict[str, Recipe]:
    """The presets that `quantize_model` takes by name.

    Returns
    -------
    dict
        Name -> recipe; its `about` names the source and the parts that are only recalled. The three
        of Transformer Engine's format HYBRID and its block scaling are ``te_delayed``,
        ``te_current`` and ``te_blockwise``; the three readings of HFP8's forward format ``hfp8``,
        ``hfp8_subnormals`` and ``hfp8_flush``. Methods that are not a choice of formats by layer (adaptive loss
        scaling, unit scaling, HALP, double sampling, multipoint weights, FracTrain) are in
        `apscope.train` under other names.
    """
    return {name: make() for name, make in _PRESETS.items()}


def preset(name: str) -> Recipe:
    """One of them.

    Raises
    ------
    ValueError
        An unknown name, or the name of a method that is not a recipe.
    """
    if name in _METHODS:
        raise ValueError(
            f"{name!r} is a method of training, not a recipe of layers; use "
            f"apscope.train.{_METHODS[name]}"
        )
    if name not in _PRESETS:
        raise ValueError(f"there is no recipe {name!r}; use one of {', '.join(_PRESETS)}")
    return _PRESETS[name]()
