// Boost.Multiprecision: exact values of codes; numbers of any precision are rounded once, as a
// search among exact values shows.
#include <apscope/multiprecision.h>
#include <gtest/gtest.h>

#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>
#ifdef APSCOPE_HAS_MPFR
#include <boost/multiprecision/mpfr.hpp>
#endif

namespace {

using namespace apscope;
using boost::multiprecision::cpp_int;
using boost::multiprecision::cpp_rational;

TEST(CppMultiprecision, ExactValues) {
    EXPECT_EQ(exact_value(format("e4m3"), 0x01), cpp_rational(1, 512));
    EXPECT_EQ(exact_value(format("e4m3"), 0xF7), cpp_rational(-240));
    EXPECT_EQ(exact_value(format("fp64"), 1), cpp_rational(1, cpp_int(1) << 1074));
    EXPECT_THROW(exact_value(format("e4m3"), 0x78), std::invalid_argument);  // infinity
    EXPECT_THROW(exact_value(format("e4m3"), 0x79), std::invalid_argument);  // NaN
    EXPECT_THROW(exact_value(format("e4m3"), 0x100), std::invalid_argument);
}

// The nearest value of a format, found by comparing with all values, ties to the even code; it uses
// no code of the rounding rule.
double nearest(const std::vector<cpp_rational>& values, const cpp_rational& x) {
    const cpp_rational magnitude = abs(x);
    std::size_t above = 0;
    while (above < values.size() && values[above] < magnitude) ++above;
    std::size_t best = above;
    if (above == values.size()) {
        const cpp_rational next =
            2 * values[above - 1] - values[above - 2];  // where the next value would be
        const cpp_rational middle = (values[above - 1] + next) / 2;
        if (magnitude >= middle)
            return x < 0 ? -std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::infinity();
        best = above - 1;
    } else if (above > 0) {
        const cpp_rational down = magnitude - values[above - 1], up = values[above] - magnitude;
        best = up < down || (up == down && above % 2 == 0) ? above : above - 1;
    }
    const double result = values[best].convert_to<double>();
    return x < 0 ? -result : result;
}

TEST(CppMultiprecision, OneRoundingWhateverThePrecision) {
    const cpp_int far = cpp_int(1) << 300;
    std::mt19937_64 random(3);
    for (const char* name : {"e4m3", "e5m2", "e3m4", "e2m5", "e3m3b5"}) {
        const FloatFormat f = format(name);
        const Quantizer q(f);
        std::vector<cpp_rational> values;
        for (std::uint64_t code = 0; code <= f.top_finite_code(); ++code)
            values.push_back(exact_value(f, code));
        const auto check = [&](const cpp_rational& x) {
            ASSERT_EQ(round(x, q), nearest(values, x)) << name << " " << x;
            ASSERT_EQ(round(cpp_rational(-x), q), nearest(values, -x)) << name << " " << x;
        };
        for (std::size_t i = 0; i + 1 < values.size(); ++i) {
            const cpp_rational middle = (values[i] + values[i + 1]) / 2;
            check(values[i]);
            check(middle);
            // So close to the middle that fp64 and numbers of 126 bits would round them to the
            // middle, which would give wrong results.
            check(middle + cpp_rational(1, far));
            check(middle - cpp_rational(1, far));
            check(values[i] +
                  cpp_rational(random() % 1000 + 1, 7919) * (values[i + 1] - values[i]));
        }
        check(2 * values.back() - values[values.size() - 2]);
        check(cpp_rational(far));
        check(cpp_rational(1, far * far * far * far));
    }
}

template <class Float>
void floats_round_as_rationals() {
    const Quantizer even(format("e4m3")), odd(format("e4m3"), {.rounding = RoundingMode::to_odd}),
        up(format("e5m2"), {.rounding = RoundingMode::toward_positive});
    std::mt19937_64 random(4);
    for (int i = 0; i < 500; ++i) {
        Float x(static_cast<double>(random() % 100000) - 50000.0);
        x /= 3;
        x = ldexp(x, static_cast<int>(random() % 40) - 30);
        cpp_rational exact = 0;  // the stored value of x
        int exponent = 0;
        Float rest = frexp(x, &exponent);
        for (int k = 1; k <= 40 && rest != 0; ++k) {
            rest = ldexp(rest, 32);
            const auto digits = rest.template convert_to<std::int64_t>();
            rest -= digits;
            exact += cpp_rational(cpp_int(digits), cpp_int(1) << 32 * k);
        }
        ASSERT_EQ(rest, 0);
        exact *= exponent >= 0 ? cpp_rational(cpp_int(1) << exponent)
                               : cpp_rational(1, cpp_int(1) << -exponent);
        for (const Quantizer* q : {&even, &odd, &up})
            ASSERT_EQ(round(x, *q), round(exact, *q)) << exact;
    }
    // 1 + 2^-4 is a tie in e4m3, so the last bit of a longer number decides.
    Float x = 1;
    x += ldexp(Float(1), -4);
    EXPECT_EQ(round(x, even), 1.0);
    Float more = x;
    more += ldexp(Float(1), 1 - std::min(std::numeric_limits<Float>::digits == 0
                                             ? 200
                                             : std::numeric_limits<Float>::digits,
                                         200));
    EXPECT_EQ(round(more, even), 1.125);
    EXPECT_EQ(round(Float(std::numeric_limits<Float>::infinity()), even),
              std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isnan(round(Float(std::numeric_limits<Float>::quiet_NaN()), even)));
    const double zero = round(Float(-Float(0)), even);
    EXPECT_EQ(zero, 0.0);
}

TEST(CppMultiprecision, BinaryFloats) {
    using namespace boost::multiprecision;
    floats_round_as_rationals<cpp_bin_float_50>();
    floats_round_as_rationals<cpp_bin_float_quad>();
    floats_round_as_rationals<cpp_bin_float_single>();
    floats_round_as_rationals<number<cpp_bin_float<300, digit_base_2>, et_off>>();
#ifdef APSCOPE_HAS_MPFR
    floats_round_as_rationals<mpfr_float_100>();
    mpfr_float::default_precision(100);
    floats_round_as_rationals<mpfr_float>();
    mpfr_float::default_precision(
        10);  // fewer bits than the number below, whose own precision must be used
    mpfr_float x(1, 200);
    x += ldexp(mpfr_float(1, 200), -4);
    x += ldexp(mpfr_float(1, 200), -150);
    EXPECT_EQ(round(x, Quantizer(format("e4m3"))), 1.125);
#endif
}

TEST(CppMultiprecision, IntegersSpecialsAndDraws) {
    const FloatFormat f = format("e4m3");
    EXPECT_EQ(round(cpp_int(17), f), 16.0);
    EXPECT_EQ(round(cpp_int(-19), f), -20.0);
    EXPECT_EQ(round(cpp_rational(0), f), 0.0);
    EXPECT_EQ(round(cpp_rational(1, 3), f, {.rounding = RoundingMode::toward_positive}), 0.34375);
    EXPECT_EQ(round(cpp_rational(-1, 1000), f, {.underflow = Underflow::flush_input}), 0.0);
    EXPECT_TRUE(
        std::signbit(round(cpp_rational(-1, 1000), f, {.underflow = Underflow::flush_input})));
    EXPECT_EQ(round(cpp_int(1) << 5000, f, {.overflow = Overflow::saturate}), 240.0);
    EXPECT_THROW(round(cpp_rational(1, 3), f, {.rounding = RoundingMode::stochastic_exact}),
                 std::invalid_argument);
    // Numbers that fp64 represents draw the same words as an array.
    for (const RoundingMode mode : {RoundingMode::stochastic, RoundingMode::stochastic_b,
                                    RoundingMode::stochastic_c, RoundingMode::to_odd}) {
        const Quantizer q(format("e3m3b5"), {.rounding = mode, .random_bits = 20}, 11);
        for (std::uint64_t i = 0; i < 2000; ++i) {
            const double x = std::ldexp(static_cast<double>(i * 2654435761u % 100003) - 50000.0,
                                        -18 + static_cast<int>(i % 20));
            ASSERT_EQ(round(cpp_rational(x), q, i), q(x, i)) << x;
        }
    }
}

}  // namespace
