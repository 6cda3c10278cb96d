#include "emulation/codecs/optimal_levels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "emulation/codecs/statistics.h"

namespace apscope {

namespace {

// The data, sorted and brought to [-1, 1] by a power of two, with sums over the values up to each point.
class Sorted {
public:
    Sorted(std::span<const double> x, LevelSearch search, std::size_t candidates) : data_(x.begin(), x.end()) {
        std::sort(data_.begin(), data_.end());
        const double amax = amax_of(data_);
        int exponent = 0;
        if (amax > 0.0) std::frexp(amax, &exponent);
        exponent_ = exponent;
        for (double& v : data_) v = std::ldexp(v, -exponent) + 0.0;  // one zero
        count_.push_back(0);
        sum_.push_back(0.0);
        squares_.push_back(0.0);
        std::vector<std::size_t> upto;  // per distinct value, how much data is not above it
        for (std::size_t i = 0; i < data_.size(); ++i) {
            if (i + 1 == data_.size() || data_[i + 1] != data_[i]) {
                points_.push_back(data_[i]);
                upto.push_back(i + 1);
            }
            sum_.push_back(sum_.back() + data_[i]);
            squares_.push_back(squares_.back() + data_[i] * data_[i]);
        }
        if (search == LevelSearch::candidates && points_.size() > candidates) {
            std::vector<double> kept;
            std::vector<std::size_t> kept_upto;
            for (std::size_t c = 0; c < candidates; ++c) {
                const std::size_t at = c * (points_.size() - 1) / (candidates - 1);
                kept.push_back(points_[at]);
                kept_upto.push_back(upto[at]);
            }
            points_ = std::move(kept);
            upto = std::move(kept_upto);
        }
        count_.assign(upto.begin(), upto.end());
    }
    std::size_t size() const { return points_.size(); }
    double point(std::size_t i) const { return points_[i]; }
    double level(std::size_t i) const { return std::ldexp(points_[i], exponent_); }
    // Variance of the data in (point i, point j], between these two as neighbours.
    double between(std::size_t i, std::size_t j) const {
        const std::size_t a = count_[i], b = count_[j];
        const double n = static_cast<double>(b - a), low = points_[i], high = points_[j];
        const double v = (low + high) * (sum_[b] - sum_[a]) - (squares_[b] - squares_[a]) - n * (low * high);
        return std::max(v, 0.0);
    }

private:
    std::vector<double> data_, points_, sum_, squares_;
    std::vector<std::size_t> count_;
    int exponent_ = 0;
};

// best[j]: the least variance up to point j with so many levels, the last at j; from[j]: the level before.
struct Layer {
    std::vector<double> best;
    std::vector<std::size_t> from;
};

void fill(const Sorted& data, const Layer& before, Layer& now, std::size_t first, std::size_t last, std::size_t from_first, std::size_t from_last) {
    // The best predecessor of the middle splits what the two halves must look at.
    const std::size_t middle = first + (last - first) / 2;
    for (std::size_t i = from_first; i <= std::min(from_last, middle - 1); ++i) {
        const double v = before.best[i] + data.between(i, middle);
        if (v < now.best[middle]) {
            now.best[middle] = v;
            now.from[middle] = i;
        }
    }
    if (middle > first) fill(data, before, now, first, middle - 1, from_first, now.from[middle]);
    if (middle < last) fill(data, before, now, middle + 1, last, now.from[middle], from_last);
}

}  // namespace

std::vector<double> optimal_levels(std::span<const double> x, std::size_t k, LevelSearch search, std::size_t candidates) {
    if (x.empty()) return {0.0};
    const Sorted data(x, search, candidates);
    const std::size_t n = data.size();
    std::vector<double> levels;
    if (n <= k) {
        for (std::size_t i = 0; i < n; ++i) levels.push_back(data.level(i));
        return levels;
    }
    constexpr double never = std::numeric_limits<double>::infinity();
    std::vector<Layer> layers(k, {std::vector<double>(n, never), std::vector<std::size_t>(n, 0)});
    layers[0].best[0] = 0.0;  // the first level is the least value
    for (std::size_t t = 1; t < k; ++t) {
        if (search == LevelSearch::exact) {
            for (std::size_t j = t; j < n; ++j) fill(data, layers[t - 1], layers[t], j, j, t - 1, j - 1);
        } else {
            fill(data, layers[t - 1], layers[t], t, n - 1, t - 1, n - 2);
        }
    }
    for (std::size_t t = k, at = n - 1; t-- > 0; at = layers[t].from[at]) levels.push_back(data.level(at));
    std::reverse(levels.begin(), levels.end());
    return levels;
}

double level_variance(std::span<const double> x, std::span<const double> levels) {
    return fixed_sum(x.size(), [&](std::size_t i) {
        const auto above = std::upper_bound(levels.begin(), levels.end(), x[i]);
        return above == levels.begin() || above == levels.end() ? 0.0 : (x[i] - above[-1]) * (*above - x[i]);
    });
}

}  // namespace apscope
