// CPD's cast over a row has the bits of a plain implementation of its algorithm: every exponent, on
// every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "emulation/schemes/codecs/cpd_cast.h"
#include "tests/support/on_level.h"

namespace apscope::detail {
namespace {

float plain(float x, int exponent_bits, int mantissa_bits) {
    if (x == 0.0f || !std::isfinite(x)) return x;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    const int field = static_cast<int>(bits >> 23 & 0xff), exponent = field - 127,
              bias = (1 << (exponent_bits - 1)) - 1;
    if (field == 0) return 0.0f;
    if (exponent > bias) return std::copysign(std::numeric_limits<float>::infinity(), x);
    const int kept_exponent = std::max(exponent, 1 - bias), shift = kept_exponent - exponent;
    std::uint32_t significand = (bits & 0x7fffff) | 0x800000;
    significand = shift < 32 ? significand >> shift : 0;
    const std::uint32_t unit = std::uint32_t{1} << (23 - mantissa_bits),
                        rest = significand & (unit - 1);
    significand -= rest;
    if (2 * rest > unit || (2 * rest == unit && (significand & unit) != 0)) significand += unit;
    return std::copysign(std::ldexp(static_cast<float>(significand), kept_exponent - 23), x);
}

class CpdCast : public OnLevel {};

TEST_P(CpdCast, OfARowIsTheAlgorithm) {
    std::mt19937 random(11);
    std::vector<float> x;
    for (std::uint32_t field = 0; field < 256; ++field) {
        for (std::uint32_t k = 0; k < 150; ++k) {
            // Random bits, a run of ones, or a single bit, also near the ends of the fraction: ties
            // and their neighbours.
            auto fraction = static_cast<std::uint32_t>(random());
            if (k < 24) fraction = 1u << k;
            else if (k < 48) fraction = (1u << (k - 24)) - 1;
            else if (k < 72) fraction = 0x7fffff << (k - 48);
            else if (k < 100)
                fraction =
                    static_cast<std::uint32_t>((random() << (random() % 24)) + random() % 3 - 1);
            const std::uint32_t sign = k % 2 << 31;
            x.push_back(std::bit_cast<float>(sign | field << 23 | (fraction & 0x7fffff)));
        }
    }
    x.insert(x.end(), {0.0f, -0.0f, INFINITY, -INFINITY, NAN});
    std::vector<float> y(x.size());
    for (int e = 2; e <= 8; ++e) {
        for (int m = 0; m <= 22; ++m) {
            cpd_cast(x, y, e, m);
            for (std::size_t i = 0; i < x.size(); ++i) {
                const auto expected = std::bit_cast<std::uint32_t>(plain(x[i], e, m));
                ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), expected)
                    << x[i] << " to e" << e << "m" << m;
                ASSERT_EQ(std::bit_cast<std::uint32_t>(cpd_cast(x[i], e, m)), expected);
            }
        }
    }
    y = x;
    cpd_cast(y, y, 4, 3);
    for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]),
                  std::bit_cast<std::uint32_t>(plain(x[i], 4, 3)));
}

APSCOPE_ON_EVERY_LEVEL(CpdCast);

}  // namespace
}  // namespace apscope::detail
