#include "emulation/schemes/codecs/normal_levels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

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

}  // namespace

std::vector<int> normal_levels(int count, int g) {
    const auto size = static_cast<std::size_t>(g) + 1;
    std::vector<NormalAt> points;
    for (int j = 0; j <= g; ++j) points.emplace_back(normal_level(j, g));
    std::vector<double> cost(size * size);  // variance of rounding to the neighbouring levels i < j
    for (std::size_t i = 0; i < size; ++i) {
        for (std::size_t j = i + 1; j < size; ++j)
            cost[i * size + j] = between(points[i], points[j]);
    }
    std::vector<double> best(size, 1e300);
    best[0] = 0.0;
    std::vector<std::vector<int>> from;
    for (int k = 1; k < count; ++k) {
        std::vector<double> next(size, 1e300);
        std::vector<int>& chosen = from.emplace_back(size, 0);
        for (std::size_t j = 1; j < size; ++j) {
            for (std::size_t i = 0; i < j; ++i) {
                const double v = best[i] + cost[i * size + j];
                if (v > next[j] + rounding) continue;
                next[j] = std::min(next[j], v);
                chosen[j] = static_cast<int>(i);
            }
        }
        best = std::move(next);
    }
    std::vector<int> levels{g};
    for (std::size_t k = from.size(); k-- > 0;)
        levels.push_back(from[k][static_cast<std::size_t>(levels.back())]);
    return {levels.rbegin(), levels.rend()};
}

}  // namespace apscope::detail
