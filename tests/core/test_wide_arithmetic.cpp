// Arithmetic on wide numbers in fp64 itself: in each of the four directions that processors have,
// every result is the processor's, bit for bit.
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <random>
#include <vector>

#include "core/exact_accumulator.h"
#include "core/named_formats.h"
#include "core/rounding.h"

namespace apscope::detail {
namespace {

// The processor's results: operands and results go through memory, so that nothing is computed
// early.
double in_hardware(Operation op, double a, double b, double c, int direction) {
    volatile double x = a, y = b, z = c, result = 0;
    std::fesetround(direction);
    switch (op) {
        case Operation::add: result = x + y; break;
        case Operation::subtract: result = x - y; break;
        case Operation::multiply: result = x * y; break;
        case Operation::divide: result = x / y; break;
        case Operation::sqrt: result = std::sqrt(x); break;
        case Operation::fma: result = std::fma(x, y, z); break;
    }
    std::fesetround(FE_TONEAREST);
    return result;
}

// Any bits; close exponents, where sums cancel; subnormals; the ends of the range; specials.
class Operands {
public:
    double any() {
        const std::uint64_t bits = random_();
        switch (random_() % 8) {
            case 0:
                return bits_cast<double>((bits & ~(std::uint64_t{0x7FF} << 52)) |
                                         (random_() % 4) << 52);  // subnormal, or nearly
            case 1:
                return bits_cast<double>((bits & ~(std::uint64_t{0x7FF} << 52)) |
                                         (2043 + random_() % 4) << 52);  // nearly too large
            case 2:
                return std::ldexp(
                    static_cast<double>(static_cast<std::int64_t>(bits) >> (random_() % 60)),
                    -30);  // few bits
            case 3: return specials_[bits % specials_.size()];
            case 4:
                return bits_cast<double>((bits & ~(std::uint64_t{0x7FF} << 52)) |
                                         (500 + random_() % 60)
                                             << 52);  // products near the subnormals
            case 5: return bits_cast<double>(bits);
            default:
                return bits_cast<double>((bits & ~(std::uint64_t{0x7FF} << 52)) |
                                         (1020 + random_() % 8) << 52);
        }
    }
    // The fp64 numbers around x.
    double near(double x) {
        return bits_cast<double>(bits_cast<std::uint64_t>(x) + random_() % 5 - 2);
    }
    std::uint64_t bits() { return random_(); }

private:
    std::mt19937_64 random_{11};
    std::vector<double> specials_ = {0.0,
                                     -0.0,
                                     1.0,
                                     -1.0,
                                     INFINITY,
                                     -INFINITY,
                                     NAN,
                                     0x1p-1074,
                                     -0x1p-1074,
                                     0x1p-1022,
                                     0x1.fffffffffffffp1023};
};

bool same(double a, double b) {
    return (std::isnan(a) && std::isnan(b)) ||
           bits_cast<std::uint64_t>(a) == bits_cast<std::uint64_t>(b);
}

template <RoundingMode M>
void expect_the_processor_s_results(int direction) {
    const Cast<double> cast = make_cast<double>(parse_format("fp64"), {M});
    Operands draw;
    const auto check = [&]<Operation Op>(double a, double b, double c) {
        const double got = operate_wide<Op, M>(a, b, c, cast, 0),
                     right = in_hardware(Op, a, b, c, direction);
        ASSERT_TRUE(same(got, right))
            << static_cast<int>(Op) << " " << to_string(M) << std::hexfloat << " of " << a << " "
            << b << " " << c << " gives " << got << ", not " << right;
    };
    for (int i = 0; i < 200'000; ++i) {
        const double a = draw.any(), b = i % 3 == 0 ? -draw.near(a) : draw.any();
        check.template operator()<Operation::add>(a, b, 0);
        check.template operator()<Operation::subtract>(a, b, 0);
        check.template operator()<Operation::multiply>(a, b, 0);
        check.template operator()<Operation::divide>(a, b, 0);
        check.template operator()<Operation::sqrt>(std::abs(a), 0, 0);
        const double c = i % 2 == 0 ? -draw.near(a * b) : draw.any();
        check.template operator()<Operation::fma>(a, b, c);
    }
}

TEST(WideArithmetic, Fp64ResultsAreTheProcessorsInEveryDirection) {
    expect_the_processor_s_results<RoundingMode::ties_to_even>(FE_TONEAREST);
    expect_the_processor_s_results<RoundingMode::toward_zero>(FE_TOWARDZERO);
    expect_the_processor_s_results<RoundingMode::toward_positive>(FE_UPWARD);
    expect_the_processor_s_results<RoundingMode::toward_negative>(FE_DOWNWARD);
}

// Operands around 1, and around the smallest values, where some formats have an irregular gap: sums
// of one sign too, which carry.
TEST(WideArithmetic, NarrowPathsAndWideNumbersAgreeOnFp32Operands) {
    Operands draw;
    for (const char* name :
         {"e4m3", "bf16", "fp32", "tf32", "dlfloat16", "hfp8_forward", "e5m2ub10nosub",
          "e4m3b3sub-3", "e4m3finiteb20sub-20", "binary8p1uf"}) {
        const int low = std::ilogb(parse_format(name).smallest_normal());
        for (const RoundingName& row : rounding_names) {
            const RoundingMode mode = row.mode;
            if (mode == RoundingMode::stochastic_exact) continue;
            const Cast<double> cast =
                make_cast<double>(parse_format(name), {mode, Overflow::ieee, 12});
            ASSERT_TRUE(odd_suffices(cast)) << name;
            dispatch(mode, [&]<RoundingMode M>() {
                for (int i = 0; i < 20'000; ++i) {
                    const auto fp32 = [&](int exponent) {
                        const double significand =
                            1 +
                            std::ldexp(static_cast<double>(draw.bits() >> (40 + draw.bits() % 20)),
                                       -24);
                        const double sign = draw.bits() % 2 == 0 ? 1 : -1;
                        return static_cast<double>(static_cast<float>(std::ldexp(
                            sign * significand, exponent + static_cast<int>(draw.bits() % 6) - 4)));
                    };
                    const int near = i % 2 == 0 ? 0 : low;
                    const double a = fp32(near), b = fp32(i % 4 < 2 ? near : 0),
                                 c = i % 3 == 0 ? fp32(near)
                                                : -static_cast<double>(static_cast<float>(a * b));
                    const std::uint64_t random = draw.bits() & ~std::uint64_t{0} << 52;
                    const auto check = [&]<Operation Op>(double x) {
                        const double odd = round_to_format<M, double>(
                            to_odd<Op>(x, b, c, M == RoundingMode::toward_negative), cast, random);
                        const double wide_result = operate_wide<Op, M>(x, b, c, cast, random);
                        ASSERT_TRUE(same(odd, wide_result))
                            << name << " " << to_string(M) << " " << static_cast<int>(Op)
                            << std::hexfloat << " " << x << " " << b << " " << c << ": " << odd
                            << ", wide " << wide_result;
                    };
                    check.template operator()<Operation::add>(a);
                    check.template operator()<Operation::multiply>(a);
                    check.template operator()<Operation::divide>(a);
                    check.template operator()<Operation::sqrt>(std::abs(a));
                    check.template operator()<Operation::fma>(a);
                }
            });
        }
    }
}

// a / b = (q + 1 / b) 2^-116 with b of 53 bits: past the middle of two counts of 62 random bits by
// less than 2^-168, which only the sticky bit of the quotient records.
TEST(WideArithmetic, QuotientsBarelyPastAMiddleRoundUp) {
    constexpr int bits = 62;
    const Cast<double> cast =
        make_cast<double>(parse_format("fp64"), {RoundingMode::stochastic_c, Overflow::ieee, bits});
    Operands draw;
    int even_counts = 0;
    for (int i = 0; i < 4000; ++i) {
        using Wide = unsigned __int128;
        const std::uint64_t b = (draw.bits() >> 11) | std::uint64_t{1} << 52 | 1;
        // a 2^116 = 1 modulo b: halve 1 as often, adding b where it is odd.
        std::uint64_t a = 1;
        for (int k = 0; k < 116; ++k) a = a % 2 == 0 ? a / 2 : (a + b) / 2;
        if (a <= b / 2) continue;  // the quotient's unit is 2^-53, eta 2^63 the last 63 bits of q
        std::uint64_t q = 0;       // the last 64 bits of the quotient
        Wide rest = a;
        for (int k = 0; k < 116; ++k) {
            rest *= 2;
            q = q << 1 | (rest >= b ? 1 : 0);
            if (rest >= b) rest -= b;
        }
        ASSERT_TRUE(rest == 1);
        if (q % 2 == 0) continue;
        const std::uint64_t count = (q >> 1 & ((std::uint64_t{1} << bits) - 1)) + 1,
                            first_up = (std::uint64_t{1} << bits) - count;
        even_counts += count % 2 == 1;  // the one below is even: a tie would stay there
        const auto divide = [&](std::uint64_t random) {
            return operate_wide<Operation::divide, RoundingMode::stochastic_c>(
                static_cast<double>(a), static_cast<double>(b), 0, cast, random << (64 - bits));
        };
        if (first_up == 0) continue;
        ASSERT_EQ(bits_cast<std::uint64_t>(divide(first_up)),
                  bits_cast<std::uint64_t>(divide(first_up - 1)) + 1)
            << a << " / " << b;
    }
    EXPECT_GT(even_counts, 300);
}

// Computes 122 binary digits of the root one by one, and whether a remainder is left.
WideNumber root_by_hand(double x) {
    using Wide = unsigned __int128;
    const Significand53 s = significand53(bits_cast<std::uint64_t>(x));
    const int parity = s.unit & 1;
    Wide root = 0, rest = 0;
    for (int i = 0; i < 122; ++i) {
        rest = rest << 2 | (i < 27 ? s.bits << parity >> (52 - 2 * i) & 3 : 0);
        root <<= 1;
        if (rest > root << 1) {
            rest -= root << 1 | 1;
            root |= 1;
        }
    }
    return {root | (rest != 0 ? 1 : 0), (s.unit - parity) / 2 - 95, false};
}

TEST(WideArithmetic, RootsAreThoseByHand) {
    Operands draw;
    for (int i = 0; i < 300'000; ++i) {
        // Squares of short numbers and their neighbours; powers of two and theirs; anything.
        const double short_root = static_cast<double>(draw.bits() >> (38 + draw.bits() % 20)),
                     any = std::abs(draw.any());
        const double x = i % 3 == 0   ? draw.near(short_root * short_root)
                         : i % 3 == 1 ? draw.near(std::ldexp(1.0, i % 200 - 100))
                                      : any;
        if (!is_finite(x) || !(x > 0)) continue;
        const WideNumber got = sqrt_wide(x), right = root_by_hand(x);
        ASSERT_TRUE(got.significand == right.significand && got.unit == right.unit)
            << std::hexfloat << x;
    }
}

TEST(WideArithmetic, ExactSumsOfProductsCancelToTheLastBit) {
    Fp64ProductSum sum;
    const double tiny = 0x1.8p-1074, huge = 0x1.fffffffffffffp1023, odd = 0x1.0000000000001p500;
    sum.add_product(huge, huge);
    sum.add_product(tiny, tiny);
    sum.add_product(odd, -odd);
    sum.add_product(-huge, huge);
    sum.add_product(odd, odd);
    const WideNumber left = sum.total();
    EXPECT_FALSE(left.negative);
    EXPECT_EQ(compare_magnitude(left, bits_cast<std::uint64_t>(0x1p-1074)),
              -1);  // (2^-1073)^2, as 1.5 2^-1074 is none
    sum.add_product(tiny, -tiny);
    EXPECT_TRUE(sum.total().significand == 0);
}

}  // namespace
}  // namespace apscope::detail
