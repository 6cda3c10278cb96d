// Quantizer: single numbers, arrays, strided views and codes agree in every rounding mode; wrong
// calls are refused.
#include <apscope/apscope.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace {

using namespace apscope;

constexpr std::array<RoundingMode, rounding_mode_count> modes = [] {
    std::array<RoundingMode, rounding_mode_count> all;
    for (int i = 0; i < rounding_mode_count; ++i)
        all[static_cast<std::size_t>(i)] = static_cast<RoundingMode>(i);
    return all;
}();

// Numbers of every exponent, specials first.
template <class Real>
std::vector<Real> numbers(std::size_t count) {
    using Bits = std::conditional_t<std::is_same_v<Real, float>, std::uint32_t, std::uint64_t>;
    const Real infinity = std::numeric_limits<Real>::infinity();
    std::vector<Real> x = {0,
                           -Real{0},
                           infinity,
                           -infinity,
                           std::numeric_limits<Real>::quiet_NaN(),
                           std::numeric_limits<Real>::denorm_min()};
    std::mt19937_64 random(1);
    while (x.size() < count) x.push_back(std::bit_cast<Real>(static_cast<Bits>(random())));
    for (std::size_t i = 10; i < count; i += 2)
        x[i] = static_cast<Real>(std::ldexp(static_cast<double>(random() % 4096) - 2048.0,
                                            static_cast<int>(random() % 40) - 25));
    return x;
}

template <class Real>
bool same_bits(Real a, Real b) {
    using Bits = std::conditional_t<std::is_same_v<Real, float>, std::uint32_t, std::uint64_t>;
    return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
}

template <class Real>
void numbers_and_arrays_agree(const FloatFormat& f, const Projection& p) {
    const Quantizer q(f, p, 42);
    const std::vector<Real> x = numbers<Real>(1500);
    std::vector<Real> y(x.size());
    q(std::span<const Real>(x), std::span<Real>(y), 7);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const Real one = q(x[i], 7 + i);
        ASSERT_TRUE(same_bits(one, y[i])) << f.name() << " " << to_string(p.rounding) << " " << x[i]
                                          << ": " << one << " and " << y[i];
    }
}

TEST(CppQuantizer, OneNumberIsTheArrays) {
    for (const char* name : {"e4m3", "e5m2", "float8_e4m3fnuz", "binary8p3se", "e2m1fn", "bf16",
                             "fp32", "e8m0", "e3m2nosub", "e4m3u"}) {
        for (const RoundingMode mode : modes) {
            numbers_and_arrays_agree<float>(format(name), {.rounding = mode});
            numbers_and_arrays_agree<double>(format(name), {.rounding = mode});
        }
        numbers_and_arrays_agree<float>(
            format(name), {.overflow = Overflow::saturate, .underflow = Underflow::flush_both});
        numbers_and_arrays_agree<float>(
            format(name),
            {.rounding = RoundingMode::stochastic, .random_bits = 5, .keep_payload = true});
    }
    for (const RoundingMode mode : modes)
        numbers_and_arrays_agree<double>(format("e11m30"), {.rounding = mode});
}

TEST(CppQuantizer, KnownValues) {
    const Quantizer q{format("e4m3")};
    EXPECT_EQ(q(0.1f), 0.1015625f);
    EXPECT_EQ(q(0.1), 0.1015625);
    EXPECT_EQ(q(247.0f), 240.0f);
    EXPECT_EQ(q(248.0f), std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(q(std::nanf(""))));
    const Quantizer clamp{format("e4m3"),
                          {.rounding = RoundingMode::toward_zero, .overflow = Overflow::saturate}};
    EXPECT_EQ(clamp(std::numeric_limits<float>::infinity()), 240.0f);
    EXPECT_EQ(clamp(-1.99f), -1.875f);
    EXPECT_EQ(q.format(), format("e4m3"));
    EXPECT_EQ(clamp.projection().overflow, Overflow::saturate);
}

