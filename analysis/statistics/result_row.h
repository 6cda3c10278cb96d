// One row of a RESULTS table and its columns by formula (docs/definitions.md, section 3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/statistics/error_statistics.h"

namespace apscope::detail {

struct ResultRow {
    // The subject of the row. Texts belong to the replay, so rows stay small.
    std::uint32_t step_index = 0, tensor_index = 0, scheme_index = 0;
    std::string format;    // the float format, else the grid
    std::string topology;  // empty at the wire
    bool wire = false;

    using Count = std::optional<std::int64_t>;
    Count count, counted, nonzero, underflow, subnormal, saturated, overflow, nan, infinite;
    // Missing is NaN: no column can be NaN otherwise.
    double underflow_rate, bias, relative_bias, variance, expected_bias, expected_variance,
        expected_bias_error, expected_variance_error, mse, nmse, sqnr_db, cosine, rescaled_nmse,
        max_ulp, sum_error, sum_squared_error, sum_squared_reference, sum_signed_error,
        sum_absolute_reference;
    Count noise_blocks;
    double sum_noise, sum_log2_error_over_noise, error_over_noise, pooled_error_over_noise;
    double split_underflow, split_rounding, split_saturation, split_accumulation, split_interaction;
    Count block_count, block_saturated, block_scale_spread, block_range_max;
    double block_range;
    double own_nmse, own_cosine;  // against the scheme's own truth
    std::int64_t wire_bits = 0, side_bits = 0;
    double volume, intra_volume;
    Count scale_exponent;
    bool skipped = false;
    std::string note;

    ResultRow();
};

// How the two expected columns of a row are computed.
enum class Moments {
    none,           // empty
    deterministic,  // the bias, and 0
    closed_form,    // from the statistics' sums
};

// Fills the columns that follow from the statistics.
void fill_columns(ResultRow& row, const ErrorStatistics& statistics, Moments moments,
                  bool float_grid);

// The columns of a dropped step: those that depend only on the reference, compared with itself.
void fill_skipped(ResultRow& row, const ErrorStatistics& reference);

// The parts of the squared error, for a row whose statistics have them; empty if unknown.
void fill_split(ResultRow& row, const ErrorStatistics& statistics);

// The error in units of the batch's noise, for a reduced row whose other columns are filled in.
// noise: its sum.
void fill_noise(ResultRow& row, const OverNoise& over_noise, double noise);

// The columns of a comparison with the scheme's own truth.
void fill_own(ResultRow& row, const ErrorStatistics& statistics);

}  // namespace apscope::detail
