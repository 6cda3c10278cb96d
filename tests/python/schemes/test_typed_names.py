"""What people type for a scheme, a format, a key or a value: accepted, or answered by the right
spelling, which itself is accepted."""

import re

import pytest

import apscope
from apscope import BlockFormat, FloatFormat, schemes
from apscope._core import named_block_formats, parse_scheme
from apscope.schemes import Scheme

#: Spelling -> the canonical spec that it is.
ACCEPTED_SCHEMES = {
    "mx-fp4": "mx:block_format=mxfp4",
    "mxfp4_e2m1": "mx:block_format=mxfp4",
    "mxfp8e4m3": "mx",
    "MXFP6-E2M3": "mx:block_format=mxfp6_e2m3",
    "MX": "mx",
    "nv_fp4": "nvfp4",
    "bfp:4:32": "mx:block_format=bfp:4:32",
    "BFP:8:16": "mx:block_format=bfp:8:16",
    "blocks:e3m0/block=16": "mx:block_format=blocks:e3m0/block=16",
    "mx:mxfp4": "mx:block_format=mxfp4",
    "mx:MXFP4": "mx:block_format=mxfp4",
    "mx:mxfp6_e3m2": "mx:block_format=mxfp6_e3m2",
    "mx:bfp:4:32": "mx:block_format=bfp:4:32",
    "mx:blocks:e3m0/block=16": "mx:block_format=blocks:e3m0/block=16",
    "mx:mxfp4,along=row": "mx:block_format=mxfp4,along=row",
    "mx:block_format=MXFP4": "mx:block_format=mxfp4",
    "mx:block_format=MxInt8": "mx:block_format=mxint8",
    "mxfp4,along=row": "mx:block_format=mxfp4,along=row",
    "ef(sign)": "error_feedback(sign)",
    "EF(top_k)": "error_feedback(top_k)",
    "ef(mxfp4)": "error_feedback(mx:block_format=mxfp4)",
    "ErrorFeedback(sign)": "error_feedback(sign)",
    "error-feedback(aps:E5M2)": "error_feedback(aps:e5m2)",
    "ef(topk)": "error_feedback(top_k)",
    "ef_signsgd": "error_feedback(sign)",
    "EF-signSGD,decay=0.9": "error_feedback(sign),decay=0.9",
    "majority_vote": "sign_vote",
    "SignVote": "sign_vote",
    "1bit_adam": "onebit_adam",
    "1-bit-adam": "onebit_adam",
    "OneBitAdam": "onebit_adam",
    "topk": "top_k",
    "TopK": "top_k",
    "top-k:keep=0.1": "top_k:keep=0.1",
    "randk": "random_k",
    "randomk": "random_k",
    "PowerSGD": "powersgd",
    "power_sgd:rank=4": "powersgd:rank=4",
    "QSGD": "qsgd",
    "q-sgd:levels=127": "qsgd:levels=127",
    "TernGrad": "terngrad",
    "THC": "thc",
    "natural_compression": "natural",
    "APS:e3m4": "aps:e3m4",
    "Aps:bfloat16": "aps:bf16",
    "aps:BF16": "aps:bf16",
    "aps:E4M3FN": "aps:e4m3fn",
    "aps:E3M4": "aps:e3m4",
    "aps:fp8_e5m2": "aps:e5m2",
    "aps:fp8e5m2": "aps:e5m2",
    "aps:float8_e4m3fn": "aps:e4m3fn",
    "aps:fp4_e2m1": "aps:e2m1fn",
    "aps:e3m4,unit=per_tensor": "aps:e3m4",
    "aps:e3m4,unit=per_row": "aps:e3m4,unit=row",
    "aps:e4m3,accumulate=BF16": "aps:e4m3,accumulate=bf16",
    "aps:e4m3,accumulate=bfloat16": "aps:e4m3,accumulate=bf16",
    "hfp8:e5m2,accumulate=DLFloat16": "hfp8:e5m2",
    "LossScaling:e5m2": "loss_scaling:e5m2",
    "loss-scaling:e5m2": "loss_scaling:e5m2",
    "DynamicLossScaling:fp16": "dynamic_loss_scaling:fp16",
    "Unscaled:fp16": "none:fp16",
    "None:fp32": "none:fp32",
    "FP8AllReduce:e4m3fn": "fp8_allreduce:e4m3fn",
    "fp8-two-shot:e4m3fn": "fp8_two_shot:e4m3fn",
    "IntegerAllReduce:bits=8": "integer_allreduce:bits=8",
    "hybrid(last=None:FP16;else=mxfp4)": "hybrid(last=none:fp16;else=mx:block_format=mxfp4)",
    "aps:e4m3,rounding=Stochastic": "aps:e4m3,rounding=stochastic",
}

