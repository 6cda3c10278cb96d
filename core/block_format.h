// BlockFormat is a value that describes a format whose elements share scales. A block is a run of
// elements along one axis; it has one code of `scale` and, for each element, one code of `element`:
//
//      value = element * scale                    (tensor_scale: element * scale / tensor scale)
//
// OCP's MX formats, NVFP4 and shared-exponent ("block floating point") formats are block formats.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "float_format.h"

namespace apscope {

// The rule by which a block's scale is computed from amax, the largest finite magnitude of the
// block. The first five give a power of two, 2^k, which is then clamped to the range of the scale
// format; emax and largest are the element format's.
enum class ScaleRule {
    floor,    // k = floor(log2 amax) - emax (OCP)
    ceil,     // k = ceil(log2 amax) - emax
    rceil,    // the least k with largest 2^k >= amax, so that no element overflows
    even,     // k = floor(log2 r) - emax, r = amax rounded to nearest at the element's precision
    nearest,  // k = log2(amax / largest), rounded to the nearest integer (MLX)
    ratio,    // not a power of two: amax / largest, rounded to the scale's format (NVFP4)
};
inline constexpr int scale_rule_count = 6;

// The effect of an infinity or a NaN on its block. OCP does not define the effect, and libraries
// differ; docs/definitions.md, section 11, cites the sources.
enum class BlockNonfinite {
    apart,    // infinities and NaNs do not count in amax; a NaN makes its element NaN, or makes the
              // scale NaN if the element format has no NaN
    torchao,  // an infinity or a NaN makes the scale NaN
    torchao_0_18,        // a NaN makes the scale NaN; an infinity counts in amax, as 2^128
    transformer_engine,  // a NaN does not count in amax; an infinity gives the largest scale
};
inline constexpr int block_nonfinite_count = 4;

struct BlockFormat {
    FloatFormat element;           // at most 8 bits
    bool twos_complement = false;  // element codes are integers in two's complement, not sign and
                                   // magnitude; the element format is then fixed-point
    FloatFormat scale;             // at most 8 bits
    int block_size = 32;  // elements that share a scale; the last block along an axis may be
                          // shorter
    ScaleRule rule = ScaleRule::floor;
    bool tensor_scale = false;  // one additional fp32 scale for the whole array (rule ratio only)
    BlockNonfinite nonfinite = BlockNonfinite::apart;  // not torchao or torchao_0_18 if rule is
                                                       // ratio

    friend bool operator==(const BlockFormat&, const BlockFormat&) = default;

    // The number of significand bits after the leading bit, for elements of the largest binade.
    int top_mantissa_bits() const;
    // Storage per element, in bits: the bits of its code and its share of the scale's bits in a
    // full block.
    double bits_per_element() const;
    // The shortest name that parse_block_format reads as this format.
    std::string name() const;
    std::size_t hash() const;
};

// The constants of a power-of-two rule: amax = f 2^e with 1 <= f < 2 gives k = e - emax + base, or
// one more if f >= from. If `from` is 2, no f reaches it.
struct ScaleStep {
    int base;
    double from;
};
ScaleStep scale_step(const BlockFormat& format);

// The exponent k that a power-of-two rule gives, clamped to the scale format's range. amax is
// finite and positive. The result is exact: exponents come from the bits of amax, never from a
// logarithm.
int scale_exponent(const BlockFormat& format, double amax);

struct NamedBlockFormat {
    std::string_view name;
    std::string_view origin;  // the organisation that defines the format
    BlockFormat format;
};
std::span<const NamedBlockFormat> named_block_formats();

// The fixed-point element format of `bits` bits, with the binary point after the second bit, in
// two's complement (with 8 bits, the elements of MXINT8) or in sign and magnitude.
FloatFormat fixed_point_element(int bits, bool twos_complement);

// Reads a name of named_block_formats(), bfp:<bits>:<block> (sign-magnitude elements of <bits> bits
// that share an 8-bit exponent) or blocks:<element> (element: a format's name, or int<bits>), each
// followed by any of ,scale=<format> ,block=<size> ,rule=<rule> ,nonfinite=<rule> ,tensor. Throws
// std::invalid_argument otherwise.
BlockFormat parse_block_format(std::string_view name);

std::string_view to_string(ScaleRule rule);
ScaleRule parse_scale_rule(std::string_view name);  // throws std::invalid_argument
std::string_view to_string(BlockNonfinite rule);
BlockNonfinite parse_block_nonfinite(std::string_view name);  // throws std::invalid_argument

// Throws std::invalid_argument with one sentence if the fields contradict each other.
void validate(const BlockFormat& format);

}  // namespace apscope

template <>
struct std::hash<apscope::BlockFormat> {
    std::size_t operator()(const apscope::BlockFormat& f) const { return f.hash(); }
};
