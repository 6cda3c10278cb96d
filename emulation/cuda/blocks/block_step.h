// Block formats on a GPU: one thread rounds one block. It reads the block twice, the second time
// from a cache. The results have the same bits as those of emulation/blocks/blocks.h; the scale is
// computed from the bits of amax, without the C library.
#pragma once

#include <cfloat>
#include <cstdint>

#include "core/block_format.h"
#include "core/codec.h"
#include "core/philox.h"
#include "emulation/cuda/cast/element_group.h"
#include "emulation/cuda/cast/group_rounding.h"
#include "emulation/cuda/cast/nan_bits.h"

namespace apscope::detail {

// A block format and a projection, prepared for the steps below.
struct BlockRounding {
    Cast<double> element, scale;
    ScaleRule rule;
    BlockNonfinite nonfinite;
    bool tensor_scale, element_has_nan, twos_complement;
    int block_size;
    int exponent_offset;  // k = exponent of amax - exponent_offset, plus 1 if the significand is at
                          // least round_up_from (scale_step())
    double round_up_from;
    // k is clamped to min_exponent .. max_exponent, and is infinite_exponent if amax is infinite.
    int min_exponent, max_exponent, infinite_exponent;
    // largest: the largest element value. range: the largest element value times the largest scale.
    float largest, range;
    RandomStream stream;
};

// An array of shape (outer, length, inner); the block of a thread is a run along `length`.
struct BlockGrid {
    std::uint64_t outer, length, inner, blocks;

    struct Place {
        std::uint64_t first, stride, count;
    };
    APSCOPE_HD std::uint64_t count() const { return outer * blocks * inner; }
    APSCOPE_HD Place place(std::uint64_t b, int size) const {
        const std::uint64_t begin = b / inner % blocks * size, left = length - begin;
        return {(b / inner / blocks * length + begin) * inner + b % inner, inner,
                left < static_cast<std::uint64_t>(size) ? left : size};
    }
};

// 2^k, which must be a normal fp64 number.
APSCOPE_HD double power_of_two_number(int k) {
    return bits_cast<double>(static_cast<std::uint64_t>(k + 1023) << 52);
}

// The exponent k of a power-of-two rule. amax is a finite fp32 number above 0, which is a normal
// fp64 number.
APSCOPE_HD int block_exponent(const BlockRounding& c, double amax) {
    const std::uint64_t bits = bits_cast<std::uint64_t>(amax);
    const double significand =
        bits_cast<double>((bits & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1023} << 52);
    int k = static_cast<int>(bits >> 52) - 1023 - c.exponent_offset;
    k += significand >= c.round_up_from;
    return k < c.min_exponent ? c.min_exponent : k > c.max_exponent ? c.max_exponent : k;
}

// The tensor scale S_enc and its inverse, which tensor_scale() computes from the bits of the
// array's amax.
struct TensorScale {
    float value, inverse;
};
APSCOPE_HD TensorScale tensor_scale(const BlockRounding& c, const std::uint32_t* amax_bits) {
    const float amax = c.tensor_scale ? bits_cast<float>(*amax_bits) : 0.0f;
    if (amax == 0.0f || amax > FLT_MAX) return {1.0f, 1.0f};
    const float ratio = c.range / amax;
    const float value = FLT_MAX < ratio ? FLT_MAX : ratio;
    return {value, 1.0f / value};
}

struct BlockScale {
    double value;    // if NaN, every element is NaN
    double inverse;  // power-of-two rules: the factor of elements before their rounding
    float multiply;  // rule ratio: the factor of elements before their rounding
};
APSCOPE_HD BlockScale block_scale(const BlockRounding& c, const TensorScale& tensor, float amax,
                                  bool has_nan, bool has_infinity) {
    const bool nan = c.nonfinite == BlockNonfinite::apart          ? has_nan && !c.element_has_nan
                     : c.nonfinite == BlockNonfinite::torchao      ? has_nan || has_infinity
                     : c.nonfinite == BlockNonfinite::torchao_0_18 ? has_nan
                                                                   : false;
    if (nan) return {bits_cast<double>(nan_bits<double>), 0, 0};
    const bool infinite = has_infinity && c.nonfinite != BlockNonfinite::apart;
    if (infinite) amax = bits_cast<float>(infinity_bits<float>);
    if (c.rule == ScaleRule::ratio) {  // NVFP4's order of fp32 operations
        const float ratio = amax * (tensor.value * (1.0f / c.largest));
        const double d =
            round_to_format<RoundingMode::ties_to_even, double>(ratio, c.scale, std::uint64_t{0});
        const float inverse = 1.0f / (static_cast<float>(d) * tensor.inverse);
        return {d, 0, FLT_MAX < inverse ? FLT_MAX : inverse};
    }
    const int k = infinite   ? c.infinite_exponent
                  : amax > 0 ? block_exponent(c, amax)
                             : c.min_exponent;
    return {power_of_two_number(k), power_of_two_number(-k), 0};
}

// x in units of the block's scale, before it is rounded to an element.
APSCOPE_HD double block_scaled(const BlockRounding& c, const BlockScale& s, float x) {
    if (x != x && c.nonfinite == BlockNonfinite::transformer_engine && !c.element_has_nan)
        return c.largest;
    if (c.rule != ScaleRule::ratio) return x * s.inverse;
    if (x != x) return x;
    const float product = x * s.multiply;
    return product < -c.largest ? -c.largest : c.largest < product ? c.largest : product;
}

APSCOPE_HD float block_value(bool has_tensor_scale, double element, double scale, float tensor) {
    const double product = element * scale;
    if (product != product) return bits_cast<float>(nan_bits<float>);
    return has_tensor_scale ? static_cast<float>(product) / tensor : static_cast<float>(product);
}

// Computes the largest of the magnitudes of an array whose bits are below `limit`. It is a maximum
// of integers, so it does not depend on the order of threads.
struct AmaxStep {
    static constexpr int size = 16;
    const float* in;
    ElementRange range;
    std::uint32_t limit;
    std::uint32_t* amax_bits;

