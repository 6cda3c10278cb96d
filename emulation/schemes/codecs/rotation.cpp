#include "emulation/schemes/codecs/rotation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/fixed_shape_sum.h"
#include "emulation/schemes/codecs/hadamard.h"
#include "emulation/schemes/codecs/statistics.h"

namespace apscope::detail {

namespace {

constexpr std::size_t group = Rotation::size;

constexpr std::array<double, group> signs = [] {
    std::array<double, group> all{};
    for (std::size_t l = 0; l < group; ++l)
        all[l] = Rotation::is_negative(static_cast<int>(l)) ? -1.0 : 1.0;
    return all;
}();

void multiply_signs(std::span<double> whole_groups) {
    for (std::size_t first = 0; first < whole_groups.size(); first += group) {
        for (std::size_t l = 0; l < group; ++l) whole_groups[first + l] *= signs[l];
    }
}

}  // namespace

Row rotated(std::span<const double> x) {
    Row row(x.begin(), x.end());
    row.resize((x.size() + group - 1) / group * group, 0.0);
    multiply_signs(row);
    hadamard(row, group);
    return row;
}

void rotate_back(Row& rotated, std::size_t elements) {
    hadamard(rotated, group);
    multiply_signs(rotated);
    rotated.resize(elements);
}

void rotate_variance_back(Row& variance, std::size_t elements) {
    for (std::size_t first = 0; first < variance.size(); first += group) {
        double sum = 0.0;
        for (std::size_t l = 0; l < group; ++l) sum += variance[first + l];
        std::fill_n(variance.begin() + static_cast<std::ptrdiff_t>(first), group,
                    sum / static_cast<double>(group));
    }
    variance.resize(elements);
}

double amax_of(const RowReader& row, bool rotates, bool infinities) {
    double amax = 0.0;
    for_runs(row, sum_block, [&](std::size_t, std::span<const double> part) {
        Row rounded = rotates ? rotated(part) : Row(part.begin(), part.end());
        if (!infinities)
            std::ranges::replace_if(rounded, [](double x) { return std::isinf(x); }, 0.0);
        amax = std::max(amax, amax_of(rounded));
    });
    return amax;
}

}  // namespace apscope::detail