#: Spelling -> what the refusal says; every spec in it must be accepted.
REFUSED_SCHEMES = {
    # Formats.
    "bf16": "bf16 is a format: none:bf16 rounds to it, aps:bf16 scales",
    "BF16": "none:bf16",
    "bfloat16": "none:bf16",
    "fp16": "none:fp16",
    "half": "none:fp16",
    "float16": "none:fp16",
    "fp32": "none:fp32 sends gradients as they are",
    "fp64": "a scheme works on fp32 numbers, and none:fp32 sends",
    "double": "none:fp32",
    "float32": "none:fp32",
    "tf32": "none:tf32",
    "e4m3fn": "none:e4m3fn rounds to it, aps:e4m3fn",
    "e4m3": "none:e4m3",
    "e5m2": "none:e5m2",
    "e3m4": "aps:e3m4",
    "E5M2": "aps:e5m2",
    "e2m1fn": "aps:e2m1fn",
    "e3m0": "aps:e3m0",
    "e2m5": "aps:e2m5",
    "float8_e5m2": "none:e5m2",
    "fp8_e5m2": "none:e5m2",
    "binary8p3se": "none:binary8p3se",
    "fp8": "none:e4m3fn or none:e5m2",
    "FP8": "aps:e4m3fn or aps:e5m2",
    "float8": "none:e5m2",
    "fp6": "none:e3m2fn or none:e2m3fn",
    "fp4": "none:e2m1fn",
    "FP4": "none:e2m1fn",
    "fp8_e4m3": "none:e4m3fn or none:e4m3",
    "fp8e4m3:x": "none:e4m3fn or none:e4m3",
    # Integers and bits.
    "int8": "integer_allreduce:bits=8, mx:block_format=mxint8 and qsgd:levels=127",
    "INT8": "integer_allreduce:bits=8",
    "uint8": "integer_allreduce:bits=8",
    "i8": "integer_allreduce:bits=8",
    "int8_t": "integer_allreduce:bits=8",
    "int4": "integer_allreduce:bits=4, mx:block_format=blocks:int4 and qsgd:levels=7",
    "int2": "integer_allreduce:bits=2",
    "int16": "integer_allreduce:bits=16",
    "int1": "sign_vote",
    "8bit": "integer_allreduce:bits=8",
    "8-bit": "aps:e3m4",
    "4bit": "nvfp4",
    "2bit": "terngrad",
    "1bit": "sign (a scale per worker), sign_vote",
    "onebit": "onebit_adam",
    "signsgd": "sign_vote",
    "SignSGD": "error_feedback(sign)",
    "signum": "sign_vote:momentum=0.9",
    "1bit_sgd": "error_feedback(sign)",
    "0/1 adam": "onebit_adam",
    "zero_one_adam": "onebit_adam",
    "binary": "sign",
    "ternary": "terngrad",
    # Block formats with several members, and neighbours of them.
    "mxfp8": "mx:block_format=mxfp8_e4m3 or mx:block_format=mxfp8_e5m2",
    "MXFP8": "mx:block_format=mxfp8_e5m2",
    "mxfp6": "mx:block_format=mxfp6_e3m2",
    "mx6": "mx:block_format=mxfp6_e3m2",
    "nf4": "nvfp4",
    "msfp": "mx:block_format=bfp:8:32",
    "block_floating_point": "mx:block_format=bfp:8:32",
    "mx:mxfp8": "mxfp8_e4m3 or mxfp8_e5m2",
    "mx:fp8": "mxfp8_e4m3 or mxfp8_e5m2",
    "mx:fp4": "mxfp4 or nvfp4",
    "mx:e4m3fn": "mxfp8_e4m3",
    "mx:int8": "mxint8",
    "mx:int4": "blocks:int4",
    "mx:block_format=mxfp6": "mxfp6_e3m2 or mxfp6_e2m3",
    "mx:nvfp4": "see nvfp4",
    # Systems and ideas.
    "dgc": "error_feedback(top_k)",
    "sparse": "top_k",
    "low_rank": "powersgd:rank=2",
    "fft": "fft_sparse",
    "hadamard": "thc",
    "gradscaler": "dynamic_loss_scaling:fp16",
    "GradScaler": "dynamic_loss_scaling:fp16",
    "amp": "dynamic_loss_scaling:fp16",
    "loss_scale": "dynamic_loss_scaling:fp16",
    "deepspeed": "deepspeed_loss_scaling:fp16",
    "logmax": "logmax_loss_scaling:fp16",
    "OpenSeq2Seq": "min_scale=1,max_scale=16384",
    "transformer_engine": "delayed_scaling:e4m3fn",
    "te": "current_scaling:e4m3fn",
    "absmax": "current_scaling:e4m3fn",
    "per_tensor": "aps:e4m3fn",
    "layer": "aps:e4m3fn",
    "dynamic": "dynamic_loss_scaling:fp16",
    "blockwise": "aps:e4m3fn,unit=32",
    "per_row": "aps:e4m3fn,unit=row",
    "stochastic_rounding": "aps:e4m3fn,rounding=stochastic",
    "cast": "none:e4m3fn",
    "identity": "none:fp32",
    "baseline": "none:fp32",
    "ring": "--topology ring",
    "two_phase": "--topology",
    "tree:e4m3": "--topology",
    "aps-e4m3": "aps:e4m3",
    "asp:e4m3": "did you mean aps?",
    # What stands in a format's place.
    "aps:int8": "integer_allreduce:bits=8",
    "none:int8": "integer_allreduce:bits=8",
    "aps:int4": "integer_allreduce:bits=4",
    "aps:mxfp4": "mx:block_format=mxfp4",
    "none:mxfp4": "mx:block_format=mxfp4",
    "none:MXINT8": "mx:block_format=mxint8",
    "aps:nvfp4": "nvfp4",
    "aps:mxfp8": "mx:block_format=mxfp8_e4m3",
    "aps:bfp:4:32": "mx:block_format=bfp:4:32",
    "aps:8bit": "aps:e3m4,rule=tight",
    "aps:nf4": "nvfp4",
    "aps:fp8": "several meanings: e4m3fn, e5m2",
    "aps:FP8": "several meanings: e4m3fn, e5m2",
    "aps:E4M3": "several meanings: e4m3fn (OCP, largest 448) and e4m3 (IEEE rules, largest 240)",
    "aps:E2M1": "several meanings: e2m1fn (OCP, largest 6)",
    "aps:fp4": "several meanings: e2m1fn",
    "aps:fp6": "several meanings: e3m2fn and e2m3fn",
    "aps:e3m4fnn": "did you mean e3m4fn",
    # Keys, and values without a key.
    "aps:e4m3,block=32": "did you mean unit=32?",
    "aps:e4m3,block_size=32": "did you mean unit=32?",
    "aps:e4m3,group=64": "did you mean unit=64?",
    "aps:e4m3,granularity=row": "did you mean unit=row?",
    "mx:unit=16": "did you mean block=16?",
    "mx:group_size=16": "did you mean block=16?",
    "current_scaling:e4m3fn,unit=128": "did you mean block=128?",
    "fp8_two_shot:e4m3fn,block=256": "did you mean group=256?",
    "integer_allreduce:block=64": "did you mean chunk=64?",
    "aps:e4m3,round=stochastic": "did you mean rounding=stochastic?",
    "aps:e4m3,sr=true": "did you mean rounding=stochastic?",
    "aps:e4m3,saturate=true": "did you mean overflow=saturate?",
    "aps:e4m3,acc=fp32": "did you mean accumulate=fp32?",
    "top_k:ratio=0.01": "did you mean keep=0.01?",
    "powersgd:r=4": "did you mean rank=4?",
    "thc:nbits=4": "did you mean bits=4?",
    "mx:format=mxfp4": "did you mean block_format=mxfp4?",
    "loss_scaling:e5m2,loss_scale=1024": "did you mean scale=1024?",
    "aps:e4m3,tight": "did you mean rule=tight?",
    "aps:e4m3,stochastic": "did you mean rounding=stochastic?",
    "aps:e4m3,row": "did you mean unit=row?",
    "aps:e4m3,saturate": "did you mean overflow=saturate?",
    "integer_allreduce:8": "did you mean bits=8?",
    "powersgd:4": "did you mean rank=4?",
    "top_k:0.01": "did you mean keep=0.01?",
    "sign:e4m3": "its keys are scale",
    # Units.
    "aps:e4m3,unit=layer": "a layer is unit=tensor",
    "aps:e4m3,unit=per_layer": "a layer is unit=tensor",
    "aps:e4m3,unit=parameter": "a parameter is unit=tensor",
    "aps:e4m3,unit=channel": "unit=row",
    "aps:e4m3,unit=per_channel": "unit=row",
    "aps:e4m3,unit=global": "unit=model",
    "aps:e4m3,unit=network": "unit=model",
    "aps:e4m3,unit=block": "unit=32",
    "aps:e4m3,unit=group": "unit=32",
    "aps:e4m3,unit=bucket": "unit=bucket:25MB",
    "aps:e4m3,unit=element": "unit=1",
}

