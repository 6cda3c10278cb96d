// What the lanes of a block (error_lane.h) amount to: the sums and counts that a group of GPU
// threads combines by shuffles, and that become ErrorStatistics on the host.
#pragma once

#include <algorithm>
#include <cstdint>

#include "analysis/cuda/error_lane.h"

namespace apscope::detail {

// The sums over pairs, and the sums of expected errors and of variances.
inline constexpr int all_error_sums = ErrorStatistics::sum_count;
static_assert(all_error_sums == error_sums + 2);

// The statistics of a block, or of a part of it.
template <class Count>
struct alignas(16) ErrorTotals {
    double sum[all_error_sums];
    double max_ulp;
    Count count[ErrorCounts::size];
    Count undefined;  // roundings without known moments

    // All but the sums, whose order matters.
    template <class Other>
    APSCOPE_HD void join(const ErrorTotals<Other>& other) {
        for (int k = 0; k < ErrorCounts::size; ++k) count[k] += other.count[k];
        undefined += other.undefined;
        max_ulp = other.max_ulp > max_ulp ? other.max_ulp : max_ulp;
    }
};
using ErrorBlock = ErrorTotals<std::uint32_t>;

APSCOPE_HD ErrorBlock totals_of(const ErrorLane& pairs, const MomentLane& moments) {
    ErrorBlock totals{};
    for (int k = 0; k < error_sums; ++k) totals.sum[k] = pairs.sum[k];
    totals.sum[ErrorStatistics::expected_error] = moments.error;
    totals.sum[ErrorStatistics::expected_variance] = moments.variance;
    totals.max_ulp = pairs.max_ulp;
    for (int k = 0; k < ErrorCounts::size; ++k) totals.count[k] = pairs.count[k];
    totals.undefined = moments.undefined;
    return totals;
}
APSCOPE_HD ErrorBlock combined(ErrorBlock a, const ErrorBlock& b) {
    for (int k = 0; k < all_error_sums; ++k) a.sum[k] += b.sum[k];
    a.join(b);
    return a;
}

// Adds the totals to statistics, as the next block of them. Host only.
template <class Count>
void add_totals(ErrorStatistics& s, const ErrorTotals<Count>& totals) {
    using C = ErrorCounts;
    for (std::size_t k = 0; k < s.sums.size(); ++k) s.sums[k] += totals.sum[k];
    s.counted += totals.count[C::counted];
    s.nonzero += totals.count[C::nonzero];
    s.underflow += totals.count[C::underflow];
    s.subnormal += totals.count[C::subnormal];
    s.saturated += totals.count[C::saturated];
    s.overflow += totals.count[C::overflow];
    s.nan += totals.count[C::nan];
    s.infinite += totals.count[C::infinite];
    s.max_ulp = std::max(s.max_ulp, totals.max_ulp);
    s.moments_defined = s.moments_defined && totals.undefined == 0;
}

}  // namespace apscope::detail
