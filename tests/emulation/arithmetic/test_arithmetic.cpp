// Arithmetic against exact integers: every pair of operands of 8-bit formats, every triple of 4-bit
// ones, every root, in every mode.
//
// The check represents a format as a sorted table of integers, its magnitudes in units of
// 2^-unit_bits, and an exact result as a fraction of two integers; it shares only the table with
// the rule.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/named_formats.h"
#include "core/oracle/decision.h"
#include "emulation/arithmetic/arithmetic.h"

using namespace apscope;
using namespace apscope::detail;

namespace {

using Wide = __int128;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// sign * numerator / denominator units, or the root of that in units, or a number that is not
// finite.
struct Exact {
    bool negative = false;
    Wide numerator = 0, denominator = 1;
    bool root = false;
    double special = 0;  // infinity or NaN
};

struct Table {
    FloatFormat format;
    int unit_bits = 0;
    std::vector<std::int64_t> magnitudes;  // the magnitudes of all codes, and one above
    std::vector<float> operands;           // every value, both signs, infinities, NaN

    explicit Table(const char* name) : format(parse_format(name)) {
        unit_bits = -std::ilogb(format.smallest_positive()) +
                    (format.subnormals ? 0 : format.mantissa_bits);
        for (std::uint64_t code = 0; code <= format.top_finite_code(); ++code)
            add(format.magnitude(code));
        const double largest = format.largest();
        magnitudes.push_back(magnitudes.back() +
                             units(std::ldexp(1.0, std::ilogb(largest) - format.mantissa_bits)));
        operands.insert(operands.end(), {static_cast<float>(infinity),
                                         static_cast<float>(-infinity), static_cast<float>(nan)});
    }
    std::int64_t units(double x) const {
        return static_cast<std::int64_t>(std::ldexp(x, unit_bits));
    }
    void add(double magnitude) {
        magnitudes.push_back(units(magnitude));
        operands.push_back(static_cast<float>(magnitude));
        operands.push_back(static_cast<float>(-magnitude));
    }
};

// Compares the exact number with t units: -1, 0 or 1.
int compare(const Exact& x, std::int64_t t) {
    const Wide right = x.root ? static_cast<Wide>(t) * t : static_cast<Wide>(t) * x.denominator;
    return x.numerator < right ? -1 : x.numerator > right ? 1 : 0;
}
int compare_with_middle(Exact x, std::int64_t lower, std::int64_t upper) {
    x.numerator *= x.root ? 4 : 2;
    return compare(x, lower + upper);
}

double expected(const Exact& x, const Table& table, RoundingMode mode, int random_bits,
                std::uint64_t random) {
    const FloatFormat& f = table.format;
    if (std::isnan(x.special)) return nan;
    const auto signed_value = [&](double v) { return x.negative ? -v : v; };
    const double special = f.has_infinity ? signed_value(infinity)
                           : f.has_nan()  ? nan
                                          : signed_value(f.largest());
    if (x.special != 0) return special;
    if (x.numerator == 0) return f.zero == Zero::both_signs ? signed_value(0.0) : 0.0;
    // The last magnitude that is not above x; the one after the largest closes the table.
    std::size_t lower = 0, end = table.magnitudes.size();
    while (end - lower > 1) {
        const std::size_t middle = (lower + end) / 2;
        (compare(x, table.magnitudes[middle]) >= 0 ? lower : end) = middle;
    }
    std::size_t chosen = lower;
    if (lower + 1 < table.magnitudes.size() && compare(x, table.magnitudes[lower]) != 0) {
        const std::int64_t low = table.magnitudes[lower], high = table.magnitudes[lower + 1];
        const int side = compare_with_middle(x, low, high);
        // With one digit every significand but that of 0 is 1: odd.
        const bool odd = f.mantissa_bits == 0 ? lower != 0 : lower % 2 == 1;
        if (!is_stochastic(mode)) {
            chosen += oracle::takes_upper(mode, side, odd, x.negative);
        } else if (mode != RoundingMode::stochastic_exact) {  // arithmetic does not have that
            const Wide part = (x.numerator - low * x.denominator) << random_bits,
                       whole = (high - low) * x.denominator;
            Wide count = part / whole;  // the random integers that round up
            const Wide twice = 2 * (part % whole);
            if (mode == RoundingMode::stochastic_b) count += twice >= whole;
            if (mode == RoundingMode::stochastic_c)
                count += twice > whole || (twice == whole && count % 2 == 1);
            if (mode == RoundingMode::stochastic_equal) count = Wide{1} << (random_bits - 1);
            chosen += static_cast<Wide>(random >> (64 - random_bits)) + count >= Wide{1}
                                                                                     << random_bits;
        }
    }
    if (chosen + 1 == table.magnitudes.size()) {
        return oracle::stays_finite(mode, x.negative) ? signed_value(f.largest()) : special;
    }
    if (chosen == 0) return f.zero == Zero::both_signs ? signed_value(0.0) : 0.0;
    return signed_value(
        std::ldexp(static_cast<double>(table.magnitudes[chosen]), -table.unit_bits));
}

// The exact a op b op c. Special operands as IEEE 754 sections 6 and 7 list them.
Exact exact(Operation op, double a, double b, double c, const Table& table, RoundingMode mode) {
    if (op == Operation::subtract) return exact(Operation::add, a, -b, 0, table, mode);
    if (op == Operation::add) return exact(Operation::fma, a, 1.0, b, table, mode);
    const bool sign = std::signbit(a) != (op != Operation::sqrt && std::signbit(b));
    const double infinite = infinity;
    const Wide one = Wide{1} << table.unit_bits,
               A = table.units(std::isfinite(a) ? std::abs(a) : 0);
    if (std::isnan(a)) return {.special = nan};
    if (op == Operation::sqrt) {
        if (a < 0) return {.special = nan};
        if (std::isinf(a)) return {.special = infinite};
        return {.negative = std::signbit(a), .numerator = A * one, .root = true};
    }
    if (std::isnan(b)) return {.special = nan};
    const Wide B = table.units(std::isfinite(b) ? std::abs(b) : 0);
    if (op == Operation::divide) {
        if ((a == 0 && b == 0) || (std::isinf(a) && std::isinf(b))) return {.special = nan};
        if (std::isinf(a) || b == 0) return {.negative = sign, .special = infinite};
        if (std::isinf(b)) return {.negative = sign};
        return {.negative = sign, .numerator = A * one, .denominator = B};
    }
    const bool infinite_product = std::isinf(a) || std::isinf(b);
    if (infinite_product && (a == 0 || b == 0)) return {.special = nan};
    if (op == Operation::multiply) {
        if (infinite_product) return {.negative = sign, .special = infinite};
        return {.negative = sign, .numerator = A * B, .denominator = one};
    }
    if (std::isnan(c) || (infinite_product && std::isinf(c) && std::signbit(c) != sign))
        return {.special = nan};
    if (infinite_product) return {.negative = sign, .special = infinite};
    if (std::isinf(c)) return {.negative = std::signbit(c), .special = infinite};
    // b may be the 1 of a sum, which not every format has.
    const Wide product = std::abs(b) == 1 ? A * one : A * B;
    const Wide addend = table.units(std::abs(c)) * one;
    const Wide sum = (sign ? -product : product) + (std::signbit(c) ? -addend : addend);
    if (sum == 0)
        return {.negative = sign == std::signbit(c) ? sign : mode == RoundingMode::toward_negative};
    return {.negative = sum < 0, .numerator = sum < 0 ? -sum : sum, .denominator = one};
}

bool same(double a, double b) {
    return (std::isnan(a) && std::isnan(b)) ||
           std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

// Compares results element by element in one mode, and fails at the first difference.
void check(Operation op, const Table& table, RoundingMode mode, int random_bits,
           const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& c) {
    if (mode == RoundingMode::stochastic_exact) return;  // refused
    std::vector<float> got(a.size());
    const Projection projection{mode, Overflow::ieee, random_bits};
    arithmetic(op, a, b, c, got, table.format, projection, 7);
    const RandomStream stream = array_stream(7, random_bits);
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double y = operand_count(op) > 1 ? b[i] : 0, z = operand_count(op) > 2 ? c[i] : 0;
        const std::uint64_t random = is_stochastic(mode) ? stream.at(i) : 0;
        const double wanted =
            expected(exact(op, a[i], y, z, table, mode), table, mode, random_bits, random);
        ASSERT_TRUE(same(got[i], wanted))
            << table.format.name() << " " << to_string(op) << " " << to_string(mode) << " of "
            << a[i] << ", " << y << ", " << z << " gives " << got[i] << ", exactly " << wanted;
    }
}

struct Pairs {
    std::vector<float> a, b;
    explicit Pairs(const Table& t) {
        for (const float x : t.operands) {
            for (const float y : t.operands) {
                a.push_back(x);
                b.push_back(y);
            }
        }
    }
};

constexpr Operation binary_operations[] = {Operation::add, Operation::subtract, Operation::multiply,
                                           Operation::divide};
constexpr const char* small_formats[] = {"e4m3",
                                         "e4m3fn",
                                         "e5m2",
                                         "e3m0",
                                         "e2m1fn",
                                         "binary8p3se",
                                         "e3m4",
                                         "e3m2fn",
                                         "binary8p4se",
                                         "e4m3fnuz",
                                         "hfp8_forward",
                                         "e4m3fnnosub",
                                         "e4m3finiteb20sub-20"};

}  // namespace

