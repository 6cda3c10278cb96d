// A cast to nearest with its statistics in one loop, compared with the cast followed by the
// statistics: every result and sum, bit for bit, on every instruction set of this machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "analysis/statistics/nearest_statistics.h"
#include "core/named_formats.h"
#include "core/philox.h"
#include "emulation/cast/scaled_format.h"
#include "tests/support/error_statistics.h"
#include "tests/support/on_level.h"

namespace apscope::detail {
namespace {

class NearestStatistics : public OnLevel {};

// Numbers of the format below its largest: values, midpoints and their neighbours, zeros of both
// signs, fp32's subnormal numbers, numbers of every binade down to there.
std::vector<float> numbers_within(const FloatFormat& f, std::size_t count, std::uint64_t seed) {
    const RandomStream stream = array_stream(seed, 64);
    const std::uint64_t top = f.top_finite_code();
    std::vector<float> x;
    for (std::size_t i = 0; x.size() < count; ++i) {
        const std::uint64_t word = stream.at(i), code = (word >> 8) % top;
        double v = f.magnitude(code);
        switch (word & 7) {
            case 0: v = (v + f.magnitude(code + 1)) / 2; break;
            case 1: v *= 1.0 + std::ldexp(static_cast<double>(word >> 40), -26); break;
            case 2: v = std::ldexp(f.largest(), -static_cast<int>((word >> 8) % 60)); break;
            case 3: v = std::bit_cast<float>(static_cast<std::uint32_t>(word >> 33)); break;
            case 4:
                v = (word >> 8 & 1) != 0
                        ? 0.0
                        : std::bit_cast<float>(static_cast<std::uint32_t>(word >> 41));
                break;
            default: break;
        }
        float y = static_cast<float>(v);
        if ((word >> 4 & 3) == 1) y = std::nextafter(y, 1e30f);
        if ((word >> 4 & 3) == 2) y = std::nextafter(y, 0.0f);
        if (!(y <= f.largest())) continue;
        x.push_back(word >> 63 ? -y : y);
    }
    return x;
}

struct Truth {
    std::vector<float> y;
    ErrorStatistics statistics;
};

Truth cast_then_compare(const std::vector<float>& x, const FloatFormat& grid,
                        const FloatScale& scale, const Projection& projection) {
    Truth t;
    t.y.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
        t.y[i] = round_one<float>(x[i], make_cast<float>(grid, projection));
    t.statistics.add_block<float>(x, t.y, &scale, {}, {});
    t.statistics.count_limits(x, t.y, static_cast<float>(grid.smallest_normal()),
                              static_cast<float>(grid.largest()));
    return t;
}

void expect_nearest(const FloatFormat& format, int k, const Projection& projection,
                    const std::vector<float>& x, const std::string& what) {
    const std::optional<FloatFormat> grid = scaled_format(format, k);
    ASSERT_TRUE(grid) << what;
    const std::optional<NearestCast> cast = make_nearest_cast(*grid, projection);
    ASSERT_TRUE(cast) << what;
    const FloatScale scale{make_cast<double>(format, projection), std::ldexp(1.0, k), 1.0,
                           format.smallest_normal(), format.largest()};
    const Truth truth = cast_then_compare(x, *grid, scale, projection);
    for (const StoreMode how : {StoreMode::unused, StoreMode::stored, StoreMode::streamed}) {
        std::vector<float> out(x.size() + 2, 5.0f);
        ErrorStatistics found;
        const std::string at = what + " how=" + std::to_string(static_cast<int>(how));
        ASSERT_TRUE(add_nearest(found, x.data(),
                                how == StoreMode::unused ? nullptr : out.data() + 1, x.size(),
                                *cast, how))
            << at;
        finish_streaming();
        test::expect_same(found, truth.statistics, at);
        EXPECT_EQ(out.front(), 5.0f) << at;
        EXPECT_EQ(out.back(), 5.0f) << at;
        if (how == StoreMode::unused) continue;
        for (std::size_t i = 0; i < x.size(); ++i) {
            ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i + 1]),
                      std::bit_cast<std::uint32_t>(truth.y[i]))
                << at << " x=" << x[i];
        }
    }
}

