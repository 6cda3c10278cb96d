#include "analysis/result_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/decibel.h"

namespace apscope {

namespace {

constexpr double missing = std::numeric_limits<double>::quiet_NaN();

double quotient(double numerator, double denominator) { return denominator == 0.0 ? missing : numerator / denominator; }

}  // namespace

ResultRow::ResultRow() {
    for (double* column : {&underflow_rate, &bias, &relative_bias, &variance, &expected_bias, &expected_variance,
                           &expected_bias_error, &expected_variance_error, &mse, &nmse, &sqnr_db, &cosine, &max_ulp, &sum_error,
                           &sum_squared_error, &sum_squared_reference}) {
        *column = missing;
    }
}

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
    row.relative_bias = quotient(s.sums[S::signed_error], s.sums[S::absolute_reference]);
    row.mse = quotient(row.sum_squared_error, pairs);
    row.variance = s.counted == 0 ? missing : std::max(row.mse - row.bias * row.bias, 0.0);
    row.nmse = quotient(row.sum_squared_error, row.sum_squared_reference);
    if (row.sum_squared_reference > 0.0) {
        row.sqnr_db = row.sum_squared_error == 0.0 ? std::numeric_limits<double>::infinity()
                                                   : fixed_decibel(row.sum_squared_reference / row.sum_squared_error);
    }
    row.cosine = quotient(s.sums[S::product], std::sqrt(row.sum_squared_reference) * std::sqrt(s.sums[S::squared_result]));
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

}  // namespace apscope
