// The largest magnitude of an array, on a GPU.
#pragma once

#include <cstdint>

#include "core/bits.h"
#include "emulation/cuda/cast/element_group.h"

namespace apscope::detail {

// Computes the largest of the magnitudes of an array whose bits are below `limit`. It is a maximum
// of integers, so it does not depend on the order of threads. A warp reads 32 runs of elements,
// each run in one access of all its lanes, and compares *amax_bits with its result once. The warps
// begin at the end of the array, so that the kernel which reads it next, from the front, finds the
// front in the cache.
struct AmaxStep {
    static constexpr int width = 32, size = 4, runs = 8;
    static constexpr std::uint64_t of_warp = width * size * runs;
    const float* in;
    std::uint64_t elements;
    std::uint32_t limit;
    std::uint32_t* amax_bits;

    struct Lane {
        std::uint32_t largest;
    };
    APSCOPE_HD std::uint64_t warps() const { return (elements + of_warp - 1) / of_warp; }
    APSCOPE_HD std::uint64_t count() const { return warps() * width; }
    APSCOPE_HD Lane begin(std::uint64_t i) const {
        const std::uint64_t first = (warps() - 1 - i / width) * of_warp + i % width * size;
        float values[runs][size];
        for (int r = 0; r < runs; ++r)
            load_group(in, {elements, 0}, first + r * (width * size), values[r]);
        Lane lane{0};
        for (const auto& run : values) {
            for (const float value : run) {
                const std::uint32_t magnitude = bits_cast<std::uint32_t>(value) & ~sign_bit<float>;
                if (magnitude < limit && magnitude > lane.largest) lane.largest = magnitude;
            }
        }
        return lane;
    }
    APSCOPE_HD Lane share(const Lane& lane) const { return lane; }
    APSCOPE_HD Lane combine(const Lane& a, const Lane& b) const {
        return a.largest > b.largest ? a : b;
    }
    APSCOPE_HD void finish(std::uint64_t i, const Lane&, const Lane& all) const {
        if (i % width == 0) note_largest(amax_bits, all.largest);
    }
};

}  // namespace apscope::detail
