#include "bindings/cpp/apscope/statistics.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/statistics/cast_statistics.h"
#include "analysis/statistics/result_row.h"
#include "bindings/cpp/apscope/quantizer.h"
#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/overlap.h"
#include "core/error.h"
#include "core/float_environment.h"
#include "core/parse.h"

namespace apscope {
namespace {

// Copies one cell of a row. No count of a cast is empty; the counts are optional only because other
// rows of a replay may have empty cells.
void take(double& to, double from) { to = from; }
void take(std::int64_t& to, const std::optional<std::int64_t>& from) { to = from.value_or(0); }

float as_float(double value, std::size_t place) {
    const float narrow = static_cast<float>(value);
    if (static_cast<double>(narrow) == value || std::isnan(value)) return narrow;
    throw error(
        "element " + std::to_string(place) + " is " + detail::shortest(value) +
        ", which is not an fp32 number; statistics need fp32 numbers, so convert to float first");
}

}  // namespace

CastStatistics cast_statistics(std::span<const float> x, const Quantizer& q,
                               std::span<float> out) try {
    if (overlap(x, out)) {  // the statistics read the input after the output is written
        throw error("the output overlaps the input, which the statistics compare "
                    "it with; give another array");
    }
    const detail::ResultRow row =
        detail::cast_statistics(x, out, q.format(), q.projection(), q.seed(), q.threads());
    CastStatistics statistics;
    detail::for_each_statistic(statistics, row, [](auto& to, const auto& from) { take(to, from); });
    return statistics;
} catch (...) {
    detail::throw_error();
}

CastStatistics cast_statistics(std::span<const double> x, const Quantizer& q) try {
    const detail::FloatEnvironment environment;
    std::vector<float> narrow(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) narrow[i] = as_float(x[i], i);
    return cast_statistics(narrow, q);
} catch (...) {
    detail::throw_error();
}

}  // namespace apscope
