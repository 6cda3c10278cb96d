// Reductions in two phases on a GPU (emulation/schemes/two_phase.h): the owner of a shard adds the
// messages in fp32 and encodes the sum by a scale that depends on the whole sum. Each line names a
// step, what one of its threads processes, and the result:
//
//      messages   a group of elements         the fp32 sum of the messages, in a training
//      sum        an element                  the fp32 sum of stored messages, in a replay
//      extent     every 32nd of 4096 elements the largest magnitude of the sum, in a replay
//      encoding   an element                  the sum encoded, decoded and divided
//
// The host chooses the encodings between the steps: those of the messages from the workers' rows,
// those of the sums from the extents, which PyTorch finds in a training.
#pragma once

#include <cstdint>

#include "core/fixed_shape_sum.h"
#include "core/ulps.h"
#include "emulation/cuda/allreduce/wire_scale.h"
#include "emulation/cuda/cast/element_group.h"

namespace apscope::detail {

// sum + the message of worker w
APSCOPE_HD float plus_message(float sum, int w, float stored, const WireScale& wire) {
    const float y = wire.narrow ? stored : narrowed(wire.value_of(stored));
    return w == 0 ? y : sum + y;
}

// Both continue the sums over the workers with those of a range.
template <class Rounding, int Size>
struct MessageSumStep {
    const float* rows;  // a row of range.count values per worker
    ElementRange range;
    WorkerRange workers;
    Rounding rounding;
    int random_bits;
    WireScale wire;
    PhiloxKey key;
    float* sums;

    APSCOPE_HD std::uint64_t count() const { return range.groups<Size>(); }
    APSCOPE_HD void operator()(std::uint64_t group) const {
        const std::uint64_t offset = range.offset<Size>(group);
        float sum[Size] = {};
        if (workers.first != 0) load_group(sums, range, offset, sum);
        for (int w = workers.first; w < workers.last; ++w) {
            float values[Size];
            load_group(rows + static_cast<std::uint64_t>(w) * range.count, range, offset, values);
            Rounding of_worker = rounding;
            set_worker(of_worker, key, static_cast<std::uint64_t>(w), random_bits);
            round_for_wire(of_worker, wire, values, range.first + offset);
            for (int j = 0; j < Size; ++j) sum[j] = plus_message(sum[j], w, values[j], wire);
        }
        store_group(sums, range, offset, sum);
    }
};
// Wires: OneWire, or PieceUnits of a replay.
template <class Wires>
struct PhaseSumStep {
    const float* stored;  // a row of `elements` values per worker
    std::uint64_t elements;
    WorkerRange workers;
    Wires wires;
    float* sums;

    APSCOPE_HD std::uint64_t count() const { return elements; }
    APSCOPE_HD void operator()(std::uint64_t i) const {
        float sum = workers.first != 0 ? sums[i] : 0.0f;
        for (int w = workers.first; w < workers.last; ++w) {
            const auto worker = static_cast<std::uint64_t>(w);
            sum = plus_message(sum, w, stored[worker * elements + i], wires.at(worker, i));
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
    template <int Size>
    APSCOPE_HD void operator()(float (&)[Size], std::uint64_t) const {}
};

// Result: float or double. Wires: OneWire or UnitWires.
template <class Rounding, class Result, class Wires = OneWire>
struct SumEncodingStep {
    const float* sums;  // of a shard, or of a part of it
    std::uint64_t elements;
    std::uint64_t in_shard;  // index in the shard of the first
    Rounding rounding;       // with the stream of the shard's owner
    Wires wires;
    double divisor;
    Result* out;

    APSCOPE_HD std::uint64_t count() const { return elements; }
    APSCOPE_HD void operator()(std::uint64_t i) const {
        const WireScale wire = wires.at(0, in_shard + i);
        float value[1] = {sums[i]};
        round_for_wire(rounding, wire, value, in_shard + i);
        double y = widened(value[0]);
        if (y == y) {  // multiplying and dividing could change a NaN's bits
            y = wire.value_of(value[0]);
            if (divisor != 1.0) y /= divisor;
        }
        if constexpr (sizeof(Result) == sizeof(float)) out[i] = narrowed(y);
        else out[i] = y;
    }
};

}  // namespace apscope::detail
