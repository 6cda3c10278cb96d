// Fixed-shape sums compared with their definition, rounded additions with 128-bit integers,
// decibels with the C library's.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "analysis/statistics/decibel.h"
#include "analysis/statistics/exponent_histogram.h"
#include "core/exact_sum.h"
#include "core/fixed_shape_sum.h"
#include "core/named_formats.h"

using namespace apscope;
using namespace apscope::detail;

TEST(FixedShapeSum, FollowsItsDefinition) {
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal;
    for (const std::size_t n : {0, 1, 15, 16, 17, 100, 4095, 4096}) {
        std::vector<double> v(n);
        for (double& x : v) x = normal(random) * std::ldexp(1.0, static_cast<int>(random() % 60));
        double lane[16] = {};
        for (std::size_t i = 0; i < n; ++i) lane[i % 16] += v[i];
        for (int width : {8, 4, 2, 1}) {
            for (int j = 0; j < width; ++j) lane[j] += lane[j + width];
        }
        EXPECT_EQ(block_sum(n, [&](std::size_t i) { return v[i]; }), lane[0]) << n;
        LaneSums<2> sums;
        for (std::size_t i = 0; i < n; ++i) sums.lane[1][i % sum_lanes] += v[i];
        EXPECT_EQ(sums.join(1), lane[0]);
        EXPECT_EQ(sums.join(0), 0.0);
    }
}

// The sum as an integer multiple of 2^-149 would need 277 bits; both paths must agree, and the wide
// one is exact by construction where the operands' exponents differ by less than 73.
TEST(AddRounded, OddSumAndWideIntegersAgreeInEveryMode) {
    std::mt19937_64 random(2);
    for (const char* name :
         {"e4m3", "e5m2", "fp16", "bf16", "tf32", "fp32", "e3m0", "binary8p3se", "e2m1fn"}) {
        const FloatFormat format = parse_format(name);
        for (int mode = 0; mode < rounding_mode_count; ++mode) {
            const Projection projection{static_cast<RoundingMode>(mode), Overflow::ieee, 8};
            const Cast<double> cast = make_cast<double>(format, projection);
            for (int i = 0; i < 20000; ++i) {
                const auto draw = [&] {
                    const auto bits = static_cast<std::uint32_t>(random());
                    const float any = bits_cast<float>(bits);
                    if (i % 2 == 0)
                        return round_one<double>(
                            std::ldexp(static_cast<double>(static_cast<std::int32_t>(bits)),
                                       -28 - static_cast<int>(random() % 8)),
                            cast);
                    return std::isfinite(any) ? static_cast<double>(any) : 1.0;
                };
                const double a = draw(), b = draw();
                if (!std::isfinite(a) || !std::isfinite(b) || a == -b || a == 0 || b == 0) continue;
                const std::uint64_t word = random() << 56;
                if (projection.rounding == RoundingMode::stochastic_exact)
                    continue;  // sums do not support this mode
                const double right = dispatch(projection.rounding, [&]<RoundingMode M>() {
                    return wide_to_format<M>(add_aligned(wide(a), wide(b)), cast, word);
                });
                const double got = dispatch(projection.rounding, [&]<RoundingMode M>() {
                    return add_rounded<M>(a, b, cast, word);
                });
                ASSERT_EQ(bits_cast<std::uint64_t>(got), bits_cast<std::uint64_t>(right))
                    << name << " " << to_string(projection.rounding) << " " << a << " + " << b
                    << " gives " << got << ", wide " << right;
            }
        }
    }
}

