"""`apscope.plan`: the path that the code takes, and words that say why it is exact."""

import pytest

import apscope


@pytest.mark.parametrize(
    ("operation", "format", "words", "path", "storage"),
    [
        ("quantize", "e4m3", {}, "addition", "float32"),
        ("encode", "fp16", {}, "addition", "float32"),
        # Its exponents reach fp32's: no room for the constant.
        ("quantize", "bf16", {}, "split", "float32"),
        ("quantize", "hfp8_forward", {}, "rule", "float32"),  # irregular gap
        ("quantize", "e4m3", {"rounding": "ties_to_away"}, "addition", "float32"),
        ("quantize", "e4m3", {"rounding": "stochastic"}, "scaled", "float32"),
        # fp32's subnormal numbers have digits to draw for.
        ("quantize", "bf16", {"rounding": "stochastic"}, "split", "float32"),
        ("quantize", "e6m21", {"rounding": "toward_zero"}, "addition", "float32"),
        # No bit is left beside the constant.
        ("quantize", "e6m22", {"rounding": "toward_zero"}, "split", "float32"),
        (
            "quantize",
            "e4m3",
            {"rounding": "stochastic", "random_bits": 33},
            "stochastic",
            "float32",
        ),
        ("quantize", "e4m3", {"underflow": "flush_result"}, "rule", "float32"),
        ("quantize", "e4m3", {"keep_payload": True}, "rule", "float32"),
        ("quantize", "e4m3", {"dtype": "float64"}, "addition", "float64"),
        ("quantize", "fp64", {}, "rule", "float64"),  # nothing is left of the sum's 53 bits
        ("quantize", "e11m4", {}, "rule", "float64"),
        ("quantize", "e4m3", {"rounding": "stochastic_c"}, "stochastic", "float32"),
        ("quantize", "e4m3", {"rounding": "stochastic_exact"}, "digits", "float32"),
        ("multiply", "bf16", {}, "fp32", "float32"),
        # fp32 rounds products of its subnormal numbers twice.
        ("multiply", "tf32", {}, "exact", "float32"),
        ("multiply", "bf16", {"rounding": "stochastic", "random_bits": 64}, "exact", "float32"),
        ("add", "fp32", {}, "fp32", "float32"),
        ("add", "e6m21", {}, "fp32", "float32"),
        ("add", "e6m22", {}, "odd", "float32"),  # 23 + 2 bits are more than fp32's
        ("add", "e4m3", {"rounding": "toward_zero"}, "odd", "float32"),
        ("fma", "e4m3", {}, "odd", "float32"),
        ("matmul", "fp16", {"product": "e4m3", "operands": "e4m3"}, "fp32", "float32"),
        ("matmul", "fp16", {"product": "e4m3"}, "fp64", "float32"),
        # 8 bits, multiples of 2^-18: fp16 numbers but for their size.
        ("matmul", "fp16", {"operands": "e4m3"}, "fp32", "float32"),
        # These reach below fp16's quantum.
        ("matmul", "fp16", {"operands": "e5m2"}, "fp64_odd", "float32"),
        ("matmul", "fp32", {"operands": "e5m2"}, "fp32", "float32"),
        (
            "dot",
            "bf16",
            {"product": "bf16", "operands": "bf16", "order": "kahan"},
            "fp32",
            "float32",
        ),
        ("dot", "tf32", {"product": "tf32", "operands": "tf32"}, "fp64", "float32"),
        ("matmul", "fp16", {"operands": "e4m3", "rounding": "to_odd"}, "fp64", "float32"),
        ("matmul", "fp16", {"rounding": "to_odd"}, "fp64_odd", "float32"),
        ("sum", "fp32", {}, "fp32", "float32"),
        ("sum", "e4m3", {}, "fp64_odd", "float32"),
        ("sum", "e4m3", {"accumulate": "fp32"}, "fp32", "float32"),
        ("sum", "e4m3", {"order": "exact"}, "general", "float32"),
        ("sum", "e4m3", {"rounding": "stochastic"}, "general", "float32"),
        ("sum", "e4m3", {"dtype": "float64"}, "general", "float32"),
        ("sum", "fp64", {}, "general", "float64"),
        # 4 + 47 + 2 bits are fp64's 53.
        ("add", "e4m3", {"rounding": "stochastic", "random_bits": 47}, "odd", "float32"),
        ("add", "e4m3", {"rounding": "stochastic", "random_bits": 48}, "wide", "float32"),
        ("add", "hfp8_forward", {"rounding": "stochastic", "random_bits": 45}, "odd", "float32"),
        ("add", "hfp8_forward", {"rounding": "stochastic", "random_bits": 46}, "wide", "float32"),
        ("multiply", "e4m3", {"dtype": "float64"}, "wide", "float32"),
        ("fma", "fp64", {}, "wide", "float64"),
    ],
)
def test_the_path_of(operation, format, words, path, storage):
    found = apscope.plan(operation, format, **words)
    assert (found.path, found.storage) == (path, storage)
    assert found.simd == apscope._core.simd_level() and found.how and found.reason
    assert (
        str(found).startswith(f"{operation} to {found.format}")
        and len(str(found).splitlines()) == 2
    )


@pytest.mark.parametrize(
    ("arguments", "words", "sentence"),
    [
        (("round", "e4m3"), {}, "unknown operation 'round'"),
        (("quantize", "e4m3"), {"dtype": "float16"}, "dtype=float16 is neither"),
        (("sum", "e4m3"), {"order": "any"}, "unknown order 'any'"),
        (("add", "e4m3"), {"rounding": "stochastic_exact"}, "is only for quantize and encode"),
        (("quantize", "e4m3"), {"rounding": "up"}, "unknown rounding 'up'"),
        (
            ("quantize", "e0m3finite"),
            {"underflow": "flush_input"},
            "needs a format with normal numbers",
        ),
    ],
)
def test_what_has_no_plan(arguments, words, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        apscope.plan(*arguments, **words)
    assert "\n" not in str(caught.value)
