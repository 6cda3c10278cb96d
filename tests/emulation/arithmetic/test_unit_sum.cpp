// The fast path of a matrix unit's sums against the rule applied to every output: the same bits at
// every SIMD level, on both sides of each limit that the fast path has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "emulation/arithmetic/unit_sum.h"
#include "tests/support/on_level.h"

using namespace apscope;
using namespace apscope::detail;

namespace {

constexpr std::size_t rows = 3, terms = 70, columns = 37;

struct Operands {
    std::vector<float> a = std::vector<float>(rows * terms),
                       b = std::vector<float>(terms * columns),
                       c = std::vector<float>(rows * columns);
    std::vector<float> scales_a{}, scales_b{};
};

// Whether the fast path served. Both paths give the same bits.
bool same_bits(const std::string& text, const Operands& x) {
    const MatrixUnitOrder order = parse_matrix_unit_order(text);
    const UnitProduct sizes{1, rows, terms, columns, {0, terms, 1}, {0, 1, columns}};
    std::vector<float> fast(x.c.size()), rule(x.c.size());
    const UnitScales<float> scales{x.scales_a, x.scales_b};
    const bool served = unit_product(x.a, x.b, x.c, fast, sizes, order, 1, scales);
    EXPECT_FALSE(unit_product(x.a, x.b, x.c, rule, sizes, order, 1, scales, false));
    for (std::size_t i = 0; i < fast.size(); ++i)
        EXPECT_EQ(bits_cast<std::uint32_t>(fast[i]), bits_cast<std::uint32_t>(rule[i]))
            << text << ", output " << i << ": " << fast[i] << " and " << rule[i];
    return served;
}

class UnitSum : public OnLevel {
protected:
    std::mt19937_64 random{7};

