// All numbers of a result row, reals as bits: two rows are equal if and only if these lists are.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/statistics/result_row.h"
#include "core/bits.h"

namespace apscope::detail::test {

inline std::vector<std::uint64_t> numbers(const ResultRow& r) {
    std::vector<std::uint64_t> all = {r.step_index,     r.tensor_index, r.scheme_index,
                                      r.topology_index, r.wire,         r.skipped};
#define APSCOPE_COUNT(name, unit, section, pools) \
    all.push_back(r.name ? static_cast<std::uint64_t>(*r.name) : ~std::uint64_t{0});
#define APSCOPE_BITS(name, unit, section, pools) all.push_back(static_cast<std::uint64_t>(r.name));
#define APSCOPE_REAL(name, unit, section, pools) all.push_back(bits_cast<std::uint64_t>(r.name));
    APSCOPE_NUMBER_COLUMNS(APSCOPE_COUNT, APSCOPE_BITS, APSCOPE_REAL)
#undef APSCOPE_COUNT
#undef APSCOPE_BITS
#undef APSCOPE_REAL
    return all;
}

inline void expect_same(const std::vector<ResultRow>& rows, const std::vector<ResultRow>& expected,
                        const std::string& what) {
    ASSERT_EQ(rows.size(), expected.size()) << what;
    for (std::size_t r = 0; r < rows.size(); ++r) {
        EXPECT_EQ(rows[r].topology, expected[r].topology) << what << ", row " << r;
        EXPECT_EQ(numbers(rows[r]), numbers(expected[r]))
            << what << ", row " << r << " " << rows[r].topology;
    }
}

}  // namespace apscope::detail::test