#: Format -> canonical name.
ACCEPTED_FORMATS = {
    "BF16": "bf16", "Bfloat16": "bf16", "bf-16": "bf16", "bfloat": "bf16", "FP16": "fp16",
    "Float16": "fp16", "f16": "fp16", "HALF": "fp16", "FP32": "fp32", "f32": "fp32",
    "FP64": "fp64", "f64": "fp64", "TF32": "tf32", "TensorFloat-32": "tf32", "E5M2": "e5m2",
    "fp8e5m2": "e5m2", "FP8_E5M2": "e5m2", "E4M3FN": "e4m3fn", "FP8-E4M3FN": "e4m3fn",
    "float8e4m3fn": "e4m3fn", "E4M3FNUZ": "e4m3fnuz", "fp8_e4m3fnuz": "e4m3fnuz",
    "fp6_e3m2": "e3m2fn", "FP6_E2M3": "e2m3fn", "fp4_e2m1": "e2m1fn", "FP4_E2M1": "e2m1fn",
    "ue8m0": "e8m0fnu", "E8M0": "e8m0fnu", "E3M4": "e3m4", "E2M5": "e2m5", "DLFloat16": "dlfloat16",
}  # fmt: skip

REFUSED_FORMATS = {
    "FP8": "e4m3fn, e5m2", "Float8": "e4m3fn, e5m2", "minifloat": "e4m3fn, e5m2",
    "E4M3": "e4m3fn (OCP, largest 448)", "FP8_E4M3": "e4m3 (IEEE rules, largest 240)",
    "E2M1": "e2m1fn (OCP, largest 6)", "E3M2": "e3m2fn (OCP, largest 28)",
    "E2M3": "e2m3fn (OCP, largest 7.5)", "FP6": "e3m2fn and e2m3fn", "FP4": "e2m1fn (OCP)",
    "float": "fp32 (C, torch) and fp64 (Python, NumPy)", "16bit": "bf16 and fp16",
    "int8": "an integer, not a float; mxint8", "INT4": "blocks:int4", "uint8": "mxint8",
    "mxfp4": "block format", "MXFP4": "block format", "nvfp4": "block format",
    "nf4": "e2m1fn is a float of 4 bits", "mx6": "mxfp6_e3m2", "bfp": "bfp:8:32",
    "posit8": "a posit", "mxfp8": "mxfp8_e4m3 or mxfp8_e5m2", "MXFP6": "mxfp6_e3m2 or mxfp6_e2m3",
}  # fmt: skip