TEST(AddRounded, RoundsOnceWhereTwiceIsWrong) {
    // bf16, towards positive: 1 + 2^-60 is a nearest sum of 1, yet the answer is the next value up.
    const Cast<double> up = make_cast<double>(parse_format("bf16"),
                                              {RoundingMode::toward_positive, Overflow::ieee, 32});
    EXPECT_EQ(add_rounded<RoundingMode::toward_positive>(1.0, 0x1p-60, up, 0), 0x1.02p0);
    // fp32 accumulator with 32 random bits: more than fp64's 53 bits; exact sums stay exact.
    const Cast<double> wide =
        make_cast<double>(parse_format("fp32"), {RoundingMode::stochastic, Overflow::ieee, 32});
    EXPECT_EQ(add_rounded<RoundingMode::stochastic>(1.5, 0x1p-20, wide, ~0ull << 32),
              1.5 + 0x1p-20);
    // 1 + 2^-50 goes up with probability 2^-27: only the largest words do.
    EXPECT_EQ(add_rounded<RoundingMode::stochastic>(1.0, 0x1p-50, wide, 0xFFFFFFE000000000ull),
              1.0 + 0x1p-23);
    EXPECT_EQ(add_rounded<RoundingMode::stochastic>(1.0, 0x1p-50, wide, 0xFFFFFFDF00000000ull),
              1.0);
}

TEST(AddRounded, SignsOfZeroFollowIeee754) {
    const FloatFormat f = parse_format("fp16");
    const Cast<double> near = make_cast<double>(f, {});
    const Cast<double> down =
        make_cast<double>(f, {RoundingMode::toward_negative, Overflow::ieee, 32});
    EXPECT_FALSE(std::signbit(add_rounded<RoundingMode::ties_to_even>(1.0, -1.0, near, 0)));
    EXPECT_TRUE(std::signbit(add_rounded<RoundingMode::toward_negative>(1.0, -1.0, down, 0)));
    EXPECT_TRUE(std::signbit(add_rounded<RoundingMode::ties_to_even>(-0.0, -0.0, near, 0)));
    EXPECT_FALSE(std::signbit(add_rounded<RoundingMode::toward_negative>(0.0, 0.0, down, 0)));
}

TEST(Decibel, AgreesWithLibm) {
    std::mt19937_64 random(3);
    for (int i = 0; i < 100000; ++i) {
        const double x = bits_cast<double>(random() >> 1);
        if (!std::isfinite(x) || x == 0) continue;
        const double expected = 10 * std::log10(x);
        ASSERT_NEAR(fixed_decibel(x), expected, 1e-12 * std::max(1.0, std::abs(expected))) << x;
    }
    EXPECT_EQ(fixed_decibel(1.0), 0.0);
}

// Sums outside a format's irregular gap have exact probabilities, whatever the random bits.
TEST(AddRounded, AGapElsewhereKeepsProbabilitiesExact) {
    const Cast<double> cast = make_cast<double>(parse_format("hfp8_forward"),
                                                {RoundingMode::stochastic, Overflow::ieee, 60});
    const std::uint64_t max_word = ~std::uint64_t{0}
                                   << 4;  // with this word every sum rounds up that can
    EXPECT_EQ(add_rounded<RoundingMode::stochastic>(1.0, 0x1p-70, cast, max_word),
              1.0);  // eta = 2^-67: below 2^-60
    EXPECT_EQ(add_rounded<RoundingMode::stochastic>(1.0, 0x1p-62, cast, max_word),
              1.125);  // eta = 2^-59
}

TEST(ExponentHistogram, MergesAsIfAllHadBeenAddedAtOnce) {
    const std::vector<float> values = {0.0f,     -0.0f,     1.0f,         1.5f,
                                       -2.0f,    0x1p-149f, -0x1.8p-140f, 0x1.fffffep127f,
                                       INFINITY, -INFINITY, NAN};
    ExponentHistogram whole, left, right;
    whole.add(values);
    left.add(std::span(values).first(4));
    right.add(std::span(values).subspan(4));
    left.merge(right);
    EXPECT_EQ(left.finite, whole.finite);
    EXPECT_EQ(left.zero, 2u);
    EXPECT_EQ(left.infinite, 2u);
    EXPECT_EQ(left.nan, 1u);
    EXPECT_EQ(left.count(0), 2u);
    EXPECT_EQ(left.count(1), 1u);
    EXPECT_EQ(left.count(-149), 1u);
    EXPECT_EQ(left.count(-140), 1u);
    EXPECT_EQ(left.count(127), 1u);
}
