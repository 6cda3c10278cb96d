// The only list of the numeric columns of a table of results, in order. It determines the fields of
// ResultRow, the columns of Python's tables, of CSV files and of the C++ library, the columns that
// `pool` adds up and those that the report computes itself, and the table of docs/definitions.md,
// section 3.
//
// One line per column: KIND(name, unit, section, pools).
// - KIND: COUNT (an integer that may be empty), BITS (an integer) or REAL (a number that may be
//   empty).
// - unit: the unit of the column; "x" is the unit of the gradient.
// - section: the section of docs/definitions.md that has the formula.
// - pools: how rows are combined; the name of a Pools.
#pragma once

namespace apscope::detail {

enum class Pools {
    nothing,     // not pooled
    sum,         // a sum over the rows that have the column, without skipped rows
    part,        // a sum without skipped rows; empty if a row's cell is empty
    lost,        // a sum in which a skipped row counts as y = 0
    mean,        // a mean weighted by the number of elements
    quotient,    // computed from pooled sums
    sum_blocks,  // a sum from which the geometric mean over blocks is computed
};

}  // namespace apscope::detail

// The columns that the statistics of a single cast have, too.
#define APSCOPE_STATISTICS_COLUMNS(COUNT, REAL)      \
    COUNT(count, "pairs", 3, nothing)                \
    COUNT(counted, "pairs", 3, sum)                  \
    COUNT(nonzero, "pairs", 3, sum)                  \
    COUNT(underflow, "pairs", 3, sum)                \
    REAL(underflow_rate, "", 3, quotient)            \
    COUNT(subnormal, "pairs", 3, sum)                \
    COUNT(saturated, "pairs", 3, sum)                \
    COUNT(overflow, "pairs", 3, sum)                 \
    COUNT(nan, "pairs", 3, sum)                      \
    COUNT(infinite, "pairs", 3, sum)                 \
    REAL(bias, "x", 3, quotient)                     \
    REAL(relative_bias, "", 3, quotient)             \
    REAL(variance, "x^2", 3, quotient)               \
    REAL(expected_bias, "x", 5, nothing)             \
    REAL(expected_variance, "x^2", 5, nothing)       \
    REAL(expected_bias_error, "x", 5, nothing)       \
    REAL(expected_variance_error, "x^2", 5, nothing) \
    REAL(mse, "x^2", 3, quotient)                    \
    REAL(nmse, "", 3, quotient)                      \
    REAL(sqnr_db, "dB", 4, quotient)                 \
    REAL(cosine, "", 3, nothing)                     \
    REAL(rescaled_nmse, "", 3, nothing)              \
    REAL(max_ulp, "ulp", 3, nothing)                 \
    REAL(sum_error, "x", 3, sum)                     \
    REAL(sum_squared_error, "x^2", 3, lost)          \
    REAL(sum_squared_reference, "x^2", 3, lost)      \
    REAL(sum_signed_error, "x", 3, lost)             \
    REAL(sum_absolute_reference, "x", 3, lost)

// All columns of a table of results that are neither text nor flags.
#define APSCOPE_NUMBER_COLUMNS(COUNT, BITS, REAL)       \
    APSCOPE_STATISTICS_COLUMNS(COUNT, REAL)             \
    REAL(sum_product, "x^2", 3, sum)                    \
    REAL(gain, "", 3, quotient)                         \
    REAL(split_underflow, "x^2", 15, part)              \
    REAL(split_rounding, "x^2", 15, part)               \
    REAL(split_saturation, "x^2", 15, part)             \
    REAL(split_accumulation, "x^2", 15, part)           \
    REAL(split_interaction, "x^2", 15, part)            \
    COUNT(block_count, "blocks", 3, sum)                \
    COUNT(block_saturated, "blocks", 3, sum)            \
    COUNT(block_scale_spread, "binades", 3, nothing)    \
    REAL(block_range, "binades", 3, nothing)            \
    COUNT(block_range_max, "binades", 3, nothing)       \
    REAL(own_nmse, "", 1, nothing)                      \
    REAL(own_cosine, "", 1, nothing)                    \
    REAL(error_over_noise, "", 16, quotient)            \
    REAL(pooled_error_over_noise, "", 16, quotient)     \
    COUNT(noise_blocks, "blocks", 16, sum_blocks)       \
    REAL(sum_noise, "x^2", 16, sum_blocks)              \
    REAL(sum_log2_error_over_noise, "", 16, sum_blocks) \
    BITS(wire_bits, "bits", 3, nothing)                 \
    BITS(side_bits, "bits", 3, nothing)                 \
    REAL(volume, "", 12, mean)                          \
    REAL(intra_volume, "", 12, nothing)                 \
    COUNT(scale_exponent, "binades", 3, nothing)
