// Boost.Multiprecision: integers and rationals of every backend round like cpp_int and
// cpp_rational, and expressions like their values.
#include <apscope/multiprecision.h>
#include <gtest/gtest.h>

#include <boost/multiprecision/cpp_bin_float.hpp>
#include <limits>
#include <vector>
#ifdef APSCOPE_HAS_MPFR
#include <boost/multiprecision/gmp.hpp>
#include <boost/multiprecision/mpfr.hpp>
#endif

namespace {

using namespace apscope;
using boost::multiprecision::cpp_int;
using boost::multiprecision::cpp_rational;

// If the type has expression templates, the arguments are expressions, else numbers.
template <class Integer>
void integers_round_as_cpp_int() {
    const Quantizer q(format("e4m3"), {.rounding = RoundingMode::toward_positive});
    std::vector<Integer> all = {Integer(0), std::numeric_limits<Integer>::max(),
                                std::numeric_limits<Integer>::min()};
    for (int i = 0; i < 300; ++i) all.push_back(Integer(i));
    if (std::numeric_limits<Integer>::is_signed) {
        for (int i = 1; i < 300; ++i) all.push_back(Integer(-i));
    }
    for (const Integer& x : all) ASSERT_EQ(round(x, q), round(cpp_int(x), q)) << x;
    const Integer a = 17, b = 3;
    EXPECT_EQ(round(a * b + 1, Quantizer(format("e4m3"))), 52.0);
    EXPECT_EQ(round(a, format("e4m3")), 16.0);
    EXPECT_EQ(round(a + b, format("e4m3"), {.rounding = RoundingMode::toward_zero}), 20.0);
}
template <class Rational>
void rationals_round_as_cpp_rational() {
    const Quantizer q(format("e5m2"));
    for (int numerator = -60; numerator < 60; ++numerator) {
        const Rational a = numerator, b = 7 * 256;
        const double expected = round(cpp_rational(numerator) / (7 * 256), q);
        ASSERT_EQ(round(a / b, q), expected) << numerator;
        ASSERT_EQ(round(Rational(a / b), q), expected) << numerator;
    }
    Rational small = 1;
    for (int i = 0; i < 1000; ++i) small /= 2;
    const Rational tie = Rational(17) / 16;
    EXPECT_EQ(round(tie, format("e4m3")), 1.0);
    EXPECT_EQ(round(tie + small, format("e4m3")), 1.125);
}
template <class Float>
void expressions_of_floats_are_evaluated() {
    const Quantizer q(format("e4m3"));
    const Float a = 17, b = 16, tiny = ldexp(Float(1), -90);
    EXPECT_EQ(round(a / b, q), 1.0);
    EXPECT_EQ(round(a / b + tiny, q), 1.125);
    EXPECT_EQ(round(-(a / b + tiny), q, 3), -1.125);
    EXPECT_EQ(round(a / b + tiny, format("e4m3"), {.rounding = RoundingMode::toward_zero}), 1.0);
    EXPECT_EQ(round(sqrt(a * a), q), 16.0);
}

TEST(CppMultiprecision, NumbersOfEveryBackend) {
    using namespace boost::multiprecision;
    integers_round_as_cpp_int<int128_t>();
    integers_round_as_cpp_int<uint128_t>();
    integers_round_as_cpp_int<checked_int256_t>();
    integers_round_as_cpp_int<cpp_int>();
    integers_round_as_cpp_int<number<cpp_int_backend<>, et_off>>();
    rationals_round_as_cpp_rational<cpp_rational>();
    rationals_round_as_cpp_rational<number<cpp_rational_backend, et_off>>();
    expressions_of_floats_are_evaluated<cpp_bin_float_50>();
    expressions_of_floats_are_evaluated<number<cpp_bin_float<50>, et_on>>();
#ifdef APSCOPE_HAS_MPFR
    integers_round_as_cpp_int<mpz_int>();
    rationals_round_as_cpp_rational<mpq_rational>();
    expressions_of_floats_are_evaluated<mpfr_float_50>();
    expressions_of_floats_are_evaluated<number<mpfr_float_backend<50>, et_off>>();
    expressions_of_floats_are_evaluated<mpf_float_50>();
    mpfr_float::default_precision(10);  // the precision of the operands must be used
    const mpfr_float a(17, 60), b(16, 60), tiny = ldexp(mpfr_float(1, 60), -150);
    EXPECT_EQ(round(a / b, Quantizer(format("e4m3"))), 1.0);
    EXPECT_EQ(round(a / b + tiny, Quantizer(format("e4m3"))), 1.125);
#endif
}

}  // namespace
