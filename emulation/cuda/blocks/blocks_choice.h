// Makes the steps of a block format and chooses the fast ones where they serve. Host only.
#pragma once

#include <bit>
#include <cmath>
#include <optional>

#include "emulation/blocks/block_job.h"
#include "emulation/blocks/blocks.h"
#include "emulation/cast/cast_plan.h"
#include "emulation/cuda/blocks/amax_step.h"
#include "emulation/cuda/blocks/block_step.h"
#include "emulation/cuda/blocks/row_blocks_step.h"
#include "emulation/cuda/cast/step_choice.h"

namespace apscope::detail {

inline BlockScaling make_block_scaling(const BlockFormat& f) {
    BlockScaling s{};
    s.rule = f.rule;
    s.tensor_scale = f.tensor_scale;
    constexpr std::uint32_t infinity = infinity_bits<float>, nothing = ~std::uint32_t{0};
    const bool apart = f.nonfinite == BlockNonfinite::apart;
    s.nan_from = f.nonfinite == BlockNonfinite::torchao              ? infinity
                 : f.nonfinite == BlockNonfinite::transformer_engine ? nothing
                 : apart && f.element.has_nan()                      ? nothing
                                                                     : infinity + 1;
    s.counted_below = infinity + (apart ? 0 : 1);
    const ScaleStep step = scale_step(f);
    s.exponent_offset = 127 + f.element.emax() - step.base;
    s.round_up_from = fraction_from<float>(step.from);
    s.min_exponent = std::ilogb(f.scale.smallest_positive());
    s.zero_exponent = s.min_exponent;
    s.max_exponent = f.scale.emax();
    s.infinite_exponent =
        f.nonfinite == BlockNonfinite::transformer_engine || f.rule == ScaleRule::rceil
            ? s.max_exponent
            : scale_exponent(f, 0x1p128);
    s.largest = static_cast<float>(f.element.largest());
    s.one_over_largest = 1.0f / s.largest;
    s.range = s.largest * static_cast<float>(f.scale.largest());
    const Cast<float> scale =
        make_cast<float>(f.scale, {RoundingMode::ties_to_even, Overflow::saturate});
    s.scale = make_addition_cast(scale);
    s.scale_by_addition = is_plain(scale) && grid_serves(f.scale, scale);
    return s;
}

inline bool nan_is_largest(const BlockFormat& f) {
    return f.nonfinite == BlockNonfinite::transformer_engine && !f.element.has_nan();
}

inline BlockRounding make_block_rounding(const BlockFormat& format, const Projection& projection,
                                         const RandomStream& stream) {
    return {make_cast<double>(format.element, projection),
            make_block_scaling(format),
            nan_is_largest(format),
            format.twos_complement,
            format.block_size,
            stream};
}

inline BlockPlaces make_block_places(const BlockShape& shape, const BlockFormat& format) {
    return {shape.outer, shape.length, shape.inner, shape.blocks(format)};
}

// The random words of an array's elements: element i draws word first + i, where `first` is a
// multiple of 8.
struct BlockWords {
    RandomStream stream;
    std::uint64_t first = 0;

