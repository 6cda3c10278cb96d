// Every number of a result's row, as bits where it is one: rows are equal exactly if these are.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/statistics/result_row.h"
#include "core/bits.h"

namespace apscope::detail::test {

inline std::vector<std::uint64_t> numbers(const ResultRow& r) {
    std::vector<std::uint64_t> all = {r.step_index,
                                      r.tensor_index,
                                      r.scheme_index,
                                      r.wire,
                                      r.skipped,
                                      static_cast<std::uint64_t>(r.wire_bits),
                                      static_cast<std::uint64_t>(r.side_bits)};
    for (const auto& count :
         {r.count, r.counted, r.nonzero, r.underflow, r.subnormal, r.saturated, r.overflow, r.nan,
          r.infinite, r.scale_exponent, r.block_count, r.block_saturated, r.block_scale_spread,
          r.block_range_max, r.noise_blocks}) {
        all.push_back(count ? static_cast<std::uint64_t>(*count) : ~std::uint64_t{0});
    }
    for (const double v : {r.underflow_rate,
                           r.bias,
                           r.relative_bias,
                           r.variance,
                           r.expected_bias,
                           r.expected_variance,
                           r.expected_bias_error,
                           r.expected_variance_error,
                           r.mse,
                           r.nmse,
                           r.sqnr_db,
                           r.cosine,
                           r.rescaled_nmse,
                           r.max_ulp,
                           r.sum_error,
                           r.sum_squared_error,
                           r.sum_squared_reference,
                           r.sum_signed_error,
                           r.sum_absolute_reference,
                           r.sum_noise,
                           r.sum_log2_error_over_noise,
                           r.error_over_noise,
                           r.pooled_error_over_noise,
                           r.split_underflow,
                           r.split_rounding,
                           r.split_saturation,
                           r.split_accumulation,
                           r.split_interaction,
                           r.block_range,
                           r.own_nmse,
                           r.own_cosine,
                           r.volume,
                           r.intra_volume}) {
        all.push_back(bits_cast<std::uint64_t>(v));
    }
    return all;
}

}  // namespace apscope::detail::test
