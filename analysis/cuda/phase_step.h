// The work of GPU threads for reductions in two phases in a replay (row_step.h), between the
// messages and the comparison of the result. The owner of a shard adds the messages in fp32, and
// encodes the sum by a scale that depends on the whole sum. So a replay runs twice through the
// item: first for the extents of the sums, from which the host takes the encodings, then for the
// result rows. Each line names a step, what one of its threads processes, and the result:
//
//      sum        an element                  the sum of the messages in fp32
//      extent     every 32nd of 4096 elements the largest magnitude of the sum, by a group
//      encoding   an element                  the sum encoded, decoded and divided
#pragma once

#include <cstdint>

#include "analysis/cuda/row_step.h"

namespace apscope::detail {

// Continues the sums over the workers with those of a range.
struct PhaseSumStep {
    const float* rounded;
    Piece piece;
    WorkerRange workers;
    WireCast cast;
    float* sums;

    APSCOPE_HD std::uint64_t count() const { return piece.count; }
    APSCOPE_HD void operator()(std::uint64_t i) const {
        float sum = workers.first != 0 ? sums[i] : 0.0f;
        for (int w = workers.first; w < workers.last; ++w) {
            const float sent = rounded[static_cast<std::uint64_t>(w) * piece.count + i],
                        y = cast.narrow ? sent : narrowed(cast.value_of(sent));
            sum = w == 0 ? y : sum + y;
        }
        sums[i] = sum;
    }
};

// What a choice of a scale sees of a sum. Made of 4-byte words, because a group of threads combines
// it by shuffles.
struct SumExtent {
    float largest;            // the largest finite magnitude
    std::uint32_t nonfinite;  // number of NaNs and infinities
};

struct SumExtentStep {
    static constexpr int width = 32;
    using Lane = SumExtent;

    const float* sums;  // of the part
    std::uint64_t elements;
    SumExtent* out;

    APSCOPE_HD std::uint64_t count() const {
        return (elements + sum_block - 1) / sum_block * width;
    }
    APSCOPE_HD SumExtent begin(std::uint64_t item) const {
        const std::uint64_t first = item / width * sum_block, left = elements - first,
                            end = first + (left < sum_block ? left : sum_block);
        SumExtent extent{};
        for (std::uint64_t i = first + item % width; i < end; i += width) {
            const float size = absolute(sums[i]);
            const bool is_finite = size - size == 0.0f;
            if (is_finite && size > extent.largest) extent.largest = size;
            extent.nonfinite += is_finite ? 0 : 1;
        }
        return extent;
    }
    APSCOPE_HD static SumExtent share(const SumExtent& lane) { return lane; }
    APSCOPE_HD static SumExtent combine(const SumExtent& a, const SumExtent& b) {
        return {b.largest > a.largest ? b.largest : a.largest, a.nonfinite + b.nonfinite};
    }
    APSCOPE_HD void finish(std::uint64_t item, const SumExtent&, const SumExtent& all) const {
        if (item % width == 0) out[item / width] = all;
    }
};

// The rounding of a sum that is not encoded.
struct NoRounding {
    using Number = float;
    APSCOPE_HD void operator()(float (&)[1], std::uint64_t) const {}
};

template <class Rounding>
struct SumEncodingStep {
    const float* sums;  // of the part
    std::uint64_t elements;
    std::uint64_t in_shard;  // index in the shard of the first
    Rounding rounding;       // with the stream of the shard's owner
    WireCast cast;
    double divisor;
    double* out;

    APSCOPE_HD std::uint64_t count() const { return elements; }
    APSCOPE_HD void operator()(std::uint64_t i) const {
        const double y = cast.value_of(rounded_for_wire(rounding, cast, sums[i], in_shard + i));
        out[i] = divisor != 1.0 ? y / divisor : y;
    }
};

}  // namespace apscope::detail