    static BlockWords of_array(std::uint64_t seed, const Projection& projection) {
        return {array_stream(seed, projection.random_bits)};
    }
};

inline EncodeBlocksStep make_encode_blocks(const float* in, float* out, std::uint8_t* codes,
                                           std::uint8_t* scales, const BlockShape& shape,
                                           const BlockFormat& format, const Projection& projection,
                                           const BlockWords& words,
                                           const std::uint32_t* amax_bits) {
    return {in,
            out,
            codes,
            scales,
            make_block_places(shape, format),
            make_block_rounding(format, projection, words.stream),
            words.first,
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
            make_block_places(shape, format),
            format.block_size,
            format.element.storage_bits(),
            format.scale.storage_bits(),
            format.twos_complement,
            format.tensor_scale,
            tensor,
            static_cast<float>(format.element.smallest_positive()),
            make_codec(format.element),
            make_codec(format.scale),
            wide_element_at,
            wide_scale_at};
}

// Rows that end with a complete block are one long row.
inline RowGrid make_row_grid(const BlockShape& shape, const BlockFormat& format) {
    const auto size = static_cast<std::size_t>(format.block_size);
    const int bits = std::countr_zero(size);
    if (shape.length % size == 0)
        return {1, shape.outer * shape.length, shape.outer * (shape.length / size), bits};
    return {shape.outer, shape.length, shape.blocks(format), bits};
}

// The maps between values and codes of the two formats, if there are maps; and whether the blocks
// of the shape are runs of a power of two elements.
struct RowCodes {
    ElementCodes element;
    ScaleCodes scale;
};
inline std::optional<RowCodes> make_row_codes(const BlockShape& shape, const BlockFormat& f) {
    if (shape.inner != 1 || f.block_size < DecodeRowsStep::size ||
        !std::has_single_bit(static_cast<unsigned>(f.block_size)))
        return std::nullopt;
    RowCodes c{};
    c.element.twos_complement = f.twos_complement;
    c.element.unit = static_cast<float>(f.element.smallest_positive());
    c.element.lift = c.element.unit * 0x1.8p23f;
    c.element.mask = (1u << f.element.storage_bits()) - 1;
    c.element.half = 1u << (f.element.storage_bits() - 1);
    c.element.sign_shift = 32 - f.element.storage_bits();
    const std::optional<CodeMap> element = make_code_plan(f.element);
    if (!f.twos_complement && (!element || f.element.bias < 0)) return std::nullopt;
    if (!f.twos_complement) {
        c.element.map = *element;
        c.element.factor = float_power_of_two(127 - f.element.bias);
        c.element.per_factor = float_power_of_two(f.element.bias - 127);
        c.element.other_values = element->negative_zero != sign_bit<float>;
    }
    if (f.rule == ScaleRule::ratio) {
        const std::optional<CodeMap> scale = make_code_plan(f.scale);
        if (!scale) return std::nullopt;
        c.scale.map = *scale;
        return c;
    }
    const Codec codec = make_codec(f.scale);
    c.scale = {true, std::ilogb(f.scale.smallest_positive()), codec.top_finite, codec.nan_code, {}};
    // Code 0 of e8m0 and its like is the smallest power of two.
    if (decode_one(std::uint32_t{0}, codec) != float_power_of_two(c.scale.least))
        return std::nullopt;
    return c;
}

// Returns whether x 2^-k is exact or tiny for every k, and 2^-k an fp32 number (row_blocks_step.h).
// With stochastic rounding, a thread's elements must begin with a block of random words.
inline bool row_blocks_serve(const BlockShape& shape, const BlockFormat& f, const Projection& p) {
    const bool powers = f.rule != ScaleRule::ratio;
    return f.block_size >= 16 && f.block_size <= 128 &&
           (!powers || (std::ilogb(f.scale.smallest_positive()) >= -127 && f.scale.emax() >= 0 &&
                        f.scale.emax() <= 127)) &&
           std::ilogb(f.element.smallest_positive()) >= -60 &&
           (!is_stochastic(p.rounding) || make_row_grid(shape, f).rows == 1 ||
            shape.length % 8 == 0);
}

// Calls f(rounding) with a rounding to the element format in fp32; returns false if there is none.
// With the rule ratio, elements are limited to the largest one.
template <class F>
bool with_element_rounding(const BlockFormat& format, const Projection& projection,
                           const RandomStream& stream, F&& f) {
    CastPlan<float> plan = make_plan<float>(format.element, projection);
    std::optional<SplitCast> split = split_cast(format.element, plan);
    const bool adds = plan.path == CastPath::addition;
    if (!adds && !split) return false;
    Cast<float>& cast = adds ? plan.addition.cast : split->cast;
    const std::uint32_t largest = cast.largest, lowest = largest | sign_bit<float>;
    if (format.rule == ScaleRule::ratio) {
        cast.overflow_positive = cast.infinite_positive = largest;
        cast.overflow_negative = cast.infinite_negative = lowest;
    }
    const bool limits = cast.overflow_positive == largest && cast.infinite_positive == largest &&
                        cast.overflow_negative == lowest && cast.infinite_negative == lowest;
    if (adds && limits) f(LimitedAddition{plan.addition});
    else if (adds) f(AdditionRounding{plan.addition});
    else f(SplitRounding{*split, stream});
    return true;
}

// Calls f(step) with the step that quantizes to `out` and encodes to `codes` and `scales`; null
// arrays are not written.
template <class F>
void with_encode_blocks(const float* in, float* out, std::uint8_t* codes, std::uint8_t* scales,
                        const BlockShape& shape, const BlockFormat& format,
                        const Projection& projection, const BlockWords& words,
                        const std::uint32_t* amax_bits, F&& f) {
    validate(projection, format.element);
    require_counted(projection.rounding, "blocks");
    const std::optional<RowCodes> row = make_row_codes(shape, format);
    const RoundingMode mode = projection.rounding;
    const bool tells_tiny =
        format.rule != ScaleRule::ratio && !is_nearest(mode) && mode != RoundingMode::toward_zero;
    const auto by_lanes = [&]<int Width, class Rounding>(const Rounding& rounding) {
        f(EncodeRowsStep<Rounding, Width>{in, out, codes, scales, make_row_grid(shape, format),
                                          make_block_scaling(format), rounding, words.first,
                                          nan_is_largest(format), tells_tiny, row->element,
                                          row->scale, amax_bits});
    };
    const bool by_rows =
        row && row_blocks_serve(shape, format, projection) &&
        with_element_rounding(format, projection, words.stream, [&](const auto& rounding) {
            switch (format.block_size) {
                case 16: return by_lanes.template operator()<2>(rounding);
                case 32: return by_lanes.template operator()<4>(rounding);
                case 64: return by_lanes.template operator()<8>(rounding);
                default: return by_lanes.template operator()<16>(rounding);
            }
        });
    if (!by_rows)
        f(make_encode_blocks(in, out, codes, scales, shape, format, projection, words, amax_bits));
}

// Calls f(step) with the step that decodes.
template <class F>
void with_decode_blocks(const std::uint8_t* codes, const std::uint8_t* scales, float tensor,
                        float* out, const BlockShape& shape, const BlockFormat& format,
                        unsigned long long* wide_element_at, unsigned long long* wide_scale_at,
                        F&& f) {
    if (const std::optional<RowCodes> row = make_row_codes(shape, format)) {
        f(DecodeRowsStep{codes, scales, out, make_row_grid(shape, format),
                         format.element.storage_bits(), format.scale.storage_bits(),
                         format.tensor_scale, tensor, row->element, row->scale, wide_element_at,
                         wide_scale_at});
    } else {
        f(make_decode_blocks(codes, scales, tensor, out, shape, format, wide_element_at,
                             wide_scale_at));
    }
}

}  // namespace apscope::detail
