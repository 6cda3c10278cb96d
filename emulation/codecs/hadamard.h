// The Walsh-Hadamard transform of a power-of-two length, orthonormal: applied twice it gives back the row,
// to rounding. Butterflies in a fixed order, then one multiplication.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace apscope {

inline void hadamard(std::span<double> x) {
    const std::size_t n = x.size();
    for (std::size_t half = 1; half < n; half *= 2) {
        for (std::size_t begin = 0; begin < n; begin += 2 * half) {
            for (std::size_t i = begin; i < begin + half; ++i) {
                const double a = x[i], b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
        }
    }
    const double factor = 1.0 / std::sqrt(static_cast<double>(n));
    for (double& v : x) v *= factor;
}

}  // namespace apscope
