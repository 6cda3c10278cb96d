#include "analysis/statistics/draw_samples.h"

#include <cmath>
#include <utility>

#include "core/fixed_shape_sum.h"

namespace apscope::detail {

void DrawSamples::add_block(std::span<const double> reference,
                            const std::function<const double*(std::size_t d)>& values) {
    const std::size_t count = reference.size(), draws = draw_error.size();
    std::vector<const double*> y;
    for (std::size_t d = 0; d < draws; ++d) y.push_back(values(d));
    for (std::size_t d = 0; d < draws; ++d) {
        draw_error[d] += block_sum(count, [&](std::size_t i) { return y[d][i] - reference[i]; });
    }
    // The sums are of deviations from draw 0, which lose no digits to cancellation.
    const double k = static_cast<double>(draws);
    std::vector<double> sum(count, 0.0), squares(count, 0.0);
    for (std::size_t d = 1; d < draws; ++d) {
        for (std::size_t i = 0; i < count; ++i) {
            const double z = y[d][i] - y[0][i];
            sum[i] += z;
            squares[i] += z * z;
        }
    }
    variance_sum += block_sum(
        count, [&](std::size_t i) { return (squares[i] - sum[i] * sum[i] / k) / (k - 1.0); });
    for (std::size_t d = 0; d < draws; ++d) {
        left_out[d] += block_sum(count, [&](std::size_t i) {
            const double z = y[d][i] - y[0][i];
            const double s = sum[i] - z;
            return ((squares[i] - z * z) - s * s / (k - 1.0)) / (k - 2.0);
        });
    }
}

void DrawSamples::merge(const DrawSamples& next) {
    for (std::size_t d = 0; d < draw_error.size(); ++d) {
        draw_error[d] += next.draw_error[d];
        left_out[d] += next.left_out[d];
    }
    variance_sum += next.variance_sum;
}

void DrawSamples::fill(ResultRow& row) const {
    if (empty() || !row.count || row.counted != row.count || *row.count == 0) return;
    const double n = static_cast<double>(*row.count), k = static_cast<double>(draw_error.size());
    // Returns the mean over the draws of sums over the tensor, each divided by n, and the sum of
    // squared deviations from this mean.
    const auto mean_and_squares = [&](const std::vector<double>& values) {
        double mean = 0.0, squares = 0.0;
        for (const double v : values) mean += v / n;
        mean /= k;
        for (const double v : values) squares += (v / n - mean) * (v / n - mean);
        return std::pair(mean, squares);
    };
    const auto [bias, bias_squares] = mean_and_squares(draw_error);
    const auto [spread, spread_squares] = mean_and_squares(left_out);
    if (!std::isfinite(bias) || !std::isfinite(spread)) return;  // a draw overflowed
    row.expected_bias = bias;
    row.expected_bias_error = std::sqrt(bias_squares / (k * (k - 1.0)));
    row.expected_variance = variance_sum / n;
    row.expected_variance_error = std::sqrt((k - 1.0) / k * spread_squares);
}

}  // namespace apscope::detail
