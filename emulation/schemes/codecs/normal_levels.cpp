#include "emulation/schemes/codecs/normal_levels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

namespace apscope::detail {

namespace {

// The normal distribution at x in [-T, T], computed by sums of terms with the same sign. Only
// additions, multiplications, divisions and a square root are used, so the levels are the same on
// every machine; the C library's exp and erfc may differ between machines.
//
//      density = 1 / (sqrt(2 pi) sum over k of (x^2 / 2)^k / k!)
//      mass    = integral of the density from 0 to x
//              = density sum over k of x^(2k+1) / (1 * 3 * 5 * ... * (2k+1))
struct NormalAt {
    double x, density, mass;

    explicit NormalAt(double at) : x(at) {
        double exponential = 1.0, odd = x;
        for (double term = 1.0, k = 1.0; term > 1e-20; ++k) exponential += term *= x * x / 2 / k;
        for (double term = x, k = 3.0; std::fabs(term) > 1e-20; k += 2) odd += term *= x * x / k;
        density = 1 / (std::sqrt(2 * std::numbers::pi) * exponential);
        mass = density * odd;
    }
};

// The variance of stochastic rounding of N(0, 1) between a and b: the integral of
// (x - a) (b - x) density.
double between(const NormalAt& a, const NormalAt& b) {
    const double mass = b.mass - a.mass;
    return (a.x + b.x) * (a.density - b.density) - (mass + a.x * a.density - b.x * b.density) -
           a.x * b.x * mass;
}

constexpr double rounding = 1e-13;  // larger than the rounding errors of a sum of variances

// The best ascending choices of points from 0 on, by the number of points and the last of them.
class Choices {
public:
    explicit Choices(const NormalPoints& points)
        : size_(static_cast<std::size_t>(points.g) + 1), cost_(size_ * size_), best_(size_, 1e300) {
        for (int j = 0; j <= points.g; ++j) points_.emplace_back(points.level(j));
        for (std::size_t i = 0; i < size_; ++i) {
            for (std::size_t j = i + 1; j < size_; ++j)
                cost_[i * size_ + j] = between(points_[i], points_[j]);
        }
        best_[0] = 0.0;
    }

    // Adds a point to every choice.
    void extend() {
        std::vector<double> next(size_, 1e300);
        std::vector<int>& chosen = from_.emplace_back(size_, 0);
        for (std::size_t j = 1; j < size_; ++j) {
            for (std::size_t i = 0; i < j; ++i) {
                const double v = best_[i] + cost_[i * size_ + j];
                if (v > next[j] + rounding) continue;
                next[j] = std::min(next[j], v);
                chosen[j] = static_cast<int>(i);
            }
        }
        best_ = std::move(next);
    }
    // The variance of a choice that ends at point j and continues with its mirror images, by half.
    double half_of_symmetric(int j) const {
        const auto at = static_cast<std::size_t>(j), mirror = size_ - 1 - at;
        return best_[at] + (at == mirror ? 0.0 : between(points_[at], points_[mirror]) / 2);
    }
    std::vector<int> that_ends_at(int last) const {
        std::vector<int> levels{last};
        for (std::size_t k = from_.size(); k-- > 0;)
            levels.push_back(from_[k][static_cast<std::size_t>(levels.back())]);
        return {levels.rbegin(), levels.rend()};
    }

private:
    std::size_t size_;
    std::vector<NormalAt> points_;
    std::vector<double> cost_;            // variance of rounding to the neighbouring levels i < j
    std::vector<double> best_;            // variance of the choice that ends at a point
    std::vector<std::vector<int>> from_;  // by the number of points, the point before the last
};

}  // namespace

std::vector<int> normal_levels(int count, const NormalPoints& points) {
    Choices choices(points);
    for (int k = 1; k < count; ++k) choices.extend();
    return choices.that_ends_at(points.g);
}

std::vector<int> symmetric_normal_levels(int count, const NormalPoints& points) {
    Choices choices(points);
    for (int k = 1; k < count / 2; ++k) choices.extend();
    int last = 0;
    double least = 1e300;
    for (int j = 0; 2 * j <= points.g; ++j) {
        const double v = choices.half_of_symmetric(j);
        if (v > least + rounding) continue;
        least = std::min(least, v);
        last = j;
    }
    std::vector<int> levels = choices.that_ends_at(last);
    for (std::size_t k = levels.size(); k-- > 0;) levels.push_back(points.g - levels[k]);
    return levels;
}

}  // namespace apscope::detail