TEST(Arithmetic, EveryPairOfOperandsInEveryMode) {
    for (const char* name : small_formats) {
        const Table table(name);
        const Pairs pairs(table);
        for (const Operation op : binary_operations) {
            for (int mode = 0; mode < rounding_mode_count; ++mode) {
                check(op, table, static_cast<RoundingMode>(mode), 8, pairs.a, pairs.b, {});
            }
        }
    }
}

TEST(Arithmetic, StochasticBeyondFp64sBits) {
    for (const char* name : {"e4m3", "e3m0", "e2m1fn", "hfp8_forward", "e4m3finiteb20sub-20"}) {
        const Table table(name);
        const Pairs pairs(table);
        for (const Operation op : binary_operations) {
            for (const RoundingMode mode :
                 {RoundingMode::stochastic, RoundingMode::stochastic_b, RoundingMode::stochastic_c,
                  RoundingMode::stochastic_equal}) {
                check(op, table, mode, 60, pairs.a, pairs.b, {});
            }
        }
    }
}

TEST(Arithmetic, EveryTripleOfFourBits) {
    for (const char* name : {"e2m1fn", "e3m0", "binary4p2sf", "e2m1finiteb2nosub"}) {
        const Table table(name);
        std::vector<float> a, b, c;
        for (const float x : table.operands) {
            for (const float y : table.operands) {
                for (const float z : table.operands) {
                    a.push_back(x);
                    b.push_back(y);
                    c.push_back(z);
                }
            }
        }
        for (int mode = 0; mode < rounding_mode_count; ++mode) {
            for (const int bits : {8, 60})
                check(Operation::fma, table, static_cast<RoundingMode>(mode), bits, a, b, c);
        }
    }
}

