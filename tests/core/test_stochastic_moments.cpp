// Expected bias and variance of a stochastic rounding compared with their values over all 2^N
// random integers.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/named_formats.h"
#include "core/stochastic_moments.h"

namespace apscope::detail {
namespace {

TEST(StochasticMoments, AreThoseOfAllRandomIntegers) {
    std::mt19937_64 random(5);
    for (const char* name : {"e4m3", "e5m2", "e3m0", "hfp8_forward", "e4m3b3sub-3", "bf16"}) {
        const FloatFormat format = parse_format(name);
        for (const auto mode : {RoundingMode::stochastic, RoundingMode::stochastic_b,
                                RoundingMode::stochastic_c, RoundingMode::stochastic_equal}) {
            for (const int bits : {1, 3, 8}) {
                const Cast<double> cast = make_cast<double>(format, {mode, Overflow::ieee, bits});
                for (int i = 0; i < 300; ++i) {
                    // All magnitudes, the last step below zero's neighbour among them; few bits, so
                    // that counts tie.
                    const double size = std::ldexp(1 + static_cast<double>(random() % 256) / 256,
                                                   static_cast<int>(random() % 14) - 12);
                    const double v = random() % 2 == 0 ? size * format.largest() / 8
                                                       : -size * format.smallest_normal();
                    double sum = 0, squares = 0;
                    bool finite = true;
                    const int words = 1 << bits;
                    for (int r = 0; r < words; ++r) {
                        const double rounded = round_one<double>(
                            v, cast, static_cast<std::uint64_t>(r) << (64 - bits));
                        finite &= std::isfinite(rounded);
                        sum += rounded - v;
                        squares += (rounded - v) * (rounded - v);
                    }
                    const RoundingMoments m = stochastic_moments(v, cast);
                    ASSERT_EQ(m.defined, finite) << name << " " << to_string(mode) << " " << v;
                    if (!finite) continue;
                    const double bias = sum / words, variance = squares / words - bias * bias,
                                 scale = std::abs(v) + format.smallest_positive();
                    ASSERT_NEAR(m.bias, bias, 1e-14 * scale)
                        << name << " " << to_string(mode) << " N=" << bits << " " << v;
                    ASSERT_NEAR(m.variance, variance, 1e-14 * scale * scale)
                        << name << " " << to_string(mode) << " N=" << bits << " " << v;
                }
            }
        }
    }
}

}  // namespace
}  // namespace apscope::detail