TEST(CppQuantizer, TheCallersFloatEnvironmentChangesNothing) {
    const std::vector<float> x = numbers<float>(600);
    for (const RoundingMode mode : {RoundingMode::ties_to_even, RoundingMode::stochastic}) {
        for (const char* name : {"e4m3", "e8m3", "e2m1fn"}) {
            const Quantizer q(format(name), {.rounding = mode}, 3);
            std::vector<float> expected(x.size()), y(x.size());
            q(x, expected);
            std::fesetround(FE_UPWARD);
#if defined(__SSE__)
            const unsigned control = _mm_getcsr();
            _mm_setcsr(control | 0x8040);  // flush subnormal results and inputs
#endif
            q(x, y);
            std::vector<float> one(x.size()), scaled(x.size());
            q.scaled(3.0, x, scaled);
            for (std::size_t i = 0; i < x.size(); ++i) one[i] = q(x[i], i);
#if defined(__SSE__)
            _mm_setcsr(control);
#endif
            std::fesetround(FE_TONEAREST);
            std::vector<float> expected_scaled(x.size());
            q.scaled(3.0, x, expected_scaled);
            for (std::size_t i = 0; i < x.size(); ++i) {
                ASSERT_TRUE(same_bits(scaled[i], expected_scaled[i])) << name << " " << x[i];
                ASSERT_TRUE(same_bits(y[i], expected[i])) << name << " " << x[i];
                ASSERT_TRUE(same_bits(one[i], expected[i])) << name << " " << x[i];
            }
        }
    }
}

// Compares with the definition: an fp64 product, the rule for one fp64 number, an fp64 quotient.
template <class Real>
void scaled_arrays_follow_the_rule(const FloatFormat& f, const Projection& p, double scale) {
    const Quantizer q(f, p, 5, 2);
    const std::vector<Real> x = numbers<Real>(70'000);  // enough for two threads
    std::vector<Real> y(x.size()), plain(x.size());
    q.scaled(scale, x, y, 11);
    q(std::span<const Real>(x), std::span<Real>(plain), 11);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double rounded = q(static_cast<double>(x[i]) * scale, 11 + i);
        const Real expected = std::isnan(x[i]) ? plain[i] : static_cast<Real>(rounded / scale);
        ASSERT_TRUE(std::isnan(expected) ? std::isnan(y[i]) : same_bits(y[i], expected))
            << f.name() << " " << to_string(p.rounding) << " " << x[i] << " by " << scale;
    }
    q.scaled(1.0, x, y, 11);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_TRUE(same_bits(y[i], plain[i])) << x[i];
}

TEST(CppQuantizer, AScaleMultipliesBeforeAndDividesAfter) {
    for (const RoundingMode mode : modes) {
        for (const double scale : {0x1p16, 3.0, 0.1, 0x1p-300}) {
            scaled_arrays_follow_the_rule<float>(format("e4m3"), {.rounding = mode}, scale);
            scaled_arrays_follow_the_rule<double>(format("e5m10"), {.rounding = mode}, scale);
        }
    }
    const Projection kept{.overflow = Overflow::saturate, .keep_payload = true};
    scaled_arrays_follow_the_rule<float>(format("bf16"), kept, 7.0);
    const Quantizer q{format("e4m3")};
    std::vector<float> x = {1e-5f, -3e-6f}, y(2), none;
    q.scaled(65536.0, x, x);  // in place
    EXPECT_EQ(x, (std::vector<float>{0x1.4p-17f, -0x1.ap-19f}));
    q.scaled(2.0, none, none);
    for (const double wrong : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()})
        EXPECT_THROW(q.scaled(wrong, x, y), std::invalid_argument) << wrong;
    EXPECT_THROW(q.scaled(2.0, x, none), std::invalid_argument);
    std::vector<float> narrow(1);
    EXPECT_THROW(Quantizer{format("e11m30")}.scaled(2.0, std::span<const float>(narrow), narrow),
                 std::invalid_argument);
}

