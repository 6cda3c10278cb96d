// Makes the steps of a block format. Host only.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>

#include "emulation/blocks/blocks.h"
#include "emulation/cuda/blocks/block_step.h"

namespace apscope::detail {

inline BlockGrid make_block_grid(const BlockShape& shape, const BlockFormat& format) {
    return {shape.outer, shape.length, shape.inner, shape.blocks(format)};
}

// The limit of bits below which magnitudes count in the amax of an array.
inline std::uint32_t amax_limit(const BlockFormat& f) {
    return infinity_bits<float> + (f.nonfinite == BlockNonfinite::transformer_engine ? 1 : 0);
}

inline BlockRounding make_block_cast(const BlockFormat& f, const Projection& p,
                                     std::uint64_t seed) {
    validate(p, f.element);
    require_counted(p.rounding, "blocks");
    BlockRounding c{};
    c.element = make_cast<double>(f.element, p);
    c.scale = make_cast<double>(f.scale, {RoundingMode::ties_to_even, Overflow::saturate});
    c.rule = f.rule;
    c.nonfinite = f.nonfinite;
    c.tensor_scale = f.tensor_scale;
    c.element_has_nan = f.element.has_nan();
    c.twos_complement = f.twos_complement;
    c.block_size = f.block_size;
    const ScaleStep step = scale_step(f);
    c.exponent_offset = f.element.emax() - step.base;
    c.round_up_from = step.from;
    c.min_exponent = std::ilogb(f.scale.smallest_positive());
    c.max_exponent = f.scale.emax();
    c.infinite_exponent =
        f.nonfinite == BlockNonfinite::transformer_engine || f.rule == ScaleRule::rceil
            ? c.max_exponent
            : scale_exponent(f, 0x1p128);
    c.largest = static_cast<float>(f.element.largest());
    c.range = c.largest * static_cast<float>(f.scale.largest());
    c.stream = array_stream(seed, p.random_bits);
    return c;
}

inline EncodeBlocksStep make_encode_blocks(const float* in, float* out, std::uint8_t* codes,
                                           std::uint8_t* scales, const BlockShape& shape,
                                           const BlockFormat& format, const Projection& projection,
                                           std::uint64_t seed, const std::uint32_t* amax_bits) {
    return {in,
            out,
            codes,
            scales,
            make_block_grid(shape, format),
            make_block_cast(format, projection, seed),
            make_codec(format.element),
            make_codec(format.scale),
            amax_bits};
}

inline DecodeBlocksStep make_decode_blocks(const std::uint8_t* codes, const std::uint8_t* scales,
                                           float tensor, float* out, const BlockShape& shape,
                                           const BlockFormat& format,
                                           unsigned long long* wide_element_at,
                                           unsigned long long* wide_scale_at) {
    return {codes,
            scales,
            out,
            make_block_grid(shape, format),
            format.block_size,
            format.element.storage_bits(),
            format.scale.storage_bits(),
            format.twos_complement,
            format.tensor_scale,
            tensor,
            make_codec(format.element),
            make_codec(format.scale),
            wide_element_at,
            wide_scale_at};
}

}  // namespace apscope::detail
