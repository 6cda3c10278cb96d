"""Named formats as the standards and papers state them, field by field, for `rounding.py`."""

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
    return Format(
        exponent_bits, mantissa_bits, bias, nan_codes=(1 << mantissa_bits) - 1, has_infinity=True
    )


def fnuz(exponent_bits: int, mantissa_bits: int, bias: int) -> Format:
    return Format(exponent_bits, mantissa_bits, bias, zero="single", nan_at_negative_zero=True)


def zeroless(
    exponent_bits: int,
    mantissa_bits: int,
    bias: int,
    nan_codes: int = 0,
    has_infinity: bool = False,
) -> Format:
    """Unsigned, every code of field 0 an ordinary value."""
    return Format(
        exponent_bits,
        mantissa_bits,
        bias,
        False,
        False,
        zero="none",
        nan_codes=nan_codes,
        has_infinity=has_infinity,
    )


FORMATS = {
    "fp32": ieee(8, 23),
    "pxr24": ieee(8, 15),
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

# Other formats of the descriptor, under its general names: one oddity per row.
EXOTIC = {
    "e4m3u": Format(4, 3, 7, False, zero="single", nan_codes=7, has_infinity=True),
    "e3m4finiteu": Format(3, 4, 3, False, zero="single"),
    "e5m2ub10nosub": Format(5, 2, 10, False, False, zero="single", nan_codes=3, has_infinity=True),
    "e4m3fnnosub": Format(4, 3, 7, subnormals=False, nan_codes=1),
    "e3m0nosub": Format(3, 0, 3, subnormals=False, has_infinity=True),
    "e3m2ub2nosubzero0": zeroless(3, 2, 2, 3, True),
    "e4m1finiteunosubzero0": zeroless(4, 1, 7),
    "e6m9sub-31": Format(6, 9, 31, subnormal_exponent=-31, nan_codes=511, has_infinity=True),
    "e3m3ub3sub-3": Format(
        3, 3, 3, False, subnormal_exponent=-3, zero="single", nan_codes=7, has_infinity=True
    ),
    "e0m3finite": Format(0, 3, 0, subnormal_exponent=1),
    "e0m4fnu": Format(0, 4, 0, False, subnormal_exponent=1, zero="single", nan_codes=1),
    "e1m2finite": Format(1, 2, 0),
    "e4m0finite": Format(4, 0, 7),
    "e4m0fneventies": Format(4, 0, 7, nan_codes=1, even_code_ties=True),
    "binary4p1se": p3109(4, 1, True, True),
    "binary6p3ue": p3109(6, 3, False, True),
    "e4m3b-3": Format(4, 3, -3, nan_codes=7, has_infinity=True),
    "e5m10nan1": Format(5, 10, 15, nan_codes=1, has_infinity=True),
    "e4m3zero1nannz": Format(
        4, 3, 7, zero="single", nan_codes=7, has_infinity=True, nan_at_negative_zero=True
    ),
    "e8m22nosub": Format(8, 22, 127, subnormals=False, nan_codes=(1 << 22) - 1, has_infinity=True),
}

# Formats with values that fp32 does not hold: results and codes' values are fp64 numbers.
FP64_FORMATS = {
    "fp64": ieee(11, 52),
    "e11m51": ieee(11, 51),
    "e11m4": ieee(11, 4),
    "e9m30": ieee(9, 30),
    "e10m10b601": Format(10, 10, 601, nan_codes=1023, has_infinity=True),
    "e4m30": ieee(4, 30),
    "e8m23nosub": Format(8, 23, 127, subnormals=False, nan_codes=(1 << 23) - 1, has_infinity=True),
    "e11m51nosub": Format(
        11, 51, 1023, subnormals=False, nan_codes=(1 << 51) - 1, has_infinity=True
    ),
    "e11m51sub-1023": Format(
        11, 51, 1023, subnormal_exponent=-1023, nan_codes=(1 << 51) - 1, has_infinity=True
    ),
    "e11m4b1070nosub": Format(11, 4, 1070, subnormals=False, nan_codes=15, has_infinity=True),
    "e11m40b1035": Format(11, 40, 1035, nan_codes=(1 << 40) - 1, has_infinity=True),
    "e11m10fnb1024": Format(11, 10, 1024, nan_codes=1),
    "e10m52fnuz": fnuz(10, 52, 512),
    "e11m20u": Format(
        11, 20, 1023, False, zero="single", nan_codes=(1 << 20) - 1, has_infinity=True
    ),
    "e11m3finiteub1070nosubzero0": zeroless(11, 3, 1070),
    "e11m0finiteb1024": Format(11, 0, 1024),
    "e0m40finite": Format(0, 40, 0, subnormal_exponent=1),
}
