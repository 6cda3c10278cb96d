// One row of a RESULTS table, and functions that compute its columns (docs/definitions.md, section
// 3).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "analysis/statistics/error_statistics.h"
#include "analysis/statistics/result_columns.h"

namespace apscope::detail {

struct ResultRow {
    // Indices of the row's names; the replay has the texts, so rows stay small.
    std::uint32_t step_index = 0, tensor_index = 0, scheme_index = 0, topology_index = 0;
    std::string format;    // the float format, or the name of another grid
    std::string topology;  // empty for the wire
    bool wire = false;

    using Count = std::optional<std::int64_t>;
    // The numeric columns. A count without a value and a real number NaN are empty cells.
#define APSCOPE_COUNT(name, unit, section, pools) Count name;
#define APSCOPE_BITS(name, unit, section, pools) std::int64_t name = 0;
#define APSCOPE_REAL(name, unit, section, pools) \
    double name = std::numeric_limits<double>::quiet_NaN();
    APSCOPE_NUMBER_COLUMNS(APSCOPE_COUNT, APSCOPE_BITS, APSCOPE_REAL)
#undef APSCOPE_COUNT
#undef APSCOPE_BITS
#undef APSCOPE_REAL
    bool skipped = false;
    std::string note;
};

// How the two expected columns of a row are computed.
enum class Moments {
    none,           // the columns stay empty
    deterministic,  // the bias is the mean error, the variance is 0
    closed_form,    // computed from the statistics' sums
};

// Fills the columns that are computed from the statistics.
void fill_columns(ResultRow& row, const ErrorStatistics& statistics, Moments moments,
                  bool float_grid);

// Fills the columns of a dropped step that depend only on the reference; `reference` compares the
// reference with itself.
void fill_skipped(ResultRow& row, const ErrorStatistics& reference);

// Fills the parts of the squared error for a row whose statistics have them; the cells stay empty
// if a part is not finite.
void fill_split(ResultRow& row, const ErrorStatistics& statistics);

// Fills the error in units of the batch's noise for a reduced row whose other columns are filled
// in. noise: the sum of the noise over the row's elements.
void fill_noise(ResultRow& row, const OverNoise& over_noise, double noise);

// Scales a row of a sample of a tensor to the complete tensor: counts, which are rounded to
// nearest, and sums are multiplied. elements: the number of elements of the tensor per element of
// the sample. Columns of bits do not change.
void stand_for_whole(ResultRow& row, double elements);

// Fills the columns that compare the result with the values that the workers intended to send.
void fill_own(ResultRow& row, const ErrorStatistics& statistics);

}  // namespace apscope::detail
