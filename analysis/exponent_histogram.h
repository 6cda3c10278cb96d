// ExponentHistogram: how many values lie in each binade of fp32; zeros, infinities and NaNs apart.
// Mergeable: counts add.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/rounding.h"

namespace apscope {

struct ExponentHistogram {
    static constexpr int least = -149, most = 127;  // floor(log2 |x|) of fp32's finite values
    std::array<std::uint64_t, most - least + 1> finite{};
    std::uint64_t zero = 0, infinite = 0, nan = 0;

    void add(std::span<const float> values) {
        for (const float value : values) {
            const std::uint32_t magnitude = bits_cast<std::uint32_t>(value) & 0x7FFFFFFF;
            if (magnitude == 0) ++zero;
            else if (magnitude < 0x7F800000) ++finite[static_cast<std::size_t>(exponent_of<float>(magnitude) - least)];
            else if (magnitude == 0x7F800000) ++infinite;
            else ++nan;
        }
    }
    void merge(const ExponentHistogram& other) {
        for (std::size_t i = 0; i < finite.size(); ++i) finite[i] += other.finite[i];
        zero += other.zero;
        infinite += other.infinite;
        nan += other.nan;
    }
    std::uint64_t count(int exponent) const { return finite[static_cast<std::size_t>(exponent - least)]; }
};

}  // namespace apscope
