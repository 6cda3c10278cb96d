// Statistics of a cast compared with a count element by element; statistics along an axis; calls
// that are refused. Python's numbers are compared in tests/python/repository/test_cpp_library.py.
#include <apscope/apscope.h>
#include <apscope/xtensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

namespace {

using namespace apscope;

// Numbers of every magnitude from below the format's smallest number to above its largest.
std::vector<float> numbers(std::size_t count) {
    std::vector<float> x(count);
    std::mt19937_64 random(5);
    for (float& v : x)
        v = std::ldexp(static_cast<float>(random() % 2048) - 1024.0f,
                       static_cast<int>(random() % 24) - 23);
    return x;
}

struct Counted {
    std::int64_t counted = 0, nonzero = 0, underflow = 0, subnormal = 0, saturated = 0,
                 overflow = 0, nan = 0, infinite = 0;
    long double error = 0, squared = 0, reference = 0, signed_error = 0, absolute = 0;
};
Counted count(std::span<const float> x, std::span<const float> y, const FloatFormat& f) {
    Counted c;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const bool pair = std::isfinite(x[i]) && std::isfinite(y[i]);
        c.counted += pair;
        c.nonzero += std::isfinite(x[i]) && x[i] != 0;
        c.underflow += std::isfinite(x[i]) && x[i] != 0 && y[i] == 0;
        c.subnormal += x[i] != 0 && std::fabs(x[i]) < f.smallest_normal();
        c.saturated +=
            std::isfinite(x[i]) && std::fabs(x[i]) > f.largest() && std::fabs(y[i]) == f.largest();
        c.overflow += std::isfinite(x[i]) && !std::isfinite(y[i]);
        c.nan += std::isnan(x[i]);
        c.infinite += std::isinf(x[i]);
        if (!pair) continue;
        const long double e = static_cast<long double>(y[i]) - x[i];
        c.error += e;
        c.squared += e * e;
        c.reference += static_cast<long double>(x[i]) * x[i];
        c.signed_error += x[i] > 0 ? e : x[i] < 0 ? -e : 0;
        c.absolute += std::fabs(x[i]);
    }
    return c;
}

// Every one of the statistics, NaN equal to NaN.
template <class A, class B>
void expect_same(const A& a, const B& b) {
    detail::for_each_statistic(a, b, [](const auto& x, const auto& y) {
        EXPECT_TRUE(x == y ||
                    (std::isnan(static_cast<double>(x)) && std::isnan(static_cast<double>(y))))
            << x << " and " << y;
    });
}

TEST(CppStatistics, WhatCountingGives) {
    for (const Projection& p :
         {Projection{},
          Projection{.rounding = RoundingMode::toward_zero, .overflow = Overflow::saturate},
          Projection{.underflow = Underflow::flush_both},
          Projection{.rounding = RoundingMode::stochastic, .random_bits = 20}}) {
        for (const char* name : {"e4m3", "e5m2", "e3m0", "e2m1fn", "bf16"}) {
            const FloatFormat f = format(name);
            const Quantizer q(f, p, 8, 2);
            std::vector<float> x = numbers(3 * 4096 + 77), y(x.size()), rounded(x.size());
            x[3] = 0;
            for (const bool specials : {false, true}) {
                if (specials)
                    x[5000] = std::numeric_limits<float>::infinity(), x[9000] = std::nanf("");
                const CastStatistics s = cast_statistics(x, q, y);
                q(x, rounded);
                for (std::size_t i = 0; i < x.size(); ++i)
                    ASSERT_TRUE(y[i] == rounded[i] || std::isnan(y[i])) << x[i];
                expect_same(s, cast_statistics(x, q));
                const Counted c = count(x, y, f);
                EXPECT_EQ(s.count, static_cast<std::int64_t>(x.size()));
                EXPECT_EQ(s.counted, c.counted);
                EXPECT_EQ(s.nonzero, c.nonzero);
                EXPECT_EQ(s.underflow, c.underflow);
                EXPECT_EQ(s.subnormal, c.subnormal);
                EXPECT_EQ(s.saturated, c.saturated);
                EXPECT_EQ(s.overflow, c.overflow);
                EXPECT_EQ(s.nan, c.nan);
                EXPECT_EQ(s.infinite, c.infinite);
                const auto near = [](double found, long double exact, long double size) {
                    EXPECT_NEAR(found, static_cast<double>(exact),
                                static_cast<double>(size) * 1e-13);
                };
                near(s.sum_error, c.error, c.absolute);
                near(s.sum_squared_error, c.squared, c.squared);
                near(s.sum_squared_reference, c.reference, c.reference);
                near(s.sum_signed_error, c.signed_error, c.absolute);
                near(s.sum_absolute_reference, c.absolute, c.absolute);
                const double lost =
                    s.overflow > 0 ? std::numeric_limits<double>::infinity() : s.sum_squared_error;
                EXPECT_EQ(s.mse, lost / static_cast<double>(s.counted));
                EXPECT_EQ(s.nmse, lost / s.sum_squared_reference);
                EXPECT_EQ(std::isinf(s.sqnr_db), s.overflow > 0);
                EXPECT_EQ(s.cosine == 0 && s.rescaled_nmse == 1, s.overflow > 0);
                EXPECT_EQ(s.underflow_rate,
                          static_cast<double>(s.underflow) / static_cast<double>(s.nonzero));
            }
        }
    }
}