constexpr const char* supported[] = {"e4m3",  "e4m3fn", "e4m3fnuz",   "e5m2",  "e5m2fnuz",
                                     "fp16",  "e2m1",   "e3m4",       "e5m10", "e6m9",
                                     "e5m18", "e2m21",  "binary8p3se"};

TEST_P(NearestStatistics, AreThoseOfACastAndAComparison) {
    for (const char* name : supported) {
        const FloatFormat f = parse_format(name);
        for (const Overflow overflow : {Overflow::ieee, Overflow::saturate}) {
            const Projection p{RoundingMode::ties_to_even, overflow};
            for (const std::size_t n :
                 {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16},
                  std::size_t{1000}, std::size_t{1041}, sum_block}) {
                expect_nearest(f, 0, p, numbers_within(f, n, n),
                               std::string(name) + " n=" + std::to_string(n));
            }
        }
    }
}

TEST_P(NearestStatistics, OfScaledFormats) {
    for (const char* name : {"e4m3", "e5m2", "e4m3fnuz"}) {
        const FloatFormat f = parse_format(name);
        for (const int k : {1, -7, 40, -60, 100, -80}) {
            std::vector<float> x = numbers_within(*scaled_format(f, k), 3000, 5);
            expect_nearest(f, k, {}, x, std::string(name) + " k=" + std::to_string(k));
        }
    }
}

TEST_P(NearestStatistics, OfRandomBits) {
    const FloatFormat f = parse_format("e8m3");
    const auto largest = static_cast<float>(parse_format("e5m2").largest());
    std::vector<float> x;
    for (std::uint32_t i = 0; x.size() < sum_block; ++i) {
        const float v = std::bit_cast<float>(i * 2654435761u);
        if (std::abs(v) <= largest) x.push_back(v);
    }
    expect_nearest(parse_format("e5m2"), 0, {}, x, "random bits");
    EXPECT_FALSE(make_nearest_cast(f, {}));  // the exponents of e8m3 leave no room for c
}

TEST_P(NearestStatistics, LeaveOtherNumbersAlone) {
    const FloatFormat f = parse_format("e4m3");
    const NearestCast cast = *make_nearest_cast(f, {});
    const auto largest = static_cast<float>(f.largest());
    for (const float other :
         {std::nextafter(largest, 1e9f), 1e30f, std::numeric_limits<float>::max(),
          std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        for (const std::size_t at : {std::size_t{0}, std::size_t{77}, std::size_t{1002}}) {
            std::vector<float> x = numbers_within(f, 1003, 1), out(x.size());
            x[at] = at % 2 == 0 ? other : -other;
            ErrorStatistics found;
            EXPECT_FALSE(
                add_nearest(found, x.data(), out.data(), x.size(), cast, StoreMode::stored))
                << other;
            test::expect_same(found, {}, "nothing added");
        }
    }
    // Errors far below a quantum that fp32 cannot scale.
    const FloatFormat large = *scaled_format(f, -90);
    ErrorStatistics found;
    const std::vector<float> tiny(100, 1e-44f);
    EXPECT_FALSE(add_nearest(found, tiny.data(), nullptr, tiny.size(),
                             *make_nearest_cast(large, {}), StoreMode::unused));
}

APSCOPE_ON_EVERY_LEVEL(NearestStatistics);

TEST(NearestCasts, SupportOnlyTiesToEvenWithPlainLimits) {
    const auto has_loop = [](const char* name, Projection p) {
        return make_nearest_cast(parse_format(name), p).has_value();
    };
    EXPECT_TRUE(has_loop("e4m3", {}));
    EXPECT_FALSE(has_loop("e4m3", {RoundingMode::ties_to_away}));
    EXPECT_FALSE(has_loop("e4m3", {RoundingMode::stochastic}));
    EXPECT_FALSE(has_loop("e3m0", {}));
    EXPECT_FALSE(has_loop("bf16", {}));
    EXPECT_FALSE(has_loop("fp64", {}));
    EXPECT_FALSE(has_loop("e4m3nosub", {}));
    Projection flushes;
    flushes.underflow = Underflow::flush_result;
    EXPECT_FALSE(has_loop("e4m3", flushes));
}

}  // namespace
}  // namespace apscope::detail
