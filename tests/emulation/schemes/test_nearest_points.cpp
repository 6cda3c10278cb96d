// The line search's inner products have the bits of a plain search, level by level: on every
// instruction set, with ties.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/fixed_shape_sum.h"
#include "emulation/schemes/codecs/levels.h"
#include "emulation/schemes/codecs/nearest_points.h"
#include "tests/support/on_level.h"

namespace apscope::detail {
namespace {

std::size_t plain_code(double u, const Row& levels) {
    std::size_t code = 0;
    while (code + 1 < levels.size() && levels[code + 1] <= u) ++code;
    if (u < levels[0] || code + 1 == levels.size()) return code;
    return (u - levels[code]) / (levels[code + 1] - levels[code]) >= 0.5 ? code + 1 : code;
}

double product(const Row& x, const Row& y) {
    double sum = 0.0;
    for (std::size_t first = 0; first < x.size(); first += sum_block) {
        sum += block_sum(std::min(sum_block, x.size() - first),
                         [&](std::size_t i) { return x[first + i] * y[first + i]; });
    }
    return sum;
}

class NearestPoints : public OnLevel {};

// A number at most three ulps from a level or from the middle of two levels; for kind 0, any
// number.
double value(std::mt19937_64& random, int largest, double unit, int kind) {
    const int step =
        static_cast<int>(random() % static_cast<std::uint64_t>(4 * largest + 5)) - 2 * largest - 2;
    double x = step / 2.0 / largest * unit;
    if (kind == 0) x = std::normal_distribution<double>()(random) * unit;
    for (std::uint64_t ulps = random() % 4; ulps > 0; --ulps)
        x = std::nextafter(x, random() % 2 == 0 ? DBL_MAX : -DBL_MAX);
    return x;
}

TEST_P(NearestPoints, AreThePlainOnes) {
    std::mt19937_64 random(3);
    // Levels from -1 to 1 in steps of 1 / largest, or of 2 / largest without 0.
    std::vector<std::pair<int, Row>> grids;
    for (const int largest : {1, 2, 3, 7, 15, 31, 63, 127, 1000, 65536})
        grids.emplace_back(largest, uniform_levels(largest));
    for (const int count : {2, 4, 8, 16, 64, 256})
        grids.emplace_back(count - 1, offset_levels(count));
    for (const auto& [largest, levels] : grids) {
        for (const double unit : {1.0, 0.1, 3e-30, 1e-320, 7e30, 0.0}) {
            for (const std::size_t n : {0, 1, 15, 16, 17, 255, 256, 300, 4096, 4097, 8500}) {
                if (largest > 200 && n > 300) continue;
                for (const int kind : {0, 1}) {
                    Row r, z;
                    for (std::size_t i = 0; i < n; ++i) {
                        r.push_back(value(random, largest, unit == 0.0 ? 1.0 : unit, kind));
                        z.push_back(levels[plain_code(r[i] / (unit == 0.0 ? 1.0 : unit), levels)]);
                    }
                    const PointProducts found =
                        nearest_point_products(RowReader::of(r), levels, std::vector{0.7, unit})
                            .at(1);
                    ASSERT_EQ(std::bit_cast<std::uint64_t>(found.along),
                              std::bit_cast<std::uint64_t>(product(r, z)))
                        << largest << ", " << unit << ", " << n;
                    ASSERT_EQ(std::bit_cast<std::uint64_t>(found.length),
                              std::bit_cast<std::uint64_t>(product(z, z)))
                        << largest << ", " << unit << ", " << n;
                }
            }
        }
    }
}

TEST_P(NearestPoints, AreEncodedAsThePlainOnes) {
    std::mt19937_64 random(6);
    for (const auto& [largest, levels] : {std::pair(1, uniform_levels(1)),
                                          {7, uniform_levels(7)},
                                          {127, uniform_levels(127)},
                                          {15, offset_levels(16)}}) {
        for (const double unit : {1.0, 0.3, 1e-320, 0.0}) {
            for (const std::size_t n : {0, 1, 255, 256, 257, 1000}) {
                Row r, codes(n), values(n);
                for (std::size_t i = 0; i < n; ++i)
                    r.push_back(value(random, largest, unit == 0.0 ? 1.0 : unit, i < 300 ? 0 : 1));
                encode_nearest_points(r, levels, unit, 0.7, codes.data(), values.data());
                for (std::size_t i = 0; i < n; ++i) {
                    const std::size_t code = plain_code(r[i] / (unit == 0.0 ? 1.0 : unit), levels);
                    ASSERT_EQ(codes[i], static_cast<double>(code))
                        << largest << ", " << unit << ", " << r[i];
                    ASSERT_EQ(nearest_level(r[i] / (unit == 0.0 ? 1.0 : unit), levels), code)
                        << r[i];
                    ASSERT_EQ(std::bit_cast<std::uint64_t>(values[i]),
                              std::bit_cast<std::uint64_t>(levels[code] * 0.7))
                        << r[i];
                }
            }
        }
    }
}

TEST(LevelQuotients, NeedNoDivision) {
    std::mt19937_64 random(5);
    const auto check = [](double k, double largest) {
        ASSERT_EQ(quotient(k, largest, 1.0 / largest), k / largest) << k << " / " << largest;
    };
    for (int twice = 2; twice <= 1200; ++twice) {
        for (int k = -twice; k <= twice; k += 2) check(k / 2.0, twice / 2.0);
    }
    for (int i = 0; i < 1000000; ++i) {
        const auto twice = static_cast<int>(random() % 131071) + 2;
        check((twice - 2 * static_cast<int>(random() % static_cast<std::uint64_t>(twice + 1))) /
                  2.0,
              twice / 2.0);
    }
}

APSCOPE_ON_EVERY_LEVEL(NearestPoints);

}  // namespace
}  // namespace apscope::detail
