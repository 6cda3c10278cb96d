// The messages of block_row_step.h, from a task. Host only.
#pragma once

#include <bit>
#include <cstdint>

#include "analysis/cuda/block_row_step.h"
#include "analysis/replay/row_device.h"
#include "emulation/cuda/blocks/blocks_choice.h"

namespace apscope::detail {

inline BlockMoments make_block_moments(const BlockTask& task, const RandomStream& stream = {}) {
    const auto towards = [&](RoundingMode mode) {
        return make_cast<double>(task.format.element, {mode});
    };
    return {make_block_rounding(task.format, task.projection, stream),
            towards(RoundingMode::toward_zero), towards(RoundingMode::away_from_zero)};
}
// The limits of the elements.
inline FloatScale limits_of(const BlockTask& task) {
    const FloatFormat& element = task.format.element;
    return {make_cast<double>(element, task.projection), 1.0, 1.0, element.smallest_normal(),
            element.largest()};
}

// count: the elements of a piece. amax_bits: one for every worker, if the format has a tensor
// scale.
inline BlockMessages make_block_messages(const BlockTask& task, std::uint64_t count,
                                         const float* values, const std::uint8_t* codes,
                                         const std::uint8_t* scales, double* factors,
                                         const std::uint32_t* amax_bits) {
    const BlockFormat& format = task.format;
    const FloatFormat& element = format.element;
    const auto size = static_cast<unsigned>(format.block_size);
    return {values,
            codes,
            scales,
            factors,
            count,
            (count + size - 1) / size,
            std::countr_zero(size),
            make_block_moments(task),
            make_codec(element),
            make_codec(format.scale),
            static_cast<float>(element.smallest_positive()),
            element.storage_bits(),
            limits_of(task),
            amax_bits};
}

}  // namespace apscope::detail
