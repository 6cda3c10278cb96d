// The numeric columns of a ResultRow, in order: lists for macros, for Python and C++ callers.
#pragma once

// clang-format off
#define APSCOPE_STATISTICS_COLUMNS(COUNT, REAL)                                                                     \
    COUNT(count) COUNT(counted) COUNT(nonzero) COUNT(underflow) REAL(underflow_rate) COUNT(subnormal)               \
    COUNT(saturated) COUNT(overflow) COUNT(nan) COUNT(infinite) REAL(bias) REAL(relative_bias) REAL(variance)       \
    REAL(expected_bias) REAL(expected_variance) REAL(expected_bias_error) REAL(expected_variance_error) REAL(mse)   \
    REAL(nmse) REAL(sqnr_db) REAL(cosine) REAL(rescaled_nmse) REAL(max_ulp) REAL(sum_error) REAL(sum_squared_error)  \
    REAL(sum_squared_reference) REAL(sum_signed_error) REAL(sum_absolute_reference)

// All columns of a RESULTS table that are neither text nor flags.
#define APSCOPE_NUMBER_COLUMNS(COUNT, REAL)                                                                          \
    APSCOPE_STATISTICS_COLUMNS(COUNT, REAL) REAL(split_underflow) REAL(split_rounding) REAL(split_saturation)          \
    REAL(split_accumulation) REAL(split_interaction) COUNT(block_count) COUNT(block_saturated)                       \
    COUNT(block_scale_spread) REAL(block_range) COUNT(block_range_max) REAL(own_nmse) REAL(own_cosine)               \
    REAL(error_over_noise) REAL(pooled_error_over_noise) COUNT(noise_blocks) REAL(sum_noise)                         \
    REAL(sum_log2_error_over_noise) COUNT(wire_bits) COUNT(side_bits)                                                \
    REAL(volume) REAL(intra_volume) COUNT(scale_exponent)
// clang-format on