    APSCOPE_HD std::uint64_t count() const { return range.groups<size>(); }
    APSCOPE_HD void operator()(std::uint64_t group) const {
        float values[size];
        load_group(in, range, range.offset<size>(group), values);
        std::uint32_t largest = 0;
        for (const float value : values) {
            const std::uint32_t magnitude = bits_cast<std::uint32_t>(value) & ~sign_bit<float>;
            if (magnitude < limit && magnitude > largest) largest = magnitude;
        }
        note_largest(amax_bits, largest);
    }
};

// Quantizes to `out`, or encodes to `codes` and `scales`; null arrays are not written.
struct EncodeBlocksStep {
    const float* in;
    float* out;
    std::uint8_t *codes, *scales;
    BlockGrid grid;
    BlockRounding cast;
    Codec element_codec, scale_codec;
    const std::uint32_t* amax_bits;  // bits of the array's amax, if the format has a tensor scale

    APSCOPE_HD std::uint64_t count() const { return grid.count(); }

    APSCOPE_HD std::uint8_t code(double element) const {
        std::uint32_t code = encode_one(narrowed(element), element_codec);
        const std::uint32_t sign = element_codec.sign_code;
        if (cast.twos_complement && (code & sign) != 0)
            code = (2 * sign - (code & (sign - 1))) & (2 * sign - 1);
        return static_cast<std::uint8_t>(code);
    }

    APSCOPE_HD void operator()(std::uint64_t b) const {
        const BlockGrid::Place place = grid.place(b, cast.block_size);
        const TensorScale tensor = tensor_scale(cast, amax_bits);
        std::uint32_t largest = 0;
        bool has_nan = false, has_infinity = false;
        for (std::uint64_t j = 0; j < place.count; ++j) {
            const std::uint32_t magnitude =
                bits_cast<std::uint32_t>(in[place.first + j * place.stride]) & ~sign_bit<float>;
            has_nan |= magnitude > infinity_bits<float>;
            has_infinity |= magnitude == infinity_bits<float>;
            if (magnitude < infinity_bits<float> && magnitude > largest) largest = magnitude;
        }
        const BlockScale scale =
            block_scale(cast, tensor, bits_cast<float>(largest), has_nan, has_infinity);
        if (scales != nullptr)
            scales[b] = static_cast<std::uint8_t>(encode_one(narrowed(scale.value), scale_codec));
        for (std::uint64_t j = 0; j < place.count; ++j) {
            const std::uint64_t i = place.first + j * place.stride;
            const double x = block_scaled(cast, scale, in[i]);
            const std::uint64_t random =
                is_stochastic(cast.element.rounding) ? cast.stream.at(i) : 0;
            const double element =
                cast.element.rounding == RoundingMode::ties_to_even
                    ? round_to_format<RoundingMode::ties_to_even, double>(x, cast.element,
                                                                          std::uint64_t{0})
                    : round_by_mode<double>(x, cast.element, random, cast.stream, i);
            if (out != nullptr)
                out[i] = block_value(cast.tensor_scale, element, scale.value, tensor.value);
            // If the scale is NaN, every element code decodes to NaN, so code 0 is written.
            if (codes != nullptr)
                codes[i] = scale.value != scale.value ? std::uint8_t{0} : code(element);
        }
    }
};

// Decodes codes. `wide_element_at` and `wide_scale_at` receive the indices of the first element
// code and of the first scale code that is wider than its format.
struct DecodeBlocksStep {
    const std::uint8_t *codes, *scales;
    float* out;
    BlockGrid grid;
    int block_size, element_bits, scale_bits;
    bool twos_complement, has_tensor_scale;
    float tensor;
    Codec element_codec, scale_codec;
    unsigned long long *wide_element_at, *wide_scale_at;

    APSCOPE_HD std::uint64_t count() const { return grid.count(); }

    APSCOPE_HD double element(std::uint32_t code) const {
        if (!twos_complement) return decode_one(code, element_codec);
        // The codec has the magnitudes at the positive codes; the magnitude of the lowest integer
        // has no positive code.
        const std::uint32_t half = std::uint32_t{1} << (element_bits - 1);
        if (code < half) return decode_one(code, element_codec);
        if (code > half) return -static_cast<double>(decode_one(2 * half - code, element_codec));
        return -static_cast<double>(half) * decode_one(std::uint32_t{1}, element_codec);
    }

    APSCOPE_HD void operator()(std::uint64_t b) const {
        const BlockGrid::Place place = grid.place(b, block_size);
        if (scales[b] >> scale_bits != 0) note_first(wide_scale_at, b);
        const double scale = decode_one(std::uint32_t{scales[b]}, scale_codec);
        for (std::uint64_t j = 0; j < place.count; ++j) {
            const std::uint64_t i = place.first + j * place.stride;
            if (codes[i] >> element_bits != 0) note_first(wide_element_at, i);
            out[i] = block_value(has_tensor_scale, element(codes[i]), scale, tensor);
        }
    }
};

}  // namespace apscope::detail
