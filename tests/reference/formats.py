"""Named formats as the standards and papers state them, field by field, for `rounding.py`."""

from __future__ import annotations

from .rounding import Format


def p3109(storage: int, precision: int, is_signed: bool, extended: bool) -> Format:
    """BinaryKpP{s,u}{e,f}: one zero, one NaN, 1.0 at the midway code."""
    exponent_bits = storage - is_signed - (precision - 1)
    return Format(
        exponent_bits,
        precision - 1,
        1 << exponent_bits - 1,
        is_signed,
        zero="single",
        nan_codes=0 if is_signed else 1,
        nan_at_negative_zero=is_signed,
        has_infinity=extended,
        even_code_ties=precision == 1,
    )


def ieee(exponent_bits: int, mantissa_bits: int) -> Format:
    """IEEE 754's rules at any width: the top exponent field holds infinity and NaNs."""
    bias = (1 << exponent_bits - 1) - 1
    return Format(exponent_bits, mantissa_bits, bias, nan_codes=(1 << mantissa_bits) - 1, has_infinity=True)


def fnuz(exponent_bits: int, mantissa_bits: int, bias: int) -> Format:
    return Format(exponent_bits, mantissa_bits, bias, zero="single", nan_at_negative_zero=True)


FORMATS = {
    "fp32": ieee(8, 23),
    "tf32": ieee(8, 10),
    "bf16": ieee(8, 7),
    "fp16": ieee(5, 10),
    "e5m2": ieee(5, 2),
    "e4m3": ieee(4, 3),
    "e3m4": ieee(3, 4),
    "e3m0": ieee(3, 0),
    "fp16_ahp": Format(5, 10, 15),
    "dlfloat16": Format(6, 9, 31, subnormals=False, nan_codes=1),
    "e4m3fn": Format(4, 3, 7, nan_codes=1),
    "e3m4fn": Format(3, 4, 3, nan_codes=1),
    "e4m3fnuz": fnuz(4, 3, 8),
    "e4m3b11fnuz": fnuz(4, 3, 11),
    "e5m2fnuz": fnuz(5, 2, 16),
    "e8m0fnu": Format(8, 0, 127, is_signed=False, subnormals=False, zero="none", nan_codes=1),
    "hfp8_forward": Format(4, 3, 11, subnormals=False),
    "e3m2fn": Format(3, 2, 3),
    "e2m3fn": Format(2, 3, 1),
    "e2m1fn": Format(2, 1, 1),
    "binary8p3se": p3109(8, 3, True, True),
    "binary8p4se": p3109(8, 4, True, True),
    "binary8p1uf": p3109(8, 1, False, False),
    "binary4p2sf": p3109(4, 2, True, False),
    # Not the field's, but what the descriptor can say: CFloat8's subnormals, an odd zero.
    "e4m3finiteb20sub-20": Format(4, 3, 20, subnormal_exponent=-20),
    "e5m2nosub": Format(5, 2, 15, subnormals=False, nan_codes=3, has_infinity=True),
    "e4m3zero1": Format(4, 3, 7, zero="single", nan_codes=7, has_infinity=True),
    "e0m5finite": Format(0, 5, 0),
}
