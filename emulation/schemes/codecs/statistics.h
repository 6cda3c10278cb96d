// Statistics of a row that steer a scheme: sums of fixed shape, so that nothing but the values matters.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "core/fixed_shape_sum.h"
#include "emulation/schemes/tensor_scheme.h"

namespace apscope::detail {

template <class Term>
double fixed_sum(std::size_t n, Term&& term) {
    double sum = 0.0;
    for (std::size_t first = 0; first < n; first += sum_block) {
        sum += block_sum(std::min(sum_block, n - first), [&](std::size_t i) { return term(first + i); });
    }
    return sum;
}
inline double sum_of_squares(std::span<const double> x) {
    return fixed_sum(x.size(), [&](std::size_t i) { return x[i] * x[i]; });
}
inline double amax_of(std::span<const double> x) {
    double amax = 0.0;
    for (const double v : x) amax = std::max(amax, std::abs(v));
    return amax;
}
inline double amax_of(const Rows& rows) {
    double amax = 0.0;
    for (const Row& row : rows) amax = std::max(amax, amax_of(row));
    return amax;
}

// 2^exponent x, rounded once.
inline void multiply_by_power(std::span<double> x, int exponent) {
    if (exponent > -1000 && exponent < 1000) {  // the power is a normal number
        const double power = std::ldexp(1.0, exponent);
        for (double& v : x) v *= power;
    } else {
        for (double& v : x) v = std::ldexp(v, exponent);
    }
}

}  // namespace apscope::detail
