// Compares error statistics: counts, and sums bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/statistics/error_statistics.h"
#include "core/bits.h"

namespace apscope::detail::test {

inline void expect_same(const ErrorStatistics& a, const ErrorStatistics& b,
                        const std::string& what) {
    const auto counts = [](const ErrorStatistics& s) {
        return std::vector<std::uint64_t>{s.count,     s.counted,   s.nonzero,
                                          s.underflow, s.subnormal, s.saturated,
                                          s.overflow,  s.nan,       s.infinite};
    };
    EXPECT_EQ(counts(a), counts(b)) << what;
    for (std::size_t k = 0; k < a.sums.size(); ++k)
        EXPECT_EQ(bits_cast<std::uint64_t>(a.sums[k]), bits_cast<std::uint64_t>(b.sums[k]))
            << what << " sum " << k;
    EXPECT_EQ(a.max_ulp, b.max_ulp) << what;
}

}  // namespace apscope::detail::test