def refusal(call, word):
    with pytest.raises(ValueError) as caught:
        call(word)
    sentence = str(caught.value)
    assert "\n" not in sentence and len(sentence) < 400
    return sentence


@pytest.mark.parametrize(("word", "spec"), ACCEPTED_SCHEMES.items())
def test_another_spelling_is_its_scheme(word, spec):
    assert Scheme(word).spec == spec == Scheme(spec).spec


@pytest.mark.parametrize(("word", "said"), REFUSED_SCHEMES.items())
def test_a_word_for_a_scheme_is_answered_by_the_right_spelling(word, said):
    sentence = refusal(Scheme, word)
    assert any(part in sentence for part in said.split("|")), sentence
    names = {d.name for d in schemes.definitions()}
    answer = sentence.partition("; ")[2]
    offered = re.findall(r"(?<![\w=])[a-z][\w-]*(?:\([\w:]+\))?(?::[\w=,.:-]*\w)?", answer)
    for spec in offered:
        # FORMAT stands for a format, and a scheme that needs one is also named without it.
        if (
            re.split(r"[:(]", spec)[0] in names
            and re.search(r"[:(]", spec)
            and "FORMAT" not in spec
        ):
            assert parse_scheme(spec)["spec"]


@pytest.mark.parametrize(
    ("word", "said"),
    [(w, s) for w, s in REFUSED_SCHEMES.items() if s.startswith("did you mean ") and "=" in s]
    + [(w, s) for w, s in REFUSED_SCHEMES.items() if ",unit=" in w and "did" not in s],
)
def test_the_key_that_is_offered_is_accepted_in_its_place(word, said):
    before, between, _ = re.fullmatch(r"(.*)([,:])(.*)", word).groups()
    setting = re.search(r"\w+=[\w.:]*\w", said)[0]
    key, _, value = setting.partition("=")
    assert Scheme(f"{before}{between}{setting}").keys[key] == value