TEST(CppQuantizer, ViewsOfAnyLayout) {
    const Quantizer q(format("e4m3"), {.rounding = RoundingMode::stochastic}, 9);
    constexpr std::size_t rows = 37, columns = 300;
    std::vector<float> x = numbers<float>(rows * columns), expected(x.size()), y(x.size(), 0.0f);
    q(x, expected);
    // The input is the same array in Fortran order; the rows of the output run backwards.
    std::vector<float> turned(x.size());
    for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j) turned[j * rows + i] = x[i * columns + j];
    }
    const std::size_t shape[] = {rows, columns};
    const std::ptrdiff_t from[] = {1, rows}, to[] = {columns, -1};
    q(StridedView<const float>{turned.data(), shape, from},
      StridedView<float>{y.data() + columns - 1, shape, to});
    for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j)
            ASSERT_TRUE(same_bits(y[i * columns + columns - 1 - j], expected[i * columns + j]));
    }
    // A single number, and no numbers.
    const std::size_t none[] = {3, 0};
    q(StridedView<const float>{nullptr, none, from}, StridedView<float>{nullptr, none, from});
    double one = 0.1, result = 0;
    q(StridedView<const double>{&one, {}, {}}, StridedView<double>{&result, {}, {}});
    EXPECT_EQ(result, q(0.1));
    const std::size_t other[] = {columns, rows};
    EXPECT_THROW(q(StridedView<const float>{x.data(), shape, from},
                   StridedView<float>{y.data(), other, from}),
                 std::invalid_argument);
    EXPECT_THROW(
        q(StridedView<const float>{x.data(), shape, {}}, StridedView<float>{y.data(), shape, from}),
        std::invalid_argument);
}

TEST(CppQuantizer, CodesComeBack) {
    for (const char* name :
         {"e4m3", "float8_e4m3fnuz", "e2m1fn", "e3m2", "bf16", "fp16", "e11m20"}) {
        const Quantizer q{format(name)};
        const std::uint64_t count = std::uint64_t{1} << std::min(format(name).storage_bits(), 16);
        for (std::uint64_t code = 0; code < count; ++code) {
            const double value = q.decode(code);
            if (std::isnan(value)) continue;
            const bool is_zero = value == 0 && !std::signbit(value);
            ASSERT_EQ(q.encode(value), is_zero ? 0 : code) << name;
        }
    }
    const Quantizer q{format("float8_e5m2")};
    const std::vector<float> x = {1.0f, -1.0f, 0.3f};
    std::vector<std::uint8_t> codes(3);
    q.encode(x, codes);
    EXPECT_EQ(codes, (std::vector<std::uint8_t>{0x3C, 0xBC, 0x35}));
    std::vector<double> back(3);
    q.decode(codes, back);
    EXPECT_EQ(back, (std::vector<double>{1.0, -1.0, 0.3125}));
    const Quantizer no_nan{format("e2m1fn")};
    EXPECT_THROW((void)no_nan.encode(std::nan("")), std::invalid_argument);
    EXPECT_EQ(no_nan.encode(std::nan(""), 8), 8u);
}

TEST(CppQuantizer, WhatIsRefused) {
    EXPECT_THROW((void)format("e4m3x"), std::invalid_argument);
    EXPECT_THROW(
        Quantizer(format("e4m3"), {.rounding = RoundingMode::stochastic, .random_bits = 65}),
        std::invalid_argument);
    EXPECT_THROW(Quantizer(format("e4m3"), {}, 0, -1), std::invalid_argument);
    FloatFormat wrong;
    wrong.mantissa_bits = 60;
    EXPECT_THROW(Quantizer{wrong}, std::invalid_argument);
    const Quantizer wide{format("e11m30")};
    EXPECT_THROW((void)wide(1.0f), std::invalid_argument);
    EXPECT_EQ(wide(1.0), 1.0);
    const Quantizer q{format("e4m3")};
    std::vector<float> two(2), three(3);
    EXPECT_THROW(q(two, three), std::invalid_argument);
    EXPECT_THROW((void)q(ExactNumber{.low = 5, .inexact = true}), std::invalid_argument);
    EXPECT_THROW((void)q(ExactNumber{.high = std::uint64_t{1} << 62}), std::invalid_argument);
    EXPECT_EQ(q(ExactNumber{}), 0.0);
    EXPECT_TRUE(std::signbit(q(ExactNumber{.exponent = 2000, .negative = true})));
    EXPECT_THROW((void)q(ExactNumber{.inexact = true}), std::invalid_argument);
}

}  // namespace
