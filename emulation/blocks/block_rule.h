// Rounds one block of a block format by the rounding rule (core/rounding.h), element by element, on
// the fp64 numbers x / 2^k, which are exact. This is the reference for the loops of
// block_kernels.h, and the path for the blocks and formats that those loops do not support.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/block_format.h"
#include "core/codec.h"
#include "core/rounding.h"
#include "emulation/blocks/blocks.h"

namespace apscope::detail {

// The place of a block: its elements are first, first + stride, ..., and `scale` is the index of
// its scale.
struct BlockPlace {
    std::size_t first, stride, count, scale;
};

// The data of a format and a projection for encoding, derived once. The tensor scale is 1 until it
// is set.
struct BlockEncoder {
    BlockFormat format;
    Projection projection;
    BlockSettings settings;
    Cast<double> element, scale;
    Codec element_codec, scale_codec;
    float largest, tensor_scale, tensor_scale_inverse;

    BlockEncoder(const BlockFormat& f, const Projection& p, const BlockSettings& given);
    // `amax` is the largest magnitude of the array's finite elements, or of all its numbers if
    // infinities count.
    void set_tensor_scale(float amax);
    // The code of an element; `value` is its fp32 value.
    std::uint8_t element_code(float value) const;
};

// `in` and `out` are the complete arrays; they may be the same array.
template <class Real>
void quantize_block_by_rule(const Real* in, Real* out, const BlockPlace& place,
                            const BlockEncoder& encoder);
template <class Real>
void encode_block_by_rule(const Real* in, std::uint8_t* codes, std::uint8_t* scales,
                          const BlockPlace& place, const BlockEncoder& encoder);

// The values of all codes, of elements and of scales.
std::vector<double> element_values(const BlockFormat& format);
std::vector<double> scale_values(const BlockFormat& format);

// The value element * scale / tensor scale. The product is exact in fp64, and in fp32 for rule
// ratio, whose division is an fp32 division.
template <class Real>
Real combine_block_value(const BlockFormat& f, double element, double scale, float tensor_scale);

}  // namespace apscope::detail
