// The Fourier transform of any length equals its defining sum, its inverse restores the input, and
// it has the same bits on every instruction set. Its roots of unity are rounded to nearest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

#include "core/bits.h"
#include "emulation/machine/buffers.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/fourier.h"
#include "emulation/schemes/codecs/roots_of_unity.h"
#include "tests/support/on_level.h"

namespace apscope::detail {
namespace {

using Row = std::vector<double>;

Row random_row(std::size_t n) {
    std::mt19937_64 random(n);
    std::normal_distribution<double> normal;
    Row x(n);
    for (double& v : x) v = normal(random);
    return x;
}

struct Coefficients {
    Row re, im;
};
Coefficients transformed(const Row& x) {
    RealFourier fourier(x.size());
    Coefficients f{Row(fourier.bins()), Row(fourier.bins())};
    fourier.forward(x, f.re, f.im);
    return f;
}

// Lengths with factors 2, 3, 4, 5, 7 and larger; primes below and above the length from which they
// are computed by convolution; more and fewer than sixteen columns and rows.
const std::vector<std::size_t> lengths{
    1,   2,   3,   4,   5,   6,   7,   8,    9,    10,  12,  14,  15,  16,   17,  18,
    20,  24,  25,  27,  30,  31,  32,  33,   36,   37,  48,  49,  64,  97,   100, 128,
    194, 210, 243, 256, 360, 441, 512, 1000, 1009, 127, 131, 254, 262, 1733, 2146};

class Fourier : public OnLevel {};

TEST_P(Fourier, IsItsSum) {
    for (const std::size_t n : lengths) {
        const Row x = random_row(n);
        const Coefficients f = transformed(x);
        for (std::size_t k = 0; k <= n / 2; ++k) {
            long double re = 0, im = 0;
            for (std::size_t j = 0; j < n; ++j) {
                const long double angle = 2 * std::numbers::pi_v<long double> *
                                          static_cast<long double>(j * k % n) /
                                          static_cast<long double>(n);
                re += static_cast<long double>(x[j]) * std::cos(angle);
                im -= static_cast<long double>(x[j]) * std::sin(angle);
            }
            const double bound = 0x1p-50 * std::sqrt(static_cast<double>(n)) *
                                 (1 + std::log2(static_cast<double>(n)));
            ASSERT_NEAR(f.re[k], static_cast<double>(re), bound) << "n=" << n << ", k=" << k;
            ASSERT_NEAR(f.im[k], static_cast<double>(im), bound) << "n=" << n << ", k=" << k;
        }
        EXPECT_EQ(f.im[0], 0.0);
        EXPECT_EQ(n % 2 == 0 ? f.im[n / 2] : 0.0, 0.0);
    }
}

TEST_P(Fourier, IsTakenBack) {
    for (const std::size_t n :
         {lengths.front(), std::size_t{2}, std::size_t{45}, std::size_t{512}, std::size_t{1009},
          std::size_t{5000}, std::size_t{4095}, std::size_t{1} << 16, std::size_t{50257},
          std::size_t{99991}, std::size_t{199982}}) {
        const Row x = random_row(n);
        const Coefficients f = transformed(x);
        Row back(n);
        RealFourier(n).inverse(f.re, f.im, back);
        for (std::size_t i = 0; i < n; ++i)
            ASSERT_NEAR(back[i] / static_cast<double>(n), x[i], 0x1p-45)
                << "n=" << n << ", i=" << i;
    }
}

TEST_P(Fourier, HasTheBitsOfPlainCode) {
    for (const std::size_t n : lengths) {
        const Row x = random_row(n);
        const SimdLevel level = simd_level();
        const Coefficients f = transformed(x);
        set_simd_level(SimdLevel::portable);
        const Coefficients plain = transformed(x);
        set_simd_level(level);
        ASSERT_EQ(f.re, plain.re) << "n=" << n;
        ASSERT_EQ(f.im, plain.im) << "n=" << n;
    }
}

APSCOPE_ON_EVERY_LEVEL(Fourier);

TEST(Fourier, HoldsWhatItSays) {
    for (const std::size_t n : lengths) {
        BufferPool pool;
        const UsesBuffers uses(pool);
        const RealFourier fourier(n);
        EXPECT_EQ(pool.used(), sizeof(double) * RealFourier::numbers(n)) << "n=" << n;
    }
}

TEST(RootsOfUnity, AreTheNearestNumbers) {
    for (const std::size_t n : {1, 2, 3, 4, 5, 7, 8, 12, 100, 1000, 4096, 99991}) {
        const RootsOfUnity roots(static_cast<std::size_t>(n));
        for (std::size_t k = 0; k < n; k += std::max<std::size_t>(1, n / 500)) {
            const auto [re, im] = roots(k);
            const long double angle = 2 * std::numbers::pi_v<long double> *
                                      static_cast<long double>(k) / static_cast<long double>(n);
            // Half a unit in the last place, plus the error of the long double cosine near a zero.
            ASSERT_LE(std::abs(static_cast<long double>(re) - std::cos(angle)),
                      0x1.01p-54L * std::max(std::abs(2 * re), 0x1p-8))
                << k << " of " << n;
            ASSERT_LE(std::abs(static_cast<long double>(im) + std::sin(angle)),
                      0x1.01p-54L * std::max(std::abs(2 * im), 0x1p-8))
                << k << " of " << n;
        }
    }
    const RootsOfUnity eight(8);
    EXPECT_EQ(eight(2).re, 0.0);
    EXPECT_EQ(eight(2).im, -1.0);
    EXPECT_EQ(eight(4).re, -1.0);
    EXPECT_EQ(eight(1).re, -eight(1).im);
}

}  // namespace
}  // namespace apscope::detail