@pytest.mark.parametrize(
    "word", ["mxfp8", "mxfp6", "fp8", "fp6", "fp4", "e4m3fn", "int8", "int4", "int6", "bfp", "nvfp"]
)
def test_the_block_formats_that_are_offered_are_accepted(word):
    offered = re.search(r"did you mean (.*)\?$", refusal(BlockFormat, word))[1]
    names = re.split(r", | or ", re.sub(r" \(.*\)", "", offered))
    assert all(BlockFormat(name).bits_per_element > 0 for name in names)


@pytest.mark.parametrize(("word", "name"), ACCEPTED_FORMATS.items())
def test_another_spelling_is_its_format(word, name):
    assert FloatFormat(word).name == name and FloatFormat(word) == FloatFormat(name)
    assert apscope.quantize(1.0, word) == apscope.quantize(1.0, name)


@pytest.mark.parametrize(("word", "said"), REFUSED_FORMATS.items())
def test_a_word_for_a_format_is_answered_by_the_right_spelling(word, said):
    assert said in refusal(FloatFormat, word)


def test_every_block_format_is_a_scheme_by_its_name():
    for row in named_block_formats():
        name = row["name"]
        wanted = name if name == "nvfp4" else Scheme(f"mx:block_format={name}").spec
        assert Scheme(name).spec == Scheme(name.upper()).spec == wanted


def test_block_formats_take_either_separator():
    one = BlockFormat("blocks:e3m0,block=16")
    assert BlockFormat("blocks:e3m0/block=16") == one and one.name == "blocks:e3m0,block=16"
    assert BlockFormat("MXFP4") == BlockFormat("mxfp4")
    for word, meant in {"mxfp8": "mxfp8_e4m3 or mxfp8_e5m2", "fp4": "mxfp4 or nvfp4"}.items():
        assert f"did you mean {meant}?" in refusal(BlockFormat, word)


def test_a_class_takes_its_block_format_first():
    named = schemes.MX(block_format="mxfp4", along="row")
    assert schemes.MX("mxfp4", along="row") == named
    assert schemes.MX(BlockFormat("mxfp4"), along="row") == named
    odd = BlockFormat("blocks:e3m0,block=16")
    assert schemes.MX(odd).spec == schemes.MX("blocks:e3m0,block=16").spec
    assert schemes.MX(odd).spec == "mx:block_format=blocks:e3m0/block=16"
    assert schemes.MX().spec == "mx"
    with pytest.raises(ValueError, match="did you mean mxfp8_e4m3 or mxfp8_e5m2"):
        schemes.MX("mxfp8")
    with pytest.raises(TypeError, match="MX takes its block_format"):
        schemes.MX("mxfp4", "row")
