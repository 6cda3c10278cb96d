// The columns of a ResultRow that hold statistics, in their order: a list for macros.
#pragma once

// clang-format off
#define APSCOPE_STATISTICS_COLUMNS(COUNT, REAL)                                                                     \
    COUNT(count) COUNT(counted) COUNT(nonzero) COUNT(underflow) REAL(underflow_rate) COUNT(subnormal)               \
    COUNT(saturated) COUNT(overflow) COUNT(nan) COUNT(infinite) REAL(bias) REAL(relative_bias) REAL(variance)       \
    REAL(expected_bias) REAL(expected_variance) REAL(expected_bias_error) REAL(expected_variance_error) REAL(mse)   \
    REAL(nmse) REAL(sqnr_db) REAL(cosine) REAL(rescaled_nmse) REAL(max_ulp) REAL(sum_error) REAL(sum_squared_error)  \
    REAL(sum_squared_reference) REAL(sum_signed_error) REAL(sum_absolute_reference)
// clang-format on
