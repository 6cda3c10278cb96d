// ExponentHistogram: counts the values in each binade of fp32, and zeros, infinities and NaNs
// separately, and keeps the largest finite magnitude. Merging adds the counts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "core/rounding.h"

namespace apscope::detail {

struct ExponentHistogram {
    // The least and the largest floor(log2 |x|) of finite fp32 numbers other than 0.
    static constexpr int min_exponent = -149, max_exponent = 127;
    std::array<std::uint64_t, max_exponent - min_exponent + 1> finite{};
    std::uint64_t zero = 0, infinite = 0, nan = 0;
    float amax = 0.0f;

    void add(std::span<const float> values);
    void add_each(std::span<const float> values);  // like add(), but value by value
    void merge(const ExponentHistogram& other) {
        for (std::size_t i = 0; i < finite.size(); ++i) finite[i] += other.finite[i];
        zero += other.zero;
        infinite += other.infinite;
        nan += other.nan;
        amax = std::max(amax, other.amax);
    }
    std::uint64_t count(int exponent) const {
        return finite[static_cast<std::size_t>(exponent - min_exponent)];
    }
};

// Calls visit(kind, exponent, count) for every count that is not 0. kind: finite, zero, infinite or
// nan; exponent: that of the binade, for finite numbers.
template <class Visit>
void for_each_bin(const ExponentHistogram& h, const Visit& visit) {
    const auto bin = [&](const char* kind, std::optional<int> exponent, std::uint64_t count) {
        if (count != 0) visit(kind, exponent, count);
    };
    for (int e = ExponentHistogram::min_exponent; e <= ExponentHistogram::max_exponent; ++e)
        bin("finite", e, h.count(e));
    bin("zero", {}, h.zero);
    bin("infinite", {}, h.infinite);
    bin("nan", {}, h.nan);
}

}  // namespace apscope::detail