TEST(CppStatistics, NoNumbersZerosAndDoubles) {
    const Quantizer q{format("e4m3")};
    const CastStatistics none = cast_statistics(std::span<const float>{}, q);
    EXPECT_EQ(none.count, 0);
    EXPECT_TRUE(std::isnan(none.mse) && std::isnan(none.underflow_rate) &&
                std::isnan(none.max_ulp));
    EXPECT_EQ(none.sum_error, 0.0);
    const CastStatistics zeros = cast_statistics(std::vector<float>(100), q);
    EXPECT_EQ(zeros.nonzero, 0);
    EXPECT_EQ(zeros.mse, 0.0);
    EXPECT_TRUE(std::isnan(zeros.nmse) && std::isnan(zeros.cosine));
    const CastStatistics exact = cast_statistics(std::vector<float>{1.0f, -0.5f}, q);
    EXPECT_EQ(exact.sqnr_db, std::numeric_limits<double>::infinity());
    const std::vector<float> x = numbers(5000);
    expect_same(cast_statistics(std::vector<double>(x.begin(), x.end()), q), cast_statistics(x, q));
}

TEST(CppStatistics, WhatIsRefused) {
    const Quantizer q{format("e4m3")};
    std::vector<float> x(8), seven(7);
    EXPECT_THROW(cast_statistics(x, Quantizer{format("fp64")}), std::invalid_argument);
    EXPECT_THROW(
        cast_statistics(x, Quantizer(format("e4m3"), {.rounding = RoundingMode::stochastic_exact})),
        std::invalid_argument);
    EXPECT_THROW(cast_statistics(x, q, seven), std::invalid_argument);
    EXPECT_THROW(cast_statistics(x, q, x), std::invalid_argument);
    EXPECT_THROW(
        cast_statistics(std::span<const float>(x).first(4), q, std::span<float>(x).subspan(3, 4)),
        std::invalid_argument);
    cast_statistics(std::span<const float>(x).first(4), q, std::span<float>(x).last(4));
    for (const double wide : {0.1, 1e300, 0x1p-150}) {
        EXPECT_THROW(cast_statistics(std::vector<double>{1.0, wide}, q), std::invalid_argument)
            << wide;
    }
    try {
        cast_statistics(std::vector<double>{1.0, 0.1}, q);
    } catch (const std::invalid_argument& error) {
        EXPECT_STREQ(error.what(), "element 1 is 0.1, which is not an fp32 number; statistics need "
                                   "fp32 numbers, so convert to float first");
    }
}

TEST(CppStatistics, LinesAlongAnAxis) {
    const std::vector<float> given = numbers(3 * 5 * 7);
    xt::xtensor<float, 3> x = xt::xtensor<float, 3>::from_shape({3, 5, 7});
    std::copy(given.begin(), given.end(), x.data());
    const Quantizer q(format("e4m3"), {.rounding = RoundingMode::stochastic}, 4);
    expect_same(cast_statistics(x, q), cast_statistics(given, q));
    for (const std::ptrdiff_t axis : {0, 1, 2, -1, -3}) {
        const std::size_t along = static_cast<std::size_t>(axis < 0 ? axis + 3 : axis),
                          a = along == 0 ? 1 : 0, b = along == 2 ? 1 : 2;
        const CastStatisticsArrays all = cast_statistics(x, q, axis);
        ASSERT_EQ(all.nmse.shape(), (xt::xarray<double>::shape_type{x.shape(a), x.shape(b)}));
        for (std::size_t i = 0; i < x.shape(a); ++i) {
            for (std::size_t j = 0; j < x.shape(b); ++j) {
                std::vector<float> line;
                for (std::size_t k = 0; k < x.shape(along); ++k)
                    line.push_back(along == 0 ? x(k, i, j) : along == 1 ? x(i, k, j) : x(i, j, k));
                CastStatistics one;
                detail::for_each_statistic(
                    one, all, [&](auto& number, const auto& array) { number = array(i, j); });
                expect_same(one, cast_statistics(line, q));
            }
        }
    }
    // A lazy expression, doubles that are fp32 numbers; one line, no lines, empty lines.
    const CastStatisticsArrays halves = cast_statistics(xt::cast<double>(x) * 0.5, q, 1);
    EXPECT_TRUE(xt::all(xt::equal(halves.sum_error, cast_statistics(x * 0.5f, q, 1).sum_error)));
    const xt::xtensor<float, 1> row = {1.0f, 1.05f};
    EXPECT_EQ(cast_statistics(row, q, 0).count(), 2);
    EXPECT_EQ(cast_statistics(xt::xtensor<float, 2>::from_shape({0, 4}), q, 1).count.size(), 0u);
    EXPECT_EQ(cast_statistics(xt::xtensor<float, 2>::from_shape({4, 0}), q, 1).count,
              (xt::xarray<std::int64_t>{0, 0, 0, 0}));
    EXPECT_THROW((void)cast_statistics(x, q, 3), std::invalid_argument);
    EXPECT_THROW((void)cast_statistics(x / 3.0, q, 0), std::invalid_argument);
}

}  // namespace