TEST(Arithmetic, EveryRoot) {
    for (const char* name : {"e4m3", "e4m3fn", "e5m2", "e3m0", "e2m1fn", "binary8p3se", "fp16"}) {
        const Table table(name);
        for (int mode = 0; mode < rounding_mode_count; ++mode) {
            if (is_stochastic(static_cast<RoundingMode>(mode)))
                continue;  // a root is not a fraction: see test_arithmetic.py
            check(Operation::sqrt, table, static_cast<RoundingMode>(mode), 8, table.operands, {},
                  {});
        }
    }
}

// Roots to odd against the 122 digits of the general path, over fp32 of all magnitudes.
TEST(Arithmetic, OddQuotientsAndRootsAreTheWideOnes) {
    std::mt19937_64 random(4);
    const auto to_fp64 = [](const WideNumber& w) {
        const auto top = static_cast<std::uint64_t>(w.significand >> 64);
        const int leading = top != 0
                                ? 127 - std::countl_zero(top)
                                : 63 - std::countl_zero(static_cast<std::uint64_t>(w.significand));
        const int drop = leading - 52;
        const auto kept = static_cast<std::uint64_t>(w.significand >> drop);
        const bool sticky =
            (w.significand & ((static_cast<unsigned __int128>(1) << drop) - 1)) != 0;
        const double magnitude =
            std::ldexp(static_cast<double>(kept | (sticky ? 1 : 0)), w.unit + drop);
        return w.negative ? -magnitude : magnitude;
    };
    for (int i = 0; i < 300000; ++i) {
        // Short significands too: their quotients and roots are often exact.
        const std::uint32_t mask = i % 3 == 0 ? 0xFFFFFFFF : i % 3 == 1 ? 0xFFFFF000 : 0xFFFC0000;
        const double a = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & mask);
        const double b = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & mask);
        if (!std::isfinite(a) || !std::isfinite(b) || a == 0 || b == 0) continue;
        ASSERT_EQ(divide_to_odd(a, b), to_fp64(divide_wide(a, b))) << a << " / " << b;
        ASSERT_EQ(sqrt_to_odd(std::abs(a)), to_fp64(sqrt_wide(std::abs(a)))) << a;
        const WideNumber root = sqrt_wide(std::abs(a));
        const auto head =
            static_cast<std::uint64_t>(root.significand >> 68);  // 54 bits or so: floor of the root
        const double scaled = std::ldexp(std::abs(a), -2 * (root.unit + 68));
        const auto square =
            static_cast<unsigned __int128>(scaled);  // exact: an integer of at most 110 bits
        ASSERT_TRUE(static_cast<unsigned __int128>(head) * head <= square &&
                    square < static_cast<unsigned __int128>(head + 1) * (head + 1))
            << a;
    }
}

TEST(Arithmetic, OperandsAndOutputsMustAgree) {
    const std::vector<float> two(2), three(3), one(1, 2.0f);
    std::vector<float> out(3);
    const FloatFormat f = parse_format("e4m3");
    EXPECT_THROW(arithmetic(Operation::add, two, three, {}, out, f, {}), std::invalid_argument);
    EXPECT_THROW(parse_operation("modulo"), std::invalid_argument);
    EXPECT_THROW(make_rounder(f, {RoundingMode::stochastic_exact}), std::invalid_argument);
    EXPECT_THROW(arithmetic(Operation::add, three, one, {}, out, parse_format("fp64"), {}),
                 std::invalid_argument);
    arithmetic(Operation::multiply, three, one, {}, out, f, {});
    EXPECT_EQ(out, (std::vector<float>{0, 0, 0}));
}
