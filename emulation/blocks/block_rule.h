// Rounds one block of a block format by the rounding rule (core/rounding.h), element by element.
// With the scale 2^k, the rule rounds the fp64 numbers x / 2^k, which are exact. This is the
// reference for the loops of block_kernels.h, and the path for the blocks and formats that those
// loops do not support.
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

// A block format and a projection, prepared for encoding. The tensor scale is 1 until
// set_tensor_scale() sets it.
struct BlockEncoder {
    BlockFormat format;
    Projection projection;
    BlockSettings settings;
    // The casts and the codecs of the two formats.
    Cast<double> element, scale;
    Codec element_codec, scale_codec;
    float largest, tensor_scale, tensor_scale_inverse;  // largest: the largest element

    BlockEncoder(const BlockFormat& f, const Projection& p, const BlockSettings& given);
    // `amax` is the largest magnitude of the array's finite elements, or of all elements but NaNs
    // if infinities count.
    void set_tensor_scale(float amax);
    // The code of an element, in the low bits; `value` is the value of the element, without the
    // scale.
    std::uint8_t element_code(float value) const;
};

// The arrays of these functions are complete; `in` and `out` may be the same array.
template <class Real>
void quantize_block_by_rule(const Real* in, Real* out, const BlockPlace& place,
                            const BlockEncoder& encoder);
template <class Real>
void encode_block_by_rule(const Real* in, std::uint8_t* codes, std::uint8_t* scales,
                          const BlockPlace& place, const BlockEncoder& encoder);

// The values of all element codes, and of all scale codes, in the order of the codes.
std::vector<double> element_values(const BlockFormat& format);
std::vector<double> scale_values(const BlockFormat& format);

// Returns element * scale / tensor_scale. The product is exact in fp64, and also in fp32 for the
// rule `ratio`, whose division is an fp32 division.
template <class Real>
Real combine_block_value(const BlockFormat& f, double element, double scale, float tensor_scale);

}  // namespace apscope::detail
