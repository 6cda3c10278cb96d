// Any block format, along any axis, on a GPU: one thread rounds one block by the rounding rule, in
// fp64. It reads the block twice, the second time from a cache. The results have the same bits as
// those of emulation/blocks/blocks.h. row_blocks_step.h is the fast way for the usual formats.
#pragma once

#include <cstdint>

#include "core/block_format.h"
#include "core/codec.h"
#include "core/philox.h"
#include "emulation/blocks/block_kernels.h"
#include "emulation/cuda/blocks/block_scale.h"
#include "emulation/cuda/cast/element_group.h"
#include "emulation/cuda/cast/group_rounding.h"
#include "emulation/cuda/cast/nan_bits.h"

namespace apscope::detail {

// A block format and a projection, prepared for the steps below.
struct BlockRounding {
    Cast<double> element;
    BlockScaling scaling;
    bool nan_is_largest;  // a NaN becomes the largest element
    bool twos_complement;
    int block_size;
    RandomStream stream;
};

// An array of shape (outer, length, inner); the block of a thread is a run along `length`.
struct BlockPlaces {
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

// x in units of the block's scale, before it is rounded to an element.
APSCOPE_HD double block_scaled(const BlockRounding& c, const BlockScale& s, float x) {
    const float largest = c.scaling.largest;
    if (x != x && c.nan_is_largest) return largest;
    if (c.scaling.rule != ScaleRule::ratio)
        return x * bits_cast<double>(static_cast<std::uint64_t>(1023 - s.exponent) << 52);
    if (x != x) return x;
    const float product = x * s.multiply;
    return product < -largest ? -largest : largest < product ? largest : product;
}

// The element to which x is rounded, by the random word with this index.
APSCOPE_HD double block_element(const BlockRounding& c, const BlockScale& s, float x,
                                std::uint64_t word) {
    const double scaled = block_scaled(c, s, x);
    if (c.element.rounding == RoundingMode::ties_to_even)
        return round_to_format<RoundingMode::ties_to_even, double>(scaled, c.element,
                                                                   std::uint64_t{0});
    const std::uint64_t random = is_stochastic(c.element.rounding) ? c.stream.at(word) : 0;
    return round_by_mode<double>(scaled, c.element, random, c.stream, word);
}

// The value of an element in its block; `tensor` is the tensor scale.
APSCOPE_HD float element_value(bool has_tensor_scale, float element, float scale, float tensor) {
    return has_tensor_scale ? block_value<true>(element, scale, tensor)
                            : block_value<false>(element, scale, tensor);
}

// Quantizes to `out` and encodes to `codes` and `scales`; null arrays are not written.
struct EncodeBlocksStep {
    const float* in;
    float* out;
    std::uint8_t *codes, *scales;
    BlockPlaces grid;
    BlockRounding cast;
    std::uint64_t first_word;  // the index of element 0's random word
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
        const BlockPlaces::Place place = grid.place(b, cast.block_size);
        const TensorScale tensor = tensor_scale(cast.scaling, amax_bits);
        std::uint32_t amax = 0;
        for (std::uint64_t j = 0; j < place.count; ++j) {
            const std::uint32_t counted = counted_magnitude(
                cast.scaling,
                bits_cast<std::uint32_t>(in[place.first + j * place.stride]) & ~sign_bit<float>);
            amax = counted > amax ? counted : amax;
        }
        const BlockScale scale = block_scale(cast.scaling, tensor, amax);
        if (scales != nullptr)
            scales[b] = static_cast<std::uint8_t>(encode_one(scale.value, scale_codec));
        for (std::uint64_t j = 0; j < place.count; ++j) {
            const std::uint64_t i = place.first + j * place.stride;
            const double element = block_element(cast, scale, in[i], first_word + i);
            if (out != nullptr)
                out[i] = element_value(cast.scaling.tensor_scale, static_cast<float>(element),
                                       scale.value, tensor.value);
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
    BlockPlaces grid;
    int block_size, element_bits, scale_bits;
    bool twos_complement, has_tensor_scale;
    float tensor, unit;  // unit: the smallest positive element
    Codec element_codec, scale_codec;
    unsigned long long *wide_element_at, *wide_scale_at;

    APSCOPE_HD std::uint64_t count() const { return grid.count(); }

    APSCOPE_HD float element(std::uint32_t code) const {
        if (!twos_complement) return decode_one(code, element_codec);
        return integer_value(code, 1u << (element_bits - 1), unit);
    }

    APSCOPE_HD void operator()(std::uint64_t b) const {
        const BlockPlaces::Place place = grid.place(b, block_size);
        if (scales[b] >> scale_bits != 0) note_first(wide_scale_at, b);
        const float scale = decode_one(std::uint32_t{scales[b]}, scale_codec);
        for (std::uint64_t j = 0; j < place.count; ++j) {
            const std::uint64_t i = place.first + j * place.stride;
            if (codes[i] >> element_bits != 0) note_first(wide_element_at, i);
            out[i] = element_value(has_tensor_scale, element(codes[i]), scale, tensor);
        }
    }
};

}  // namespace apscope::detail
