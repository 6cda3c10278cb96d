// The limits of named formats, asserted while this file compiles: those of the documents that
// define them.
#include <string_view>

#include "core/named_format_table.h"
#include "core/ulps.h"

namespace apscope {
namespace {

consteval FloatFormat format(std::string_view name) {
    for (const NamedFormat& row : named_format_table) {
        if (row.name == name) return row.format;
    }
    throw "no such format";  // does not compile
}

struct Limits {
    double largest, smallest_normal, smallest_positive;
};
consteval bool has(std::string_view name, int bits, Limits limits, bool infinity, bool nan) {
    const FloatFormat f = format(name);
    return f.storage_bits() == bits && f.largest() == limits.largest &&
           f.smallest_normal() == limits.smallest_normal &&
           f.smallest_positive() == limits.smallest_positive && f.has_infinity == infinity &&
           f.has_nan() == nan;
}

// IEEE 754-2019, binary interchange formats.
static_assert(has("fp64", 64, {0x1.fffffffffffffp1023, 0x1p-1022, 0x1p-1074}, true, true));
static_assert(has("fp32", 32, {0x1.fffffep127, 0x1p-126, 0x1p-149}, true, true));
static_assert(has("fp16", 16, {65504, 0x1p-14, 0x1p-24}, true, true));
// bfloat16: fp32's upper half.
static_assert(has("bf16", 16, {0x1.fep127, 0x1p-126, 0x1p-133}, true, true));
static_assert(has("tf32", 19, {0x1.ffcp127, 0x1p-126, 0x1p-136}, true, true));
// OpenEXR, ImfPxr24Compressor.cpp: fp32's upper 24 bits.
static_assert(has("pxr24", 24, {0x1.fffep127, 0x1p-126, 0x1p-141}, true, true));
// OCP 8-bit Floating Point Specification (OFP8).
static_assert(has("e4m3fn", 8, {448, 0x1p-6, 0x1p-9}, false, true));
static_assert(has("e5m2", 8, {57344, 0x1p-14, 0x1p-16}, true, true));
static_assert(format("e4m3fn").nan_code() == 0x7F && format("e5m2").infinity_code() == 0x7C &&
              format("e5m2").nan_code() == 0x7E);
// OCP Microscaling Formats (MX).
static_assert(has("e3m2fn", 6, {28, 0.25, 0.0625}, false, false));
static_assert(has("e2m3fn", 6, {7.5, 1, 0.125}, false, false));
static_assert(has("e2m1fn", 4, {6, 1, 0.5}, false, false));
static_assert(has("e8m0fnu", 8, {0x1p127, 0x1p-127, 0x1p-127}, false, true));
// IEEE rules at 8 bits: the top exponent is infinity and NaN.
static_assert(has("e4m3", 8, {240, 0x1p-6, 0x1p-9}, true, true));
static_assert(has("e3m4", 8, {15.5, 0.25, 0x1p-6}, true, true));
// One zero, NaN at the code of -0, the bias one larger (Noune et al., 2022).
static_assert(has("e4m3fnuz", 8, {240, 0x1p-7, 0x1p-10}, false, true));
static_assert(has("e5m2fnuz", 8, {57344, 0x1p-15, 0x1p-17}, false, true));
static_assert(format("e4m3fnuz").nan_code() == 0x80 && format("e4m3b11fnuz").largest() == 30);
// IEEE P3109: binary8p3se and binary8p4se hold infinities.
static_assert(has("binary8p3se", 8, {49152, 0x1p-15, 0x1p-17}, true, true));
static_assert(has("binary8p4se", 8, {224, 0x1p-7, 0x1p-10}, true, true));
static_assert(has("hfp8_forward", 8, {0x1.ep4, 0x1.2p-11, 0x1.2p-11}, false, false));

// Every value of every named format lies in fp64, and all but fp64 itself in fp32.
consteval bool are_stored() {
    for (const NamedFormat& row : named_format_table) {
        if (row.format.largest() > 0x1.fffffffffffffp1023 || row.format.finest_exponent() < -1074)
            return false;
        if (row.format.fits_fp32() == (row.name == "fp64")) return false;
        if (row.format.emin() > row.format.emax() || !(row.format.smallest_positive() > 0))
            return false;
    }
    return true;
}
static_assert(are_stored());
// No sum of exponents and fraction bits leaves its type: a constant that did would not compile.
static_assert(detail::ulp_scale(format("fp32").emin(), 23, 1.0, 1.0).top == std::uint64_t{2069}
                                                                                << 52);
static_assert(format("fp16").emax() == 15 && format("e4m3fn").emax() == 8 &&
              format("e8m0fnu").emax() == 127 && format("fp64").emax() == 1023);

}  // namespace
}  // namespace apscope