    // A number of `bits` significant bits with an exponent in [least, most], or 0.
    float number(int bits, int least, int most, double zeros = 0) {
        if (std::uniform_real_distribution<>()(random) < zeros) return random() % 2 ? 0.0f : -0.0f;
        const auto high = 1u << (bits - 1);
        const auto significand = static_cast<float>(high + random() % high);
        const int exponent = std::uniform_int_distribution<>(least, most)(random);
        return std::ldexp(random() % 2 ? significand : -significand, exponent - (bits - 1));
    }
    Operands operands(int bits_a, int bits_b, int least, int most, double zeros, int least_c,
                      int most_c) {
        Operands x;
        for (float& v : x.a) v = number(bits_a, least, most, zeros);
        for (float& v : x.b) v = number(bits_b, least, most, zeros);
        for (float& v : x.c) v = number(24, least_c, most_c, 0.1);
        return x;
    }
};

// K below, at and above the number of terms that fit in int32, with R at most F.
const std::vector<std::string> units{"k=4,fraction=23,result=23",
                                     "k=8,fraction=24,result=23",
                                     "k=15,fraction=25,result=23",
                                     "k=16,fraction=25,result=23",
                                     "k=17,fraction=25,result=23",
                                     "k=32,fraction=25,result=23",
                                     "k=64,fraction=23,result=20",
                                     "k=32,fraction=13,result=13",
                                     "k=256,fraction=18,result=7",
                                     "k=1,fraction=19,result=1",
                                     "h100:mma_fp8",
                                     "h100,promote=24",
                                     "a100,split=5"};

TEST_P(UnitSum, OfRandomOperands) {
    for (const std::string& unit : units) {
        const bool formats = unit.front() != 'k';
        const int bits = formats ? 3 : 12, range = formats ? 6 : 12;
        for (const double zeros : {0.0, 0.2, 0.97}) {
            for (const int spread : {0, 3, range})
                EXPECT_TRUE(same_bits(unit, operands(bits, bits, -spread, spread, zeros, -30, 20)));
        }
    }
}

TEST_P(UnitSum, OfOneSignAndTheLargestSignificands) {
    for (const std::string& unit : units) {
        Operands x;
        const float largest = unit.front() == 'k' ? 0x1.ffep0f : 1.75f;
        x.a.assign(x.a.size(), largest);
        x.b.assign(x.b.size(), largest);
        for (const float c : {0.0f, 1.0f, 0x1.fffffep0f, 0x1.fffffep1f, 0x1.fffffep9f}) {
            for (const float sign : {1.0f, -1.0f}) {
                x.c.assign(x.c.size(), c * sign);
                EXPECT_TRUE(same_bits(unit, x));
                for (float& v : x.a) v = -v;
            }
        }
    }
}

TEST_P(UnitSum, AtTheLimits) {
    for (const std::string& unit : units) {
        if (unit.front() != 'k') continue;
        // Exponents of products: from -75 to 90.
        for (const int least : {-38, -37, 44, 45})
            same_bits(unit, operands(12, 12, least, least + 1, 0.1, -100, 99));
        EXPECT_TRUE(same_bits(unit, operands(12, 12, 45, 45, 0.1, -100, 99)));
        EXPECT_FALSE(same_bits(unit, operands(12, 12, 46, 46, 0.1, -100, 99)));
        EXPECT_TRUE(same_bits(unit, operands(12, 12, -37, -37, 0.1, -100, 99)));
        EXPECT_FALSE(same_bits(unit, operands(12, 12, -38, -38, 0.1, -100, 99)));
        // Significant bits of products: at most 24.
        EXPECT_FALSE(same_bits(unit, operands(13, 12, -3, 3, 0.1, -3, 3)));
        // C: 0, or from 2^-100 to 2^100; products that are zeros.
        for (const double zeros : {0.1, 1.0}) {
            Operands x = operands(12, 12, -3, 3, zeros, -100, 99);
            EXPECT_TRUE(same_bits(unit, x));
            for (const float c : {0x1p-101f, 0x1.8p100f, 0x1p-149f, 0x1.fffffep127f,
                                  std::numeric_limits<float>::infinity(),
                                  std::numeric_limits<float>::quiet_NaN()}) {
                x.c[5] = c;
                EXPECT_FALSE(same_bits(unit, x));
            }
        }
        // Operands that are no numbers.
        Operands x = operands(12, 12, -3, 3, 0.1, -3, 3);
        x.b[70] = -std::numeric_limits<float>::infinity();
        EXPECT_FALSE(same_bits(unit, x));
    }
}

// Operands with scales: FP4's elements, or those of e4m3fn.
TEST_P(UnitSum, OfOperandsWithScales) {
    for (const std::string unit :
         {"b200:nvfp4", "b200:mxfp4", "b200:mxfp8", "b200:nvfp4,promote=48",
          "b200:nvfp4,fraction=38", "b200:mxfp8,promote=32"}) {
        const bool fp4 = unit.find("fp4") != std::string::npos,
                   of_4_bits = unit.find("nvfp4") != std::string::npos;
        const std::size_t pieces = of_4_bits ? (terms + 15) / 16 : (terms + 31) / 32;
        const auto draw = [&](double zeros, int least, int most) {
            Operands x;
            for (std::vector<float>* operand : {&x.a, &x.b})
                for (float& v : *operand)
                    v = fp4 ? number(2, 0, 2, zeros) : number(4, -6, 7, zeros);
            for (float& v : x.c) v = number(24, -100, 99, 0.3);
            x.scales_a.resize(rows * pieces);
            x.scales_b.resize(pieces * columns);
            for (std::vector<float>* scales : {&x.scales_a, &x.scales_b}) {
                for (float& v : *scales) {
                    const int exponent = std::uniform_int_distribution<>(least, most)(random);
                    // e4m3fn's subnormal numbers and zeros, too.
                    v = of_4_bits ? static_cast<float>(random() % 16) *
                                        std::ldexp(1.0f, std::clamp(exponent, -6, 5) - 3)
                                  : std::ldexp(1.0f, exponent);
                }
            }
            return x;
        };
        for (const double zeros : {0.0, 0.3, 0.97}) {
            for (const int spread : {0, 3, 20})
                EXPECT_TRUE(same_bits(unit, draw(zeros, -spread, spread))) << unit;
        }
        Operands same = draw(0, 0, 0);
        same.a.assign(same.a.size(), fp4 ? 6.0f : 1.75f);
        same.b.assign(same.b.size(), fp4 ? -6.0f : 1.75f);
        same.c.assign(same.c.size(), 0x1.fffffep4f);
        EXPECT_TRUE(same_bits(unit, same));
        if (!of_4_bits) {
            // The limits of the exponents of products, and of scaled elements.
            const int least = fp4 ? -37 : -31, most = fp4 ? 42 : 38;
            EXPECT_TRUE(same_bits(unit, draw(0.1, least, most)));
            for (const auto& [from, to] :
                 {std::pair{least - 1, least - 1}, {most + 1, most + 1}, {-127, -127}, {127, 127}})
                EXPECT_FALSE(same_bits(unit, draw(0.1, from, to))) << from;
            Operands apart = draw(0.1, 0, 0);
            apart.scales_a.assign(apart.scales_a.size(), 0x1p-127f);
            apart.scales_b.assign(apart.scales_b.size(), 0x1p127f);
            EXPECT_FALSE(same_bits(unit, apart));
        }
        if (unit == "b200:nvfp4") {
            EXPECT_FALSE(same_bits(unit + ",fraction=39", same));
        }
        Operands x = draw(0.1, 0, 0);
        x.scales_b[1] = std::numeric_limits<float>::quiet_NaN();
        EXPECT_FALSE(same_bits(unit, x));
        x = draw(0.1, 0, 0);
        x.c[3] = 0x1p-101f;
        EXPECT_FALSE(same_bits(unit, x));
    }
}

APSCOPE_ON_EVERY_LEVEL(UnitSum);

}  // namespace
