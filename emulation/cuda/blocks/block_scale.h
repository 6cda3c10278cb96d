// The scale of a block on a GPU, from the bits of its amax, by integer and fp32 operations without
// the C library. The results have the same bits as those of emulation/blocks/block_rule.h.
#pragma once

#include <cfloat>
#include <cstdint>

#include "core/block_format.h"
#include "emulation/cast/quantize_addition.h"

namespace apscope::detail {

// The scales of a block format, prepared for the steps.
struct BlockScaling {
    ScaleRule rule;
    bool tensor_scale;
    // Magnitudes as bits: one that is at least nan_from makes the scale NaN, others count in amax
    // if they are below counted_below (counted_magnitude()).
    std::uint32_t nan_from, counted_below;
    // Power-of-two rules: k = exponent field of amax - exponent_offset, plus 1 if the fraction bits
    // are at least round_up_from; clamped to min_exponent .. max_exponent. It is infinite_exponent
    // if amax is infinite, zero_exponent if it is 0.
    int exponent_offset;
    std::uint32_t round_up_from;
    int min_exponent, max_exponent, infinite_exponent, zero_exponent;
    // Rule ratio. largest: the largest element; range: that times the largest scale.
    float largest, one_over_largest, range;
    AdditionCast<float> scale;  // to the format of the scales
    bool scale_by_addition;     // false: round_to_format() rounds the scales
};

// What an element counts in the amax of its block, so that a maximum over the block says all about
// it: the bits of amax, infinite if an infinity counts, or nan_amax if the scale is NaN.
inline constexpr std::uint32_t nan_amax = ~std::uint32_t{0};
APSCOPE_HD std::uint32_t counted_magnitude(const BlockScaling& s, std::uint32_t magnitude) {
    if (magnitude >= s.nan_from) return nan_amax;
    return magnitude < s.counted_below ? magnitude : 0;
}

// 2^k, a number of fp32.
APSCOPE_HD float float_power_of_two(int k) {
    return bits_cast<float>(k >= -126 ? static_cast<std::uint32_t>(k + 127) << 23
                                      : std::uint32_t{1} << (k + 149));
}

// The exponent k of a power-of-two rule; amax is finite. The exponent field of a subnormal amax is
// that of amax * 2^32, less 32.
APSCOPE_HD int block_exponent(const BlockScaling& s, std::uint32_t amax) {
    constexpr std::uint32_t first_normal = 1u << 23;
    const bool subnormal = amax < first_normal;
    const std::uint32_t bits =
        subnormal ? bits_cast<std::uint32_t>(bits_cast<float>(amax) * 0x1p32f) : amax;
    int k = static_cast<int>(bits >> 23) - s.exponent_offset - (subnormal ? 32 : 0);
    k += (bits & (first_normal - 1)) >= s.round_up_from ? 1 : 0;
    k = k < s.min_exponent ? s.min_exponent : k;
    k = k > s.max_exponent ? s.max_exponent : k;
    return amax == 0 ? s.zero_exponent : k;
}

// The tensor scale S_enc and its inverse, computed from the bits of the array's amax, which are not
// read if the format has no tensor scale.
struct TensorScale {
    float value, inverse;
};
APSCOPE_HD TensorScale tensor_scale(const BlockScaling& s, const std::uint32_t* amax_bits) {
    if (!s.tensor_scale) return {1.0f, 1.0f};
#if defined(__CUDA_ARCH__)
    const float amax = bits_cast<float>(__ldg(amax_bits));  // so it is read once a thread
#else
    const float amax = bits_cast<float>(*amax_bits);
#endif
    if (amax == 0.0f || amax > FLT_MAX) return {1.0f, 1.0f};
    const float ratio = s.range / amax;
    const float value = FLT_MAX < ratio ? FLT_MAX : ratio;
    return {value, 1.0f / value};
}

struct BlockScale {
    float value;     // if NaN, every element is NaN
    int exponent;    // power-of-two rules: value = 2^exponent, and elements are multiplied by
                     // 2^-exponent before their rounding
    float multiply;  // rule ratio: the factor of elements before their rounding
};
APSCOPE_HD BlockScale block_scale(const BlockScaling& s, const TensorScale& tensor,
                                  std::uint32_t amax) {
    if (amax == nan_amax) return {bits_cast<float>(nan_bits<float>), 0, 0};
    if (s.rule == ScaleRule::ratio) {  // NVFP4's order of fp32 operations
        const float ratio = bits_cast<float>(amax) * (tensor.value * s.one_over_largest);
        const float value =
            s.scale_by_addition
                ? bits_cast<float>(
                      rounded_by_addition<RoundingMode::ties_to_even, true>(ratio, s.scale))
                : round_to_format<RoundingMode::ties_to_even, float>(ratio, s.scale.cast,
                                                                     std::uint64_t{0});
        const float inverse = 1.0f / (value * tensor.inverse);
        return {value, 0, FLT_MAX < inverse ? FLT_MAX : inverse};
    }
    const int k = amax == infinity_bits<float> ? s.infinite_exponent : block_exponent(s, amax);
    return {float_power_of_two(k), k, 0};
}

}  // namespace apscope::detail
