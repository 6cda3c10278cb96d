// Shannon's lower bound: known entropies, the same bits with any number of threads, and inputs that
// are refused.
#include "analysis/statistics/rate_limit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "core/philox.h"

namespace apscope::detail {
namespace {

std::vector<double> random_values(std::size_t count) {
    const RandomStream stream = array_stream(3, 64);
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = std::ldexp(static_cast<double>(stream.at(i) >> 40), -23) - 1.0;
    return values;
}

TEST(RateLimit, OneValueHasTheEntropyOfTheBlur) {
    for (const double w : blur_widths()) {
        const std::vector<double> widths{w};
        EXPECT_DOUBLE_EQ(blurred_entropies(std::vector{0.0}, widths, 1)[0], std::log2(w));
        const std::vector<double> equal(1000, 0.75);
        EXPECT_NEAR(blurred_entropies(equal, widths, 1)[0], std::log2(w), 1e-11);
        const std::vector<double> apart{-64.0, 0.0, 64.0, 128.0};
        EXPECT_NEAR(blurred_entropies(apart, widths, 1)[0], std::log2(w) + 2.0, 1e-10);
    }
}

TEST(RateLimit, OverlappingBoxesAddUp) {
    // Two boxes of width 1 that overlap by half: densities 1/2, 1, 1/2 on lengths of 1/2.
    const std::vector<double> widths{1.0};
    EXPECT_DOUBLE_EQ(blurred_entropies(std::vector{0.0, 0.5}, widths, 1)[0], 0.5);
    // 4,096 values, 2^-12 apart, fill the interval from 0 to 1 without gaps.
    std::vector<double> filled(4096);
    for (std::size_t i = 0; i < filled.size(); ++i) filled[i] = std::ldexp(i + 0.5, -12);
    EXPECT_NEAR(blurred_entropies(filled, std::vector{0x1p-12}, 1)[0], 0.0, 1e-12);
}

TEST(RateLimit, AUniformLawHasItsKnownLimit) {
    std::vector<double> filled(4096);
    for (std::size_t i = 0; i < filled.size(); ++i) filled[i] = std::ldexp(i + 0.5, -12);
    const std::vector<double> widths{0x1p-12}, entropies = blurred_entropies(filled, widths, 1);
    const double expected = 1.0 / (2.0 * M_PI * M_E) / 16.0 - 0x1p-24 / 12.0;
    EXPECT_NEAR(rate_limit(entropies, widths, 2.0), expected, 1e-14);
    EXPECT_EQ(rate_limit(entropies, widths, 60.0), 0.0);  // a difference below 0
    EXPECT_TRUE(std::isnan(rate_limit({}, {}, 2.0)));
}

TEST(RateLimit, ThreadsDoNotChangeABit) {
    const std::vector<double> values = random_values(20'000), widths = blur_widths(),
                              one = blurred_entropies(values, widths, 1);
    for (const int threads : {2, 3, 7}) EXPECT_EQ(blurred_entropies(values, widths, threads), one);
    std::vector<double> reversed(values.rbegin(), values.rend());
    EXPECT_EQ(blurred_entropies(reversed, widths, 2), one);
}

TEST(RateLimit, WidthsArePowersOfTheRootOfTwo) {
    const std::vector<double> widths = blur_widths();
    EXPECT_EQ(widths.front(), 0x1p-12);
    EXPECT_EQ(widths.back(), 4.0);
    for (std::size_t k = 1; k < widths.size(); ++k)
        EXPECT_NEAR(widths[k] / widths[k - 1], std::sqrt(2.0), 1e-15);
}

TEST(RateLimit, WhatHasNoEntropyIsRefused) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const std::vector<double> widths{1.0};
    EXPECT_THROW(blurred_entropies({}, widths, 1), std::invalid_argument);
    EXPECT_THROW(blurred_entropies(std::vector{0.0, infinity}, widths, 1), std::invalid_argument);
    for (const double w : {0.0, -1.0, infinity})
        EXPECT_THROW(blurred_entropies(std::vector{0.0}, std::vector{w}, 1), std::invalid_argument);
}

TEST(RateLimit, SquaresOfBlocksLeaveOutWhatIsNotFinite) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const std::vector<double> x{1.0, 2.0, nan, 3.0, -4.0, -0.0, 5.0};
    EXPECT_EQ(block_squares(x, 3), (std::vector{5.0, 25.0, 25.0}));
    EXPECT_EQ(block_squares({}, 3), std::vector<double>{});
    EXPECT_THROW(block_squares(x, 0), std::invalid_argument);
}

}  // namespace
}  // namespace apscope::detail
