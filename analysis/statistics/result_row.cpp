#include "analysis/statistics/result_row.h"

#include <algorithm>
#include <cmath>

#include "analysis/statistics/decibel.h"
#include "analysis/statistics/quotients.h"
#include "core/fixed_exp2.h"

namespace apscope::detail {

namespace {

// The sums omit non-finite values, so they do not describe a result with overflow, whose error is
// not finite.
double cosine_of(const ErrorStatistics& s) {
    using S = ErrorStatistics;
    if (s.overflow > 0) return 0.0;
    return quotient(s.sums[S::product],
                    std::sqrt(s.sums[S::squared_reference]) * std::sqrt(s.sums[S::squared_result]));
}

double nmse_of(const ErrorStatistics& s) {
    using S = ErrorStatistics;
    return nmse_of_sums(s.sums[S::squared_error], s.sums[S::squared_reference],
                        static_cast<double>(s.overflow));
}

double sqnr_of(const ErrorStatistics& s) {
    using S = ErrorStatistics;
    if (s.overflow > 0) return -infinity;
    if (!(s.sums[S::squared_reference] > 0.0)) return missing;
    return s.sums[S::squared_error] == 0.0
               ? infinity
               : fixed_decibel(s.sums[S::squared_reference] / s.sums[S::squared_error]);
}

// The least NMSE of f y over all factors f, which is 1 - cosine^2. With e = y - x, it equals
// (xx ee - xe^2) / (xx yy), which loses fewer digits than 1 - cosine^2 if the error is small.
double rescaled_nmse_of(const ErrorStatistics& s) {
    using S = ErrorStatistics;
    if (s.overflow > 0) return 1.0;
    const double xx = s.sums[S::squared_reference], ee = s.sums[S::squared_error],
                 yy = s.sums[S::squared_result];
    if (xx == 0.0) return missing;
    if (yy == 0.0) return 1.0;
    const double xe = s.sums[S::product] - xx;
    return std::clamp((xx * ee - xe * xe) / (xx * yy), 0.0, 1.0);
}

}  // namespace

void fill_columns(ResultRow& row, const ErrorStatistics& s, Moments moments, bool float_grid) {
    using S = ErrorStatistics;
    row.count = s.count;
    row.counted = s.counted;
    row.nonzero = s.nonzero;
    row.underflow = s.underflow;
    row.overflow = s.overflow;
    row.nan = s.nan;
    row.infinite = s.infinite;
    if (row.wire && float_grid) {
        row.subnormal = s.subnormal;
        row.saturated = s.saturated;
    }
    const double pairs = static_cast<double>(s.counted);
    row.underflow_rate = quotient(static_cast<double>(s.underflow), static_cast<double>(s.nonzero));
    row.sum_error = s.sums[S::error];
    row.sum_squared_error = s.sums[S::squared_error];
    row.sum_squared_reference = s.sums[S::squared_reference];
    row.bias = quotient(row.sum_error, pairs);
    row.sum_signed_error = s.sums[S::signed_error];
    row.sum_absolute_reference = s.sums[S::absolute_reference];
    row.relative_bias = quotient(row.sum_signed_error, row.sum_absolute_reference);
    row.mse =
        infinite_with(static_cast<double>(s.overflow), quotient(row.sum_squared_error, pairs));
    row.variance = s.overflow > 0   ? infinity
                   : s.counted == 0 ? missing
                                    : std::max(row.mse - row.bias * row.bias, 0.0);
    row.nmse = nmse_of(s);
    row.sqnr_db = sqnr_of(s);
    row.cosine = cosine_of(s);
    row.rescaled_nmse = rescaled_nmse_of(s);
    row.sum_product = s.sums[S::product];
    row.gain = s.overflow > 0 ? 0.0 : quotient(row.sum_product, row.sum_squared_reference);
    if (float_grid && s.counted > 0) row.max_ulp = s.max_ulp;
    if (s.counted == 0) return;
    if (moments == Moments::deterministic) {
        row.expected_bias = row.bias;
        row.expected_variance = 0.0;
    } else if (moments == Moments::closed_form && s.moments_defined && s.counted == s.count) {
        row.expected_bias = s.sums[S::expected_error] / pairs;
        row.expected_variance = s.sums[S::expected_variance] / pairs;
    }
}

void fill_skipped(ResultRow& row, const ErrorStatistics& reference) {
    using S = ErrorStatistics;
    row.count = reference.count;
    row.counted = reference.counted;
    row.nonzero = reference.nonzero;
    row.nan = reference.nan;
    row.infinite = reference.infinite;
    row.sum_squared_reference = reference.sums[S::squared_reference];
    row.sum_absolute_reference = reference.sums[S::absolute_reference];
}

void fill_split(ResultRow& row, const ErrorStatistics& s) {
    using P = ErrorSplit;
    double zero = 0.0;  // NaN if one of the sums is not finite
    for (const double sum : s.split.sums) zero += sum * 0.0;
    if (s.counted == 0 || zero != 0.0) return;
    row.split_underflow = s.split.sums[P::underflow];
    row.split_rounding = s.split.sums[P::rounding];
    row.split_saturation = s.split.sums[P::saturation];
    row.split_accumulation = s.split.sums[P::accumulation];
    row.split_interaction = s.split.sums[P::interaction];
}

void fill_noise(ResultRow& row, const OverNoise& over_noise, double noise) {
    const bool overflows = row.overflow.value_or(0) > 0;
    const double lost = row.skipped ? row.sum_squared_reference : row.sum_squared_error;
    row.noise_blocks = static_cast<std::int64_t>(over_noise.blocks);
    row.sum_noise = noise;
    row.sum_log2_error_over_noise = overflows ? infinity : over_noise.sum_log2;
    if (over_noise.blocks == 0) return;
    row.error_over_noise =
        fixed_exp2(row.sum_log2_error_over_noise / static_cast<double>(over_noise.blocks));
    row.pooled_error_over_noise = overflows ? infinity : quotient(lost, noise);
}

namespace {

void multiply(ResultRow::Count& count, double factor) {
    if (count) count = std::llround(static_cast<double>(*count) * factor);
}
void multiply(double& sum, double factor) { sum *= factor; }

constexpr bool adds_up(Pools pools) {
    return pools == Pools::sum || pools == Pools::part || pools == Pools::lost ||
           pools == Pools::sum_blocks;
}

}  // namespace

void stand_for_whole(ResultRow& row, double elements) {
    if (elements == 1.0) return;
    const ResultRow sample = row;
    multiply(row.count, elements);
#define APSCOPE_MULTIPLY(name, unit, section, pools) \
    if constexpr (adds_up(Pools::pools)) multiply(row.name, elements);
#define APSCOPE_BITS(name, unit, section, pools)
    APSCOPE_NUMBER_COLUMNS(APSCOPE_MULTIPLY, APSCOPE_BITS, APSCOPE_MULTIPLY)
#undef APSCOPE_MULTIPLY
#undef APSCOPE_BITS
    // The sum is scaled so that the mean over the blocks does not change.
    if (sample.noise_blocks.value_or(0) > 0)
        row.sum_log2_error_over_noise =
            sample.sum_log2_error_over_noise *
            (static_cast<double>(*row.noise_blocks) / static_cast<double>(*sample.noise_blocks));
}

void fill_own(ResultRow& row, const ErrorStatistics& s) {
    row.own_nmse = nmse_of(s);
    row.own_cosine = cosine_of(s);
}

}  // namespace apscope::detail
