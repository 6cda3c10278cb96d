// Gradients for the tests of result rows.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace apscope::detail::test {

enum class GradientKind { ordinary, subnormal, overflow, special, zeros };

// Magnitudes over many binades, zeros of both signs and, if special, NaNs and infinities, the last
// element among them.
inline std::vector<float> gradients(std::size_t n, std::uint64_t seed, GradientKind kind) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> x(n, -0.0f);
    for (std::size_t i = 0; i < n && kind != GradientKind::zeros; ++i) {
        const int shift = -static_cast<int>(random() % 20);
        x[i] = std::ldexp(normal(random), kind == GradientKind::subnormal  ? shift - 120
                                          : kind == GradientKind::overflow ? shift + 130
                                                                           : shift);
        if (kind == GradientKind::overflow && std::isinf(x[i])) x[i] = std::ldexp(1.0f, 127);
        if (random() % 37 == 0) x[i] = random() % 2 == 0 ? 0.0f : -0.0f;
        if (kind != GradientKind::special || (random() % 251 != 0 && i + 1 != n)) continue;
        constexpr float infinity = std::numeric_limits<float>::infinity();
        x[i] = random() % 3 == 0 ? std::nanf("") : random() % 2 == 0 ? infinity : -infinity;
    }
    return x;
}

}  // namespace apscope::detail::test
