// The table of named formats, as constants: tests/core/static_formats.cpp asserts their limits
// while it compiles.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "format_syntax.h"
#include "named_formats.h"

namespace apscope {

// IBM's forward format (1 sign bit, 4 exponent bits, 3 fraction bits) has no infinity and no NaN;
// exponent field 0 is an ordinary binade, but code 0 is zero.
constexpr FloatFormat hfp8_forward() {
    FloatFormat f = with_bias(make_format(4, 3, Specials::finite), 11);
    f.subnormals = false;
    return f;
}

// DLFloat16 has 1 sign bit, 6 exponent bits and 9 fraction bits; exponent field 0 is an ordinary
// binade, and the top code stands for both NaN and infinity.
constexpr FloatFormat dlfloat16() {
    FloatFormat f = make_format(6, 9, Specials::fn);
    f.subnormals = false;
    return f;
}

inline constexpr auto named_format_table = std::to_array<NamedFormat>({
    {"fp64", "binary64 float64 e11m52 double", "IEEE 754", make_format(11, 52)},
    {"fp32", "binary32 float32 e8m23 single", "IEEE 754", make_format(8, 23)},
    {"pxr24", "e8m15", "Pixar, in OpenEXR", make_format(8, 15)},
    {"tf32", "tensorfloat32 e8m10", "NVIDIA", make_format(8, 10)},
    {"bf16", "bfloat16 e8m7", "Google", make_format(8, 7)},
    {"fp16", "binary16 float16 half e5m10", "IEEE 754", make_format(5, 10)},
    {"fp16_ahp", "arm_ahp e5m10finite", "Arm alternative half precision",
     make_format(5, 10, Specials::finite)},
    {"dlfloat16", "dlfloat", "IBM", dlfloat16()},
    {"e5m2", "float8_e5m2 f8E5M2 fp8_e5m2 bf8 ofp8_e5m2", "OCP, IEEE rules", make_format(5, 2)},
    {"e4m3", "float8_e4m3 f8E4M3", "IEEE rules", make_format(4, 3)},
    {"e3m4", "float8_e3m4 f8E3M4", "IEEE rules", make_format(3, 4)},
    {"e4m3fn", "float8_e4m3fn f8E4M3FN ofp8_e4m3 hf8", "OCP", make_format(4, 3, Specials::fn)},
    {"e3m4fn", "", "Intel", make_format(3, 4, Specials::fn)},
    {"e4m3fnuz", "float8_e4m3fnuz f8E4M3FNUZ", "AMD, Graphcore, Qualcomm",
     make_format(4, 3, Specials::fnuz)},
    {"e4m3b11fnuz", "float8_e4m3b11fnuz float8_e4m3b11 f8E4M3B11FNUZ", "Google",
     with_bias(make_format(4, 3, Specials::fnuz), 11)},
    {"e5m2fnuz", "float8_e5m2fnuz f8E5M2FNUZ", "AMD, Graphcore, Qualcomm",
     make_format(5, 2, Specials::fnuz)},
    {"e8m0fnu", "float8_e8m0fnu f8E8M0FNU e8m0", "OCP MX scale", make_format(8, 0, Specials::e8m0)},
    {"hfp8_forward", "hfp8_143", "IBM HFP8, 1-4-3 with bias 11", hfp8_forward()},
    {"e3m2fn", "float6_e3m2fn f6E3M2FN", "OCP MX element", make_format(3, 2, Specials::finite)},
    {"e2m3fn", "float6_e2m3fn f6E2M3FN", "OCP MX element", make_format(2, 3, Specials::finite)},
    {"e2m1fn", "float4_e2m1fn f4E2M1FN", "OCP MX element", make_format(2, 1, Specials::finite)},
    {"e3m0", "", "CPD, IEEE rules", make_format(3, 0)},
    {"binary8p3se", "", "IEEE P3109", make_p3109(8, 3, true, true)},
    {"binary8p4se", "", "IEEE P3109", make_p3109(8, 4, true, true)},
    {"binary8p1uf", "", "IEEE P3109 scale", make_p3109(8, 1, false, false)},
    {"binary4p2sf", "", "IEEE P3109", make_p3109(4, 2, true, false)},
});

namespace detail {

// The format to which the table gives a name or an alias.
constexpr std::optional<FloatFormat> format_in_table(std::string_view name) {
    for (const NamedFormat& row : named_format_table) {
        if (row.name == name || lists_word(row.aliases, name)) return row.format;
    }
    return std::nullopt;
}

}  // namespace detail

}  // namespace apscope
